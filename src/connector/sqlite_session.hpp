// One handle of SQLite's and what is known of its session: what a lease may have left behind, and
// how to undo it.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <chrono>
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
#include "connector/sqlite_line.hpp"
#include "connector/statement_cache.hpp"

struct sqlite3_stmt;

namespace cenote::sqlite::detail {

struct finalize {
    void operator()(sqlite3_stmt* s) const noexcept;
};

/// A statement, and what it changes.
struct compiled {
    std::unique_ptr<sqlite3_stmt, finalize> it;
    bool writes = false;          // what others can see
    bool writes_to_main = false;  // the connection's own file, and none that is attached
};

class session final : public sql::detail::session, public std::enable_shared_from_this<session> {
public:
    /// The code of an error that goes away when another connection lets go of its lock.
    static const int locked;

    /// Opens and sets up. Throws connection_error. `line`: of those who write.
    session(std::shared_ptr<const options> settings, std::shared_ptr<writers_line> line);
    /// Everything is as its user wants it: so it is to be for each lease.
    void settle();
    ~session() override;
    session(const session&) = delete;
    session& operator=(const session&) = delete;

    // What a connection offers, each an exchange (sqlite.cpp).
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
    void set_timeout(std::chrono::nanoseconds timeout) override { timeout_ = timeout; }
    bool in_transaction() const noexcept override;
    bool broken() const noexcept override { return condition_.broken(); }

    // What happens in them, each within the time that is allowed to one. Throw statement_error and
    // connection_error.
    sql::result perform(std::string_view text, std::span<const sql::parameter> parameters);
    sql::statement make(std::string_view text);
    sql::result perform(const sql::statement& prepared, std::span<const sql::parameter> parameters);
    /// Begins to be read with next(). `parameters` may go.
    sql::statement begin(std::string_view text, std::span<const sql::parameter> parameters);
    std::optional<sql::row> next(const sql::statement& begun,
                                 std::shared_ptr<const sql::column_names>& columns);
    void end(const sql::statement& begun) noexcept;

    bool probe();
    /// Undoes what the last lease left. Throws if it cannot.
    void reset();
    /// Forgets what is cheap to forget, and says whether more is to be undone.
    verdict leave() noexcept;
    /// Lets go of the handle without a word: it is the parent's.
    void forsake() noexcept { handle_ = nullptr; }

    /// Whether an operation waits for another connection's lock, or fails at once.
    void wait_for_locks(bool waits) noexcept { waits_ = waits; }
    /// What has just failed at once wants to write, while somebody else does: it is to be tried
    /// again with a turn. Null: it wants something else.
    std::shared_ptr<writers_line> line_to_join() const noexcept {
        return wants_turn_ ? line_ : nullptr;
    }
    void give_turn(writers_line::turn t) noexcept { turn_ = std::move(t); }
    /// For this operation: SQLite is to say whether it works without one.
    void go_without_turn() noexcept { goes_without_turn_ = true; }
    /// Lets the next one write, unless this one still does.
    void end_turn() noexcept;
    /// An operation begins, and its time. Not where it runs: it may be stopped before that, and run
    /// more than once.
    void note_begun() noexcept;
    /// When whoever waits for a lock gives up.
    connector_detail::instant lock_deadline() const noexcept { return lock_until_; }
    /// From any thread: the operation under way is to end.
    void stop() noexcept { stopped_.store(true, std::memory_order_relaxed); }
    /// Throws statement_error.
    void refuse_stopped() const;
    /// Until the lease ends, or this is taken back: what others can see cannot be changed.
    void only_read(bool on) noexcept { only_reads_ = on; }
    sqlite3* handle() const noexcept { return handle_; }
    connector_detail::condition& condition() noexcept { return condition_; }

private:
    class limit;

    void open();
    void set_up();
    void note_baseline();
    sql::result perform_kept(std::string_view text, std::span<const sql::parameter> parameters);
    void note(int action, const char* name, const char* argument, const char* database);
    void note_pragma(std::string_view name);
    void undo_pragmas();
    void detach_all();
    void drop_temporaries();

    compiled compile(std::string_view text, unsigned flags = 0);
    void bind(sqlite3_stmt* to, std::span<const sql::parameter> parameters, bool copies);
    void bind_one(sqlite3_stmt* to, int place, const sql::parameter& p, bool copies);
    bool step(sqlite3_stmt* s);
    sql::result collect(sqlite3_stmt* s);
    sql::result collect(const compiled& s, std::span<const sql::parameter> parameters);
    void take_turn(const compiled& s);
    sql::result run(const std::string& text);  // our own, with nothing bound
    const compiled& find(const sql::statement& s) const;
    sql::statement keep(compiled s);
    [[noreturn]] void fail(int code) const;
    bool late() const noexcept;
    bool wait_for_lock(int tries) const noexcept;

    std::shared_ptr<const options> settings_;
    sqlite3* handle_ = nullptr;
    connector_detail::condition condition_;
    std::shared_ptr<writers_line> line_;
    writers_line::turn turn_;  // kept for as long as this connection has SQLite's lock
    bool wants_turn_ = false;
    bool goes_without_turn_ = false;
    bool only_reads_ = false;
    connector_detail::statement_cache<compiled> kept_;
    bool compiled_change_ = false;  // what was compiled last changes the session
    /// Whose tables it changes.
    struct {
        bool main = false;
        bool temporary = false;
        bool attached = false;
    } compiled_writes_;
    std::vector<compiled> statements_;
    std::vector<std::pair<std::string, std::string>> baseline_;  // pragmas as they were at first
    bool has_changed_ = false;                                   // something is to be undone
    bool beyond_undo_ = false;                                   // and cannot be
    bool waits_ = true;                                          // for locks
    bool own_doing_ = true;  // what happens is not the borrower's
    std::chrono::nanoseconds timeout_;
    connector_detail::instant until_ = connector_detail::instant::max();       // of the operation
    connector_detail::instant lock_until_ = connector_detail::instant::max();  // for others' locks
    connector_detail::instant deadline_ =
        connector_detail::instant::max();  // now, none between two
    connector_detail::instant busy_until_ = connector_detail::instant::max();
    std::atomic<bool> stopped_{false};
};

}  // namespace cenote::sqlite::detail
