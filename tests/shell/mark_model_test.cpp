// The marks of mark.hpp in every interleaving: no thread touches a keeper after it was freed.
//
// The keeper is reduced to a shelf, a lock and references. A thread puts the last resource on the
// shelf while another one closes the pool, collects the resource, and frees the keeper.
#include <array>
#include <cstdio>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/detail/shelf.hpp"
#include "shell/interleave.hpp"

namespace cenote::interleave {
namespace {

enum class slip { none, no_mark, marks_after_the_put, unmarks_before_the_look, does_not_wait };

/// Set when the keeper's memory is freed. Touching it afterwards is a failure.
bool& gone() {
    static bool it_is = false;
    return it_is;
}

void touch_memory() { fail_unless(!gone(), "a keeper was touched after it was freed"); }

template <class T>
class mortal_atomic {
public:
    explicit mortal_atomic(T value) : value_(value) {}

    T load() const { return alive(value_.load()); }
    T exchange(T value) { return alive(value_.exchange(value)); }
    bool compare_exchange_strong(T& expected, T value) {
        return alive(value_.compare_exchange_strong(expected, value));
    }
    T fetch_or(T bits) { return alive(value_.fetch_or(bits)); }
    T fetch_and(T bits) { return alive(value_.fetch_and(bits)); }
    T fetch_add(T n) { return alive(value_.fetch_add(n)); }
    T fetch_sub(T n) { return alive(value_.fetch_sub(n)); }

private:
    template <class Result>
    static Result alive(Result r) {
        touch_memory();
        return r;
    }
    model_atomic<T> value_;
};

struct mortal_sync {
    template <class T>
    using atomic = mortal_atomic<T>;
};

/// One thread's mark; outlives every keeper.
class mark {
public:
    void set() {
        touch("mark", this, true);
        clear_ = false;
    }
    void take_away() {
        touch("unmark", this, true);
        clear_ = true;
    }
    void wait_until_clear() {
        step({.what = "wait for the mark", .where = this, .writes = false, .until = &clear_});
    }

private:
    bool clear_ = true;
};

struct thing {
    std::size_t number = 0;
};

/// `held` threads end a lease each while another thread destroys the pool.
struct plot {
    const char* name;
    std::size_t held;
};

class world {
public:
    world(const plot& what, slip planted)
        : planted_(planted), shelf_(1, 0), refs_(2), left_(what.held) {
        gone() = false;
        for (std::size_t i = 0; i < what.held; ++i)
            threads.emplace_back([this, i] { put(i, &things_[i]); });
        threads.emplace_back([this] { leave(); });
    }

    std::string judge() const {
        if (left_ > 0) return "a resource was never closed";
        return gone() ? "" : "the keeper was never freed";
    }

    std::vector<std::function<void()>> threads;

private:
    void put(std::size_t me, thing* r) {
        begin_call("put");
        if (planted_ != slip::no_mark && planted_ != slip::marks_after_the_put) marks_[me].set();
        if (planted_ == slip::unmarks_before_the_look) marks_[me].take_away();
        thing* back = shelf_.put(0, r);
        if (planted_ == slip::marks_after_the_put) marks_[me].set();
        if (back != nullptr) hand_in();
        if (planted_ != slip::no_mark && planted_ != slip::unmarks_before_the_look)
            marks_[me].take_away();
    }

    void hand_in() {
        lock();
        unlock(close_one());
    }

    void leave() {
        begin_call("leave");
        lock();
        shelf_.raise(detail::pool_closed);
        bool last = false;
        if (shelf_.collect(0) != nullptr) last = close_one();
        unlock(last);
        drop();
    }

    void lock() {
        mutex_.lock();
        touch_memory();
    }
    /// The end of enter(): a reference for the way out, and the one of all resources goes with the
    /// last of them.
    void unlock(bool last) {
        refs_.fetch_add(1);
        touch_memory();
        mutex_.unlock();
        if (last) drop();
        drop();
    }
    bool close_one() { return --left_ == 0; }

    void drop() {
        if (refs_.fetch_sub(1) != 1) return;
        std::size_t me = explorer::current()->fiber_number();
        for (std::size_t i = 0; i < marks_.size(); ++i)
            if (i != me && planted_ != slip::does_not_wait) marks_[i].wait_until_clear();
        touch("free", nullptr, true);
        fail_unless(!gone(), "the keeper was freed twice");
        gone() = true;
    }

    slip planted_;
    detail::basic_shelf<thing, mortal_sync> shelf_;
    model_mutex mutex_;
    mortal_atomic<int> refs_;  // the pool's, and one of all resources
    std::size_t left_;
    std::array<thing, 2> things_{};
    std::array<mark, explorer::most_fibers> marks_;
};

verdict_of_search search(const plot& what, slip planted) {
    explorer all(explorer::no_bound, 1'000'000);
    return all.search([&] { return std::make_unique<world>(what, planted); });
}

constexpr plot plots[] = {{"one_lease", 1}, {"two_leases", 2}};

TEST(mark_model, keeps_the_keeper_alive_in_every_interleaving) {
    for (const plot& what : plots) {
        verdict_of_search all = search(what, slip::none);
        EXPECT_EQ(all.broken, "") << what.name << '\n' << all.schedule;
        EXPECT_TRUE(all.complete) << what.name;
        std::printf("%s: %llu runs\n", what.name, static_cast<unsigned long long>(all.runs));
    }
}

struct named_slip {
    slip planted;
    const char* name;
};

void PrintTo(const named_slip& what, std::ostream* out) { *out << what.name; }

class mark_flaw : public testing::TestWithParam<named_slip> {};

TEST_P(mark_flaw, is_found) {
    for (const plot& what : plots) {
        verdict_of_search found = search(what, GetParam().planted);
        if (found.broken.empty()) continue;
        std::printf("in %s after %llu runs: %s\n%s", what.name,
                    static_cast<unsigned long long>(found.runs + found.pruned),
                    found.broken.c_str(), found.schedule.c_str());
        return;
    }
    FAIL() << "no plot finds it";
}

constexpr named_slip slips[] = {
    {slip::no_mark, "no_mark"},
    {slip::marks_after_the_put, "marks_after_the_put"},
    {slip::unmarks_before_the_look, "unmarks_before_the_look"},
    {slip::does_not_wait, "does_not_wait"},
};
INSTANTIATE_TEST_SUITE_P(all, mark_flaw, testing::ValuesIn(slips),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace cenote::interleave
