// A small model checker: runs every interleaving of a few threads and reports one that fails.
//
// The threads are fibers. Each operation on a model atomic or a model lock is a point where another
// fiber may go on; everything between two such points is one step. The search is depth first, each
// run replaying the choices of the one before up to the last that has an alternative. The model is
// sequentially consistent: a fit for code that uses nothing weaker.
//
// Two ways to cut the search down:
//
// - Sleep sets (exhaustive): of two runs that differ only in the order of neighboring
//   steps that do not touch the same place, one is enough. Every outcome is still seen.
// - A bound on preemptions (not exhaustive): how often per run a fiber that could go on is
//   interrupted. Most bugs need two.
//
// What a step reads and writes besides its one operation must be guarded by a model lock, or be
// announced with touch().
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <ucontext.h>
#include <utility>
#include <vector>

namespace cenote::interleave {

/// What a fiber is about to do.
struct operation {
    const char* what = "";
    const char* within = "";      // which call it is a part of
    const void* where = nullptr;  // null: everything
    bool writes = false;
    const bool* until = nullptr;  // it can only be done while this is true

    bool enabled() const { return until == nullptr || *until; }
    bool depends_on(const operation& other) const {
        if (where == nullptr || other.where == nullptr) return true;
        return where == other.where && (writes || other.writes);
    }
};

/// How far a search went.
struct verdict_of_search {
    std::uint64_t runs = 0;    // to their end
    std::uint64_t pruned = 0;  // cut short: the same as an earlier one
    bool complete = false;     // nothing was left out
    std::string broken;        // empty: all is well
    std::string schedule;      // of the run that broke
};

class explorer {
public:
    static constexpr std::size_t most_fibers = 4;
    static constexpr unsigned no_bound = ~0u;

    /// `preemptions`: no_bound for an exhaustive search.
    explicit explorer(unsigned preemptions, std::uint64_t most_runs)
        : bound_(preemptions), most_runs_(most_runs) {
        for (fiber& each : fibers_) each.stack = std::make_unique<char[]>(stack_size);
    }
    explorer(const explorer&) = delete;
    explorer& operator=(const explorer&) = delete;

    /// `make` builds a world. A world has `std::vector<std::function<void()>> threads`, and
    /// `std::string judge()`, which is called when no fiber can go on.
    template <class Make>
    verdict_of_search search(Make&& make) {
        verdict_of_search result;
        do {
            auto world = make();
            run(world->threads);
            if (cut_) {
                ++result.pruned;
            } else {
                ++result.runs;
                if (broken_.empty()) broken_ = world->judge();
            }
            if (!broken_.empty()) {
                result.broken = broken_;
                result.schedule = tell_schedule();
                return result;
            }
            if (result.runs >= most_runs_) return result;
        } while (backtrack());
        result.complete = bound_ == no_bound;
        return result;
    }

    /// The explorer whose fiber is running, if one is.
    static explorer*& current() {
        static explorer* running = nullptr;
        return running;
    }
    std::size_t fiber_number() const { return now_; }

    /// A point where another fiber may go on.
    void step(const operation& next) {
        fibers_[now_].next = next;
        fibers_[now_].next.within = fibers_[now_].within;
        pass_on();
    }

    /// Names the call that the running fiber is in, for the schedule.
    void begin(const char* call) { fibers_[now_].within = call; }

    /// The property that is checked does not hold.
    void fail(const std::string& why) {
        if (broken_.empty()) broken_ = why;
    }

private:
    static constexpr std::size_t stack_size = 32 * 1024;
    static constexpr std::size_t no_fiber = most_fibers;
    static constexpr std::size_t most_steps = 1000;  // of one run; ten times what any needs
    using set = unsigned;                            // of fibers, a bit each

