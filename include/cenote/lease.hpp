// A lease: exclusive use of one resource, returned to the pool by the destructor.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

#include "cenote/detail/any_connector.hpp"
#include "cenote/detail/gate.hpp"
#include "cenote/detail/processor.hpp"
#include "cenote/detail/refuse.hpp"
#include "cenote/detail/resource.hpp"

namespace cenote {

namespace detail {
struct lease_maker;
}

/// Exclusive use of one resource. The destructor returns the resource to the pool. Move-only, so
/// the resource is returned exactly once. A lease may outlive its pool: the resource stays usable
/// and is closed when the lease ends. If the pool was on an executor, the resource is destroyed
/// without the connector's close.
///
/// Thread safety: distinct leases are independent. One lease may be used by one thread at a time;
/// it may be moved to another thread.
template <class T>
class [[nodiscard("the lease ends at once: give it a name")]] lease {
public:
    /// An empty lease.
    lease() noexcept = default;
    lease(lease&& other) noexcept : resource_(other.hand_on()) {}
    lease& operator=(lease&& other) noexcept {
        if (this != &other) {
            give_back();
            resource_ = other.hand_on();
        }
        return *this;
    }
    lease(const lease&) = delete;
    lease& operator=(const lease&) = delete;
    ~lease() { give_back(); }

    /// Whether the lease has a resource: false after it was moved from or ended, and if an acquire
    /// with an error code, or try_acquire, got none.
    explicit operator bool() const noexcept { return resource_ != nullptr; }

    /// The resource. Requires that the lease is not empty.
    T& operator*() const noexcept CENOTE_LIFETIMEBOUND { return resource_->value; }
    T* operator->() const noexcept { return std::addressof(resource_->value); }
    /// The resource; null if the lease is empty.
    T* get() const noexcept CENOTE_LIFETIMEBOUND {
        return resource_ == nullptr ? nullptr : std::addressof(resource_->value);
    }

    /// How long the acquire waited: from the call until the pool granted the lease. Zero if a
    /// resource was ready, and for an empty lease. The time until the thread or the coroutine runs
    /// again is not included.
    std::chrono::nanoseconds waited() const noexcept {
        bool known = resource_ != nullptr && resource_->is_from_keeper();
        return known ? resource_->waited : std::chrono::nanoseconds{0};
    }
    /// Whether the acquire waited until this very resource was opened. False for each later lease
    /// of the resource, for one that was opened before the acquire, and for an empty lease.
    bool opened_here() const noexcept {
        return resource_ != nullptr && resource_->is_from_keeper() && resource_->opened_here;
    }

    /// Returns the resource now; the lease is then empty. Never throws or allocates, and never
    /// waits for the pool. Can run before_release and resume a waiting coroutine on this thread.
    /// If the pool has been destroyed, this call runs the connector's close() on this thread,
    /// unless the pool was on an executor.
    void give_back() noexcept {
        if (resource_ == nullptr) return;
        detail::resource* r = std::exchange(resource_, nullptr);
        r->home->put(r);
    }

    /// Ends the lease and has the pool close the resource. For a connection that is broken or in an
    /// unknown state. The pool opens another one if it needs one.
    void discard() noexcept {
        if (resource_ == nullptr) return;
        resource_->state = detail::condition::discard;
        give_back();
    }

    /// Like discard(). The circuit breaker counts `cause` as a failure.
    void discard(const std::exception_ptr& cause) noexcept {
        if (resource_ == nullptr) return;
        if (cause == nullptr) return discard();
        detail::resource* r = std::exchange(resource_, nullptr);
        r->home->discard(r, cause);
    }

    /// Has the pool close the resource when the lease ends. The resource can be used until then.
    void discard_at_end() noexcept {
        if (resource_ != nullptr) resource_->state = detail::condition::discard;
    }

    /// Like discard(). Call it if an error may affect other resources as well: the server
    /// restarted, the primary was demoted. The pool probes the other resources before it lends them
    /// again, and retires them if the connector cannot probe. Resources opened or probed since the
    /// first such call are not affected, so every holder may call this. The circuit breaker counts
    /// a failure.
    void discard_and_suspect() noexcept {
        if (resource_ == nullptr) return;
        resource_->home->suspect(resource_);
        resource_->state = detail::condition::broken;
        give_back();
    }

    /// Returns the resource after an error. The connector's classify decides what happens to it;
    /// without classify, `otherwise` is the verdict.
    void give_back(const std::exception_ptr& error, verdict otherwise) noexcept {
        if (resource_ == nullptr) return;
        const detail::connector_ref& by = resource_->made_by;
        switch (by->abilities().classify ? by->classify(error) : otherwise) {
            case verdict::keep: break;
            case verdict::reset:
            case verdict::reset_later: mark_dirty(); break;
            case verdict::discard:
            case verdict::final: return discard(error);
            case verdict::suspect: return discard_and_suspect();
        }
        give_back();
    }

    /// Has the pool reset the resource before its next use. Without a reset in the connector the
    /// pool closes it instead. The lease remains valid. Does nothing on an empty lease.
    void mark_dirty() noexcept {
        if (resource_ != nullptr && resource_->state == detail::condition::clean)
            resource_->state = detail::condition::dirty;
    }

    /// Removes the resource from the pool and returns it; its slot is free at once. Requires that
    /// the lease is not empty. The pool does not perform a deferred reset (verdict::reset_later):
    /// the next use of the resource does.
    T detach() {
        auto* r = std::exchange(resource_, nullptr);
        std::unique_ptr<detail::resource> owner = r->home->detach(r);
        return std::move(r->value);
    }

private:
    template <class>
    friend class pool;
    friend struct detail::lease_maker;

    /// After a move, another thread may own the lease, so the holder becomes unknown.
    detail::resource_of<T>* hand_on() noexcept {
        if (resource_ != nullptr) note_holder(0);
        return std::exchange(resource_, nullptr);
    }
    void note_holder(std::uint64_t thread) noexcept {
        std::atomic<std::uint64_t>& holder = resource_->seen->holder;
        if (holder.load(std::memory_order_relaxed) != thread)
            holder.store(thread, std::memory_order_relaxed);
    }

    explicit lease(detail::resource* r) noexcept
        : resource_(static_cast<detail::resource_of<T>*>(r)) {}

    detail::resource_of<T>* resource_ = nullptr;
};

namespace detail {

/// Creates leases outside of the pool's members.
struct lease_maker {
    template <class T>
    static lease<T> of(resource* r) noexcept {
        return lease<T>(r);
    }
    /// Notes this thread as the holder, after moves that made the holder unknown.
    template <class T>
    static void hold_here(lease<T>& l) noexcept {
        if (l) l.note_holder(this_thread());
    }
};

}  // namespace detail

}  // namespace cenote
