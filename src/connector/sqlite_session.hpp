// One handle of SQLite and its session: what a lease may have changed, and how that is undone.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cenote/sql.hpp"
#include "cenote/sql_connection.hpp"
#include "cenote/sqlite.hpp"
#include "connector/drive.hpp"
#include "connector/exchange.hpp"
#include "connector/on_open.hpp"
#include "connector/result_sink.hpp"
#include "connector/sqlite_line.hpp"
#include "connector/statement_cache.hpp"

struct sqlite3_stmt;

namespace cenote::sqlite::detail {

struct finalize {
    void operator()(sqlite3_stmt* s) const noexcept;
};

/// A statement and its effects.
struct compiled {
    std::unique_ptr<sqlite3_stmt, finalize> handle;
    bool writes = false;          // what other connections can see
    bool writes_to_main = false;  // to the connection's own file
    bool is_temporary = false;    // a reset undoes what it does to temporary objects
};

/// The rows of execute_many, and what became of them.
struct many_rows {
    sql::detail::value_source* from = nullptr;
    std::size_t chunk = 1;
    bool atomic = true;
    bool within = false;  // a transaction was open already
    std::vector<sql::parameter> values;
    bool has_row = false;
    std::size_t index = 0;  // of this row
    std::uint64_t affected = 0;
    std::vector<std::size_t> failed;
    std::exception_ptr first;  // why the first of these was refused

    bool over = false;  // the transaction has ended before the last row

    bool pull() { return has_row || (has_row = from->next(values)); }
    void drop() noexcept {
        has_row = false;
        ++index;
    }
    /// Takes note of the exception that is being handled, and goes on.
    void note_refused();
};

class session final : public sql::detail::session, public std::enable_shared_from_this<session> {
public:
    /// The code of the error that passes when another connection releases its lock.
    static const int locked;

    /// Opens and sets up. Throws connection_error. `line`: null if the database is read-only.
    session(std::shared_ptr<const options> settings, std::shared_ptr<writers_line> line);
    /// Before and after options::on_open: each lease shall begin with the session as it is then.
    void begin_on_open();
    void finish_opening();
    ~session() override;
    session(const session&) = delete;
    session& operator=(const session&) = delete;

    // The operations of a connection, each an exchange (sqlite.cpp).
    sql::result execute(std::string_view text, std::span<const sql::parameter> parameters) override;
    boost::asio::awaitable<sql::result> async_execute(sql::bound_statement what) override;
    sql::statement prepare(std::string_view text) override;
    boost::asio::awaitable<sql::statement> async_prepare(std::string text) override;
    sql::result execute(const sql::statement& prepared,
                        std::span<const sql::parameter> parameters) override;
    boost::asio::awaitable<sql::result> async_execute(sql::statement prepared,
                                                      sql::bound_statement what) override;
    sql::cursor stream(std::string_view text, std::span<const sql::parameter> parameters) override;
    boost::asio::awaitable<sql::cursor> async_stream(sql::bound_statement what) override;
    // sqlite_many.cpp
    std::uint64_t execute_many(std::string_view text, sql::detail::value_source& rows,
                               const sql::many_options& how) override;
    boost::asio::awaitable<std::uint64_t> async_execute_many(
        std::string text, std::shared_ptr<sql::detail::value_source> rows,
        sql::many_options how) override;
    std::vector<sql::result> execute_batch(std::span<const sql::bound_statement> all,
                                           const sql::many_options& how) override;
    boost::asio::awaitable<std::vector<sql::result>> async_execute_batch(
        std::shared_ptr<const sql::batch> all, sql::many_options how) override;
    void execute_into(std::string_view text, std::span<const sql::parameter> parameters,
                      sql::row_sink& to) override;
    boost::asio::awaitable<void> async_execute_into(sql::bound_statement what,
                                                    std::shared_ptr<sql::row_sink> to) override;
    void execute_into(const sql::statement& prepared, std::span<const sql::parameter> parameters,
                      sql::row_sink& to) override;
    boost::asio::awaitable<void> async_execute_into(sql::statement prepared,
                                                    sql::bound_statement what,
                                                    std::shared_ptr<sql::row_sink> to) override;
    void set_timeout(std::chrono::nanoseconds timeout) override { timeout_ = timeout; }
    void use(std::shared_ptr<const sql::lease_setup> setup) override;
    bool setup_pending() const noexcept { return setup_ != nullptr; }
    bool in_transaction() const noexcept override;
    bool broken() const noexcept override { return condition_.broken(); }

    // The work of an exchange, within its time limit. Throw statement_error and connection_error.
    void perform(std::string_view text, std::span<const sql::parameter> parameters,
                 sql::row_sink& to);
    sql::statement make(std::string_view text);
    void perform(const sql::statement& prepared, std::span<const sql::parameter> parameters,
                 sql::row_sink& to);
    /// A statement whose rows next() reads. Copies the parameters.
    sql::statement begin(std::string_view text, std::span<const sql::parameter> parameters);
    /// False at the end.
    bool next(const sql::statement& begun, sql::row_sink& to);
    void end(const sql::statement& begun) noexcept;

    /// Executes a statement of make() for a chunk of rows. Throws if a row is refused, which is not
    /// dropped then, unless each row is by itself. False: there are no more rows.
    bool perform_many(const sql::statement& prepared, many_rows& rows);
    // Several exchanges that take effect together.
    void begin_together();
    void commit_together();
    void undo_together() noexcept;

