// The PostgreSQL connector: connections, cursors, connectors; each operation blocking and awaited.
#include "cenote/postgres.hpp"

#include <netdb.h>
#include <stdexcept>
#include <sys/socket.h>
#include <utility>

#include "connector/drive.hpp"
#include "connector/postgres_session.hpp"
#include "connector/socket.hpp"

namespace cenote::postgres {

namespace asio = boost::asio;

using connector_detail::address;
using connector_detail::async_drive;
using connector_detail::deadline_after;
using connector_detail::drive;
using connector_detail::instant;
using connector_detail::share_of;
using detail::attempt;
using detail::chores;
using detail::conversation;
using detail::opening;
using detail::session;

namespace {

std::string name_of(std::uint64_t number) { return "cenote_" + std::to_string(number); }

void must_be_of(const session& s, std::uint64_t generation) {
    if (generation != s.generation())
        throw std::logic_error(
            "cenote: a prepared statement was used on another connection, or in another lease, "
            "than it was made in");
}

asio::awaitable<sql::result> async_ask(std::shared_ptr<session> on, sql::bound_statement what) {
    conversation talk(on, conversation::of::borrower);
    talk.ask(what.text(), what.parameters());
    co_await async_drive(talk, on->deadline());
    co_return detail::result_of(talk.reply());
}

asio::awaitable<sql::result> async_ask_prepared(std::shared_ptr<session> on, std::uint64_t number,
                                                std::uint64_t generation,
                                                sql::bound_statement what) {
    must_be_of(*on, generation);
    conversation talk(on, conversation::of::borrower);
    talk.ask_prepared(name_of(number), what.parameters());
    co_await async_drive(talk, on->deadline());
    co_return detail::result_of(talk.reply());
}

/// Its number.
asio::awaitable<std::uint64_t> async_make(std::shared_ptr<session> on, std::string text) {
    std::uint64_t number = on->next_statement();
    conversation talk(on, conversation::of::borrower);
    talk.prepare(name_of(number), text);
    co_await async_drive(talk, on->deadline());
    co_return number;
}

}  // namespace

// Connection.

connection::connection(std::shared_ptr<session> s) noexcept : session_(std::move(s)) {}
connection::connection(connection&&) noexcept = default;
connection& connection::operator=(connection&& other) noexcept {
    if (this != &other) {
        end();
        session_ = std::move(other.session_);
    }
    return *this;
}
connection::~connection() { end(); }

/// A cursor may still have the session, but there is no lease for it any more.
void connection::end() noexcept {
    if (session_) session_->close();
}

sql::result connection::execute_bound(std::string_view text,
                                      std::span<const sql::parameter> parameters) {
    conversation talk(session_, conversation::of::borrower);
    talk.ask(text, parameters);
    drive(talk, session_->deadline());
    return detail::result_of(talk.reply());
}

asio::awaitable<sql::result> connection::async_execute_bound(sql::bound_statement what) {
    return async_ask(session_, std::move(what));
}

statement connection::prepare(std::string_view text) {
    std::uint64_t number = session_->next_statement();
    conversation talk(session_, conversation::of::borrower);
    talk.prepare(name_of(number), text);
    drive(talk, session_->deadline());
    return {number, session_->generation()};
}

namespace {

asio::awaitable<statement> async_name(std::shared_ptr<session> on, std::string text,
                                      statement (*of)(std::uint64_t, std::uint64_t)) {
    std::uint64_t number = co_await async_make(on, std::move(text));
    co_return of(number, on->generation());
}

}  // namespace

asio::awaitable<statement> connection::async_prepare(std::string_view text) {
    return async_name(session_, std::string(text),
                      [](std::uint64_t number, std::uint64_t generation) {
                          return statement(number, generation);
                      });
}

sql::result connection::execute_prepared(const statement& prepared,
                                         std::span<const sql::parameter> parameters) {
    must_be_of(*session_, prepared.generation_);
    conversation talk(session_, conversation::of::borrower);
    talk.ask_prepared(name_of(prepared.number_), parameters);
    drive(talk, session_->deadline());
    return detail::result_of(talk.reply());
}

asio::awaitable<sql::result> connection::async_execute_prepared(statement prepared,
                                                                sql::bound_statement what) {
    return async_ask_prepared(session_, prepared.number_, prepared.generation_, std::move(what));
}

void connection::set_timeout(std::chrono::nanoseconds timeout) { session_->set_timeout(timeout); }
bool connection::in_transaction() const { return session_->in_transaction(); }

/// Whatever is done with it is not seen.
pg_conn* connection::native_handle() const {
    session_->condition().note_changed();
    return session_->handle();
}

// Cursor. All its rows are one conversation.

struct cursor::state {
    explicit state(std::shared_ptr<session> on) : on_(std::move(on)) {
        talk_.emplace(on_, conversation::of::borrower);
    }
    ~state() {
        if (talk_) talk_->drained();
    }
    state(const state&) = delete;
    state& operator=(const state&) = delete;

