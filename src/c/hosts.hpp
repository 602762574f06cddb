// Pools behind numbers, and who is in a call with one.
//
// A pool must not go while somebody is in it, and nobody may come in who has the number of one that
// is gone. Whoever comes first says so where the one that destroys will look (in the mark of its
// thread, or in the pool's count), then looks whether the number is still good; whoever destroys
// first takes the number back, then looks whether anybody is there. With a barrier between the two
// steps of each (see barrier.hpp), at least one of the two sees the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>

#include "c/barrier.hpp"
#include "c/blocks.hpp"
#include "c/cells.hpp"
#include "c/handle.hpp"
#include "cenote/cenote.h"
#include "cenote/detail/mark.hpp"
#include "cenote/detail/process.hpp"
#include "cenote/pool.hpp"

namespace cenote::c {

/// Where a pool is. Used again for another one, and never freed.
class host {
public:
    using resource_pool = cenote::pool<item>;

    host() = default;
    host(const host&) = delete;
    host& operator=(const host&) = delete;

    /// A place for a pool, which nobody can find yet. Throws std::bad_alloc.
    static host& reserve();
    /// Has it no more.
    void give_up() noexcept;
    /// Now it can be found.
    cenote_pool open(std::unique_ptr<resource_pool> made) noexcept;

    /// Null: there is none with that index, or it is zero, as the number of those that have no
    /// pool.
    static host* find(cenote_pool number) noexcept {
        return number == 0 ? nullptr : all.find(handle::of(number).index);
    }
    /// How it stands with a handle that is none of this host at present.
    cenote_code judge(cenote_pool number) const noexcept;

    /// Ends the pool. One caller wins; all others are told that it is stale.
    static cenote_code destroy(cenote_pool number, std::size_t* left) noexcept;

    resource_pool& pool() noexcept { return *pool_; }

    // Requests: who waits here without a thread, and is in a call until it has been answered.

    cenote_request enlist(std::stop_source stop);
    /// It can be cancelled no more.
    void strike(cenote_request number) noexcept;
    /// Somebody who was counted is not in a call any more.
    void dismiss(detail::process_number counted_in) noexcept;
    /// What stops it.
    cenote_code find(cenote_request number, std::optional<std::stop_source>& stop) noexcept;

    // Around a fork, under the lock.
    static void after_fork_in_child() noexcept;

private:
    friend class visit;

    bool is_visited() const noexcept;
    /// Whether this thread is in a call with the pool, or in a callback of it: the end would wait
    /// for itself.
    bool is_busy_here() const noexcept;
    /// Until nobody is in a call, nobody has a lease, and no callback runs. Returns from how many a
    /// lease was taken away.
    std::size_t drain() noexcept;

    static constexpr std::size_t block_size = 64;
    static constexpr std::size_t most = 65536;
    static constinit blocks<host, block_size, most / block_size> all;
    static constinit host* spare;             // not in use; under the lock
    static constinit std::uint64_t requests;  // made so far; under the lock

    std::atomic<cenote_pool> number_{0};  // the pool's handle; zero: it is none
    std::unique_ptr<resource_pool> pool_;
    std::atomic<std::size_t> counted_{0};  // those in a call that no mark tells of
    std::size_t index_ = 0;

    // Under the lock.
    std::uint64_t generation_ = 0;  // of the last pool that was here
    std::map<cenote_request, std::stop_source> requests_;
    host* next_ = nullptr;  // among those not in use
};

/// Requests that are answered when a callback on this thread has returned are answered now: that
/// callback waits for them.
void answer_those_waiting_here() noexcept;

/// Being in a call with a pool. Nothing here takes the address of a visit, so that it can be in
/// registers: an exchange waits for all stores before it.
class visit {
public:
    explicit visit(cenote_pool number) noexcept : host_(host::find(number)) {
        if (host_ == nullptr) return;
        mark_ = detail::this_threads_mark;
        if (mark_ != nullptr && mark_->visits.load(std::memory_order_relaxed) == nullptr) [[likely]]
            say<const void*>(mark_->visits, host_);
        else {
            in_ = detail::this_process;
            mark_ = count(*host_);
        }
        if (host_->number_.load() == number) [[likely]]
            return;
        leave();
        code_ = host_->judge(number);
        host_ = nullptr;
    }
    ~visit() {
        if (host_ != nullptr) leave();
    }
    visit(const visit&) = delete;
    visit& operator=(const visit&) = delete;

    /// If not, `code` says why not.
    explicit operator bool() const noexcept { return host_ != nullptr; }
    cenote_code code() const noexcept { return code_; }

    host& where() const noexcept { return *host_; }
    host::resource_pool& pool() const noexcept { return *host_->pool_; }
    host::resource_pool* operator->() const noexcept { return host_->pool_.get(); }

private:
    void leave() noexcept {
        if (mark_ != nullptr) [[likely]]
            mark_->visits.store(nullptr, std::memory_order_release);
        else host_->dismiss(in_);
    }
    /// For a thread that has no mark yet, and gets one; or cannot have one, or is in a call already
    /// and visits another pool from there: counts it, and returns null.
    static detail::gate_mark* count(host& at) noexcept;

    host* host_;
    detail::gate_mark* mark_ = nullptr;               // null: counted
    detail::process_number in_ = detail::no_process;  // where it was counted
    cenote_code code_ = CENOTE_INVALID_HANDLE;
};

/// On the stack of a thread that runs a callback of a pool, or from which others may be called
/// back: for the end of the pool it would have to wait for itself.
class engaged {
public:
    explicit engaged(const host& of) noexcept : of_(&of), outer_(innermost) { innermost = this; }
    ~engaged() { innermost = outer_; }
    engaged(const engaged&) = delete;
    engaged& operator=(const engaged&) = delete;

    /// Whether this thread is in one of that pool.
    static bool of(const host& which) noexcept {
        for (const engaged* at = innermost; at != nullptr; at = at->outer_)
            if (at->of_ == &which) return true;
        return false;
    }

private:
    static thread_local constinit const engaged* innermost;

    const host* of_;
    const engaged* outer_;
};

}  // namespace cenote::c
