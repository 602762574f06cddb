// Changes of a session of Redis are gone for the next borrower of the connection.
#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "cenote/redis.hpp"
#include "connector/redis_fixture.hpp"
#include "support/patient.hpp"

namespace {

using namespace std::chrono_literals;
using namespace cenote::redis;
using namespace redis_fixture;
using cenote::verdict;

/// The state of the session, without the properties of the connection.
std::string session_of(connection& c) {
    std::string all;
    for (const char* what :
         {"name", "flags", "db", "sub", "psub", "multi", "user", "redir", "resp"})
        all += std::string(what) + "=" + about(c, what) + " ";
    return all;
}

struct change {
    const char* what;
    std::function<void(connection&)> make;
};

/// A way to change a session, undone by reset, blocking and awaited, with the same connection.
void expect_undone(const std::string& url, const change& each) {
    cenote::redis::connector via(url);
    async_connector awaited(url);
    for (bool await_it : {false, true}) {
        connection c = via.open();
        std::string before = session_of(c);
        std::int64_t id = id_of(c);
        via.reset(c);
        EXPECT_EQ(via.before_release(c), verdict::keep);
        each.make(c);
        EXPECT_EQ(via.before_release(c), verdict::reset) << each.what;
        if (await_it) await(awaited.reset(c));
        else via.reset(c);
        EXPECT_EQ(via.before_release(c), verdict::keep) << each.what;
        EXPECT_FALSE(c.in_transaction());
        EXPECT_EQ(session_of(c), before) << each.what;
        EXPECT_EQ(id_of(c), id) << each.what;
    }
}

TEST(redis_reset, undoes_all_changes_of_a_session) {
    server().execute_as_admin({"acl", "setuser", "other", "on", ">pw", "~*", "+@all"});
    const std::vector<change> table{
        {"another database", [](connection& c) { c.command("SELECT", 7); }},
        {"an open transaction",
         [](connection& c) {
             c.command("MULTI");
             c.command("SET", "from-multi", 1);
             EXPECT_TRUE(c.in_transaction());
         }},
        {"a watched key", [](connection& c) { c.command("WATCH", "k"); }},
        {"a name", [](connection& c) { c.command("CLIENT", "SETNAME", "changed"); }},
        {"tracking",
         [](connection& c) { c.command("CLIENT", "TRACKING", "ON", "REDIRECT", id_of(c)); }},
        {"no eviction", [](connection& c) { c.command("CLIENT", "NO-EVICT", "ON"); }},
        {"another user", [](connection& c) { c.command("AUTH", "other", "pw"); }},
        {"the protocol", [](connection& c) { c.command("HELLO", 2, "SETNAME", "hello"); }},
        {"no user", [](connection& c) { c.command("RESET"); }},
        {"a script", [](connection& c) { c.command("EVAL", "redis.call('select', 3)", 0); }},
        {"all at once",
         [](connection& c) {
             pipeline p;
             p.add("AUTH", "other", "pw").add("SELECT", 9).add("CLIENT", "NO-EVICT", "ON");
             p.add("CLIENT", "SETNAME", "x").add("WATCH", "k").add("MULTI").add("SET", "k", 1);
             for (const reply& each : c.execute(p)) EXPECT_FALSE(each.is_error());
         }},
    };
    for (const change& each : table)
        expect_undone(url_of(server().port(), "/2?client_name=mine"), each);
    connection c = here("/2").open();
    EXPECT_TRUE(c.command("GET", "from-multi").is_nil());
    EXPECT_TRUE(c.command("GET", "k").is_nil());
}

/// The connector itself undoes what RESET of 7.0 leaves: without that, this test fails.
TEST(redis_reset, undoes_what_the_flags_show) {
    cenote::redis::connector via = here();
    connection c = via.open();
    std::string before = about(c, "flags");
    c.command("CLIENT", "NO-EVICT", "ON");
    EXPECT_NE(about(c, "flags"), before);
    c.command("RESET");
    c.command("AUTH", support::canary_password);
    EXPECT_NE(about(c, "flags"), before);
    via.reset(c);
    EXPECT_EQ(about(c, "flags"), before);
}

TEST(redis_reset, undoes_what_is_for_clusters) {
    support::reserved_port bus;
    support::redis_server there{
        {.settings = "cluster-enabled yes\ncluster-port " + std::to_string(bus.number())}};
    expect_undone(url_of(there.port()), {"reading from replicas", [](connection& c) {
                                             c.command("READONLY");
                                             EXPECT_NE(about(c, "flags").find('r'),
                                                       std::string::npos);
                                         }});
}

TEST(redis_reset, does_not_claim_what_it_cannot_undo) {
    cenote::redis::connector via = here();
    connection c = via.open();
    try {
        c.command("CLIENT", "SETINFO", "LIB-NAME", "x");  // 7.2 and later
    } catch (const command_error&) {
        EXPECT_EQ(c.command("PING").text(), "PONG");
    }
    EXPECT_EQ(via.before_release(c), verdict::discard);
    EXPECT_THROW(via.reset(c), cenote::connection_error);
}

TEST(redis_reset, fails_on_a_server_that_does_not_know_it) {
    support::redis_server there{{.settings = "rename-command RESET \"\""}};
    cenote::redis::connector via(url_of(there.port()));
    connection c = via.open();
    c.command("SELECT", 1);
    EXPECT_EQ(failure([&] { via.reset(c); }).first, cenote::error_kind::connection);
    EXPECT_EQ(via.before_release(c), verdict::discard);
    cenote::pool<connection> pool(via, support::patient(1));
    std::int64_t id = id_of(*pool.acquire());
    auto next = pool.acquire();
    EXPECT_NE(id_of(*next), id);
    EXPECT_EQ(about(*next, "db"), "0");
}

int resets() {
    std::string stats = server().execute_as_admin({"info", "commandstats"});
    std::size_t at = stats.find("cmdstat_reset:calls=");
    return at == stats.npos ? 0 : std::stoi(stats.substr(at + 20));
}

TEST(redis_reset, is_made_only_after_a_possible_change) {
    cenote::pool<connection> pool(here(), support::patient(1));
    std::int64_t id = id_of(*pool.acquire());
    static_cast<void>(pool.acquire()->command("PING"));  // after the reset of the first
    int before = resets();
    for (int i = 0; i < 50; ++i) {
        auto lease = pool.acquire();
        lease->command("SET", "k", i);
        pipeline p;
        p.add("INCR", "k").add("GET", "k");
        lease->execute(p);
        lease->transaction(p);
    }
    EXPECT_EQ(resets(), before);
    pool.acquire()->command("SELECT", 5);
    auto lease = pool.acquire();
    EXPECT_EQ(about(*lease, "db"), "0");
    EXPECT_EQ(id_of(*lease), id);
    EXPECT_EQ(resets(), before + 1);
}

TEST(redis_reset, undoes_a_transaction_that_comes_back_open) {
    cenote::pool<connection> pool(here("/4"), support::patient(1));
    std::int64_t id = id_of(*pool.acquire());
    {
        auto lease = pool.acquire();
        lease->command("MULTI");
        lease->command("SET", "half", "done");
    }
    auto lease = pool.acquire();
    EXPECT_EQ(lease->command("GET", "half"), reply());
    EXPECT_EQ(id_of(*lease), id);
}

TEST(redis_lease, has_a_timeout_of_its_own) {
    cenote::pool<connection> pool(here(), support::patient(1));
    {
        auto lease = pool.acquire();
        lease->set_timeout(1ms);
    }
    auto lease = pool.acquire();
    EXPECT_TRUE(lease->command("BLPOP", "nothing", 0.05).is_nil());
}

/// Compares the table of harmless commands with the server's own table.
TEST(redis_pipeline, has_no_harmless_command_that_the_server_lists_as_one_of_connections) {
    connection c = here().open();
    for (const char* category : {"connection", "transaction", "scripting"}) {
        reply list = c.command("ACL", "CAT", category);
        for (const reply& each : list.elements()) {
            std::string name = each.text();
            name = name.substr(0, name.find('|'));
            if (name == "ping" || name == "echo" || name == "wait") continue;
            pipeline p;
            try {
                p.add(name);
            } catch (const std::invalid_argument&) {
                continue;
            }
            EXPECT_NE(p.marks().front(), pipeline::mark::harmless) << name;
        }
    }
}

}  // namespace
