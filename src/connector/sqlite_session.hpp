// One handle of SQLite's and what is known of its session: what a lease may have left behind, and
// how to undo it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cenote/sql.hpp"
#include "cenote/sqlite.hpp"
#include "connector/drive.hpp"
#include "connector/exchange.hpp"

struct sqlite3_stmt;

namespace cenote::sqlite::detail {

struct finalize {
    void operator()(sqlite3_stmt* s) const noexcept;
};
using statement_ptr = std::unique_ptr<sqlite3_stmt, finalize>;

/// Where a statement is kept. Names from before a reset mean nothing any more.
struct statement_name {
    std::size_t number = 0;
    std::uint64_t generation = 0;
};

class session {
public:
    /// The code of an error that goes away when another connection lets go of its lock.
    static const int locked;

    /// Opens and sets up. Throws connection_error.
    explicit session(std::shared_ptr<const options> settings);
    /// Everything is as its user wants it: so it is to be for each lease.
    void settle();
    ~session();
    session(const session&) = delete;
    session& operator=(const session&) = delete;

    // Operations, each within the time that is allowed to one. Throw statement_error and
    // connection_error.
    sql::result execute(std::string_view text, std::span<const sql::parameter> parameters);
    statement_name prepare(std::string_view text);
    sql::result execute(statement_name name, std::span<const sql::parameter> parameters);
    /// Begins to be read with next(). `parameters` may go.
    statement_name begin(std::string_view text, std::span<const sql::parameter> parameters);
    std::optional<sql::row> next(statement_name name,
                                 std::shared_ptr<const sql::column_names>& columns);
    void end(statement_name name) noexcept;

    bool probe();
    /// Undoes what the last lease left. Throws if it cannot.
    void reset();
    /// Forgets what is cheap to forget, and says whether more is to be undone.
    verdict leave() noexcept;
    /// Lets go of the handle without a word: it is the parent's.
    void forsake() noexcept { handle_ = nullptr; }

    /// Whether an operation waits for another connection's lock, or fails at once.
    void wait_for_locks(bool waits) noexcept { waits_ = waits; }
    /// From any thread: the operation under way is to end.
    void stop() noexcept { stopped_.store(true, std::memory_order_relaxed); }
    void set_timeout(std::chrono::nanoseconds timeout) { timeout_ = timeout; }
    std::chrono::milliseconds busy_timeout() const noexcept { return settings_->busy_timeout; }
    bool in_transaction() const noexcept;
    sqlite3* handle() const noexcept { return handle_; }
    connector_detail::condition& condition() noexcept { return condition_; }

private:
    class limit;

    void open();
    void set_up();
    void note_baseline();
    void note(int action, const char* name, const char* argument);
    void note_pragma(std::string_view name);
    void undo_pragmas();
    void detach_all();
    void drop_temporaries();

    statement_ptr compile(std::string_view text, unsigned flags = 0);
    void bind(sqlite3_stmt* to, std::span<const sql::parameter> parameters, bool copies);
    void bind_one(sqlite3_stmt* to, int place, const sql::parameter& p, bool copies);
    bool step(sqlite3_stmt* s);
    sql::result collect(sqlite3_stmt* s);
    sql::result run(const std::string& text);  // our own, with nothing bound
    sqlite3_stmt* find(statement_name name) const;
    statement_name keep(statement_ptr s);
    [[noreturn]] void fail(int code) const;
    bool late() const noexcept;
    bool wait_for_lock(int tries) const noexcept;

    std::shared_ptr<const options> settings_;
    sqlite3* handle_ = nullptr;
    connector_detail::condition condition_;
    std::vector<statement_ptr> statements_;
    std::uint64_t generation_ = 1;
    std::vector<std::pair<std::string, std::string>> baseline_;  // pragmas as they were at first
    bool has_changed_ = false;                                   // something is to be undone
    bool beyond_undo_ = false;                                   // and cannot be
    bool waits_ = true;                                          // for locks
    bool own_doing_ = true;  // what happens is not the borrower's
    std::chrono::nanoseconds timeout_;
    connector_detail::instant deadline_ = connector_detail::instant::max();
    connector_detail::instant busy_until_ = connector_detail::instant::max();
    std::atomic<bool> stopped_{false};
};

}  // namespace cenote::sqlite::detail
