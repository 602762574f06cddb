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
using detail::conversion;
using detail::opening;
using detail::recurring;
using detail::session;

namespace {

/// As the server knows it.
std::string name_of(std::size_t number) { return "cenote_" + std::to_string(number); }

/// The same. Throws std::logic_error if it is not one of this session's.
std::string name_in(const session& s, const statement& prepared) {
    if (auto number = s.number_of(prepared)) return name_of(*number);
    throw std::logic_error(
        "cenote: a prepared statement was used on another connection, or in another lease, "
        "than it was made in");
}

asio::awaitable<sql::result> async_ask(std::shared_ptr<session> on, sql::bound_statement what) {
    recurring talk(on, what.text(), what.parameters());
    co_await async_drive(talk, on->deadline());
    conversion rows(*on, talk.reply());
    co_await async_drive(rows, instant::max());
    co_return rows.take();
}

asio::awaitable<sql::result> async_ask_prepared(std::shared_ptr<session> on, statement prepared,
                                                sql::bound_statement what) {
    std::string name = name_in(*on, prepared);
    conversation talk(on, conversation::of::borrower);
    talk.ask_prepared(name, what.parameters());
    co_await async_drive(talk, on->deadline());
    conversion rows(*on, talk.reply());
    co_await async_drive(rows, instant::max());
    co_return rows.take();
}

asio::awaitable<statement> async_make(std::shared_ptr<session> on, std::string text) {
    std::size_t number = on->next_statement();
    conversation talk(on, conversation::of::borrower);
    talk.prepare(name_of(number), text);
    co_await async_drive(talk, on->deadline());
    co_return on->named(number);
}

}  // namespace

// Connection.

connection::connection(std::shared_ptr<session> s) noexcept : sql::connection(std::move(s)) {}
connection::connection(connection&&) noexcept = default;
connection& connection::operator=(connection&& other) noexcept {
    if (this != &other) {
        end();
        sql::connection::operator=(std::move(other));
    }
    return *this;
}
connection::~connection() { end(); }

session& connection::own() const { return static_cast<session&>(sql::connection::own()); }

void connection::end() noexcept {
    if (session_) own().close();
}

/// Whatever is done with it is not seen.
pg_conn* connection::native_handle() const {
    own().condition().note_changed();
    own().note_own_settings();
    own().note_names_changed();
    return own().handle();
}

// What a connection offers.

sql::result session::execute(std::string_view text, std::span<const sql::parameter> parameters) {
    recurring talk(shared_from_this(), text, parameters);
    drive(talk, deadline());
    conversion rows(*this, talk.reply());
    drive(rows, instant::max());
    return rows.take();
}

asio::awaitable<sql::result> session::async_execute(sql::bound_statement what) {
    return async_ask(shared_from_this(), std::move(what));
}

statement session::prepare(std::string_view text) {
    std::size_t number = next_statement();
    conversation talk(shared_from_this(), conversation::of::borrower);
    talk.prepare(name_of(number), text);
    drive(talk, deadline());
    return named(number);
}

asio::awaitable<statement> session::async_prepare(std::string text) {
    return async_make(shared_from_this(), std::move(text));
}

sql::result session::execute(const statement& prepared,
                             std::span<const sql::parameter> parameters) {
    std::string name = name_in(*this, prepared);
    conversation talk(shared_from_this(), conversation::of::borrower);
    talk.ask_prepared(name, parameters);
    drive(talk, deadline());
    conversion rows(*this, talk.reply());
    drive(rows, instant::max());
    return rows.take();
}

asio::awaitable<sql::result> session::async_execute(statement prepared, sql::bound_statement what) {
    return async_ask_prepared(shared_from_this(), prepared, std::move(what));
}

// Cursors.

namespace {

/// All of them are one conversation.
class rows final : public sql::detail::rows, public std::enable_shared_from_this<rows> {
public:
    explicit rows(std::shared_ptr<session> on) : on_(std::move(on)) {
        talk_.emplace(on_, conversation::of::borrower);
    }
    ~rows() override {
        if (talk_) talk_->drained();
    }
    rows(const rows&) = delete;
    rows& operator=(const rows&) = delete;

    /// Returns when the first one has come.
    void begin(std::string_view text, std::span<const sql::parameter> parameters) {
        ask(text, parameters);
        try {
            drive(*talk_, on_->deadline());
        } catch (...) {
            talk_.reset();
            throw;
        }
    }
    static asio::awaitable<cursor> async_begin(std::shared_ptr<session> on,
                                               sql::bound_statement what) {
        auto begun = std::make_shared<rows>(std::move(on));
        begun->ask(what.text(), what.parameters());
        try {
            co_await async_drive(*begun->talk_, begun->on_->deadline());
        } catch (...) {
            begun->talk_.reset();
            throw;
        }
        co_return cursor(std::move(begun));
    }

