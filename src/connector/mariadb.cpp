// The MariaDB connector: options, connections, cursors, and the verbs of a pool.
#include "cenote/mariadb.hpp"

#include <algorithm>
#include <array>
#include <netdb.h>
#include <stdexcept>
#include <vector>

#include "cenote/url.hpp"
#include "connector/drive.hpp"
#include "connector/exchange.hpp"
#include "connector/mariadb_session.hpp"
#include "connector/socket.hpp"
#include "connector/work.hpp"

namespace cenote::mariadb {

namespace asio = boost::asio;

using connector_detail::address;
using connector_detail::async_drive;
using connector_detail::deadline_after;
using connector_detail::drive;
using connector_detail::exchange;
using connector_detail::instant;
using detail::asking;
using detail::executing;
using detail::fetching;
using detail::pinging;
using detail::session;
using detail::settling;

namespace {

// Options.

/// Names the option and quotes nothing: it may come from a URL.
[[noreturn]] void refuse(const char* option, const char* why) {
    throw std::invalid_argument(std::string("cenote: MariaDB option \"") + option + "\" " + why);
}

/// These become part of our own statements.
void must_consist_of(const std::string& text, std::string_view also, const char* option) {
    bool fits = std::ranges::all_of(text, [&](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               also.find(c) != also.npos;
    });
    if (!fits) refuse(option, "has characters that none has");
}

/// More than any reply to the connector's own questions.
constexpr std::int64_t least_reply_bytes = std::int64_t{64} << 10U;

void validate(const options& o) {
    auto needed = [](const std::string& text, const char* option) {
        if (text.empty()) refuse(option, "is needed");
        if (text.find('\0') != text.npos) refuse(option, "has a zero byte");
    };
    needed(o.host, "host");
    needed(o.user, "user");
    needed(o.database, "database");
    needed(o.charset, "charset");
    if (o.port == 0) refuse("port", "is 0");
    must_consist_of(o.charset, "_", "charset");
    must_consist_of(o.time_zone, "_/+-:", "timezone");
    must_consist_of(o.sql_mode, "_,", "sql_mode");
    if (!o.host.starts_with('/')) must_consist_of(o.host, "_-.:", "host");
    if (o.host.starts_with('/') && o.tls.value_or(false)) refuse("tls", "is on for a Unix socket");
    if (o.tls_cert.empty() != o.tls_key.empty())
        refuse("tls_cert", "and \"tls_key\" must be there together");
    if (o.connect_timeout.count() <= 0) refuse("connect_timeout", "is not positive");
    if (o.operation_timeout.count() <= 0) refuse("operation_timeout", "is not positive");
    if (o.max_reply_bytes < static_cast<std::size_t>(least_reply_bytes))
        refuse("max_reply_bytes", "is less than 64 KiB");
}

isolation_level level_of(const std::string& word) {
    if (word == "read-uncommitted") return isolation_level::read_uncommitted;
    if (word == "read-committed") return isolation_level::read_committed;
    if (word == "repeatable-read") return isolation_level::repeatable_read;
    if (word == "serializable") return isolation_level::serializable;
    throw invalid_url(
        "cenote: the URL has a parameter \"isolation\" that is none of read-uncommitted, "
        "read-committed, repeatable-read, serializable");
}

reset_mode mode_of(const std::string& word) {
    if (word == "with_next") return reset_mode::with_next;
    if (word == "at_release") return reset_mode::at_release;
    if (word == "by_tracking") return reset_mode::by_tracking;
    throw invalid_url(
        "cenote: the URL has a parameter \"reset\" that is none of with_next, at_release, "
        "by_tracking");
}

server_role role_of(const std::string& word) {
    if (word == "any") return server_role::any;
    if (word == "read-write") return server_role::read_write;
    if (word == "read-only") return server_role::read_only;
    throw invalid_url(
        "cenote: the URL has a parameter \"server_role\" that is none of any, read-write, "
        "read-only");
}

void take_place(const url& u, options& o) {
    if (u.scheme != "mariadb" && u.scheme != "mysql")
        throw invalid_url("cenote: the URL of MariaDB begins with mariadb:// or mysql://");
    if (u.hosts.empty() || u.user.empty())
        throw invalid_url("cenote: the URL of MariaDB needs a user and a host");
    if (u.hosts.size() > 1) throw invalid_url("cenote: the URL of MariaDB has more than one host");
    if (u.path.size() < 2) throw invalid_url("cenote: the URL of MariaDB needs a database");
    o.host = u.hosts.front().name;
    if (u.hosts.front().port != 0) o.port = u.hosts.front().port;
    o.user = u.user;
    o.password = u.password;
    o.database = u.path.substr(1);
}

// Exchanges.

/// One exchange. After an error of the statement's the connection can be used on.
template <class Steps>
void converse(session& on, Steps& what, instant deadline) {
    exchange guard(on.condition());
    try {
        drive(what, deadline);
    } catch (const statement_error&) {
        guard.complete();
        throw;
    }
    guard.complete();
}

/// The same, awaited. If the coroutine ends early, the guard breaks the connection.
asio::awaitable<void> async_converse(session* on, connector_detail::steps* what, instant deadline) {
    exchange guard(on->condition());
    try {
        co_await async_drive(*what, deadline);
    } catch (const statement_error&) {
        guard.complete();
        throw;
    }
    guard.complete();
}

}  // namespace

options options::from_url(std::string_view text) {
    url u = url::parse(text);
    options o;
    take_place(u, o);
    url_parameters all(u);
    o.charset = all.take("charset").value_or(o.charset);
    o.time_zone = all.take("timezone").value_or(o.time_zone);
    o.sql_mode = all.take("sql_mode").value_or(o.sql_mode);
    if (auto level = all.take("isolation")) o.isolation = level_of(*level);
    if (auto role = all.take("server_role")) o.role_of_server = role_of(*role);
    o.tls = all.take_bool("tls");
    o.tls_ca = all.take("tls_ca").value_or("");
    o.tls_cert = all.take("tls_cert").value_or("");
    o.tls_key = all.take("tls_key").value_or("");
    if (auto time = all.take_milliseconds("connect_timeout"))
        o.connect_timeout = std::chrono::milliseconds(*time);
    if (auto time = all.take_milliseconds("operation_timeout"))
        o.operation_timeout = std::chrono::milliseconds(*time);
    if (auto bytes = all.take_number("max_reply_bytes", least_reply_bytes, std::int64_t{1} << 40U))
        o.max_reply_bytes = static_cast<std::size_t>(*bytes);
    if (auto mode = all.take("reset")) o.reset = mode_of(*mode);
    constexpr std::int64_t most_statements = 10'000;
    if (auto kept = all.take_number("statement_cache", 0, most_statements))
        o.statement_cache = static_cast<std::size_t>(*kept);
    all.refuse_others();
    try {
        validate(o);
    } catch (const std::invalid_argument& e) {
        throw invalid_url(e.what());
    }
    return o;
}

// Connection.

connection::connection(std::shared_ptr<session> s) noexcept : sql::connection(std::move(s)) {}

session& connection::own() const { return static_cast<session&>(sql::connection::own()); }

std::uint64_t connection::id() const { return mysql_thread_id(own().handle()); }

// Resets that cannot go along with what is asked.

namespace {

/// Whatever it is, it sets what FOUND_ROWS() gives.
constexpr std::string_view any_rows = "SELECT 1";

void pay(session& on) {
    if (!on.owes()) return;
    settling all(on, settling::from::debt);
    converse(on, all, on.deadline());
}

asio::awaitable<void> async_pay(session* on) {
    if (!on->owes()) co_return;
    settling all(*on, settling::from::debt);
    co_await async_converse(on, &all, on->deadline());
}

/// Before a text that asks for FOUND_ROWS(), which a reset leaves as it was, and before what nobody
/// sees.
void forget_rows(session& on) {
    pay(on);
    asking one(on, any_rows);
    converse(on, one, on.deadline());
    on.note_rows_forgotten();
}

asio::awaitable<void> async_forget_rows(session* on) {
    co_await async_pay(on);
    asking one(*on, any_rows);
    co_await async_converse(on, &one, on->deadline());
    on->note_rows_forgotten();
}

asio::awaitable<st_mysql*> async_handle_of(std::shared_ptr<session> on) {
    if (on->has_left_overs()) co_await async_forget_rows(on.get());
    on->note_anything();
    co_return on->handle();
}

}  // namespace

st_mysql* connection::native_handle() const {
    if (own().has_left_overs()) forget_rows(own());
    own().note_anything();
    return own().handle();
}

asio::awaitable<st_mysql*> connection::async_native_handle() const {
    return async_handle_of(own().shared_from_this());
}

// What a connection offers.

namespace {

/// The server does not know a statement any more that was prepared, or wants it prepared anew, and
/// has done nothing. A procedure may fail with the same codes after half of its work: so the first
/// is known by its text; and the second is believed only of what had columns when it was prepared,
/// which neither calls nor blocks have. Nothing else can commit on its way.
bool is_stale(const statement_error& e, const detail::prepared& what) {
    constexpr int unknown = 1243;
    constexpr int to_be_prepared_anew = 1615;
    if (e.code() == to_be_prepared_anew) return what.has_columns();
    return e.code() == unknown &&
           std::string_view(e.what()).find("mysqld_stmt_execute") != std::string_view::npos;
}

/// One that is kept is executed; any other is prepared, executed, and kept.
asio::awaitable<sql::result> async_execute_on(std::shared_ptr<session> on,
                                              sql::bound_statement what) {
    if (on->must_forget_rows(what.text())) co_await async_forget_rows(on.get());
    if (detail::prepared* known = on->kept(what.text())) {
        try {
            executing again(*on, *known, what.parameters());
            co_await async_converse(on.get(), &again, on->deadline());
            co_return again.take();
        } catch (const statement_error& e) {
            if (!is_stale(e, *known)) throw;
        }
        on->drop_kept(what.text());
    }
    executing all(*on, what.text(), what.parameters(), executing::extent::all);
    co_await async_converse(on.get(), &all, on->deadline());
    on->keep_latest(what.text());
    co_return all.take();
}

asio::awaitable<statement> async_prepare_on(std::shared_ptr<session> on, std::string text) {
    if (on->must_forget_rows(text)) co_await async_forget_rows(on.get());
    executing first(*on, text, {}, executing::extent::prepare);
    co_await async_converse(on.get(), &first, on->deadline());
    co_return on->keep(std::move(on->latest()));
}

asio::awaitable<sql::result> async_execute_prepared_on(std::shared_ptr<session> on,
                                                       statement prepared,
                                                       sql::bound_statement what) {
    executing again(*on, on->find(prepared), what.parameters());
    co_await async_converse(on.get(), &again, on->deadline());
    co_return again.take();
}

}  // namespace

sql::result session::execute(std::string_view text, std::span<const sql::parameter> parameters) {
    if (must_forget_rows(text)) forget_rows(*this);
    if (detail::prepared* known = kept(text)) {
        try {
            executing again(*this, *known, parameters);
            converse(*this, again, deadline());
            return again.take();
        } catch (const statement_error& e) {
            if (!is_stale(e, *known)) throw;
        }
        drop_kept(text);
    }
    executing all(*this, text, parameters, executing::extent::all);
    converse(*this, all, deadline());
    keep_latest(text);
    return all.take();
}

asio::awaitable<sql::result> session::async_execute(sql::bound_statement what) {
    return async_execute_on(shared_from_this(), std::move(what));
}

statement session::prepare(std::string_view text) {
    if (must_forget_rows(text)) forget_rows(*this);
    executing first(*this, text, {}, executing::extent::prepare);
    converse(*this, first, deadline());
    return keep(std::move(latest()));
}

asio::awaitable<statement> session::async_prepare(std::string text) {
    return async_prepare_on(shared_from_this(), std::move(text));
}

sql::result session::execute(const statement& prepared,
                             std::span<const sql::parameter> parameters) {
    executing again(*this, find(prepared), parameters);
    converse(*this, again, deadline());
    return again.take();
}

asio::awaitable<sql::result> session::async_execute(statement prepared, sql::bound_statement what) {
    return async_execute_prepared_on(shared_from_this(), prepared, std::move(what));
}

// Cursors.

namespace {

/// Their exchange lasts until the last one was read.
class rows final : public sql::detail::rows, public std::enable_shared_from_this<rows> {
public:
    explicit rows(std::shared_ptr<session> on)
        : on_(std::move(on)), guard_(std::in_place, on_->condition()) {}
    rows(const rows&) = delete;
    rows& operator=(const rows&) = delete;
    ~rows() override {
        if (!ended_) on_->call_off();
    }

