// The only file that speaks HTTP for the dashboard. What is asked for is decided elsewhere.
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

/// Answers carry no leave for other sites (no CORS), and none for the browser to keep what they
/// say; the page may load nothing but its own files, and be in nobody's frame.
constexpr std::array<std::pair<const char*, const char*>, 6> always{{
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

/// A time from now that can be reckoned with, also if somebody has said `forever`.
std::chrono::steady_clock::duration as_duration(std::chrono::nanoseconds time) {
    constexpr std::chrono::nanoseconds longest = 24h;
    return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::min(time, longest));
}

/// The status for a request that could not even be read; zero: nobody is there to hear it.
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

/// How browsers may call us: by what we listen to, and by the names we were given.
std::vector<std::string> hosts_of(const asio::ip::address& address, std::uint16_t port,
                                  const std::vector<std::string>& names) {
    constexpr std::uint16_t usual_port = 80;
    std::vector<std::string> hosts = names;
    std::string at_port = ':' + std::to_string(port);
    std::vector<std::string> own;
    if (address.is_loopback() || address.is_unspecified())
        own = {"localhost", "127.0.0.1", "[::1]"};
    if (!address.is_unspecified())
        own.push_back(address.is_v6() ? '[' + address.to_string() + ']' : address.to_string());
    for (const std::string& each : own) {
        hosts.push_back(each + at_port);
        if (port == usual_port) hosts.push_back(each);
    }
    return hosts;
}

std::mutex listeners_mutex;  // held across forks
listener_of_parent* first_listener = nullptr;

bool hear_of_forks() {
    static const bool told =
        pthread_atfork(listener_of_parent::lock_all, listener_of_parent::unlock_all,
                       listener_of_parent::close_all) == 0;
    return told;
}

}  // namespace

void listener_of_parent::is(int descriptor) {
    if (!hear_of_forks()) throw std::bad_alloc();
    std::lock_guard lock(listeners_mutex);
    descriptor_ = descriptor;
    next_ = std::exchange(first_listener, this);
}

listener_of_parent::~listener_of_parent() {
    std::lock_guard lock(listeners_mutex);
    listener_of_parent** at = &first_listener;
    while (*at != nullptr && *at != this) at = &(*at)->next_;
    if (*at == this) *at = next_;
}

void listener_of_parent::lock_all() { listeners_mutex.lock(); }
void listener_of_parent::unlock_all() { listeners_mutex.unlock(); }
void listener_of_parent::close_all() {
    // Not by way of the acceptor: its epoll is the parent's, too.
    for (auto* each = std::exchange(first_listener, nullptr); each != nullptr; each = each->next_)
        ::close(each->descriptor_);
    listeners_mutex.unlock();
}

struct dashboard_server::request_parser : http::request_parser<http::string_body> {};

/// Somebody who is connected.
struct dashboard_server::client {
    explicit client(tcp::socket socket) : stream(std::move(socket)) {}

    beast::tcp_stream stream;
    // Nobody sends more than one request ahead.
    beast::flat_buffer buffer{header_max + body_max};
};

/// Keeps a client in the list as long as it is served, whichever way that ends.
class dashboard_server::presence {
public:
    presence(std::list<client*>& in, client* one) : in_(in), one_(one) { in_.push_back(one); }
    ~presence() { in_.remove(one_); }
    presence(const presence&) = delete;
    presence& operator=(const presence&) = delete;

    /// It has just been heard of.
    void refresh() {
        auto at = std::ranges::find(in_, one_);
        if (at != in_.end()) in_.splice(in_.end(), in_, at);
    }

private:
    std::list<client*>& in_;
    client* one_;
};

struct dashboard_server::reply {
    unsigned status = 200;
    std::string_view type = "application/json";
    std::string_view etag = {};
    std::string_view allow = {};
    std::string body = {};
    bool head_only = false;
    bool keep_alive = false;
};

dashboard_server::dashboard_server(const dashboard_options& settings, std::shared_ptr<board> shown)
    : board_(std::move(shown)),
      max_connections_(settings.max_connections),
      request_timeout_(settings.request_timeout),
      idle_timeout_(settings.idle_timeout) {
    listen(settings);
    rules_.read_token = settings.read_token;
    rules_.control_token = settings.control_token;
    for (const embedded_file& each : dashboard_files()) rules_.files.emplace_back(each.path);
    asio::co_spawn(context_, look_every_second(), asio::detached);
    asio::co_spawn(context_, accept_all(), asio::detached);
    thread_ = std::thread([this] { run(); });
}

dashboard_server::~dashboard_server() {
    context_.stop();
    thread_.join();
    errands_.reset();  // they tell the context how they went
}

void dashboard_server::listen(const dashboard_options& settings) {
    try {
        tcp::endpoint at(asio::ip::make_address(settings.address), settings.port);
        // Asio would leave it to every program that another thread starts just then.
        int descriptor = ::socket(at.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (descriptor < 0)
            throw boost::system::system_error(errno, boost::system::system_category());
        acceptor_.assign(at.protocol(), descriptor);
        listener_.is(descriptor);
        acceptor_.set_option(asio::socket_base::reuse_address(true));
        acceptor_.bind(at);
        acceptor_.listen(backlog);
        acceptor_.non_blocking(true);
        protocol_ = at.protocol();
        port_ = acceptor_.local_endpoint().port();
        asio::ip::address shown = at.address();
        if (shown.is_unspecified()) shown = asio::ip::address_v4::loopback();
        authority_ = authority_of(shown, port_);
        rules_.hosts = hosts_of(at.address(), port_, settings.names);
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
        } catch (...) {  // memory is short: whoever it was about is gone, the others go on
            static_cast<void>(0);
        }
    }
}

