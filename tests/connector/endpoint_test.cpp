// What connectors say of the server they connect to. No server is needed.
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "cenote/http.hpp"
#include "cenote/mariadb.hpp"
#include "cenote/pool.hpp"
#include "cenote/postgres.hpp"
#include "cenote/redis.hpp"
#include "cenote/sqlite.hpp"

namespace cenote {
namespace {

template <class Connector>
std::string endpoint_of(const char* url) {
    return Connector{std::string_view(url)}.endpoint();
}

TEST(endpoint, names_the_server_and_the_database) {
    EXPECT_EQ(endpoint_of<postgres::connector>("postgresql://web@db1/orders"),
              "postgresql://db1:5432/orders");
    EXPECT_EQ(endpoint_of<postgres::connector>("postgresql://web@db1:5433,db2,[::1]:5434/orders"),
              "postgresql://db1:5433,db2:5432,[::1]:5434/orders");
    EXPECT_EQ(endpoint_of<mariadb::connector>("mariadb://app@db1/orders"),
              "mariadb://db1:3306/orders");
    EXPECT_EQ(endpoint_of<redis::connector>("redis://cache:6380/3?tls=off"),
              "redis://cache:6380/3");
    EXPECT_EQ(endpoint_of<sqlite::connector>("sqlite:/var/lib/orders.db"),
              "sqlite:/var/lib/orders.db");
    http::options api;
    api.host = "api.example.com";
    api.port = 8080;
    EXPECT_EQ(http::connector{api}.endpoint(), "http://api.example.com:8080");
}

TEST(endpoint, of_an_asynchronous_connector_is_the_same) {
    EXPECT_EQ(endpoint_of<postgres::async_connector>("postgresql://web@db1/orders"),
              "postgresql://db1:5432/orders");
    EXPECT_EQ(endpoint_of<redis::async_connector>("redis://cache?tls=off"), "redis://cache:6379/0");
}

TEST(endpoint, has_no_user_and_no_secret) {
    for (const std::string& shown :
         {endpoint_of<postgres::connector>("postgresql://app:s3cret@db1/orders"),
          endpoint_of<mariadb::connector>("mariadb://app:s3cret@db1/orders"),
          endpoint_of<redis::connector>("redis://app:s3cret@cache/1?tls=off")}) {
        EXPECT_EQ(shown.find("s3cret"), std::string::npos) << shown;
        EXPECT_EQ(shown.find("app"), std::string::npos) << shown;
    }
}

TEST(endpoint, is_passed_on_by_pools_and_databases) {
    pool<sqlite::connection> one{sqlite::connector{"sqlite:/no/such/folder/orders.db"}};
    EXPECT_EQ(one.endpoint(), "sqlite:/no/such/folder/orders.db");
    EXPECT_EQ(one.control().endpoint(), one.endpoint());
    pool<int> silent{[] { return 1; }};
    EXPECT_EQ(silent.endpoint(), "");
    silent.close();
    EXPECT_EQ(silent.endpoint(), "");
}

}  // namespace
}  // namespace cenote
