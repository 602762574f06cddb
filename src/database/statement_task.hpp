// The tasks of execute, query_as and stream.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "cenote/database.hpp"

namespace cenote::database_detail {

/// Runs a statement and reads its whole result.
class execution final : public task {
public:
    void run(sql::connection& on, std::string_view text,
             std::span<const sql::parameter> values) override {
        result_ = on.execute_bound(text, values);
    }
    asio::awaitable<void> async_run(sql::connection* on, std::string_view text,
                                    std::span<const sql::parameter> values) override {
        sql::bound_statement what(text, values);
        sql::result all = co_await on->async_execute_bound(std::move(what));
        result_ = std::move(all);
    }
    sql::result take() { return *std::move(result_); }

private:
    std::optional<sql::result> result_;
};

/// Runs a statement and gives its rows to a sink, which begins anew if the task is repeated.
class mapping final : public task {
public:
    explicit mapping(std::shared_ptr<sql::row_sink> to) noexcept : to_(std::move(to)) {}

    void run(sql::connection& on, std::string_view text,
             std::span<const sql::parameter> values) override {
        on.execute_into(text, values, *to_);
    }
    asio::awaitable<void> async_run(sql::connection* on, std::string_view text,
                                    std::span<const sql::parameter> values) override {
        sql::bound_statement what(text, values);
        co_await on->async_execute_into(std::move(what), to_);
    }

private:
    std::shared_ptr<sql::row_sink> to_;
};

/// Runs a statement and opens a cursor over its rows.
class streaming final : public task {
public:
    void run(sql::connection& on, std::string_view text,
             std::span<const sql::parameter> values) override {
        rows_ = on.stream_bound(text, values);
    }
    asio::awaitable<void> async_run(sql::connection* on, std::string_view text,
                                    std::span<const sql::parameter> values) override {
        sql::bound_statement what(text, values);
        sql::cursor rows = co_await on->async_stream_bound(std::move(what));
        rows_ = std::move(rows);
    }
    bool completes_statement() const noexcept override { return false; }
    sql::cursor take() { return std::move(rows_); }

private:
    sql::cursor rows_;
};

}  // namespace cenote::database_detail
