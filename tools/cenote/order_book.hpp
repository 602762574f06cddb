// An order book in a database: what the demo's coroutines do with their connections.
#pragma once

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include <cenote/sql.hpp>
#include <cenote/sql_connection.hpp>

namespace demo {

/// What differs from one database to another.
struct dialect {
    const char* begin = "BEGIN";                   // a transaction that will write
    const char* lock = "";                         // how a row is kept for oneself
    const char* identity = "INTEGER PRIMARY KEY";  // a number that the database gives
    bool numbered = false;                         // parameters are $1, $2, … instead of ?
};

/// What an order did: nothing is lost if what joined the book without what was taken out of it is
/// what lies in it.
struct tally {
    std::int64_t joined = 0;
    std::int64_t taken = 0;
};

/// Statements in one dialect.
class order_book {
public:
    explicit order_book(dialect d) : dialect_(d) {}

    void set_up(cenote::sql::connection& c) const {
        c.execute("DROP TABLE IF EXISTS cenote_demo_orders");
        c.execute("CREATE TABLE cenote_demo_orders(id " + std::string(dialect_.identity) +
                  ", buys INTEGER NOT NULL, price INTEGER NOT NULL, quantity INTEGER NOT NULL)");
        c.execute("CREATE INDEX cenote_demo_best ON cenote_demo_orders(buys, price)");
    }
    void tear_down(cenote::sql::connection& c) const { c.execute("DROP TABLE cenote_demo_orders"); }

    /// Somebody looks at the best prices.
    boost::asio::awaitable<void> look(cenote::sql::connection& c) const {
        std::string text =
            sql("SELECT price, sum(quantity) FROM cenote_demo_orders WHERE buys = ? "
                "GROUP BY price ORDER BY price LIMIT 5");
        cenote::sql::result depth = co_await c.async_execute(text, 0);
        static_cast<void>(depth);
    }

    /// Somebody buys or sells: takes the best offer if it is good enough, else joins the book.
    boost::asio::awaitable<tally> trade(cenote::sql::connection& c, bool buys, int price,
                                        int quantity) const {
        co_await c.async_execute(dialect_.begin);
        std::string best =
            sql(std::string("SELECT id, quantity FROM cenote_demo_orders WHERE buys = ?") +
                " AND price " + (buys ? "<= ?" : ">= ?") + " ORDER BY price " +
                (buys ? "ASC" : "DESC") + " LIMIT 1 " + dialect_.lock);
        cenote::sql::result offers = co_await c.async_execute(best, buys ? 0 : 1, price);
        tally t;
        if (offers.empty()) {
            t.joined = quantity;
            std::string place =
                sql("INSERT INTO cenote_demo_orders(buys, price, quantity) VALUES (?, ?, ?)");
            co_await c.async_execute(place, buys ? 1 : 0, price, quantity);
        } else {
            co_await take(c, offers[0], quantity, t);
        }
        co_await c.async_execute("COMMIT");
        co_return t;
    }

    /// What lies in the book.
    std::int64_t left(cenote::sql::connection& c) const {
        auto sum = c.execute("SELECT CAST(coalesce(sum(quantity), 0) AS " +
                             std::string(dialect_.numbered ? "BIGINT" : "SIGNED") +
                             ") FROM cenote_demo_orders");
        return sum.scalar<std::int64_t>();
    }

private:
    /// Takes all of an offer, or as much as is wanted; what is wanted beyond it is given up.
    boost::asio::awaitable<void> take(cenote::sql::connection& c, const cenote::sql::row& offer,
                                      int wanted, tally& t) const {
        auto id = offer.get<std::int64_t>(0);
        auto there = offer.get<std::int64_t>(1);
        t.taken = std::min<std::int64_t>(there, wanted);
        if (there <= wanted) {
            std::string remove = sql("DELETE FROM cenote_demo_orders WHERE id = ?");
            co_await c.async_execute(remove, id);
        } else {
            std::string reduce =
                sql("UPDATE cenote_demo_orders SET quantity = quantity - ? WHERE id = ?");
            co_await c.async_execute(reduce, wanted, id);
        }
    }

    std::string sql(std::string_view text) const {
        if (!dialect_.numbered) return std::string(text);
        std::string result;
        int number = 0;
        for (char c : text)
            if (c == '?') result += "$" + std::to_string(++number);
            else result += c;
        return result;
    }

    dialect dialect_;
};

}  // namespace demo
