// One connection's requests, one after the other, and how it ends.
#include "http/conversation.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace cenote::http_server {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using clock = std::chrono::steady_clock;
using parser = http::request_parser<http::string_body>;
using two_buffers = std::array<asio::const_buffer, 2>;

namespace {

/// How long, and how much, an end is waited for whose answer has gone.
constexpr std::chrono::seconds farewell_time{2};
constexpr std::size_t farewell_bytes = std::size_t{256} << 10;
/// When a newcomer who finds no place may come again.
constexpr std::chrono::seconds come_again_in{1};
/// Bytes that are read at a time.
constexpr std::size_t some_of_a_header = std::size_t{4} << 10;
constexpr std::size_t some_of_a_body = std::size_t{16} << 10;
constexpr std::chrono::nanoseconds longest_time = std::chrono::hours(24);
constexpr std::size_t largest_header = std::size_t{1} << 30;
/// What a body in chunks ends with, if with nothing else: "0", and two line ends.
constexpr std::size_t least_of_chunks = 5;

/// As in "Sun, 06 Nov 1994 08:49:37 GMT", in no other language.
std::string http_date() {
    static constexpr std::array<const char*, 7> days{"Sun", "Mon", "Tue", "Wed",
                                                     "Thu", "Fri", "Sat"};
    static constexpr std::array<const char*, 12> months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    using namespace std::chrono;
    auto now = floor<seconds>(system_clock::now());
    auto today = floor<std::chrono::days>(now);
    year_month_day date(today);
    hh_mm_ss time(now - today);
    char text[40];
    int length = std::snprintf(
        text, sizeof text, "%s, %02u %s %04d %02d:%02d:%02d GMT", days[weekday(today).c_encoding()],
        static_cast<unsigned>(date.day()), months[static_cast<unsigned>(date.month()) - 1],
        static_cast<int>(date.year()), static_cast<int>(time.hours().count()),
        static_cast<int>(time.minutes().count()), static_cast<int>(time.seconds().count()));
    return std::string(text, static_cast<std::size_t>(std::max(length, 0)));
}

/// What the answer needs to know of its request, which is the handler's by then.
struct occasion {
    unsigned version = 11;
    bool keep_alive = false;
    bool head = false;
};

/// Whether it is beyond doubt where the body ends. Beast's parser takes a Transfer-Encoding that it
/// does not know for none at all. Somebody else on the way may not: then what is a body to one is
/// the next request to the other. So there is `chunked`, and nothing else.
bool has_a_certain_end(const request& r) {
    auto codings = r.count(http::field::transfer_encoding);
    if (codings == 0) return true;
    return codings == 1 && r.version() >= 11 && r.count(http::field::content_length) == 0 &&
           boost::beast::iequals(r[http::field::transfer_encoding], "chunked");
}

/// HTTP/1.0 knows nothing of expectations.
bool expects_something(const request& r) {
    return r.version() >= 11 && r.find(http::field::expect) != r.end();
}

/// What is wrong with a header that can be parsed.
std::optional<answer> objection(const request& r) {
    auto hosts = r.count(http::field::host);
    if (hosts > 1 || (r.version() >= 11 && hosts == 0))
        return answer(400, "one field Host is needed\n");
    if (!has_a_certain_end(r))
        return answer(400, "no Transfer-Encoding but chunked, alone, and in HTTP/1.1\n");
    if (expects_something(r) && !boost::beast::iequals(r[http::field::expect], "100-continue"))
        return answer(417, "only 100-continue can be expected\n");
    return std::nullopt;
}

/// What to say about a request that cannot be read. Empty: there is nobody to say it to.
std::optional<answer> complaint(error_code error) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
        return answer(431, "the header is too large\n");
    if (error == http::error::body_limit) return answer(413, "the body is too large\n");
    if (error == http::error::end_of_stream || error == http::error::partial_message)
        return std::nullopt;
    if (error.category() == http::make_error_code(http::error::bad_method).category())
        return answer(400, "this is no HTTP request\n");
    return std::nullopt;
}

/// Whoever is told must not be a reason to say nothing.
void tell(const manners& how, const std::exception_ptr& failed) {
    if (!how.on_error) return;
    try {
        how.on_error(failed);
    } catch (...) {
        static_cast<void>(0);
    }
}

response failure() { return to_response(answer(500, "something went wrong\n")); }

/// While the server drains, whatever has come by the first answer is still answered, and no more:
/// who goes on asking would have it never end.
bool may_follow(const manners& how, connection& after) {
    if (!how.draining) return true;
    if (!after.answered_until) {
        error_code ignored;
        after.answered_until = after.received + after.stream.socket().available(ignored);
    }
    return after.received - after.buffer.size() < *after.answered_until;
}