    /// Ends the exchange: well, or with a connection that cannot be used any more.
    void end(bool well) noexcept {
        ended_ = true;
        if (well) guard_->complete();
        guard_.reset();
    }

    std::optional<sql::row> next() override;
    asio::awaitable<std::optional<sql::row>> async_next() override {
        return async_next_of(shared_from_this());
    }

private:
    class turn;

    static asio::awaitable<std::optional<sql::row>> async_next_of(std::shared_ptr<rows> of);
    std::optional<sql::row> taken(turn& mine, fetching& from);

    std::shared_ptr<session> on_;
    std::optional<exchange> guard_;
    bool ended_ = false;
    bool busy_ = false;
};

/// While somebody waits for a row, nobody else may.
class rows::turn {
public:
    explicit turn(rows& of) : of_(of) {
        if (of.busy_) throw std::logic_error("cenote: the cursor's next row is awaited already");
        of.busy_ = true;
    }
    ~turn() {
        of_.busy_ = false;
        if (!well_ && !of_.ended_) of_.end(false);
    }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;

    void went_well() { well_ = true; }

private:
    rows& of_;
    bool well_ = false;
};

std::optional<sql::row> rows::taken(turn& mine, fetching& from) {
    std::optional<sql::row> got = from.take();
    mine.went_well();
    if (!got) end(true);
    return got;
}

std::optional<sql::row> rows::next() {
    if (ended_) return std::nullopt;
    turn mine(*this);
    fetching one(*on_);
    try {
        drive(one, on_->deadline());
    } catch (const statement_error&) {
        end(true);
        throw;
    }
    return taken(mine, one);
}

asio::awaitable<std::optional<sql::row>> rows::async_next_of(std::shared_ptr<rows> of) {
    if (of->ended_) co_return std::nullopt;
    turn mine(*of);
    fetching one(*of->on_);
    try {
        co_await async_drive(one, of->on_->deadline());
    } catch (const statement_error&) {
        of->end(true);
        throw;
    }
    co_return of->taken(mine, one);
}

asio::awaitable<cursor> async_stream_on(std::shared_ptr<session> on, sql::bound_statement what) {
    if (on->must_forget_rows(what.text())) co_await async_forget_rows(on.get());
    auto begun = std::make_shared<rows>(on);
    executing first(*on, what.text(), what.parameters(), executing::extent::until_rows);
    try {
        co_await async_drive(first, on->deadline());
    } catch (const statement_error&) {
        begun->end(true);
        throw;
    }
    if (!first.has_rows()) begun->end(true);
    co_return cursor(std::move(begun));
}

}  // namespace

cursor session::stream(std::string_view text, std::span<const sql::parameter> parameters) {
    if (must_forget_rows(text)) forget_rows(*this);
    auto begun = std::make_shared<rows>(shared_from_this());
    executing first(*this, text, parameters, executing::extent::until_rows);
    try {
        drive(first, deadline());
    } catch (const statement_error&) {
        begun->end(true);
        throw;
    }
    if (!first.has_rows()) begun->end(true);
    return cursor(std::move(begun));
}

asio::awaitable<cursor> session::async_stream(sql::bound_statement what) {
    return async_stream_on(shared_from_this(), std::move(what));
}

// Connectors.

namespace {

std::string numeric_host(const address& a) {
    std::array<char, NI_MAXHOST> host{};
    const auto* at = reinterpret_cast<const sockaddr*>(&a.bytes);
    if (::getnameinfo(at, a.size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0)
        throw connection_error(error_kind::transient, "cenote: the host has an unknown address");
    return host.data();
}

/// The library looks names up itself, which blocks, and compares the certificate's name to the host
/// it was given. So it is given the name under TLS, when it runs where it may block, and else an
/// address.
bool takes_the_name(const options& o) { return o.host.starts_with('/') || detail::wants_tls(o); }

std::vector<std::string> the_name(const options& o) {
    return {o.host.starts_with('/') ? std::string() : o.host};
}

std::vector<std::string> hosts_of(const std::vector<address>& all) {
    std::vector<std::string> hosts;
    hosts.reserve(all.size());
    for (const address& each : all) hosts.push_back(numeric_host(each));
    return hosts;
}

/// The time for one of so many addresses.
instant share_of(instant deadline, std::size_t left) {
    instant now = std::chrono::steady_clock::now();
    return now >= deadline ? deadline : now + (deadline - now) / static_cast<int>(left);
}

bool must_write(const session& s) { return s.settings().role_of_server == server_role::read_write; }

constexpr std::string_view only_reads = "SELECT @@GLOBAL.read_only";

/// By its version one or the other.
bool takes_writes(const asking& asked) { return asked.answer() == "0" || asked.answer() == "OFF"; }

void refuse_reader(const asking& asked) {
    if (takes_writes(asked)) return;
    throw connection_error(error_kind::transient,
                           "cenote: MariaDB: cannot open: the server takes no writes");
}

/// Makes the connection, and looks whether it leads where it is to.
void settle(session& s, instant until) {
    settling all(s, settling::from::nothing);
    converse(s, all, until);
    if (!must_write(s)) return;
    asking ask(s, only_reads);
    converse(s, ask, until);
    refuse_reader(ask);
}

asio::awaitable<void> async_settle(session* s, instant until) {
    settling all(*s, settling::from::nothing);
    co_await async_converse(s, &all, until);
    if (!must_write(*s)) co_return;
    asking ask(*s, only_reads);
    co_await async_converse(s, &ask, until);
    refuse_reader(ask);
}

}  // namespace

connector::connector(options settings)
    : settings_(std::make_shared<const options>(std::move(settings))) {
    validate(*settings_);
}

connection connector::open() {
    instant deadline = deadline_after(settings_->connect_timeout);
    std::vector<std::string> places =
        takes_the_name(*settings_)
            ? the_name(*settings_)
            : hosts_of(connector_detail::resolve(settings_->host, settings_->port));
    for (std::size_t i = 0;; ++i) {
        instant until = share_of(deadline, places.size() - i);
        auto made = std::make_shared<session>(settings_, places.at(i), until);
        try {
            settle(*made, until);
            return connection(std::move(made));
        } catch (const connection_error& e) {
            if (e.kind() == error_kind::final || i + 1 == places.size()) throw;
        }
    }
}

bool connector::probe(connection& c) {
    pay(c.own());
    if (must_write(c.own())) {
        asking ask(c.own(), only_reads);
        converse(c.own(), ask, c.own().deadline());
        return takes_writes(ask);
    }
    pinging once(c.own());
    converse(c.own(), once, c.own().deadline());
    return true;
}

void connector::reset(connection& c) {
    settling again(c.own(), settling::from::lease);
    converse(c.own(), again, c.own().deadline());
}

void connector::close(connection& c) noexcept { c.session_.reset(); }

bool connector::before_acquire(connection& c) noexcept {
    if (c.session_ == nullptr) return false;
    connector_detail::condition& now = c.own().condition();
    return now.still_quiet() || (now.idle() && c.own().quiet());
}

verdict connector::before_release(connection& c) noexcept {
    return c.session_ == nullptr ? verdict::discard : c.own().leave();
}

void connector::forsake(connection& c) noexcept {
    if (c.session_ != nullptr) c.own().forsake();
}

namespace {

/// Opens where it may block.
class opening final : public connector_detail::errand<std::shared_ptr<connection>> {
public:
    explicit opening(connector by) : by_(std::move(by)) {}
    std::shared_ptr<connection> run() override { return std::make_shared<connection>(by_.open()); }

private:
    connector by_;
};

}  // namespace

asio::awaitable<connection> async_connector::open() {
    std::shared_ptr<const options> settings = blocking_.settings_;
    instant deadline = deadline_after(settings->connect_timeout);
    if (detail::wants_tls(*settings)) {
        std::shared_ptr<connector_detail::errand<std::shared_ptr<connection>>> run =
            std::make_shared<opening>(blocking_);
        auto opened =
            co_await connector_detail::async_run<std::shared_ptr<connection>>(std::move(run));
        co_return std::move(*opened);
    }
    std::vector<std::string> places = the_name(*settings);
    if (!takes_the_name(*settings)) {
        std::vector<address> found =
            co_await connector_detail::async_resolve(settings->host, settings->port);
        places = hosts_of(found);
    }
    for (std::size_t i = 0;; ++i) {
        instant until = share_of(deadline, places.size() - i);
        auto made = std::make_shared<session>(settings, places.at(i), until);
        try {
            co_await async_settle(made.get(), until);
            co_return connection(std::move(made));
        } catch (const connection_error& e) {
            if (e.kind() == error_kind::final || i + 1 == places.size()) throw;
        }
    }
}

namespace {

asio::awaitable<bool> async_probe(std::shared_ptr<session> on) {
    co_await async_pay(on.get());
    if (must_write(*on)) {
        asking ask(*on, only_reads);
        co_await async_converse(on.get(), &ask, on->deadline());
        co_return takes_writes(ask);
    }
    pinging once(*on);
    co_await async_converse(on.get(), &once, on->deadline());
    co_return true;
}

asio::awaitable<void> async_reset(std::shared_ptr<session> on) {
    settling again(*on, settling::from::lease);
    co_await async_converse(on.get(), &again, on->deadline());
}

/// Saying goodbye waits for nothing.
asio::awaitable<void> async_close(std::shared_ptr<sql::detail::session> last) {
    last.reset();
    co_return;
}

}  // namespace

asio::awaitable<bool> async_connector::probe(connection& c) {
    return async_probe(c.own().shared_from_this());
}

asio::awaitable<void> async_connector::reset(connection& c) {
    return async_reset(c.own().shared_from_this());
}

asio::awaitable<void> async_connector::close(connection& c) {
    return async_close(std::move(c.session_));
}

}  // namespace cenote::mariadb
