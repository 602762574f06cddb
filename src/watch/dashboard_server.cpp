// Serves the dashboard with Boost.Beast. Access is decided in dashboard_request.cpp.
#include "watch/dashboard_server.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/system/error_code.hpp>
#include <cerrno>
#include <mutex>
#include <new>
#include <pthread.h>
#include <sys/socket.h>
#include <system_error>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

#include "watch/dashboard_files.hpp"
#include "watch/json.hpp"

namespace cenote::detail {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

using namespace std::chrono_literals;

constexpr int backlog = 128;

/// Fields of every response: the page may load only its own files and must not be framed. There is
/// no CORS field, so other sites cannot read responses.
constexpr std::array<std::pair<const char*, const char*>, 6> security_fields{{
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
}};

std::string_view view_of(beast::string_view text) { return {text.data(), text.size()}; }

/// At most a day: `forever` from now would overflow.
std::chrono::steady_clock::duration as_duration(std::chrono::nanoseconds time) {
    constexpr std::chrono::nanoseconds longest = 24h;
    return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::min(time, longest));
}

/// The status for a request that could not be read; zero if the client is gone.
unsigned status_for(const error_code& error) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
    if (error == http::error::body_limit) return 413;
    bool ended = error == http::error::end_of_stream || error == http::error::partial_message;
    bool malformed = error.category() == make_error_code(http::error::bad_method).category();
    return malformed && !ended ? 400 : 0;
}

std::string authority_of(const asio::ip::address& address, std::uint16_t port) {
    std::string host = address.is_v6() ? '[' + address.to_string() + ']' : address.to_string();
    return host + ':' + std::to_string(port);
}

/// The accepted values of `Host`: the address, and the configured names.
std::vector<std::string> hosts_of(const asio::ip::address& address, std::uint16_t port,
                                  const std::vector<std::string>& names) {
    constexpr std::uint16_t default_port = 80;
    std::vector<std::string> hosts = names;
    std::string at_port = ':' + std::to_string(port);
    std::vector<std::string> own;
    if (address.is_loopback() || address.is_unspecified())
        own = {"localhost", "127.0.0.1", "[::1]"};
    if (!address.is_unspecified())
        own.push_back(address.is_v6() ? '[' + address.to_string() + ']' : address.to_string());
    for (const std::string& each : own) {
        hosts.push_back(each + at_port);
        if (port == default_port) hosts.push_back(each);
    }
    return hosts;
}

std::mutex listeners_mutex;  // held across forks
fork_closed_listener* first_listener = nullptr;

bool register_fork_handlers() {
    static const bool registered =
        pthread_atfork(fork_closed_listener::lock_all, fork_closed_listener::unlock_all,
                       fork_closed_listener::close_all) == 0;
    return registered;
}

}  // namespace

void fork_closed_listener::set(int descriptor) {
    if (!register_fork_handlers()) throw std::bad_alloc();
    std::lock_guard lock(listeners_mutex);
    descriptor_ = descriptor;
    next_ = std::exchange(first_listener, this);
}

fork_closed_listener::~fork_closed_listener() {
    std::lock_guard lock(listeners_mutex);
    fork_closed_listener** at = &first_listener;
    while (*at != nullptr && *at != this) at = &(*at)->next_;
    if (*at == this) *at = next_;
}

void fork_closed_listener::lock_all() { listeners_mutex.lock(); }
void fork_closed_listener::unlock_all() { listeners_mutex.unlock(); }
void fork_closed_listener::close_all() {
    // Not through the acceptor, which shares its epoll descriptor with the parent.
    for (auto* each = std::exchange(first_listener, nullptr); each != nullptr; each = each->next_)
        ::close(each->descriptor_);
    listeners_mutex.unlock();
}

struct dashboard_server::request_parser : http::request_parser<http::string_body> {};

/// A connected client.
struct dashboard_server::client {
    explicit client(tcp::socket socket) : stream(std::move(socket)) {}

    beast::tcp_stream stream;
    // Room for one request.
    beast::flat_buffer buffer{header_max + body_max};
};

