// The operations of MariaDB connections and connectors, each written once for both ways to wait;
// options.
#include "cenote/mariadb.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "cenote/url.hpp"
#include "connector/drive.hpp"
#include "connector/endpoint.hpp"
#include "connector/exchange.hpp"
#include "connector/login.hpp"
#include "connector/mariadb_converse.hpp"
#include "connector/mariadb_session.hpp"
#include "connector/on_open.hpp"
#include "connector/socket.hpp"
#include "connector/statement_view.hpp"
#include "connector/url_options.hpp"
#include "connector/work.hpp"

namespace cenote::mariadb {

namespace asio = boost::asio;

using connector_detail::address;
using connector_detail::awaited;
using connector_detail::blocking;
using connector_detail::deadline_after;
using connector_detail::exchange;
using connector_detail::instant;
using connector_detail::into_kept_sink;
using connector_detail::into_result;
using connector_detail::into_sink;
using connector_detail::login_refused;
using connector_detail::logins;
using connector_detail::next_row;
using connector_detail::result_in;
using connector_detail::statement_view;
using connector_detail::steps;
using detail::clear_found_rows;
using detail::converse;
using detail::executing;
using detail::fetching;
using detail::pinging;
using detail::querying;
using detail::reset_if_pending;
using detail::session;
using detail::set_up_if_pending;
using detail::set_up_with;
using detail::setting_up;
using detail::together;

// Options.

namespace {

/// Names the option and quotes no value: the value may come from a URL.
[[noreturn]] void refuse(const char* option, const char* why) {
    throw std::invalid_argument(std::string("cenote: the MariaDB option \"") + option + "\" " +
                                why);
}

/// For values that become part of the connector's own statements.
void must_consist_of(const std::string& text, std::string_view also, const char* option) {
    bool fits = std::ranges::all_of(text, [&](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               also.find(c) != also.npos;
    });
    if (!fits) refuse(option, "contains characters that are not allowed");
}

std::string lower(std::string text) {
    for (char& c : text)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
    return text;
}

}  // namespace

/// `name`: of a session variable, or with '@' of a user variable.
void detail::validate_setting(const std::string& name, const std::string& value) {
    constexpr std::array<std::string_view, 7> with_option{"time_zone",
                                                          "sql_mode",
                                                          "tx_isolation",
                                                          "transaction_isolation",
                                                          "character_set_client",
                                                          "character_set_results",
                                                          "character_set_connection"};
    const std::string plain = lower(name.starts_with('@') ? name.substr(1) : name);
    if (plain.empty()) refuse("settings", "has a setting without a name");
    must_consist_of(plain, "_", "settings");
    if (value.find('\0') != value.npos || value.size() > url::longest)
        refuse("settings", "has a value that is too long or has a zero byte");
    if (name.starts_with('@')) return;
    if (std::ranges::find(with_option, plain) != with_option.end())
        refuse("settings",
               "cannot have what is an option of its own: charset, timezone, sql_mode, isolation");
    if (plain.starts_with("session_track_"))
        refuse("settings", "cannot have session tracking, which the connector relies on");
    const bool on = value == "1" || lower(value) == "on";
    if (plain == "autocommit" && !on)
        refuse("settings", "cannot turn autocommit off: begin transactions instead");
}

namespace {

void validate(const options& o) {
    auto required = [](const std::string& text, const char* option) {
        if (text.empty()) refuse(option, "must not be empty");
        if (text.find('\0') != text.npos) refuse(option, "has a zero byte");
    };
    required(o.host, "host");
    required(o.user, "user");
    required(o.database, "database");
    required(o.charset, "charset");
    if (o.port == 0) refuse("port", "must not be 0");
    must_consist_of(o.charset, "_", "charset");
    must_consist_of(o.time_zone, "_/+-:", "timezone");
    must_consist_of(o.sql_mode, "_,", "sql_mode");
    if (!o.host.starts_with('/')) must_consist_of(o.host, "_-.:", "host");
    if (o.host.starts_with('/') && o.tls.value_or(false))
        refuse("tls", "must be off for a Unix socket");
    if (o.tls_cert.empty() != o.tls_key.empty())
        refuse("tls_cert", "and \"tls_key\" must be set together");
    if (connector_detail::has_credentials_source(o) && !o.password.empty())
        refuse("password", "cannot be set together with credentials");
    if (o.connect_timeout.count() <= 0) refuse("connect_timeout", "must be positive");
    if (o.operation_timeout.count() <= 0) refuse("operation_timeout", "must be positive");
    if (o.max_reply_bytes < connector_detail::min_reply_bytes)
        refuse("max_reply_bytes", "must be at least 64 KiB");
    for (const auto& [name, value] : o.settings) detail::validate_setting(name, value);
    // Any other statement might have several results.
    if (!o.probe.empty() && !lower(o.probe).starts_with("select"))
        refuse("probe", "must begin with SELECT");
    if (!connector_detail::fits(o.keepalive)) refuse("keepalive", "has a value out of its range");
}

template <class Value, std::size_t Count>
using words = std::array<connector_detail::url_word<Value>, Count>;

constexpr words<isolation_level, 4> isolation_levels{
    {{"read-uncommitted", isolation_level::read_uncommitted},
     {"read-committed", isolation_level::read_committed},
     {"repeatable-read", isolation_level::repeatable_read},
     {"serializable", isolation_level::serializable}}};
constexpr words<reset_mode, 3> resets{{{"with_next", reset_mode::with_next},
                                       {"at_release", reset_mode::at_release},
                                       {"by_tracking", reset_mode::by_tracking}}};
constexpr words<server_role, 3> roles{{{"any", server_role::any},
                                       {"read-write", server_role::read_write},
                                       {"read-only", server_role::read_only}}};

void take_place(const url& u, options& o) {
    using connector_detail::refuse_url;
    if (u.scheme != "mariadb" && u.scheme != "mysql")
        refuse_url("must begin with mariadb:// or mysql://");
    if (u.hosts.empty() || u.user.empty()) refuse_url("needs a user and a host");
    if (u.hosts.size() > 1) refuse_url("has more than one host");
    if (u.path.size() < 2) refuse_url("needs a database");
    o.host = u.hosts.front().name;
    if (u.hosts.front().port != 0) o.port = u.hosts.front().port;
    o.user = u.user;
    o.password = u.password;
    o.database = u.path.substr(1);
}

}  // namespace

options options::from_url(std::string_view text) {
    using connector_detail::take_text;
    using connector_detail::take_word;
    url u = url::parse(text);
    options o;
    take_place(u, o);
    url_parameters all(u);
    connector_detail::take_password_source(all, o.password, o.credentials);
    take_text(all, "charset", o.charset);
    take_text(all, "timezone", o.time_zone);
    take_text(all, "sql_mode", o.sql_mode);
    connector_detail::take_settings(all, o.settings);
    take_text(all, "probe", o.probe);
    connector_detail::take_keepalive(all, o.keepalive);
    take_word(all, "isolation", isolation_levels, o.isolation);
    take_word(all, "server_role", roles, o.role_of_server);
    o.tls = all.take_bool("tls");
    take_text(all, "tls_ca", o.tls_ca);
    take_text(all, "tls_cert", o.tls_cert);
    take_text(all, "tls_key", o.tls_key);
    connector_detail::take_timeouts(all, o);
    connector_detail::take_reply_limit(all, "max_reply_bytes", connector_detail::min_reply_bytes,
                                       o.max_reply_bytes);
    take_word(all, "reset", resets, o.reset);
    connector_detail::take_statement_cache(all, o.statement_cache);
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

namespace {

template <class Mode>
result_in<Mode, st_mysql*> expose_handle(std::shared_ptr<session> on) {
    on->opened().refuse("what is done with native_handle()");
    co_await set_up_if_pending<Mode>(on.get());
    if (on->has_leftovers()) co_await clear_found_rows<Mode>(on.get());
    on->note_handle_exposed();
    co_return on->handle();
}

}  // namespace

st_mysql* connection::native_handle() const {
    return expose_handle<blocking>(own().shared_from_this()).get();
}

asio::awaitable<st_mysql*> connection::async_native_handle() const {
    return expose_handle<awaited>(own().shared_from_this());
}

// Statements.

namespace {

/// Whether the server has refused a kept statement before it has done anything, because it does not
/// know the statement or wants it to be prepared again. A procedure may fail with the same codes
/// after half of its work. So the first code counts only with the text that the execute command
/// itself has, and the second one only for statements with columns, which neither calls nor blocks
/// have; nothing else can commit on its way.
bool is_stale(const statement_error& e, const detail::prepared& what) {
    constexpr int unknown = 1243;
    constexpr int to_be_prepared_again = 1615;
    if (e.code() == to_be_prepared_again) return what.has_columns();
    return e.code() == unknown &&
           std::string_view(e.what()).find("mysqld_stmt_execute") != std::string_view::npos;
}

/// Executes the kept statement with this text, or prepares, executes and keeps one.
/// `Target`: what the rows go into, made of `to`; see result_sink.hpp.
template <class Mode, class Target, class Statement, class... To>
result_in<Mode, typename Target::outcome> execute(std::shared_ptr<session> on, Statement what,
                                                  To... to) {
    Target target(std::move(to)...);
    on->check_opened(what.text());
    co_await set_up_with<Mode>(on.get(), what.text());
    if (on->must_clear_found_rows(what.text())) co_await clear_found_rows<Mode>(on.get());
    detail::prepared* known = on->opened().is_open() ? nullptr : on->kept(what.text());
    if (known != nullptr) {
        try {
            executing again(*on, *known, what.parameters(), &target.sink());
            co_await converse<Mode>(on.get(), &again, on->deadline());
            co_return target.take();
        } catch (const statement_error& e) {
            if (!is_stale(e, *known)) throw;
        }
        on->drop_kept(what.text());
    }
    executing all(*on, what.text(), what.parameters(), executing::extent::all, &target.sink());
    co_await converse<Mode>(on.get(), &all, on->deadline());
    if (on->opened().is_open())
        on->note_opened(what.text(), what.parameters(), all.rows_returned());
    on->keep_latest(what.text());
    co_return target.take();
}

template <class Mode, class Target, class Statement, class... To>
result_in<Mode, typename Target::outcome> execute_prepared(std::shared_ptr<session> on,
                                                           statement prepared, Statement what,
                                                           To... to) {
    Target target(std::move(to)...);
    executing again(*on, on->find(prepared), what.parameters(), &target.sink());
    co_await converse<Mode>(on.get(), &again, on->deadline());
    co_return target.take();
}

template <class Mode, class Text>
result_in<Mode, statement> prepare(std::shared_ptr<session> on, Text text) {
    on->opened().refuse("prepare()");
    co_await set_up_with<Mode>(on.get(), text);
    if (on->must_clear_found_rows(text)) co_await clear_found_rows<Mode>(on.get());
    executing first(*on, text, {}, executing::extent::prepare);
    co_await converse<Mode>(on.get(), &first, on->deadline());
    co_return on->keep(std::move(on->latest()));
}

}  // namespace

sql::result session::execute(std::string_view text, std::span<const sql::parameter> parameters) {
    statement_view what(text, parameters);
    return mariadb::execute<blocking, into_result>(shared_from_this(), what).get();
}

asio::awaitable<sql::result> session::async_execute(sql::bound_statement what) {
    return mariadb::execute<awaited, into_result>(shared_from_this(), std::move(what));
}

statement session::prepare(std::string_view text) {
    return mariadb::prepare<blocking>(shared_from_this(), text).get();
}

asio::awaitable<statement> session::async_prepare(std::string text) {
    return mariadb::prepare<awaited>(shared_from_this(), std::move(text));
}

sql::result session::execute(const statement& prepared,
                             std::span<const sql::parameter> parameters) {
    statement_view what({}, parameters);
    return execute_prepared<blocking, into_result>(shared_from_this(), prepared, what).get();
}

asio::awaitable<sql::result> session::async_execute(statement prepared, sql::bound_statement what) {
    return execute_prepared<awaited, into_result>(shared_from_this(), prepared, std::move(what));
}

void session::execute_into(std::string_view text, std::span<const sql::parameter> parameters,
                           sql::row_sink& to) {
    statement_view what(text, parameters);
    mariadb::execute<blocking, into_sink>(shared_from_this(), what, &to).get();
}

asio::awaitable<void> session::async_execute_into(sql::bound_statement what,
                                                  std::shared_ptr<sql::row_sink> to) {
    return mariadb::execute<awaited, into_kept_sink>(shared_from_this(), std::move(what),
                                                     std::move(to));
}

void session::execute_into(const statement& prepared, std::span<const sql::parameter> parameters,
                           sql::row_sink& to) {
    statement_view what({}, parameters);
    execute_prepared<blocking, into_sink>(shared_from_this(), prepared, what, &to).get();
}

asio::awaitable<void> session::async_execute_into(statement prepared, sql::bound_statement what,
                                                  std::shared_ptr<sql::row_sink> to) {
    return execute_prepared<awaited, into_kept_sink>(shared_from_this(), prepared, std::move(what),
                                                     std::move(to));
}

// Batches.

namespace {

/// One after the other: the library has no pipeline.
template <class Mode>
result_in<Mode, std::vector<sql::result>> execute_each(std::shared_ptr<session> on,
                                                       std::span<const sql::bound_statement> all,
                                                       bool atomic) {
    std::vector<sql::result> results;
    std::vector<std::size_t> failed;
    std::exception_ptr first;
    const bool within = on->in_transaction();
    bool ended = false;
    for (std::size_t i = 0; i < all.size() && !ended; ++i) {
        try {
            statement_view what(all[i].text(), all[i].parameters());
            sql::result one = co_await execute<Mode, into_result>(on, what);
            results.push_back(std::move(one));
            continue;
        } catch (const statement_error&) {
            if (first == nullptr) first = std::current_exception();
            failed.push_back(i);
        }
        // An error may end the transaction; then no further statement must run outside of it.
        if (within && !atomic) co_await detail::ask<Mode>(on.get(), "DO 0");
        ended = atomic || (within && !on->in_transaction());
    }
    try {
        if (first != nullptr) std::rethrow_exception(first);
    } catch (const statement_error& e) {
        const std::size_t index = failed.front();
        throw sql::batch_error(e, index,
                               std::make_shared<const std::vector<std::size_t>>(std::move(failed)));
    }
    co_return results;
}

std::span<const sql::bound_statement> statements_of(std::span<const sql::bound_statement> all) {
    return all;
}
std::span<const sql::bound_statement> statements_of(const std::shared_ptr<const sql::batch>& of) {
    return of->statements();
}

template <class Mode, class Batch>
result_in<Mode, std::vector<sql::result>> execute_batch(std::shared_ptr<session> on, Batch what,
                                                        sql::many_options how) {
    on->opened().refuse("a batch");
    const auto all = statements_of(what);
    if (!how.atomic || all.size() < 2) {
        std::vector<sql::result> each = co_await execute_each<Mode>(on, all, how.atomic);
        co_return each;
    }
    co_await set_up_if_pending<Mode>(on.get());
    co_await reset_if_pending<Mode>(on.get());
    together<Mode> one(*on);
    co_await one.begin();
    std::exception_ptr failure;
    std::vector<sql::result> results;
    try {
        results = co_await execute_each<Mode>(on, all, true);
    } catch (...) {
        failure = std::current_exception();
    }
    if (failure == nullptr) {
        co_await one.commit();
        co_return results;
    }
    if (on->condition().idle()) co_await one.undo();
    std::rethrow_exception(failure);
}

}  // namespace

std::vector<sql::result> session::execute_batch(std::span<const sql::bound_statement> all,
                                                const sql::many_options& how) {
    return mariadb::execute_batch<blocking>(shared_from_this(), all, how).get();
}

asio::awaitable<std::vector<sql::result>> session::async_execute_batch(
    std::shared_ptr<const sql::batch> all, sql::many_options how) {
    return mariadb::execute_batch<awaited>(shared_from_this(), std::move(all), how);
}

// Cursors.

namespace {

/// The exchange of a cursor lasts until its last row was read.
class rows final : public sql::detail::rows, public std::enable_shared_from_this<rows> {
public:
    explicit rows(std::shared_ptr<session> on)
        : on_(std::move(on)), guard_(std::in_place, on_->condition()) {}
    rows(const rows&) = delete;
    rows& operator=(const rows&) = delete;
    ~rows() override {
        if (!ended_) on_->cancel_statement();
    }

    /// Returns when the server has reported whether there are rows.
    template <class Mode, class Statement>
    static result_in<Mode, cursor> begin(std::shared_ptr<session> on, Statement what) {
        on->opened().refuse("stream()");
        detail::refuse_parameters(what.parameters(), on->in_utc());  // before the exchange
        co_await set_up_with<Mode>(on.get(), what.text());
        if (on->must_clear_found_rows(what.text())) co_await clear_found_rows<Mode>(on.get());
        auto begun = std::make_shared<rows>(on);
        executing first(*on, what.text(), what.parameters(), executing::extent::until_rows);
        co_await begun->drive<Mode>(&first);
        begun->has_columns_ = first.has_rows();
        if (!first.has_rows()) begun->complete();
        co_return cursor(std::move(begun));
    }

    std::optional<sql::row> next() override {
        next_into(own_);
        return own_.take();
    }
    asio::awaitable<std::optional<sql::row>> async_next() override {
        return async_next_row(shared_from_this());
    }
    bool next_into(sql::row_sink& to) override {
        return next_of<blocking>(shared_from_this(), &to).get();
    }
    asio::awaitable<bool> async_next_into(std::shared_ptr<sql::row_sink> to) override {
        return next_of<awaited>(shared_from_this(), std::move(to));
    }

private:
    class turn;

    /// The exchange survives an error of the statement.
    template <class Mode>
    result_in<Mode, void> drive(steps* what) {
        try {
            co_await Mode::drive(*what, on_->deadline());
        } catch (const statement_error&) {
            complete();
            throw;
        }
    }
    static asio::awaitable<std::optional<sql::row>> async_next_row(std::shared_ptr<rows> of) {
        co_await next_of<awaited>(of, &of->own_);
        co_return of->own_.take();
    }
    /// `Sink`: a pointer of any kind.
    template <class Mode, class Sink>
    static result_in<Mode, bool> next_of(std::shared_ptr<rows> of, Sink to);
    void complete() noexcept {
        ended_ = true;
        guard_->complete();
        guard_.reset();
    }

    std::shared_ptr<session> on_;
    std::optional<exchange> guard_;
    bool has_columns_ = true;
    bool ended_ = false;
    bool busy_ = false;
    next_row own_;
};

/// The wait for one row. Throws std::logic_error if another one is under way. Ended early, it
/// breaks the connection.
class rows::turn {
public:
    explicit turn(rows& of) : of_(of) {
        if (of.busy_) throw std::logic_error("cenote: the cursor's next row is awaited already");
        of.busy_ = true;
    }
    ~turn() {
        of_.busy_ = false;
        if (succeeded_ || of_.ended_) return;
        of_.ended_ = true;
        of_.guard_.reset();
    }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;

    void note_success() { succeeded_ = true; }

private:
    rows& of_;
    bool succeeded_ = false;
};

template <class Mode, class Sink>
result_in<Mode, bool> rows::next_of(std::shared_ptr<rows> of, Sink to) {
    if (of->ended_) {
        if (!of->has_columns_ && !to->begun()) to->begin({}, 0);
        co_return false;
    }
    turn mine(*of);
    fetching one(*of->on_, *to);
    co_await of->drive<Mode>(&one);
    mine.note_success();
    if (!one.has_row()) of->complete();
    co_return one.has_row();
}

}  // namespace

cursor session::stream(std::string_view text, std::span<const sql::parameter> parameters) {
    statement_view what(text, parameters);
    return rows::begin<blocking>(shared_from_this(), what).get();
}

asio::awaitable<cursor> session::async_stream(sql::bound_statement what) {
    return rows::begin<awaited>(shared_from_this(), std::move(what));
}

// Connectors.

namespace {

/// The library looks names up itself, which blocks, and compares the certificate with the host it
/// was given. So under TLS it gets the name, on a thread that may block; otherwise it gets an
/// address.
bool takes_the_name(const options& o) { return o.host.starts_with('/') || detail::wants_tls(o); }

template <class Mode>
result_in<Mode, std::vector<std::string>> look_up(std::shared_ptr<const options> o) {
    std::vector<std::string> hosts;
    if (takes_the_name(*o)) {
        hosts.push_back(o->host.starts_with('/') ? std::string() : o->host);
        co_return hosts;
    }
    std::vector<address> found = co_await connector_detail::resolve<Mode>(o->host, o->port);
    for (const address& each : found) hosts.push_back(connector_detail::numeric_host(each));
    co_return hosts;
}

bool must_write(const session& s) { return s.settings().role_of_server == server_role::read_write; }

constexpr std::string_view read_only = "SELECT @@GLOBAL.read_only";

/// The form of the reply depends on the server's version.
bool takes_writes(const querying& reply) { return reply.value() == "0" || reply.value() == "OFF"; }

/// Connects, sets the session up, and checks the role of the server.
template <class Mode>
result_in<Mode, void> connect(session* s, instant until) {
    setting_up all(*s, setting_up::start::connect);
    co_await converse<Mode>(s, &all, until);
    if (!must_write(*s)) co_return;
    querying ask(*s, read_only);
    co_await converse<Mode>(s, &ask, until);
    if (!takes_writes(ask))
        throw connection_error(error_kind::transient,
                               "cenote: MariaDB: cannot open: the server is read-only");
}

template <class Mode>
result_in<Mode, std::shared_ptr<session>> open_as(std::shared_ptr<const options> settings,
                                                  std::shared_ptr<const logins> past,
                                                  std::shared_ptr<const credentials> by) {
    instant deadline = deadline_after(settings->connect_timeout);
    std::vector<std::string> hosts = co_await look_up<Mode>(settings);
    for (std::size_t i = 0;; ++i) {
        instant until = connector_detail::share_of(deadline, hosts.size() - i);
        auto made = std::make_shared<session>(settings, hosts.at(i), past, by, until);
        try {
            co_await connect<Mode>(made.get(), until);
            co_return made;
        } catch (const login_refused&) {
            throw;
        } catch (const connection_error& e) {
            if (e.kind() == error_kind::final || i + 1 == hosts.size()) throw;
        }
    }
}

/// Under TLS the handshake blocks, so an awaited open runs on a work thread.
template <class Mode>
result_in<Mode, std::shared_ptr<session>> open_where_possible(
    std::shared_ptr<const options> settings, std::shared_ptr<const logins> past,
    std::shared_ptr<const credentials> by) {
    if constexpr (std::is_same_v<Mode, awaited>)
        if (detail::wants_tls(*settings)) {
            auto call = [settings, past, by] {
                return open_as<blocking>(settings, past, by).get();
            };
            co_return co_await connector_detail::async_run_function(std::move(call));
        }
    co_return co_await open_as<Mode>(settings, past, by);
}

/// Has the source of the credentials asked once more if the server refuses them: they may have
/// changed meanwhile.
template <class Mode>
result_in<Mode, std::shared_ptr<session>> log_in(std::shared_ptr<const options> settings,
                                                 std::shared_ptr<logins> past) {
    for (bool again = false;; again = true) {
        credentials found =
            co_await connector_detail::find_credentials<Mode>(settings, past->threads());
        past->check(found);
        std::shared_ptr<const credentials> by = past->shared(std::move(found));
        try {
            std::shared_ptr<session> made = co_await open_where_possible<Mode>(settings, past, by);
            past->note_accepted(by);
            co_return made;
        } catch (const login_refused& e) {
            past->note_refused(*by, e);
            if (again) throw;
        }
    }
}

template <class Mode>
result_in<Mode, void> reset(std::shared_ptr<session> on) {
    setting_up again(*on, setting_up::start::reset);
    co_await converse<Mode>(on.get(), &again, on->deadline());
}

/// After on_open the session is reset, so that the first lease finds the same as all others, and a
/// statement that cannot be repeated fails the open.
template <class Mode>
result_in<Mode, void> set_up(std::shared_ptr<const options> settings,
                             std::shared_ptr<connection> on, std::shared_ptr<session> of,
                             std::shared_ptr<connector_detail::user_threads> threads) {
    if (!connector_detail::has_on_open(*settings)) co_return;
    const instant until = of->open_until();
    of->opened().begin(until);
    co_await connector_detail::call_on_open<Mode>(settings, std::move(on), std::move(threads),
                                                  until);
    co_await reset<Mode>(of);
    of->opened().end();
}

/// `wrap`: makes a connection of a session.
template <class Mode, class Wrap>
result_in<Mode, connection> open(std::shared_ptr<const options> settings,
                                 std::shared_ptr<logins> past, Wrap wrap) {
    std::shared_ptr<session> made = co_await log_in<Mode>(settings, past);
    std::shared_ptr<connection> on = wrap(made);
    co_await set_up<Mode>(settings, on, made, past->threads());
    co_return std::move(*on);
}

template <class Mode>
result_in<Mode, bool> probe(std::shared_ptr<session> on) {
    co_await reset_if_pending<Mode>(on.get());
    if (!on->settings().probe.empty()) {
        querying own(*on, on->settings().probe);
        co_await converse<Mode>(on.get(), &own, on->deadline());
        if (!must_write(*on)) co_return true;
    }
    if (must_write(*on)) {
        querying ask(*on, read_only);
        co_await converse<Mode>(on.get(), &ask, on->deadline());
        co_return takes_writes(ask);
    }
    pinging once(*on);
    co_await converse<Mode>(on.get(), &once, on->deadline());
    co_return true;
}

/// Closing does not wait.
asio::awaitable<void> async_close(std::shared_ptr<sql::detail::session> last) {
    last.reset();
    co_return;
}

}  // namespace

std::string connector::endpoint() const {
    std::string text =
        "mariadb://" + connector_detail::endpoint_of(settings_->host, settings_->port);
    return settings_->database.empty() ? text : text + '/' + settings_->database;
}

connector::connector(options settings)
    : settings_(std::make_shared<const options>(std::move(settings))),
      logins_(std::make_shared<logins>()) {
    validate(*settings_);
}

connection connector::open() {
    auto wrap = [](const std::shared_ptr<session>& s) {
        return std::make_shared<connection>(connection(s));
    };
    return mariadb::open<blocking>(settings_, logins_, wrap).get();
}

bool connector::probe(connection& c) {
    return mariadb::probe<blocking>(c.own().shared_from_this()).get();
}

void connector::reset(connection& c) { mariadb::reset<blocking>(c.own().shared_from_this()).get(); }

void connector::close(connection& c) noexcept { c.session_.reset(); }

bool connector::before_acquire(connection& c) noexcept {
    if (c.session_ == nullptr) return false;
    connector_detail::condition& now = c.own().condition();
    return now.still_quiet() || (now.idle() && c.own().quiet());
}

verdict connector::before_release(connection& c) noexcept {
    return c.session_ == nullptr ? verdict::discard : c.own().end_lease();
}

void connector::forsake(connection& c) noexcept {
    if (c.session_ != nullptr) c.own().forsake();
}

asio::awaitable<connection> async_connector::open() {
    auto wrap = [](const std::shared_ptr<session>& s) {
        return std::make_shared<connection>(connection(s));
    };
    return mariadb::open<awaited>(blocking_.settings_, blocking_.logins_, wrap);
}

asio::awaitable<bool> async_connector::probe(connection& c) {
    return mariadb::probe<awaited>(c.own().shared_from_this());
}

asio::awaitable<void> async_connector::reset(connection& c) {
    return mariadb::reset<awaited>(c.own().shared_from_this());
}

asio::awaitable<void> async_connector::close(connection& c) {
    return async_close(std::move(c.session_));
}

}  // namespace cenote::mariadb
