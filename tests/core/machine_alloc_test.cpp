// Once the line has had its length, the machine allocates nothing: every operator new is counted.
#include <atomic>
#include <cstdlib>
#include <new>

#include "core/machine_dialogue.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CENOTE_COUNTS_NEW 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CENOTE_COUNTS_NEW 0
#endif
#endif
#ifndef CENOTE_COUNTS_NEW
#define CENOTE_COUNTS_NEW 1
#endif

namespace {
std::atomic<std::size_t> news{0};
}

#if CENOTE_COUNTS_NEW
void* operator new(std::size_t size) {
    ++news;
    void* memory = std::malloc(size == 0 ? 1 : size);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace cenote::core {
namespace {

/// One cycle: four lease, four wait, one of these cancels, one times out; all come back.
void cycle(machine& m, instant& now, actions& out) {
    std::array<waiter_id, 8> waiters;
    for (std::uint64_t who = 0; who < waiters.size(); ++who)
        waiters[who] = m.acquire(now, {.deadline = now + 5ms, .cookie = who}, out).waiter;
    m.cancel(now, waiters[6], out);
    m.release(now, 0, condition::dirty, 0, 1ms, out);
    m.on_reset(now, 0, m.look(0).call, outcome::ok, out);
    m.release(now, 1, condition::clean, 0, 1ms, out);
    now += 5ms;
    m.tick(now, out);
    for (slot_id id = 0; id < m.max(); ++id)
        if (m.look(id).state == slot_state::leased)
            m.release(now, id, condition::clean, 0, 1ms, out);
    m.try_acquire(now, out);
    for (slot_id id = 0; id < m.max(); ++id)
        if (m.look(id).state == slot_state::leased)
            m.release(now, id, condition::clean, 0, 1ms, out);
    m.check(now);
    out.clear();
}

TEST(machine_alloc, needs_no_memory_in_the_steady_state) {
    instant now{};
    machine m({.max = 4}, {.probe = true, .reset = true}, true, 1, now);
    actions out;
    m.start(now, out);
    for (std::uint64_t who = 0; who < 4; ++who) m.acquire(now, {.cookie = who}, out);
    for (slot_id id = 0; id < 4; ++id) m.on_open(now, id, m.look(id).call, outcome::ok, out);
    for (slot_id id = 0; id < 4; ++id) m.release(now, id, condition::clean, 0, 1ms, out);
    out.clear();
    for (int i = 0; i < 10; ++i) cycle(m, now, out);
    std::size_t before = news;
    for (int i = 0; i < 10'000; ++i) cycle(m, now, out);
    EXPECT_EQ(news - before, 0u);
    stats s;
    m.read(s);
    EXPECT_GT(s.waited, 10'000u);
    EXPECT_GT(s.refused(errc::timed_out), 5'000u);
    EXPECT_EQ(s.refused(errc::canceled), 10'010u);
}

TEST(machine_alloc, needs_no_memory_for_another_maximum_once_it_has_the_places) {
    instant now{};
    machine m({.max = 4}, {.probe = true, .reset = true}, true, 1, now);
    actions out;
    m.start(now, out);
    auto round = [&](std::size_t max) {
        for (std::uint64_t who = 0; who < 4; ++who)
            m.acquire(now, {.deadline = now + 5ms, .cookie = who}, out);
        m.resize(now, max, out);
        for (slot_id id = 0; id < m.places(); ++id) {
            std::uint64_t call = m.look(id).call;
            if (m.look(id).state == slot_state::opening) m.on_open(now, id, call, outcome::ok, out);
            if (m.look(id).state == slot_state::leased)
                m.release(now, id, condition::clean, 0, 1ms, out);
            if (m.look(id).state == slot_state::closing)
                m.on_close(now, id, m.look(id).call, outcome::ok, out);
        }
        now += 5ms;
        m.tick(now, out);
        m.check(now);
        out.clear();
    };
    m.make_places(9, out);
    for (std::size_t max : {4u, 9u, 1u, 2u}) round(max);
    std::size_t before = news;
    for (int i = 0; i < 1000; ++i)
        for (std::size_t max : {4u, 9u, 1u, 2u}) {
            m.make_places(max, out);
            round(max);
        }
    EXPECT_EQ(news - before, 0u);
    stats s;
    m.read(s);
    EXPECT_GT(s.retired(retire_reason::surplus), 1000u);
}

TEST(machine_alloc, sees_an_allocation_where_there_is_one) {
    if (!CENOTE_COUNTS_NEW) GTEST_SKIP() << "the sanitizer has its own operator new";
    std::size_t before = news;
    actions out;
    out.reserve(100);
    EXPECT_GT(news - before, 0u);
}

TEST(machine_alloc, needs_no_memory_for_opens_that_hang_and_make_way) {
    instant now{};
    machine m({.max = 20,
               .open_timeout = 1h,
               .opening_max = 3,
               .backoff = {.first = 200ms, .cap_waiting = 200ms, .cap_idle = 200ms}},
              {}, false, 1, now);
    actions out;
    for (std::uint64_t who = 0; who < 8; ++who)
        m.acquire(now, {.deadline = now + 1h, .cookie = who}, out);
    std::size_t before = news;
    for (int i = 0; i < 100; ++i) {
        for (const action& a : out)
            if (a.what == action::kind::call) m.begun(now, a.slot, a.call);
        out.clear();
        now += 200ms;
        m.tick(now, out);
        m.check(now);
    }
    EXPECT_EQ(news - before, 0u);
    stats s;
    m.read(s);
    EXPECT_EQ(s.abandoned, pacer::most_strays);
}

}  // namespace
}  // namespace cenote::core
