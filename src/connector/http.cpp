// HTTP/1.1 connections and connectors, each operation written once for both ways to wait.
#include "cenote/http.hpp"

#include <functional>
#include <stdexcept>
#include <utility>

#include "cenote/server_error.hpp"
#include "connector/drive.hpp"
#include "connector/endpoint.hpp"
#include "connector/exchange.hpp"
#include "connector/http_reader.hpp"
#include "connector/http_request.hpp"
#include "connector/transport.hpp"

namespace cenote::http {

using boost::asio::awaitable;
using connector_detail::awaited;
using connector_detail::blocking;
using connector_detail::condition;
using connector_detail::deadline_after;
using connector_detail::exchange;
using connector_detail::instant;
using connector_detail::need;
using connector_detail::result_in;
using connector_detail::socket_state;
using connector_detail::steps;
using connector_detail::transport;

namespace detail {

/// The state of a connection. Stays in place while its connection object moves.
class channel {
public:
    channel(std::shared_ptr<const settings> made_by, transport t)
        : by(std::move(made_by)),
          peer(std::move(t)),
          reader(by->chosen.max_header),
          timeout(by->chosen.operation_timeout) {}

    /// Throws not_sent if the connection cannot take a request.
    exchange begin() {
        if (state.broken())
            throw not_sent(ending ? "cenote: HTTP: the server's last response ended the connection"
                                  : "cenote: HTTP: the connection is unusable: it was lost, or an "
                                    "operation on it ended early");
        bool quiet = state.still_quiet();
        exchange begun(state);
        if (!quiet && peer.check() != socket_state::quiet)
            throw not_sent(
                "cenote: HTTP: the server has closed the connection or sent unexpected data");
        return begun;
    }

    /// The response is complete. Another request may follow only without any doubt about where the
    /// response has ended.
    void finish(exchange& begun, bool all_sent) noexcept {
        begun.complete();
        if (all_sent && reader.reusable()) return;
        ending = true;
        state.note_broken();
    }

    void close() noexcept {
        state.note_broken();
        peer.close();
    }

    bool quiet() noexcept {
        if (!state.idle() || peer.check() != socket_state::quiet) return false;
        state.note_quiet();
        return true;
    }
    bool still_quiet() noexcept { return state.still_quiet() || quiet(); }
    instant deadline() const noexcept { return deadline_after(timeout); }

    std::shared_ptr<const settings> by;
    condition state;
    transport peer;
    response_reader reader;
    std::chrono::nanoseconds timeout;
    bool ending = false;  // ended by the server's response, not lost
};

namespace {

enum class until : std::uint8_t { head, piece, end };

/// Reads a response up to some point.
class response_steps : public steps {
public:
    int descriptor() const override { return on_.peer.descriptor(); }
    const char* expected() const override { return "the server's response"; }

protected:
    response_steps(channel& on, until enough) : on_(on), enough_(enough) {}
    ~response_steps() = default;

    need read() {
        for (std::size_t all = 0;;) {
            if (is_enough()) return need::nothing;
            // With small chunks, reading could go on as long as they come.
            if (all >= connector_detail::max_bytes_per_step) return need::a_turn;
            need wanted = need::nothing;
            std::size_t got = on_.peer.read_or_end(on_.reader.room(), wanted);
            all += got;
            if (got > 0) on_.reader.received(got);
            else if (wanted != need::nothing) return wanted;
            else on_.reader.ended();
        }
    }

    channel& on_;

private:
    bool is_enough() const {
        const response_reader& r = on_.reader;
        switch (enough_) {
            case until::head: return r.has_head();
            case until::piece: return r.has_body() || r.done();
            case until::end: break;
        }
        return r.done();
    }

    until enough_;
};

class reading final : public response_steps {
public:
    reading(channel& on, until enough) : response_steps(on, enough) {}
    need step() override { return read(); }
};

/// Writes a request and reads its response up to some point.
class requesting final : public response_steps {
public:
    requesting(channel& on, const request_text& what, until enough)
        : response_steps(on, enough), head_(what.head()), body_(what.body()) {}

