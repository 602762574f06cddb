// Accepts and drains connections; converts answers to responses of Boost.Beast.
#include "cenote/http_server.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <utility>

#include "http_server/connections.hpp"
#include "http_server/request_loop.hpp"

namespace cenote::http_server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using clock = std::chrono::steady_clock;

namespace {

/// How many clients beyond the limit get a 503 at a time. Any others are closed without a response.
constexpr std::size_t rejecting_max = 64;
/// Before accepting again when the system is out of descriptors or memory.
constexpr std::chrono::milliseconds shortage_pause{20};
constexpr std::chrono::milliseconds drain_poll_interval{5};
/// The most connections that a closing listener accepts: more than any backlog holds.
constexpr int drain_accept_max = 4096;
constexpr std::chrono::nanoseconds longest_drain = std::chrono::hours(1);

/// Sets SOCK_CLOEXEC, which Asio does not: started programs must not inherit the socket.
int listening_socket(const tcp& protocol) {
    int descriptor = ::socket(protocol.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) throw boost::system::system_error(errno, boost::system::system_category());
    return descriptor;
}

asio::awaitable<response> answered(handler work, request r) {
    std::exception_ptr failed;
    try {
        co_return co_await work(std::move(r));
    } catch (...) {
        failed = std::current_exception();
    }
    std::optional<answer> known = answer_to(failed);
    if (!known) std::rethrow_exception(failed);
    co_return to_response(*known);
}

/// Drops "http://host" from a target in absolute form, which proxies send.
std::string_view after_authority(std::string_view target) {
    std::size_t scheme = target.find("://");
    if (scheme == std::string_view::npos || target.starts_with('/')) return target;
    std::size_t end = target.find_first_of("/?", scheme + 3);
    return end == std::string_view::npos ? std::string_view("/") : target.substr(end);
}

std::string_view target_of(const request& r) noexcept {
    return after_authority(std::string_view(r.target().data(), r.target().size()));
}

}  // namespace

response to_response(const answer& what) {
    response r;
    r.result(static_cast<unsigned>(what.status()));  // throws if out of range
    if (has_no_body(r.result_int())) return r;
    r.set(boost::beast::http::field::content_type, what.content_type());
    if (what.retry_after())
        r.set(boost::beast::http::field::retry_after, std::to_string(what.retry_after()->count()));
    r.body() = what.body();
    r.prepare_payload();
    return r;
}

std::string_view path_of(const request& r) noexcept {
    std::string_view target = target_of(r);
    std::string_view path = target.substr(0, target.find('?'));
    return path.empty() ? std::string_view("/") : path;  // "http://host?query"
}

std::string_view query_of(const request& r) noexcept {
    std::string_view target = target_of(r);
    std::size_t mark = target.find('?');
    return mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
}

handler answering(handler work) {
    return [work = std::move(work)](request r) { return answered(work, std::move(r)); };
}

class server::state : public std::enable_shared_from_this<server::state> {
public:
    state(asio::any_io_executor executor, const tcp::endpoint& at, handler work,
          const limits& within, error_handler on_error)
        : context_(std::make_shared<server_context>(std::move(work), within, std::move(on_error))),
          executor_(std::move(executor)),
          strand_(asio::make_strand(executor_)),
          acceptor_(strand_, at.protocol(), listening_socket(at.protocol())) {
        acceptor_.set_option(asio::socket_base::reuse_address(true));
        acceptor_.bind(at);
        acceptor_.listen();
        endpoint_ = acceptor_.local_endpoint();
        acceptor_.non_blocking(true);
    }

    void start() { asio::co_spawn(strand_, accept_all(shared_from_this()), asio::detached); }

    void stop() {
        asio::post(strand_, [me = shared_from_this()] {
            error_code ignored;
            std::ignore = me->acceptor_.close(ignored);
            me->context_->clients->drop_all();
        });
    }

    asio::awaitable<std::size_t> drain(std::chrono::nanoseconds within) {
        return asio::co_spawn(strand_, drained(shared_from_this(), within), asio::use_awaitable);
    }

    const tcp::endpoint& endpoint() const noexcept { return endpoint_; }
    server_stats stats() const { return context_->clients->stats(); }

private:
    using self = std::shared_ptr<state>;

    static asio::awaitable<void> accept_all(self me) {
        // No failure ends the loop, not even a lack of memory.
        while (me->acceptor_.is_open()) {
            bool has_failed = false;
            try {
                co_await accept_one(me);
            } catch (...) {
                has_failed = true;
            }
            if (!has_failed) continue;
            try {
                co_await pause(me);
            } catch (...) {
                std::this_thread::yield();
            }
        }
    }

