// Every feature at once, under threads, with failures, cancellations and commands: no resource is
// lent twice, no waiter is forgotten, and no retired resource comes back.
//
// The ordinary run does a small share. The whole:
//     CENOTE_RACE_OPERATIONS=20000000 build/tsan/tests/resilience_race
// does this many operations, and half as many races of acquire against retire. With a tenth of the
// number and --gtest_repeat=10 each part prints what it has done.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include <gtest/gtest.h>

#include "cenote/coroutine.hpp"
#include "cenote/observer.hpp"
#include "shell/race.hpp"
#include "support/task.hpp"

namespace cenote::race {
namespace {

/// How many operations are wanted, of all tests here together.
std::uint64_t operations_wanted() {
    // Nothing here sets a variable. NOLINTNEXTLINE(concurrency-mt-unsafe)
    const char* told = std::getenv("CENOTE_RACE_OPERATIONS");
    return told == nullptr ? times(600'000, 120'000) : std::strtoull(told, nullptr, 10);
}

void print(const std::string& line) {
    std::puts(line.c_str());
    std::fflush(stdout);  // who watches a long run wants to see it
}

// Every feature.

/// Where the features exclude each other.
struct climate {
    const char* name;
    bool lane = true;      // the fast lane is open: nothing is probed soon, no lease is told of
    bool looks = false;    // the connector looks at every lease
    bool glances = false;  // and does so quickly, wherever that is
    bool hangs = false;    // calls take until their deadline, and longer
    bool bounded = false;  // newcomers may overtake
    bool turns = false;    // threads take turns
};

/// Call timeouts where calls hang.
constexpr std::chrono::nanoseconds call_timeout = 10ms;

/// An exception that says itself what it means.
class trouble : public std::exception {
public:
    explicit trouble(verdict v) : means_(v) {}
    verdict means() const { return means_; }

private:
    verdict means_;
};

const kept_error for_good{trouble(verdict::final)};

/// How the calls of all threads and coroutines ended; the pool's own numbers must agree.
struct ledger {
    std::atomic<std::uint64_t> operations{0};
    std::atomic<std::uint64_t> acquires{0};
    std::atomic<std::uint64_t> granted{0};
    std::atomic<std::uint64_t> try_empty{0};
    std::atomic<std::uint64_t> discarded{0};
    std::atomic<std::uint64_t> detached{0};
    std::atomic<std::uint64_t> vanished{0};  // coroutines destroyed where they waited
    std::atomic<std::uint64_t> retires{0};   // retire_all and replace_connector
    std::array<std::atomic<std::uint64_t>, errc_count + 1> refused{};
    std::atomic<std::uint64_t> forgotten{0};  // who timed out though it had all the time there is
    std::atomic<std::uint64_t> strange{0};

    void grant(std::uint64_t count = 1) {
        acquires += count;
        granted += count;
    }
    void refuse(const std::error_code& why, bool patient) {
        ++acquires;
        if (why.category() != pool_category()) return void(++strange);
        ++refused[static_cast<std::size_t>(why.value())];
        if (patient && why == errc::timed_out) ++forgotten;
    }
};

/// How many sessions there may be. A smaller maximum is one when all that is too much has gone.
class ceiling {
public:
    ceiling(const census& counts, std::size_t max)
        : counts_(counts), now_(static_cast<std::int64_t>(max)), max_(max) {}

    /// Where calls hang: what an abandoned one has opened may be there as well.
    void belongs_to(const pool<session>& p) { pool_ = &p; }

    /// `call`: makes the call it is given.
    template <class T, class Call>
    void resize(pool<T>& p, std::size_t max, Call&& call) {
        std::unique_lock one_at_a_time(mutex_, std::try_to_lock);
        if (!one_at_a_time) return;
        move_to(std::max(max_, max));
        std::forward<Call>(call)([&] { p.resize(max); });
        std::uint64_t last = std::numeric_limits<std::uint64_t>::max();
        bool fits = eventually([&] {
            std::uint64_t total = p.stats().total;
            if (total > max && total > last) ++grew_;
            last = total;
            return total <= max;
        });
        EXPECT_TRUE(fits) << last << " do not become " << max;
        move_to(max);
        max_ = max;
    }

    /// How many there may be, as of some time.
    struct sight {
        std::uint64_t moves = 0;
        std::int64_t most = 0;
    };

