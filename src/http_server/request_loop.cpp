// The loop over the requests of a connection, within the server's limits.
#include "http_server/request_loop.hpp"

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

// How long, and for how many bytes, a closing connection is read after its last response.
constexpr std::chrono::seconds linger_time{2};
constexpr std::size_t linger_bytes = std::size_t{256} << 10;
/// Retry-After for clients beyond the maximum of connections.
constexpr std::chrono::seconds full_retry_after{1};
// Bytes per read.
constexpr std::size_t header_read = std::size_t{4} << 10;
constexpr std::size_t body_read = std::size_t{16} << 10;
constexpr std::chrono::nanoseconds longest_time = std::chrono::hours(24);
constexpr std::size_t largest_header = std::size_t{1} << 30;
/// The size of the shortest end of a chunked body: "0" and two line ends.
constexpr std::size_t chunked_end_min = 5;

/// "Sun, 06 Nov 1994 08:49:37 GMT", independent of the locale.
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

/// What the response needs of its request, which was moved to the handler.
struct request_info {
    unsigned version = 11;
    bool keep_alive = false;
    bool head = false;
};

/// Whether the end of the body is unambiguous. Beast's parser ignores a Transfer-Encoding that it
/// does not know, a proxy in front may not: then the body to one is the next request to the other
/// (request smuggling). So only `chunked`, alone, is accepted.
bool has_unambiguous_body(const request& r) {
    auto codings = r.count(http::field::transfer_encoding);
    if (codings == 0) return true;
    return codings == 1 && r.version() >= 11 && r.count(http::field::content_length) == 0 &&
           boost::beast::iequals(r[http::field::transfer_encoding], "chunked");
}

/// HTTP/1.0 has no expectations.
bool has_expectation(const request& r) {
    return r.version() >= 11 && r.find(http::field::expect) != r.end();
}

/// The refusal of a well-formed header that is not supported, if any.
std::optional<answer> refusal_of(const request& r) {
    auto hosts = r.count(http::field::host);
    if (hosts > 1 || (r.version() >= 11 && hosts == 0))
        return answer(400, "exactly one Host field is required\n");
    if (!has_unambiguous_body(r))
        return answer(400, "the only Transfer-Encoding supported is chunked, in HTTP/1.1\n");
    if (has_expectation(r) && !boost::beast::iequals(r[http::field::expect], "100-continue"))
        return answer(417, "the only expectation supported is 100-continue\n");
    return std::nullopt;
}

/// The refusal of a request that could not be read. Empty if the client is gone.
std::optional<answer> refusal_of(error_code error) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
        return answer(431, "the header is too large\n");
    if (error == http::error::body_limit) return answer(413, "the body is too large\n");
    if (error == http::error::end_of_stream || error == http::error::partial_message)
        return std::nullopt;
    if (error.category() == http::make_error_code(http::error::bad_method).category())
        return answer(400, "malformed HTTP request\n");
    return std::nullopt;
}

/// Calls `on_error`. What that throws is ignored: the client must get a response.
void report(const server_context& context, const std::exception_ptr& error) {
    if (!context.on_error) return;
    try {
        context.on_error(error);
    } catch (...) {
        static_cast<void>(0);
    }
}

response internal_error() { return to_response(answer(500, "internal error\n")); }

/// Whether another request may follow. A draining server serves only what was received by the first
/// response, or else a client that keeps sending requests would delay the end.
bool may_follow(const server_context& context, connection& client) {
    if (!context.draining) return true;
    if (!client.drain_end) {
        error_code ignored;
        client.drain_end = client.received + client.stream.socket().available(ignored);
    }
    return client.received - client.buffer.size() < *client.drain_end;
}

void prepare(response& what, request_info info, bool keep) {
    what.version(info.version);
    what.keep_alive(keep);
    what.set(http::field::date, http_date());
    if (!has_no_body(what.result_int())) return what.prepare_payload();
    what.body().clear();
    what.content_length({});  // none
}

struct send_result {
    bool sent = false;  // completely
    bool keep = false;
};