void make_ready(response& what, occasion on, bool keep) {
    what.version(on.version);
    what.keep_alive(keep);
    what.set(http::field::date, http_date());
    if (!has_no_body(what.result_int())) return what.prepare_payload();
    what.body().clear();
    what.content_length({});  // none
}

struct outcome {
    bool sent = false;  // all of it
    bool keep = false;
};

asio::awaitable<outcome> send(std::shared_ptr<manners> how, std::shared_ptr<connection> to,
                              response what, occasion on) {
    // A handler's 1xx is no answer: only an end tells the client that there will be none.
    bool is_one = what.result_int() >= 200;
    bool keep = on.keep_alive && is_one && what.keep_alive() && may_follow(*how, *to);
    try {
        make_ready(what, on, keep);
    } catch (...) {
        tell(*how, std::current_exception());
        what = failure();
        make_ready(what, on, keep);
    }
    to->stream.expires_after(how->within.answer_time);
    error_code error;
    // Not by Beast's serializer, which can do far more (chunks) and takes ten seconds to compile.
    http::fields::writer head(what, what.version(), what.result_int());
    std::string header = boost::beast::buffers_to_string(head.get());
    two_buffers bytes{asio::buffer(header),
                      on.head ? asio::const_buffer() : asio::buffer(what.body())};
    auto token = asio::redirect_error(asio::use_awaitable, error);
    co_await asio::async_write(to->stream, bytes, token);
    co_return outcome{!error, keep && !error};
}

/// What the handler says, or what is said for it.
asio::awaitable<response> handled(std::shared_ptr<manners> how, request r) {
    std::exception_ptr failed;
    try {
        co_return co_await how->work(std::move(r));
    } catch (...) {
        failed = std::current_exception();
    }
    try {
        if (std::optional<answer> known = answer_to(failed)) co_return to_response(*known);
    } catch (...) {
        failed = std::current_exception();  // nothing that can be said
    }
    tell(*how, failed);
    co_return failure();
}

/// As much of a header as has come. Beast's own limit is for what it has not parsed yet: fields
/// that come one by one have none. So they are counted here.
class header_reader {
public:
    header_reader(parser& into, std::size_t max) : into_(into), max_(max) {}

    /// need_more, no error at all, or what is wrong.
    error_code read_from(boost::beast::flat_buffer& buffer) {
        error_code error = http::error::need_more;
        if (buffer.size() > 0) {
            std::size_t used = into_.put(buffer.data(), error);
            buffer.consume(used);
            all_ += used;
        }
        bool wants_more = !error && !into_.is_header_done();
        if (wants_more || error == http::error::need_more) {
            if (all_ + buffer.size() > max_) return http::error::header_limit;
            return http::error::need_more;
        }
        if (!error && all_ > max_) return http::error::header_limit;
        return error;
    }
    bool has_begun() const noexcept { return into_.got_some(); }

private:
    parser& into_;
    std::size_t max_;
    std::size_t all_ = 0;
};

/// The header of the next request. False: there will be none.
asio::awaitable<bool> read_header(std::shared_ptr<manners> how, std::shared_ptr<connection> from,
                                  parser* into) {
    header_reader reader(*into, how->within.header);
    error_code error = reader.read_from(from->buffer);
    bool begun = from->buffer.size() > 0 || reader.has_begun();
    from->stream.expires_after(begun ? how->within.header_time : how->within.idle_time);
    while (error == http::error::need_more) {
        auto token = asio::redirect_error(asio::use_awaitable, error);
        auto room = from->buffer.prepare(some_of_a_header);
        std::size_t got = co_await from->stream.async_read_some(room, token);
        if (error) co_return false;
        from->buffer.commit(got);
        from->received += got;
        if (!std::exchange(begun, true)) from->stream.expires_after(how->within.header_time);
        error = reader.read_from(from->buffer);
    }
    if (!error) co_return true;
    std::optional<answer> what = complaint(error);
    if (what) {
        how->all->begins_to_send(*from);
        response said = to_response(*what);
        outcome out = co_await send(how, from, std::move(said), occasion());
        how->all->has_been_answered(*from, out.sent, false);
    }
    co_return false;
}

/// Into the parser, all that there is. Beast's own reading calls it for each byte, and it asserts
/// that of a last chunk which it has begun there are five: a client that sends "0\r\n" and "\r"
/// by themselves would end a program whose assertions are on. Less is never an end, so we wait.
asio::awaitable<error_code> read_rest(std::shared_ptr<connection> from, parser* into) {
    const std::size_t least = into->chunked() ? least_of_chunks : 1;
    into->eager(true);
    for (;;) {
        error_code error;
        if (from->buffer.size() >= least) {
            from->buffer.consume(into->put(from->buffer.data(), error));
            if (error && error != http::error::need_more) co_return error;
            if (into->is_done()) co_return error_code();
        }
        std::size_t room_left = from->buffer.max_size() - from->buffer.size();
        if (room_left == 0) co_return http::error::header_limit;  // extensions, or trailers
        auto token = asio::redirect_error(asio::use_awaitable, error);
        auto room = from->buffer.prepare(std::min(room_left, some_of_a_body));
        std::size_t got = co_await from->stream.async_read_some(room, token);
        if (error) co_return error;
        from->buffer.commit(got);
        from->received += got;
    }
}

