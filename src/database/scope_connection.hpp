// The connection of a scope, a transaction or a cursor, and the state of its transactions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cenote/database.hpp"
#include "database/server_pool.hpp"
#include "database/topology.hpp"

namespace cenote::database_detail {

/// Identifies a transaction of one connection. 0: none.
using transaction_id = std::uint64_t;

/// How a user relies on the session of a connection.
enum class session_use : std::uint8_t {
    statement,    ///< Not at all: a statement or transaction of its own.
    session,      ///< Statements rely on what earlier ones have set.
    replaceable,  ///< Statements may set anything, and rely on nothing: another session will do.
};

/// Takes a connection when it is first needed. A scope, its transactions and its cursors share one,
/// and the connection goes back to its pool with the last of them.
///
/// Transactions have levels: level 1 is a transaction of the server, those above are savepoints. A
/// transaction ends by commit or rollback, which tell the server, or is abandoned. An abandoned one
/// is undone before the next statement, or by the reset of the connection.
///
/// This class has the state and its rules; `operation` runs the statements.
class scope_connection final : public executor,
                               public std::enable_shared_from_this<scope_connection> {
public:
    /// `replicas`: null unless a replica may serve this scope, which then refuses writes. `as`: the
    /// call that holds the connection.
    scope_connection(server_pool_ptr primary, std::shared_ptr<topology> replicas, session_use use,
                     const call& as)
        : pool_(std::move(primary)),
          replicas_(std::move(replicas)),
          use_(use),
          as_(as),
          comment_(pool_->server.comment_for(as.how.trace)) {}
    ~scope_connection() override { release(); }

    database_detail::dialect dialect() const noexcept { return pool_->server.dialect(); }
    /// What follows the text of each statement of the user: a comment with the trace, or nothing.
    const std::string& comment() const noexcept { return comment_; }
    bool has_connection() const noexcept { return static_cast<bool>(lease_); }
    void discard_at_end() noexcept { discards_ = true; }

    /// Throws std::logic_error for another transaction than the innermost one: a statement that is
    /// meant for that one would become part of the innermost one.
    void check_innermost(transaction_id which) const;
    /// Ends this transaction and those within it, without telling the server.
    void abandon(transaction_id which) noexcept;
    /// A cursor over these rows that keeps this connection.
    sql::cursor keep(sql::cursor rows);

private:
    friend class operation;
    friend class kept_use;

    /// What has ended a transaction that its user has not ended.
    enum class ended_by : std::uint8_t { nothing, loss, error, statement };

    std::shared_ptr<scope_connection> connection(const call&) override {
        return shared_from_this();
    }

    // The connection.

    sql::connection& base() const noexcept { return base_of(*lease_); }
    bool reads_only() const noexcept { return replicas_ != nullptr; }
    bool is_session() const noexcept { return use_ != session_use::statement; }
    bool session_reads_only() const noexcept { return reads_only() && is_session(); }
    route find_route() const { return {replicas_->primary(), replicas_->replicas_in_turn(), as_}; }
    void release() noexcept;
    /// Releases a connection that has died, and notes what that means.
    void release_if_dead();
    void note_loss() noexcept;
    /// Throws what a lost connection means for a user who relies on its session. Returns if the
    /// user does not.
    void throw_if_relied_on(const connection_error& e, bool committing) const;

    // Rules. Each throws if it is broken.

    void check_not_lost() const;
    void check_no_rows() const;
    void check_no_transaction() const;

    // Transactions.

    std::size_t level() const noexcept { return open_.size(); }
    /// Whether the server has no transaction left to end.
    bool has_ended() const noexcept;
    bool ended_by_server() const noexcept;
    void note_success() noexcept;
    void note_error() noexcept;

    statement_list statements_to_verify() const;
    void note_verified() noexcept;
    statement_list statements_to_undo() const;
    void note_undone() noexcept;
    statement_list statements_to_begin(const transaction_options& how);
    statement_list statements_to_nest() const;
    statement_list statements_to_commit() const;
    transaction_id note_begun();
    transaction_id note_nested();
    void note_committed() noexcept;
    void note_no_transaction() noexcept;

    server_pool_ptr pool_;  // of the lease; without one, the primary's
    std::shared_ptr<topology> replicas_;
    session_use use_;
    call as_;
    std::string comment_;
    connection_lease lease_;
    bool must_set_read_only_ = false;  // before anything else runs on the new connection
    bool discards_ = false;
    bool session_lost_ = false;  // for good
    int open_cursors_ = 0;       // that have rows left, and COPYs that have not finished

    std::vector<transaction_id> open_;  // each within the one before it
    transaction_id last_ = 0;
    transaction_options how_;  // of level 1
    ended_by ended_ = ended_by::nothing;
    bool doubtful_ = false;      // a statement has failed, which may have ended the transaction
    std::size_t undo_from_ = 0;  // the lowest level that was abandoned and is not undone; 0: none
    bool begin_is_partial_ = false;  // not all statements that begin level 1 have succeeded yet
};

/// Rows or a COPY under way: they keep their connection, on which nothing else can run.
class kept_use {
public:
    explicit kept_use(std::shared_ptr<scope_connection> on) noexcept;
    ~kept_use() { release(); }
    kept_use(const kept_use&) = delete;
    kept_use& operator=(const kept_use&) = delete;

    bool over() const noexcept { return on_ == nullptr; }
    /// It has succeeded.
    void end() noexcept;
    /// Throws what the exception that is being handled means.
    [[noreturn]] void fail();

private:
    std::shared_ptr<scope_connection> release() noexcept;

    std::shared_ptr<scope_connection> on_;
};

}  // namespace cenote::database_detail
