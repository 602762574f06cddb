// Type-erased handle for monitoring and controlling a pool.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "cenote/detail/gate.hpp"
#include "cenote/stats.hpp"

namespace cenote {

/// Refers to a pool of any type; see pool::control(). The pool must outlive it. Each member does
/// what the member of `pool` with the same name does, and throws the same exceptions. It cannot
/// acquire: that needs the type of the resource. Copies are cheap and refer to the same pool.
///
///     std::vector<cenote::pool_control> watched{orders.control(), sessions.control()};
///     for (const cenote::pool_control& pool : watched)
///         if (pool.stats().waiting > 100) alert(pool.name());
///
/// Thread safety: all members may be called from any thread at any time.
class pool_control {
public:
    /// As the members of pool with these names. They change nothing. stats() normally takes no
    /// lock and suits a scrape each second; slots(), leases() and waiters() scan them under the
    /// lock of the pool and are for diagnosis.
    const std::string& name() const noexcept { return gate_->name(); }
    std::string endpoint() const { return gate_->endpoint(); }
    options settings() const { return gate_->settings(); }
    bool closed() const noexcept { return gate_->closed(); }
    std::exception_ptr open_error() const { return gate_->open_error(); }
    cenote::stats stats() const { return gate_->read(); }
    std::vector<slot_info> slots() const { return gate_->slots(); }
    std::vector<lease_info> leases() const { return gate_->leases(); }
    std::vector<waiter_info> waiters() const { return gate_->waiters(); }
    std::chrono::nanoseconds retry_after() const { return gate_->retry_after(); }

    /// As the members of pool with these names. They act on the pool at once and wait for nothing:
    /// resources are closed, opened and probed later, by the threads or the executor of the pool.
    /// They are const because they change the pool and not this handle.
    void retire_all() const { gate_->retire_all(); }
    void suspect_all() const noexcept { gate_->suspect_all(); }
    void resize(std::size_t max) const { gate_->resize(max); }
    void pause() const { gate_->pause(); }
    void resume() const { gate_->resume(); }
    void suspend_maintenance() const { gate_->suspend_maintenance(); }
    void resume_maintenance() const { gate_->resume_maintenance(); }
    void activate() const { gate_->move_breaker({.to = breaker_state::active}); }
    void deactivate() const {
        gate_->move_breaker({.to = breaker_state::inactive, .cool_down = forever});
    }
    void recover(std::size_t probes = 1) const {
        gate_->move_breaker({.to = breaker_state::recovering, .probes = probes});
    }

private:
    template <class>
    friend class pool;
    explicit pool_control(detail::gate* of) noexcept : gate_(of) {}

    detail::gate* gate_;
};

}  // namespace cenote
