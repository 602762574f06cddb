// before_release in a pool on an executor: its verdicts have the same effect as in other pools.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "support/async_server.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace asio = boost::asio;
using cenote::retire_reason;
using cenote::verdict;
using namespace std::chrono_literals;
using support::plenty;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

using opinion = std::function<verdict(int)>;

/// Its verdict on each returned session is set by the test.
struct judge : support::async_connector {
    std::shared_ptr<opinion> says;
    verdict before_release(session& s) const { return (*says)(s.id); }
};

struct loop_hook : testing::Test {
    asio::io_context io;
    std::shared_ptr<server> to = server::start();
    std::shared_ptr<opinion> says = std::make_shared<opinion>([](int) { return verdict::keep; });
    std::optional<session_pool> pool;

    /// Runs a coroutine to its end on this thread alone.
    template <class Work>
    void run(Work work) {
        io.restart();
        asio::co_spawn(io, std::move(work), [](const std::exception_ptr& error) {
            if (error != nullptr) std::rethrow_exception(error);
        });
        io.run();
    }
    asio::awaitable<cenote::lease<session>> acquire() {
        return pool->async_acquire_for(plenty, asio::use_awaitable);
    }
    /// Borrows often enough for resources to get onto the shelf.
    asio::awaitable<void> warm() {
        for (int i = 0; i < 20; ++i) (void)co_await acquire();
    }

    /// Gives the first session this verdict. Returns the number of the session that is lent next.
    int lent_after(verdict what) {
        int next = 0;
        to = server::start();
        *says = [](int) { return verdict::keep; };
        cenote::options settings = support::patient(1);
        settings.probe_after_idle = cenote::forever;
        settings.reset_after = cenote::forever;
        pool.emplace(io, judge{{to}, says}, settings);
        run([&]() -> asio::awaitable<void> {
            co_await warm();
            EXPECT_EQ(to->opens, 1);
            *says = [what](int id) { return id == 1 ? what : verdict::keep; };
            (void)co_await acquire();
            auto held = co_await acquire();
            next = held->id;
            *says = [](int) { return verdict::keep; };
            held.give_back();
            std::size_t left = co_await pool->async_close(plenty, asio::use_awaitable);
            EXPECT_EQ(left, 0U);
        });
        return next;
    }
};

}  // namespace

TEST_F(loop_hook, a_verdict_to_keep_keeps_it) {
    EXPECT_EQ(lent_after(verdict::keep), 1);
    EXPECT_EQ(to->resets, 0);
    EXPECT_EQ(to->closes, 1);
}

TEST_F(loop_hook, a_verdict_to_reset_resets_it) {
    EXPECT_EQ(lent_after(verdict::reset), 1);
    EXPECT_EQ(to->resets, 1);
    EXPECT_EQ(to->closes, 1);
}

TEST_F(loop_hook, a_verdict_to_reset_later_leaves_it_to_the_next_use) {
    EXPECT_EQ(lent_after(verdict::reset_later), 1);
    EXPECT_EQ(to->resets, 0);
    EXPECT_EQ(to->closes, 1);
}

TEST_F(loop_hook, a_verdict_to_reset_later_resets_what_is_not_used) {
    pool.emplace(io, judge{{to}, says}, cenote::options{.max = 1, .reset_after = 20ms});
    run([&]() -> asio::awaitable<void> {
        co_await warm();
        *says = [](int) { return verdict::reset_later; };
        for (int i = 0; i < 20; ++i) (void)co_await acquire();
        while (to->resets == 0) co_await asio::post(io, asio::use_awaitable);
        *says = [](int) { return verdict::keep; };
        (void)co_await acquire();
        EXPECT_EQ(to->opens, 1);
        std::size_t left = co_await pool->async_close(plenty, asio::use_awaitable);
        EXPECT_EQ(left, 0U);
    });
}

TEST_F(loop_hook, a_verdict_to_discard_or_a_final_one_rejects_it) {
    for (verdict no : {verdict::discard, verdict::final}) {
        EXPECT_EQ(lent_after(no), 2);
        EXPECT_EQ(pool->stats().retired(retire_reason::rejected), 1U);
        EXPECT_EQ(to->closes, 2);
    }
}

TEST_F(loop_hook, a_verdict_of_suspicion_discards_it) {
    EXPECT_EQ(lent_after(verdict::suspect), 2);
    EXPECT_EQ(pool->stats().discarded, 1U);
    EXPECT_EQ(to->probes, 0) << "what was opened since is not suspect";
}

TEST_F(loop_hook, a_verdict_of_suspicion_has_the_others_probed) {
    pool.emplace(io, judge{{to}, says},
                 cenote::options{.max = 2, .probe_after_idle = cenote::forever});
    run([&]() -> asio::awaitable<void> {
        auto first = co_await acquire();
        auto second = co_await acquire();
        *says = [](int id) { return id == 1 ? verdict::suspect : verdict::keep; };
        second.give_back();
        first.give_back();
        for (int i = 0; i < 20; ++i) {
            auto held = co_await acquire();
            EXPECT_EQ(held->id, 2);
        }
        std::size_t left = co_await pool->async_close(plenty, asio::use_awaitable);
        EXPECT_EQ(left, 0U);
    });
    EXPECT_EQ(to->probes, 1);
    EXPECT_EQ(to->closes, 2);
}
