// URLs of MariaDB: their meaning, and the errors of invalid ones.
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "cenote/mariadb.hpp"
#include "cenote/url.hpp"

namespace cenote::mariadb {
namespace {

using namespace std::chrono_literals;

TEST(mariadb_options, are_in_a_url) {
    options o = options::from_url(
        "mysql://us%40er:p%40ss@db.example:3307/orders?charset=latin1&timezone=%2B01:00&sql_mode="
        "ANSI,TRADITIONAL&isolation=read-committed&tls=off&connect_timeout=250ms&operation_timeout="
        "2min&reset=by_tracking&tls_ca=/a&tls_cert=/b&tls_key=/c&max_reply_bytes=65536");
    EXPECT_EQ(o.user, "us@er");
    EXPECT_EQ(o.password.reveal(), "p@ss");
    EXPECT_EQ(o.host, "db.example");
    EXPECT_EQ(o.port, 3307);
    EXPECT_EQ(o.database, "orders");
    EXPECT_EQ(o.charset, "latin1");
    EXPECT_EQ(o.time_zone, "+01:00");
    EXPECT_EQ(o.sql_mode, "ANSI,TRADITIONAL");
    EXPECT_EQ(o.isolation, isolation_level::read_committed);
    EXPECT_EQ(o.tls, false);
    EXPECT_EQ(o.tls_ca, "/a");
    EXPECT_EQ(o.tls_cert, "/b");
    EXPECT_EQ(o.tls_key, "/c");
    EXPECT_EQ(o.connect_timeout, 250ms);
    EXPECT_EQ(o.operation_timeout, 2min);
    EXPECT_EQ(o.reset, reset_mode::by_tracking);
    EXPECT_EQ(o.max_reply_bytes, 65'536u);
}

TEST(mariadb_options, have_defaults) {
    options o = options::from_url("mariadb://app@%2Frun%2Fdb.sock/orders");
    EXPECT_EQ(o.host, "/run/db.sock");
    EXPECT_EQ(o.port, 3306);
    EXPECT_EQ(o.charset, "utf8mb4");
    EXPECT_FALSE(o.tls.has_value());
    EXPECT_EQ(o.connect_timeout, 5s);
    EXPECT_EQ(o.operation_timeout, 30s);
    EXPECT_EQ(o.isolation, isolation_level::server_default);
    EXPECT_EQ(o.reset, reset_mode::with_next);
}

std::string refusal(const std::string& url) {
    try {
        static_cast<void>(options::from_url(url));
    } catch (const invalid_url& e) {
        return e.what();
    }
    return "none";
}

TEST(mariadb_options, are_refused_with_a_reason_that_quotes_nothing) {
    const std::string good = "mariadb://app:s3cret@h/db";
    EXPECT_EQ(refusal(good), "none");
    struct bad {
        std::string url;
        std::string says;
    };
    const std::vector<bad> all{
        {"postgresql://app:s3cret@h/db", "mariadb:// or mysql://"},
        {"mariadb://h/db", "needs a user"},
        {"mariadb:///db", "needs a user and a host"},
        {"mariadb://app:s3cret@h", "needs a database"},
        {"mariadb://app:s3cret@h/", "needs a database"},
        {"mariadb://app:s3cret@h,i/db", "more than one host"},
        {good + "?color=s3cret", "\"color\""},
        {good + "?tls=s3cret", "\"tls\""},
        {good + "?charset=s3cret'", "\"charset\""},
        {good + "?charset=a&charset=b", "\"charset\""},
        {good + "?timezone=s3cret'", "\"timezone\""},
        {good + "?sql_mode=s3cret%5C", "\"sql_mode\""},
        {good + "?isolation=s3cret", "\"isolation\""},
        {good + "?reset=s3cret", "\"reset\""},
        {good + "?connect_timeout=s3cret", "\"connect_timeout\""},
        {good + "?connect_timeout=0", "\"connect_timeout\""},
        {good + "?operation_timeout=0", "\"operation_timeout\""},
        {good + "?tls_cert=/x", "\"tls_cert\""},
        {"mariadb://app:s3cret@%2Fsocket/db?tls=on", "\"tls\""},
        {"mariadb://app:s3cret@h:99999/db", "port"},
        {"mariadb://app:s3cret@h/d%00b", "zero byte"},
    };
    for (const bad& each : all) {
        std::string why = refusal(each.url);
        EXPECT_NE(why.find(each.says), std::string::npos) << each.url << ": " << why;
        EXPECT_EQ(why.find("s3cret"), std::string::npos) << why;
    }
}

TEST(mariadb_options, are_checked_by_the_connector_too) {
    options o = options::from_url("mariadb://app@h/db");
    o.sql_mode = "'; drop";
    EXPECT_THROW(connector{o}, std::invalid_argument);
    o.sql_mode.clear();
    o.database.clear();
    EXPECT_THROW(connector{o}, std::invalid_argument);
    o.database = "a";
    o.host = "host;user=x";
    EXPECT_THROW(connector{o}, std::invalid_argument);
    EXPECT_THROW(connector{options{}}, std::invalid_argument);
}

}  // namespace
}  // namespace cenote::mariadb
