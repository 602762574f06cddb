// Orders, stored in any database.
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
    std::int64_t cents = 0;  // per item
};

/// What a customer orders.
struct order_content {
    std::string customer;
    std::vector<order_line> lines;
};

struct order {
    std::int64_t id = 0;
    std::string status;  // open, paid, canceled
    order_content content;

    std::int64_t total() const;
};

enum class change_result { done, not_found, not_open };

/// Creates missing tables, in the SQL dialect of the URL's scheme.
void create_tables(cenote::database& db, std::string_view url);

// Functions with several statements take a transaction, functions with one statement also take the
// database.

boost::asio::awaitable<std::int64_t> add_order(cenote::transaction* in,
                                               const order_content* content);
/// Changes the status of an open order.
boost::asio::awaitable<change_result> change_status(cenote::transaction* in, std::int64_t id,
                                                    std::string to);
boost::asio::awaitable<std::optional<order>> find_order(cenote::statements* in, std::int64_t id);
/// At most `limit` orders with ids greater than `after`.
boost::asio::awaitable<std::vector<order>> list_orders(cenote::statements* in, std::int64_t after,
                                                       std::int64_t limit);

}  // namespace orders_service
