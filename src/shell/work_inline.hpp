// Connector calls of a pool on a manual clock: on the thread that makes a call necessary.
#pragma once

#include <cstddef>
#include <thread>

#include "shell/linked_list.hpp"
#include "shell/workplace.hpp"

namespace cenote::shell {

/// One thread at a time does the jobs of the pool. Calls do not nest: a job that follows from
/// another one is done after it, by the same loop. There is one exception: a thread that has to
/// wait while it does a job also does the jobs that are left, because no other thread will.
///
/// A thread whose call was abandoned does not count: it may never return.
class work_inline final : public work_blocking {
public:
    explicit work_inline(keeper& home) : work_blocking(home) {}

    void run_inline() noexcept override { do_jobs(false); }
    bool make_progress(core::instant until) noexcept override;

    bool schedule(core::instant wake_at) override;
    void abandoned(core::slot_id slot, std::uint64_t call) override;
    bool stopped() const override { return stopping_; }
    bool too_many_hang() const override { return false; }
    bool is_stuck(std::size_t own) const override;
    void restart() override;
    void stop(pool_guard& lock) noexcept override;

private:
    /// A loop that does jobs, on the stack of its thread.
    struct loop {
        std::thread::id thread = std::this_thread::get_id();
        job running{};
        bool hangs = false;  // its call was abandoned
        loop* next = nullptr;
    };

    void start_up() override { set_started(true); }
    bool do_jobs(bool nested) noexcept;
    bool runs_here() const;
    bool runs_elsewhere() const;

    // Guarded by the keeper's lock.
    linked_list<loop, &loop::next> loops_;
    bool stopping_ = false;
    pool_condition loop_ended_;
};

}  // namespace cenote::shell