    /// Before a borrower gets the handle: the pending setup of the lease.
    void set_up_for_handle();
    bool probe();
    /// Undoes what the last lease has changed. Throws if that is impossible.
    void reset();
    /// Ends the lease: undoes what is cheap to undo. Says what to do with the connection.
    verdict end_lease() noexcept;
    /// Drops the handle without closing it: after a fork it is the parent's.
    void forsake() noexcept { handle_ = nullptr; }

    /// Whether an operation waits for another connection's lock or fails at once.
    void wait_for_locks(bool waits) noexcept { waits_ = waits; }
    /// The line to wait in, if the operation that has just failed needs a turn. Otherwise null.
    std::shared_ptr<writers_line> line_to_join() const noexcept {
        return wants_turn_ ? line_ : nullptr;
    }
    void give_turn(writers_line::turn t) noexcept { turn_ = std::move(t); }
    /// This operation competes at SQLite's own lock.
    void go_without_turn() noexcept { goes_without_turn_ = true; }
    /// Gives the turn back, unless a transaction still writes.
    void end_turn() noexcept;
    /// An operation begins. Called by the waiting side: the operation may be stopped before it runs
    /// on a work thread, and may run there several times.
    void note_begun() noexcept;
    /// The end of a wait for a lock.
    connector_detail::instant lock_deadline() const noexcept { return lock_until_; }
    /// Makes the operation under way end. From any thread.
    void stop() noexcept { stopped_.store(true, std::memory_order_relaxed); }
    /// Throws statement_error.
    void refuse_stopped() const;
    /// Until the lease ends: refuses statements that write what other connections can see.
    void only_read(bool on) noexcept { only_reads_ = on; }
    sqlite3* handle() const noexcept { return handle_; }
    connector_detail::condition& condition() noexcept { return condition_; }

private:
    class limit;
    struct rewind;

    void open();
    void set_up();
    void install_busy_handler();
    void watch_statements();
    void note_baseline();
    std::vector<std::string> attached();
    void note_opened(const compiled& s, std::span<const sql::parameter> parameters);
    void repeat_on_open();
    void perform_kept(std::string_view text, std::span<const sql::parameter> parameters,
                      sql::row_sink& to);
    void note(int action, const char* name, const char* argument, const char* database);
    void note_pragma(std::string_view name);
    void undo_pragmas();
    void set_up_lease();
    void detach_all();
    void drop_temporaries();

    compiled compile(std::string_view text, unsigned flags = 0);
    void bind(sqlite3_stmt* to, std::span<const sql::parameter> parameters, bool copies);
    void bind_one(sqlite3_stmt* to, int place, const sql::parameter& p, bool copies);
    bool step(sqlite3_stmt* s);
    void collect(sqlite3_stmt* s, sql::row_sink& to);
    void collect(const compiled& s, std::span<const sql::parameter> parameters, sql::row_sink& to);
    void take_turn(const compiled& s);
    void perform_row(const compiled& s, many_rows& rows);
    sql::result run(const std::string& text);  // of the connector itself
    const compiled& find(const sql::statement& s) const;
    sql::statement keep(compiled s);
    [[noreturn]] void fail(int code) const;
    bool late() const noexcept;
    bool wait_for_lock(int tries) const noexcept;

    std::shared_ptr<const options> settings_;
    sqlite3* handle_ = nullptr;
    connector_detail::condition condition_;
    std::shared_ptr<writers_line> line_;
    writers_line::turn turn_;  // kept while this connection has SQLite's lock
    bool wants_turn_ = false;
    bool goes_without_turn_ = false;
    bool only_reads_ = false;
    connector_detail::statement_cache<compiled> kept_;
    bool compiled_change_ = false;  // the statement compiled last changes the session
    /// The databases whose tables it changes.
    struct {
        bool main = false;
        bool temporary = false;
        bool attached = false;
    } compiled_writes_;
    std::vector<compiled> statements_;
    std::vector<std::pair<std::string, std::string>> baseline_;  // pragmas of a new session
    connector_detail::opening_record opened_;                    // the temporary objects of on_open
    std::vector<std::string> attached_;              // databases that on_open has attached
    std::shared_ptr<const sql::lease_setup> setup_;  // of this lease, not made yet
    bool has_changed_ = false;
    bool cannot_undo_ = false;
    bool waits_ = true;         // for locks
    bool by_connector_ = true;  // statements are the connector's own
    std::chrono::nanoseconds timeout_;
    // Of the operation, from note_begun() on.
    connector_detail::instant until_ = connector_detail::instant::max();
    connector_detail::instant lock_until_ = connector_detail::instant::max();
    // Copies of both while SQLite is running; max() in between.
    connector_detail::instant deadline_ = connector_detail::instant::max();
    connector_detail::instant lock_deadline_ = connector_detail::instant::max();
    std::atomic<bool> stopped_{false};
};

/// Puts the time limits of the operation into force.
class session::limit {
public:
    explicit limit(session& of) : of_(of) {
        of.deadline_ = of.until_;
        of.lock_deadline_ = of.lock_until_;
    }
    ~limit() {
        of_.deadline_ = of_.lock_deadline_ = connector_detail::instant::max();
        of_.end_turn();
    }
    limit(const limit&) = delete;
    limit& operator=(const limit&) = delete;

private:
    session& of_;
};

/// Makes a statement ready for its next execution.
struct session::rewind {
    sqlite3_stmt* of;
    ~rewind();
};

}  // namespace cenote::sqlite::detail