    need step() override {
        if (!all_sent()) {
            need wanted = write();
            // A server that refuses a long request may respond and read no further.
            if (wanted == need::to_write) {
                need response = read();
                bool waits = response == need::to_read || response == need::to_write;
                return waits ? need::to_do_either : response;
            }
            if (wanted != need::nothing) return wanted;
            // The response takes a while: waits first. Under TLS it may have been read already, and
            // the socket would not become readable.
            if (all_sent() && !on_.peer.is_protected()) return need::to_read;
        }
        return read();
    }
    /// False after a response to an incomplete request.
    bool all_sent() const noexcept { return head_.empty() && body_.empty(); }

private:
    /// Returns what is needed to go on. If writing fails, a response that is there already counts
    /// more than the error.
    need write() {
        try {
            return write_all();
        } catch (const connection_error& e) {
            if (!begun_) throw not_sent(e.what(), e.code());
            if (!responded()) throw;
            return need::nothing;
        }
    }
    need write_all() {
        for (std::size_t all = 0; !all_sent();) {
            if (all >= connector_detail::max_bytes_per_step) return need::a_turn;
            std::string_view& next = head_.empty() ? body_ : head_;
            need wanted = need::nothing;
            std::size_t sent = on_.peer.write_some(next, wanted);
            if (sent == 0) return wanted;
            begun_ = true;
            all += sent;
            next.remove_prefix(sent);
        }
        return need::nothing;
    }
    /// Reads what is there: since the connection has failed, no more than the system has buffered.
    bool responded() {
        try {
            need more = read();
            while (more == need::a_turn) more = read();
            return more == need::nothing;
        } catch (const connection_error&) {
            return false;
        }
    }

    std::string_view head_;
    std::string_view body_;
    bool begun_ = false;  // the server may have received a part
};

bool is_head(const request& r) { return r.method == "HEAD"; }

}  // namespace

/// The body of a response that is being read.
class body {
public:
    body(std::shared_ptr<channel> of, exchange begun, bool all_sent)
        : on_(std::move(of)), all_sent_(all_sent), head_(on_->reader.take_head()) {
        suspend(begun);
    }
    body(const body&) = delete;
    body& operator=(const body&) = delete;
    /// Finishes the exchange if the end has come, even if it was not read.
    ~body() {
        if (exchange_ && on_->reader.done()) on_->finish(*exchange_, all_sent_);
    }

    const response& head() const noexcept { return head_; }
    bool over() const noexcept { return over_; }
    channel& on() const noexcept { return *on_; }

    /// Takes the exchange, to read on. If it is destroyed before take(), the connection is broken.
    exchange resume() {
        if (!exchange_ && !on_->state.broken())
            throw std::logic_error("cenote: HTTP: another read of the body is under way");
        if (on_->state.broken())
            throw connection_error(error_kind::connection,
                                   "cenote: HTTP: the connection was lost or given back before the "
                                   "body was read");
        exchange resumed = std::move(*exchange_);
        exchange_.reset();
        return resumed;
    }
    std::optional<std::string> take(exchange& resumed) {
        std::optional<std::string> piece;
        if (on_->reader.has_body()) piece = on_->reader.take_body();
        suspend(resumed);
        return piece;
    }
    std::size_t take(exchange& resumed, std::span<char> into) {
        std::size_t size = on_->reader.take_body(into);
        suspend(resumed);
        return size;
    }

private:
    void suspend(exchange& current) {
        over_ = on_->reader.done() && !on_->reader.has_body();
        if (over_) on_->finish(current, all_sent_);
        else exchange_.emplace(std::move(current));
    }

