// Identity echo with MariaDB.
#include <chrono>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "connector/echo.hpp"
#include "connector/mariadb_place.hpp"
#include "connector/sql_echo.hpp"

namespace cenote::mariadb {
namespace {

using namespace std::chrono_literals;
using support::the_mariadb;

struct dialect {
    using connection = mariadb::connection;
    using statement = mariadb::statement;
    using cursor = mariadb::cursor;

    static constexpr const char* echo = "select ?";
    static constexpr const char* many = "select concat(?, seq) from seq_1_to_20";
    // The server does not report the first change: the reset goes with the next statement.
    static constexpr const char* leave = "select @word := ?";
    static constexpr const char* whose = "select ?, cast(coalesce(@word, '') as char)";
    static constexpr const char* forget = "set @word = null";
};

class subject : public echo::sql_asker<dialect> {
public:
    static constexpr auto cancel_every = 20ms;

    static support::real_server& real() { return the_mariadb(); }
    static connector through(std::uint16_t port) {
        return connector(support::mariadb_url(port, echo::deadlines));
    }
    static auto not_a_connection() { return support::is_side_connection; }

    int count() {
        return admin_([](connection& c) {
            return c
                .execute(
                    "select count(*) from information_schema.processlist where user = 'app' and "
                    "db is not null")
                .scalar<int>();
        });
    }
    void kill_some() {
        admin_([](connection& c) {
            sql::result some = c.execute(
                "select id from information_schema.processlist "
                "where user = 'app' and rand() < 0.5");
            for (const sql::row& each : some) kill(c, each.get<std::int64_t>(0));
        });
    }

private:
    static void kill(connection& c, std::int64_t id) {
        try {
            c.execute("kill " + std::to_string(id));
        } catch (const statement_error&) {
            return;  // has ended by itself
        }
    }
    static connector past_the_gate() {
        options o;
        o.host = the_mariadb().socket();
        o.user = "root";
        o.database = "mysql";
        return connector(o);
    }
    echo::admin<connector> admin_{past_the_gate()};
};

TEST(mariadb_echo, returns_to_each_request_its_own_word) { echo::run_echo<subject>(); }

}  // namespace
}  // namespace cenote::mariadb
