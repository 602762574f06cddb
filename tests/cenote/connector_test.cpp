// Tests which types can be connectors and resources, and that resources are constructed in place.
#include <any>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using support::eventually;
using support::plenty;
using support::server;
using support::session;

namespace {

struct only_open {
    static std::string open() { return "opened"; }
};

struct move_only_connector {
    std::unique_ptr<int> number;
    int open() { return ++*number; }
};

struct both {
    static int open() { return 1; }
    int operator()() const { return 2; }
};

struct void_verbs {
    std::shared_ptr<server> to;
    session open() const { return to->open(); }
    void probe(session& s) const { (void)to->probe(s); }
    void reset(session& s) const { (void)to->reset(s); }
};

/// Whether it can probe is a property of the object.
struct undecided : support::connector {
    bool able = false;
    bool can_probe() const noexcept { return able; }
};

struct no_default {
    explicit no_default(int n) : number(n) {}
    int number;
};

struct over_aligned {
    alignas(128) char bytes[128] = {};
};

/// Can be constructed from any type, and remembers the size of that type.
struct greedy {
    greedy() = default;
    template <class U>
    explicit greedy(U&&) : made_of(sizeof(U)) {}
    std::size_t made_of = 0;
};

/// Has an implicit conversion from int, and an explicit constructor for any type.
struct convertible {
    convertible(int n) : number(n) {}  // NOLINT: a conversion is what is tested
    template <class U>
    explicit convertible(U&&) : number(-1) {}
    int number;
};

/// Logs its destruction.
struct logged {
    explicit logged(std::vector<std::string>& l) : log(&l) {}
    logged(logged&& other) noexcept : log(std::exchange(other.log, nullptr)) {}
    logged& operator=(logged&&) = delete;
    ~logged() {
        if (log != nullptr) log->emplace_back("end");
    }
    std::vector<std::string>* log;
};

struct logging_connector {
    std::vector<std::string>& log;
    bool fails = false;
    logged open() {
        log.emplace_back("open");
        if (fails) throw std::runtime_error("no");
        return logged(log);
    }
    void close(logged&) { log.emplace_back("close"); }
};

/// Has no operator &.
struct hidden {
    int number = 0;
    hidden* operator&() const = delete;  // NOLINT: such types exist
};

struct templates_and_data {
    static int open() { return 3; }
    static bool probe(auto& resource) { return ++resource > 0; }
    std::function<bool(int&)> before_acquire = [](int& n) { return ++n > 0; };
    int close(int& n) { return closed += n; }
    int closed = 0;
};

struct overloads {
    static int open() { return 3; }
    static bool probe(int& n) { return ++n > 0; }
    static bool probe(std::string&) { return false; }
    static void reset(int*) {}
    static void reset(std::string&) {}
};

int open_seven() { return 7; }

}  // namespace

static_assert(cenote::connector<only_open, std::string>);
static_assert(cenote::connector<int (*)(), int>);
static_assert(cenote::connector<int (*)(), long>);
static_assert(!cenote::connector<only_open, int>);
static_assert(!cenote::connector<int, int>);

TEST(connector, is_any_callable_or_any_type_with_open) {
    EXPECT_EQ(*cenote::pool<std::string>{only_open{}}.acquire(), "opened");
    EXPECT_EQ(*cenote::pool<int>{&open_seven}.acquire(), 7);
    EXPECT_EQ(*cenote::pool<int>{open_seven}.acquire(), 7);
    std::function<int()> function = [] { return 8; };
    EXPECT_EQ(*cenote::pool<int>{function}.acquire(), 8);
    cenote::pool<int> mutable_one{[n = 0]() mutable { return ++n; }};
    EXPECT_EQ(*mutable_one.acquire(), 1);
}

TEST(connector, open_is_preferred_to_a_call) { EXPECT_EQ(*cenote::pool<int>{both{}}.acquire(), 1); }

TEST(connector, may_be_move_only) {
    cenote::pool<int> pool{move_only_connector{std::make_unique<int>(4)}};
    EXPECT_EQ(*pool.acquire(), 5);
}

TEST(connector, may_open_something_that_converts) {
    cenote::pool<std::string> pool{[] { return "text"; }};
    EXPECT_EQ(*pool.acquire(), "text");
    cenote::pool<std::unique_ptr<const int>> other{[] { return std::make_unique<int>(3); }};
    EXPECT_EQ(**other.acquire(), 3);
}

TEST(connector, the_resource_type_is_deduced) {
    cenote::pool pool{[] { return std::string("a"); }};
    static_assert(std::is_same_v<decltype(pool), cenote::pool<std::string>>);
    cenote::pool with_options{only_open{}, {.max = 2}};
    static_assert(std::is_same_v<decltype(with_options), cenote::pool<std::string>>);
}

