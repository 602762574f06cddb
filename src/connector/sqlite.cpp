// The SQLite connector: options, connections, cursors; blocking, or awaited on work threads.
#include "cenote/sqlite.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <stdexcept>

#include "cenote/url.hpp"
#include "connector/exchange.hpp"
#include "connector/sqlite_session.hpp"
#include "connector/work.hpp"

namespace cenote::sqlite {

namespace asio = boost::asio;

using connector_detail::async_run;
using connector_detail::errand;
using connector_detail::exchange;
using detail::session;
using detail::statement_name;

namespace {

/// Something to be done with a session on a work thread. Keeps the session: whoever awaits it may
/// be destroyed meanwhile.
template <class Result, class Do>
class session_errand final : public errand<Result> {
public:
    session_errand(std::shared_ptr<session> on, Do what)
        : on_(std::move(on)), do_(std::move(what)) {}
    Result run() override {
        on_->wait_for_locks(false);
        return do_(*on_);
    }
    void stop() noexcept override { on_->stop(); }

private:
    std::shared_ptr<session> on_;
    Do do_;
};

template <class Result, class Do>
std::shared_ptr<errand<Result>> errand_on(std::shared_ptr<session> on, Do what) {
    return std::make_shared<session_errand<Result, Do>>(std::move(on), std::move(what));
}

/// One exchange. Whatever SQLite refuses, it has ended, and the connection can be used on: unless
/// the file is broken.
template <class Do>
auto exchanged(session& on, Do what) {
    exchange guard(on.condition());
    on.wait_for_locks(true);
    try {
        auto got = what(on);
        guard.complete();
        return got;
    } catch (const connection_error&) {
        throw;
    } catch (...) {
        guard.complete();
        throw;
    }
}

/// How long to wait for a lock before the next try: soon at first, most are held for one write.
std::chrono::microseconds pause_before(int next_try) {
    return std::chrono::microseconds{std::min(200 << std::min(next_try, 6), 10'000)};
}

/// Tries until it gets the locks it needs. A thread that waited for a lock would be missing to
/// whoever has it: so it is the coroutine that waits.
template <class Result>
asio::awaitable<Result> async_attempt(std::shared_ptr<session> on,
                                      std::shared_ptr<errand<Result>> what) {
    auto give_up = connector_detail::deadline_after(on->busy_timeout());
    for (int tries = 0;; ++tries) {
        try {
            Result got = co_await async_run<Result>(what);
            co_return got;
        } catch (const statement_error& e) {
            bool late = std::chrono::steady_clock::now() >= give_up;
            if (e.code() != session::locked || late) throw;
        }
        asio::steady_timer pause(co_await asio::this_coro::executor, pause_before(tries));
        co_await pause.async_wait(asio::use_awaitable);
    }
}

/// The same, awaited. If the coroutine is destroyed while it waits, the guard breaks the
/// connection.
template <class Result>
asio::awaitable<Result> async_exchanged(std::shared_ptr<session> on,
                                        std::shared_ptr<errand<Result>> what) {
    exchange guard(on->condition());
    try {
        Result got = co_await async_attempt<Result>(on, std::move(what));
        guard.complete();
        co_return got;
    } catch (const connection_error&) {
        throw;
    } catch (...) {
        guard.complete();
        throw;
    }
}

/// Whatever comes of it.
asio::awaitable<void> ends(asio::awaitable<bool> what) { co_await std::move(what); }

open_mode mode_of(const std::string& word) {
    if (word == "rwc") return open_mode::create;
    if (word == "rw") return open_mode::read_write;
    if (word == "ro") return open_mode::read_only;
    if (word == "memory") return open_mode::memory;
    throw invalid_url(
        "cenote: the URL has a parameter \"mode\" that is none of rwc, rw, ro, memory");
}

template <std::size_t Count>
void must_be_one_of(const std::array<const char*, Count>& words, const std::string& word,
                    const char* option) {
    if (word.empty() || std::ranges::find(words, word) != words.end()) return;
    std::string all;
    for (const char* each : words) (all += all.empty() ? "" : ", ") += each;
    throw std::invalid_argument(std::string("cenote: SQLite option ") + option +
                                " must be one of " + all);
}

void validate(const options& o) {
    if (o.path.empty()) throw std::invalid_argument("cenote: SQLite needs a path");
    if (o.path == ":memory:" || o.path.starts_with("file:"))
        throw std::invalid_argument(
            "cenote: a private database in memory would be another one for each connection of a "
            "pool; name it and say mode=memory to share one");
    constexpr std::array journal_modes{"wal", "delete", "truncate", "persist", "memory", "off"};
    constexpr std::array safeties{"off", "normal", "full", "extra"};
    must_be_one_of(journal_modes, o.journal_mode, "journal_mode");
    must_be_one_of(safeties, o.synchronous, "synchronous");
}

}  // namespace

options options::from_url(std::string_view text) {
    url u = url::parse(text);
    if (u.scheme != "sqlite") throw invalid_url("cenote: the URL of SQLite begins with sqlite:");
    if (!u.hosts.empty() || !u.user.empty())
        throw invalid_url("cenote: the URL of SQLite names a file and no host: sqlite:/path");
    options o;
    o.path = u.path;
    url_parameters all(u);
    if (auto mode = all.take("mode")) o.mode = mode_of(*mode);
    if (auto time = all.take_milliseconds("busy_timeout"))
        o.busy_timeout = decltype(busy_timeout)(*time);
    if (auto time = all.take_milliseconds("operation_timeout"))
        o.operation_timeout = decltype(operation_timeout)(*time);
    o.foreign_keys = all.take_bool("foreign_keys").value_or(o.foreign_keys);
    o.journal_mode = all.take("journal_mode").value_or(o.journal_mode);
    o.synchronous = all.take("synchronous").value_or(o.synchronous);
    o.cache_size = all.take_number("cache_size", -1'000'000'000, 1'000'000'000);
    all.refuse_others();
    return o;
}

// Connection.

connection::connection(std::shared_ptr<session> s) noexcept : session_(std::move(s)) {}
connection::connection(connection&&) noexcept = default;
connection& connection::operator=(connection&&) noexcept = default;
connection::~connection() = default;

sql::result connection::execute_bound(std::string_view text,
                                      std::span<const sql::parameter> parameters) {
    return exchanged(*session_, [&](session& s) { return s.execute(text, parameters); });
}

asio::awaitable<sql::result> connection::async_execute_bound(sql::bound_statement what) {
    auto kept = std::make_shared<sql::bound_statement>(std::move(what));
    auto run = errand_on<sql::result>(
        session_, [kept](session& s) { return s.execute(kept->text(), kept->parameters()); });
    return async_exchanged<sql::result>(session_, std::move(run));
}

statement connection::prepare(std::string_view text) {
    statement_name made = exchanged(*session_, [&](session& s) { return s.prepare(text); });
    return {made.number, made.generation};
}

asio::awaitable<statement> connection::async_prepare(std::string_view text) {
    auto run = errand_on<statement>(session_, [kept = std::string(text)](session& s) {
        statement_name made = s.prepare(kept);
        return statement(made.number, made.generation);
    });
    return async_exchanged<statement>(session_, std::move(run));
}

sql::result connection::execute_prepared(const statement& prepared,
                                         std::span<const sql::parameter> parameters) {
    statement_name name{prepared.number_, prepared.generation_};
    return exchanged(*session_, [&](session& s) { return s.execute(name, parameters); });
}

asio::awaitable<sql::result> connection::async_execute_prepared(statement prepared,
                                                                sql::bound_statement what) {
    auto kept = std::make_shared<sql::bound_statement>(std::move(what));
    statement_name name{prepared.number_, prepared.generation_};
    auto run = errand_on<sql::result>(
        session_, [kept, name](session& s) { return s.execute(name, kept->parameters()); });
    return async_exchanged<sql::result>(session_, std::move(run));
}

void connection::set_timeout(std::chrono::nanoseconds timeout) { session_->set_timeout(timeout); }
bool connection::in_transaction() const { return session_->in_transaction(); }
sqlite3* connection::native_handle() const { return session_->handle(); }

// Cursor. Between two rows no exchange is under way: SQLite keeps no reply that could reach
// somebody else, and a statement that is not read to its end ends with the cursor or the lease.

struct cursor::state {
    ~state() { on->end(name); }

    std::shared_ptr<session> on;
    statement_name name;
    std::shared_ptr<const sql::column_names> columns;
    bool ended = false;
};

namespace {

template <class State>
std::optional<sql::row> next_of(State& of, session& s) {
    if (of.ended) return std::nullopt;
    std::optional<sql::row> got = s.next(of.name, of.columns);
    if (!got) {
        of.ended = true;
        s.end(of.name);
    }
    return got;
}

}  // namespace

cursor::cursor(std::shared_ptr<state> s) noexcept : state_(std::move(s)) {}
cursor::cursor(cursor&&) noexcept = default;
cursor& cursor::operator=(cursor&&) noexcept = default;
cursor::~cursor() = default;

std::optional<sql::row> cursor::next() {
    return exchanged(*state_->on, [&](session& s) { return next_of(*state_, s); });
}

asio::awaitable<std::optional<sql::row>> cursor::async_next() {
    auto run = errand_on<std::optional<sql::row>>(
        state_->on, [of = state_](session& s) { return next_of(*of, s); });
    return async_exchanged<std::optional<sql::row>>(state_->on, std::move(run));
}

cursor connection::stream_bound(sql::bound_statement what) {
    auto begun = std::make_shared<cursor::state>();
    begun->on = session_;
    begun->name =
        exchanged(*session_, [&](session& s) { return s.begin(what.text(), what.parameters()); });
    return cursor(std::move(begun));
}

asio::awaitable<cursor> connection::async_stream_bound(sql::bound_statement what) {
    auto kept = std::make_shared<sql::bound_statement>(std::move(what));
    auto begun = std::make_shared<cursor::state>();
    begun->on = session_;
    auto run = errand_on<bool>(session_, [kept, begun](session& s) {
        begun->name = s.begin(kept->text(), kept->parameters());
        return true;
    });
    co_await async_exchanged<bool>(session_, std::move(run));
    co_return cursor(std::move(begun));
}

// Connectors.

connector::connector(options settings)
    : settings_(std::make_shared<const options>(std::move(settings))) {
    validate(*settings_);
}

connection connector::open() {
    connection made(std::make_shared<session>(settings_));
    if (settings_->on_open) settings_->on_open(made);
    made.session_->settle();
    return made;
}

bool connector::probe(connection& c) {
    return exchanged(*c.session_, [](session& s) { return s.probe(); });
}

void connector::reset(connection& c) {
    exchanged(*c.session_, [](session& s) { return s.reset(), true; });
}

void connector::close(connection& c) { c.session_.reset(); }

verdict connector::before_release(connection& c) noexcept { return c.session_->leave(); }

void connector::forsake(connection& c) noexcept { c.session_->forsake(); }

asio::awaitable<connection> async_connector::open() {
    class opening final : public errand<std::shared_ptr<connection>> {
    public:
        explicit opening(connector by) : by_(std::move(by)) {}
        std::shared_ptr<connection> run() override {
            return std::make_shared<connection>(by_.open());
        }

    private:
        connector by_;
    };
    std::shared_ptr<errand<std::shared_ptr<connection>>> run = std::make_shared<opening>(blocking_);
    auto opened = co_await async_run<std::shared_ptr<connection>>(std::move(run));
    co_return std::move(*opened);
}

asio::awaitable<bool> async_connector::probe(connection& c) {
    auto run = errand_on<bool>(c.session_, [](session& s) { return s.probe(); });
    return async_exchanged<bool>(c.session_, std::move(run));
}

asio::awaitable<void> async_connector::reset(connection& c) {
    auto run = errand_on<bool>(c.session_, [](session& s) { return s.reset(), true; });
    return ends(async_exchanged<bool>(c.session_, std::move(run)));
}

/// Closing may have to write what is left in the journal.
asio::awaitable<void> async_connector::close(connection& c) {
    class closing final : public errand<bool> {
    public:
        explicit closing(std::shared_ptr<session> s) : last_(std::move(s)) {}
        bool run() override { return last_.reset(), true; }

    private:
        std::shared_ptr<session> last_;
    };
    std::shared_ptr<errand<bool>> run = std::make_shared<closing>(std::move(c.session_));
    return ends(async_run<bool>(std::move(run)));
}

}  // namespace cenote::sqlite
