// Texts that are not URLs: each is answered with the URL to use, without its password.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cenote/url.hpp"

namespace cenote {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string refusal(const std::string& text) {
    try {
        url::parse(text);
    } catch (const invalid_url& e) {
        return e.what();
    }
    return "accepted";
}

struct notation {
    const char* text;
    const char* answer;  // after "cenote: this is "
};

class other_notation : public testing::TestWithParam<notation> {};

TEST_P(other_notation, is_answered_with_the_url) {
    EXPECT_EQ(refusal(GetParam().text), "cenote: this is " + std::string(GetParam().answer));
    EXPECT_THAT(refusal(GetParam().text), Not(HasSubstr("c4n4ry"))) << GetParam().text;
}

INSTANTIATE_TEST_SUITE_P(
    libpq, other_notation,
    testing::Values(
        notation{"host=db dbname=orders user=app password=c4n4ry",
                 "a libpq connection string, not a URL; use postgresql://app:***@db/orders"},
        notation{"host=db port=5433 dbname='my \\'x' user=app password = 'c4n4 c4n4ry' "
                 "sslmode=verify-full sslrootcert=/etc/ca.pem",
                 "a libpq connection string, not a URL; use postgresql://app:***@db:5433/"
                 "my%20%27x?sslmode=verify-full&sslrootcert=/etc/ca.pem"},
        notation{"host=a,b port=1,2 user=app dbname=x sslmode=prefer",
                 "a libpq connection string, not a URL; use postgresql://app@a:1,b:2/x"},
        notation{"dbname=orders",
                 "a libpq connection string, not a URL; use postgresql://USER@HOST/orders"},
        // A password with a space and no quotes.
        notation{"host=db password=a c4n4ry",
                 "a libpq connection string, not a URL; use postgresql://USER:***@HOST/DATABASE"},
        notation{"password='c4n4ry host=db",
                 "a libpq connection string, not a URL; use postgresql://USER:***@HOST/DATABASE"}));

INSTANTIATE_TEST_SUITE_P(
    ado, other_notation,
    testing::Values(
        notation{"Server=db;Database=orders;User Id=app;Password=c4n4ry;",
                 "a connection string of key=value pairs, not a URL; use "
                 "postgresql://app:***@db/orders or mariadb://app:***@db/orders"},
        notation{"Server=db;Port=3306;Database=orders;Uid=app;Pwd=c4n4ry",
                 "a connection string of key=value pairs, not a URL; use "
                 "mariadb://app:***@db:3306/orders"},
        notation{"Host=db;Username=app;Password=\"c4;n4ry c4n4ry\";Database=orders",
                 "a connection string of key=value pairs, not a URL; use "
                 "postgresql://app:***@db/orders"},
        notation{"Host=db;Username=app;Password=c4;c4n4ry;Database=orders",
                 "a connection string of key=value pairs, not a URL; use "
                 "postgresql://USER:***@HOST/DATABASE or mariadb://USER:***@HOST/DATABASE"},
        notation{"Driver={PostgreSQL Unicode};Server=db;Uid=app;Pwd=c4n4ry;Database=orders",
                 "a connection string of key=value pairs, not a URL; use "
                 "postgresql://app:***@db/orders"},
        notation{
            "Data Source=/var/lib/orders.db",
            "a connection string of key=value pairs, not a URL; use sqlite:/var/lib/orders.db"},
        notation{"Server=db,1433;Initial Catalog=orders;User ID=sa;Password=c4n4ry",
                 "a connection string of SQL Server, which cenote does not support"}));

INSTANTIATE_TEST_SUITE_P(
    other_urls, other_notation,
    testing::Values(
        notation{"jdbc:postgresql://db:5433/orders?user=app&password=c4n4ry&ssl=true",
                 "a JDBC URL; use postgresql://app:***@db:5433/orders"},
        notation{"jdbc:postgresql://h1,h2:5433/orders",
                 "a JDBC URL; use postgresql://USER@h1,h2:5433/orders"},
        notation{"jdbc:mariadb://db/orders?user=app", "a JDBC URL; use mariadb://app@db/orders"},
        notation{"jdbc:mysql:replication://h1,h2/orders?password=c4n4ry",
                 "a JDBC URL; use mariadb://USER:***@HOST/DATABASE"},
        notation{"jdbc:sqlite:/var/lib/orders.db", "a JDBC URL; use sqlite:/var/lib/orders.db"},
        notation{"jdbc:oracle:thin:app/c4n4ry@db:1521:x",
                 "a JDBC URL of a server that cenote does not support"},
        notation{"mysql+pymysql://app:c4n4ry@db/orders",
                 "the URL of another library; use mariadb://app:***@db/orders"},
        notation{"mysql2://app@db/orders",
                 "the URL of another library; use mariadb://app@db/orders"},
        notation{"postgresql+asyncpg://app:c4n4ry@[::1]:5433/orders",
                 "the URL of another library; use postgresql://app:***@[::1]:5433/orders"},
        notation{"postgresql+asyncpg://app:c4#n4ry@c4n4ry/orders",
                 "the URL of another library; use postgresql://USER:***@HOST/DATABASE"},
        notation{"redis+tls://:c4n4ry@db/0", "the URL of another library; use rediss://:***@db/0"},
        notation{"sqlite+aiosqlite:///orders.db",
                 "the URL of another library; use sqlite:orders.db"},
        notation{"mysql:host=db;port=3307;dbname=orders",
                 "a PDO data source name, not a URL; use mariadb://USER@db:3307/orders"},
        notation{"app:c4n4ry@tcp(db:3306)/orders?parseTime=true",
                 "a Go data source name, not a URL; use mariadb://app:***@db:3306/orders"}));

INSTANTIATE_TEST_SUITE_P(
    without_scheme, other_notation,
    testing::Values(
        notation{"db:5432", "a host name, not a URL; use postgresql://USER@db:5432/DATABASE"},
        notation{"127.0.0.1:6379", "a host name, not a URL; use redis://127.0.0.1:6379"},
        notation{"db.example.com",
                 "a host name, not a URL; use postgresql://USER@db.example.com/DATABASE or "
                 "mariadb://USER@db.example.com/DATABASE, or redis://db.example.com"},
        notation{"app:c4n4@c4n4ry@db:3306/orders",
                 "a host name with a user, not a URL; use mariadb://app:***@db:3306/orders"},
        notation{":c4n4ry@db:6379", "a host name, not a URL; use redis://:***@db:6379"},
        // It could also be a password.
        notation{"c4n4ry",
                 "a name, not a URL; use postgresql://USER@HOST/DATABASE or "
                 "mariadb://USER@HOST/DATABASE, or redis://HOST"},
        notation{"./orders.db", "a file name, not a URL; use sqlite:./orders.db"},
        notation{"/run/postgresql/.s.PGSQL.5432",
                 "the path of a socket, not a URL; use postgresql://USER@%2Frun%2Fpostgresql/"
                 "DATABASE"}));

INSTANTIATE_TEST_SUITE_P(
    command_lines, other_notation,
    testing::Values(
        notation{"psql -h db -p 5433 -U app orders",
                 "a command line of psql, not a URL; use postgresql://app@db:5433/orders"},
        notation{"psql host=db dbname=orders password=c4n4ry",
                 "a libpq connection string, not a URL; use postgresql://USER:***@db/orders"},
        notation{"psql -c c4n4ry -h db",  // an option that is not known
                 "a command line of psql, not a URL; use postgresql://USER@db/DATABASE"},
        notation{"mysql -h db -u app -pc4n4ry orders",
                 "a command line of mysql, not a URL; use mariadb://app:***@db/orders"},
        // -p takes no separate word, but many write the password there.
        notation{"mysql -h db -u app -p c4n4ry",
                 "a command line of mysql, not a URL; use mariadb://app:***@db/DATABASE"},
        notation{"mariadb --host=db --user=app --password=c4n4ry --database=orders",
                 "a command line of mariadb, not a URL; use mariadb://app:***@db/orders"},
        notation{"redis-cli -h db -p 6380 -a c4n4ry -n 2 --tls",
                 "a command line of redis-cli, not a URL; use rediss://:***@db:6380/2"},
        notation{"redis-cli -u redis://:c4n4ry@db/0",
                 "a command line of redis-cli, not a URL; use the URL in it alone"},
        notation{"sqlite3 orders.db",
                 "a command line of sqlite3, not a URL; use sqlite:orders.db"}));

// What stands in the place of a host, a user or a database may be a whole URL.
TEST(url, never_quotes_a_password_of_another_notation) {
    const std::string url = "postgresql://app:c4n4ry@db/orders";
    for (const std::string& text : std::vector<std::string>{
             "psql -h " + url, "psql -U " + url + " x", "psql -d x -p " + url, "mysql -h db " + url,
             "redis-cli -h " + url, "redis-cli -n " + url, "sqlite3 " + url, "host=" + url,
             "user=" + url + " host=db", "dbname=" + url, "dbname=x sslcert=" + url,
             "Server=" + url + ";Database=x", "Data Source=/" + url, "jdbc:sqlite:" + url,
             "jdbc:postgresql://db/x?user=app:c4n4ry@db", "mysql:host=" + url,
             "app:c4n4ry@tcp(" + url + ")/x", "app:x@tcp(db)/" + url, "mysql2://" + url}) {
        EXPECT_THAT(refusal(text), HasSubstr("cenote: ")) << text;
        EXPECT_THAT(refusal(text), Not(HasSubstr("c4n4ry"))) << text;
    }
}

TEST(url, without_slashes_says_so) {
    EXPECT_THAT(refusal("postgresql:app:c4n4ry@db/x"), HasSubstr("no // after its scheme"));
}

TEST(url, is_not_mistaken_for_another_notation) {
    for (const char* text : {"postgresql://app@db/x?application_name=host", "mysql://app@db/x",
                             "sqlite:some/file.db", "sqlite:/a=b.db", "sqlite:host.db",
                             "a://h?host=1", "redis://:p%3Dw@h", "https://db:5432"})
        EXPECT_EQ(refusal(text), "accepted") << text;
}

}  // namespace
}  // namespace cenote
