// The rules of a connection that is shared by a scope, its transactions and its cursors.
#include "database/scope_connection.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "database/operation.hpp"

namespace cenote::database_detail {

namespace {

std::string savepoint(std::size_t level) { return "cenote_" + std::to_string(level); }

}  // namespace

kept_use::kept_use(std::shared_ptr<scope_connection> on) noexcept : on_(std::move(on)) {
    ++on_->open_cursors_;
}

std::shared_ptr<scope_connection> kept_use::release() noexcept {
    if (on_ != nullptr) --on_->open_cursors_;
    return std::move(on_);
}

void kept_use::end() noexcept {
    std::shared_ptr<scope_connection> on = release();
    if (on->open_cursors_ == 0) on->note_success();
}

void kept_use::fail() {
    try {
        throw;
    } catch (const connection_error& e) {
        std::shared_ptr<scope_connection> on = release();
        on->note_loss();
        on->throw_if_relied_on(e, false);
        throw;
    } catch (const statement_error&) {
        release()->note_error();
        throw;
    }
}

/// Rows that keep their connection.
class kept_rows final : public sql::detail::rows, public std::enable_shared_from_this<kept_rows> {
public:
    kept_rows(std::shared_ptr<scope_connection> on, sql::cursor begun) noexcept
        : use_(std::move(on)), rows_(std::move(begun)) {}
    kept_rows(const kept_rows&) = delete;
    kept_rows& operator=(const kept_rows&) = delete;
    ~kept_rows() override = default;

    std::optional<sql::row> next() override {
        if (use_.over()) return std::nullopt;
        try {
            return note(rows_.next());
        } catch (...) {
            fail();
        }
    }
    asio::awaitable<std::optional<sql::row>> async_next() override {
        return async_next_of(shared_from_this());
    }
    bool next_into(sql::row_sink& to) override {
        if (use_.over()) return false;
        try {
            return note(rows_.rows()->next_into(to));
        } catch (...) {
            fail();
        }
    }
    asio::awaitable<bool> async_next_into(std::shared_ptr<sql::row_sink> to) override {
        return async_next_into_of(shared_from_this(), std::move(to));
    }

private:
    static asio::awaitable<std::optional<sql::row>> async_next_of(std::shared_ptr<kept_rows> of) {
        if (of->use_.over()) co_return std::nullopt;
        try {
            std::optional<sql::row> one = co_await of->rows_.async_next();
            co_return of->note(std::move(one));
        } catch (...) {
            of->fail();
        }
    }
    static asio::awaitable<bool> async_next_into_of(std::shared_ptr<kept_rows> of,
                                                    std::shared_ptr<sql::row_sink> to) {
        if (of->use_.over()) co_return false;
        try {
            bool more = co_await of->rows_.rows()->async_next_into(std::move(to));
            co_return of->note(more);
        } catch (...) {
            of->fail();
        }
    }

    /// `one`: what was read; false at the end, when the rows end before their connection.
    template <class One>
    One note(One one) noexcept {
        if (one) return one;
        rows_ = sql::cursor();
        use_.end();
        return one;
    }
    [[noreturn]] void fail() {
        rows_ = sql::cursor();
        use_.fail();
    }

