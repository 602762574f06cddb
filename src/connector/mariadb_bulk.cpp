// Many rows for one statement of MariaDB: bulk execution, and the index of a row that the server
// refuses.
#include "connector/mariadb_bulk.hpp"

#include <algorithm>
#include <charconv>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "connector/mariadb_converse.hpp"

namespace cenote::mariadb {

namespace detail {

// Values.

void bulk_rows::column::clear() {
    type = 0;
    indicators.clear();
    bools.clear();
    numbers.clear();
    reals.clear();
    offsets.clear();
    lengths.clear();
}

MYSQL_BIND bulk_rows::column::place(std::size_t first) {
    MYSQL_BIND b{};
    b.u.indicator = indicators.data() + first;
    switch (type) {
        case 1:
            b.buffer_type = MYSQL_TYPE_TINY;
            b.buffer = bools.data() + first;
            break;
        case 2:
            b.buffer_type = MYSQL_TYPE_LONGLONG;
            b.buffer = numbers.data() + first;
            break;
        case 3:
            b.buffer_type = MYSQL_TYPE_DOUBLE;
            b.buffer = reals.data() + first;
            break;
        default:
            b.buffer_type = type == 5 ? MYSQL_TYPE_BLOB : MYSQL_TYPE_STRING;
            b.buffer = static_cast<void*>(texts.data() + first);
            b.length = lengths.data() + first;
            break;
    }
    return b;
}

/// Adds a value to its column; what it leaves out is filled up.
struct bulk_rows::adder {
    column* to;
    std::string* texts;

    void operator()(std::monostate) const {}
    void operator()(bool b) const { put(to->bools, static_cast<signed char>(b)); }
    void operator()(std::int64_t i) const { put(to->numbers, i); }
    void operator()(double d) const { put(to->reals, d); }
    void operator()(std::string_view text) const { add(text.data(), text.size()); }
    void operator()(std::span<const std::byte> octets) const {
        add(reinterpret_cast<const char*>(octets.data()), octets.size());
    }
    /// The session is in UTC; a text of MariaDB has no offset.
    void operator()(sql::detail::sys_microseconds time) const {
        (*this)(sql::detail::local_microseconds(time.time_since_epoch()));
    }
    void operator()(const sql::detail::array_view&) const {}  // refused before
    void operator()(const auto& date_or_id) const {
        sql::detail::text_buffer buffer{};
        (*this)(sql::detail::text_of(date_or_id, buffer));
    }

private:
    template <class T>
    void put(std::vector<T>& all, T one) const {
        all.resize(to->indicators.size());
        all.back() = one;
    }
    void add(const char* text, std::size_t size) const {
        put(to->offsets, texts->size());
        put(to->lengths, static_cast<unsigned long>(size));
        if (size > 0) texts->append(text, size);
    }
};

bulk_rows::bulk_rows(sql::detail::value_source& from, std::size_t chunk, bool utc)
    : from_(from), chunk_(std::max<std::size_t>(chunk, 1)), utc_(utc) {}

bool bulk_rows::pull() {
    if (has_row_) return true;
    if (over_) return false;
    has_row_ = from_.next(values_);
    over_ = !has_row_;
    if (has_row_) refuse_parameters(values_, utc_);
    return has_row_;
}

void bulk_rows::drop() noexcept {
    has_row_ = false;
    ++index_;
}

/// Whether the row has the types of the rows before it.
bool bulk_rows::fits() const noexcept {
    if (values_.size() != columns_.size()) return false;
    for (std::size_t i = 0; i < values_.size(); ++i) {
        std::size_t type = values_[i].get().index();
        if (type != 0 && columns_[i].type != 0 && columns_[i].type != type) return false;
    }
    return true;
}

void bulk_rows::add() {
    const std::size_t before = texts_.size();
    for (std::size_t i = 0; i < values_.size(); ++i) {
        const sql::parameter::data& value = values_[i].get();
        column& to = columns_[i];
        if (value.index() != 0) to.type = value.index();
        to.indicators.push_back(value.index() == 0 ? STMT_INDICATOR_NULL : STMT_INDICATOR_NONE);
        std::visit(adder{&to, &texts_}, value);
    }
    ++size_;
    bytes_ += texts_.size() - before + values_.size() * sizeof(std::int64_t);
    drop();
}

void bulk_rows::collect(std::size_t columns) {
    columns_.resize(columns);
    for (column& each : columns_) each.clear();
    texts_.clear();
    size_ = bytes_ = 0;
    if (values_.size() != columns)
        throw sql::batch_error(statement_error("cenote: MariaDB: the statement has " +
                                               std::to_string(columns) + " parameters, but " +
                                               std::to_string(values_.size()) +
                                               " values were bound"),
                               index_);
    do add();
    while (size_ < chunk_ && bytes_ < max_bytes && pull() && fits());
    for (column& each : columns_) {
        if (each.type == 0 || each.type > 3) {
            each.offsets.resize(size_);
            each.lengths.resize(size_);
            each.texts.resize(size_);
            for (std::size_t i = 0; i < size_; ++i) each.texts[i] = texts_.data() + each.offsets[i];
        }
        if (each.type == 1) each.bools.resize(size_);
        if (each.type == 2) each.numbers.resize(size_);
        if (each.type == 3) each.reals.resize(size_);
    }
}

void bulk_rows::bind(MYSQL_STMT* to, std::size_t first, std::size_t last) {
    places_.clear();
    for (column& each : columns_) places_.push_back(each.place(first));
    unsigned count = static_cast<unsigned>(last - first);
    mysql_stmt_attr_set(to, STMT_ATTR_ARRAY_SIZE, &count);
    if (mysql_stmt_bind_param(to, places_.data()) != 0) throw std::bad_alloc();
}

namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

/// Not with several rows in the text, nor with the rows of a query.
bool inserts_row_by_row(std::string_view text) noexcept {
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    const std::string_view first = text.substr(0, text.find_first_of(" \t\r\n"));
    if (!mentions(first, "insert") && !mentions(first, "replace")) return false;
    if (mentions(text, "select") || !mentions(text, "value")) return false;
    for (std::size_t at = text.find(')'); at != text.npos; at = text.find(')', at + 1)) {
        std::size_t next = at + 1;
        while (next < text.size() && is_space(text[next])) ++next;
        if (next == text.size() || text[next] != ',') continue;
        for (++next; next < text.size() && is_space(text[next]);) ++next;
        if (next < text.size() && text[next] == '(') return false;
    }
    return true;
}

}  // namespace detail

namespace {

namespace asio = boost::asio;

using connector_detail::awaited;
using connector_detail::blocking;
using connector_detail::result_in;
using detail::ask;
using detail::bulk_rows;
using detail::converse;
using detail::executing;
using detail::prepared;
using detail::session;
using detail::together;
using sql::detail::value_source;

/// The statement is not in bulk mode any longer than it has to be.
class bulk_mode {
public:
    explicit bulk_mode(prepared& of) : of_(of) {}
    ~bulk_mode() {
        unsigned off = 0;
        mysql_stmt_attr_set(of_.handle(), STMT_ATTR_ARRAY_SIZE, &off);
    }
    bulk_mode(const bulk_mode&) = delete;
    bulk_mode& operator=(const bulk_mode&) = delete;

private:
    prepared& of_;
};

/// One run of execute_many.
template <class Mode>
class many {
public:
    many(std::shared_ptr<session> on, std::string_view text, value_source& rows,
         const sql::many_options& how)
        : on_(std::move(on)), text_(text), how_(how), rows_(rows, how.chunk, on_->in_utc()) {}

