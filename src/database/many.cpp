// Many statements at once: rows for one statement, batches, and COPY.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cenote/sql_many.hpp"
#include "database/operation.hpp"
#include "database/placeholders.hpp"
#include "database/scope_connection.hpp"

namespace cenote::database_detail {

namespace {

using sql::detail::copy_reader;
using sql::detail::copy_writer;
using sql::detail::value_source;
/// These tasks have texts and values of their own.
using no_values = std::span<const sql::parameter>;

/// A statement for many rows in the dialect of a server, and the rows with their values in the
/// order of its placeholders.
class translated_rows final : public value_source {
public:
    /// Reads the first row. Throws std::invalid_argument if its number of values does not match.
    translated_rows(const scope_connection& on, std::string_view text, value_source& from)
        : from_(from) {
        has_first_ = from.next(values_);
        if (!has_first_) return;
        count_ = values_.size();
        // The translation is that of a statement whose values are their own numbers.
        std::vector<sql::parameter> numbers;
        numbers.reserve(count_);
        for (std::size_t i = 0; i < count_; ++i) numbers.emplace_back(i);
        placeholders translated(on.dialect(), text, numbers);
        text_ = translated.text();
        text_ += on.comment();
        if (translated.values().data() == numbers.data()) return;
        for (const sql::parameter& each : translated.values())
            order_.push_back(static_cast<std::size_t>(std::get<std::int64_t>(each.get())));
        reordered_ = true;
    }

    bool empty() const noexcept { return !has_first_; }
    const std::string& text() const noexcept { return text_; }

    bool next(std::vector<sql::parameter>& values) override {
        if (!std::exchange(has_first_, false) && !from_.next(values_)) return false;
        if (values_.size() != count_)
            throw sql::batch_error(
                statement_error("cenote: the first row has " + std::to_string(count_) +
                                " values, and this one has " + std::to_string(values_.size())),
                index_);
        ++index_;
        values.clear();
        if (!reordered_) values.assign(values_.begin(), values_.end());
        for (std::size_t each : order_) values.push_back(values_[each]);
        return true;
    }
    bool rewind() override {
        if (has_first_) return true;
        index_ = 0;
        return from_.rewind();
    }

private:
    value_source& from_;
    std::string text_;
    std::vector<sql::parameter> values_;
    bool has_first_ = false;
    std::size_t count_ = 0;
    std::size_t index_ = 0;
    bool reordered_ = false;
    std::vector<std::size_t> order_;
};

class many_work final : public task {
public:
    many_work(const scope_connection& on, std::string_view text, value_source& from,
              const sql::many_options& how)
        : rows_(std::make_shared<translated_rows>(on, text, from)), how_(how) {}

    bool empty() const noexcept { return rows_->empty(); }
    std::uint64_t affected() const noexcept { return affected_; }

    void run(sql::connection& on, std::string_view, no_values) override {
        affected_ = on.execute_many_of(rows_->text(), *rows_, how_);
    }
    asio::awaitable<void> async_run(sql::connection* on, std::string_view, no_values) override {
        affected_ = co_await on->async_execute_many_of(rows_->text(), rows_, how_);
    }
    bool restart() override { return rows_->rewind(); }

private:
    std::shared_ptr<translated_rows> rows_;
    sql::many_options how_;
    std::uint64_t affected_ = 0;
};

class batch_work final : public task {
public:
    batch_work(const scope_connection& on, const sql::batch& all, const sql::many_options& how)
        : how_(how) {
        for (const sql::bound_statement& each : all.statements()) {
            placeholders translated(on.dialect(), each.text(), each.parameters());
            std::string text = std::string(translated.text()) + on.comment();
            batch_.add_bound(sql::bound_statement(text, translated.values()));
        }
    }

    std::vector<sql::result> results() { return std::move(results_); }