    kept_use use_;
    sql::cursor rows_;
};

sql::cursor scope_connection::keep(sql::cursor rows) {
    return sql::cursor(std::make_shared<kept_rows>(shared_from_this(), std::move(rows)));
}

// The connection.

/// A scope or a setup may have changed its session in ways that the server does not report.
void scope_connection::release() noexcept {
    bool changes_session = is_session() || as_.setup != nullptr;
    bool may_have_changed = changes_session && !pool_->server.resets_in_full();
    if (may_have_changed || undo_from_ > 0) lease_.mark_dirty();
    if (discards_) lease_.discard_at_end();
    lease_.give_back();
    undo_from_ = 0;
    begin_is_partial_ = false;
}

/// That is a loss also for a transaction that was begun in plain SQL: later statements must not run
/// outside of it.
void scope_connection::release_if_dead() {
    if (!has_connection() || open_cursors_ > 0) return;
    if (pool_->server.before_acquire(*lease_)) return;
    bool in_plain_transaction = level() == 0 && undo_from_ == 0 && base().in_transaction();
    note_loss();
    if (in_plain_transaction)
        throw transaction_lost("cenote: the connection was lost in a transaction", "", false);
}

void scope_connection::note_loss() noexcept {
    release();
    if (use_ == session_use::session) session_lost_ = true;
    if (level() > 0) ended_ = ended_by::loss;
}

void scope_connection::throw_if_relied_on(const connection_error& e, bool committing) const {
    if (level() > 0)
        throw transaction_lost(std::string("cenote: the connection was lost in a transaction: ") +
                                   e.what(),
                               e.sqlstate(), committing);
    if (session_lost_)
        throw session_lost(e.kind(),
                           std::string("cenote: the connection of a scope was lost: ") + e.what(),
                           e.sqlstate(), e.code());
}

// Rules.

/// Statements that were meant for a session or a transaction must not run without it.
void scope_connection::check_not_lost() const {
    if (level() == 0 && session_lost_)
        throw session_lost(error_kind::connection,
                           "cenote: the connection of this scope was lost, and with it the state "
                           "of its session");
    if (level() == 0) return;
    switch (ended_) {
        case ended_by::nothing: break;
        case ended_by::loss:
            throw transaction_lost("cenote: the connection was lost in this transaction", "",
                                   false);
        case ended_by::error:
            throw transaction_lost("cenote: an error made the server roll back this transaction",
                                   "", false);
        case ended_by::statement:
            throw std::logic_error(
                "cenote: a statement has ended this transaction; later statements would run "
                "outside of it");
    }
}

/// PostgreSQL and MariaDB accept no other statement while they send rows. SQLite would, but a
/// program that works with one server works with all of them.
void scope_connection::check_no_rows() const {
    if (open_cursors_ == 0) return;
    throw std::logic_error(
        "cenote: a cursor of this scope or transaction has rows left, or a COPY has not finished: "
        "read or write it to its end before the next statement, begin, commit or rollback");
}

void scope_connection::check_no_transaction() const {
    if (level() == 0) return;
    throw std::logic_error(
        "cenote: this scope already has a transaction; begin() of that transaction nests another "
        "one");
}

void scope_connection::check_innermost(transaction_id which) const {
    if (!open_.empty() && open_.back() == which) return;
    throw std::logic_error(
        "cenote: a nested transaction has not ended yet, or the enclosing one has");
}

// Transactions.

bool scope_connection::has_ended() const noexcept {
    return ended_ != ended_by::nothing || !has_connection() || base().broken();
}

/// As far as the connection knows. It may be gone: rows can outlast it.
bool scope_connection::ended_by_server() const noexcept {
    return level() > 0 && has_connection() && !base().in_transaction();
}

void scope_connection::note_success() noexcept {
    if (ended_by_server()) ended_ = ended_by::statement;
}

void scope_connection::note_error() noexcept {
    doubtful_ = true;
    if (ended_by_server()) ended_ = ended_by::error;
}

statement_list scope_connection::statements_to_verify() const {
    if (level() == 0 || has_ended()) return {};
    return pool_->server.statements_to_verify();
}

void scope_connection::note_verified() noexcept {
    if (doubtful_ && !has_ended() && ended_by_server()) ended_ = ended_by::error;
    doubtful_ = false;
}

statement_list scope_connection::statements_to_undo() const {
    if (!base().in_transaction())
        return begin_is_partial_ ? pool_->server.statements_to_undo_begin(how_) : statement_list{};
    if (undo_from_ == 1) return {"ROLLBACK"};
    return {"ROLLBACK TO " + savepoint(undo_from_), "RELEASE SAVEPOINT " + savepoint(undo_from_)};
}

void scope_connection::note_undone() noexcept {
    if (undo_from_ > 0) note_no_transaction();
}

/// Level 1 has to be undone until all of these have succeeded.
statement_list scope_connection::statements_to_begin(const transaction_options& how) {
    if (base().in_transaction())
        throw std::logic_error(
            "cenote: the session is already in a transaction, which was begun in plain SQL");
    undo_from_ = 1;
    begin_is_partial_ = true;
    how_ = how;
    if (reads_only()) how_.read_only = true;
    if (how_.read_only) refuse_writes(*lease_, true);
    return pool_->server.statements_to_begin(how_);
}

statement_list scope_connection::statements_to_nest() const {
    return {"SAVEPOINT " + savepoint(level() + 1)};
}

/// PostgreSQL executes the commit of a failed transaction as a rollback, and reports no error.
statement_list scope_connection::statements_to_commit() const {
    if (base().transaction_failed())
        throw statement_error(
            "cenote: a statement of this transaction has failed: it can only be rolled back",
            "25P02");
    if (level() > 1) return {"RELEASE SAVEPOINT " + savepoint(level())};
    return {"COMMIT"};
}

transaction_id scope_connection::note_begun() {
    undo_from_ = 0;
    begin_is_partial_ = false;
    doubtful_ = false;
    ended_ = ended_by::nothing;
    return note_nested();
}

transaction_id scope_connection::note_nested() {
    open_.push_back(++last_);
    return last_;
}

void scope_connection::note_committed() noexcept {
    open_.pop_back();
    if (level() == 0) note_no_transaction();
}

/// Nothing is left to undo either.
void scope_connection::note_no_transaction() noexcept {
    undo_from_ = 0;
    begin_is_partial_ = false;
    if (has_connection() && level() == 0) refuse_writes(*lease_, session_reads_only());
}

void scope_connection::abandon(transaction_id which) noexcept {
    auto found = std::ranges::find(open_, which);
    if (found == open_.end()) return;
    std::size_t from = static_cast<std::size_t>(found - open_.begin()) + 1;
    open_.erase(found, open_.end());
    undo_from_ = undo_from_ == 0 ? from : std::min(undo_from_, from);
    if (level() == 0) ended_ = ended_by::nothing;
}

}  // namespace cenote::database_detail