asio::awaitable<void> dashboard_server::look_every_second() {
    asio::steady_timer timer(context_);
    auto next = std::chrono::steady_clock::now();
    for (;;) {
        try {
            board_->look();
        } catch (const std::exception&) {  // memory is short: there is no sample of this second
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
        if (error) {  // most likely there are no descriptors left
            timer.expires_after(100ms);
            co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
            continue;
        }
        try {
            make_room();
            auto one = std::make_shared<client>(std::move(socket));
            asio::co_spawn(context_, serve(std::move(one)), asio::detached);
        } catch (const std::exception&) {  // memory is short: this one is cut off
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
    presence here(clients_, one.get());
    std::chrono::nanoseconds patience = request_timeout_;
    for (bool more = true; more; patience = idle_timeout_) {
        // The time for a request begins with its first byte; what comes after is the parser's.
        if (one->buffer.size() == 0) {
            error_code error;
            one->stream.expires_after(as_duration(patience));
            std::size_t got = co_await one->stream.async_read_some(
                one->buffer.prepare(header_max), asio::redirect_error(asio::use_awaitable, error));
            if (error) co_return;
            one->buffer.commit(got);
        }
        more = co_await serve_request(one.get());
        if (more) here.refresh();
    }
    co_await part(one.get());
}

/// Reads the header, or the whole request if the parser is eager. Beast's own asynchronous reads do
/// the same, but each takes seconds to compile.
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
    reply what;
    // Browsers send lengths. Whatever else there is leaves room for two opinions about where a body
    // ends; and Beast's parser has an assertion that chunks which come byte by byte do not keep.
    if (!error && parser.get().find(http::field::transfer_encoding) != parser.get().end()) {
        what.status = 411;
        what.body = R"({"error":"say Content-Length, not Transfer-Encoding"})";
        co_await send(one, std::move(what));
        co_return false;
    }
    if (!error && !parser.is_done()) {
        parser.eager(true);
        error = co_await read(one, &parser);
    }
    if (error) {
        what.status = status_for(error);
        what.body = R"({"error":"this is no request, or too large"})";
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
    asked wish = understand(request, rules_);
    if (wish.status != 200) what = refusal(request, wish);
    else if (wish.what == wanted::control) what = co_await carry_out(std::move(wish.order));
    else what = answer(wish);
    what.head_only = message.method() == http::verb::head;
    what.keep_alive = message.keep_alive();
    bool another = what.keep_alive;
    bool sent = co_await send(one, std::move(what));
    co_return another&& sent;
}

asio::awaitable<bool> dashboard_server::send(client* one, reply what) {
    http::response<http::string_body> message;
    message.version(11);
    message.result(what.status);
    for (const auto& [name, value] : always) message.set(name, value);
    message.set(http::field::content_type, what.type);
    bool kept = !what.etag.empty();
    message.set(http::field::cache_control, kept ? "no-cache" : "no-store");
    if (kept) message.set(http::field::etag, what.etag);
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

/// Takes what the client still has to say, so that it hears the answer: a connection that is closed
/// with something unread in it is reset. Not for long, and not for much.
asio::awaitable<void> dashboard_server::part(client* one) {
    constexpr int most_rounds = 64;
    error_code error;
    if (one->stream.socket().shutdown(tcp::socket::shutdown_send, error)) co_return;
    one->stream.expires_after(1s);
    one->buffer.clear();
    for (int i = 0; i < most_rounds && !error; ++i)
        co_await one->stream.async_read_some(one->buffer.prepare(header_max),
                                             asio::redirect_error(asio::use_awaitable, error));
}

dashboard_server::reply dashboard_server::refusal(const raw_request& request, const asked& what) {
    reply no;
    no.status = what.status;
    no.body = R"({"error":)" + json_text(what.why) + '}';
    if (what.status == 405) no.allow = request.target == "/control" ? "POST" : "GET, HEAD";
    return no;
}

dashboard_server::reply dashboard_server::answer(const asked& what) const {
    reply yes;
    if (what.what == wanted::state) {
        yes.body = board_->json(what.since, !rules_.control_token.empty());
    } else {
        auto files = dashboard_files();
        auto file = std::ranges::find(files, what.file, &embedded_file::path);
        yes.type = file->type;
        yes.etag = file->etag;
        if (what.if_none_match == file->etag) yes.status = 304;
        else yes.body = file->body;
    }
    return yes;
}

asio::awaitable<dashboard_server::reply> dashboard_server::carry_out(control_order order) {
    struct news {
        explicit news(asio::io_context& context) : timer(context) {}
        asio::steady_timer timer;
        std::optional<board::result> how;
    };
    auto heard = std::make_shared<news>(context_);
    heard->timer.expires_after(as_duration(request_timeout_));
    reply what;
    try {
        errands_->run(board_, std::move(order), [this, heard](const board::result& how) {
            asio::post(context_, [heard, how] {
                heard->how = how;
                heard->timer.cancel();
            });
        });
    } catch (const std::system_error&) {
        heard->how = board::result{503, "there is no thread to be had"};
    }
    error_code canceled;
    if (!heard->how)
        co_await heard->timer.async_wait(asio::redirect_error(asio::use_awaitable, canceled));
    if (!heard->how) {
        what.status = 202;
        what.body = R"({"done":false})";
    } else if (heard->how->status == 200) {
        what.body = R"({"done":true})";
    } else {
        what.status = heard->how->status;
        what.body = R"({"error":)" + json_text(heard->how->error) + '}';
    }
    co_return what;
}

}  // namespace cenote::detail