    static asio::awaitable<void> accept_one(self me) {
        error_code error;
        auto strand = asio::make_strand(me->executor_);
        auto token = asio::redirect_error(asio::use_awaitable, error);
        co_await me->acceptor_.async_wait(tcp::acceptor::wait_read, token);
        tcp::socket client(strand);
        if (!error) me->accept(client, error);
        if (!error) co_return me->start_connection(std::move(client));
        if (is_harmless(error) || !me->acceptor_.is_open()) co_return;
        me->context_->clients->drop_longest_idle();  // out of descriptors or memory
        co_await pause(me);
    }

    static asio::awaitable<void> pause(self me) {
        error_code ignored;
        asio::steady_timer timer(me->strand_, shortage_pause);
        co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }

    /// Whether accept failed because the client is gone, or by an interrupt.
    static bool is_harmless(const error_code& error) {
        return error == asio::error::connection_aborted || error == asio::error::would_block ||
               error == asio::error::interrupted;
    }

    void accept(tcp::socket& client, error_code& error) {
        int descriptor = ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
        if (descriptor < 0) {
            error = error_code(errno, boost::system::system_category());
            return;
        }
        std::ignore = client.assign(endpoint_.protocol(), descriptor, error);
        if (error) ::close(descriptor);
    }

    /// Serves or rejects the client. If it throws, the client is closed and not counted.
    void start_connection(tcp::socket socket) {
        error_code ignored;
        std::ignore = socket.set_option(tcp::no_delay(true), ignored);
        auto strand = socket.get_executor();
        auto client = std::make_shared<connection>(std::move(socket), context_->buffer_max());
        switch (context_->clients->add(client)) {
            case connections::admission::over: return;
            case connections::admission::accepted:
                try {
                    asio::co_spawn(strand, serve(context_, client), asio::detached);
                } catch (...) {
                    context_->clients->remove(*client);
                    throw;
                }
                return;
            case connections::admission::full: break;
        }
        if (context_->rejecting >= rejecting_max) return;
        ++context_->rejecting;
        try {
            asio::co_spawn(strand, reject(context_, client), asio::detached);
        } catch (...) {
            --context_->rejecting;
            throw;
        }
    }

    /// Accepts all connections in the backlog, then stops listening.
    void close_acceptor() {
        error_code error;
        try {
            for (int i = 0; i < drain_accept_max && acceptor_.is_open(); ++i) {
                tcp::socket client(asio::make_strand(executor_));
                accept(client, error);
                if (!error) start_connection(std::move(client));
                else if (error == asio::error::would_block || !is_harmless(error)) break;
            }
        } catch (...) {
            error = asio::error::no_memory;  // the rest of the backlog is reset
        }
        std::ignore = acceptor_.close(error);
    }

    /// Waits until there is no connection, at least for one interval: accept_one may just have
    /// accepted one. Calls `each_time` at each poll.
    static asio::awaitable<void> wait_until_empty(self me, clock::time_point end,
                                                  void (connections::*each_time)()) {
        asio::steady_timer timer(me->strand_);
        do {
            if (each_time != nullptr) ((*me->context_->clients).*each_time)();
            timer.expires_at(std::min(end, clock::now() + drain_poll_interval));
            co_await timer.async_wait(asio::use_awaitable);
        } while (!me->context_->clients->empty() && clock::now() < end);
    }

    static asio::awaitable<std::size_t> drained(self me, std::chrono::nanoseconds within) {
        auto end = clock::now() + std::clamp<std::chrono::nanoseconds>(within, {}, longest_drain);
        me->context_->draining = true;
        me->close_acceptor();
        auto last_call = clock::now() + me->context_->within.last_call;
        co_await wait_until_empty(me, std::min(end, last_call), nullptr);
        // Repeatedly, because a connection whose response promised keep-alive becomes idle only
        // when the client has read that response.
        co_await wait_until_empty(me, end, &connections::drop_idle);
        co_return me->context_->clients->drop_all();
    }

    std::shared_ptr<server_context> context_;
    asio::any_io_executor executor_;
    asio::strand<asio::any_io_executor> strand_;
    tcp::acceptor acceptor_;
    tcp::endpoint endpoint_;
};

server::server(asio::any_io_executor executor, const tcp::endpoint& at, handler work,
               const limits& within, error_handler on_error)
    : state_(std::make_shared<state>(std::move(executor), at, std::move(work), within,
                                     std::move(on_error))) {
    state_->start();
}

// NOLINTNEXTLINE(bugprone-exception-escape): without memory for the post it cannot stop.
server::~server() { state_->stop(); }

tcp::endpoint server::endpoint() const noexcept { return state_->endpoint(); }

asio::awaitable<std::size_t> server::drain(std::chrono::nanoseconds within) {
    return state_->drain(within);
}

server_stats server::stats() const { return state_->stats(); }

}  // namespace cenote::http_server