    void run(sql::connection& on, std::string_view, no_values) override {
        results_ = on.execute(batch_, how_);
    }
    asio::awaitable<void> async_run(sql::connection* on, std::string_view, no_values) override {
        results_ = co_await on->async_execute(batch_, how_);
    }

private:
    sql::batch batch_;
    sql::many_options how_;
    std::vector<sql::result> results_;
};

/// `Copy`: sql::copy_in or sql::copy_out.
template <class Copy>
class copy_work final : public task {
public:
    copy_work(const scope_connection& on, std::string_view text)
        : text_(std::string(text) + on.comment()) {}

    Copy copy() { return std::move(copy_); }

    void run(sql::connection& on, std::string_view, no_values) override {
        if constexpr (is_in) copy_ = on.copy_in(text_);
        else copy_ = on.copy_out(text_);
    }
    asio::awaitable<void> async_run(sql::connection* on, std::string_view, no_values) override {
        if constexpr (is_in) copy_ = co_await on->async_copy_in(text_);
        else copy_ = co_await on->async_copy_out(text_);
    }
    bool completes_statement() const noexcept override { return false; }

private:
    static constexpr bool is_in = std::is_same_v<Copy, sql::copy_in>;

    std::string text_;
    Copy copy_;
};

/// A COPY that keeps its connection.
class kept_writer final : public copy_writer, public std::enable_shared_from_this<kept_writer> {
public:
    kept_writer(std::shared_ptr<scope_connection> on, const sql::copy_in& begun)
        : use_(std::move(on)), writer_(begun.writer()), binary_(writer_->is_binary()) {}
    kept_writer(const kept_writer&) = delete;
    kept_writer& operator=(const kept_writer&) = delete;
    ~kept_writer() override = default;

    void flush() override {
        hand_over();
        try {
            writer_->flush();
        } catch (...) {
            fail();
        }
    }
    asio::awaitable<void> async_flush() override { return flush_of(shared_from_this()); }
    std::uint64_t finish() override {
        hand_over();
        try {
            return note_end(writer_->finish());
        } catch (...) {
            fail();
        }
    }
    asio::awaitable<std::uint64_t> async_finish() override { return finish_of(shared_from_this()); }
    bool is_binary() const override { return binary_; }

private:
    static asio::awaitable<void> flush_of(std::shared_ptr<kept_writer> of) {
        of->hand_over();
        try {
            co_await of->writer_->async_flush();
        } catch (...) {
            of->fail();
        }
    }
    static asio::awaitable<std::uint64_t> finish_of(std::shared_ptr<kept_writer> of) {
        of->hand_over();
        try {
            std::uint64_t rows = co_await of->writer_->async_finish();
            co_return of->note_end(rows);
        } catch (...) {
            of->fail();
        }
    }
    void hand_over() {
        if (use_.over()) throw std::logic_error("cenote: this COPY has ended");
        writer_->collected.swap(collected);
        collected.clear();
    }
    std::uint64_t note_end(std::uint64_t rows) noexcept {
        writer_.reset();
        use_.end();
        return rows;
    }
    [[noreturn]] void fail() {
        writer_.reset();
        use_.fail();
    }

    kept_use use_;
    std::shared_ptr<copy_writer> writer_;
    bool binary_;
};

class kept_reader final : public copy_reader, public std::enable_shared_from_this<kept_reader> {
public:
    kept_reader(std::shared_ptr<scope_connection> on, sql::copy_out begun)
        : use_(std::move(on)), from_(std::move(begun)) {}
    kept_reader(const kept_reader&) = delete;
    kept_reader& operator=(const kept_reader&) = delete;
    ~kept_reader() override = default;

    std::optional<std::string_view> next() override {
        if (use_.over()) return std::nullopt;
        try {
            return note(from_.next());
        } catch (...) {
            fail();
        }
    }
    asio::awaitable<std::optional<std::string_view>> async_next() override {
        return next_of(shared_from_this());
    }

private:
    using piece = std::optional<std::string_view>;

