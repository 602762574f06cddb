// Many statements at once: one statement for a range of rows, batches of statements, and the
// streams of COPY.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "cenote/detail/complete_with.hpp"
#include "cenote/server_error.hpp"
#include "cenote/sql.hpp"

namespace cenote::sql {

/// How execute_many and a batch run.
struct many_options {
    /// Default: true. All rows or statements take effect, or none. In a transaction of PostgreSQL
    /// an error fails the whole transaction, as every error does; with the other servers the
    /// transaction goes on. If false, each row is a statement of its own: those that the server
    /// refuses have no effect, all others have. Costs one commit per row outside of a transaction,
    /// and with MariaDB a round trip per row.
    bool atomic = true;
    /// Default: 1000. The number of rows after which `operation_timeout` starts anew, and of
    /// those that MariaDB gets in one message (of about 1 MiB at most). Lower it if rows take the
    /// server long. The time that the range itself takes does not count.
    std::size_t chunk = 1000;
};
// g++ 12 destroys temporaries of other types twice in an expression with co_await.
static_assert(std::is_trivially_destructible_v<many_options>);

/// The server has refused one of many rows or statements. The text is that of the server.
class batch_error : public statement_error {
public:
    /// Made by the library.
    batch_error(const server_error& why, std::size_t index,
                std::shared_ptr<const std::vector<std::size_t>> failed = nullptr);

    /// Which row or statement was refused, from 0: the first one, if several were.
    std::size_t index() const noexcept { return index_; }
    /// All that were refused, in order; more than one only without many_options::atomic.
    std::span<const std::size_t> failed() const noexcept {
        if (failed_ == nullptr) return {&index_, 1};
        return *failed_;
    }

private:
    std::size_t index_;
    std::shared_ptr<const std::vector<std::size_t>> failed_;
};

namespace detail {

/// If the rows of a step took longer to be made, the time limit starts anew.
constexpr std::chrono::milliseconds slow_source{10};

/// Rows of values, which a connector asks for one by one.
class value_source {
public:
    value_source() = default;
    value_source(const value_source&) = delete;
    value_source& operator=(const value_source&) = delete;
    virtual ~value_source() = default;

    /// The next row. Its values live until the next call. False: there are no more; the last call.
    virtual bool next(std::vector<parameter>& values) = 0;
    /// Begins again. False: the rows can be read only once, and some were.
    virtual bool rewind() = 0;
};

template <class T>
concept tuple_like = requires { std::tuple_size<T>::value; };

inline parameter parameter_of(const value& v) { return v.bound(); }
inline parameter parameter_of(const auto& v) { return parameter(v); }

/// An array is a value only within a tuple: by itself it is a list of values.
template <class T>
constexpr bool is_list = false;
template <class T>
constexpr bool is_list<std::vector<T>> = !std::same_as<T, std::byte>;

/// A row is a value, a tuple of values, or a list of them.
template <class Row>
void bind_row(const Row& row, std::vector<parameter>& values) {
    constexpr bool is_value =
        std::constructible_from<parameter, const Row&> || std::same_as<Row, value>;
    if constexpr (is_value && !is_list<Row>) {
        values.push_back(parameter_of(row));
    } else if constexpr (tuple_like<Row>) {
        std::apply([&](const auto&... each) { (values.push_back(parameter_of(each)), ...); }, row);
    } else {
        for (const auto& each : row) values.push_back(parameter_of(each));
    }
}

/// The rows of a range: `Range` is a reference to it, or the range itself.
template <class Range>
class range_source final : public value_source {
public:
    explicit range_source(Range&& rows) : rows_(std::forward<Range>(rows)) {}

