// The table of pools, the end of a pool, and what a fork changes.
#include "c/pool_entries.hpp"

#include <chrono>
#include <mutex>
#include <new>
#include <pthread.h>
#include <thread>
#include <utility>

namespace cenote::c {

thread_local constinit const callback_scope* callback_scope::innermost = nullptr;
constinit blocks<pool_entry, pool_entry::block_size, pool_entry::pools_max / pool_entry::block_size>
    pool_entry::table;
constinit pool_entry* pool_entry::free_list = nullptr;
constinit std::uint64_t pool_entry::request_count = 0;

std::mutex& api_mutex() noexcept {
    static constinit std::mutex mutex;
    return mutex;
}

namespace {

bool register_fork_handlers() {
    static const bool registered =
        pthread_atfork([] { api_mutex().lock(); }, [] { api_mutex().unlock(); },
                       [] {
                           pool_entry::after_fork_in_child();
                           api_mutex().unlock();
                       }) == 0;
    return registered;
}

// Before main if possible: handlers that users register later run after ours in the child, and may
// use pools.
[[maybe_unused]] const bool registered_before_main = register_fork_handlers();

}  // namespace

pool_entry& pool_entry::allocate() {
    if (!register_fork_handlers()) throw std::bad_alloc();
    prepare_barrier();
    std::lock_guard lock(api_mutex());
    if (free_list != nullptr) return *std::exchange(free_list, free_list->next_);
    std::size_t index = 0;
    pool_entry& fresh = table.add(index);
    fresh.index_ = index;
    return fresh;
}

void pool_entry::release() noexcept {
    std::lock_guard lock(api_mutex());
    if (generation_ == handle::generation_max) return;  // handles are never reused
    next_ = std::exchange(free_list, this);
}

cenote_pool pool_entry::publish(std::unique_ptr<pool_type> made) noexcept {
    pool_ = std::move(made);
    std::lock_guard lock(api_mutex());
    cenote_pool number = handle{kind::pool, ++generation_, index_}.number();
    number_.store(number);
    return number;
}

cenote_code pool_entry::check(cenote_pool number) const noexcept {
    handle h = handle::of(number);
    std::lock_guard lock(api_mutex());
    bool was_one = h.what == kind::pool && h.generation != 0 && h.generation <= generation_;
    return was_one ? CENOTE_STALE_HANDLE : CENOTE_INVALID_HANDLE;
}

cenote_code pool_entry::destroy(cenote_pool number, std::size_t* left) noexcept {
    pool_entry* entry = find(number);
    if (entry == nullptr) return CENOTE_INVALID_HANDLE;
    cenote_pool expected = number;
    // Checked before the handle is invalidated, so that another thread can still destroy the pool.
    if (entry->number_.load() == number && entry->is_in_use_here()) return CENOTE_DEADLOCK;
    if (!entry->number_.compare_exchange_strong(expected, 0)) return entry->check(number);
    full_barrier();
    std::size_t ended = entry->drain();
    // The entry is released with the connector, when no call of it runs.
    std::unique_ptr<pool_type> pool = std::move(entry->pool_);
    pool.reset();
    if (left != nullptr) *left = ended;
    return CENOTE_OK;
}

std::size_t pool_entry::drain() noexcept {
    using namespace std::chrono_literals;
    constexpr std::chrono::microseconds longest = 1ms;
    pool_->close();
    std::size_t ended = 0;
    // A running call may still get a lease, or wait for the end of other leases.
    for (std::chrono::microseconds pause = 10us;; pause = std::min(2 * pause, longest)) {
        bool pinned = is_pinned();
        ended += cell::end_all(this);
        if (!pinned) break;
        run_queued_callbacks();
        std::this_thread::sleep_for(pause);
    }
    pool_->close(forever);  // waits for leases that are being released
    return ended;
}

bool pool_entry::is_in_use_here() const noexcept {
    const detail::gate_mark* mark = detail::this_threads_mark;
    return callback_scope::is_inside(*this) || (mark != nullptr && mark->visits.load() == this);
}

bool pool_entry::is_pinned() const noexcept {
    return pins_.load() != 0 || detail::is_visited(this);
}

cenote_request pool_entry::add_request(std::stop_source stop) {
    std::lock_guard lock(api_mutex());
    std::uint64_t next = request_count + 1;
    cenote_request number = handle::of(next).as(kind::request);
    requests_.emplace(number, std::move(stop));
    request_count = next;
    pins_.fetch_add(1);
    return number;
}

void pool_entry::unpin(detail::process_number pinned_in) noexcept {
    if (pinned_in == detail::this_process) pins_.fetch_sub(1);
}

void pool_entry::remove_request(cenote_request number) noexcept {
    std::map<cenote_request, std::stop_source>::node_type gone;  // destroyed after the unlock
    std::lock_guard lock(api_mutex());
    gone = requests_.extract(number);
}

cenote_code pool_entry::find_request(cenote_request number,
                                     std::optional<std::stop_source>& stop) noexcept {
    handle h = handle::of(number);
    std::lock_guard lock(api_mutex());
    if (h.what != kind::request || h.rest() == 0 || h.rest() > request_count)
        return CENOTE_INVALID_HANDLE;
    auto found = requests_.find(number);
    if (found == requests_.end()) return CENOTE_STALE_HANDLE;
    stop.emplace(found->second);
    return CENOTE_OK;
}

/// The threads that had pinned pools, and the results of requests, exist only in the parent.
void pool_entry::after_fork_in_child() noexcept {
    for (std::size_t i = 0; pool_entry* each = table.find(i); ++i) {
        each->pins_.store(0);
        each->requests_.clear();  // runs no user code
    }
}

detail::gate_mark* pool_pin::pin_slowly(pool_entry& entry) noexcept {
    if (detail::this_threads_mark == nullptr) {
        detail::register_this_thread();
        if (detail::gate_mark* mark = detail::this_threads_mark) {
            mark->visits.exchange(&entry);
            return mark;
        }
    }
    entry.pins_.fetch_add(1);
    return nullptr;
}

}  // namespace cenote::c