    result_in<Mode, std::uint64_t> run() {
        on_->opened().refuse("execute_many()");
        if (!rows_.pull()) co_return 0;
        co_await detail::set_up_if_pending<Mode>(on_.get());
        if (on_->must_clear_found_rows(text_)) co_await detail::clear_found_rows<Mode>(on_.get());
        executing first(*on_, text_, {}, executing::extent::prepare);
        co_await converse<Mode>(on_.get(), &first, on_->deadline());
        what_ = on_->latest().get();
        if (how_.atomic) co_await run_together();
        else co_await run_apart();
        co_return affected_;
    }

private:
    result_in<Mode, void> run_together() {
        together<Mode> all(*on_);
        co_await all.begin();
        std::exception_ptr failure;
        try {
            if (on_->has_bulk() && columns() > 0) co_await run_in_bulk();
            else co_await run_one_by_one();
        } catch (...) {
            failure = std::current_exception();
        }
        if (failure == nullptr) {
            co_await all.commit();
            co_return;
        }
        if (on_->condition().idle()) co_await all.undo();
        std::rethrow_exception(failure);
    }

    result_in<Mode, void> run_one_by_one() {
        while (rows_.pull()) {
            std::exception_ptr failure = co_await run_row();
            if (failure != nullptr) raise(failure, rows_.index());
            rows_.drop();
        }
    }

    /// Each row by itself. In a transaction the server may end that with an error; then no further
    /// row must run outside of it.
    result_in<Mode, void> run_apart() {
        const bool within = on_->in_transaction();
        auto failed = std::make_shared<std::vector<std::size_t>>();
        std::exception_ptr first;
        for (bool lost = false; !lost && rows_.pull(); rows_.drop()) {
            std::exception_ptr failure = co_await run_row();
            if (failure == nullptr) continue;
            if (first == nullptr) first = failure;
            failed->push_back(rows_.index());
            if (!within) continue;
            co_await ask<Mode>(on_.get(), "DO 0");
            lost = !on_->in_transaction();
        }
        if (first == nullptr) co_return;
        const std::size_t index = failed->front();
        raise(first, index, std::move(failed));
    }

