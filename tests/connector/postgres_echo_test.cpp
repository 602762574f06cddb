// Identity echo with PostgreSQL.
#include <chrono>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "connector/echo.hpp"
#include "connector/postgres_place.hpp"
#include "connector/sql_echo.hpp"

namespace cenote::postgres {
namespace {

using namespace std::chrono_literals;
using support::the_postgres;

struct dialect {
    using connection = postgres::connection;
    using statement = postgres::statement;
    using cursor = postgres::cursor;

    static constexpr const char* echo = "select $1::text";
    static constexpr const char* many = "select $1::text || i from generate_series(1, 20) i";
    static constexpr const char* leave = "select set_config('my.word', $1, false)";
    static constexpr const char* whose =
        "select $1::text, coalesce(current_setting('my.word', true), '')";
    static constexpr const char* forget = "select set_config('my.word', '', false)";
};

class subject : public echo::sql_asker<dialect> {
public:
    static constexpr auto cancel_every = 20ms;

    static support::real_server& real() { return the_postgres(); }
    static connector through(std::uint16_t port) {
        return connector(support::postgres_url(port, echo::deadlines));
    }
    /// An abandoned statement is canceled over a connection that the server does not count. It
    /// begins with the length and the code of such a request.
    static std::string not_a_connection() { return {"\0\0\0\x10\x04\xd2\x16\x2e", 8}; }

    int count() {
        return admin_([](connection& c) {
            return c.execute("select count(*) from pg_stat_activity where usename = 'app'")
                .scalar<int>();
        });
    }
    void kill_some() {
        admin_([](connection& c) {
            return c.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where usename = 'app' and random() < 0.5");
        });
    }

private:
    static connector past_the_gate() {
        options o;
        o.hosts = {{.name = the_postgres().socket_folder(), .port = the_postgres().port()}};
        o.user = "postgres";
        return connector(o);
    }
    echo::admin<connector> admin_{past_the_gate()};
};

TEST(postgres_echo, returns_to_each_request_its_own_word) { echo::run_echo<subject>(); }

}  // namespace
}  // namespace cenote::postgres
