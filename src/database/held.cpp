// Scopes and transactions: what is said to the server when, and what a lost connection means.
#include "database/held.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "database/placeholders.hpp"

namespace cenote::database_detail {

namespace {

std::string savepoint(std::size_t level) { return "cenote_" + std::to_string(level); }

/// Rows that keep what they come from.
class kept_rows final : public sql::detail::rows, public std::enable_shared_from_this<kept_rows> {
public:
    kept_rows(std::shared_ptr<held> from, sql::cursor begun) noexcept
        : from_(std::move(from)), rows_(std::move(begun)) {
        from_->note_rows();
    }
    ~kept_rows() override { end(false); }
    kept_rows(const kept_rows&) = delete;
    kept_rows& operator=(const kept_rows&) = delete;

    std::optional<sql::row> next() override {
        if (from_ == nullptr) return std::nullopt;
        try {
            std::optional<sql::row> one = rows_.next();
            if (!one) end(true);
            return one;
        } catch (const connection_error& e) {
            lose(e);
        } catch (const statement_error&) {
            fail();
            throw;
        }
    }
    asio::awaitable<std::optional<sql::row>> async_next() override {
        return async_next_of(shared_from_this());
    }

private:
    static asio::awaitable<std::optional<sql::row>> async_next_of(std::shared_ptr<kept_rows> of) {
        if (of->from_ == nullptr) co_return std::nullopt;
        try {
            std::optional<sql::row> one = co_await of->rows_.async_next();
            if (!one) of->end(true);
            co_return one;
        } catch (const connection_error& e) {
            of->lose(e);
        } catch (const statement_error&) {
            of->fail();
            throw;
        }
    }
    /// The rows go before what they come from.
    void end(bool well) noexcept {
        rows_ = sql::cursor();
        if (from_ != nullptr) from_->note_rows_ended(well);
        from_.reset();
    }
    void fail() noexcept {
        std::shared_ptr<held> from = from_;
        end(false);
        from->note_failed();
    }
    [[noreturn]] void lose(const connection_error& e) {
        std::shared_ptr<held> from = from_;
        end(false);
        from->lose(e);
    }

