// Samples of the guide that need a server: PostgreSQL, PgBouncer, Redis, MariaDB, a web server.
#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "support/real_server.hpp"
#include "support/warded_process.hpp"

namespace {

using namespace std::chrono_literals;

/// Throws if a sample fails.
std::string run(const char* program, const std::string& url) {
    support::temporary_folder folder("guide", "-");
    return support::run("-", {program, url}, folder, 5min);
}
std::string run_recipes(const std::string& url) { return run(CENOTE_COOKBOOK, url); }

TEST(cookbook, runs_on_postgres_and_behind_pgbouncer) {
    support::postgres_server postgres;
    EXPECT_NE(run_recipes(support::app_url("postgresql", postgres.port())), "");

    support::pgbouncer_server bouncer(postgres);
    EXPECT_NE(run_recipes(support::app_url("pgbouncer", bouncer.port())), "");
}

TEST(cookbook, runs_on_redis) {
    support::redis_server redis;
    std::string url = "redis://:" + std::string(support::canary_password) +
                      "@127.0.0.1:" + std::to_string(redis.port());
    EXPECT_NE(run_recipes(url), "");
}

TEST(coming_from, runs_on_mariadb) {
    support::mariadb_server mariadb;
    EXPECT_NE(run(CENOTE_COMING_FROM, support::app_url("mariadb", mariadb.port())), "");
}

TEST(cookbook, runs_on_a_web_server) {
    support::nginx_server nginx;
    EXPECT_NE(run_recipes("http://127.0.0.1:" + std::to_string(nginx.port())), "");
}

}  // namespace
