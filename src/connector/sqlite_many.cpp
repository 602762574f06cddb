// Many rows for one statement of SQLite, and batches: in a savepoint, chunk by chunk.
#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <sqlite3.h>
#include <tuple>
#include <utility>
#include <vector>

#include "cenote/sql_many.hpp"
#include "connector/sqlite_exchange.hpp"
#include "connector/sqlite_session.hpp"

namespace cenote::sqlite {

namespace detail {

void many_rows::note_refused() {
    if (first == nullptr) first = std::current_exception();
    failed.push_back(index);
    drop();
}

}  // namespace detail

namespace {

namespace asio = boost::asio;

using detail::async_exchanged;
using detail::many_rows;
using detail::session;
using sql::detail::value_source;

many_rows rows_for(const session& on, value_source* from, const sql::many_options& how) {
    many_rows all;
    all.from = from;
    all.chunk = std::max<std::size_t>(how.chunk, 1);
    all.atomic = how.atomic;
    all.within = on.in_transaction();
    return all;
}

/// Throws what became of the rows: `failure`, or that some were refused.
void conclude(const many_rows& rows, const std::exception_ptr& failure) {
    try {
        if (failure != nullptr) std::rethrow_exception(failure);
        if (rows.first != nullptr) std::rethrow_exception(rows.first);
    } catch (const sql::batch_error&) {
        throw;
    } catch (const statement_error& e) {
        if (rows.failed.empty()) throw sql::batch_error(e, rows.index);
        throw sql::batch_error(e, rows.failed.front(),
                               std::make_shared<const std::vector<std::size_t>>(rows.failed));
    }
}

/// What several exchanges need until their end: a statement, a savepoint. Undone unless kept, but
/// not while a work thread is still using the session.
class until_the_end {
public:
    explicit until_the_end(session& on) : on_(on) {}
    ~until_the_end() {
        if (!on_.condition().idle()) return;
        if (open) on_.undo_together();
        on_.end(prepared);
    }
    until_the_end(const until_the_end&) = delete;
    until_the_end& operator=(const until_the_end&) = delete;

    sql::statement prepared;
    bool open = false;

private:
    session& on_;
};

/// Copies of the rows of a chunk: the range belongs to the coroutine, not to a work thread.
class copied_rows final : public value_source {
public:
    /// False: there are no more rows.
    bool fill(value_source& from, std::size_t most) {
        rows_.clear();
        std::vector<sql::parameter> values;
        while (rows_.size() < most && !over_) {
            over_ = !from.next(values);
            if (over_) break;
            std::vector<sql::value>& row = rows_.emplace_back();
            row.reserve(values.size());
            for (const sql::parameter& each : values) row.push_back(sql::value::of(each));
        }
        at_ = 0;
        return !rows_.empty();
    }
    bool next(std::vector<sql::parameter>& values) override {
        if (at_ == rows_.size()) return false;
        values.clear();
        for (const sql::value& each : rows_[at_]) values.push_back(each.bound());
        ++at_;
        return true;
    }
    bool rewind() override { return false; }

private:
    std::vector<std::vector<sql::value>> rows_;
    std::size_t at_ = 0;
    bool over_ = false;  // the range
};

/// What the work thread uses.
struct shared_rows {
    copied_rows copies;
    many_rows rows;
    sql::statement prepared;
};

/// An exchange without a result.
template <class Do>
asio::awaitable<void> async_do(std::shared_ptr<session> on, Do what) {
    auto call = [what](session& s) {
        what(s);
        return true;
    };
    bool done = co_await async_exchanged(on, std::move(call));
    std::ignore = done;
}

/// Of a chunk, to its end: goes on after a row that got no lock, if each row is by itself.
asio::awaitable<void> async_chunk(std::shared_ptr<session> on, std::shared_ptr<shared_rows> all) {
    for (bool more = true; more;) {
        auto call = [all](session& s) { return s.perform_many(all->prepared, all->rows); };
        try {
            more = co_await async_exchanged(on, std::move(call));
        } catch (const statement_error& e) {
            if (all->rows.atomic || e.code() != session::locked) throw;
            all->rows.note_refused();
        }
    }
}

asio::awaitable<void> async_run(std::shared_ptr<session> on, std::shared_ptr<value_source> from,
                                std::shared_ptr<shared_rows> all, until_the_end* end) {
    if (all->rows.atomic) {
        co_await async_do(on, [](session& s) { s.begin_together(); });
        end->open = true;
    }
    do co_await async_chunk(on, all);
    while (!all->rows.over && all->copies.fill(*from, all->rows.chunk));
    if (all->rows.atomic) {
        co_await async_do(on, [](session& s) { s.commit_together(); });
        end->open = false;
    }
}

asio::awaitable<std::uint64_t> async_many(std::shared_ptr<session> on, std::string text,
                                          std::shared_ptr<value_source> from,
                                          sql::many_options how) {
    auto all = std::make_shared<shared_rows>();
    all->rows = rows_for(*on, &all->copies, how);
    if (!all->copies.fill(*from, all->rows.chunk)) co_return 0;
    until_the_end end(*on);
    all->prepared = co_await on->async_prepare(std::move(text));
    end.prepared = all->prepared;
    std::exception_ptr failure;
    try {
        co_await async_run(on, from, all, &end);
    } catch (...) {
        failure = std::current_exception();
    }
    conclude(all->rows, failure);
    co_return all->rows.affected;
}

}  // namespace

namespace detail {

bool session::perform_many(const sql::statement& prepared, many_rows& rows) {
    limit time(*this);
    const compiled& s = find(prepared);
    for (std::size_t done = 0; done < rows.chunk; ++done) {
        const auto before = std::chrono::steady_clock::now();
        if (!rows.pull()) return false;
        if (std::chrono::steady_clock::now() - before > sql::detail::slow_source) return true;
        try {
            perform_row(s, rows);
            rows.drop();
        } catch (const statement_error& e) {
            const bool tries_again = e.code() == locked && !waits_;
            const bool ended = (e.code() & 0xff) == SQLITE_INTERRUPT;
            if (rows.atomic || tries_again || ended) throw;
            rows.note_refused();
            // Some errors undo the whole transaction; then no further row must run outside of it.
            if (rows.within && !in_transaction()) {
                rows.over = true;
                return false;
            }
        }
    }
    return true;
}

void session::perform_row(const compiled& s, many_rows& rows) {
    rewind at_the_end{s.handle.get()};
    bind(s.handle.get(), rows.values, false);
    take_turn(s);
    const std::int64_t before = sqlite3_total_changes64(handle_);
    while (step(s.handle.get())) continue;
    note_opened(s, rows.values);
    if (sqlite3_total_changes64(handle_) != before)
        rows.affected += static_cast<std::uint64_t>(sqlite3_changes64(handle_));
}

void session::begin_together() {
    limit time(*this);
    set_up_lease();
    run("SAVEPOINT cenote_many");
}

void session::commit_together() {
    limit time(*this);
    run("RELEASE cenote_many");
}

/// An error may have undone the whole transaction already.
void session::undo_together() noexcept {
    stopped_.store(false, std::memory_order_relaxed);
    for (const char* each : {"ROLLBACK TO cenote_many", "RELEASE cenote_many"})
        sqlite3_exec(handle_, each, nullptr, nullptr, nullptr);
    end_turn();
}

// The operations of a connection.

std::uint64_t session::execute_many(std::string_view text, value_source& from,
                                    const sql::many_options& how) {
    many_rows rows = rows_for(*this, &from, how);
    if (!rows.pull()) return 0;
    until_the_end end(*this);
    end.prepared = prepare(text);
    std::exception_ptr failure;
    try {
        if (how.atomic) {
            exchanged(*this, [](session& s) { return s.begin_together(), true; });
            end.open = true;
        }
        while (exchanged(*this, [&](session& s) { return s.perform_many(end.prepared, rows); }))
            continue;
        if (how.atomic) {
            exchanged(*this, [](session& s) { return s.commit_together(), true; });
            end.open = false;
        }
    } catch (...) {
        failure = std::current_exception();
    }
    conclude(rows, failure);
    return rows.affected;
}

asio::awaitable<std::uint64_t> session::async_execute_many(std::string text,
                                                           std::shared_ptr<value_source> rows,
                                                           sql::many_options how) {
    return async_many(shared_from_this(), std::move(text), std::move(rows), how);
}

}  // namespace detail

// Batches.

namespace {

/// How far a batch has come.
struct progress {
    std::vector<sql::result> results;
    std::vector<std::size_t> failed;
    std::exception_ptr first;

