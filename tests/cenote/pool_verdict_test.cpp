// What before_release says of a resource that comes back, and what becomes of it.
#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"
#include "support/server.hpp"
#include "support/sums.hpp"

using namespace std::chrono_literals;
using cenote::retire_reason;
using cenote::verdict;
using support::connector;
using support::eventually;
using support::plenty;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

using opinion = std::function<verdict(int)>;

/// Says of each session that comes back what it is told to.
struct judge : connector {
    std::shared_ptr<opinion> says;

    verdict before_release(session& s) const {
        (void)to->before_release(s);
        return (*says)(s.id);
    }
};

/// The same, but can neither probe nor reset.
struct blind_judge {
    std::shared_ptr<server> to;
    std::shared_ptr<opinion> says;

    session open() const { return to->open(); }
    verdict before_release(session& s) const { return (*says)(s.id); }
};

struct pool_verdict : testing::Test {
    /// Until further notice everything is kept, and so comes to lie on the shelf.
    static void warm(session_pool& with) {
        for (int i = 0; i < 20; ++i) EXPECT_EQ(with.acquire()->id, 1);
    }
    void say(verdict what) {
        *says = [what](int id) { return id == 1 ? what : verdict::keep; };
    }
    static cenote::options trusting(std::size_t max) {
        cenote::options how = support::patient(max);
        how.probe_after_idle = cenote::forever;
        return how;
    }

    std::shared_ptr<server> to = server::start();
    std::shared_ptr<opinion> says = std::make_shared<opinion>([](int) { return verdict::keep; });
    session_pool pool{judge{{to}, says}, trusting(2)};
};

}  // namespace

TEST_F(pool_verdict, keep_keeps_it_as_it_is) {
    warm(pool);
    EXPECT_EQ(to->releases, 20);
    EXPECT_EQ(to->resets, 0);
    EXPECT_EQ(to->opens, 1);
    EXPECT_EQ(pool.stats().idle, 1U);
}

TEST_F(pool_verdict, keep_leaves_dirty_what_its_holder_marked) {
    warm(pool);
    auto held = pool.acquire();
    held.mark_dirty();
    held.give_back();
    EXPECT_TRUE(eventually([&] { return to->resets == 1; }));
    warm(pool);
    EXPECT_EQ(to->resets, 1);
}

TEST_F(pool_verdict, reset_has_it_reset_before_anybody_else_gets_it) {
    session_pool single{judge{{to}, says}, trusting(1)};
    warm(single);
    say(verdict::reset);
    (void)single.acquire();
    say(verdict::keep);
    EXPECT_EQ(single.acquire()->id, 1);
    EXPECT_EQ(to->resets, 1);
    warm(single);
    EXPECT_EQ(to->resets, 1) << "once is enough";
    EXPECT_EQ(to->closes, 0);
}

TEST_F(pool_verdict, reset_of_what_is_dirty_resets_it_once) {
    warm(pool);
    say(verdict::reset);
    auto held = pool.acquire();
    held.mark_dirty();
    held.give_back();
    EXPECT_TRUE(eventually([&] { return pool.stats().idle == 1; }));
    EXPECT_EQ(to->resets, 1);
}

TEST_F(pool_verdict, reset_later_has_it_reset_when_nobody_uses_it) {
    warm(pool);
    say(verdict::reset_later);
    (void)pool.acquire();
    EXPECT_TRUE(eventually([&] { return to->resets == 1; }));
    EXPECT_TRUE(eventually([&] { return pool.stats().idle == 1; }));
    say(verdict::keep);
    EXPECT_EQ(pool.acquire()->id, 1);
    EXPECT_EQ(to->closes, 0);
}

TEST_F(pool_verdict, reset_without_a_reset_closes_it) {
    session_pool blind{blind_judge{to, says}, trusting(2)};
    warm(blind);
    say(verdict::reset);
    (void)blind.acquire();
    EXPECT_EQ(blind.acquire()->id, 2);
    EXPECT_TRUE(eventually([&] { return blind.stats().closed == 1; }));
    EXPECT_EQ(blind.stats().retired(retire_reason::rejected), 0U);
}

TEST_F(pool_verdict, discard_and_final_reject_it) {
    for (verdict no : {verdict::discard, verdict::final}) {
        auto other = server::start();
        session_pool strict{judge{{other}, says}, trusting(2)};
        warm(strict);
        say(no);
        (void)strict.acquire();
        EXPECT_EQ(strict.acquire()->id, 2) << "the pool goes on, also after `final`";
        EXPECT_TRUE(eventually([&] { return other->closes == 1; }));
        EXPECT_EQ(strict.stats().retired(retire_reason::rejected), 1U);
        EXPECT_EQ(other->probes, 0) << "nothing else is suspect";
        say(verdict::keep);
    }
}

TEST_F(pool_verdict, an_exception_rejects_it) {
    warm(pool);
    *says = [](int id) { return id == 1 ? throw std::runtime_error("odd") : verdict::keep; };
    (void)pool.acquire();
    EXPECT_EQ(pool.acquire()->id, 2);
    EXPECT_EQ(pool.stats().retired(retire_reason::rejected), 1U);
}

TEST_F(pool_verdict, suspect_discards_it_and_has_the_others_probed) {
    auto first = pool.acquire();
    auto second = pool.acquire();
    EXPECT_EQ(first->id, 1);
    say(verdict::suspect);
    first.give_back();
    EXPECT_TRUE(eventually([&] { return to->closes == 1; }));
    EXPECT_EQ(pool.stats().discarded, 1U);
    EXPECT_EQ(pool.stats().retired(retire_reason::rejected), 0U);
    second.give_back();
    EXPECT_EQ(pool.acquire()->id, 2);
    EXPECT_EQ(to->probes, 1) << "it was as old";
    for (int i = 0; i < 20; ++i) EXPECT_EQ(pool.acquire()->id, 2);
    EXPECT_EQ(to->probes, 1) << "once is enough";
}

TEST_F(pool_verdict, suspect_without_a_probe_retires_the_others) {
    session_pool blind{blind_judge{to, says}, trusting(2)};
    auto first = blind.acquire();
    auto second = blind.acquire();
    say(verdict::suspect);
    first.give_back();
    second.give_back();
    EXPECT_GT(blind.acquire()->id, 2);
    EXPECT_EQ(blind.stats().retired(retire_reason::generation), 1U);
}

TEST_F(pool_verdict, is_not_asked_about_what_is_discarded_anyway) {
    warm(pool);
    int asked = to->releases;
    pool.acquire().discard();
    EXPECT_EQ(to->releases, asked);
}

TEST_F(pool_verdict, counts_after_the_pool_is_gone) {
    auto last = std::make_unique<session_pool>(judge{{to}, says}, trusting(2));
    auto suspicious = last->acquire();
    auto dirty = last->acquire();
    last.reset();
    *says = [&](int id) { return id == 1 ? verdict::suspect : verdict::reset; };
    suspicious.give_back();
    dirty.give_back();
    EXPECT_EQ(to->closes, 2);
    EXPECT_EQ(to->present, 0);
}

TEST_F(pool_verdict, may_take_the_place_of_a_yes_or_no) {
    session_pool plain{support::hooked_connector{{to}}, trusting(1)};
    struct hooked_judge : judge {
        bool before_acquire(session& s) const { return to->before_acquire(s); }
    };
    EXPECT_NO_THROW(plain.replace_connector(hooked_judge{{{to}, says}}));
    auto held = plain.acquire();
    *says = [](int) { return verdict::reset; };
    held.give_back();
    EXPECT_TRUE(eventually([&] { return to->resets == 1; }));
}