TEST(connector, any_movable_type_can_be_pooled) {
    cenote::pool<no_default> plain{[] { return no_default(3); }};
    EXPECT_EQ(plain.acquire()->number, 3);
    cenote::pool<std::unique_ptr<int>> pointers{[] { return std::make_unique<int>(4); }};
    EXPECT_EQ(**pointers.acquire(), 4);
    cenote::pool<over_aligned> aligned{[] { return over_aligned{}; }};
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned.acquire().get()) % 128, 0U);
    cenote::pool<std::function<int()>> functions{[] { return [] { return 5; }; }};
    EXPECT_EQ((*functions.acquire())(), 5);
}

TEST(connector, a_resource_is_made_in_its_place_and_never_moved) {
    auto to = server::start();
    cenote::pool<session> pool{support::connector{to}};
    std::set<const session*> places;
    for (int i = 0; i < 100; ++i) {
        auto lease = pool.acquire();
        places.insert(lease.get());
    }
    EXPECT_EQ(places.size(), 1U);
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_EQ(to->moved, 0);
}

// A constructor that accepts any type used to get a helper object of the pool instead of the result
// of open.
TEST(connector, a_resource_that_can_be_made_from_anything_is_what_open_returns) {
    cenote::pool<std::any> anys{[] { return std::any(std::string("text")); }};
    EXPECT_EQ(std::any_cast<std::string>(*anys.acquire()), "text");
    cenote::pool<std::any> wrapped{[] { return std::string("text"); }};
    EXPECT_EQ(std::any_cast<std::string>(*wrapped.acquire()), "text");
    cenote::pool<greedy> greedies{[] { return greedy(); }};
    EXPECT_EQ(greedies.acquire()->made_of, 0U);
}

TEST(connector, uses_an_implicit_conversion_if_there_is_one) {
    cenote::pool<convertible> pool{[] { return 4; }};
    EXPECT_EQ(pool.acquire()->number, 4);
    cenote::pool<convertible> from_short{[] { return short{5}; }};
    EXPECT_EQ(from_short.acquire()->number, 5);
}

TEST(connector, a_greedy_resource_can_be_detached) {
    cenote::pool<std::any> anys{[] { return std::any(5); }};
    std::any mine = anys.acquire().detach();
    EXPECT_EQ(std::any_cast<int>(mine), 5);
    cenote::pool<greedy> greedies{[] { return greedy(); }};
    EXPECT_EQ(greedies.acquire().detach().made_of, 0U);
}

TEST(connector, a_resource_may_be_const_or_hide_its_address) {
    cenote::pool<const std::string> constant{[] { return std::string("a"); }};
    EXPECT_EQ(*constant.acquire(), "a");
    cenote::pool<const int> number{[] { return 6; }};
    EXPECT_EQ(*number.acquire(), 6);
    cenote::pool<hidden> hiding{[] { return hidden{7}; }};
    auto lease = hiding.acquire();
    EXPECT_EQ(lease->number, 7);
    EXPECT_EQ(lease.get()->number, 7);
}

TEST(connector, a_resource_ends_once_after_its_close) {
    using lines = std::vector<std::string>;
    lines log;
    {
        cenote::pool<logged> pool{logging_connector{log}};
        pool.acquire().discard();
        EXPECT_EQ(pool.close(plenty), 0U);
    }
    EXPECT_EQ(log, (lines{"open", "close", "end"}));
    log.clear();
    {
        cenote::pool<logged> pool{logging_connector{log}};
        logged mine = pool.acquire().detach();
        EXPECT_EQ(pool.close(plenty), 0U);
        EXPECT_EQ(log, lines{"open"});
    }
    EXPECT_EQ(log, (lines{"open", "end"}))
        << "a detached resource is not closed, and is destroyed once";
}

TEST(connector, destroys_nothing_after_an_open_that_throws) {
    std::vector<std::string> log;
    {
        cenote::pool<logged> pool{logging_connector{log, true}};
        std::error_code error;
        EXPECT_FALSE(pool.acquire({.timeout = 1ms}, error));
        EXPECT_EQ(pool.close(plenty), 0U);
    }
    EXPECT_FALSE(log.empty());
    for (const auto& line : log) EXPECT_EQ(line, "open");
}

TEST(connector, members_may_be_templates_functions_or_return_what_is_ignored) {
    cenote::pool<int> pool{templates_and_data{}, {.probe_after_idle = 0ns}};
    EXPECT_EQ(*pool.acquire(), 4) << "before_acquire was called";
    EXPECT_EQ(*pool.acquire(), 6) << "probe and before_acquire were called";
    pool.acquire().discard();
    EXPECT_EQ(pool.close(plenty), 0U);
}

TEST(connector, calls_the_overload_that_matches) {
    cenote::pool<int> pool{overloads{}, {.probe_after_idle = 0ns}};
    EXPECT_EQ(*pool.acquire(), 3);
    EXPECT_EQ(*pool.acquire(), 4) << "probed";
}

