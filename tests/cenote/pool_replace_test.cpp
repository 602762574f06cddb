// Tests replace_connector: which connector opens, probes and closes, and when the old one ends.
#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/badge.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"
#include "support/sums.hpp"

using namespace std::chrono_literals;
using cenote::retire_reason;
using support::able_badged;
using support::badged;
using support::eventually;
using support::latch;
using support::ledger;
using support::lines_up;
using support::made;
using support::plenty;
using made_pool = cenote::pool<made>;

namespace {

/// Opens when `way` is open.
struct slow : badged {
    latch* way;

    slow(ledger& book, int number, latch& through) : badged(book, number), way(&through) {}
    made open() {
        call here(*badge_);
        way->wait();
        return badged::open();
    }
};

struct bad_password : std::runtime_error {
    bad_password() : runtime_error("bad password") {}
};

/// Fails for good when `way` is open.
struct outdated : slow {
    using slow::slow;
    made open() {
        way->wait();
        throw bad_password();
    }
    static cenote::verdict classify(const std::exception_ptr&) { return cenote::verdict::final; }
};

/// Returns a given verdict for every exception.
struct with_verdict : badged {
    cenote::verdict result;

    with_verdict(ledger& book, int number, cenote::verdict what)
        : badged(book, number), result(what) {}
    cenote::verdict classify(const std::exception_ptr&) const { return result; }
};

/// The text of a refused replacement; empty after a successful one.
template <class C>
std::string refusal(made_pool& pool, C connector) {
    try {
        pool.replace_connector(std::move(connector));
    } catch (const std::invalid_argument& e) {
        return e.what();
    }
    return "";
}

struct pool_replace : testing::Test {
    void TearDown() override {
        EXPECT_TRUE(eventually([&] { return book.ended == book.begun; }));
        EXPECT_EQ(book.crimes(), 0);
        EXPECT_EQ(book.present(), 0);
    }

    ledger book;
};

}  // namespace

TEST_F(pool_replace, has_the_new_one_open_and_the_old_one_close) {
    made_pool pool{badged{book, 1}, {.max = 4, .acquire_timeout = plenty}};
    EXPECT_EQ(pool.acquire()->by, 1);
    pool.replace_connector(badged{book, 2});
    EXPECT_EQ(pool.acquire()->by, 2);
    EXPECT_TRUE(eventually([&] { return book.closed == 1 && book.ended == 1; }));
    EXPECT_EQ(pool.stats().retired(retire_reason::generation), 1U);
}

TEST_F(pool_replace, destroys_one_without_resources_at_once) {
    made_pool pool{badged{book, 1}};
    pool.replace_connector(badged{book, 2});
    EXPECT_EQ(book.ended, 1);
    pool.replace_connector(badged{book, 3});
    EXPECT_EQ(book.ended, 2);
}

TEST_F(pool_replace, leaves_what_is_leased_to_its_own_connector) {
    made_pool pool{able_badged{book, 1}, {.max = 2, .acquire_timeout = plenty}};
    auto lease = pool.acquire();
    pool.replace_connector(able_badged{book, 2});
    auto other = pool.acquire();
    EXPECT_EQ(lease->by, 1);
    EXPECT_EQ(other->by, 2);
    EXPECT_EQ(book.ended, 0);
    lease.give_back();
    EXPECT_TRUE(eventually([&] { return book.ended == 1; }));
    EXPECT_EQ(book.closed, 1);
}

TEST_F(pool_replace, accepts_any_type_with_the_same_functions) {
    cenote::pool<std::string> pool{[] { return std::string{"one"}; }, {.acquire_timeout = plenty}};
    EXPECT_EQ(*pool.acquire(), "one");
    pool.replace_connector([word = std::string{"two"}] { return word; });
    EXPECT_EQ(*pool.acquire(), "two");
    const std::function<const char*()> third = [] { return "three"; };
    pool.replace_connector(third);
    EXPECT_EQ(*pool.acquire(), "three");
}

TEST_F(pool_replace, refuses_one_without_the_same_functions) {
    {
        made_pool pool{badged{book, 1}, {.name = "orders", .acquire_timeout = plenty}};
        EXPECT_EQ(refusal(pool, able_badged{book, 2}),
                  "cenote: the new connector of \"orders\" has probe, unlike the present one; of "
                  "probe, reset, before_acquire and before_release it must have the same");
        EXPECT_EQ(book.ended, 1) << "the refused connector";
        EXPECT_EQ(pool.acquire()->by, 1);
        EXPECT_EQ(pool.stats().retired(retire_reason::generation), 0U);
    }
    {
        made_pool pool{able_badged{book, 1}};
        EXPECT_NE(refusal(pool, badged{book, 2}).find("has no probe"), std::string::npos);
    }
}

