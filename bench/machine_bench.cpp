// Whether the length of the line shows: the machine alone, since 100 000 threads cannot be had.
#include <cstdint>
#include <memory>
#include <string>

#include "core/machine.hpp"
#include "stopwatch.hpp"
#include "workloads.hpp"

namespace cenote::bench {

namespace {

/// How the waiters' deadlines come in: rising, as equal timeouts make them, or in any order.
enum class deadline_order { rising, mixed };

/// A machine with one resource, which is leased, and a line of `waiters`.
class busy_machine {
public:
    busy_machine(std::size_t waiters, deadline_order order)
        : order_(order), machine_(settings(), {}, false, 1, now_) {
        machine_.start(now_, out_);
        ask();
        for (const core::action& a : out_)
            if (a.what == core::action::kind::call)
                machine_.on_open(now_, a.slot, a.call, core::outcome::ok, out_);
        for (std::size_t i = 0; i < waiters; ++i) ask();
        out_.clear();
    }

    /// The holder gives back, the next one has it, and the holder goes to the end of the line.
    void hand_over() {
        now_ += std::chrono::nanoseconds{100};
        machine_.release(now_, 0, core::condition::clean, 0, std::nullopt, out_);
        ask();
        out_.clear();
    }

private:
    static options settings() {
        return {.max = 1, .idle_timeout = forever, .max_lifetime = forever, .line_max = 1'000'000};
    }

    void ask() {
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
            constexpr int between_looks = 256;
            std::uint64_t count = 0;
            stopwatch watch;
            for (; watch.seconds() < seconds; count += between_looks)
                for (int i = 0; i < between_looks; ++i) it->hand_over();
            double each = watch.seconds() * 1e9 / static_cast<double>(count);
            return {.metrics = {{"hand-over", each, "ns"}}, .cores = watch.cores()};
        };
        w.subjects.push_back({std::to_string(waiters) + " in line", run, 0.9});
    }
    // An empty line takes another way than a crowded pool does, so it is not the measure of both.
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