asio::awaitable<send_result> send(std::shared_ptr<server_context> context,
                                  std::shared_ptr<connection> client, response what,
                                  request_info info) {
    // A 1xx from a handler is no final response: closing tells the client that none will come.
    bool is_final = what.result_int() >= 200;
    bool keep = info.keep_alive && is_final && what.keep_alive() && may_follow(*context, *client);
    try {
        prepare(what, info, keep);
    } catch (...) {
        report(*context, std::current_exception());
        what = internal_error();
        prepare(what, info, keep);
    }
    client->stream.expires_after(context->within.answer_time);
    error_code error;
    // Beast's serializer would do, but takes ten seconds to compile.
    http::fields::writer head(what, what.version(), what.result_int());
    std::string header = boost::beast::buffers_to_string(head.get());
    two_buffers bytes{asio::buffer(header),
                      info.head ? asio::const_buffer() : asio::buffer(what.body())};
    auto token = asio::redirect_error(asio::use_awaitable, error);
    co_await asio::async_write(client->stream, bytes, token);
    co_return send_result{!error, keep && !error};
}

/// The handler's response, or 500 for an exception that answering() did not convert.
asio::awaitable<response> run_handler(std::shared_ptr<server_context> context, request r) {
    std::exception_ptr failed;
    try {
        co_return co_await context->work(std::move(r));
    } catch (...) {
        failed = std::current_exception();
    }
    report(*context, failed);
    co_return internal_error();
}

/// Parses a header that arrives in pieces of any size. Beast's limit applies only to bytes not
/// parsed yet, so fields that arrive one by one would be unlimited: this class counts all bytes.
class header_reader {
public:
    header_reader(parser& into, std::size_t max) : into_(into), max_(max) {}

    /// Returns need_more until the header is complete.
    error_code read_from(boost::beast::flat_buffer& buffer) {
        error_code error = http::error::need_more;
        if (buffer.size() > 0) {
            std::size_t used = into_.put(buffer.data(), error);
            buffer.consume(used);
            total_ += used;
        }
        bool wants_more = !error && !into_.is_header_done();
        if (wants_more || error == http::error::need_more) {
            if (total_ + buffer.size() > max_) return http::error::header_limit;
            return http::error::need_more;
        }
        if (!error && total_ > max_) return http::error::header_limit;
        return error;
    }
    bool has_begun() const noexcept { return into_.got_some(); }

private:
    parser& into_;
    std::size_t max_;
    std::size_t total_ = 0;
};

/// Reads the header of the next request. False: there is none.
asio::awaitable<bool> read_header(std::shared_ptr<server_context> context,
                                  std::shared_ptr<connection> client, parser* into) {
    header_reader reader(*into, context->within.header);
    error_code error = reader.read_from(client->buffer);
    bool begun = client->buffer.size() > 0 || reader.has_begun();
    client->stream.expires_after(begun ? context->within.header_time : context->within.idle_time);
    while (error == http::error::need_more) {
        auto token = asio::redirect_error(asio::use_awaitable, error);
        auto room = client->buffer.prepare(header_read);
        std::size_t got = co_await client->stream.async_read_some(room, token);
        if (error) co_return false;
        client->buffer.commit(got);
        client->received += got;
        if (!std::exchange(begun, true)) client->stream.expires_after(context->within.header_time);
        error = reader.read_from(client->buffer);
    }
    if (!error) co_return true;
    std::optional<answer> refusal = refusal_of(error);
    if (refusal) {
        context->clients->set_receiving(*client);
        response what = to_response(*refusal);
        send_result result = co_await send(context, client, std::move(what), request_info());
        context->clients->set_idle(*client, result.sent, false);
    }
    co_return false;
}

/// Reads the rest of the body. Waits for five bytes of a chunked body at a time: Beast asserts that
/// a last chunk is complete, and a client that sends "0\r\n" and "\r" separately would abort the
/// program. Fewer bytes are never an end.
asio::awaitable<error_code> read_rest(std::shared_ptr<connection> client, parser* into) {
    const std::size_t least = into->chunked() ? chunked_end_min : 1;
    into->eager(true);
    for (;;) {
        error_code error;
        if (client->buffer.size() >= least) {
            client->buffer.consume(into->put(client->buffer.data(), error));
            if (error && error != http::error::need_more) co_return error;
            if (into->is_done()) co_return error_code();
        }
        std::size_t room_left = client->buffer.max_size() - client->buffer.size();
        if (room_left == 0) co_return http::error::header_limit;  // chunk extensions or trailers
        auto token = asio::redirect_error(asio::use_awaitable, error);
        auto room = client->buffer.prepare(std::min(room_left, body_read));
        std::size_t got = co_await client->stream.async_read_some(room, token);
        if (error) co_return error;
        client->buffer.commit(got);
        client->received += got;
    }
}

