// Measures whether the length of the line affects the machine, without threads.
#include <cstdint>
#include <memory>
#include <string>

#include "core/machine.hpp"
#include "stopwatch.hpp"
#include "workloads.hpp"

namespace cenote::bench {

namespace {

/// The order of the waiters' deadlines: rising, as with equal timeouts, or random.
enum class deadline_order { rising, mixed };

/// A machine with one leased resource and `waiters` waiters.
class busy_machine {
public:
    busy_machine(std::size_t waiters, deadline_order order)
        : order_(order), machine_(settings(), {}, false, 1, now_) {
        machine_.start(now_, out_);
        acquire();
        for (const core::action& a : out_)
            if (a.what == core::action::kind::call)
                machine_.on_open(now_, a.slot, a.call, core::outcome::ok, out_);
        for (std::size_t i = 0; i < waiters; ++i) acquire();
        out_.clear();
    }

    /// The holder releases, the first waiter gets the resource, and the holder joins the line.
    void hand_over() {
        now_ += std::chrono::nanoseconds{100};
        machine_.release(now_, 0, core::condition::clean, 0, std::nullopt, out_);
        acquire();
        out_.clear();
    }

private:
    static options settings() {
        return {.max = 1, .idle_timeout = forever, .max_lifetime = forever, .line_max = 1'000'000};
    }

    void acquire() {
        core::duration varied{};
        if (order_ == deadline_order::mixed)
            varied = std::chrono::nanoseconds{random_.below(1'000'000'000)};
        machine_.acquire(now_, {.deadline = now_ + std::chrono::hours{1} + varied, .cookie = 1},
                         out_);
    }

    deadline_order order_;
    core::instant now_{std::chrono::hours{1}};
    core::dice random_{1};
    core::actions out_;
    core::machine machine_;
};

workload flat_in_waiters(const std::string& about, deadline_order order) {
    workload w{.about = about, .seconds = 0.1};
    for (std::size_t waiters : {0u, 100u, 1'000u, 10'000u, 100'000u}) {
        auto it = std::make_shared<busy_machine>(waiters, order);
        auto run = [it](double seconds) -> measured {
            constexpr int cycles_per_check = 256;
            std::uint64_t count = 0;
            stopwatch watch;
            for (; watch.seconds() < seconds; count += cycles_per_check)
                for (int i = 0; i < cycles_per_check; ++i) it->hand_over();
            double each = watch.seconds() * 1e9 / static_cast<double>(count);
            return {.metrics = {{"hand-over", each, "ns"}}, .cores = watch.cores()};
        };
        w.subjects.push_back({std::to_string(waiters) + " in line", run, 0.9});
    }
    // An empty line uses another code path, so compare with both.
    w.goals = {{"longest line / none", goal::bound::at_most, 2.0,
                ratio("100000 in line", "0 in line", "hand-over")},
               {"longest line / shortest", goal::bound::at_most, 2.0,
                ratio("100000 in line", "100 in line", "hand-over")}};
    return w;
}

}  // namespace

void run_machine(report& into) {
    into.run("line-equal-timeouts", [] {
        return flat_in_waiters("release and acquire, line of equal timeouts",
                               deadline_order::rising);
    });
    into.run("line-mixed-timeouts", [] {
        return flat_in_waiters("release and acquire, line of mixed timeouts",
                               deadline_order::mixed);
    });
}

}  // namespace cenote::bench
