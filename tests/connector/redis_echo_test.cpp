// Identity echo with Redis.
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/redis.hpp"
#include "connector/echo.hpp"
#include "connector/redis_fixture.hpp"

namespace cenote::redis {
namespace {

using namespace std::chrono_literals;
using echo::book;
using echo::dice;

/// Commands whose replies are known.
struct questions {
    pipeline all;
    std::vector<std::string> answers;
    bool together = false;
    /// Checks at the end that the database was the first one: a lease does not begin in the
    /// database that an earlier lease has selected.
    bool tells_where = false;

    questions(book& b, dice& d) : together(d() % 4 == 0), tells_where(!together && d() % 16 == 0) {
        std::size_t count = 1 + d() % 4;
        for (std::size_t i = 0; i < count; ++i) add(b.word(), d() % 16 == 0);
        if (tells_where) all.add("CLIENT", "INFO");
        if (!together && d() % 32 == 0) all.add("SELECT", 3);  // to be reset
    }
    void compare(const std::vector<reply>& got, book& b) const {
        for (std::size_t i = 0; i < answers.size(); ++i) {
            const reply& one = got.at(i);
            b.compare(one.is_text() && one.text() == answers[i]);
        }
        if (!tells_where) return;
        const reply& where = got.at(answers.size());
        bool first = where.is_text() && where.text().find(" db=0 ") != std::string::npos;
        if (!first) ++b.inherited;
    }

private:
    void add(std::string word, bool keeps) {
        if (keeps) {
            all.add("SET", "key-" + word, word, "PX", 5000);
            all.add("GETDEL", "key-" + word);
            answers.emplace_back("OK");
        } else {
            all.add("ECHO", word);
        }
        answers.push_back(std::move(word));
    }
};

class subject {
public:
    using connection = redis::connection;
    static constexpr auto cancel_every = 2ms;

    static support::real_server& real() { return redis_fixture::server(); }
    static connector through(std::uint16_t port) {
        return connector(redis_fixture::url_of(port, "?client_name=echo&") + echo::deadlines);
    }

    static void ask(connection& c, book& b, dice& d) {
        questions q(b, d);
        q.compare(q.together ? c.transaction(q.all).value() : c.execute(q.all), b);
    }
    static boost::asio::awaitable<void> ask_awaited(connection* c, book* b, dice* d) {
        questions q(*b, *d);
        std::vector<reply> got;
        if (q.together) {
            auto done = co_await c->async_transaction(q.all);
            got = std::move(done.value());
        } else {
            got = co_await c->async_execute(q.all);
        }
        q.compare(got, *b);
    }

    int count() {
        std::string list = admin_(
            [](connection& c) { return c.command("CLIENT", "LIST", "TYPE", "normal").text(); });
        int count = 0;
        for (std::size_t at = 0; (at = list.find(" name=echo ", at)) != list.npos; ++at) ++count;
        return count;
    }
    void kill_some() {
        admin_([](connection& c) {
            return c.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
        });
    }

private:
    echo::admin<connector> admin_{redis_fixture::here()};
};

TEST(redis_echo, returns_to_each_request_its_own_word) { echo::run_echo<subject>(); }

}  // namespace
}  // namespace cenote::redis