/// The rest of it. False: it cannot be had, or is not wanted; `out` is what became of saying so.
asio::awaitable<bool> read_body(std::shared_ptr<manners> how, std::shared_ptr<connection> from,
                                parser* into, outcome* out) {
    std::optional<answer> refusal = objection(into->get());
    error_code error;
    if (!refusal && !into->is_done()) {
        from->stream.expires_after(how->within.body_time);
        if (expects_something(into->get())) {
            static constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
            two_buffers bytes{asio::buffer(go_on), asio::const_buffer()};
            auto token = asio::redirect_error(asio::use_awaitable, error);
            co_await asio::async_write(from->stream, bytes, token);
        }
        if (!error) error = co_await read_rest(from, into);
        if (error) refusal = complaint(error);
    }
    if (refusal) {
        response said = to_response(*refusal);
        *out = co_await send(how, from, std::move(said), occasion());
    }
    co_return !refusal && !error;
}

asio::awaitable<void> wait_with(std::shared_ptr<connection> with, std::chrono::nanoseconds pause) {
    with->pause.expires_after(pause);
    error_code ignored;
    co_await with->pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

/// One request and its answer. False: the conversation is over.
asio::awaitable<bool> exchange(std::shared_ptr<manners> how, std::shared_ptr<connection> with) {
    parser incoming;
    incoming.header_limit(static_cast<std::uint32_t>(how->within.header));
    incoming.body_limit(how->within.body);
    bool whole = co_await read_header(how, with, &incoming);
    if (!whole) co_return false;
    how->all->begins_to_send(*with);
    // What comes after a body in chunks is no part of the header, and nobody has looked at it.
    std::optional<http::request_header<>> head;
    if (incoming.chunked()) head = incoming.get().base();
    outcome out;
    bool complete = co_await read_body(how, with, &incoming, &out);
    bool was_busy = false;
    if (complete) {
        if (!how->all->becomes_busy(*with)) co_return false;
        with->stream.expires_never();  // a handler minds its own time
        request r = incoming.release();
        if (head) r.base() = *std::move(head);
        occasion on{r.version(), r.keep_alive(), r.method() == http::verb::head};
        response said = co_await handled(how, std::move(r));
        was_busy = said.result() == http::status::service_unavailable;
        out = co_await send(how, with, std::move(said), on);
    }
    how->all->has_been_answered(*with, out.sent, out.keep);
    if (out.keep && was_busy) co_await wait_with(with, how->within.busy_pause);
    co_return out.keep;
}

/// Closed at once with something unread, the connection would be reset, and the last answer lost.
/// So the client is given time to take it, and to close first.
asio::awaitable<void> bid_farewell(std::shared_ptr<connection> to) {
    error_code error;
    std::ignore = to->stream.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
    if (error) co_return;
    to->stream.expires_after(farewell_time);
    to->buffer.clear();
    auto token = asio::redirect_error(asio::use_awaitable, error);
    for (std::size_t all = 0; all < farewell_bytes && !error;) {
        auto room = to->buffer.prepare(some_of_a_header);
        all += co_await to->stream.async_read_some(room, token);
    }
}

}  // namespace

limits reckonable(limits l) {
    for (auto* time :
         {&l.header_time, &l.body_time, &l.answer_time, &l.idle_time, &l.busy_pause, &l.last_call})
        *time = std::clamp<std::chrono::nanoseconds>(*time, {}, longest_time);
    l.header = std::min(l.header, largest_header);
    return l;
}

asio::awaitable<void> converse(std::shared_ptr<manners> how, std::shared_ptr<connection> with) {
    struct leaves {
        manners& of;
        connection& who;
        ~leaves() { of.all->leave(who); }
    };
    [[maybe_unused]] leaves at_the_end{*how, *with};
    for (bool more = true; more;) more = co_await exchange(how, with);
    co_await bid_farewell(with);
}

asio::awaitable<void> turn_away(std::shared_ptr<manners> how, std::shared_ptr<connection> who) {
    struct gone {
        std::atomic<std::size_t>& of;
        ~gone() { --of; }
    };
    [[maybe_unused]] gone at_the_end{how->turned_away};
    answer full(503, "too many connections\n");
    full.retry_after(come_again_in);
    response said = to_response(full);
    co_await send(how, who, std::move(said), occasion());
    co_await bid_farewell(who);
}

}  // namespace cenote::http_server