/// Reads the body. False: the request was refused (see `result`) or the client is gone.
asio::awaitable<bool> read_body(std::shared_ptr<server_context> context,
                                std::shared_ptr<connection> client, parser* into,
                                send_result* result) {
    std::optional<answer> refusal = refusal_of(into->get());
    error_code error;
    if (!refusal && !into->is_done()) {
        client->stream.expires_after(context->within.body_time);
        if (has_expectation(into->get())) {
            static constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
            two_buffers bytes{asio::buffer(go_on), asio::const_buffer()};
            auto token = asio::redirect_error(asio::use_awaitable, error);
            co_await asio::async_write(client->stream, bytes, token);
        }
        if (!error) error = co_await read_rest(client, into);
        if (error) refusal = refusal_of(error);
    }
    if (refusal) {
        response what = to_response(*refusal);
        *result = co_await send(context, client, std::move(what), request_info());
    }
    co_return !refusal && !error;
}

/// Serves one request. False: it was the last one.
asio::awaitable<bool> serve_request(std::shared_ptr<server_context> context,
                                    std::shared_ptr<connection> client) {
    parser incoming;
    incoming.header_limit(static_cast<std::uint32_t>(context->within.header));
    incoming.body_limit(context->within.body);
    bool has_header = co_await read_header(context, client, &incoming);
    if (!has_header) co_return false;
    context->clients->set_receiving(*client);
    // Trailers of a chunked body are dropped: they were not checked like the header.
    std::optional<http::request_header<>> head;
    if (incoming.chunked()) head = incoming.get().base();
    send_result result;
    bool complete = co_await read_body(context, client, &incoming, &result);
    bool was_503 = false;
    if (complete) {
        if (!context->clients->set_busy(*client)) co_return false;
        client->stream.expires_never();  // handlers have timeouts of their own
        request r = incoming.release();
        if (head) r.base() = *std::move(head);
        request_info info{r.version(), r.keep_alive(), r.method() == http::verb::head};
        response what = co_await run_handler(context, std::move(r));
        was_503 = what.result() == http::status::service_unavailable;
        result = co_await send(context, client, std::move(what), info);
    }
    context->clients->set_idle(*client, result.sent, result.keep);
    if (result.keep && was_503) {
        client->pause.expires_after(context->within.busy_pause);
        error_code ignored;
        co_await client->pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    co_return result.keep;
}

/// Waits for the client to close first: closing a socket with unread data resets the connection,
/// and the client would lose the last response.
asio::awaitable<void> linger_close(std::shared_ptr<connection> client) {
    error_code error;
    std::ignore = client->stream.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
    if (error) co_return;
    client->stream.expires_after(linger_time);
    client->buffer.clear();
    auto token = asio::redirect_error(asio::use_awaitable, error);
    for (std::size_t total = 0; total < linger_bytes && !error;) {
        auto room = client->buffer.prepare(header_read);
        total += co_await client->stream.async_read_some(room, token);
    }
}

}  // namespace

limits clamped(limits l) {
    for (auto* time :
         {&l.header_time, &l.body_time, &l.answer_time, &l.idle_time, &l.busy_pause, &l.last_call})
        *time = std::clamp<std::chrono::nanoseconds>(*time, {}, longest_time);
    l.header = std::min(l.header, largest_header);
    return l;
}

asio::awaitable<void> serve(std::shared_ptr<server_context> context,
                            std::shared_ptr<connection> client) {
    struct removal {
        connections& from;
        connection& client;
        ~removal() { from.remove(client); }
    };
    [[maybe_unused]] removal at_the_end{*context->clients, *client};
    for (bool more = true; more;) more = co_await serve_request(context, client);
    co_await linger_close(client);
}

asio::awaitable<void> reject(std::shared_ptr<server_context> context,
                             std::shared_ptr<connection> client) {
    struct decrement {
        std::atomic<std::size_t>& count;
        ~decrement() { --count; }
    };
    [[maybe_unused]] decrement at_the_end{context->rejecting};
    answer full(503, "too many connections\n");
    full.retry_after(full_retry_after);
    response what = to_response(full);
    co_await send(context, client, std::move(what), request_info());
    co_await linger_close(client);
}

}  // namespace cenote::http_server