    /// Null, or why the server has refused the row.
    result_in<Mode, std::exception_ptr> run_row() {
        try {
            connector_detail::result_sink to;
            executing one(*on_, *what_, rows_.values(), &to);
            co_await converse<Mode>(on_.get(), &one, on_->deadline());
            affected_ += to.take().affected();
        } catch (const statement_error&) {
            co_return std::current_exception();
        }
        co_return nullptr;
    }

    result_in<Mode, void> run_in_bulk() {
        while (rows_.pull()) {
            const std::size_t first = rows_.index();
            rows_.collect(columns());
            if (!inserts_) co_await ask<Mode>(on_.get(), save);
            std::exception_ptr failure = co_await run_part(0, rows_.size());
            if (failure == nullptr) continue;
            if (is_unsupported(failure)) std::rethrow_exception(failure);
            std::optional<std::size_t> row = co_await find_refused(&failure);
            if (!row) std::rethrow_exception(failure);
            raise(failure, first + *row);
        }
    }

    result_in<Mode, std::exception_ptr> run_part(std::size_t first, std::size_t last) {
        try {
            bulk_mode until_the_end(*what_);
            connector_detail::result_sink to;
            executing part(*on_, *what_, rows_, first, last, &to);
            co_await converse<Mode>(on_.get(), &part, on_->deadline());
            affected_ += to.take().affected();
        } catch (const statement_error&) {
            co_return std::current_exception();
        }
        co_return nullptr;
    }

    /// Which row of the chunk was refused. Empty if that cannot be found out.
    result_in<Mode, std::optional<std::size_t>> find_refused(std::exception_ptr* failure) {
        if (inserts_) {
            std::size_t told = co_await row_told();
            if (told >= 1 && told <= rows_.size()) co_return told - 1;
        }
        std::size_t low = 0;
        std::size_t high = rows_.size();
        while (high - low > 1) {
            if (!inserts_ && !co_await restore()) co_return std::nullopt;
            const std::size_t middle = low + (high - low) / 2;
            std::exception_ptr half = co_await run_part(low, middle);
            if (half != nullptr) {
                high = middle;
                *failure = half;
                continue;
            }
            low = middle;
            if (!inserts_) co_await ask<Mode>(on_.get(), save);
        }
        co_return low;
    }

    /// The number that the server tells, from 1; 0 if it tells none.
    result_in<Mode, std::size_t> row_told() {
        std::string number;
        try {
            co_await ask<Mode>(on_.get(), "GET DIAGNOSTICS CONDITION 1 @cenote_row = ROW_NUMBER");
            number = co_await ask<Mode>(on_.get(), "SELECT @cenote_row");
        } catch (const statement_error&) {
            co_return 0;  // the server is too old to tell it
        }
        std::size_t row = 0;
        std::from_chars(number.data(), number.data() + number.size(), row);
        co_return row;
    }

    /// Back to the begin of the chunk. False: that was not possible, since the transaction has
    /// ended or a table has no transactions.
    result_in<Mode, bool> restore() {
        try {
            co_await ask<Mode>(on_.get(), "ROLLBACK TO cenote_chunk");
        } catch (const statement_error&) {
            co_return false;
        }
        co_return mysql_warning_count(on_->handle()) == 0;
    }

    /// The server has no bulk execution of statements of this kind.
    static bool is_unsupported(const std::exception_ptr& failure) {
        constexpr int unsupported = 1295;
        try {
            std::rethrow_exception(failure);
        } catch (const statement_error& e) {
            return e.code() == unsupported;
        }
    }

    [[noreturn]] static void raise(const std::exception_ptr& failure, std::size_t index,
                                   std::shared_ptr<const std::vector<std::size_t>> all = nullptr) {
        try {
            std::rethrow_exception(failure);
        } catch (const statement_error& e) {
            throw sql::batch_error(e, index, std::move(all));
        }
    }

    std::size_t columns() const { return mysql_stmt_param_count(what_->handle()); }

    static constexpr const char* save = "SAVEPOINT cenote_chunk";

    std::shared_ptr<session> on_;
    std::string_view text_;
    sql::many_options how_;
    bulk_rows rows_;
    bool inserts_ = detail::inserts_row_by_row(text_);
    prepared* what_ = nullptr;
    std::uint64_t affected_ = 0;
};

template <class Mode, class Text, class Rows>
result_in<Mode, std::uint64_t> execute_many(std::shared_ptr<session> on, Text text, Rows rows,
                                            sql::many_options how) {
    many<Mode> all(std::move(on), text, *rows, how);
    std::uint64_t affected = co_await all.run();
    co_return affected;
}

}  // namespace

std::uint64_t session::execute_many(std::string_view text, value_source& rows,
                                    const sql::many_options& how) {
    return mariadb::execute_many<blocking>(shared_from_this(), text, &rows, how).get();
}

asio::awaitable<std::uint64_t> session::async_execute_many(std::string text,
                                                           std::shared_ptr<value_source> rows,
                                                           sql::many_options how) {
    return mariadb::execute_many<awaited>(shared_from_this(), std::move(text), std::move(rows),
                                          how);
}

}  // namespace cenote::mariadb
