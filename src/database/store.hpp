// What is behind a database: a pool of links to one server.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <memory>
#include <span>
#include <string_view>

#include "cenote/database.hpp"
#include "cenote/lease.hpp"
#include "cenote/pool.hpp"
#include "database/server.hpp"

namespace cenote::database_detail {

/// On so many links something is tried that the server has certainly not run.
inline constexpr int tries_if_not_run = 3;

/// A link that somebody has.
using borrowed = lease<std::unique_ptr<link>>;

class store final : public asked, public std::enable_shared_from_this<store> {
public:
    store(std::shared_ptr<server> at, const options& of_pool);

    // Statements that are on their own.
    sql::result execute(std::string_view text, std::span<const sql::parameter> values,
                        const caller& by) override;
    asio::awaitable<sql::result> async_execute(sql::bound_statement what, caller by) override;
    sql::cursor stream(std::string_view text, std::span<const sql::parameter> values,
                       const caller& by) override;
    asio::awaitable<sql::cursor> async_stream(sql::bound_statement what, caller by) override;

    borrowed acquire(const caller& by) { return pool_.acquire(by.how, by.at); }
    asio::awaitable<borrowed> async_acquire(const caller& by);
    /// Of those who do not bring their own.
    std::chrono::nanoseconds acquire_timeout() const noexcept { return acquire_timeout_; }

    server& at() const noexcept { return *server_; }
    /// Whether nothing is known against it. Waits for nothing.
    bool looks_well(link& l) const noexcept { return server_->before_acquire(l); }
    /// As the server wants it.
    sql::bound_statement translated(sql::bound_statement what) const;

    cenote::stats stats() const { return pool_.stats(); }
    pool_control control() const noexcept { return pool_.control(); }
    /// Whether there is any link to it at all.
    bool has_links() const;
    /// Nobody gets anything any more; whoever has something keeps it.
    void close() noexcept { pool_.close(); }

private:
    std::shared_ptr<server> server_;
    std::chrono::nanoseconds acquire_timeout_;
    pool<std::unique_ptr<link>> pool_;
};

}  // namespace cenote::database_detail
