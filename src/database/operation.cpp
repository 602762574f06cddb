// The steps of an operation, and the thread or coroutine that takes them.
#include "database/operation.hpp"

#include <utility>

#include "cenote/error.hpp"
#include "cenote/server_error.hpp"

namespace cenote::database_detail {

step operation::next() {
    while (position_ == list_.size()) {
        list_.clear();
        position_ = 0;
        if (std::optional<step> s = advance()) return *s;
    }
    return {step::kind::execute, list_[position_++], {}};
}

/// Passes through one stage. Empty: that needs nothing, or the statements of `list_`.
std::optional<step> operation::advance() {
    switch (stage_) {
        case stage::check: stage_ = check(); break;
        case stage::connect:
            if (!on_->has_connection()) {
                if (!route_) route_.emplace(on_->find_route());
                return step{step::kind::acquire};
            }
            if (std::exchange(on_->must_set_read_only_, false))
                return step{step::kind::set_read_only};
            stage_ = stage::verify;
            break;
        case stage::verify:
            list_ = on_->statements_to_verify();
            stage_ = stage::note_verified;
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
            list_ = on_->statements_to_undo();
            stage_ = stage::run;
            break;
        case stage::run:
            on_->note_undone();
            stage_ = stage::finish;
            return run();
        case stage::finish:
            finish();
            stage_ = stage::end;
            break;
        case stage::end: return step{};
    }
    return std::nullopt;
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
std::optional<step> operation::run() {
    switch (what_) {
        case kind::execute:
            return step{step::kind::execute, statement_->text(), statement_->values()};
        case kind::stream:
            return step{step::kind::stream, statement_->text(), statement_->values()};
        case kind::begin: list_ = on_->statements_to_begin(how_); break;
        case kind::nest: list_ = on_->statements_to_nest(); break;
        case kind::commit: list_ = on_->statements_to_commit(); break;
        case kind::rollback: break;  // undone already
    }
    return std::nullopt;
}

void operation::finish() {
    switch (what_) {
        case kind::execute: on_->note_success(); break;
        case kind::begin: which_ = on_->note_begun(); break;
        case kind::nest: which_ = on_->note_nested(); break;
        case kind::commit: on_->note_committed(); break;
        case kind::stream:
        case kind::rollback: break;
    }
}

void operation::take(connection_lease l) {
    on_->take(std::move(l), route_->pool());
    route_.reset();
}

void operation::note_failure() {
    bool is_new = stage_ == stage::connect;  // the connection has not served this scope yet
    bool committing = what_ == kind::commit && outermost_ && stage_ == stage::finish;
    if (is_new) on_->release();
    try {
        throw;
    } catch (const pool_error& e) {
        if (!is_new || !route_->go_on_after(e)) throw;
    } catch (const statement_error&) {
        if (!is_new) on_->note_error();
        throw;
    } catch (const connection_error& e) {
        bool not_run = on_->level() == 0 && dynamic_cast<const statement_not_run*>(&e) != nullptr;
        if (not_run) on_->release();
        else if (!is_new) on_->note_loss();
        // A transaction that is lost is rolled back.
        if (what_ == kind::rollback && outermost_) return go_to(stage::end);
        if (not_run && --connections_left_ > 0) return go_to(stage::check);
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

void operation::go_to(stage next) {
    stage_ = next;
    list_.clear();
    position_ = 0;
    route_.reset();
}

void drive(operation& o) {
    for (step s = o.next(); s.what != step::kind::none; s = o.next()) {
        try {
            switch (s.what) {
                case step::kind::acquire:
                    o.take(o.acquire());
                    detail::lease_maker::hold_here(o.lease());
                    break;
                case step::kind::set_read_only: set_read_only(*o.lease()); break;
                case step::kind::execute:
                    o.take(o.connection().execute_bound(s.text, s.values));
                    break;
                case step::kind::stream:
                    o.take(o.connection().stream_bound(s.text, s.values));
                    break;
                case step::kind::none: break;
            }
        } catch (...) {
            o.note_failure();
        }
    }
}

asio::awaitable<void> async_drive(operation* o) {
    for (step s = o->next(); s.what != step::kind::none; s = o->next()) {
        try {
            if (s.what == step::kind::acquire) {
                connection_lease l = co_await o->async_acquire();
                o->take(std::move(l));
            } else if (s.what == step::kind::set_read_only) {
                co_await async_set_read_only(o->lease().get());
            } else if (s.what == step::kind::execute) {
                sql::bound_statement statement(s.text, s.values);
                sql::result r = co_await o->connection().async_execute_bound(std::move(statement));
                o->take(std::move(r));
            } else {
                sql::bound_statement statement(s.text, s.values);
                sql::cursor rows =
                    co_await o->connection().async_stream_bound(std::move(statement));
                o->take(std::move(rows));
            }
        } catch (...) {
            o->note_failure();
        }
    }
}

}  // namespace cenote::database_detail
