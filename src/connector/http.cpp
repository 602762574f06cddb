// Connections of HTTP/1.1, and who opens them.
#include "cenote/http.hpp"

#include <stdexcept>
#include <utility>

#include "cenote/server_error.hpp"
#include "connector/drive.hpp"
#include "connector/exchange.hpp"
#include "connector/http_reader.hpp"
#include "connector/http_request.hpp"
#include "connector/socket.hpp"
#include "connector/transport.hpp"

namespace cenote::http {

using boost::asio::awaitable;
using connector_detail::async_drive;
using connector_detail::condition;
using connector_detail::deadline_after;
using connector_detail::drive;
using connector_detail::exchange;
using connector_detail::instant;
using connector_detail::need;
using connector_detail::sight;
using connector_detail::steps;
using connector_detail::transport;

namespace detail {

/// A connection, which stays where it is while its owner is moved about.
class link {
public:
    link(std::shared_ptr<const settings> made_by, transport t)
        : by(std::move(made_by)),
          wire(std::move(t)),
          reader(by->chosen.max_header),
          timeout(by->chosen.operation_timeout) {}

    /// Throws not_sent if there is no use in trying.
    exchange begin() {
        if (state.broken())
            throw not_sent(
                ending ? "cenote: the server's last answer was the last on this connection"
                       : "cenote: the connection was lost or left in the middle of an exchange; it "
                         "cannot be used any more");
        bool quiet = state.still_quiet();
        exchange begun(state);
        if (!quiet && wire.look() != sight::quiet)
            throw not_sent("cenote: the server has hung up, or said something unasked");
        return begun;
    }

    /// Another request may follow only if there is no doubt about anything.
    void finish(exchange& begun, bool all_sent) noexcept {
        begun.complete();
        if (all_sent && reader.reusable()) return;
        ending = true;
        state.note_broken();
    }

    void close() noexcept {
        state.note_broken();
        wire.close();
    }

    bool quiet() noexcept {
        if (!state.idle() || wire.look() != sight::quiet) return false;
        state.note_quiet();
        return true;
    }
    bool still_quiet() noexcept { return state.still_quiet() || quiet(); }
    instant deadline() const noexcept { return deadline_after(timeout); }

    std::shared_ptr<const settings> by;
    condition state;
    transport wire;
    response_reader reader;
    std::chrono::nanoseconds timeout;
    bool ending = false;  // it was used up, not lost
};

namespace {

enum class until : std::uint8_t { head, piece, end };

/// Who reads until there is enough.
class reader_steps : public steps {
public:
    int descriptor() const override { return on_.wire.descriptor(); }
    const char* awaited() const override { return "the server's answer"; }

protected:
    reader_steps(link& on, until enough) : on_(on), enough_(enough) {}
    ~reader_steps() = default;

    need read() {
        for (std::size_t all = 0;;) {
            if (is_enough()) return need::nothing;
            // Of small chunks a step would read for as long as they come.
            if (all >= connector_detail::most_per_step) return need::a_turn;
            need wanted = need::nothing;
            std::size_t got = on_.wire.read_or_end(on_.reader.room(), wanted);
            all += got;
            if (got > 0) on_.reader.came(got);
            else if (wanted != need::nothing) return wanted;
            else on_.reader.ended();
        }
    }

    link& on_;

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

class reading final : public reader_steps {
public:
    reading(link& on, until enough) : reader_steps(on, enough) {}
    need step() override { return read(); }
};

/// Writes a request and reads the answer, or enough of it.
class asking final : public reader_steps {
public:
    asking(link& on, const request_text& what, until enough)
        : reader_steps(on, enough), head_(what.head()), body_(what.body()) {}

    need step() override {
        if (!all_sent()) {
            need wanted = write();
            // Whoever refuses a long request may answer, and read no further.
            if (wanted == need::to_write) {
                need answer = read();
                bool waits = answer == need::to_read || answer == need::to_write;
                return waits ? need::to_do_either : answer;
            }
            if (wanted != need::nothing) return wanted;
            // It will take a while. What TLS has read already would not make the socket readable.
            if (all_sent() && !on_.wire.is_protected()) return need::to_read;
        }
        return read();
    }
    /// The server may well answer earlier.
    bool all_sent() const noexcept { return head_.empty() && body_.empty(); }

private:
    /// What is needed to go on. If it cannot go on, an answer that is there already is worth more
    /// than the reason.
    need write() {
        try {
            return write_all();
        } catch (const connection_error& e) {
            if (!begun_) throw not_sent(e.what(), e.code());
            if (!answered()) throw;
            return need::nothing;
        }
    }
    need write_all() {
        for (std::size_t all = 0; !all_sent();) {
            if (all >= connector_detail::most_per_step) return need::a_turn;
            std::string_view& next = head_.empty() ? body_ : head_;
            need wanted = need::nothing;
            std::size_t sent = on_.wire.write_some(next, wanted);
            if (sent == 0) return wanted;
            begun_ = true;
            all += sent;
            next.remove_prefix(sent);
        }
        return need::nothing;
    }
    /// All that is there: the server takes nothing more, so it is no more than the system holds.
    bool answered() {
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
    bool begun_ = false;  // something may have reached the server
};

bool is_head(const request& asked) { return asked.method == "HEAD"; }

}  // namespace

/// The body of an answer that is being read.
class body {
public:
    body(std::shared_ptr<link> of, exchange begun, bool all_sent)
        : on_(std::move(of)), all_sent_(all_sent), head_(on_->reader.take_head()) {
        put_down(begun);
    }
    body(const body&) = delete;
    body& operator=(const body&) = delete;
    /// If the end is there, nobody has to have seen it.
    ~body() {
        if (begun_ && on_->reader.done()) on_->finish(*begun_, all_sent_);
    }