    struct fiber {
        ucontext_t context{};
        std::unique_ptr<char[]> stack;
        operation next;
        const char* within = "";
        std::function<void()>* body = nullptr;
        bool done = false;
    };
    /// One choice.
    struct choice {
        std::size_t chosen = 0;
        set possible = 0;
        set asleep = 0;
        set tried = 0;
        operation step;
    };

    static set bit(std::size_t n) { return 1u << n; }

    void run(std::vector<std::function<void()>>& bodies) {
        size_ = bodies.size();
        depth_ = 0;
        preempted_ = 0;
        asleep_ = 0;
        cut_ = false;
        broken_.clear();
        current() = this;
        starting_ = true;
        for (now_ = 0; now_ < size_; ++now_) start(fibers_[now_], bodies[now_]);
        starting_ = false;
        now_ = no_fiber;
        std::size_t first = choose();
        if (first != no_fiber) {
            now_ = first;
            swapcontext(&home_, &fibers_[first].context);
        }
        current() = nullptr;
    }

    /// Lets a fiber run up to its first operation.
    void start(fiber& f, std::function<void()>& body) {
        f.done = false;
        f.body = &body;
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack.get();
        f.context.uc_stack.ss_size = stack_size;
        f.context.uc_link = nullptr;
        makecontext(&f.context, &explorer::enter, 0);
        swapcontext(&home_, &f.context);
    }

    static void enter() {
        explorer& self = *current();
        fiber& me = self.fibers_[self.now_];
        (*me.body)();
        me.done = true;
        self.pass_on();
    }

    void pass_on() {
        std::size_t me = now_;
        if (starting_) {
            swapcontext(&fibers_[me].context, &home_);
            return;
        }
        std::size_t next = choose();
        if (next == me) return;
        if (next == no_fiber) {
            swapcontext(&fibers_[me].context, &home_);
        } else {
            now_ = next;
            swapcontext(&fibers_[me].context, &fibers_[next].context);
        }
    }

    set enabled() const {
        set result = 0;
        for (std::size_t i = 0; i < size_; ++i)
            if (!fibers_[i].done && fibers_[i].next.enabled()) result |= bit(i);
        return result;
    }

    /// The fiber that goes on; no_fiber at the end of the run.
    std::size_t choose() {
        if (depth_ >= most_steps) fail("it does not come to rest");
        if (!broken_.empty()) return no_fiber;
        if (depth_ == path_.size()) {
            set possible = enabled();
            bool could_go_on = now_ != no_fiber && (possible & bit(now_)) != 0;
            if (could_go_on && preempted_ >= bound_) possible = bit(now_);
            if (possible == 0) return no_fiber;
            cut_ = (possible & ~asleep_) == 0;
            if (cut_) return no_fiber;
            choice& fresh = path_.emplace_back();
            fresh.possible = possible;
            fresh.asleep = asleep_;
            pick(fresh, could_go_on ? now_ : no_fiber);
        }
        choice& c = path_[depth_++];
        c.step = fibers_[c.chosen].next;
        if (now_ != no_fiber && c.chosen != now_ && (c.possible & bit(now_)) != 0) ++preempted_;
        if (bound_ == no_bound) put_to_sleep(c);
        return c.chosen;
    }

    /// `rather` if possible; otherwise the first fiber that has not been tried.
    static void pick(choice& c, std::size_t rather) {
        set left = c.possible & ~c.asleep & ~c.tried;
        if (rather != no_fiber && (left & bit(rather)) != 0) c.chosen = rather;
        else
            for (c.chosen = 0; (left & bit(c.chosen)) == 0;) ++c.chosen;
    }

    /// After this step, those alternatives sleep on that were tried before and that it does not
    /// concern: to take them next leads to what was seen already.
    void put_to_sleep(const choice& c) {
        asleep_ = 0;
        for (std::size_t i = 0; i < size_; ++i)
            if (((c.asleep | c.tried) & bit(i)) != 0 && i != c.chosen &&
                !fibers_[i].next.depends_on(c.step))
                asleep_ |= bit(i);
    }

