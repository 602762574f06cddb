// The SQLite connector: options, connections, cursors; blocking, or awaited on work threads.
#include "cenote/sqlite.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <stdexcept>
#include <utility>

#include "cenote/error.hpp"
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
using detail::writers_line;

namespace {

/// Something to be done with a session on a work thread. Keeps the session: whoever awaits it may
/// be destroyed meanwhile.
template <class Result, class Do>
class session_errand final : public errand<Result> {
public:
    session_errand(std::shared_ptr<session> on, Do what)
        : on_(std::move(on)), do_(std::move(what)) {}
    Result run() override {
        on_->refuse_stopped();
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
    on.note_begun();
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

/// Who gets none in time tries all the same.
asio::awaitable<void> async_take_turn(std::shared_ptr<session> on,
                                      std::shared_ptr<writers_line> line) {
    try {
        writers_line::turn taken = co_await line->async_take_until(on->lock_deadline());
        on->give_turn(std::move(taken));
    } catch (const pool_error& e) {
        if (e.code() == errc::canceled) on->stop();
        on->go_without_turn();
    }
}

asio::awaitable<void> async_pause(std::shared_ptr<session> on, int tries) {
    asio::steady_timer pause(co_await asio::this_coro::executor, pause_before(tries));
    try {
        co_await pause.async_wait(asio::use_awaitable);
    } catch (const boost::system::system_error&) {
        on->stop();  // cancelled: with the same words as in the middle of a statement
    }
}

/// Tries until it gets the locks it needs. A thread that waited for a lock would be missing to
/// whoever has it: so it is the coroutine that waits.
template <class Result>
asio::awaitable<Result> async_attempt(std::shared_ptr<session> on,
                                      std::shared_ptr<errand<Result>> what) {
    for (int tries = 0;; ++tries) {
        std::shared_ptr<writers_line> line;
        try {
            Result got = co_await async_run<Result>(what);
            co_return got;
        } catch (const statement_error& e) {
            line = on->line_to_join();
            bool late = std::chrono::steady_clock::now() >= on->lock_deadline();
            if (e.code() != session::locked || (late && line == nullptr)) throw;
        }
        if (line != nullptr) co_await async_take_turn(on, std::move(line));
        else co_await async_pause(on, tries);
        on->refuse_stopped();
    }
}

/// The same, awaited. If the coroutine is destroyed while it waits, the guard breaks the
/// connection.
template <class Result>
asio::awaitable<Result> async_exchanged(std::shared_ptr<session> on,
                                        std::shared_ptr<errand<Result>> what) {
    exchange guard(on->condition());
    on->note_begun();
    try {
        Result got = co_await async_attempt<Result>(on, std::move(what));
        guard.complete();
        co_return got;
    } catch (const connection_error&) {
        throw;
    } catch (...) {
        guard.complete();
        on->end_turn();  // it may have come, and been of no use any more
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
    if (auto bytes = all.take_number("max_reply_bytes", 0, std::int64_t{1} << 40U))
        o.max_reply_bytes = static_cast<std::size_t>(*bytes);
    o.foreign_keys = all.take_bool("foreign_keys").value_or(o.foreign_keys);
    o.journal_mode = all.take("journal_mode").value_or(o.journal_mode);
    o.synchronous = all.take("synchronous").value_or(o.synchronous);
    constexpr std::int64_t most_statements = 10'000;
    if (auto kept = all.take_number("statement_cache", 0, most_statements))
        o.statement_cache = static_cast<std::size_t>(*kept);
    o.cache_size = all.take_number("cache_size", -1'000'000'000, 1'000'000'000);
    all.refuse_others();
    return o;
}

// Connection.

connection::connection(std::shared_ptr<session> s) noexcept : sql::connection(std::move(s)) {}

session& connection::own() const { return static_cast<session&>(sql::connection::own()); }

sqlite3* connection::native_handle() const { return own().handle(); }

void connection::only_read(bool on) noexcept {
    if (session_ != nullptr) own().only_read(on);
}

// What a connection offers.

sql::result session::execute(std::string_view text, std::span<const sql::parameter> parameters) {
    return exchanged(*this, [&](session& s) { return s.perform(text, parameters); });
}

asio::awaitable<sql::result> session::async_execute(sql::bound_statement what) {
    auto kept = std::make_shared<sql::bound_statement>(std::move(what));
    auto run = errand_on<sql::result>(shared_from_this(), [kept](session& s) {
        return s.perform(kept->text(), kept->parameters());
    });
    return async_exchanged<sql::result>(shared_from_this(), std::move(run));
}

statement session::prepare(std::string_view text) {
    return exchanged(*this, [&](session& s) { return s.make(text); });
}

asio::awaitable<statement> session::async_prepare(std::string text) {
    auto run = errand_on<statement>(shared_from_this(),
                                    [kept = std::move(text)](session& s) { return s.make(kept); });
    return async_exchanged<statement>(shared_from_this(), std::move(run));
}

sql::result session::execute(const statement& prepared,
                             std::span<const sql::parameter> parameters) {
    return exchanged(*this, [&](session& s) { return s.perform(prepared, parameters); });
}

asio::awaitable<sql::result> session::async_execute(statement prepared, sql::bound_statement what) {
    auto kept = std::make_shared<sql::bound_statement>(std::move(what));
    auto run = errand_on<sql::result>(shared_from_this(), [kept, prepared](session& s) {
        return s.perform(prepared, kept->parameters());
    });
    return async_exchanged<sql::result>(shared_from_this(), std::move(run));
}

// Cursors.

namespace {

/// Between two rows no exchange is under way: SQLite keeps no reply that could reach somebody else,
/// and a statement that is not read to its end ends with the cursor or the lease.
class rows final : public sql::detail::rows, public std::enable_shared_from_this<rows> {
public:
    explicit rows(std::shared_ptr<session> of) : of_(std::move(of)) {}
    ~rows() override { of_->end(begun_); }
    rows(const rows&) = delete;
    rows& operator=(const rows&) = delete;

    /// Within an exchange.
    void begin(std::string_view text, std::span<const sql::parameter> parameters) {
        begun_ = of_->begin(text, parameters);
    }

    std::optional<sql::row> next() override {
        return exchanged(*of_, [this](session&) { return take(); });
    }
    asio::awaitable<std::optional<sql::row>> async_next() override {
        auto run = errand_on<std::optional<sql::row>>(
            of_, [me = shared_from_this()](session&) { return me->take(); });
        return async_exchanged<std::optional<sql::row>>(of_, std::move(run));
    }

private:
    std::optional<sql::row> take() {
        if (ended_) return std::nullopt;
        std::optional<sql::row> got = of_->next(begun_, columns_);
        if (!got) {
            ended_ = true;
            of_->end(std::exchange(begun_, {}));  // its place is somebody else's from now on
        }
        return got;
    }

    std::shared_ptr<session> of_;
    statement begun_;
    std::shared_ptr<const sql::column_names> columns_;
    bool ended_ = false;
};

asio::awaitable<cursor> async_begin(std::shared_ptr<session> on, sql::bound_statement what) {
    auto kept = std::make_shared<sql::bound_statement>(std::move(what));
    auto begun = std::make_shared<rows>(on);
    auto run = errand_on<bool>(on, [kept, begun](session&) {
        begun->begin(kept->text(), kept->parameters());
        return true;
    });
    co_await async_exchanged<bool>(on, std::move(run));
    co_return cursor(std::move(begun));
}

}  // namespace

cursor session::stream(std::string_view text, std::span<const sql::parameter> parameters) {
    auto begun = std::make_shared<rows>(shared_from_this());
    exchanged(*this, [&](session&) { return begun->begin(text, parameters), true; });
    return cursor(std::move(begun));
}

asio::awaitable<cursor> session::async_stream(sql::bound_statement what) {
    return async_begin(shared_from_this(), std::move(what));
}

// Connectors.

connector::connector(options settings)
    : settings_(std::make_shared<const options>(std::move(settings))) {
    validate(*settings_);
    if (settings_->mode != open_mode::read_only) line_ = std::make_shared<writers_line>();
}

connection connector::open() {
    connection made(std::make_shared<session>(settings_, line_));
    if (settings_->on_open) settings_->on_open(made);
    made.own().settle();
    return made;
}

bool connector::probe(connection& c) {
    return exchanged(c.own(), [](session& s) { return s.probe(); });
}

void connector::reset(connection& c) {
    exchanged(c.own(), [](session& s) { return s.reset(), true; });
}

void connector::close(connection& c) { c.session_.reset(); }

verdict connector::before_release(connection& c) noexcept {
    return c.session_ == nullptr ? verdict::discard : c.own().leave();
}

void connector::forsake(connection& c) noexcept {
    if (c.session_ != nullptr) c.own().forsake();
}

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
    auto run = errand_on<bool>(c.own().shared_from_this(), [](session& s) { return s.probe(); });
    return async_exchanged<bool>(c.own().shared_from_this(), std::move(run));
}

asio::awaitable<void> async_connector::reset(connection& c) {
    auto run =
        errand_on<bool>(c.own().shared_from_this(), [](session& s) { return s.reset(), true; });
    return ends(async_exchanged<bool>(c.own().shared_from_this(), std::move(run)));
}

/// Closing may have to write what is left in the journal.
asio::awaitable<void> async_connector::close(connection& c) {
    class closing final : public errand<bool> {
    public:
        explicit closing(std::shared_ptr<sql::detail::session> s) : last_(std::move(s)) {}
        bool run() override { return last_.reset(), true; }

    private:
        std::shared_ptr<sql::detail::session> last_;
    };
    std::shared_ptr<errand<bool>> run = std::make_shared<closing>(std::move(c.session_));
    return ends(async_run<bool>(std::move(run)));
}

}  // namespace cenote::sqlite