/// Keeps a client in the list while it is served.
class dashboard_server::client_registration {
public:
    client_registration(std::list<client*>& in, client* one) : in_(in), one_(one) {
        in_.push_back(one);
    }
    ~client_registration() { in_.remove(one_); }
    client_registration(const client_registration&) = delete;
    client_registration& operator=(const client_registration&) = delete;

    /// Makes the client the least idle one.
    void refresh() {
        auto at = std::ranges::find(in_, one_);
        if (at != in_.end()) in_.splice(in_.end(), in_, at);
    }

private:
    std::list<client*>& in_;
    client* one_;
};

struct dashboard_server::response {
    unsigned status = 200;
    std::string_view type = "application/json";
    std::string_view etag = {};
    std::string_view allow = {};
    std::string body = {};
    bool head_only = false;
    bool keep_alive = false;
};

dashboard_server::dashboard_server(const dashboard_options& settings,
                                   std::shared_ptr<dashboard_state> shown)
    : state_(std::move(shown)),
      max_connections_(settings.max_connections),
      request_timeout_(settings.request_timeout),
      idle_timeout_(settings.idle_timeout) {
    listen(settings);
    policy_.read_token = settings.read_token;
    policy_.control_token = settings.control_token;
    policy_.metrics = settings.serve_metrics;
    policy_.health = settings.serve_health;
    for (const embedded_file& each : dashboard_files()) policy_.files.emplace_back(each.path);
    asio::co_spawn(context_, sample_every_second(), asio::detached);
    asio::co_spawn(context_, accept_all(), asio::detached);
    thread_ = std::thread([this] { run(); });
}

dashboard_server::~dashboard_server() {
    context_.stop();
    thread_.join();
    jobs_.reset();  // jobs post their results to the context
}