TEST(connector, a_function_that_returns_void_succeeds_by_returning) {
    auto to = server::start();
    cenote::options settings = support::patient(10);
    settings.probe_after_idle = 0ns;
    cenote::pool<session> pool{void_verbs{to}, settings};
    (void)pool.acquire();
    auto lease = pool.acquire();
    EXPECT_EQ(to->probes, 1);
    lease.mark_dirty();
    lease.give_back();
    EXPECT_EQ(pool.acquire()->id, 1);
    EXPECT_EQ(to->resets, 1);
}

TEST(connector, with_can_probe_false_works_as_without_a_probe) {
    for (bool able : {true, false}) {
        auto to = server::start();
        cenote::options settings = support::patient(10);
        if (able) settings.probe_after_idle = 0ns;
        cenote::pool<session> pool{undecided{{to}, able}, settings};
        for (int i = 0; i < 3; ++i) (void)pool.acquire();
        EXPECT_EQ(to->probes, able ? 2 : 0);
        pool.suspect_all();
        EXPECT_EQ(pool.acquire()->id, able ? 1 : 2) << "suspect";
        EXPECT_THROW(pool.replace_connector(undecided{{to}, !able}), std::invalid_argument);
    }
}

TEST(connector, needs_no_close_if_the_destructor_is_enough) {
    auto to = server::start();
    cenote::pool<session> pool{[to] { return to->open(); }};
    pool.acquire().discard();
    EXPECT_TRUE(eventually([&] { return to->present == 0; }));
}

TEST(connector, close_comes_before_the_destructor) {
    auto to = server::start();
    std::atomic<int> ended{-1};
    to->on_close = [&](int) { ended = to->ended.load(); };
    cenote::pool<session> pool{support::connector{to}};
    pool.acquire().discard();
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_EQ(ended, 0);
    EXPECT_EQ(to->ended, 1);
}

TEST(connector, open_probe_reset_and_close_never_run_on_a_borrowers_thread) {
    auto to = server::start();
    auto me = std::this_thread::get_id();
    std::atomic<int> mine{0};
    auto note = [&](int) { return mine += std::this_thread::get_id() == me, true; };
    to->on_open = [&](int id) { (void)note(id); };
    to->on_close = [&](int id) { (void)note(id); };
    to->on_probe = note;
    to->on_reset = note;
    cenote::pool<session> pool{support::connector{to}, {.probe_after_idle = 0ns}};
    for (int i = 0; i < 3; ++i) {
        auto lease = pool.acquire();
        lease.mark_dirty();
    }
    pool.acquire().discard();
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_EQ(mine, 0);
    EXPECT_GT(to->probes + to->resets + to->closes, 3);
}

// Connectors that are selected at run time.

class virtual_connector : public cenote::connector_interface<session> {
public:
    explicit virtual_connector(std::shared_ptr<server> to) : to_(std::move(to)) {}
    session open() override { return to_->open(); }
    bool can_probe() const noexcept override { return true; }
    bool probe(session& s) override { return to_->probe(s); }
    bool reset(session& s) override { return to_->reset(s); }
    void close(session& s) override { to_->close(s); }

private:
    std::shared_ptr<server> to_;
};

TEST(connector_interface, is_a_connector_behind_a_shared_pointer) {
    auto to = server::start();
    std::shared_ptr<cenote::connector_interface<session>> connect =
        std::make_shared<virtual_connector>(to);
    {
        cenote::pool<session> pool{
            connect, {.probe_timeout = plenty, .reset_timeout = plenty, .probe_after_idle = 0ns}};
        pool.acquire().mark_dirty();
        EXPECT_EQ(pool.acquire_for(plenty)->id, 1);
        EXPECT_EQ(to->resets, 1);
        EXPECT_EQ(to->probes, 1);
        EXPECT_EQ(pool.close(plenty), 0U);
    }
    EXPECT_EQ(to->closes, 1);
    EXPECT_EQ(connect.use_count(), 1) << "the pool no longer shares it";
}

TEST(connector_interface, can_be_an_interface_of_the_user) {
    struct opens {
        virtual ~opens() = default;
        virtual int open() = 0;
    };
    struct counts final : opens {
        int open() override { return ++opened; }
        int opened = 0;
    };
    std::shared_ptr<opens> connect = std::make_shared<counts>();
    cenote::pool pool{connect};  // of int: the result type of open()
    EXPECT_EQ(*pool.acquire(), 1);
    auto another = std::make_shared<counts>();
    another->opened = 6;
    pool.replace_connector(std::shared_ptr<opens>(another));
    EXPECT_EQ(*pool.acquire(), 7);
}

TEST(connector_interface, cannot_be_null) {
    using interface = cenote::connector_interface<session>;
    EXPECT_THROW(cenote::pool<session>{std::shared_ptr<interface>()}, std::invalid_argument);
}