TEST_F(pool_replace, names_the_first_verb_that_differs) {
    struct resets : badged {
        using badged::badged;
        bool reset(made& m) { return verb(m); }
    };
    struct with_before_acquire : badged {
        using badged::badged;
        bool before_acquire(made& m) { return verb(m); }
    };
    struct with_before_release : badged {
        using badged::badged;
        bool before_release(made& m) { return verb(m); }
    };
    made_pool pool{badged{book, 1}};
    EXPECT_NE(refusal(pool, resets{book, 2}).find("has reset,"), std::string::npos);
    EXPECT_NE(refusal(pool, with_before_acquire{book, 2}).find("has before_acquire,"),
              std::string::npos);
    EXPECT_NE(refusal(pool, with_before_release{book, 2}).find("has before_release,"),
              std::string::npos);
}

TEST_F(pool_replace, refuses_one_whose_before_acquire_differs_in_noexcept) {
    struct may_throw : badged {
        using badged::badged;
        bool before_acquire(made& m) { return verb(m); }
    };
    struct never_throws : badged {
        using badged::badged;
        bool before_acquire(made& m) noexcept { return verb(m); }
    };
    made_pool pool{may_throw{book, 1}};
    EXPECT_EQ(refusal(pool, never_throws{book, 2}),
              "cenote: the new connector of \"pool\" has a before_acquire that is noexcept, unlike "
              "the present one");
    made_pool quick{never_throws{book, 3}};
    EXPECT_EQ(refusal(quick, may_throw{book, 4}),
              "cenote: the new connector of \"pool\" has a before_acquire that is not noexcept, "
              "unlike the present one");
    EXPECT_EQ(refusal(quick, never_throws{book, 5}), "");
}

TEST_F(pool_replace, never_lends_a_resource_that_the_old_one_was_opening) {
    latch opens;
    made_pool pool{slow{book, 1, opens},
                   {.max = 1, .acquire_timeout = plenty, .open_timeout = plenty}};
    auto waiter = std::async(std::launch::async, [&] { return pool.acquire()->by; });
    ASSERT_TRUE(eventually([&] { return opens.waiting() == 1; }));
    pool.replace_connector(badged{book, 2});
    EXPECT_EQ(book.ended, 0) << "a call of the connector is under way";
    opens.open();
    EXPECT_EQ(waiter.get(), 2);
    EXPECT_TRUE(eventually([&] { return book.ended == 1; }));
    EXPECT_EQ(book.closed, 1);
}

TEST_F(pool_replace, destroys_the_old_one_after_its_abandoned_calls) {
    support::stopped_clock time;
    latch opens;
    made_pool pool{slow{book, 1, opens},
                   {.max = 1, .acquire_timeout = plenty, .open_timeout = 20ms}};
    auto waiter = std::async(std::launch::async, [&] { return pool.acquire()->by; });
    ASSERT_TRUE(eventually([&] { return opens.waiting() == 1; }));
    pool.replace_connector(badged{book, 2});
    time.advance(20ms);
    EXPECT_EQ(waiter.get(), 2) << "the open of the old connector still hangs";
    EXPECT_EQ(book.ended, 0);
    EXPECT_EQ(opens.waiting(), 1);
    opens.open();
    EXPECT_TRUE(eventually([&] { return book.ended == 1; }));
    EXPECT_EQ(book.closed, 1) << "the result of the late open";
}

TEST_F(pool_replace, drops_a_final_error_of_the_old_one) {
    latch opens;
    made_pool pool{outdated{book, 1, opens},
                   {.max = 2, .acquire_timeout = plenty, .open_timeout = plenty}};
    auto waiter = std::async(std::launch::async, [&] { return pool.acquire()->by; });
    ASSERT_TRUE(eventually([&] { return opens.waiting() >= 1; }));
    pool.replace_connector(badged{book, 2});
    opens.open();
    EXPECT_EQ(waiter.get(), 2);
}

TEST_F(pool_replace, tries_the_new_one_at_once_after_any_error_of_the_old_one) {
    latch opens;
    opens.open();
    made_pool pool{outdated{book, 1, opens},
                   {.max = 2, .acquire_timeout = plenty, .backoff = {1h, 1h, 1h}}};
    EXPECT_THROW((void)pool.acquire(), cenote::open_failed_error);
    pool.replace_connector(badged{book, 2});
    EXPECT_EQ(pool.acquire()->by, 2);
}