    /// May be asked at any time.
    void look() {
        sight before = see();
        std::int64_t present = counts_.present;
        if (present <= before.most) return;
        if (const pool<session>* p = pool_; p != nullptr)
            before.most += static_cast<std::int64_t>(p->stats().abandoned);
        judge(present, before);
    }
    sight see() const {
        std::uint64_t moves = moves_;  // first: it is the last to change
        return {moves, now_};
    }
    /// `before`: seen before `s` was read.
    void look(const stats& s, const sight& before) {
        judge(static_cast<std::int64_t>(s.total), before);
    }

    void check() const {
        EXPECT_EQ(too_many_, 0u) << "more sessions than there may be";
        EXPECT_EQ(grew_, 0u) << "one was opened when there were too many";
    }

private:
    /// What was counted after `before` was seen counts only if nothing has moved since.
    void judge(std::int64_t counted, const sight& before) {
        if (counted > before.most && moves_ == before.moves) ++too_many_;
    }

    /// In this order: a reader of the old maximum sees that it has moved.
    void move_to(std::size_t max) {
        now_ = static_cast<std::int64_t>(max);
        ++moves_;
    }

    const census& counts_;
    std::atomic<const pool<session>*> pool_{nullptr};
    std::atomic<std::int64_t> now_;
    std::atomic<std::uint64_t> moves_{0};
    std::atomic<std::uint64_t> too_many_{0};
    std::atomic<std::uint64_t> grew_{0};
    std::mutex mutex_;
    std::size_t max_;  // guarded by it
};

/// What one pool and all who use it have in common.
struct scene {
    explicit scene(const climate& how) : weather(how) {}

    const climate weather;
    census counts;
    mishaps bad;
    ledger ends;
    ceiling limit{counts, first_max};
    std::atomic<std::uint64_t> connectors{0};
    std::atomic<std::size_t> busy{0};  // who still acquires

    static constexpr std::size_t first_max = 6;
    static constexpr std::size_t min_size = 2;
};

/// Moody; and some of its calls end about when they are given up.
class late_connector : public moody_connector {
public:
    explicit late_connector(scene& s)
        : moody_connector(s.counts, s.bad, ++s.connectors), scene_(s) {}

    session open() {
        session fresh = moody_connector::open();
        scene_.limit.look();
        take_long();
        if (my_dice().one_in(64)) for_good.raise();
        return fresh;
    }
    bool probe(session& s) {
        take_long();
        return moody_connector::probe(s);
    }
    void reset(session& s) {
        take_long();
        moody_connector::reset(s);
    }
    void close(session& s) {
        take_long();
        moody_connector::close(s);
    }
    static verdict classify(const std::exception_ptr& error) {
        try {
            std::rethrow_exception(error);
        } catch (const trouble& t) {
            return t.means();
        } catch (...) {
            return verdict::discard;
        }
    }

protected:
    scene& of() const { return scene_; }

private:
    void take_long() const {
        if (!scene_.weather.hangs || !my_dice().one_in(256)) return;
        std::this_thread::sleep_for(call_timeout / 10 * (5 + my_dice().below(10)));
    }

    scene& scene_;
};

/// A late_connector that looks at every lease.
class looking_connector : public late_connector {
public:
    using late_connector::late_connector;

    bool before_acquire(session& s) {
        s.touch();
        if (!my_dice().one_in(100)) return true;
        ++of().bad.rejected;
        if (my_dice().one_in(2)) throw std::runtime_error("looks bad");
        return false;
    }
    static bool before_release(session& s) {
        s.touch();
        return !my_dice().one_in(100);
    }
};

/// A late_connector that looks so quickly that any thread may do it, and returns verdicts.
class glancing_connector : public late_connector {
public:
    using late_connector::late_connector;

    bool before_acquire(session& s) noexcept {
        s.touch();
        if (!my_dice().one_in(20)) return true;
        ++of().bad.rejected;
        return false;
    }
    static verdict before_release(session& s) {
        s.touch();
        if (my_dice().one_in(100)) return verdict::discard;
        if (my_dice().one_in(100)) return verdict::reset;
        return my_dice().one_in(3) ? verdict::reset_later : verdict::keep;
    }
};

/// Calls `use` with the connector for this weather.
template <class Use>
auto with_connector(scene& all, Use use) {
    if (all.weather.glances) return use(glancing_connector(all));
    if (all.weather.looks) return use(looking_connector(all));
    return use(late_connector(all));
}

/// Counts what it is told.
class counter : public observer {
public:
    explicit counter(bool leases) : leases_(leases) {}

