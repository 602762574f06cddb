// Passwords from a file, the environment and a terminal.
#include "cenote/password.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <future>
#include <pty.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <termios.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "cenote/command.hpp"
#include "connector/sqlite_file.hpp"
#include "program.hpp"
#include "support/patience.hpp"

namespace {

using command::complete_url;
using command::with_password;

TEST(password, is_inserted_into_the_url) {
    EXPECT_EQ(with_password("postgresql://app@db:5432/orders?a=b@c", "S3 c:r@t/é"),
              "postgresql://app:S3%20c%3Ar%40t%2F%C3%A9@db:5432/orders?a=b@c");
    EXPECT_EQ(with_password("redis://db", "x"), "redis://:x@db");
    EXPECT_EQ(with_password("redis://@db/3", "x"), "redis://:x@db/3");
    EXPECT_EQ(with_password("mariadb://app@%2Frun%2Fsocket/orders", ""),
              "mariadb://app:@%2Frun%2Fsocket/orders");
    EXPECT_THROW(with_password("postgresql://app:old@db/orders", "x"), command::wrong_arguments);
    EXPECT_THROW(with_password("sqlite:/tmp/a", "x"), command::wrong_arguments);
}

TEST(password, is_the_first_line_of_a_file) {
    support::sqlite_file place;
    std::string name = (place.folder() / "password").string();
    std::ofstream(name) << "S3CRET\r\nsecond line\n";
    EXPECT_EQ(complete_url("redis://db", {.file = name}), "redis://:S3CRET@db");
    std::ofstream(name, std::ios::trunc).flush();
    EXPECT_THROW(complete_url("redis://db", {.file = name}), command::failure);
    EXPECT_THROW(complete_url("redis://db", {.file = name + "?"}), command::failure);
}

TEST(password, comes_from_the_environment_if_the_url_has_a_user_but_no_password) {
    ::setenv("CENOTE_PASSWORD", "S3CRET", 1);
    EXPECT_EQ(complete_url("postgresql://app@db/orders", {}), "postgresql://app:S3CRET@db/orders");
    EXPECT_EQ(complete_url("postgresql://app:own@db/orders", {}), "postgresql://app:own@db/orders");
    EXPECT_EQ(complete_url("http://db/", {}), "http://db/");
    EXPECT_EQ(complete_url("sqlite:/tmp/a", {}), "sqlite:/tmp/a");
    EXPECT_EQ(complete_url("", {}), "");
    ::unsetenv("CENOTE_PASSWORD");
    EXPECT_EQ(complete_url("postgresql://app@db/orders", {}), "postgresql://app@db/orders");
}

/// Both ends of a pseudoterminal.
class terminal {
public:
    terminal() {
        if (::openpty(&user, &program, nullptr, nullptr, nullptr) != 0)
            throw std::runtime_error("cannot open a pseudoterminal");
    }
    ~terminal() {
        ::close(user);
        ::close(program);
    }
    terminal(const terminal&) = delete;
    terminal& operator=(const terminal&) = delete;

    bool echoes() const {
        termios now{};
        ::tcgetattr(program, &now);
        return (now.c_lflag & ECHO) != 0;
    }
    void type(std::string_view keys) const {
        ASSERT_EQ(::write(user, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
    }
    std::string shows() const {
        std::array<char, 4096> text{};
        ssize_t size = ::read(user, text.data(), text.size());
        return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
    }

    int user = -1;
    int program = -1;
};

TEST(password, is_typed_without_echo) {
    terminal at;
    auto password =
        std::async(std::launch::async, [&] { return command::ask_password(at.program); });
    ASSERT_TRUE(support::eventually([&] { return !at.echoes(); }));
    EXPECT_EQ(at.shows(), "Password: ");
    at.type(
        "wrong\x15S3X\x7f"
        "CRET\r");
    EXPECT_EQ(password.get(), "S3CRET");
    EXPECT_TRUE(at.echoes());
    EXPECT_EQ(at.shows(), "\r\n");
}

TEST(password, prompt_restores_the_terminal_after_ctrl_c) {
    terminal at;
    auto password =
        std::async(std::launch::async, [&] { return command::ask_password(at.program); });
    ASSERT_TRUE(support::eventually([&] { return !at.echoes(); }));
    at.type("S3\x03");
    try {
        password.get();
        FAIL() << "returned a password";
    } catch (const command::failure& e) {
        EXPECT_EQ(e.code(), command::interrupted);
    }
    EXPECT_TRUE(at.echoes());
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    EXPECT_THROW(command::ask_password(ends[0]), command::failure);
    ::close(ends[0]);
    ::close(ends[1]);
}

TEST(password, is_never_printed) {
    support::sqlite_file place;
    std::string name = (place.folder() / "password").string();
    std::ofstream(name) << "S3CRET\n";
    for (const char* word : {"doctor", "bench", "size", "demo"}) {
        tools::output said =
            tools::cenote({word, "postgresql://app@127.0.0.1:1/orders", "--password-file", name});
        EXPECT_NE(said.code, 0) << word;
        EXPECT_THAT(said.out + said.err, testing::Not(testing::HasSubstr("S3CRET"))) << word;
        EXPECT_THAT(said.err + said.out, testing::Not(testing::HasSubstr("--help"))) << word;
    }
    tools::output both =
        tools::cenote({"doctor", "redis://:own@127.0.0.1:1", "--password-file", name});
    EXPECT_EQ(both.code, 2) << both.err;
}

}  // namespace
