// The pools of the C API: looking up handles, pinning pools during calls, destroying pools.
//
// A pool must not be destroyed during a call on it, and a call with a stale handle must not reach
// it. So a caller first announces its pin, in the mark of its thread or in the pool's count, and
// then checks that the handle is current. cenote_destroy first invalidates the handle, and then
// waits until no pin is left. With a barrier between the two steps of each (see barrier.hpp), at
// least one of the two sees the other.
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

/// The slot of a pool in the table of pools. Reused, and never freed.
class pool_entry {
public:
    using pool_type = cenote::pool<item>;

    pool_entry() = default;
    pool_entry(const pool_entry&) = delete;
    pool_entry& operator=(const pool_entry&) = delete;

    /// An entry without a pool. Throws std::bad_alloc.
    static pool_entry& allocate();
    /// Returns the entry to the free list.
    void release() noexcept;
    /// Sets the pool and returns its handle, which is current from now on.
    cenote_pool publish(std::unique_ptr<pool_type> made) noexcept;

    /// The entry of a handle, whether or not the handle is current. Null if there is no such entry.
    static pool_entry* find(cenote_pool number) noexcept {
        return number == 0 ? nullptr : table.find(handle::of(number).index);
    }
    /// The code for a handle that is not current.
    cenote_code check(cenote_pool number) const noexcept;

    /// Destroys the pool. If several threads call it, one succeeds.
    static cenote_code destroy(cenote_pool number, std::size_t* left) noexcept;

    pool_type& pool() noexcept { return *pool_; }

    // Requests: each pins the pool until its callback has returned.

    cenote_request add_request(std::stop_source stop);
    /// The request can no longer be canceled.
    void remove_request(cenote_request number) noexcept;
    /// Finds what cancels the request.
    cenote_code find_request(cenote_request number, std::optional<std::stop_source>& stop) noexcept;
    /// Removes a counted pin. `pinned_in`: the process in which it was counted.
    void unpin(detail::process_number pinned_in) noexcept;

    /// With api_mutex() locked.
    static void after_fork_in_child() noexcept;

private:
    friend class pool_pin;

    bool is_pinned() const noexcept;
    /// Whether this thread is inside a call on the pool or a callback of it. Then destroying the
    /// pool would wait for itself.
    bool is_in_use_here() const noexcept;
    /// Waits until no call and no callback runs, and ends all leases. Returns how many leases.
    std::size_t drain() noexcept;

    static constexpr std::size_t block_size = 64;
    static constexpr std::size_t pools_max = 65536;
    static constinit blocks<pool_entry, block_size, pools_max / block_size> table;
    static constinit pool_entry* free_list;        // guarded by api_mutex()
    static constinit std::uint64_t request_count;  // so far; guarded by api_mutex()

    std::atomic<cenote_pool> number_{0};  // the current handle; zero: none
    std::unique_ptr<pool_type> pool_;
    std::atomic<std::size_t> pins_{0};  // those not announced in a mark
    std::size_t index_ = 0;

    // Guarded by api_mutex().
    std::uint64_t generation_ = 0;  // of the latest pool
    std::map<cenote_request, std::stop_source> requests_;
    pool_entry* next_ = nullptr;  // in the free list
};

/// Runs the callbacks of requests that wait until a callback on this thread returns. For calls
/// inside such a callback that wait for those requests.
void run_queued_callbacks() noexcept;

/// Pins a pool during a call. No function takes the address of a pin, so that it can stay in
/// registers: an exchange waits for all earlier stores.
class pool_pin {
public:
    explicit pool_pin(cenote_pool number) noexcept : entry_(pool_entry::find(number)) {
        if (entry_ == nullptr) return;
        mark_ = detail::this_threads_mark;
        if (mark_ != nullptr && mark_->visits.load(std::memory_order_relaxed) == nullptr) [[likely]]
            announce<const void*>(mark_->visits, entry_);
        else {
            pinned_in_ = detail::this_process;
            mark_ = pin_slowly(*entry_);
        }
        if (entry_->number_.load() == number) [[likely]]
            return;
        unpin();
        code_ = entry_->check(number);
        entry_ = nullptr;
    }
    ~pool_pin() {
        if (entry_ != nullptr) unpin();
    }
    pool_pin(const pool_pin&) = delete;
    pool_pin& operator=(const pool_pin&) = delete;

    /// Whether the handle is current; if not, `code` says why.
    explicit operator bool() const noexcept { return entry_ != nullptr; }
    cenote_code code() const noexcept { return code_; }

    pool_entry& entry() const noexcept { return *entry_; }
    pool_entry::pool_type& pool() const noexcept { return *entry_->pool_; }
    pool_entry::pool_type* operator->() const noexcept { return entry_->pool_.get(); }

private:
    void unpin() noexcept {
        if (mark_ != nullptr) [[likely]]
            mark_->visits.store(nullptr, std::memory_order_release);
        else entry_->unpin(pinned_in_);
    }
    /// Gives the thread a mark and announces the pin there. If the mark already announces another
    /// pin, or there is no memory for a mark: counts the pin and returns null.
    static detail::gate_mark* pin_slowly(pool_entry& entry) noexcept;

    pool_entry* entry_;
    detail::gate_mark* mark_ = nullptr;                      // null: counted
    detail::process_number pinned_in_ = detail::no_process;  // if counted
    cenote_code code_ = CENOTE_INVALID_HANDLE;
};

/// Exists while this thread runs a callback of a pool, or a call that may run callbacks. Destroying
/// the pool from there would wait for itself.
class callback_scope {
public:
    explicit callback_scope(const pool_entry& of) noexcept : of_(&of), outer_(innermost) {
        innermost = this;
    }
    ~callback_scope() { innermost = outer_; }
    callback_scope(const callback_scope&) = delete;
    callback_scope& operator=(const callback_scope&) = delete;

    /// Whether this thread is in a scope of that pool.
    static bool is_inside(const pool_entry& which) noexcept {
        for (const callback_scope* at = innermost; at != nullptr; at = at->outer_)
            if (at->of_ == &which) return true;
        return false;
    }

private:
    static thread_local constinit const callback_scope* innermost;

    const pool_entry* of_;
    const callback_scope* outer_;
};

}  // namespace cenote::c