TEST_F(pool_replace, tries_the_new_one_at_once_when_the_old_one_fails_afterwards) {
    latch opens;
    made_pool pool{
        outdated{book, 1, opens},
        {.max = 2, .acquire_timeout = plenty, .open_timeout = plenty, .backoff = {1h, 1h, 1h}}};
    auto waiter = std::async(std::launch::async, [&] { return pool.acquire()->by; });
    ASSERT_TRUE(eventually([&] { return opens.waiting() >= 1; }));
    pool.replace_connector(badged{book, 2});
    opens.open();
    EXPECT_EQ(waiter.get(), 2);
}

TEST_F(pool_replace, fills_the_minimum_at_once_after_any_error_of_the_old_one) {
    latch opens;
    opens.open();
    made_pool pool{outdated{book, 1, opens}, {.max = 4, .min_size = 2, .backoff = {1h, 1h, 1h}}};
    ASSERT_TRUE(eventually([&] { return pool.stats().open_failed > 0; }));
    pool.replace_connector(badged{book, 2});
    EXPECT_TRUE(pool.wait_ready(plenty));
}

TEST_F(pool_replace, classifies_exceptions_with_the_connector_that_opened) {
    using cenote::verdict;
    made_pool pool{with_verdict{book, 1, verdict::keep}, {.max = 2, .acquire_timeout = plenty}};
    EXPECT_THROW(pool.with([](made&) { throw bad_password(); }), bad_password);
    EXPECT_EQ(pool.stats().discarded, 0U);
    EXPECT_THROW(pool.with([&](made& m) {
        EXPECT_EQ(m.by, 1);
        pool.replace_connector(with_verdict{book, 2, verdict::discard});
        throw bad_password();
    }),
                 bad_password);
    EXPECT_EQ(pool.stats().discarded, 0U) << "the connector that opened it decides";
    EXPECT_THROW(pool.with([](made&) { throw bad_password(); }), bad_password);
    EXPECT_EQ(pool.stats().discarded, 1U);
}

TEST_F(pool_replace, destroys_the_old_one_with_the_last_lease_even_after_the_pool) {
    std::optional<made_pool> pool{std::in_place, badged{book, 1}};
    auto first = pool->acquire();
    pool->replace_connector(badged{book, 2});
    auto second = pool->acquire();
    pool.reset();
    EXPECT_EQ(book.ended, 0);
    first.give_back();
    EXPECT_EQ(book.ended, 1);
    second.give_back();
    EXPECT_EQ(book.ended, 2);
    EXPECT_EQ(book.closed, 2);
}

TEST_F(pool_replace, does_not_wait_for_a_detached_resource) {
    made_pool pool{badged{book, 1}, {.acquire_timeout = plenty}};
    auto lease = pool.acquire();
    pool.replace_connector(badged{book, 2});
    lease->leave();
    made mine = lease.detach();
    EXPECT_EQ(mine.by, 1);
    EXPECT_EQ(book.ended, 1);
}

TEST_F(pool_replace, destroys_connectors_outside_every_lock) {
    struct calls_at_the_end : badged {
        std::shared_ptr<std::function<void()>> at_the_end;

        calls_at_the_end(ledger& book, int number, std::function<void()> does)
            : badged(book, number),
              at_the_end(std::shared_ptr<std::function<void()>>(
                  new std::function<void()>(std::move(does)), [](std::function<void()>* last) {
                      (*last)();
                      delete last;
                  })) {}
    };
    std::atomic<int> served{0};
    made_pool* the_pool = nullptr;
    auto uses_the_pool = [&] {
        if (the_pool == nullptr) return;
        if (auto one = the_pool->try_acquire()) ++served;
        the_pool->retire_all();
    };
    made_pool pool{calls_at_the_end{book, 1, uses_the_pool}, {.max = 2, .acquire_timeout = plenty}};
    the_pool = &pool;
    (void)pool.acquire();
    for (int i = 2; i <= 20; ++i) {
        pool.replace_connector(calls_at_the_end{book, i, uses_the_pool});
        EXPECT_EQ(pool.acquire()->by, i);
    }
    EXPECT_TRUE(eventually([&] { return book.ended == 19; }));
    the_pool = nullptr;
}

TEST_F(pool_replace, may_come_from_the_connector_itself) {
    struct replaces_itself : badged {
        std::function<void()> change;

        replaces_itself(ledger& book, int number, std::function<void()> how)
            : badged(book, number), change(std::move(how)) {}
        made open() {
            call here(*badge_);
            std::exchange(change, nullptr)();
            return badged::open();
        }
    };
    made_pool* the_pool = nullptr;
    auto change = [&] { the_pool->replace_connector(badged{book, 2}); };
    made_pool pool{replaces_itself{book, 1, change}, {.max = 1, .acquire_timeout = plenty}};
    the_pool = &pool;
    EXPECT_EQ(pool.acquire()->by, 2);
    EXPECT_TRUE(eventually([&] { return book.ended == 1; }));
}

