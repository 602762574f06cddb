// Tests the verdicts of before_release.
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

using script = std::function<verdict(int)>;

/// Its before_release returns what the test sets.
struct scripted : connector {
    std::shared_ptr<script> answer;

    verdict before_release(session& s) const {
        (void)to->before_release(s);
        return (*answer)(s.id);
    }
};

/// Has a scripted before_release, and neither probe nor reset.
struct scripted_without_probe {
    std::shared_ptr<server> to;
    std::shared_ptr<script> answer;

    session open() const { return to->open(); }
    verdict before_release(session& s) const { return (*answer)(s.id); }
};

struct pool_verdict : testing::Test {
    /// Every release is accepted, so the resource gets onto the shelf.
    static void warm(session_pool& with) {
        for (int i = 0; i < 20; ++i) EXPECT_EQ(with.acquire()->id, 1);
    }
    void answer_with(verdict what) {
        *answer = [what](int id) { return id == 1 ? what : verdict::keep; };
    }
    static cenote::options trusting(std::size_t max) {
        cenote::options how = support::patient(max);
        how.probe_after_idle = cenote::forever;
        return how;
    }

    std::shared_ptr<server> to = server::start();
    std::shared_ptr<script> answer = std::make_shared<script>([](int) { return verdict::keep; });
    session_pool pool{scripted{{to}, answer}, trusting(2)};
};

}  // namespace

TEST_F(pool_verdict, keep_keeps_it_as_it_is) {
    warm(pool);
    EXPECT_EQ(to->releases, 20);
    EXPECT_EQ(to->resets, 0);
    EXPECT_EQ(to->opens, 1);
    EXPECT_EQ(pool.stats().idle, 1U);
}

TEST_F(pool_verdict, keep_does_not_undo_mark_dirty) {
    warm(pool);
    auto lease = pool.acquire();
    lease.mark_dirty();
    lease.give_back();
    EXPECT_TRUE(eventually([&] { return to->resets == 1; }));
    warm(pool);
    EXPECT_EQ(to->resets, 1);
}

TEST_F(pool_verdict, reset_resets_it_before_the_next_lease) {
    session_pool single{scripted{{to}, answer}, trusting(1)};
    warm(single);
    answer_with(verdict::reset);
    (void)single.acquire();
    answer_with(verdict::keep);
    EXPECT_EQ(single.acquire()->id, 1);
    EXPECT_EQ(to->resets, 1);
    warm(single);
    EXPECT_EQ(to->resets, 1) << "one reset is enough";
    EXPECT_EQ(to->closes, 0);
}

TEST_F(pool_verdict, reset_of_a_dirty_resource_resets_it_once) {
    warm(pool);
    answer_with(verdict::reset);
    auto lease = pool.acquire();
    lease.mark_dirty();
    lease.give_back();
    EXPECT_TRUE(eventually([&] { return pool.stats().idle == 1; }));
    EXPECT_EQ(to->resets, 1);
}

TEST_F(pool_verdict, reset_later_resets_it_while_it_is_idle) {
    warm(pool);
    answer_with(verdict::reset_later);
    (void)pool.acquire();
    EXPECT_TRUE(eventually([&] { return to->resets == 1; }));
    EXPECT_TRUE(eventually([&] { return pool.stats().idle == 1; }));
    answer_with(verdict::keep);
    EXPECT_EQ(pool.acquire()->id, 1);
    EXPECT_EQ(to->closes, 0);
}

TEST_F(pool_verdict, reset_without_a_reset_closes_it) {
    session_pool blind{scripted_without_probe{to, answer}, trusting(2)};
    warm(blind);
    answer_with(verdict::reset);
    (void)blind.acquire();
    EXPECT_EQ(blind.acquire()->id, 2);
    EXPECT_TRUE(eventually([&] { return blind.stats().closed == 1; }));
    EXPECT_EQ(blind.stats().retired(retire_reason::rejected), 0U);
}

TEST_F(pool_verdict, discard_and_final_reject_it) {
    for (verdict no : {verdict::discard, verdict::final}) {
        auto other = server::start();
        session_pool strict{scripted{{other}, answer}, trusting(2)};
        warm(strict);
        answer_with(no);
        (void)strict.acquire();
        EXPECT_EQ(strict.acquire()->id, 2) << "the pool still works, also after `final`";
        EXPECT_TRUE(eventually([&] { return other->closes == 1; }));
        EXPECT_EQ(strict.stats().retired(retire_reason::rejected), 1U);
        EXPECT_EQ(other->probes, 0) << "the other resources are not suspect";
        answer_with(verdict::keep);
    }
}

TEST_F(pool_verdict, an_exception_rejects_it) {
    warm(pool);
    *answer = [](int id) { return id == 1 ? throw std::runtime_error("odd") : verdict::keep; };
    (void)pool.acquire();
    EXPECT_EQ(pool.acquire()->id, 2);
    EXPECT_EQ(pool.stats().retired(retire_reason::rejected), 1U);
}

TEST_F(pool_verdict, suspect_discards_it_and_probes_the_others) {
    auto first = pool.acquire();
    auto second = pool.acquire();
    EXPECT_EQ(first->id, 1);
    answer_with(verdict::suspect);
    first.give_back();
    EXPECT_TRUE(eventually([&] { return to->closes == 1; }));
    EXPECT_EQ(pool.stats().discarded, 1U);
    EXPECT_EQ(pool.stats().retired(retire_reason::rejected), 0U);
    second.give_back();
    EXPECT_EQ(pool.acquire()->id, 2);
    EXPECT_EQ(to->probes, 1) << "opened before the suspicion";
    for (int i = 0; i < 20; ++i) EXPECT_EQ(pool.acquire()->id, 2);
    EXPECT_EQ(to->probes, 1) << "one probe is enough";
}

TEST_F(pool_verdict, suspect_without_a_probe_retires_the_others) {
    session_pool blind{scripted_without_probe{to, answer}, trusting(2)};
    auto first = blind.acquire();
    auto second = blind.acquire();
    answer_with(verdict::suspect);
    first.give_back();
    second.give_back();
    EXPECT_GT(blind.acquire()->id, 2);
    EXPECT_EQ(blind.stats().retired(retire_reason::generation), 1U);
}

TEST_F(pool_verdict, is_not_requested_for_a_discarded_resource) {
    warm(pool);
    int calls = to->releases;
    pool.acquire().discard();
    EXPECT_EQ(to->releases, calls);
}

TEST_F(pool_verdict, counts_after_the_pool_is_gone) {
    auto last = std::make_unique<session_pool>(scripted{{to}, answer}, trusting(2));
    auto suspicious = last->acquire();
    auto dirty = last->acquire();
    last.reset();
    *answer = [&](int id) { return id == 1 ? verdict::suspect : verdict::reset; };
    suspicious.give_back();
    dirty.give_back();
    EXPECT_EQ(to->closes, 2);
    EXPECT_EQ(to->present, 0);
}

TEST_F(pool_verdict, may_replace_a_bool) {
    session_pool plain{support::hooked_connector{{to}}, trusting(1)};
    struct scripted_with_hooks : scripted {
        bool before_acquire(session& s) const { return to->before_acquire(s); }
    };
    EXPECT_NO_THROW(plain.replace_connector(scripted_with_hooks{{{to}, answer}}));
    auto lease = plain.acquire();
    *answer = [](int) { return verdict::reset; };
    lease.give_back();
    EXPECT_TRUE(eventually([&] { return to->resets == 1; }));
}
