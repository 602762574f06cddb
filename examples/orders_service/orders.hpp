// Orders, and where they are kept: in any database.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cenote/database.hpp>

namespace orders_service {

struct order_line {
    std::string item;
    std::int64_t quantity = 0;
    std::int64_t cents = 0;  // for one of them
};

/// What a customer asks for.
struct wish {
    std::string customer;
    std::vector<order_line> lines;
};

struct order {
    std::int64_t id = 0;
    std::string status;  // open, paid, cancelled
    wish wanted;

    std::int64_t total() const;
};

/// What could not be done because of how the order is.
enum class change_result { done, not_found, not_open };

/// Makes the tables where they are missing. `url` says in which words.
void make_tables(cenote::database& db, std::string_view url);

// Several statements that belong together are given a transaction; what is one statement may be
// given the database.

boost::asio::awaitable<std::int64_t> add_order(cenote::transaction* in, const wish* wanted);
/// From `open` to another status.
boost::asio::awaitable<change_result> change_status(cenote::transaction* in, std::int64_t id,
                                                    std::string to);
boost::asio::awaitable<std::optional<order>> find_order(cenote::statements* in, std::int64_t id);
/// At most `limit` of them, beginning after the number `after`.
boost::asio::awaitable<std::vector<order>> list_orders(cenote::statements* in, std::int64_t after,
                                                       std::int64_t limit);

}  // namespace orders_service