    const response& head() const noexcept { return head_; }
    bool over() const noexcept { return over_; }
    link& on() const noexcept { return *on_; }

    /// Goes on reading. If it gets no further, what is returned takes the connection along.
    exchange pick_up() {
        if (!begun_ && !on_->state.broken())
            throw std::logic_error("cenote: the body is being read already: one at a time");
        if (on_->state.broken())
            throw connection_error(error_kind::connection,
                                   "cenote: the connection was lost or given back before the body "
                                   "was read");
        exchange going_on = std::move(*begun_);
        begun_.reset();
        return going_on;
    }
    std::optional<std::string> take(exchange& going_on) {
        std::optional<std::string> piece;
        if (on_->reader.has_body()) piece = on_->reader.take_body();
        put_down(going_on);
        return piece;
    }
    std::size_t take(exchange& going_on, std::span<char> into) {
        std::size_t size = on_->reader.take_body(into);
        put_down(going_on);
        return size;
    }

private:
    void put_down(exchange& going_on) {
        over_ = on_->reader.done() && !on_->reader.has_body();
        if (over_) on_->finish(going_on, all_sent_);
        else begun_.emplace(std::move(going_on));
    }

    std::shared_ptr<link> on_;
    std::optional<exchange> begun_;  // none: it is over, or being read just now
    bool all_sent_;
    bool over_ = false;
    response head_;
};

struct maker {
    static connection make(std::shared_ptr<const settings> by, transport wire) {
        return connection(std::make_shared<link>(std::move(by), std::move(wire)));
    }
    static const std::shared_ptr<link>& of(const connection& c) { return c.link_; }
};

namespace {

// The awaited forms have what they need in their own frames: whoever awaits them may be gone.

awaitable<response> send_on(std::shared_ptr<link> on, request asked) {
    request_text text(asked, *on->by);
    exchange begun = on->begin();
    on->reader.begin(is_head(asked), on->by->chosen.max_body);
    asking going_on(*on, text, until::end);
    co_await async_drive(going_on, on->deadline());
    on->finish(begun, going_on.all_sent());
    co_return on->reader.take_answer();
}

awaitable<std::shared_ptr<body>> stream_on(std::shared_ptr<link> on, request asked) {
    request_text text(asked, *on->by);
    exchange begun = on->begin();
    on->reader.begin(is_head(asked), std::nullopt);
    asking going_on(*on, text, until::head);
    co_await async_drive(going_on, on->deadline());
    co_return std::make_shared<body>(on, std::move(begun), going_on.all_sent());
}

awaitable<std::optional<std::string>> next_of(std::shared_ptr<body> of) {
    if (of->over()) co_return std::nullopt;
    exchange going_on = of->pick_up();
    reading more(of->on(), until::piece);
    co_await async_drive(more, of->on().deadline());
    co_return of->take(going_on);
}

void must_have_room(std::span<char> into) {
    if (into.empty()) throw std::invalid_argument("cenote: there is no room to read into");
}

awaitable<std::size_t> read_of(std::shared_ptr<body> of, std::span<char> into) {
    must_have_room(into);
    if (of->over()) co_return 0;
    exchange going_on = of->pick_up();
    reading more(of->on(), until::piece);
    co_await async_drive(more, of->on().deadline());
    co_return of->take(going_on, into);
}

}  // namespace

}  // namespace detail

// Streams.

streamed::streamed(std::shared_ptr<detail::body> of) noexcept : body_(std::move(of)) {}
streamed::streamed(streamed&&) noexcept = default;
streamed& streamed::operator=(streamed&&) noexcept = default;
streamed::~streamed() = default;

const response& streamed::head() const noexcept { return body_->head(); }

std::optional<std::string> streamed::next() {
    if (body_->over()) return std::nullopt;
    exchange going_on = body_->pick_up();
    detail::reading more(body_->on(), detail::until::piece);
    drive(more, body_->on().deadline());
    return body_->take(going_on);
}

awaitable<std::optional<std::string>> streamed::async_next() { return detail::next_of(body_); }

std::size_t streamed::read(std::span<char> into) {
    detail::must_have_room(into);
    if (body_->over()) return 0;
    exchange going_on = body_->pick_up();
    detail::reading more(body_->on(), detail::until::piece);
    drive(more, body_->on().deadline());
    return body_->take(going_on, into);
}

awaitable<std::size_t> streamed::async_read(std::span<char> into) {
    return detail::read_of(body_, into);
}

// Connections.

connection::connection(std::shared_ptr<detail::link> made) noexcept : link_(std::move(made)) {}
connection::connection(connection&&) noexcept = default;
connection& connection::operator=(connection&&) noexcept = default;
connection::~connection() = default;

response connection::send(const request& asked) {
    detail::link& on = *link_;
    detail::request_text text(asked, *on.by);
    exchange begun = on.begin();
    on.reader.begin(detail::is_head(asked), on.by->chosen.max_body);
    detail::asking going_on(on, text, detail::until::end);
    drive(going_on, on.deadline());
    on.finish(begun, going_on.all_sent());
    return on.reader.take_answer();
}

awaitable<response> connection::async_send(request asked) {
    return detail::send_on(link_, std::move(asked));
}

streamed connection::stream(const request& asked) {
    detail::link& on = *link_;
    detail::request_text text(asked, *on.by);
    exchange begun = on.begin();
    on.reader.begin(detail::is_head(asked), std::nullopt);
    detail::asking going_on(on, text, detail::until::head);
    drive(going_on, on.deadline());
    return streamed(std::make_shared<detail::body>(link_, std::move(begun), going_on.all_sent()));
}

awaitable<streamed> connection::async_stream(request asked) {
    awaitable<std::shared_ptr<detail::body>> begun = detail::stream_on(link_, std::move(asked));
    std::shared_ptr<detail::body> opened = co_await std::move(begun);
    co_return streamed(std::move(opened));
}

void connection::set_timeout(std::chrono::nanoseconds time) noexcept { link_->timeout = time; }
bool connection::reusable() const noexcept { return link_->state.idle(); }
int connection::native_handle() const noexcept { return link_->wire.descriptor(); }

// Connectors.

namespace detail {

namespace {

transport opened(const settings& by) {
    instant deadline = deadline_after(by.chosen.connect_timeout);
    auto where = connector_detail::resolve(by.chosen.host, by.chosen.port);
    transport wire(connector_detail::connect(where, deadline));
    if (by.tls == nullptr) return wire;
    wire.protect(*by.tls, by.chosen.host);
    connector_detail::handshake hands(wire);
    drive(hands, deadline);
    return wire;
}

awaitable<connection> async_opened(std::shared_ptr<const settings> by) {
    instant deadline = deadline_after(by->chosen.connect_timeout);
    std::vector<connector_detail::address> where =
        co_await connector_detail::async_resolve(by->chosen.host, by->chosen.port);
    connector_detail::socket plain =
        co_await connector_detail::async_connect(std::move(where), deadline);
    transport wire(std::move(plain));
    if (by->tls != nullptr) {
        wire.protect(*by->tls, by->chosen.host);
        connector_detail::handshake hands(wire);
        co_await async_drive(hands, deadline);
    }
    co_return maker::make(by, std::move(wire));
}

awaitable<bool> async_probed(std::shared_ptr<link> on, std::string target) {
    if (!on->quiet()) co_return false;
    if (target.empty()) co_return true;
    request asked = get(std::move(target));
    response answer = co_await send_on(on, std::move(asked));
    co_return answer.status < 500 && on->state.idle();
}

awaitable<void> async_closed(std::shared_ptr<link> on) {
    on->close();
    co_return;
}

}  // namespace

connector_base::connector_base(const options& chosen)
    : settings_(std::make_shared<const settings>(chosen)) {}

void connector_base::reset(connection& c) const {
    if (!maker::of(c)->quiet())
        throw connection_error(error_kind::connection,
                               "cenote: the connection cannot be used any more");
}

bool connector_base::before_acquire(connection& c) const noexcept {
    return maker::of(c)->still_quiet();
}

verdict connector_base::before_release(connection& c) const noexcept {
    link& on = *maker::of(c);
    on.timeout = settings_->chosen.operation_timeout;
    return on.quiet() ? verdict::keep : verdict::discard;
}

void connector_base::forsake(connection& c) const noexcept {
    link& on = *maker::of(c);
    on.state.note_broken();
    on.wire.forsake();
}

}  // namespace detail

connection connector::open() const {
    return detail::maker::make(settings_, detail::opened(*settings_));
}

bool connector::probe(connection& c) const {
    if (!detail::maker::of(c)->quiet()) return false;
    const std::string& target = settings_->chosen.probe_target;
    return target.empty() || (c.send(get(target)).status < 500 && c.reusable());
}

void connector::close(connection& c) const noexcept { detail::maker::of(c)->close(); }

awaitable<connection> async_connector::open() const { return detail::async_opened(settings_); }

awaitable<bool> async_connector::probe(connection& c) const {
    return detail::async_probed(detail::maker::of(c), settings_->chosen.probe_target);
}

awaitable<void> async_connector::close(connection& c) const {
    return detail::async_closed(detail::maker::of(c));
}

}  // namespace cenote::http