    /// The exception that is being handled. False: the batch ends.
    bool note_refused(std::size_t index, const session& on, bool within, bool atomic) {
        if (first == nullptr) first = std::current_exception();
        failed.push_back(index);
        return !atomic && (!within || on.in_transaction());
    }
    void conclude() const {
        try {
            if (first != nullptr) std::rethrow_exception(first);
        } catch (const statement_error& e) {
            throw sql::batch_error(e, failed.front(),
                                   std::make_shared<const std::vector<std::size_t>>(failed));
        }
    }
};

asio::awaitable<std::vector<sql::result>> async_batch(std::shared_ptr<session> on,
                                                      std::shared_ptr<const sql::batch> all,
                                                      bool atomic) {
    until_the_end end(*on);
    progress now;
    const bool within = on->in_transaction();
    if (atomic) {
        co_await async_do(on, [](session& s) { s.begin_together(); });
        end.open = true;
    }
    for (std::size_t i = 0; i < all->size(); ++i) {
        const sql::bound_statement& each = all->statements()[i];
        sql::bound_statement copy(each.text(), each.parameters());
        try {
            sql::result r = co_await on->async_execute(std::move(copy));
            now.results.push_back(std::move(r));
        } catch (const statement_error&) {
            if (!now.note_refused(i, *on, within, atomic)) break;
        }
    }
    now.conclude();
    if (atomic) {
        co_await async_do(on, [](session& s) { s.commit_together(); });
        end.open = false;
    }
    co_return std::move(now.results);
}

}  // namespace

namespace detail {

std::vector<sql::result> session::execute_batch(std::span<const sql::bound_statement> all,
                                                const sql::many_options& how) {
    until_the_end end(*this);
    progress now;
    const bool within = in_transaction();
    if (how.atomic) {
        exchanged(*this, [](session& s) { return s.begin_together(), true; });
        end.open = true;
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
        try {
            now.results.push_back(execute(all[i].text(), all[i].parameters()));
        } catch (const statement_error&) {
            if (!now.note_refused(i, *this, within, how.atomic)) break;
        }
    }
    now.conclude();
    if (how.atomic) {
        exchanged(*this, [](session& s) { return s.commit_together(), true; });
        end.open = false;
    }
    return std::move(now.results);
}

asio::awaitable<std::vector<sql::result>> session::async_execute_batch(
    std::shared_ptr<const sql::batch> all, sql::many_options how) {
    return async_batch(shared_from_this(), std::move(all), how.atomic);
}

}  // namespace detail

}  // namespace cenote::sqlite