    static asio::awaitable<piece> next_of(std::shared_ptr<kept_reader> of) {
        if (of->use_.over()) co_return std::nullopt;
        try {
            piece got = co_await of->from_.async_next();
            co_return of->note(got);
        } catch (...) {
            of->fail();
        }
    }
    piece note(piece got) noexcept {
        if (got) return got;
        from_ = sql::copy_out();
        use_.end();
        return got;
    }
    [[noreturn]] void fail() {
        from_ = sql::copy_out();
        use_.fail();
    }

    kept_use use_;
    sql::copy_out from_;
};

}  // namespace

std::uint64_t executor::execute_many(std::string_view text, value_source& rows,
                                     const sql::many_options& how, const call& as) {
    std::shared_ptr<scope_connection> on = connection(as);
    many_work work(*on, text, rows, how);
    if (work.empty()) return 0;
    operation o(std::move(on), work, {}, {}, false);
    drive(o);
    return work.affected();
}

asio::awaitable<std::uint64_t> executor::async_execute_many(std::shared_ptr<executor> by,
                                                            std::string text,
                                                            std::shared_ptr<value_source> rows,
                                                            sql::many_options how, call as) {
    std::shared_ptr<scope_connection> on = by->connection(as);
    many_work work(*on, text, *rows, how);
    if (work.empty()) co_return 0;
    operation o(std::move(on), work, {}, {}, false);
    co_await async_drive(&o);
    co_return work.affected();
}

std::vector<sql::result> executor::execute_batch(const sql::batch& all,
                                                 const sql::many_options& how, const call& as) {
    if (all.empty()) return {};
    std::shared_ptr<scope_connection> on = connection(as);
    batch_work work(*on, all, how);
    operation o(std::move(on), work, {}, {}, false);
    drive(o);
    return work.results();
}

asio::awaitable<std::vector<sql::result>> executor::async_execute_batch(
    std::shared_ptr<executor> by, sql::batch all, sql::many_options how, call as) {
    if (all.empty()) co_return std::vector<sql::result>();
    std::shared_ptr<scope_connection> on = by->connection(as);
    batch_work work(*on, all, how);
    operation o(std::move(on), work, {}, {}, false);
    co_await async_drive(&o);
    co_return work.results();
}

sql::copy_in executor::copy_in(std::string_view text, const call& as) {
    std::shared_ptr<scope_connection> on = connection(as);
    copy_work<sql::copy_in> work(*on, text);
    operation o(std::move(on), work, {}, {}, false);
    drive(o);
    return sql::copy_in(std::make_shared<kept_writer>(o.on(), work.copy()));
}

asio::awaitable<sql::copy_in> executor::async_copy_in(std::shared_ptr<executor> by,
                                                      std::string text, call as) {
    std::shared_ptr<scope_connection> on = by->connection(as);
    copy_work<sql::copy_in> work(*on, text);
    operation o(std::move(on), work, {}, {}, false);
    co_await async_drive(&o);
    co_return sql::copy_in(std::make_shared<kept_writer>(o.on(), work.copy()));
}

sql::copy_out executor::copy_out(std::string_view text, const call& as) {
    std::shared_ptr<scope_connection> on = connection(as);
    copy_work<sql::copy_out> work(*on, text);
    operation o(std::move(on), work, {}, {}, false);
    drive(o);
    return sql::copy_out(std::make_shared<kept_reader>(o.on(), work.copy()));
}

asio::awaitable<sql::copy_out> executor::async_copy_out(std::shared_ptr<executor> by,
                                                        std::string text, call as) {
    std::shared_ptr<scope_connection> on = by->connection(as);
    copy_work<sql::copy_out> work(*on, text);
    operation o(std::move(on), work, {}, {}, false);
    co_await async_drive(&o);
    co_return sql::copy_out(std::make_shared<kept_reader>(o.on(), work.copy()));
}

}  // namespace cenote::database_detail
