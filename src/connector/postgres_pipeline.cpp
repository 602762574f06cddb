// Many rows for one statement, and batches of statements, in libpq's pipeline mode.
#include "connector/postgres_pipeline.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <utility>

namespace cenote::postgres {

namespace detail {

flight::flight(std::shared_ptr<session> with, const sql::many_options& how, bool drops_replies)
    : exchanging(std::move(with), origin::borrower),
      atomic_(how.atomic || exchanging::with().in_transaction()),
      drops_replies_(drops_replies),
      chunk_(std::max<std::size_t>(how.chunk, 1)),
      until_pause_(chunk_) {}

void flight::begin_with(std::size_t preamble) {
    preamble_ = sent_ = preamble;
    begin();
    begin_pipeline();
}

need flight::step() {
    if (ended()) return need::nothing;
    if (with().condition().broken()) fail();
    if (std::exchange(yields_, false)) return need::a_turn;
    const auto before = std::chrono::steady_clock::now();
    send_some();
    yields_ = std::chrono::steady_clock::now() - before > sql::detail::slow_source;
    flushing_ = !flush();
    if (!std::exchange(fresh_, false)) consume();
    read_some();
    if (ended()) return need::nothing;
    if (until_pause_ == 0 || yields_) {
        until_pause_ = chunk_;
        if (drops_replies_) read().restart();
        return need::nothing;
    }
    if (flushing_) return need::to_do_either;
    return all_sent_ ? need::to_read : need::a_turn;
}

void flight::send_some() {
    constexpr std::size_t overhead = 64;  // of the messages of one request
    for (std::size_t bytes = 0; bytes < connector_detail::max_bytes_per_step;) {
        if (all_sent_ || flushing_) return;
        if (failure_ && (atomic_ || !index_)) return end_sending();
        try {
            if (!pull()) return end_sending();
        } catch (...) {
            return refuse(std::current_exception());
        }
        std::size_t size = send();
        if (size == 0) fail();
        bytes += size + overhead;
        ++sent_;
        if (!atomic_) send_sync();
    }
}

void flight::send_sync() {
    if (PQpipelineSync(handle()) == 0) fail();
    ++syncs_;
}

/// The server must undo what it has executed, so it gets a statement that fails.
void flight::refuse(std::exception_ptr why) {
    thrown_ = std::move(why);
    if (atomic_) {
        constexpr const char* fails = "cenote: an exception has ended the rows";
        if (PQsendQueryParams(handle(), fails, 0, nullptr, nullptr, nullptr, nullptr, 0) == 0)
            fail();
        ++sent_;
    }
    end_sending();
}

void flight::end_sending() {
    all_sent_ = true;
    if (atomic_ || syncs_ == 0) send_sync();
}

void flight::read_some() {
    while (!ended() && awaits_reply() && PQisBusy(handle()) == 0)
        on_result(result_ptr(PQgetResult(handle())));
}

void flight::on_result(result_ptr r) {
    if (resets()) {
        if (on_reset_result(std::move(r))) with().drop_notifications();
        return;
    }
    if (r == nullptr) {
        if (PQstatus(handle()) != CONNECTION_OK) fail();
        if (std::exchange(sync_failed_, false)) return;
        if (answered_ == sent_) fail();
        ++answered_;
        if (until_pause_ > 0) --until_pause_;
        return;
    }
    switch (PQresultStatus(r.get())) {
        case PGRES_TUPLES_OK:
        case PGRES_COMMAND_OK:
        case PGRES_EMPTY_QUERY:
            if (answered_ < preamble_) break;
            // One statement always has the same tag.
            if (!std::exchange(noted_, drops_replies_)) note_changes(r.get(), false, false);
            on_reply(std::move(r));
            break;
        case PGRES_PIPELINE_ABORTED: break;
        case PGRES_PIPELINE_SYNC:
            ++syncs_answered_;
            sync_failed_ = false;
            if (all_sent_ && syncs_answered_ == syncs_) end();
            break;
        case PGRES_COPY_IN:
        case PGRES_COPY_OUT:
        case PGRES_COPY_BOTH:
            throw connection_error(error_kind::connection,
                                   "cenote: PostgreSQL: COPY takes copy_in or copy_out");
        default: note_failure(failure_in(r.get())); break;
    }
}

/// An error at the Sync is that of a constraint that was deferred until the commit: of the row in
/// front of it, or of any row.
std::optional<std::size_t> flight::index_of_reply() noexcept {
    if (answered_ < preamble_) return std::nullopt;
    const std::size_t index = answered_ - preamble_;
    sync_failed_ = atomic_ ? answered_ == sent_ : index > syncs_answered_;
    if (!sync_failed_) return index;
    return atomic_ ? std::nullopt : std::optional(index - 1);
}

void flight::note_failure(failure f) {
    const std::optional<std::size_t> index = index_of_reply();
    if (index && !atomic_) failed_.push_back(*index);
    if (failure_) return;
    note_changes(nullptr, true, f.in_function);
    index_ = index;
    failure_ = std::move(f);
}

void flight::end() {
    if (PQexitPipelineMode(handle()) == 0) fail();
    if (thrown_ != nullptr) {
        failure_.reset();
        conclude();
        std::rethrow_exception(thrown_);
    }
    try {
        conclude();
    } catch (const statement_error& e) {
        if (!index_) throw;
        if (failed_.empty()) throw sql::batch_error(e, *index_);
        throw sql::batch_error(
            e, *index_, std::make_shared<const std::vector<std::size_t>>(std::move(failed_)));
    }
}

// Many rows.

many_rows::many_rows(std::shared_ptr<session> with, std::string_view text,
                     sql::detail::value_source& rows, const sql::many_options& how)
    : flight(std::move(with), how, true), text_(text), rows_(rows) {
    refuse_zero_bytes(text, "statement");
}

/// A pooler may run each of several transactions on another connection of the server, without the
/// prepared statement.
bool many_rows::begin() {
    if (!pull()) return false;
    has_first_ = true;
    prepares_ = is_atomic() || with().direct().value_or(false);
    begin_with(prepares_ ? 1 : 0);
    note_text(text_);
    const int count = next_.count();
    if (prepares_ && PQsendPrepare(handle(), "", text_.c_str(), count, next_.types()) == 0) fail();
    return true;
}

bool many_rows::pull() {
    if (std::exchange(has_first_, false)) return true;
    if (!rows_.next(values_)) return false;
    next_.assign(values_);
    return true;
}

std::size_t many_rows::send() {
    const libpq_parameters& p = next_;
    int sent = prepares_ ? PQsendQueryPrepared(handle(), "", p.count(), p.values(), p.lengths(),
                                               p.formats(), 0)
                         : PQsendQueryParams(handle(), text_.c_str(), p.count(), p.types(),
                                             p.values(), p.lengths(), p.formats(), 0);
    return sent == 0 ? 0 : p.size() + (prepares_ ? 1 : text_.size() + 1);
}

void many_rows::on_reply(result_ptr reply) {
    std::string_view tag = PQcmdStatus(reply.get());
    if (tag.starts_with("SELECT")) return;
    std::string_view count = PQcmdTuples(reply.get());
    std::uint64_t rows = 0;
    std::from_chars(count.data(), count.data() + count.size(), rows);
    affected_ += rows;
}

// Statements.

statement_list::statement_list(std::shared_ptr<session> with,
                               std::span<const sql::bound_statement> all,
                               const sql::many_options& how)
    : flight(std::move(with), how, false), left_(all) {
    for (const sql::bound_statement& each : all) refuse_zero_bytes(each.text(), "statement");
}

void statement_list::begin() {
    begin_with(0);
    for (const sql::bound_statement& each : left_) note_text(each.text());
}

bool statement_list::pull() {
    if (left_.empty()) return false;
    next_.assign(left_.front().parameters());
    return true;
}

std::size_t statement_list::send() {
    const std::string& text = left_.front().text();
    const libpq_parameters& p = next_;
    left_ = left_.subspan(1);
    int sent = PQsendQueryParams(handle(), text.c_str(), p.count(), p.types(), p.values(),
                                 p.lengths(), p.formats(), 0);
    return sent == 0 ? 0 : text.size() + p.size() + 1;
}

}  // namespace detail

// The operations of a connection.

namespace {

namespace asio = boost::asio;

using connector_detail::awaited;
using connector_detail::blocking;
using connector_detail::instant;
using connector_detail::result_in;
using detail::session;
using sql::detail::value_source;

/// The role and the settings of the lease go alone, with the pending reset.
template <class Mode>
result_in<Mode, void> set_up(std::shared_ptr<session> on) {
    if (!on->setup_pending()) co_return;
    detail::conversation first(on, detail::conversation::origin::connector);
    first.set_up();
    co_await Mode::drive(first, on->deadline());
}

template <class Mode, class Text, class Rows>
result_in<Mode, std::uint64_t> execute_many(std::shared_ptr<session> on, Text text, Rows rows,
                                            sql::many_options how) {
    on->opened().refuse("execute_many()");
    co_await set_up<Mode>(on);
    detail::many_rows all(on, text, *rows, how);
    if (!all.begin()) co_return 0;
    while (!all.ended()) co_await Mode::drive(all, on->deadline());
    co_return all.affected();
}

using statement_span = std::span<const sql::bound_statement>;

statement_span statements_of(statement_span all) { return all; }
statement_span statements_of(const std::shared_ptr<const sql::batch>& of) {
    return of->statements();
}

template <class Mode, class Batch>
result_in<Mode, std::vector<sql::result>> execute_batch(std::shared_ptr<session> on, Batch what,
                                                        sql::many_options how) {
    on->opened().refuse("a batch");
    std::vector<sql::result> results;
    const statement_span statements = statements_of(what);
    if (statements.empty()) co_return results;
    co_await set_up<Mode>(on);
    detail::statement_list all(on, statements, how);
    all.begin();
    while (!all.ended()) co_await Mode::drive(all, on->deadline());
    for (const detail::result_ptr& each : all.replies()) {
        connector_detail::result_sink to;
        detail::conversion rows(*on, each.get(), to);
        co_await Mode::drive(rows, instant::max());
        results.push_back(to.take());
    }
    co_return results;
}

}  // namespace

std::uint64_t session::execute_many(std::string_view text, value_source& rows,
                                    const sql::many_options& how) {
    return postgres::execute_many<blocking>(shared_from_this(), text, &rows, how).get();
}

asio::awaitable<std::uint64_t> session::async_execute_many(std::string text,
                                                           std::shared_ptr<value_source> rows,
                                                           sql::many_options how) {
    return postgres::execute_many<awaited>(shared_from_this(), std::move(text), std::move(rows),
                                           how);
}

std::vector<sql::result> session::execute_batch(std::span<const sql::bound_statement> all,
                                                const sql::many_options& how) {
    return postgres::execute_batch<blocking>(shared_from_this(), all, how).get();
}

asio::awaitable<std::vector<sql::result>> session::async_execute_batch(
    std::shared_ptr<const sql::batch> all, sql::many_options how) {
    return postgres::execute_batch<awaited>(shared_from_this(), std::move(all), how);
}

}  // namespace cenote::postgres
