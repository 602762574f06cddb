// Reads, checks and initializes the option structures.
#include "c/options.hpp"

#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "c/callbacks.hpp"
#include "c/structs.hpp"
#include "cenote/breaker.hpp"

namespace cenote::c {

namespace {

using std::chrono::nanoseconds;

static_assert(static_cast<int>(warm_up::wait) == CENOTE_WARM_UP_WAIT);
static_assert(static_cast<int>(warm_up::none) == CENOTE_WARM_UP_NONE);
static_assert(static_cast<int>(order::fifo) == CENOTE_FIFO);
static_assert(static_cast<int>(fairness::bounded) == CENOTE_BOUNDED);
static_assert(static_cast<int>(fairness::turns) == CENOTE_TURNS);
static_assert(static_cast<int>(open_errors::fail_fast) == CENOTE_OPEN_ERRORS_FAIL_FAST);
static_assert(static_cast<int>(priority::reserved) == CENOTE_PRIORITY_RESERVED);
static_assert(static_cast<int>(priority::high) == CENOTE_PRIORITY_HIGH);
static_assert(static_cast<int>(priority::normal) == CENOTE_PRIORITY_NORMAL);
static_assert(static_cast<int>(priority::low) == CENOTE_PRIORITY_LOW);

/// Calls `f(c, cpp)` for each duration, as a member of the structure in C and in C++.
template <class C, class Cpp, class F>
void each_time(C& c, Cpp& cpp, F f) {
    f(c.acquire_timeout, cpp.acquire_timeout);
    f(c.open_timeout, cpp.open_timeout);
    f(c.probe_timeout, cpp.probe_timeout);
    f(c.reset_timeout, cpp.reset_timeout);
    f(c.close_timeout, cpp.close_timeout);
    f(c.idle_timeout, cpp.idle_timeout);
    f(c.max_lifetime, cpp.max_lifetime);
    f(c.sweep_interval, cpp.sweep_interval);
    f(c.probe_after_idle, cpp.probe_after_idle);
    f(c.reset_after, cpp.reset_after);
    f(c.heartbeat, cpp.heartbeat);
    f(c.leak_after, cpp.leak_after);
    f(c.bypass_for, cpp.bypass_for);
    f(c.head_start, cpp.head_start);
    f(c.shed_target, cpp.shed.target);
    f(c.shed_interval, cpp.shed.interval);
    f(c.backoff_first, cpp.backoff.first);
    f(c.backoff_cap_waiting, cpp.backoff.cap_waiting);
    f(c.backoff_cap_idle, cpp.backoff.cap_idle);
}

/// Calls `f(c, cpp)` for each count.
template <class C, class Cpp, class F>
void each_count(C& c, Cpp& cpp, F f) {
    f(c.max, cpp.max);
    f(c.min_size, cpp.min_size);
    f(c.min_idle, cpp.min_idle);
    f(c.opening_max, cpp.opening_max);
    f(c.open_rate, cpp.open_rate.per_second);
    f(c.open_burst, cpp.open_rate.burst);
    f(c.max_uses, cpp.max_uses);
    f(c.line_max, cpp.line_max);
    f(c.seed, cpp.seed);
    f(c.lifetime_jitter, cpp.lifetime_jitter);
}

cenote_options defaults() noexcept {
    const options usual;
    cenote_options o{};
    o.size = sizeof o;
    o.name = "pool";
    each_time(o, usual, [](std::int64_t& c, nanoseconds cpp) { c = cpp.count(); });
    each_count(o, usual, [](auto& c, auto cpp) { c = cpp; });
    o.warm_up = static_cast<cenote_warm_up>(usual.warm_up);
    o.order = static_cast<cenote_order>(usual.order);
    o.fairness = static_cast<cenote_fairness>(usual.fairness);
    o.open_errors = static_cast<cenote_open_errors>(usual.open_errors);
    o.probe_on_release = usual.probe_on_release;
    o.refuse_deadlock = usual.refuse_deadlock;
    return o;
}

/// The enumerator in C++. Throws invalid_option if `value` is not from 0 to `last`.
template <class Cpp>
Cpp choice(std::int32_t value, std::int32_t last, const char* option) {
    if (value < 0 || value > last)
        throw invalid_option(option, std::to_string(value),
                             "must be from 0 to " + std::to_string(last));
    return static_cast<Cpp>(value);
}

[[noreturn]] void refuse_struct(const char* what) {
    throw std::invalid_argument(std::string(what) +
                                " has an invalid size or members unknown to this library");
}

std::shared_ptr<breaker> read_breaker(const cenote_options& o, const pool_entry& entry) {
    if (o.breaker != nullptr && o.threshold != nullptr)
        throw invalid_option("breaker", "set", "must not be set together with threshold");
    if (o.breaker != nullptr) {
        cenote_breaker callbacks{};
        if (!read_struct(o.breaker, callbacks)) refuse_struct("breaker");
        if (callbacks.succeeded == nullptr || callbacks.failed == nullptr)
            throw invalid_option("breaker", "null", "must set `succeeded` and `failed`");
        return make_breaker(callbacks, entry);
    }
    if (o.threshold == nullptr) return nullptr;
    cenote_threshold t{};
    if (!read_struct(o.threshold, t)) refuse_struct("threshold");
    return std::make_shared<threshold_breaker>(
        threshold_breaker::settings{.failures = t.failures,
                                    .cool_down = nanoseconds{t.cool_down},
                                    .probes = static_cast<std::size_t>(t.probes),
                                    .successes = t.successes});
}

std::shared_ptr<observer> read_observer(const cenote_options& o, const pool_entry& entry) {
    if (o.observer == nullptr) return nullptr;
    cenote_observer callbacks{};
    if (!read_struct(o.observer, callbacks)) refuse_struct("observer");
    if (callbacks.on_event == nullptr)
        throw invalid_option("observer", "null", "must set `on_event`");
    return make_observer(callbacks, entry);
}

}  // namespace

options read_options(const cenote_options* from, const pool_entry& entry) {
    cenote_options o = defaults();
    if (from != nullptr && !read_struct(from, o)) refuse_struct("options");
    options into;
    if (o.name == nullptr) throw invalid_option("name", "null", "must not be null");
    into.name = o.name;
    each_time(o, into, [](std::int64_t c, nanoseconds& cpp) { cpp = nanoseconds{c}; });
    each_count(o, into, [](auto c, auto& cpp) { cpp = c; });
    into.warm_up = choice<warm_up>(o.warm_up, CENOTE_WARM_UP_NONE, "warm_up");
    into.order = choice<order>(o.order, CENOTE_FIFO, "order");
    into.fairness = choice<fairness>(o.fairness, CENOTE_TURNS, "fairness");
    into.open_errors =
        choice<open_errors>(o.open_errors, CENOTE_OPEN_ERRORS_FAIL_FAST, "open_errors");
    into.probe_on_release = o.probe_on_release != 0;
    into.refuse_deadlock = o.refuse_deadlock != 0;
    into.breaker = read_breaker(o, entry);
    if (auto observer = read_observer(o, entry)) into.observers.push_back(std::move(observer));
    validate(into);
    return into;
}

bool read_acquire_options(const cenote_acquire_options* from, acquire_options& into) noexcept {
    cenote_acquire_options o = CENOTE_ACQUIRE_OPTIONS;
    if (from != nullptr && !read_struct(from, o)) return false;
    if (o.priority < CENOTE_PRIORITY_RESERVED || o.priority > CENOTE_PRIORITY_LOW) return false;
    if (o.timeout != CENOTE_DEFAULT_TIMEOUT) into.timeout = nanoseconds{o.timeout};
    into.priority = static_cast<priority>(o.priority);
    into.queue = o.no_queue == 0;
    into.task = o.task;
    if (o.leak_after != 0) into.leak_after = nanoseconds{o.leak_after};
    return true;
}

}  // namespace cenote::c

using cenote::c::first_size;
using cenote::c::is_known_size;

namespace {

/// Members that the library does not know become zero, so that it accepts the structure.
template <class S>
cenote_code init(S* into, std::size_t size, S usual) noexcept {
    if (into == nullptr || !is_known_size<S>(size)) return CENOTE_INVALID_ARGUMENT;
    into->size = size;
    cenote::c::write_struct(usual, into);
    return CENOTE_OK;
}

}  // namespace

extern "C" {

cenote_code cenote_options_init(cenote_options* options, size_t size) {
    return init(options, size, cenote::c::defaults());
}

cenote_code cenote_threshold_init(cenote_threshold* threshold, size_t size) {
    const cenote::threshold_breaker::settings usual;
    return init(threshold, size,
                cenote_threshold{sizeof(cenote_threshold), usual.failures, usual.cool_down.count(),
                                 usual.probes, usual.successes});
}

}  // extern "C"
