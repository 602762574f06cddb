// Generations of prepared statements, the end of cursors, and what some servers lack.
#include "cenote/sql_connection.hpp"

#include <atomic>
#include <stdexcept>
#include <utility>

#include "cenote/server_error.hpp"

namespace cenote::sql {

namespace {

boost::asio::awaitable<std::optional<row>> no_row() { co_return std::nullopt; }

}  // namespace

boost::asio::awaitable<std::optional<row>> cursor::awaited_next() {
    return rows_ == nullptr ? no_row() : rows_->async_next();
}

void connection::refuse_closed() {
    throw connection_error(error_kind::connection, "cenote: the connection was closed");
}

void connection::use(std::shared_ptr<const lease_setup> setup) {
    if (in_transaction())
        throw std::logic_error("cenote: a lease cannot be set up in a transaction");
    own().use(std::move(setup));
}

namespace detail {

// NOLINTNEXTLINE(performance-unnecessary-value-param): those that override it keep the setup.
void session::use(std::shared_ptr<const lease_setup>) {
    throw std::invalid_argument(
        "cenote: this connector cannot set a role or settings for one lease");
}

std::uint64_t session::new_generation() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

namespace {

[[noreturn]] void refuse_copy() {
    throw statement_error("cenote: COPY exists with PostgreSQL only", "0A000");
}

}  // namespace

// Those that override them keep the text.
// NOLINTBEGIN(performance-unnecessary-value-param)
copy_in session::copy_in(std::string_view /*text*/) { refuse_copy(); }
boost::asio::awaitable<copy_in> session::async_copy_in(std::string /*text*/) { refuse_copy(); }
copy_out session::copy_out(std::string_view /*text*/) { refuse_copy(); }
boost::asio::awaitable<copy_out> session::async_copy_out(std::string /*text*/) { refuse_copy(); }
// NOLINTEND(performance-unnecessary-value-param)

}  // namespace detail

}  // namespace cenote::sql
