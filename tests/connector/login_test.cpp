// Passwords from files and from the environment, with hostile content.
#include "connector/login.hpp"

#include <array>
#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <sys/stat.h>

#include <gmock/gmock.h>

#include "connector/awaiting.hpp"
#include "support/patience.hpp"
#include "support/warded_process.hpp"

namespace cenote {
namespace {

using connector_detail::find_in_passfile;
using connector_detail::text_of_file;
using testing::HasSubstr;
using testing::Not;

// Lines of a passfile.

/// "none" if no line matches.
std::string found(std::string_view text, std::string_view host = "db",
                  std::string_view database = "orders", std::string_view user = "app") {
    auto password = find_in_passfile(text, host, "5432", database, user);
    return password ? std::string(password->reveal()) : "none";
}

TEST(passfile, has_a_password_for_a_connection) {
    EXPECT_EQ(found("db:5432:orders:app:s3cret"), "s3cret");
    EXPECT_EQ(found("db:5432:orders:app:s3cret\n"), "s3cret");
    EXPECT_EQ(found("db:5432:orders:app:s3cret\r\n"), "s3cret");
    EXPECT_EQ(found("*:*:*:*:s3cret"), "s3cret");
    EXPECT_EQ(found("db:*:orders:*:s3cret"), "s3cret");
}

TEST(passfile, the_first_line_that_matches_counts) {
    EXPECT_EQ(found("other:5432:orders:app:1\n"
                    "db:5433:orders:app:2\n"
                    "db:5432:stock:app:3\n"
                    "db:5432:orders:clerk:4\n"
                    "db:5432:orders:app:5\n"
                    "*:*:*:*:6\n"),
              "5");
    EXPECT_EQ(found("#db:5432:orders:app:1\ndb:5432:orders:app:2"), "2");
}

TEST(passfile, backslashes_protect_colons_and_backslashes) {
    EXPECT_EQ(found(R"(db:5432:orders:app:a\:b\\c\d)"), R"(a:b\cd)");
    EXPECT_EQ(found("db:5432:orders:app:a:b"), "a");  // as libpq
    EXPECT_EQ(found(R"(d\b:5432:orders:app:x)"), "x");
    EXPECT_EQ(found(R"(\:\:1:5432:orders:app:x)", "::1"), "x");
    EXPECT_EQ(found("::1:5432:orders:app:x", "::1"), "x");
    EXPECT_EQ(found(R"(db:5432:or\:ders:a\\pp:x)", "db", "or:ders", R"(a\pp)"), "x");
    EXPECT_EQ(found(R"(\*:5432:orders:app:x)", "*"), "x");
    EXPECT_EQ(found(R"(\*:5432:orders:app:x)"), "none");
}

TEST(passfile, hostile_lines_match_nothing) {
    using namespace std::string_view_literals;
    for (std::string_view text : {""sv,
                                  "\n\n\r\n"sv,
                                  ":"sv,
                                  "::::"sv,
                                  "*"sv,
                                  "*:"sv,
                                  "*:*:*:*"sv,
                                  "db"sv,
                                  "db:5432"sv,
                                  "db:5432:orders:app"sv,
                                  "db:5432:orders:appx:y"sv,
                                  "d:5432:orders:app:y"sv,
                                  "dbx:5432:orders:app:y"sv,
                                  "db:5432:orders:app\\"sv,
                                  "db\\"sv,
                                  "\\"sv,
                                  "db:\\"sv,
                                  "**:*:*:*:x"sv,
                                  "DB:5432:orders:app:y"sv,
                                  " db:5432:orders:app:y"sv,
                                  "db:5432:orders:app:a\0b"sv,
                                  "\0db:5432:orders:app:y"sv,
                                  "#*:*:*:*:x"sv})
        EXPECT_EQ(found(text), "none") << text;
    EXPECT_EQ(found("db:5432:orders:app:"), "");
    EXPECT_EQ(found("db:5432:orders:app:\\"), "\\");
    EXPECT_EQ(found(std::string(1'000'000, '*') + "\n*:*:*:*:x"), "x");
    EXPECT_EQ(found("*:*:*:*:" + std::string(500'000, 'x')), std::string(500'000, 'x'));
}

// Files.

class a_password_file : public testing::Test {
protected:
    std::string written(std::string_view text) { return folder.write("password", text); }
    static std::string refusal(const credentials_source& source) {
        try {
            source();
            return "accepted";
        } catch (const connection_error& e) {
            EXPECT_EQ(e.kind(), error_kind::transient);
            return e.what();
        }
    }

    support::temporary_folder folder{"passwords", support::user_for("postgres")};
};

TEST_F(a_password_file, has_the_password_in_its_first_line) {
    for (const char* text : {"s3cret", "s3cret\n", "s3cret\r\n", "s3cret\nmore\n"})
        EXPECT_EQ(password_from_file(written(text))().password.reveal(), "s3cret") << text;
    EXPECT_EQ(password_from_file(written(" a:b\\ \n"))().password.reveal(), " a:b\\ ");
    EXPECT_EQ(password_from_file(written("s3cret"))().user, "");
}

TEST_F(a_password_file, is_read_each_time) {
    credentials_source source = password_from_file(written("old"));
    EXPECT_EQ(source().password.reveal(), "old");
    std::string path = written("new");
    EXPECT_EQ(source().password.reveal(), "new");
    ASSERT_EQ(std::remove(path.c_str()), 0);
    EXPECT_THAT(refusal(source), HasSubstr(path));
    written("back");
    EXPECT_EQ(source().password.reveal(), "back");
}

TEST_F(a_password_file, that_has_no_password_is_refused_without_its_content) {
    EXPECT_THAT(refusal(password_from_file(written(""))), HasSubstr("no password"));
    EXPECT_THAT(refusal(password_from_file(written("\ns3cret"))), HasSubstr("no password"));
    std::string why = refusal(password_from_file(written(std::string(65'537, 's'))));
    EXPECT_THAT(why, HasSubstr("too long"));
    EXPECT_THAT(why, Not(HasSubstr("sss")));
    EXPECT_EQ(refusal(password_from_file(written(std::string(65'536, 's')))), "accepted");
}

TEST_F(a_password_file, is_a_regular_file) {
    std::string pipe = folder.path() / "pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    EXPECT_THAT(refusal(password_from_file(pipe)), HasSubstr("not a regular file"));
    EXPECT_THAT(refusal(password_from_file(folder.path())), HasSubstr("not a regular file"));
    EXPECT_THAT(refusal(password_from_file("/dev/zero")), HasSubstr("not a regular file"));
}

TEST_F(a_password_file, may_have_to_be_private) {
    std::string path = written("x");
    EXPECT_EQ(text_of_file(path, 10, true).reveal(), "x");
    for (mode_t others : {0040U, 0004U, 0020U, 0001U}) {
        ASSERT_EQ(::chmod(path.c_str(), 0600U | others), 0);
        EXPECT_THROW(text_of_file(path, 10, true), connection_error) << others;
        EXPECT_EQ(text_of_file(path, 10, false).reveal(), "x");
    }
}

TEST(password_of_the_environment, is_read_each_time) {
    credentials_source source = password_from_environment("CENOTE_TEST_PASSWORD");
    EXPECT_THROW(source(), connection_error);
    ASSERT_EQ(::setenv("CENOTE_TEST_PASSWORD", "s3cret", 1), 0);
    EXPECT_EQ(source().password.reveal(), "s3cret");
    ASSERT_EQ(::setenv("CENOTE_TEST_PASSWORD", "", 1), 0);
    EXPECT_THROW(source(), connection_error);
    ASSERT_EQ(::unsetenv("CENOTE_TEST_PASSWORD"), 0);
}

TEST(a_function_of_the_user, is_not_called_after_its_waiter_has_gone) {
    namespace asio = boost::asio;
    auto threads = std::make_shared<connector_detail::user_threads>();
    support::latch hang;
    auto called = std::make_shared<std::atomic<int>>(0);
    auto call = [=]() -> asio::awaitable<void> {
        auto what = [=] {
            ++*called;
            return hang.wait();
        };
        co_await connector_detail::async_run_user_function(threads, what);
    };
    asio::io_context io;
    std::array<asio::cancellation_signal, 6> stop;
    int ended = 0;
    auto begin = [&](asio::cancellation_signal& by) {
        asio::co_spawn(io, call(),
                       asio::bind_cancellation_slot(by.slot(), [&](std::exception_ptr e) {
                           EXPECT_NE(e, nullptr);
                           ++ended;
                       }));
    };
    for (asio::cancellation_signal& each : stop) begin(each);
    io.poll();
    EXPECT_TRUE(support::eventually([&] { return hang.waiting() == 4; }));
    for (asio::cancellation_signal& each : stop) each.emit(asio::cancellation_type::terminal);
    io.run();
    EXPECT_EQ(ended, 6);
    hang.open();
    EXPECT_TRUE(support::eventually([&] { return threads.use_count() == 2; }));  // and `call`
    EXPECT_EQ(*called, 4);
    auto again = [=]() -> asio::awaitable<int> {
        auto what = [] { return 7; };
        co_return co_await connector_detail::async_run_user_function(threads, what);
    };
    EXPECT_EQ(support::await(again()), 7);
}

TEST(a_function_of_the_user, may_outlive_the_event_loop) {
    namespace asio = boost::asio;
    auto threads = std::make_shared<connector_detail::user_threads>();
    support::latch hang;
    auto call = [=]() -> asio::awaitable<void> {
        auto what = [=] { return hang.wait(); };
        co_await connector_detail::async_run_user_function(threads, what);
    };
    {
        asio::io_context io;
        asio::co_spawn(io, call(), asio::detached);
        io.poll();
        EXPECT_TRUE(support::eventually([&] { return hang.waiting() == 1; }));
    }
    hang.open();
    EXPECT_TRUE(support::eventually([&] { return threads.use_count() == 2; }));  // and `call`
}

TEST(credentials_of_a_function, must_have_no_zero_byte) {
    EXPECT_NO_THROW(connector_detail::check_credentials({"a", secret("b")}));
    const std::string cut("a\0b", 3);
    EXPECT_THROW(connector_detail::check_credentials({cut, secret("b")}), connection_error);
    EXPECT_THROW(connector_detail::check_credentials({"a", secret(cut)}), connection_error);
}

}  // namespace
}  // namespace cenote