    std::shared_ptr<held> from_;
    sql::cursor rows_;
};

}  // namespace

// Statements.

sql::result held::execute(std::string_view text, std::span<const sql::parameter> values,
                          const caller& /*by*/) {
    placeholders said(from_->at().speaks(), text, values);
    for (int left = tries_if_not_run;;) {
        sql::connection& c = ready();
        try {
            sql::result r = c.execute_bound(said.text(), said.values());
            note_done();
            return r;
        } catch (const statement_not_run&) {
            go_elsewhere(left);
        } catch (const connection_error& e) {
            lose(e);
        } catch (const statement_error&) {
            note_failed();
            throw;
        }
    }
}

asio::awaitable<sql::result> held::async_execute(sql::bound_statement what, caller /*by*/) {
    return async_run(shared_from_this(), std::move(what));
}

asio::awaitable<sql::result> held::async_run(std::shared_ptr<held> on, sql::bound_statement what) {
    sql::bound_statement said = on->from_->translated(std::move(what));
    for (int left = tries_if_not_run;;) {
        co_await async_ready(on);
        sql::bound_statement once(said.text(), said.parameters());
        try {
            sql::result r = co_await on->link().async_execute_bound(std::move(once));
            on->note_done();
            co_return r;
        } catch (const statement_not_run&) {
            on->go_elsewhere(left);
        } catch (const connection_error& e) {
            on->lose(e);
        } catch (const statement_error&) {
            on->note_failed();
            throw;
        }
    }
}

sql::cursor held::stream(std::string_view text, std::span<const sql::parameter> values,
                         const caller& /*by*/) {
    placeholders said(from_->at().speaks(), text, values);
    for (int left = tries_if_not_run;;) {
        sql::connection& c = ready();
        try {
            return sql::cursor(std::make_shared<kept_rows>(
                shared_from_this(), c.stream_bound(said.text(), said.values())));
        } catch (const statement_not_run&) {
            go_elsewhere(left);
        } catch (const connection_error& e) {
            lose(e);
        } catch (const statement_error&) {
            note_failed();
            throw;
        }
    }
}

asio::awaitable<sql::cursor> held::async_stream(sql::bound_statement what, caller /*by*/) {
    return async_begin_rows(shared_from_this(), std::move(what));
}

asio::awaitable<sql::cursor> held::async_begin_rows(std::shared_ptr<held> on,
                                                    sql::bound_statement what) {
    sql::bound_statement said = on->from_->translated(std::move(what));
    for (int left = tries_if_not_run;;) {
        co_await async_ready(on);
        sql::bound_statement once(said.text(), said.parameters());
        try {
            sql::cursor rows = co_await on->link().async_stream_bound(std::move(once));
            co_return sql::cursor(std::make_shared<kept_rows>(on, std::move(rows)));
        } catch (const statement_not_run&) {
            on->go_elsewhere(left);
        } catch (const connection_error& e) {
            on->lose(e);
        } catch (const statement_error&) {
            on->note_failed();
            throw;
        }
    }
}

// The link.

/// A session may have been changed in ways that the server does not report.
void held::let_go() noexcept {
    bool unknown = is_session() && !from_->at().resets_in_full();
    if (unknown || due_ > 0) link_.mark_dirty();
    if (discards_) link_.discard_at_end();
    link_.give_back();
    due_ = 0;
    half_begun_ = false;
}

/// What follows was meant for the same session.
void held::note_loss() noexcept {
    let_go();
    if (use_ == use::session) session_lost_ = true;
    if (level() > 0) ended_ = ended_by::loss;
}

/// The first thing that was asked of the link was certainly not run: another one is as good.
/// Whoever calls this has caught that.
void held::go_elsewhere(int& tries_left) {
    let_go();
    if (--tries_left == 0) throw;
}

/// A link that has died meanwhile goes back as such. In a transaction that is a loss, also in one
/// that was begun in plain SQL: what follows is not to run on its own.
void held::look_at_link() {
    if (!has_link() || open_rows_ > 0 || from_->looks_well(**link_)) return;
    bool plain = level() == 0 && due_ == 0 && link().in_transaction();
    note_loss();
    if (plain)
        throw transaction_lost("cenote: the connection was lost in a transaction", "", false);
}

void held::take() {
    for (int left = tries_if_not_run;;) {
        if (is_for_reading()) {
            taken got = readers_->acquire_to_read(by_);
            from_ = std::move(got.from);
            link_ = std::move(got.link);
        } else {
            link_ = from_->acquire(by_);
        }
        detail::lease_maker::hold_here(link_);
        if (!session_only_reads()) return;
        try {
            return from_->at().only_read(**link_);
        } catch (const statement_not_run&) {
            go_elsewhere(left);
        } catch (...) {
            let_go();
            throw;
        }
    }
}

asio::awaitable<void> held::async_take(std::shared_ptr<held> on) {
    for (int left = tries_if_not_run;;) {
        if (on->is_for_reading()) {
            taken got = co_await places::async_acquire_to_read(on->readers_, on->by_);
            on->from_ = std::move(got.from);
            on->link_ = std::move(got.link);
        } else {
            borrowed got = co_await on->from_->async_acquire(on->by_);
            on->link_ = std::move(got);
        }
        if (!on->session_only_reads()) co_return;
        try {
            co_await on->from_->at().async_only_read(**on->link_);
            co_return;
        } catch (const statement_not_run&) {
            on->go_elsewhere(left);
        } catch (...) {
            on->let_go();
            throw;
        }
    }
}

sql::connection& held::ready() {
    look_at_link();
    check_state();
    refuse_open_rows();
    if (!has_link()) take();
    be_sure();
    check_state();
    if (due_ > 0) {
        say(due());
        note_none();
    }
    return link();
}

asio::awaitable<void> held::async_ready(std::shared_ptr<held> on) {
    on->look_at_link();
    on->check_state();
    on->refuse_open_rows();
    if (!on->has_link()) co_await async_take(on);
    co_await async_be_sure(on);
    on->check_state();
    if (on->due_ > 0) {
        words said = on->due();
        co_await async_say(on, std::move(said));
        on->note_none();
    }
}

/// Nothing may run on its own that was meant to be part of a transaction.
void held::check_state() const {
    if (level() == 0 && session_lost_)
        throw session_lost(
            error_kind::connection,
            "cenote: the connection of this scope was lost, and with it what was set "
            "in its session");
    if (level() == 0) return;
    if (ended_ == ended_by::loss)
        throw transaction_lost("cenote: the connection was lost in this transaction", "", false);
    if (ended_ == ended_by::error)
        throw transaction_lost(
            "cenote: an error in this transaction has made the server roll it back", "", false);
    if (ended_ == ended_by::statement)
        throw std::logic_error(
            "cenote: a statement has ended this transaction: what follows would not be part of it");
}

/// PostgreSQL and MariaDB are sending them and take no other statement. SQLite would: the rule is
/// the same for all servers, so that a program that works with one works with the others.
void held::refuse_open_rows() const {
    if (open_rows_ == 0) return;
    throw std::logic_error(
        "cenote: a cursor of this scope or transaction has rows left: read it to its end before "
        "the "
        "next statement, begin, commit or rollback");
}

held::words held::due() const {
    if (link().in_transaction()) return to_undo(due_);
    return half_begun_ ? from_->at().instead_of_begin(how_) : words{};
}

void held::lose(const connection_error& e, bool committing) {
    note_loss();
    if (level() == 0 && session_lost_)
        throw session_lost(e.kind(), std::string("cenote: lost in a scope: ") + e.what(),
                           e.sqlstate(), e.code());
    if (level() == 0) throw;  // whoever calls this has caught it
    throw transaction_lost(std::string("cenote: lost in a transaction: ") + e.what(), e.sqlstate(),
                           committing);
}

void held::say(const words& all) {
    try {
        for (const std::string& one : all) link().execute_bound(one, {});
    } catch (const statement_not_run&) {
        throw;  // it is the first thing that is asked, and may be asked elsewhere
    } catch (const connection_error& e) {
        lose(e);
    }
}

asio::awaitable<void> held::async_say(std::shared_ptr<held> on, words all) {
    try {
        for (const std::string& one : all) {
            sql::bound_statement said(one, {});
            co_await on->link().async_execute_bound(std::move(said));
        }
    } catch (const statement_not_run&) {
        throw;
    } catch (const connection_error& e) {
        on->lose(e);
    }
}

void held::note_done() noexcept {
    if (transaction_is_gone()) ended_ = ended_by::statement;
}

void held::note_failed() noexcept {
    doubtful_ = true;
    if (transaction_is_gone()) ended_ = ended_by::error;
}

/// As far as the link knows, which may have gone meanwhile: rows can outlast it.
bool held::transaction_is_gone() const noexcept {
    return level() > 0 && has_link() && !link().in_transaction();
}

void held::note_rows_ended(bool well) noexcept {
    --open_rows_;
    if (well && open_rows_ == 0) note_done();
}

void held::be_sure() {
    if (!doubtful_) return;
    if (level() > 0 && !is_over()) {
        say(from_->at().to_be_sure());
        if (!link().in_transaction()) ended_ = ended_by::error;
    }
    doubtful_ = false;
}

asio::awaitable<void> held::async_be_sure(std::shared_ptr<held> on) {
    if (!on->doubtful_) co_return;
    if (on->level() > 0 && !on->is_over()) {
        words said = on->from_->at().to_be_sure();
        co_await async_say(on, std::move(said));
        if (!on->link().in_transaction()) on->ended_ = ended_by::error;
    }
    on->doubtful_ = false;
}

/// Nothing is left that the server would have to be told of.
bool held::is_over() const noexcept {
    return ended_ != ended_by::nobody || !has_link() || link().broken();
}

// Transactions.

void held::check_begin() const {
    if (level() == 0) return;
    throw std::logic_error(
        "cenote: there is a transaction already; begin() of that one begins another within it");
}

/// A second one would fail, or end the first.
void held::check_plain() const {
    if (!link().in_transaction()) return;
    throw std::logic_error("cenote: there is a transaction already, begun in plain SQL");
}

void held::check_innermost(transaction_id which) const {
    if (!open_.empty() && open_.back() == which) return;
    throw std::logic_error(
        "cenote: a transaction within this one has not ended, or the one around it has");
}

/// What is said to begin one. Until all of it has been, it has to be undone.
held::words held::to_begin(const transaction_options& how) {
    check_plain();
    due_ = 1;
    half_begun_ = true;
    how_ = how;
    if (is_for_reading()) how_.read_only = true;
    if (how_.read_only) from_->at().note_only_reads(**link_, true);
    return from_->at().begin(how_);
}

transaction held::begin(const transaction_options& how) {
    check_begin();
    for (int left = tries_if_not_run;;) {
        ready();
        try {
            say(to_begin(how));
            return note_first_begun();
        } catch (const statement_not_run&) {
            go_elsewhere(left);
        }
    }
}

asio::awaitable<transaction> held::async_begin(std::shared_ptr<held> on, transaction_options how) {
    on->check_begin();
    for (int left = tries_if_not_run;;) {
        co_await async_ready(on);
        words said = on->to_begin(how);
        try {
            co_await async_say(on, std::move(said));
            co_return on->note_first_begun();
        } catch (const statement_not_run&) {
            on->go_elsewhere(left);
        }
    }
}

transaction held::note_first_begun() {
    due_ = 0;
    half_begun_ = false;
    doubtful_ = false;
    ended_ = ended_by::nobody;
    return note_begun();
}

transaction held::note_begun() {
    open_.push_back(++last_);
    return {shared_from_this(), last_};
}

transaction held::begin_in(transaction_id outer) {
    check_innermost(outer);
    ready();
    say({"SAVEPOINT " + savepoint(level() + 1)});
    return note_begun();
}

asio::awaitable<transaction> held::async_begin_in(std::shared_ptr<held> on, transaction_id outer) {
    on->check_innermost(outer);
    co_await async_ready(on);
    words said{"SAVEPOINT " + savepoint(on->level() + 1)};
    co_await async_say(on, std::move(said));
    co_return on->note_begun();
}

/// PostgreSQL takes the commit of a failed transaction for a rollback, and says nothing.
held::words held::to_commit() const {
    check_state();
    if (link().transaction_failed())
        throw statement_error(
            "cenote: a statement of this transaction has failed: it can only be rolled back",
            "25P02");
    if (level() > 1) return {"RELEASE SAVEPOINT " + savepoint(level())};
    return {"COMMIT"};
}

void held::note_committed() noexcept {
    open_.pop_back();
    if (level() == 0) note_none();
}

void held::note_none() noexcept {
    due_ = 0;
    half_begun_ = false;
    if (has_link() && level() == 0) from_->at().note_only_reads(**link_, session_only_reads());
}

void held::commit(transaction_id which) {
    check_innermost(which);
    ready();
    words said = to_commit();
    try {
        for (const std::string& one : said) link().execute_bound(one, {});
    } catch (const connection_error& e) {
        lose(e, level() == 1);
    } catch (const statement_error&) {
        note_failed();
        throw;
    }
    note_committed();
}

asio::awaitable<void> held::async_commit(std::shared_ptr<held> on, transaction_id which) {
    on->check_innermost(which);
    co_await async_ready(on);
    words said = on->to_commit();
    try {
        for (const std::string& one : said) {
            sql::bound_statement statement(one, {});
            co_await on->link().async_execute_bound(std::move(statement));
        }
    } catch (const connection_error& e) {
        on->lose(e, on->level() == 1);
    } catch (const statement_error&) {
        on->note_failed();
        throw;
    }
    on->note_committed();
}

held::words held::to_undo(std::size_t from) const {
    if (from > 1) return {"ROLLBACK TO " + savepoint(from), "RELEASE SAVEPOINT " + savepoint(from)};
    return {"ROLLBACK"};
}

/// The server hears of it before the next statement. Whatever is within it has ended, too.
void held::abandon(transaction_id which) noexcept {
    auto found = std::ranges::find(open_, which);
    if (found == open_.end()) return;
    std::size_t from = static_cast<std::size_t>(found - open_.begin()) + 1;
    open_.erase(found, open_.end());
    due_ = due_ == 0 ? from : std::min(due_, from);
    if (level() == 0) ended_ = ended_by::nobody;
}

/// What is lost, or ended otherwise, needs no word.
void held::rollback(transaction_id which) {
    check_innermost(which);
    refuse_open_rows();
    bool outermost = level() == 1;
    try {
        if (!outermost) be_sure();
        bool over = is_over();
        abandon(which);
        if (over) return;
        say(due());
        note_none();
    } catch (const connection_error&) {
        if (!outermost) throw;  // what is around it is lost, too
    }
}

asio::awaitable<void> held::async_rollback(std::shared_ptr<held> on, transaction_id which) {
    on->check_innermost(which);
    on->refuse_open_rows();
    bool outermost = on->level() == 1;
    try {
        if (!outermost) co_await async_be_sure(on);
        bool over = on->is_over();
        on->abandon(which);
        if (over) co_return;
        words said = on->due();
        co_await async_say(on, std::move(said));
        on->note_none();
    } catch (const connection_error&) {
        if (!outermost) throw;
    }
}

}  // namespace cenote::database_detail
