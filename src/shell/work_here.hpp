// Where connector calls run in a pool on a manual clock: on the thread that makes them necessary.
#pragma once

#include <cstddef>
#include <thread>

#include "shell/work_blocking.hpp"

namespace cenote::shell {

/// One thread at a time does the jobs of the pool. Calls do not nest: a job that follows from
/// another one is done after it, by the same loop. The exception is a thread that has to wait while
/// it does a job; it does the jobs that are left, since no other thread will.
///
/// A thread whose call was abandoned does not count: it may never return.
class work_here final : public work_blocking {
public:
    explicit work_here(keeper& home) : work_blocking(home) {}

    void follow_up() noexcept override { do_jobs(false); }
    bool do_something(core::instant until) noexcept override;

    bool look(core::instant wake_at) override;
    void abandoned(core::slot_id slot, std::uint64_t call) override;
    bool stopped() const override { return stopping_; }
    bool overwhelmed() const override { return false; }
    bool helpless(std::size_t own) const override;
    void start_anew() override;
    void stop(holding& lock) noexcept override;

private:
    /// A loop that does jobs. Lives on the stack of its thread.
    struct loop {
        std::thread::id thread = std::this_thread::get_id();
        job running{};
        bool stuck = false;
        loop* next = nullptr;
    };

    void start_up() override { has_started(); }
    bool do_jobs(bool nested) noexcept;
    void end(const loop& l);
    bool works_here() const;
    bool works_elsewhere() const;

    // Guarded by the keeper's lock.
    loop* loops_ = nullptr;
    bool stopping_ = false;
    condition rests_;
};

}  // namespace cenote::shell
