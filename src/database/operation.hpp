// What is done with the connection of a scope, step by step: written once, and driven by a thread
// or by a coroutine.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cenote/database.hpp"
#include "database/placeholders.hpp"
#include "database/scope_connection.hpp"

namespace cenote::database_detail {

/// What an operation needs next.
enum class need : std::uint8_t {
    nothing,
    connection,
    read_only_session,
    statement,  ///< The one with text() has to run; its result does not matter.
    task,       ///< The task, with text() and values().
};

/// A statement, or the begin or end of a transaction. It takes a connection if there is none, and
/// first settles what earlier operations have left: it finds out whether an error has ended the
/// transaction, and undoes abandoned transactions.
///
/// A statement that the server has certainly not run, because it was the first one of a connection
/// that failed, runs on another connection. So does an idempotent statement whose connection was
/// lost. Each has at most three tries.
class operation {
public:
    enum class kind : std::uint8_t { task, begin, nest, commit, rollback };

    /// A task for a statement. Refers to all of them.
    operation(std::shared_ptr<scope_connection> on, database_detail::task& what,
              std::string_view text, std::span<const sql::parameter> values, bool idempotent)
        : on_(std::move(on)),
          what_(kind::task),
          task_(&what),
          idempotent_(idempotent && what.completes_statement()) {
        statement_.emplace(on_->dialect(), text, values);
    }
    /// The begin of a transaction.
    operation(std::shared_ptr<scope_connection> on, const transaction_options& how)
        : on_(std::move(on)), what_(kind::begin), how_(how) {}
    /// The begin of a transaction within `which`, or the end of `which`.
    operation(std::shared_ptr<scope_connection> on, kind what, transaction_id which)
        : on_(std::move(on)), what_(what), which_(which) {}

    // For drivers.

    /// The next step; `nothing` at the end. Throws if no step is possible.
    need next();
    /// The last step has failed with the exception that is being handled. Throws what that means
    /// for the user, unless the operation goes on.
    void note_failure();
    database_detail::task& task() noexcept { return *task_; }
    std::string_view text() const noexcept { return text_; }
    std::span<const sql::parameter> values() const noexcept { return values_; }
    connection_lease acquire();
    asio::awaitable<connection_lease> async_acquire();
    void take(connection_lease l);
    connection_lease& lease() noexcept { return on_->lease_; }
    sql::connection& connection() noexcept { return on_->base(); }

    // The outcome.

    /// The transaction that has begun, and its connection.
    transaction_id begun() const noexcept { return which_; }
    const std::shared_ptr<scope_connection>& on() const noexcept { return on_; }

private:
    /// In this order. Only rollback passes through `abandon`, and it skips `connect`.
    enum class stage : std::uint8_t {
        check,
        connect,
        verify,
        note_verified,
        abandon,
        undo,
        run,
        finish,
        end,
    };

    static constexpr int connections = 3;  // that a statement is tried on

    stage check();
    need run();
    void finish();
    bool may_repeat(const connection_error& e);
    void queue(statement_list list);
    void go_to(stage next);

    std::shared_ptr<scope_connection> on_;
    kind what_;
    database_detail::task* task_ = nullptr;
    std::optional<placeholders> statement_;
    std::string commented_;  // the text of the statement and the comment of its trace
    bool idempotent_ = false;
    transaction_options how_;
    transaction_id which_ = 0;
    bool outermost_ = false;  // it ends a transaction of level 1

    stage stage_ = stage::check;
    statement_list list_;  // queued
    std::size_t position_ = 0;
    std::string_view text_;
    std::span<const sql::parameter> values_;
    std::optional<route> route_;  // while a reader acquires
    int connections_left_ = connections;
    int repeats_left_ = 2;
};

/// Takes all steps of an operation in the calling thread.
void drive(operation& o);
/// Takes all steps in a coroutine. `o` must outlive it.
asio::awaitable<void> async_drive(operation* o);

}  // namespace cenote::database_detail