    bool next(std::vector<parameter>& values) override {
        if (at_) ++*at_;
        else at_.emplace(std::begin(rows_));
        if (*at_ == std::end(rows_)) return false;
        values.clear();
        if constexpr (std::is_reference_v<reference>) {
            bind_row(**at_, values);
        } else {
            row_.emplace(**at_);
            bind_row(*row_, values);
        }
        return true;
    }
    bool rewind() override {
        if (!at_) return true;
        at_.reset();
        return std::forward_iterator<iterator>;
    }

private:
    using iterator = decltype(std::begin(std::declval<std::remove_reference_t<Range>&>()));
    using reference = decltype(*std::declval<iterator&>());

    Range rows_;
    std::optional<iterator> at_;
    /// A row that the iterator makes anew.
    std::optional<
        std::conditional_t<std::is_reference_v<reference>, bool, std::remove_cvref_t<reference>>>
        row_;
};

/// Appends a row in the text format of COPY.
void append_copy_row(std::string& to, std::span<const parameter> values);

/// A COPY into a table, implemented by a connector. An awaited call keeps this object alive.
class copy_writer {
public:
    /// How much is collected for one message.
    static constexpr std::size_t enough = std::size_t{64} << 10U;

    copy_writer() = default;
    copy_writer(const copy_writer&) = delete;
    copy_writer& operator=(const copy_writer&) = delete;
    virtual ~copy_writer() = default;

    /// Sends what `collected` has, and empties it.
    virtual void flush() = 0;
    virtual boost::asio::awaitable<void> async_flush() = 0;
    /// Sends the rest. Returns how many rows were copied.
    virtual std::uint64_t finish() = 0;
    virtual boost::asio::awaitable<std::uint64_t> async_finish() = 0;
    /// Whether rows are in the binary format.
    virtual bool is_binary() const = 0;

    std::string collected;
};

/// A COPY out of a table.
class copy_reader {
public:
    copy_reader() = default;
    copy_reader(const copy_reader&) = delete;
    copy_reader& operator=(const copy_reader&) = delete;
    virtual ~copy_reader() = default;

    /// The next rows, until the next call; empty after the last ones.
    virtual std::optional<std::string_view> next() = 0;
    virtual boost::asio::awaitable<std::optional<std::string_view>> async_next() = 0;
};

}  // namespace detail

/// Several statements that are sent together:
///
///     cenote::sql::batch both;
///     both.add("UPDATE account SET balance = balance - ? WHERE id = ?", sum, from);
///     both.add("UPDATE account SET balance = balance + ? WHERE id = ?", sum, to);
///     std::vector<cenote::sql::result> results = db.execute(both);
///
/// Thread safety: several threads may execute a batch at a time.
class batch {
public:
    /// Without statements.
    batch() = default;
    batch(const batch& other);
    batch& operator=(const batch& other);
    batch(batch&&) noexcept = default;
    batch& operator=(batch&&) noexcept = default;
    ~batch() = default;

    /// Appends a statement. Copies the text and the values.
    template <class... Args>
    batch& add(std::string_view statement_text, const Args&... args) {
        auto bound = sql::bind(args...);
        statements_.emplace_back(statement_text, bound);
        return *this;
    }
    /// Like add, for parameters in a list.
    batch& add_bound(bound_statement statement) {
        statements_.push_back(std::move(statement));
        return *this;
    }
    /// Removes all statements.
    void clear() noexcept { statements_.clear(); }
    /// The number of statements.
    std::size_t size() const noexcept { return statements_.size(); }
    /// Whether it has no statements.
    bool empty() const noexcept { return statements_.empty(); }
    /// All statements, in order.
    std::span<const bound_statement> statements() const noexcept { return statements_; }

private:
    std::vector<bound_statement> statements_;
};

/// A COPY into a table of PostgreSQL. Rows take effect when finish() returns:
///
///     cenote::sql::copy_in rows = db.copy_in("COPY visit (page, day) FROM STDIN");
///     for (const visit& v : visits) rows.write_row(v.page, v.day);
///     std::uint64_t copied = rows.finish();
///
/// Memory holds about 64 KiB: a call waits while the server does not read. The server reports an
/// error of any row at finish(), which throws statement_error; nothing was copied then. Until
/// finish() has returned, the connection accepts nothing else. Destroyed earlier, it copies
/// nothing, and the connection is closed unless the server has acknowledged that already.
///
/// Thread safety: one thread or coroutine at a time, together with its connection.
class copy_in {
public:
    /// Every call throws std::logic_error.
    copy_in() = default;
    copy_in(copy_in&&) noexcept = default;
    copy_in& operator=(copy_in&&) noexcept = default;
    ~copy_in() = default;