    std::optional<sql::row> next() override {
        if (!talk_) return std::nullopt;
        try {
            drive(*talk_, on_->deadline());
            return take();
        } catch (...) {
            talk_.reset();
            throw;
        }
    }
    asio::awaitable<std::optional<sql::row>> async_next() override {
        return async_next_of(shared_from_this());
    }

private:
    void ask(std::string_view text, std::span<const sql::parameter> parameters) {
        talk_->ask(text, parameters);
        talk_->row_by_row();
    }
    /// Whatever ends it early ends the conversation.
    static asio::awaitable<std::optional<sql::row>> async_next_of(std::shared_ptr<rows> of) {
        if (!of->talk_) co_return std::nullopt;
        try {
            co_await async_drive(*of->talk_, of->on_->deadline());
            co_return of->take();
        } catch (...) {
            of->talk_.reset();
            throw;
        }
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

}  // namespace

cursor session::stream(std::string_view text, std::span<const sql::parameter> parameters) {
    auto begun = std::make_shared<rows>(shared_from_this());
    begun->begin(text, parameters);
    return cursor(std::move(begun));
}

asio::awaitable<cursor> session::async_stream(sql::bound_statement what) {
    return rows::async_begin(shared_from_this(), std::move(what));
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

constexpr const char* undo_all = "discard all";
/// The same, but for what is kept prepared. Says whether that is all that is, and whether the
/// session has a schema for temporary objects.
constexpr const char* undo_all_but_kept =
    "close all; set session authorization default; reset all; unlisten *; "
    "select pg_catalog.pg_advisory_unlock_all(); discard temp; discard sequences; "
    "select pg_catalog.count(*) operator(pg_catalog.=) 0, "
    "pg_catalog.pg_my_temp_schema() operator(pg_catalog.<>) 0 "
    "from pg_catalog.pg_prepared_statements "
    "where from_sql or pg_catalog.left(name, 12) operator(pg_catalog.<>) 'cenote_kept_'";

bool spares_kept(session& s) { return s.has_kept() && s.kept().on(); }

std::vector<const char*> resetting(session& s) {
    std::vector<const char*> texts;
    if (s.in_transaction()) texts.push_back("rollback");
    texts.push_back(spares_kept(s) ? undo_all_but_kept : undo_all);
    return texts;
}

/// Whether the session is all right after that; otherwise everything has to go.
bool is_reset(session& s, const PGresult* reply) {
    if (!spares_kept(s)) {
        s.forget_kept();
        return true;
    }
    std::vector<sql::value> said = detail::row_of(reply, 0);
    s.note_temporary(said.at(1).as<bool>());
    return said.at(0).as<bool>() && s.kept().on();
}

/// The number of the server's process. libpq was told one, too.
constexpr const char* whose = "select pg_catalog.pg_backend_pid()";
constexpr const char* only_reads = "set session characteristics as transaction read only";

asio::awaitable<void> async_only_read(std::shared_ptr<session> on) {
    instant until = on->deadline();
    if (!on->direct()) {
        chores ask(on, {whose});
        co_await async_drive(ask, until);
        on->note_process(ask.reply());
    }
    if (!*on->direct()) co_return;
    on->note_only_reads();
    chores set(on, {only_reads});
    co_await async_drive(set, until);
}

asio::awaitable<bool> async_probe(std::shared_ptr<session> on) {
    chores ask(on, probing(*on));
    co_await async_drive(ask, on->deadline());
    co_return is_wanted(*on, ask.reply());
}

asio::awaitable<void> async_reset(std::shared_ptr<session> on) {
    instant until = on->deadline();
    chores ask(on, resetting(*on));
    co_await async_drive(ask, until);
    if (!is_reset(*on, ask.reply())) {
        chores all(on, {undo_all});
        co_await async_drive(all, until);
        on->forget_kept();
    }
    on->note_reset();
}

}  // namespace

void connection::only_read() {
    session& s = own();
    instant until = s.deadline();
    if (!s.direct()) {
        chores ask(s.shared_from_this(), {whose});
        drive(ask, until);
        s.note_process(ask.reply());
    }
    if (!*s.direct()) return;
    s.note_only_reads();
    chores set(s.shared_from_this(), {only_reads});
    drive(set, until);
}

asio::awaitable<void> connection::async_only_read() {
    return postgres::async_only_read(own().shared_from_this());
}

bool connector::probe(connection& c) {
    chores ask(c.own().shared_from_this(), probing(c.own()));
    drive(ask, c.own().deadline());
    return is_wanted(c.own(), ask.reply());
}

void connector::reset(connection& c) {
    session& s = c.own();
    instant until = s.deadline();
    chores ask(s.shared_from_this(), resetting(s));
    drive(ask, until);
    if (!is_reset(s, ask.reply())) {
        chores all(s.shared_from_this(), {undo_all});
        drive(all, until);
        s.forget_kept();
    }
    s.note_reset();
}

void connector::close(connection& c) noexcept { c.end(); }

bool connector::before_acquire(connection& c) noexcept {
    if (c.session_ == nullptr) return false;
    return c.own().condition().still_quiet() || c.own().quiet();
}

verdict connector::before_release(connection& c) noexcept {
    return c.session_ == nullptr ? verdict::discard : c.own().leave();
}

void connector::forsake(connection& c) noexcept {
    if (c.session_ != nullptr) c.own().forsake();
}

asio::awaitable<connection> async_connector::open() {
    std::shared_ptr<session> made = co_await async_open(blocking_.settings_);
    co_return connection(std::move(made));
}

asio::awaitable<bool> async_connector::probe(connection& c) {
    return async_probe(c.own().shared_from_this());
}

asio::awaitable<void> async_connector::reset(connection& c) {
    return async_reset(c.own().shared_from_this());
}

}  // namespace cenote::postgres