    void on_event(const event& what) override {
        ++counts_.at(static_cast<std::size_t>(what.kind));
        if (what.now != nullptr) check_identities(*what.now);
        if (what.kind == event_kind::opened && my_dice().one_in(64))
            throw std::runtime_error("an observer's trouble");
    }
    bool wants(event_kind kind) const override {
        return leases_ || (kind != event_kind::acquired && kind != event_kind::released);
    }
    std::uint64_t count(event_kind kind) const {
        return counts_.at(static_cast<std::size_t>(kind));
    }

private:
    const bool leases_;
    std::array<std::atomic<std::uint64_t>, event_kind_count> counts_{};
};

options everything_on(const climate& how, std::shared_ptr<counter> told) {
    const std::chrono::nanoseconds timeout = how.hangs ? call_timeout : patience;
    options o{.name = how.name,
              .max = scene::first_max,
              .min_size = scene::min_size,
              .min_idle = 1,
              .acquire_timeout = patience,
              .open_timeout = timeout,
              .probe_timeout = timeout,
              .reset_timeout = timeout,
              .close_timeout = timeout,
              .opening_max = 3,
              .open_rate = {.per_second = 50'000, .burst = 8},
              .idle_timeout = 5ms,
              .max_lifetime = 20ms,
              .max_uses = 50,
              .sweep_interval = 1ms,
              .heartbeat = 2ms,
              .leak_after = 500us,
              .line_max = 12,
              .head_start = 100us,
              .shed = {.target = 200us, .interval = 1ms},
              .refuse_deadlock = true,
              .backoff = {.first = 10us, .cap_waiting = 100us, .cap_idle = 1ms}};
    // Anything sooner than a second switches the fast lane off.
    o.probe_after_idle = how.lane ? 1s : std::chrono::nanoseconds{100us};
    o.probe_on_release = !how.lane;
    if (how.bounded) {
        o.fairness = fairness::bounded;
        o.bypass_for = 200us;
    }
    if (how.turns) o.fairness = fairness::turns;
    o.breaker = std::make_shared<threshold_breaker>(
        threshold_breaker::settings{.failures = 8, .cool_down = 1ms, .probes = 2, .successes = 2});
    o.observers = {std::move(told), std::make_shared<counter>(false)};
    return o;
}

/// Random acquire options of one borrower.
struct random_options {
    dice& random;

    acquire_options how() {
        static constexpr std::array<const char*, 3> tasks = {nullptr, "checkout", "report"};
        acquire_options o;
        if (random.one_in(2)) o.timeout = briefly();
        o.priority = static_cast<priority>(random.below(priority_count));
        o.task = tasks.at(random.below(tasks.size()));
        if (random.one_in(8))
            o.leak_after = random.one_in(2) ? 1us : std::chrono::nanoseconds{forever};
        return o;
    }
    std::chrono::nanoseconds briefly() { return std::chrono::microseconds{random.below(300)}; }
    static bool patient(const acquire_options& o) { return !o.timeout; }
};

/// Ends a lease in one of all possible ways.
void end(lease<session>& held, ledger& ends, dice& random) {
    switch (random.below(48)) {
        case 0: ++ends.discarded; return held.discard();
        case 1:
            ++ends.discarded;
            return held.discard(std::make_exception_ptr(std::runtime_error("broken")));
        case 2: ++ends.discarded; return held.discard_and_suspect();
        case 3:
        case 4: return held.mark_dirty();
        case 5: {
            ++ends.detached;
            held->stop_counting();
            session mine = held.detach();
            return mine.touch();
        }
        default: return held.give_back();
    }
}

/// A thread that acquires in every way.
class thread_user {
public:
    thread_user(pool<session>& p, scene& s, stop_cords& cords, std::size_t number)
        : pool_(p), scene_(s), ends_(s.ends), cords_(cords), number_(number), random_(number + 1) {}

    void work(std::uint64_t times) {
        for (std::uint64_t i = 0; i < times; ++i) {
            if (random_.one_in(16)) cords_.pull(random_.next());
            if (random_.one_in(64)) scene_.limit.look();
            ++ends_.operations;
            switch (random_.below(12)) {
                case 0: take_several(); break;
                case 1: call_with(); break;
                default: take_one();
            }
        }
    }

private:
    void take_one() {
        if (lease<session> held = get()) use(held);
    }

    lease<session> get() {
        std::error_code error;
        acquire_options how = options_.how();
        switch (random_.below(8)) {
            case 0: {
                lease<session> held = pool_.try_acquire();
                if (held) ends_.grant();
                else ++ends_.try_empty;
                return held;
            }
            case 1:
                return noted(pool_.acquire({.timeout = options_.briefly()}, error), error, false);
            case 2: {
                std::stop_token stop = cords_.take(number_);
                auto held = pool_.acquire({.timeout = options_.briefly(), .stop = stop}, error);
                return noted(std::move(held), error, false);
            }
            case 3: return acquire_or_throw(how);
            case 4: how.priority = priority::reserved; break;
            case 5: return noted(pool_.acquire({}, error), error, true);
            default: break;
        }
        std::stop_token stop = cords_.take(number_);
        if (random_.one_in(2)) how.stop = stop;
        auto held = pool_.acquire(how, error);
        return noted(std::move(held), error, random_options::patient(how));
    }

    lease<session> noted(lease<session> held, const std::error_code& error, bool patient) {
        if (held) ends_.grant();
        else refused(error, patient);
        return held;
    }

    void refused(const std::error_code& why, bool patient) {
        ends_.refuse(why, patient);
        if (why == errc::unavailable) std::this_thread::yield();  // who opens it again may run
    }

    lease<session> acquire_or_throw(const acquire_options& how) {
        try {
            lease<session> held = pool_.acquire(how);
            ends_.grant();
            return held;
        } catch (const pool_error& e) {
            refused(e.code(), random_options::patient(how));
            if (std::string_view(e.what()).empty()) ++ends_.strange;
            return {};
        }
    }

    void use(lease<session>& held) {
        {
            user in_use(held);
            if (random_.one_in(64)) std::this_thread::yield();
            if (random_.one_in(8)) take_another();
        }
        end(held, ends_, random_);
    }

    /// While it holds one. Briefly: two who do so may wait for each other.
    void take_another() {
        ++ends_.operations;
        std::error_code error;
        auto second =
            noted(pool_.acquire({.timeout = 10 * options_.briefly()}, error), error, false);
        if (!second) return;
        user in_use(second);
    }

    void take_several() {
        std::size_t count = 2 + random_.below(2);
        acquire_options how = options_.how();
        std::error_code error;
        std::vector<lease<session>> held;
        try {
            held = pool_.acquire_many(count, how, error);
        } catch (const std::invalid_argument&) {
            return;  // more than the present maximum
        }
        if (held.empty()) return refused(error, random_options::patient(how));
        if (held.size() != count) ++ends_.strange;
        ends_.grant(held.size());
        for (lease<session>& each : held) {
            {
                user in_use(each);
            }
            end(each, ends_, random_);
        }
    }

    void call_with() {
        constexpr std::array verdicts = {verdict::keep, verdict::reset, verdict::discard,
                                         verdict::suspect};
        bool called = false;
        try {
            pool_.with([&](session& s) {
                called = true;
                s.touch();
                if (random_.one_in(16)) throw trouble(verdicts.at(random_.below(verdicts.size())));
            });
            ends_.grant();
        } catch (const trouble& t) {
            ends_.grant();
            if (t.means() != verdict::keep && t.means() != verdict::reset) ++ends_.discarded;
        } catch (const pool_error& e) {
            if (called) ++ends_.strange;
            refused(e.code(), true);
        }
    }

    pool<session>& pool_;
    scene& scene_;
    ledger& ends_;
    stop_cords& cords_;
    std::size_t number_;
    dice random_;
    random_options options_{random_};
};

/// A thread with coroutines that acquire: here, or resumed wherever a lease is let go of. Those
/// that wait for this thread may be destroyed meanwhile.
class loop_user {
public:
    loop_user(pool<session>& p, scene& s, stop_cords& cords, std::size_t number)
        : pool_(p), ends_(s.ends), cords_(cords), number_(number), random_(number + 1) {}

    void work(std::uint64_t times) {
        left_ = times;
        std::array<coroutine_slot, 6> slots;
        for (coroutine_slot& each : slots) start_borrower(each);
        while (!std::ranges::all_of(slots, &coroutine_slot::done)) {
            if (!home_.run_one()) std::this_thread::yield();
            if (random_.one_in(16)) cords_.pull(random_.next());
            if (coroutine_slot& one = slots.at(random_.below(slots.size()));
                one.waits_here && random_.one_in(64)) {
                one.borrower.destroy();
                ++ends_.acquires;
                ++ends_.vanished;
                start_borrower(one);
            }
        }
    }

private:
    struct coroutine_slot {
        support::task borrower;
        bool waits_here = false;
        bool done = false;
    };

    void start_borrower(coroutine_slot& s) {
        s.waits_here = false;
        s.borrower = borrow(s);
        s.borrower.start();
    }

    /// At home whenever it begins an acquire, and at its end.
    support::task borrow(coroutine_slot& mine) {
        while (left_ > 0) {
            --left_;
            ++ends_.operations;
            acquire_options how = options_.how();
            std::error_code error;
            std::stop_token stop = cords_.take(number_);
            how.stop = stop;
            lease<session> held;
            bool away = random_.one_in(2);
            if (away) {
                held = co_await pool_.co_acquire(how, error);
            } else {
                mine.waits_here = true;
                held = co_await pool_.co_acquire(how, error).resumed_by(support::on(home_));
                mine.waits_here = false;
            }
            if (held) ends_.grant();
            else ends_.refuse(error, random_options::patient(how));
            if (held) {
                held->begin_use();
                if (my_dice().one_in(8)) {
                    co_await home_.yield();
                    away = false;
                }
                held->end_use();
                end(held, ends_, my_dice());
            }
            if (away) co_await home_.yield();
        }
        mine.done = true;
    }

    pool<session>& pool_;
    ledger& ends_;
    stop_cords& cords_;
    std::size_t number_;
    dice random_;
    random_options options_{random_};
    support::loop home_;
    std::uint64_t left_ = 0;
};

/// A thread that commands all that can be commanded.
class administrator {
public:
    administrator(pool<session>& p, scene& s, std::size_t number)
        : pool_(p), scene_(s), random_(number + 1) {}

    void work() {
        while (scene_.busy > 0) {
            ++scene_.ends.operations;
            command();
            look();
            std::this_thread::sleep_for(std::chrono::microseconds{random_.below(200)});
        }
    }

private:
    void command() {
        switch (random_.below(16)) {
            case 0: ++scene_.ends.retires; return pool_.retire_all();
            case 1: return pool_.suspect_all();
            case 2: return replace();
            case 3: return pause();
            case 4:
            case 5: return resize();
            case 6: return turn_the_breaker();
            case 7:
            case 8:
            case 9: return look_at_leases();
            case 10: return void(pool_.wait_ready(std::chrono::microseconds{random_.below(100)}));
            case 11:
                if (pool_.retry_after() < 0ns) ++scene_.ends.strange;
                return;
            default: return;  // who only looks
        }
    }

    void resize() {
        std::size_t max = scene::min_size + 1 + random_.below(9);
        scene_.limit.resize(pool_, max, [](auto call) { call(); });
    }

    void pause() {
        pool_.pause();
        look();
        pool_.resume();
    }

    void replace() {
        ++scene_.ends.retires;
        with_connector(scene_, [&](auto next) { pool_.replace_connector(std::move(next)); });
    }

    void turn_the_breaker() {
        pool_.deactivate();
        look();
        if (random_.one_in(2)) pool_.recover(1 + random_.below(2));
        else pool_.activate();
    }

    void look_at_leases() {
        std::vector<lease_info> all = pool_.leases();
        for (const lease_info& each : all) {
            bool known = each.task == nullptr || std::string_view(each.task) == "checkout" ||
                         std::string_view(each.task) == "report";
            if (!known || each.held < 0ns) ++scene_.ends.strange;
        }
    }

    void look() {
        ceiling::sight before = scene_.limit.see();
        stats s = pool_.stats();
        check_identities(s);
        scene_.limit.look(s, before);
        scene_.limit.look();
    }

    pool<session>& pool_;
    scene& scene_;
    dice random_;
};

/// Every acquire has ended once, as the pool has counted it.
void check_ends(const stats& s, const scene& all) {
    const ledger& ends = all.ends;
    check_sums(s);
    EXPECT_EQ(ends.strange, 0u);
    EXPECT_EQ(ends.forgotten, 0u) << "a waiter was forgotten";
    EXPECT_EQ(s.waiting, 0u);
    EXPECT_EQ(s.leased, 0u);
    EXPECT_EQ(s.try_empty, ends.try_empty);
    EXPECT_EQ(s.discarded, ends.discarded);
    EXPECT_EQ(s.detached, ends.detached);
    // What before_acquire sends back was granted, too; with it all that came at once.
    std::uint64_t sent_back = s.acquires - ends.acquires;
    EXPECT_GE(sent_back, all.bad.rejected);
    EXPECT_TRUE(all.weather.looks || sent_back == 0) << sent_back;
    // The end of a destroyed coroutine was told to no caller.
    std::uint64_t untold = s.granted - ends.granted - sent_back;
    EXPECT_LE(untold, ends.vanished);
    for (std::size_t i = 1; i <= errc_count; ++i) {
        std::uint64_t refused = s.refused(static_cast<errc>(i));
        EXPECT_GE(refused, ends.refused.at(i)) << make_error_code(static_cast<errc>(i)).message();
        untold += refused - ends.refused.at(i);
    }
    EXPECT_EQ(untold, ends.vanished);
}

/// Everything that was opened is gone.
void check_empty(const stats& s, const scene& all) {
    EXPECT_EQ(s.total, 0u);
    EXPECT_EQ(s.opened, s.closed + s.detached);
    EXPECT_EQ(all.bad.strangers, 0u) << "tended by another connector than opened it";
    all.limit.check();
    // Where calls hang, some may fail before a worker has made them.
    EXPECT_LE(all.bad.opens, s.opened + s.open_failed);
    if (all.weather.hangs) return;
    EXPECT_EQ(s.abandoned, 0u);
    EXPECT_EQ(all.bad.opens, s.opened + s.open_failed);
}

/// The observers have heard of everything.
void check_told(const stats& s, const counter& told) {
    EXPECT_EQ(s.events_lost, 0u);
    EXPECT_EQ(told.count(event_kind::opened), s.opened);
    EXPECT_EQ(told.count(event_kind::open_failed), s.open_failed);
    EXPECT_EQ(told.count(event_kind::closed), s.closed);
    EXPECT_EQ(told.count(event_kind::discarded), s.discarded);
    EXPECT_EQ(told.count(event_kind::detached), s.detached);
    EXPECT_EQ(
        told.count(event_kind::retired),
        std::accumulate(s.retired_by_reason.begin(), s.retired_by_reason.end(), std::uint64_t{0}));
    EXPECT_GE(told.count(event_kind::leak_suspected), s.leaks);
    EXPECT_EQ(told.count(event_kind::closing), 1u);
    EXPECT_EQ(told.count(event_kind::closed_pool), 1u);
    if (told.wants(event_kind::acquired)) {
        EXPECT_EQ(told.count(event_kind::acquired), s.granted);
        EXPECT_EQ(told.count(event_kind::released), s.released);
    }
}

class every_feature : public testing::TestWithParam<climate> {
protected:
    static constexpr std::size_t loops = 2;
    static constexpr std::size_t administrators = 2;

    /// Until every thread has done its share.
    static void let_loose(pool<session>& p, scene& all, std::uint64_t operations) {
        const std::size_t users = oversubscribed(3);
        all.busy = users + loops;
        stop_cords cords(users + loops);
        const std::uint64_t each = operations / (users + loops);
        party(users + loops + administrators, [&](std::size_t number) {
            if (number >= users + loops) return administrator(p, all, number).work();
            if (number >= users) loop_user(p, all, cords, number).work(each);
            else thread_user(p, all, cords, number).work(each);
            --all.busy;
        });
    }
};

TEST_P(every_feature, forgets_no_waiter_and_leaves_nothing_behind) {
    const std::size_t threads_before = threads_of_this_process();
    scene all(GetParam());
    auto told = std::make_shared<counter>(!all.weather.lane);
    stats s;
    {
        auto p = with_connector(all, [&](auto connector) {
            return std::make_unique<pool<session>>(std::move(connector),
                                                   everything_on(all.weather, told));
        });
        all.limit.belongs_to(*p);
        let_loose(*p, all, operations_wanted() / 4);
        EXPECT_EQ(p->close(patience), 0u);
        s = p->stats();
    }
    check_ends(s, all);
    check_empty(s, all);
    check_told(s, *told);
    check_nothing_left(all.counts, threads_before);
    print(std::string(all.weather.name) + ": " + std::to_string(all.ends.operations) +
          " operations, " + std::to_string(s.granted) + " leases, " +
          std::to_string(all.ends.retires) + " retirements, " + std::to_string(s.opened) +
          " opened, " + std::to_string(s.abandoned) + " calls abandoned, " +
          std::to_string(s.leaks) + " leaks suspected");
}

INSTANTIATE_TEST_SUITE_P(
    all, every_feature,
    testing::Values(climate{.name = "fast_lane"}, climate{.name = "hanging_calls", .hangs = true},
                    climate{.name = "looking_and_bounded", .looks = true, .bounded = true},
                    climate{.name = "glancing", .looks = true, .glances = true},
                    climate{.name = "taking_turns", .turns = true},
                    climate{.name = "probing", .lane = false, .looks = true, .hangs = true}),
    [](const auto& test) { return test.param.name; });

// Acquire against retire.

/// A session that knows which suspicion it was last cleared of.
struct stamped {
    session inner;
    std::uint64_t proven;  // not atomic on purpose, like what is in the session
};

/// Commands of one kind: the number of the last that was begun, and of the last that has returned.
struct command_book {
    std::atomic<std::uint64_t> begun{0};
    std::atomic<std::uint64_t> returned{0};
};

/// The commands, and what must hold for later acquires.
struct commands {
    command_book retire;                   // what was opened before is not lent again
    command_book suspect;                  // what was not probed since is not lent
    std::atomic<std::uint64_t> paused{0};  // nothing is lent: the number of the pause, or zero
    std::atomic<std::uint64_t> begun{0};   // how many of all kinds
    std::atomic<std::uint64_t> ended{0};

    template <class Call>
    void carry_out(Call&& call) {
        ++begun;
        std::forward<Call>(call)();
        ++ended;
    }
    template <class Call>
    void carry_out(command_book& kind, Call&& call) {
        std::uint64_t mine = ++kind.begun;
        carry_out(std::forward<Call>(call));
        std::uint64_t last = kind.returned;
        while (last < mine && !kind.returned.compare_exchange_weak(last, mine)) {
        }
    }
};

/// Opens and probes well, and stamps.
class stamping_connector {
public:
    stamping_connector(census& counts, const commands& given) : counts_(counts), given_(given) {}

    stamped open() {
        std::uint64_t proven = given_.suspect.begun;
        counts_.arrive();
        return {.inner = session(counts_, given_.retire.begun), .proven = proven};
    }
    bool probe(stamped& s) {
        s.proven = given_.suspect.begun;
        s.inner.touch();
        return true;
    }

private:
    census& counts_;
    const commands& given_;
};

/// How often they met, and how often that went wrong.
struct encounters {
    std::atomic<std::uint64_t> races{0};  // from acquire to release a command began or returned
    std::atomic<std::uint64_t> acquires{0};
    std::atomic<std::uint64_t> retired{0};  // lent though it had been retired
    std::atomic<std::uint64_t> suspect{0};  // though it was suspect
    std::atomic<std::uint64_t> paused{0};   // though the pool was paused
    std::atomic<std::uint64_t> refused{0};  // though there was all the time there is
};

/// A thread that acquires, and every now and then commands. In between the fast lane opens again.
class contender {
public:
    contender(pool<stamped>& p, commands& given, encounters& seen, ceiling& limit,
              std::size_t number)
        : pool_(p),
          given_(given),
          seen_(seen),
          limit_(limit),
          number_(number),
          random_(number + 1) {}

    void work(std::uint64_t races) {
        while (seen_.races < races) {
            std::uint64_t met = 0;
            constexpr std::uint64_t at_a_time = 32;
            for (std::uint64_t i = 0; i < at_a_time; ++i) {
                if (random_.one_in(16)) command();
                met += race() ? 1u : 0u;
            }
            seen_.races += met;
            seen_.acquires += at_a_time;
            limit_.look();
        }
    }

private:
    /// One lease. True: it met a command.
    bool race() {
        const std::uint64_t begun = given_.begun;
        const std::uint64_t ended = given_.ended;
        const std::uint64_t retired = given_.retire.returned;
        const std::uint64_t suspect = given_.suspect.returned;
        const std::uint64_t paused = given_.paused;
        if (lease<stamped> held = get()) {
            if (paused != 0 && given_.paused == paused) ++seen_.paused;
            held->inner.begin_use();
            if (held->inner.generation() < retired) ++seen_.retired;
            if (held->proven < suspect) ++seen_.suspect;
            if (random_.one_in(256)) std::this_thread::yield();
            held->inner.end_use();
        }
        return given_.begun != begun || given_.ended != ended;
    }

    lease<stamped> get() {
        if (random_.one_in(4)) return pool_.try_acquire();
        std::error_code error;
        lease<stamped> held = pool_.acquire({}, error);
        if (!held) ++seen_.refused;
        return held;
    }

    /// Some threads have a lease of what they retire or suspect. Only the first thread pauses: no
    /// other one may resume meanwhile.
    void command() {
        lease<stamped> held;
        switch (random_.below(number_ == 0 ? 7 : 6)) {
            case 0: held = pool_.try_acquire(); [[fallthrough]];
            case 1: return given_.carry_out(given_.retire, [&] { pool_.retire_all(); });
            case 2: held = pool_.try_acquire(); [[fallthrough]];
            case 3: return given_.carry_out(given_.suspect, [&] { pool_.suspect_all(); });
            case 4:
            case 5: return resize();
            default: return pause();
        }
    }

    void resize() {
        limit_.resize(pool_, 1 + random_.below(6),
                      [&](auto call) { given_.carry_out(std::move(call)); });
    }

    void pause() {
        given_.carry_out([&] { pool_.pause(); });
        given_.paused = ++pauses_;
        std::this_thread::yield();
        given_.paused = 0;
        given_.carry_out([&] { pool_.resume(); });
    }

    pool<stamped>& pool_;
    commands& given_;
    encounters& seen_;
    ceiling& limit_;
    std::size_t number_;
    dice random_;
    std::uint64_t pauses_ = 0;
};

/// Threads, who may overtake, and which part of all races.
struct contest {
    fairness between;
    std::size_t factor;
    std::uint64_t quarters;
};

const char* name_of(fairness between) {
    if (between == fairness::strict) return "strict";
    return between == fairness::bounded ? "bounded" : "turns";
}

class acquire_against_retire : public testing::TestWithParam<contest> {};

TEST_P(acquire_against_retire, never_lends_what_was_retired_before) {
    constexpr std::size_t max = 3;
    const contest how = GetParam();
    const std::uint64_t wanted = operations_wanted() / 2 / 4 * how.quarters;
    const std::size_t threads = oversubscribed(how.factor);
    const std::size_t threads_before = threads_of_this_process();
    census counts;
    ceiling limit(counts, max);
    commands given;
    encounters seen;
    stats s;
    {
        pool<stamped> p{stamping_connector(counts, given),
                        {.max = max,
                         .acquire_timeout = patience,
                         .opening_max = max,
                         .sweep_interval = 1ms,
                         .fairness = how.between,
                         .bypass_for = 100us}};
        party(threads,
              [&](std::size_t number) { contender(p, given, seen, limit, number).work(wanted); });
        EXPECT_EQ(p.close(patience), 0u);
        s = p.stats();
    }
    check_sums(s);
    limit.check();
    EXPECT_EQ(seen.retired, 0u) << "lent what had been retired";
    EXPECT_EQ(seen.suspect, 0u) << "lent what was suspect";
    EXPECT_EQ(seen.paused, 0u) << "lent in a paused pool";
    EXPECT_EQ(seen.refused, 0u) << "a waiter was forgotten";
    check_nothing_left(counts, threads_before);
    print(std::to_string(seen.races) + " races in " + std::to_string(seen.acquires) +
          " acquires against " + std::to_string(given.begun) + " commands, of these " +
          std::to_string(given.retire.begun) + " retire_all and " +
          std::to_string(given.suspect.begun) + " suspect_all");
}

INSTANTIATE_TEST_SUITE_P(all, acquire_against_retire,
                         testing::Values(contest{fairness::strict, 4, 3},
                                         contest{fairness::bounded, 2, 1},
                                         contest{fairness::turns, 4, 1}),
                         [](const auto& test) { return name_of(test.param.between); });

}  // namespace
}  // namespace cenote::race