    std::shared_ptr<channel> on_;
    std::optional<exchange> exchange_;  // empty: over, or a read is under way
    bool all_sent_;
    bool over_ = false;
    response head_;
};

struct access {
    static connection make(std::shared_ptr<const settings> by, transport peer) {
        return connection(std::make_shared<channel>(std::move(by), std::move(peer)));
    }
    static const std::shared_ptr<channel>& of(const connection& c) { return c.channel_; }
};

namespace {

// The request is one that the coroutine owns, or a reference to one.

template <class Mode, class Request>
result_in<Mode, response> send(std::shared_ptr<channel> on, Request given) {
    const request& r = given;
    request_text text(r, *on->by);
    exchange begun = on->begin();
    on->reader.begin(is_head(r), on->by->chosen.max_body);
    requesting all(*on, text, until::end);
    co_await Mode::drive(all, on->deadline());
    on->finish(begun, all.all_sent());
    co_return on->reader.take_response();
}

template <class Mode, class Request>
result_in<Mode, std::shared_ptr<body>> stream(std::shared_ptr<channel> on, Request given) {
    const request& r = given;
    request_text text(r, *on->by);
    exchange begun = on->begin();
    on->reader.begin(is_head(r), std::nullopt);
    requesting head(*on, text, until::head);
    co_await Mode::drive(head, on->deadline());
    co_return std::make_shared<body>(on, std::move(begun), head.all_sent());
}

template <class Mode>
result_in<Mode, std::optional<std::string>> next(std::shared_ptr<body> of) {
    if (of->over()) co_return std::nullopt;
    exchange resumed = of->resume();
    reading more(of->on(), until::piece);
    co_await Mode::drive(more, of->on().deadline());
    co_return of->take(resumed);
}

template <class Mode>
result_in<Mode, std::size_t> read(std::shared_ptr<body> of, std::span<char> into) {
    if (into.empty()) throw std::invalid_argument("cenote: HTTP: the buffer is empty");
    if (of->over()) co_return 0;
    exchange resumed = of->resume();
    reading more(of->on(), until::piece);
    co_await Mode::drive(more, of->on().deadline());
    co_return of->take(resumed, into);
}

}  // namespace

}  // namespace detail

// Streams.

streamed::streamed(std::shared_ptr<detail::body> of) noexcept : body_(std::move(of)) {}
streamed::streamed(streamed&&) noexcept = default;
streamed& streamed::operator=(streamed&&) noexcept = default;
streamed::~streamed() = default;

const response& streamed::head() const noexcept { return body_->head(); }

std::optional<std::string> streamed::next() { return detail::next<blocking>(body_).get(); }

awaitable<std::optional<std::string>> streamed::async_next() {
    return detail::next<awaited>(body_);
}

std::size_t streamed::read(std::span<char> into) {
    return detail::read<blocking>(body_, into).get();
}

awaitable<std::size_t> streamed::async_read(std::span<char> into) {
    return detail::read<awaited>(body_, into);
}

// Connections.

connection::connection(std::shared_ptr<detail::channel> made) noexcept
    : channel_(std::move(made)) {}
connection::connection(connection&&) noexcept = default;
connection& connection::operator=(connection&&) noexcept = default;
connection::~connection() = default;

response connection::send(const request& r) {
    return detail::send<blocking>(channel_, std::cref(r)).get();
}

awaitable<response> connection::async_send(request r) {
    return detail::send<awaited>(channel_, std::move(r));
}

streamed connection::stream(const request& r) {
    return streamed(detail::stream<blocking>(channel_, std::cref(r)).get());
}

awaitable<streamed> connection::async_stream(request r) {
    awaitable<std::shared_ptr<detail::body>> begun =
        detail::stream<awaited>(channel_, std::move(r));
    std::shared_ptr<detail::body> opened = co_await std::move(begun);
    co_return streamed(std::move(opened));
}

void connection::set_timeout(std::chrono::nanoseconds time) noexcept { channel_->timeout = time; }
bool connection::reusable() const noexcept { return channel_->state.idle(); }
int connection::native_handle() const noexcept { return channel_->peer.descriptor(); }

// Connectors.

namespace detail {

namespace {

template <class Mode>
result_in<Mode, connection> open(std::shared_ptr<const settings> by) {
    instant deadline = deadline_after(by->chosen.connect_timeout);
    transport peer = co_await connector_detail::open_transport<Mode>(
        &by->chosen.host, by->chosen.port, by->tls.get(), deadline);
    co_return access::make(by, std::move(peer));
}

template <class Mode>
result_in<Mode, bool> probe(std::shared_ptr<channel> on, std::string target) {
    if (!on->quiet()) co_return false;
    if (target.empty()) co_return true;
    request r = get(std::move(target));
    response got = co_await send<Mode>(on, std::move(r));
    co_return got.status < 500 && on->state.idle();
}

awaitable<void> async_close(std::shared_ptr<channel> on) {
    on->close();
    co_return;
}

}  // namespace

connector_base::connector_base(const options& chosen)
    : settings_(std::make_shared<const settings>(chosen)) {}

std::string connector_base::endpoint() const {
    const options& chosen = settings_->chosen;
    return (chosen.secure ? "https://" : "http://") +
           connector_detail::endpoint_of(chosen.host, chosen.port);
}

void connector_base::reset(connection& c) const {
    if (!access::of(c)->quiet())
        throw connection_error(error_kind::connection,
                               "cenote: HTTP: the connection is unusable: it was lost, or an "
                               "operation on it ended early");
}

bool connector_base::before_acquire(connection& c) const noexcept {
    return access::of(c)->still_quiet();
}

verdict connector_base::before_release(connection& c) const noexcept {
    channel& on = *access::of(c);
    on.timeout = settings_->chosen.operation_timeout;
    return on.quiet() ? verdict::keep : verdict::discard;
}

void connector_base::forsake(connection& c) const noexcept {
    channel& on = *access::of(c);
    on.state.note_broken();
    on.peer.forsake();
}

}  // namespace detail

connection connector::open() const { return detail::open<blocking>(settings_).get(); }
bool connector::probe(connection& c) const {
    return detail::probe<blocking>(detail::access::of(c), settings_->chosen.probe_target).get();
}
void connector::close(connection& c) const noexcept { detail::access::of(c)->close(); }

awaitable<connection> async_connector::open() const { return detail::open<awaited>(settings_); }
awaitable<bool> async_connector::probe(connection& c) const {
    return detail::probe<awaited>(detail::access::of(c), settings_->chosen.probe_target);
}
awaitable<void> async_connector::close(connection& c) const {
    return detail::async_close(detail::access::of(c));
}

}  // namespace cenote::http