void dashboard_server::listen(const dashboard_options& settings) {
    try {
        tcp::endpoint at(asio::ip::make_address(settings.address), settings.port);
        // Asio sets no SOCK_CLOEXEC: a program started by another thread would inherit the socket.
        int descriptor = ::socket(at.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (descriptor < 0)
            throw boost::system::system_error(errno, boost::system::system_category());
        acceptor_.assign(at.protocol(), descriptor);
        listener_.set(descriptor);
        acceptor_.set_option(asio::socket_base::reuse_address(true));
        acceptor_.bind(at);
        acceptor_.listen(backlog);
        acceptor_.non_blocking(true);
        protocol_ = at.protocol();
        port_ = acceptor_.local_endpoint().port();
        asio::ip::address shown = at.address();
        if (shown.is_unspecified()) shown = asio::ip::address_v4::loopback();
        authority_ = authority_of(shown, port_);
        policy_.hosts = hosts_of(at.address(), port_, settings.names);
    } catch (const boost::system::system_error& e) {
        throw std::system_error(e.code().value(), std::system_category(),
                                "cenote: the dashboard cannot listen at " + settings.address +
                                    " port " + std::to_string(settings.port));
    }
}

void dashboard_server::run() noexcept {
    for (;;) {
        try {
            context_.run();
            return;
        } catch (...) {  // out of memory: one client is dropped, the others are served
            static_cast<void>(0);
        }
    }
}

asio::awaitable<void> dashboard_server::sample_every_second() {
    asio::steady_timer timer(context_);
    auto next = std::chrono::steady_clock::now();
    for (;;) {
        try {
            state_->take_samples();
        } catch (const std::exception&) {  // out of memory: no sample for this second
            static_cast<void>(0);
        }
        next = std::max(next + 1s, std::chrono::steady_clock::now());
        timer.expires_at(next);
        error_code error;
        co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
}

asio::awaitable<void> dashboard_server::accept_all() {
    asio::steady_timer timer(context_);
    for (;;) {
        error_code error;
        co_await acceptor_.async_wait(tcp::acceptor::wait_read,
                                      asio::redirect_error(asio::use_awaitable, error));
        tcp::socket socket(context_);
        if (!error) socket = accept(error);
        if (error == asio::error::would_block || error == asio::error::connection_aborted) continue;
        if (error) {  // most likely out of descriptors
            timer.expires_after(100ms);
            co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
            continue;
        }
        try {
            make_room();
            auto one = std::make_shared<client>(std::move(socket));
            asio::co_spawn(context_, serve(std::move(one)), asio::detached);
        } catch (const std::exception&) {  // out of memory: this client is dropped
            static_cast<void>(0);
        }
    }
}

tcp::socket dashboard_server::accept(error_code& error) {
    tcp::socket socket(context_);
    int descriptor = ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor < 0) {
        error = error_code(errno, boost::system::system_category());
        return socket;
    }
    std::ignore = socket.assign(protocol_, descriptor, error);
    if (error) ::close(descriptor);
    return socket;
}

void dashboard_server::make_room() {
    while (clients_.size() >= max_connections_) {
        clients_.front()->stream.close();
        clients_.pop_front();
    }
}

asio::awaitable<void> dashboard_server::serve(std::shared_ptr<client> one) {
    client_registration registration(clients_, one.get());
    std::chrono::nanoseconds timeout = request_timeout_;
    for (bool more = true; more; timeout = idle_timeout_) {
        // Waits for the first byte, with which the request's own timeout begins.
        if (one->buffer.size() == 0) {
            error_code error;
            one->stream.expires_after(as_duration(timeout));
            std::size_t got = co_await one->stream.async_read_some(
                one->buffer.prepare(header_max), asio::redirect_error(asio::use_awaitable, error));
            if (error) co_return;
            one->buffer.commit(got);
        }
        more = co_await serve_request(one.get());
        if (more) registration.refresh();
    }
    co_await linger(one.get());
}

/// Reads the header, or the whole request if the parser is eager. Beast's asynchronous reads would
/// do, but each takes seconds to compile.
asio::awaitable<error_code> dashboard_server::read(client* one, request_parser* into) {
    for (;;) {
        error_code error;
        if (one->buffer.size() > 0) {
            one->buffer.consume(into->put(one->buffer.data(), error));
            if (error && error != http::error::need_more) co_return error;
            if (into->eager() ? into->is_done() : into->is_header_done()) co_return error_code();
        }
        std::size_t room = one->buffer.max_size() - one->buffer.size();
        if (room == 0) co_return http::error::buffer_overflow;
        std::size_t got = co_await one->stream.async_read_some(
            one->buffer.prepare(room), asio::redirect_error(asio::use_awaitable, error));
        if (error) co_return error;
        one->buffer.commit(got);
    }
}

asio::awaitable<bool> dashboard_server::serve_request(client* one) {
    request_parser parser;
    parser.header_limit(header_max);
    parser.body_limit(body_max);
    one->stream.expires_after(as_duration(request_timeout_));
    error_code error = co_await read(one, &parser);
    response what;
    // Browsers send lengths. Other codings allow request smuggling, and chunks that arrive byte by
    // byte violate an assertion of Beast's parser.
    if (!error && parser.get().find(http::field::transfer_encoding) != parser.get().end()) {
        what.status = 411;
        what.body = R"({"error":"send Content-Length instead of Transfer-Encoding"})";
        co_await send(one, std::move(what));
        co_return false;
    }
    if (!error && !parser.is_done()) {
        parser.eager(true);
        error = co_await read(one, &parser);
    }
    if (error) {
        what.status = status_for(error);
        what.body = R"({"error":"malformed or oversized request"})";
        if (what.status != 0) co_await send(one, std::move(what));
        co_return false;
    }
    const auto& message = parser.get();
    std::vector<header_field> fields;
    for (const auto& each : message)
        fields.push_back({view_of(each.name_string()), view_of(each.value())});
    raw_request request{.method = view_of(message.method_string()),
                        .target = view_of(message.target()),
                        .fields = fields,
                        .body = message.body()};
    parsed_request parsed = parse_request(request, policy_);
    if (parsed.status != 200) what = refusal(request, parsed);
    else if (parsed.kind == resource_kind::control)
        what = co_await execute(std::move(parsed.command));
    else what = content(parsed);
    what.head_only = message.method() == http::verb::head;
    what.keep_alive = message.keep_alive();
    bool another = what.keep_alive;
    bool sent = co_await send(one, std::move(what));
    co_return another&& sent;
}

asio::awaitable<bool> dashboard_server::send(client* one, response what) {
    http::response<http::string_body> message;
    message.version(11);
    message.result(what.status);
    for (const auto& [name, value] : security_fields) message.set(name, value);
    message.set(http::field::content_type, what.type);
    bool cacheable = !what.etag.empty();
    message.set(http::field::cache_control, cacheable ? "no-cache" : "no-store");
    if (cacheable) message.set(http::field::etag, what.etag);
    if (!what.allow.empty()) message.set(http::field::allow, what.allow);
    if (what.status == 401) message.set(http::field::www_authenticate, "Bearer");
    message.keep_alive(what.keep_alive);
    message.body() = std::move(what.body);
    if (what.status != 304) message.prepare_payload();

    http::fields::writer head(message, message.version(), message.result_int());
    std::string header = beast::buffers_to_string(head.get());
    bool header_only = what.head_only || what.status == 304;
    std::array<asio::const_buffer, 2> bytes{
        asio::buffer(header), header_only ? asio::const_buffer() : asio::buffer(message.body())};
    error_code error;
    one->stream.expires_after(as_duration(request_timeout_));
    co_await asio::async_write(one->stream, bytes,
                               asio::redirect_error(asio::use_awaitable, error));
    co_return !error;
}

/// Reads what the client still sends, within limits: closing a socket with unread data resets the
/// connection, and the client would lose the response.
asio::awaitable<void> dashboard_server::linger(client* one) {
    constexpr int reads_max = 64;
    error_code error;
    if (one->stream.socket().shutdown(tcp::socket::shutdown_send, error)) co_return;
    one->stream.expires_after(1s);
    one->buffer.clear();
    for (int i = 0; i < reads_max && !error; ++i)
        co_await one->stream.async_read_some(one->buffer.prepare(header_max),
                                             asio::redirect_error(asio::use_awaitable, error));
}

dashboard_server::response dashboard_server::refusal(const raw_request& request,
                                                     const parsed_request& parsed) {
    response what;
    what.status = parsed.status;
    what.body = R"({"error":)" + json_text(parsed.error) + '}';
    if (parsed.status == 405) what.allow = request.target == "/control" ? "POST" : "GET, HEAD";
    return what;
}

dashboard_server::response dashboard_server::content(const parsed_request& parsed) const {
    response what;
    if (parsed.kind == resource_kind::state) {
        what.body =
            state_->json(parsed.since, !policy_.control_token.empty(), parsed.details, parsed.step);
    } else if (parsed.kind == resource_kind::metrics) {
        what.type = metrics::content_type;
        what.body = state_->metrics_text();
    } else if (parsed.kind == resource_kind::health) {
        answer health = state_->health();
        what.status = static_cast<unsigned>(health.status());
        what.body = health.body();
    } else {
        auto files = dashboard_files();
        auto file = std::ranges::find(files, parsed.file, &embedded_file::path);
        what.type = file->type;
        what.etag = file->etag;
        if (parsed.if_none_match == file->etag) what.status = 304;
        else what.body = file->body;
    }
    return what;
}

asio::awaitable<dashboard_server::response> dashboard_server::execute(control_command command) {
    struct pending {
        explicit pending(asio::io_context& context) : timer(context) {}
        asio::steady_timer timer;
        std::optional<control_result> result;
    };
    auto job = std::make_shared<pending>(context_);
    job->timer.expires_after(as_duration(request_timeout_));
    response what;
    try {
        jobs_->run(state_, std::move(command), [this, job](const control_result& result) {
            asio::post(context_, [job, result] {
                job->result = result;
                job->timer.cancel();
            });
        });
    } catch (const std::system_error&) {
        job->result = control_result{503, "no thread is available"};
    }
    error_code canceled;
    if (!job->result)
        co_await job->timer.async_wait(asio::redirect_error(asio::use_awaitable, canceled));
    if (!job->result) {
        what.status = 202;
        what.body = R"({"done":false})";
    } else if (job->result->status == 200) {
        what.body = R"({"done":true})";
    } else {
        what.status = job->result->status;
        what.body = R"({"error":)" + json_text(job->result->error) + '}';
    }
    co_return what;
}

}  // namespace cenote::detail
