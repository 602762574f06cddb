// The steps of an operation, and the thread or coroutine that takes them.
#include "database/operation.hpp"

#include <utility>

#include "cenote/error.hpp"
#include "cenote/server_error.hpp"

namespace cenote::database_detail {

need operation::next() {
    for (;;) {
        if (position_ < list_.size()) {
            text_ = list_[position_++];
            values_ = {};
            return need::statement;
        }
        switch (stage_) {
            case stage::check: stage_ = check(); break;
            case stage::connect:
                if (!on_->has_connection()) {
                    if (on_->reads_only() && !route_) route_.emplace(on_->find_route());
                    return need::connection;
                }
                if (std::exchange(on_->must_set_read_only_, false)) return need::read_only_session;
                [[fallthrough]];
            case stage::verify:
                stage_ = stage::note_verified;
                if (on_->doubtful_) queue(on_->statements_to_verify());
                break;
            case stage::note_verified:
                on_->note_verified();
                stage_ = what_ == kind::rollback ? stage::abandon : stage::undo;
                break;
            case stage::abandon: {
                bool has_ended = on_->has_ended();
                on_->abandon(which_);
                stage_ = has_ended ? stage::end : stage::undo;
                break;
            }
            case stage::undo:
                on_->check_not_lost();
                stage_ = stage::run;
                if (on_->undo_from_ > 0) queue(on_->statements_to_undo());
                break;
            case stage::run:
                on_->note_undone();
                stage_ = stage::finish;
                if (need n = run(); n != need::nothing) return n;
                break;
            case stage::finish:
                finish();
                stage_ = stage::end;
                [[fallthrough]];
            case stage::end: return need::nothing;
        }
    }
}

/// What does not depend on the server. Returns the next stage.
operation::stage operation::check() {
    if (what_ == kind::begin) on_->check_no_transaction();
    if (which_ != 0) on_->check_innermost(which_);
    outermost_ = which_ != 0 && on_->level() == 1;
    if (what_ != kind::rollback) {
        on_->release_if_dead();
        on_->check_not_lost();
    }
    on_->check_no_rows();
    if (what_ != kind::rollback) return stage::connect;
    return outermost_ ? stage::abandon : stage::verify;
}

/// What the operation is for.
need operation::run() {
    switch (what_) {
        case kind::task:
            text_ = statement_->text();
            if (!on_->comment().empty()) text_ = commented_.assign(text_) += on_->comment();
            values_ = statement_->values();
            return need::task;
        case kind::begin: queue(on_->statements_to_begin(how_)); break;
        case kind::nest: queue(on_->statements_to_nest()); break;
        case kind::commit: queue(on_->statements_to_commit()); break;
        case kind::rollback: break;  // undone already
    }
    return need::nothing;
}

void operation::finish() {
    switch (what_) {
        case kind::task:
            if (task_->completes_statement()) on_->note_success();
            break;
        case kind::begin: which_ = on_->note_begun(); break;
        case kind::nest: which_ = on_->note_nested(); break;
        case kind::commit: on_->note_committed(); break;
        case kind::rollback: break;
    }
}

connection_lease operation::acquire() {
    return route_ ? route_->acquire() : on_->pool_->acquire(on_->as_);
}

asio::awaitable<connection_lease> operation::async_acquire() {
    return route_ ? route_->async_acquire() : on_->pool_->async_acquire(on_->as_);
}

void operation::take(connection_lease l) {
    if (route_) on_->pool_ = route_->pool();
    route_.reset();
    on_->lease_ = std::move(l);
    if (on_->as_.setup != nullptr) connection().use(on_->as_.setup);
    on_->must_set_read_only_ = on_->session_reads_only();
}

void operation::note_failure() {
    bool is_new = stage_ == stage::connect;  // the connection has not served this scope yet
    bool committing = what_ == kind::commit && outermost_ && stage_ == stage::finish;
    if (is_new) on_->release();
    try {
        throw;
    } catch (const pool_error& e) {
        if (!route_ || !route_->go_on_after(e)) throw;
    } catch (const statement_error&) {
        if (!is_new) on_->note_error();
        throw;
    } catch (const connection_error& e) {
        bool not_run = on_->level() == 0 && dynamic_cast<const statement_not_run*>(&e) != nullptr;
        if (not_run) on_->release();
        else if (!is_new) on_->note_loss();
        // A transaction that is lost is rolled back.
        if (what_ == kind::rollback && outermost_) return go_to(stage::end);
        bool again = not_run && --connections_left_ > 0;
        if (again && (task_ == nullptr || task_->restart())) return go_to(stage::check);
        if (!not_run && !is_new) on_->throw_if_relied_on(e, committing);
        if (!may_repeat(e)) throw;
        connections_left_ = connections;
        go_to(stage::check);
    }
}

/// A statement that took too long would do so again.
bool operation::may_repeat(const connection_error& e) {
    return idempotent_ && e.kind() != error_kind::timed_out && repeats_left_-- > 0;
}

/// Has these statements run before the next stage.
void operation::queue(statement_list list) {
    list_ = std::move(list);
    position_ = 0;
}

void operation::go_to(stage next) {
    stage_ = next;
    queue({});
    route_.reset();
}

void drive(operation& o) {
    for (need n = o.next(); n != need::nothing; n = o.next()) {
        try {
            switch (n) {
                case need::nothing: break;
                case need::connection:
                    o.take(o.acquire());
                    detail::lease_maker::hold_here(o.lease());
                    break;
                case need::read_only_session: set_read_only(*o.lease()); break;
                case need::statement: o.connection().execute_bound(o.text(), {}); break;
                case need::task: o.task().run(o.connection(), o.text(), o.values()); break;
            }
        } catch (...) {
            o.note_failure();
        }
    }
}

asio::awaitable<void> async_drive(operation* o) {
    for (need n = o->next(); n != need::nothing; n = o->next()) {
        try {
            if (n == need::connection) {
                connection_lease l = co_await o->async_acquire();
                o->take(std::move(l));
            } else if (n == need::read_only_session) {
                co_await async_set_read_only(o->lease().get());
            } else if (n == need::statement) {
                sql::bound_statement what(o->text(), {});
                co_await o->connection().async_execute_bound(std::move(what));
            } else {
                co_await o->task().async_run(&o->connection(), o->text(), o->values());
            }
        } catch (...) {
            o->note_failure();
        }
    }
}

}  // namespace cenote::database_detail
