// The server's door, how it is shut, and the library's answers in Boost.Beast's words.
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

#include "http/connections.hpp"
#include "http/conversation.hpp"

namespace cenote::http_server {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using clock = std::chrono::steady_clock;

namespace {

/// Nobody else can be told that there are too many.
constexpr std::size_t turned_away_max = 64;
/// Before the next try, where the system has no room for another connection.
constexpr std::chrono::milliseconds shortage_pause{20};
constexpr std::chrono::milliseconds look_again{5};
/// As many as may wait at the door when it is shut: more than a system's backlog.
constexpr int last_guests = 4096;
constexpr std::chrono::nanoseconds longest_drain = std::chrono::hours(1);

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

/// Where the path begins in "http://host/path", as proxies say it.
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
    r.result(static_cast<unsigned>(what.status()));  // throws for what is no status
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

namespace {

/// Asio would leave it, and whatever it accepts, to every program that is started.
int listening_socket(const tcp& protocol) {
    int descriptor = ::socket(protocol.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) throw boost::system::system_error(errno, boost::system::system_category());
    return descriptor;
}

}  // namespace

class server::state : public std::enable_shared_from_this<server::state> {
public:
    state(asio::any_io_executor where, const tcp::endpoint& at, handler work, const limits& within,
          error_handler on_error)
        : how_(std::make_shared<manners>(std::move(work), within, std::move(on_error))),
          where_(std::move(where)),
          strand_(asio::make_strand(where_)),
          door_(strand_, at.protocol(), listening_socket(at.protocol())) {
        door_.set_option(asio::socket_base::reuse_address(true));
        door_.bind(at);
        door_.listen();
        at_ = door_.local_endpoint();
        door_.non_blocking(true);
    }

    void open() { asio::co_spawn(strand_, let_in(shared_from_this()), asio::detached); }

    void drop() {
        asio::post(strand_, [me = shared_from_this()] {
            error_code ignored;
            std::ignore = me->door_.close(ignored);
            me->how_->all->drop_all();
        });
    }

    asio::awaitable<std::size_t> drain(std::chrono::nanoseconds within) {
        return asio::co_spawn(strand_, drained(shared_from_this(), within), asio::use_awaitable);
    }

    const tcp::endpoint& at() const noexcept { return at_; }
    server_stats stats() const { return how_->all->stats(); }

private:
    using self = std::shared_ptr<state>;

    static asio::awaitable<void> let_in(self me) {
        // Nothing that goes wrong is a reason not to open the door again, nor is a lack of memory.
        while (me->door_.is_open()) {
            bool has_failed = false;
            try {
                co_await let_one_in(me);
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

    static asio::awaitable<void> let_one_in(self me) {
        error_code error;
        auto strand = asio::make_strand(me->where_);
        auto token = asio::redirect_error(asio::use_awaitable, error);
        co_await me->door_.async_wait(tcp::acceptor::wait_read, token);
        tcp::socket client(strand);
        if (!error) me->accept(client, error);
        if (!error) co_return me->welcome(std::move(client));
        if (is_nobody(error) || !me->door_.is_open()) co_return;
        me->how_->all->drop_longest_waiting();  // the system has no room for another
        co_await pause(me);
    }

    static asio::awaitable<void> pause(self me) {
        error_code ignored;
        asio::steady_timer timer(me->strand_, shortage_pause);
        co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }

    static bool is_nobody(const error_code& error) {
        return error == asio::error::connection_aborted || error == asio::error::would_block ||
               error == asio::error::interrupted;
    }

    void accept(tcp::socket& client, error_code& error) {
        int descriptor = ::accept4(door_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC);
        if (descriptor < 0) {
            error = error_code(errno, boost::system::system_category());
            return;
        }
        std::ignore = client.assign(at_.protocol(), descriptor, error);
        if (error) ::close(descriptor);
    }

    /// If it throws, nobody has come.
    void welcome(tcp::socket client) {
        error_code ignored;
        std::ignore = client.set_option(tcp::no_delay(true), ignored);
        auto strand = client.get_executor();
        auto who = std::make_shared<connection>(std::move(client), how_->buffer_max());
        switch (how_->all->enter(who)) {
            case connections::entrance::over: return;
            case connections::entrance::open:
                try {
                    asio::co_spawn(strand, converse(how_, who), asio::detached);
                } catch (...) {
                    how_->all->leave(*who);
                    throw;
                }
                return;
            case connections::entrance::full: break;
        }
        if (how_->turned_away >= turned_away_max) return;
        ++how_->turned_away;
        try {
            asio::co_spawn(strand, turn_away(how_, who), asio::detached);
        } catch (...) {
            --how_->turned_away;
            throw;
        }
    }

    /// Whoever was connected before the door was shut has been let in.
    void shut() {
        error_code error;
        try {
            for (int i = 0; i < last_guests && door_.is_open(); ++i) {
                tcp::socket client(asio::make_strand(where_));
                accept(client, error);
                if (!error) welcome(std::move(client));
                else if (error == asio::error::would_block || !is_nobody(error)) break;
            }
        } catch (...) {
            error = asio::error::no_memory;  // nobody else can be let in
        }
        std::ignore = door_.close(error);
    }

    /// Looks at least twice: somebody may just be coming through the door. `each_time`: at each
    /// look.
    static asio::awaitable<void> wait_until_empty(self me, clock::time_point end,
                                                  void (connections::*each_time)()) {
        asio::steady_timer timer(me->strand_);
        do {
            if (each_time != nullptr) ((*me->how_->all).*each_time)();
            timer.expires_at(std::min(end, clock::now() + look_again));
            co_await timer.async_wait(asio::use_awaitable);
        } while (me->how_->all->is_occupied() && clock::now() < end);
    }

    static asio::awaitable<std::size_t> drained(self me, std::chrono::nanoseconds within) {
        auto end = clock::now() + std::clamp<std::chrono::nanoseconds>(within, {}, longest_drain);
        me->how_->draining = true;
        me->shut();
        auto last_call = clock::now() + me->how_->within.last_call;
        co_await wait_until_empty(me, std::min(end, last_call), nullptr);
        // Again and again: who was told that more can be asked, and takes the answer only now,
        // begins to wait only then.
        co_await wait_until_empty(me, end, &connections::drop_waiting);
        co_return me->how_->all->drop_all();
    }

    std::shared_ptr<manners> how_;
    asio::any_io_executor where_;
    asio::strand<asio::any_io_executor> strand_;
    tcp::acceptor door_;
    tcp::endpoint at_;
};

server::server(asio::any_io_executor where, const tcp::endpoint& at, handler work,
               const limits& within, error_handler on_error)
    : state_(std::make_shared<state>(std::move(where), at, std::move(work), within,
                                     std::move(on_error))) {
    state_->open();
}

// NOLINTNEXTLINE(bugprone-exception-escape): without memory for this there is no end to be had.
server::~server() { state_->drop(); }

tcp::endpoint server::endpoint() const noexcept { return state_->at(); }

asio::awaitable<std::size_t> server::drain(std::chrono::nanoseconds within) {
    return state_->drain(within);
}

server_stats server::stats() const { return state_->stats(); }

}  // namespace cenote::http_server
