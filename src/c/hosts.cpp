// Pools come and go; and who is still there when one goes.
#include "c/hosts.hpp"

#include <chrono>
#include <mutex>
#include <new>
#include <pthread.h>
#include <thread>
#include <utility>

#include "c/lock.hpp"

namespace cenote::c {

thread_local constinit const engaged* engaged::innermost = nullptr;
constinit blocks<host, host::block_size, host::most / host::block_size> host::all;
constinit host* host::spare = nullptr;
constinit std::uint64_t host::requests = 0;

namespace {

constinit std::mutex lock_of_this_room;

}  // namespace

std::mutex& the_lock() noexcept { return lock_of_this_room; }

namespace {

bool are_told() {
    static const bool told = pthread_atfork([] { the_lock().lock(); }, [] { the_lock().unlock(); },
                                            [] {
                                                host::after_fork_in_child();
                                                the_lock().unlock();
                                            }) == 0;
    return told;
}

// Before main if possible: then handlers that users register later may use pools in the child.
[[maybe_unused]] const bool told_from_the_start = are_told();

}  // namespace

host& host::reserve() {
    if (!are_told()) throw std::bad_alloc();
    prepare_barrier();
    std::lock_guard lock(the_lock());
    if (spare != nullptr) return *std::exchange(spare, spare->next_);
    std::size_t index = 0;
    host& fresh = all.add(index);
    fresh.index_ = index;
    return fresh;
}

void host::give_up() noexcept {
    std::lock_guard lock(the_lock());
    if (generation_ == handle::generation_max) return;  // no number may come again
    next_ = std::exchange(spare, this);
}

cenote_pool host::open(std::unique_ptr<resource_pool> made) noexcept {
    pool_ = std::move(made);
    std::lock_guard lock(the_lock());
    cenote_pool number = handle{kind::pool, ++generation_, index_}.number();
    number_.store(number);
    return number;
}

cenote_code host::judge(cenote_pool number) const noexcept {
    handle h = handle::of(number);
    std::lock_guard lock(the_lock());
    bool was_one = h.what == kind::pool && h.generation != 0 && h.generation <= generation_;
    return was_one ? CENOTE_STALE_HANDLE : CENOTE_INVALID_HANDLE;
}

cenote_code host::destroy(cenote_pool number, std::size_t* left) noexcept {
    host* it = find(number);
    if (it == nullptr) return CENOTE_INVALID_HANDLE;
    cenote_pool expected = number;
    // Before the number is taken back: there would be nobody to try again.
    if (it->number_.load() == number && it->is_busy_here()) return CENOTE_DEADLOCK;
    if (!it->number_.compare_exchange_strong(expected, 0)) return it->judge(number);
    full_barrier();
    std::size_t taken_away = it->drain();
    // With its connector, or with a call of that which is still under way, it gives up its host.
    std::unique_ptr<resource_pool> gone = std::move(it->pool_);
    gone.reset();
    if (left != nullptr) *left = taken_away;
    return CENOTE_OK;
}

std::size_t host::drain() noexcept {
    using namespace std::chrono_literals;
    constexpr std::chrono::microseconds longest = 1ms;
    pool_->close();
    std::size_t taken_away = 0;
    // Who is in a call may still get a lease, or wait for the end of those that are out.
    for (std::chrono::microseconds pause = 10us;; pause = std::min(2 * pause, longest)) {
        bool visited = is_visited();
        taken_away += cell::end_all(this);
        if (!visited) break;
        answer_those_waiting_here();
        std::this_thread::sleep_for(pause);
    }
    pool_->close(forever);  // some may be given back at this moment
    return taken_away;
}

bool host::is_busy_here() const noexcept {
    const detail::gate_mark* mark = detail::this_threads_mark;
    return engaged::of(*this) || (mark != nullptr && mark->visits.load() == this);
}

bool host::is_visited() const noexcept {
    return counted_.load() != 0 || detail::anybody_visits(this);
}

cenote_request host::enlist(std::stop_source stop) {
    std::lock_guard lock(the_lock());
    std::uint64_t next = requests + 1;
    cenote_request number = handle::of(next).as(kind::request);
    requests_.emplace(number, std::move(stop));
    requests = next;
    counted_.fetch_add(1);
    return number;
}

void host::dismiss(detail::process_number counted_in) noexcept {
    if (counted_in == detail::this_process) counted_.fetch_sub(1);
}

void host::strike(cenote_request number) noexcept {
    std::map<cenote_request, std::stop_source>::node_type gone;  // ends outside the lock
    std::lock_guard lock(the_lock());
    gone = requests_.extract(number);
}

cenote_code host::find(cenote_request number, std::optional<std::stop_source>& stop) noexcept {
    handle h = handle::of(number);
    std::lock_guard lock(the_lock());
    if (h.what != kind::request || h.rest() == 0 || h.rest() > requests)
        return CENOTE_INVALID_HANDLE;
    auto found = requests_.find(number);
    if (found == requests_.end()) return CENOTE_STALE_HANDLE;
    stop.emplace(found->second);
    return CENOTE_OK;
}

/// Whoever was in a call is not here, and what they waited for will not come.
void host::after_fork_in_child() noexcept {
    for (std::size_t i = 0; host* each = all.find(i); ++i) {
        each->counted_.store(0);
        each->requests_.clear();  // what they own is nobody else's code
    }
}

detail::gate_mark* visit::count(host& at) noexcept {
    if (detail::this_threads_mark == nullptr) {
        detail::register_this_thread();
        if (detail::gate_mark* mark = detail::this_threads_mark) {
            mark->visits.exchange(&at);
            return mark;
        }
    }
    at.counted_.fetch_add(1);
    return nullptr;
}

}  // namespace cenote::c