TEST_F(pool_replace, keeps_the_minimum) {
    made_pool pool{badged{book, 1}, {.max = 6, .min_size = 3, .warm_up = cenote::warm_up::wait}};
    pool.replace_connector(badged{book, 2});
    EXPECT_TRUE(eventually([&] { return book.ended == 1 && pool.stats().idle == 3; }));
    EXPECT_GE(book.opened, 6);
}

TEST_F(pool_replace, of_a_closed_pool_changes_nothing) {
    made_pool pool{badged{book, 1}, {.acquire_timeout = plenty}};
    auto lease = pool.acquire();
    pool.close();
    pool.replace_connector(badged{book, 2});
    lease.give_back();
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_EQ(book.opened, 1);
    EXPECT_EQ(book.closed, 1);
}

namespace {

/// Knows which connectors are replaced for certain: all that were in use before a replacement began
/// which has returned meanwhile. Replacements may overlap.
class succession {
public:
    explicit succession(int count) : settled_(static_cast<std::size_t>(count) + 1) {
        for (auto& s : settled_) s = std::numeric_limits<int>::max();
        settled_[0] = 0;
    }

    template <class Replace>
    void replace(int number, Replace replace) {
        int began = ++clock_;
        replace(number);
        settled_[static_cast<std::size_t>(number)] = ++clock_;
        int seen = all_before_;
        while (seen < began && !all_before_.compare_exchange_weak(seen, began)) {
        }
    }
    int limit() const { return all_before_; }
    bool is_replaced(int number, int limit) const {
        return settled_[static_cast<std::size_t>(number)] < limit;
    }

private:
    std::atomic<int> clock_{0};
    std::atomic<int> all_before_{0};
    std::vector<std::atomic<int>> settled_;
};

/// Threads acquire and release in every way while two other threads replace the connector, a
/// thousand times in total.
template <class Connector>
void replace_under_load(ledger& book, const cenote::options& settings) {
    constexpr int replacements = 1000;
    succession order(replacements);
    std::atomic<int> next{1}, outdated{0}, refused{0};
    std::array<std::atomic<int>, 4> served{};
    made_pool pool{Connector{book, 0}, settings};
    std::vector<std::jthread> borrowers;
    for (auto& mine : served)
        borrowers.emplace_back([&](const std::stop_token& stop) {
            for (int i = 0; !stop.stop_requested(); ++i) {
                int limit = order.limit();
                std::error_code error;
                auto lease = pool.acquire({}, error);
                if (!lease) {
                    ++refused;
                    continue;
                }
                {
                    auto claim = lease->use();
                    if (order.is_replaced(lease->by, limit)) ++outdated;
                }
                if (i % 64 == 7) lease.mark_dirty();
                if (i % 256 == 9) lease.discard();
                ++mine;
            }
        });
    auto all_served_again = [&] {
        for (auto& count : served) {
            int before = count;
            if (!eventually([&] { return count > before + 3; })) return false;
        }
        return true;
    };
    auto replacer = [&](int often) {
        for (int n = next++; n <= replacements; n = next++) {
            order.replace(n, [&](int number) { pool.replace_connector(Connector{book, number}); });
            bool served_all = n % often != 0 || all_served_again();
            EXPECT_TRUE(served_all);
        }
    };
    std::jthread one(replacer, 20), other(replacer, 7);
    one.join();
    other.join();
    EXPECT_TRUE(all_served_again());
    borrowers.clear();
    EXPECT_EQ(outdated, 0);
    EXPECT_EQ(refused, 0);
    EXPECT_EQ(support::contradiction(pool.stats()), "");
    EXPECT_TRUE(eventually([&] { return book.ended == replacements; })) << book.ended;
    EXPECT_EQ(pool.close(plenty), 0U);
}

}  // namespace

TEST_F(pool_replace, a_thousand_times_under_load_on_the_fast_lane) {
    replace_under_load<badged>(book, {.max = 3, .acquire_timeout = plenty});
}

TEST_F(pool_replace, a_thousand_times_under_load_with_every_verb) {
    replace_under_load<able_badged>(
        book, {.max = 3, .acquire_timeout = plenty, .probe_after_idle = 0ns, .heartbeat = 1ms});
}

TEST_F(pool_replace, a_thousand_times_with_more_waiters_than_resources) {
    replace_under_load<able_badged>(
        book, {.max = 2, .min_size = 2, .acquire_timeout = plenty, .probe_on_release = true});
}