    /// Goes back to the last choice with an alternative. False: there is none.
    bool backtrack() {
        while (!path_.empty()) {
            choice& last = path_.back();
            last.tried |= bit(last.chosen);
            if ((last.possible & ~last.asleep & ~last.tried) != 0) {
                pick(last, no_fiber);
                return true;
            }
            path_.pop_back();
        }
        return false;
    }

    std::string tell_schedule() const {
        std::string text;
        std::vector<const void*> places;
        for (std::size_t i = 0; i < depth_; ++i) {
            const operation& o = path_[i].step;
            auto place = std::find(places.begin(), places.end(), o.where);
            auto letter = static_cast<char>('A' + (place - places.begin()));
            if (place == places.end()) places.push_back(o.where);
            text += "  thread " + std::to_string(path_[i].chosen) + ", " + o.within + ": " +
                    o.what + " at " + letter + '\n';
        }
        return text;
    }

    unsigned bound_;
    std::uint64_t most_runs_;
    std::array<fiber, most_fibers> fibers_;
    ucontext_t home_{};
    std::vector<choice> path_;
    std::size_t size_ = 0;
    std::size_t depth_ = 0;
    std::size_t now_ = no_fiber;
    unsigned preempted_ = 0;
    set asleep_ = 0;
    bool starting_ = false;
    bool cut_ = false;
    std::string broken_;
};

/// A point where another may go on, when a fiber is running; nothing otherwise.
inline void step(const operation& next) {
    if (explorer* e = explorer::current()) e->step(next);
}

/// Announces that what `where` stands for is looked at or changed in this step.
inline void touch(const char* what, const void* where, bool writes) {
    step({.what = what, .where = where, .writes = writes, .until = nullptr});
}

inline void begin_call(const char* call) {
    if (explorer* e = explorer::current()) e->begin(call);
}

inline void fail_unless(bool holds, const char* why) {
    if (explorer* e = explorer::current(); !holds && e != nullptr) e->fail(why);
}

template <class T>
class model_atomic {
public:
    explicit model_atomic(T value) : value_(value) {}
    model_atomic(const model_atomic&) = delete;
    model_atomic& operator=(const model_atomic&) = delete;

    T load() const {
        touch("load", this, false);
        return value_;
    }
    void store(T value) {
        touch("store", this, true);
        value_ = value;
    }
    T exchange(T value) {
        touch("exchange", this, true);
        return std::exchange(value_, value);
    }
    bool compare_exchange_strong(T& expected, T value) {
        touch("compare_exchange", this, true);
        if (value_ != expected) {
            expected = value_;
            return false;
        }
        value_ = value;
        return true;
    }
    T fetch_or(T bits) {
        touch("fetch_or", this, true);
        return std::exchange(value_, value_ | bits);
    }
    T fetch_add(T n) {
        touch("fetch_add", this, true);
        return std::exchange(value_, value_ + n);
    }
    T fetch_sub(T n) {
        touch("fetch_sub", this, true);
        return std::exchange(value_, value_ - n);
    }
    T fetch_and(T bits) {
        touch("fetch_and", this, true);
        return std::exchange(value_, value_ & bits);
    }

private:
    T value_;
};

/// Unlocking is no step of its own: no fiber can tell it from the step before it.
class model_mutex {
public:
    void lock() {
        step({.what = "lock", .where = this, .writes = true, .until = &free_});
        free_ = false;
    }
    void unlock() { free_ = true; }

private:
    bool free_ = true;
};

/// Where a fiber sleeps until another one wakes it.
class model_wake {
public:
    void wait() { step({.what = "wait", .where = this, .writes = false, .until = &awake_}); }
    void wake() {
        touch("wake", this, true);
        awake_ = true;
    }

private:
    bool awake_ = false;
};

/// For basic_shelf.
struct model_sync {
    template <class T>
    using atomic = model_atomic<T>;
};

}  // namespace cenote::interleave
