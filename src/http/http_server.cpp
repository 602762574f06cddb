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
#include <optional>
#include <string>
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
    std::size_t slash = target.find('/', scheme + 3);
    return slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
}

std::string_view target_of(const request& r) noexcept {
    return after_authority(std::string_view(r.target().data(), r.target().size()));
}

}  // namespace

response to_response(const answer& what) {
    response r(static_cast<boost::beast::http::status>(what.status()), 11);
    r.set(boost::beast::http::field::content_type, what.content_type());
    if (what.retry_after())
        r.set(boost::beast::http::field::retry_after, std::to_string(what.retry_after()->count()));
    r.body() = what.body();
    r.prepare_payload();
    return r;
}

std::string_view path_of(const request& r) noexcept {
    std::string_view target = target_of(r);
    return target.substr(0, target.find('?'));
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
    state(asio::any_io_executor where, const tcp::endpoint& at, handler work, const limits& within,
          error_handler on_error)
        : how_(std::make_shared<manners>(std::move(work), within, std::move(on_error))),
          where_(std::move(where)),
          strand_(asio::make_strand(where_)),
          door_(strand_, at),
          at_(door_.local_endpoint()) {
        door_.non_blocking(true);
    }

    void open() { asio::co_spawn(strand_, let_in(shared_from_this()), asio::detached); }

    void drop() {
        asio::post(strand_, [me = shared_from_this()] {
            error_code ignored;
            me->door_.close(ignored);
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
        while (me->door_.is_open()) {
            error_code error;
            auto strand = asio::make_strand(me->where_);
            auto token = asio::redirect_error(asio::use_awaitable, error);
            tcp::socket client = co_await me->door_.async_accept(strand, token);
            if (!error) me->welcome(std::move(client));
            else if (me->door_.is_open()) co_await me->bear(error);
        }
    }

    /// Few errors are the door's own, and none is a reason not to open it again.
    asio::awaitable<void> bear(error_code error) {
        if (error == asio::error::connection_aborted) co_return;
        how_->all->drop_longest_waiting();
        asio::steady_timer pause(strand_, shortage_pause);
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }

    void welcome(tcp::socket client) {
        error_code ignored;
        client.set_option(tcp::no_delay(true), ignored);
        auto strand = client.get_executor();
        auto who = std::make_shared<connection>(std::move(client), how_->buffer_max());
        if (how_->all->enter(who)) {
            asio::co_spawn(strand, converse(how_, std::move(who)), asio::detached);
        } else if (++how_->turned_away <= turned_away_max) {
            asio::co_spawn(strand, turn_away(how_, std::move(who)), asio::detached);
        } else {
            --how_->turned_away;
        }
    }

    /// Whoever was connected before the door was shut has been let in.
    void shut() {
        error_code error;
        while (door_.is_open() && !error) {
            tcp::socket client(asio::make_strand(where_));
            door_.accept(client, error);
            if (!error) welcome(std::move(client));
        }
        door_.close(error);
    }

    /// Looks at least twice: somebody may just be coming through the door.
    static asio::awaitable<void> wait_until_empty(self me, clock::time_point end) {
        asio::steady_timer pause(me->strand_);
        do {
            pause.expires_at(std::min(end, clock::now() + look_again));
            co_await pause.async_wait(asio::use_awaitable);
        } while (me->how_->all->is_occupied() && clock::now() < end);
    }

    static asio::awaitable<std::size_t> drained(self me, std::chrono::nanoseconds within) {
        auto end = clock::now() + std::min<std::chrono::nanoseconds>(within, std::chrono::hours(1));
        me->how_->draining = true;
        me->shut();
        auto last_call = clock::now() + me->how_->within.last_call;
        co_await wait_until_empty(me, std::min(end, last_call));
        me->how_->all->drop_waiting();
        co_await wait_until_empty(me, end);
        std::size_t lost = me->how_->all->stats().requests;
        me->how_->all->drop_all();
        co_return lost;
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

server::~server() { state_->drop(); }

tcp::endpoint server::endpoint() const noexcept { return state_->at(); }

asio::awaitable<std::size_t> server::drain(std::chrono::nanoseconds within) {
    return state_->drain(within);
}

server_stats server::stats() const { return state_->stats(); }

}  // namespace cenote::http_server