    /// Writes bytes in the format of the COPY statement: text, CSV or binary. Pieces may begin and
    /// end anywhere.
    void write(std::string_view octets) {
        if (collect(octets)) writer_->flush();
    }
    /// Like write. Copies the bytes when it is called.
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_write(std::string_view octets, Token&& token = {}) {
        collect(octets);
        return detail::complete_with(flushed(writer_), std::forward<Token>(token));
    }

    /// Writes a row in the text format, which is the default of COPY.
    template <class... Args>
    void write_row(const Args&... values) {
        auto bound = sql::bind(values...);
        if (collect_row(bound)) writer_->flush();
    }
    template <class... Args>
    boost::asio::awaitable<void> async_write_row(const Args&... values) {
        auto bound = sql::bind(values...);
        collect_row(bound);
        return flushed(writer_);
    }

    /// Writes what is left, and waits for the server. Returns how many rows were copied.
    std::uint64_t finish() { return own().finish(); }
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_finish(Token&& token = {}) {
        own();
        return detail::complete_with(finished(writer_), std::forward<Token>(token));
    }

    /// For connectors.
    explicit copy_in(std::shared_ptr<detail::copy_writer> by) noexcept : writer_(std::move(by)) {}
    const std::shared_ptr<detail::copy_writer>& writer() const noexcept { return writer_; }

private:
    detail::copy_writer& own() const;
    /// Whether there is enough to be sent.
    bool collect(std::string_view octets);
    bool collect_row(std::span<const parameter> values);
    static boost::asio::awaitable<void> flushed(std::shared_ptr<detail::copy_writer> by);
    static boost::asio::awaitable<std::uint64_t> finished(std::shared_ptr<detail::copy_writer> by);

    std::shared_ptr<detail::copy_writer> writer_;
};

/// A COPY out of a table of PostgreSQL, or out of a query:
///
///     cenote::sql::copy_out rows = db.copy_out("COPY visit TO STDOUT (FORMAT csv)");
///     while (auto bytes = rows.next()) file << *bytes;
///
/// Until the end was read, the connection accepts nothing else. Destroyed earlier, it closes the
/// connection, unless the end has come already.
///
/// Thread safety: one thread or coroutine at a time, together with its connection.
class copy_out {
public:
    /// Without rows.
    copy_out() = default;
    copy_out(copy_out&&) noexcept = default;
    copy_out& operator=(copy_out&&) noexcept = default;
    ~copy_out() = default;

    /// The next bytes in the format of the COPY statement: one or more whole rows, about 64 KiB
    /// unless a single row is longer. Valid until the next call. Empty after the last ones. Waits
    /// for the server. Throws like execute.
    std::optional<std::string_view> next() {
        return reader_ == nullptr ? std::nullopt : reader_->next();
    }
    template <class Token = boost::asio::use_awaitable_t<>>
    auto async_next(Token&& token = {}) {
        return detail::complete_with(awaited_next(reader_), std::forward<Token>(token));
    }

    /// For connectors.
    explicit copy_out(std::shared_ptr<detail::copy_reader> by) noexcept : reader_(std::move(by)) {}

private:
    static boost::asio::awaitable<std::optional<std::string_view>> awaited_next(
        std::shared_ptr<detail::copy_reader> by);

    std::shared_ptr<detail::copy_reader> reader_;
};

}  // namespace cenote::sql