    void begin(std::string_view text, std::span<const sql::parameter> parameters) {
        talk_->ask(text, parameters);
        talk_->row_by_row();
    }
    /// The row that has come, if it was not the end.
    std::optional<sql::row> take() {
        detail::result_ptr one = talk_->take_row();
        if (one == nullptr) {
            talk_.reset();
            return std::nullopt;
        }
        if (columns_ == nullptr) columns_ = detail::columns_of(one.get());
        return sql::row(columns_, detail::row_of(one.get(), 0));
    }

    std::shared_ptr<session> on_;
    std::optional<conversation> talk_;  // until its end
    std::shared_ptr<const sql::column_names> columns_;
};

cursor::cursor(std::shared_ptr<state> s) noexcept : state_(std::move(s)) {}
cursor::cursor(cursor&&) noexcept = default;
cursor& cursor::operator=(cursor&&) noexcept = default;
cursor::~cursor() = default;

std::optional<sql::row> cursor::next() {
    if (!state_->talk_) return std::nullopt;
    try {
        drive(*state_->talk_, state_->on_->deadline());
        return state_->take();
    } catch (...) {
        state_->talk_.reset();
        throw;
    }
}

namespace {

/// Whatever ends it early ends the conversation.
template <class State>
asio::awaitable<std::optional<sql::row>> async_next_of(std::shared_ptr<State> of) {
    if (!of->talk_) co_return std::nullopt;
    try {
        co_await async_drive(*of->talk_, of->on_->deadline());
        co_return of->take();
    } catch (...) {
        of->talk_.reset();
        throw;
    }
}

template <class State>
asio::awaitable<std::shared_ptr<State>> async_begin(std::shared_ptr<State> of,
                                                    sql::bound_statement what) {
    of->begin(what.text(), what.parameters());
    try {
        co_await async_drive(*of->talk_, of->on_->deadline());
    } catch (...) {
        of->talk_.reset();
        throw;
    }
    co_return of;
}

}  // namespace

asio::awaitable<std::optional<sql::row>> cursor::async_next() { return async_next_of(state_); }

cursor connection::stream_bound(std::string_view text, std::span<const sql::parameter> parameters) {
    auto begun = std::make_shared<cursor::state>(session_);
    begun->begin(text, parameters);
    try {
        drive(*begun->talk_, session_->deadline());
    } catch (...) {
        begun->talk_.reset();
        throw;
    }
    return cursor(std::move(begun));
}

asio::awaitable<cursor> connection::async_stream_bound(sql::bound_statement what) {
    auto begun = std::make_shared<cursor::state>(session_);
    begun = co_await async_begin(std::move(begun), std::move(what));
    co_return cursor(std::move(begun));
}

// Opening.

namespace {

std::string numeric(const address& a) {
    char host[NI_MAXHOST];
    const auto* at = reinterpret_cast<const sockaddr*>(&a.bytes);
    int error = ::getnameinfo(at, a.size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
    if (error != 0)
        throw connection_error(error_kind::transient, "cenote: PostgreSQL: a host has no address");
    return host;
}

std::uint16_t port_of(const url::host& h) { return h.port == 0 ? 5432 : h.port; }

/// Which addresses to try, in which order.
class itinerary {
public:
    explicit itinerary(std::shared_ptr<const options> settings) : settings_(std::move(settings)) {}

    void add(const url::host& h, const std::vector<address>& found) {
        for (const address& a : found) add_one(h, h.name.starts_with('/') ? "" : numeric(a));
    }
    /// One of several hosts cannot be found: the others may do.
    void note_unknown(std::exception_ptr why) { unknown_ = std::move(why); }

    /// Where to go. Throws if there is nowhere.
    std::vector<attempt> all() const {
        if (there_.empty()) std::rethrow_exception(unknown_);
        std::vector<attempt> list = there_;
        if (settings_->role_of_server != server_role::prefer_standby) return list;
        for (attempt& a : list) a.wanted = server_role::standby;
        list.insert(list.end(), there_.begin(), there_.end());
        return list;
    }

private:
    void add_one(const url::host& h, std::string numbers) {
        server_role wanted = settings_->role_of_server;
        if (wanted == server_role::prefer_standby) wanted = server_role::any;
        there_.push_back({.host = h.name,
                          .address = std::move(numbers),
                          .port = std::to_string(port_of(h)),
                          .tls = detail::effective_tls(*settings_, h.name),
                          .wanted = wanted});
    }

    std::shared_ptr<const options> settings_;
    std::vector<attempt> there_;
    std::exception_ptr unknown_;
};

std::vector<attempt> look_up(const std::shared_ptr<const options>& settings) {
    itinerary found(settings);
    for (const url::host& h : settings->hosts) {
        try {
            found.add(h, connector_detail::resolve(h.name, port_of(h)));
        } catch (const connection_error&) {
            found.note_unknown(std::current_exception());
        }
    }
    return found.all();
}

asio::awaitable<std::vector<attempt>> async_look_up(std::shared_ptr<const options> settings) {
    itinerary found(settings);
    for (const url::host& h : settings->hosts) {
        try {
            std::vector<address> at = co_await connector_detail::async_resolve(h.name, port_of(h));
            found.add(h, at);
        } catch (const connection_error&) {
            found.note_unknown(std::current_exception());
        }
    }
    co_return found.all();
}

/// Whether another address is worth a try: a wrong password is wrong everywhere.
bool gives_up(const connection_error& e, std::size_t left) {
    return left <= 1 || e.kind() == error_kind::final;
}

asio::awaitable<std::shared_ptr<session>> async_open(std::shared_ptr<const options> settings) {
    instant deadline = deadline_after(settings->connect_timeout);
    std::vector<attempt> list = co_await async_look_up(settings);
    for (std::size_t i = 0;; ++i) {
        std::size_t left = list.size() - i;
        try {
            opening one(settings, list.at(i));
            co_await async_drive(one, share_of(deadline, left));
            co_return one.take();
        } catch (const connection_error& e) {
            if (gives_up(e, left)) throw;
        }
    }
}

}  // namespace

// Connectors.

connector::connector(options settings)
    : settings_(std::make_shared<const options>(std::move(settings))) {
    detail::validate(*settings_);
}

connection connector::open() {
    instant deadline = deadline_after(settings_->connect_timeout);
    std::vector<attempt> list = look_up(settings_);
    for (std::size_t i = 0;; ++i) {
        std::size_t left = list.size() - i;
        try {
            opening one(settings_, list.at(i));
            drive(one, share_of(deadline, left));
            return connection(one.take());
        } catch (const connection_error& e) {
            if (gives_up(e, left)) throw;
        }
    }
}

namespace {

/// What a probe asks: nothing, where any server will do.
std::vector<const char*> probing(const session& s) {
    server_role wanted = s.settings().role_of_server;
    if (wanted == server_role::any || wanted == server_role::prefer_standby) return {""};
    return {
        "select pg_catalog.pg_is_in_recovery(), "
        "pg_catalog.current_setting('default_transaction_read_only') operator(pg_catalog.=) "
        "'on'"};
}

bool is_wanted(const session& s, const PGresult* reply) {
    if (PQntuples(reply) == 0) return true;
    std::vector<sql::value> answer = detail::row_of(reply, 0);
    bool standby = answer.at(0).as<bool>();
    bool read_only = standby || answer.at(1).as<bool>();
    switch (s.settings().role_of_server) {
        case server_role::read_write: return !read_only;
        case server_role::read_only: return read_only;
        case server_role::primary: return !standby;
        case server_role::standby: return standby;
        case server_role::any:
        case server_role::prefer_standby: break;
    }
    return true;
}

std::vector<const char*> resetting(const session& s) {
    if (s.in_transaction()) return {"rollback", "discard all"};
    return {"discard all"};
}

asio::awaitable<bool> async_probe(std::shared_ptr<session> on) {
    chores ask(on, probing(*on));
    co_await async_drive(ask, on->deadline());
    co_return is_wanted(*on, ask.reply());
}

asio::awaitable<void> async_reset(std::shared_ptr<session> on) {
    chores ask(on, resetting(*on));
    co_await async_drive(ask, on->deadline());
    on->note_reset();
}

}  // namespace

bool connector::probe(connection& c) {
    chores ask(c.session_, probing(*c.session_));
    drive(ask, c.session_->deadline());
    return is_wanted(*c.session_, ask.reply());
}

void connector::reset(connection& c) {
    chores ask(c.session_, resetting(*c.session_));
    drive(ask, c.session_->deadline());
    c.session_->note_reset();
}

void connector::close(connection& c) noexcept { c.end(); }

bool connector::before_acquire(connection& c) noexcept { return c.session_->quiet(); }

verdict connector::before_release(connection& c) noexcept { return c.session_->leave(); }

void connector::forsake(connection& c) noexcept { c.session_->forsake(); }

asio::awaitable<connection> async_connector::open() {
    std::shared_ptr<session> made = co_await async_open(blocking_.settings_);
    co_return connection(std::move(made));
}

asio::awaitable<bool> async_connector::probe(connection& c) { return async_probe(c.session_); }

asio::awaitable<void> async_connector::reset(connection& c) { return async_reset(c.session_); }

}  // namespace cenote::postgres
