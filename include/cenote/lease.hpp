// A lease: the right to use one resource, which ends by itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

#include "cenote/detail/any_connector.hpp"
#include "cenote/detail/gate.hpp"
#include "cenote/detail/processor.hpp"
#include "cenote/detail/resource.hpp"

namespace cenote {

namespace detail {
struct lease_maker;
}

/// Holds one resource of a pool and returns it when it ends. Move-only, so it returns exactly once.
/// It may outlive its pool: the resource stays usable and is closed when the lease ends (on an
/// executor: destroyed, without the connector's close).
///
/// Thread safety: distinct leases are independent. One lease belongs to one thread at a time; it
/// may be handed from one to another.
template <class T>
class lease {
public:
    /// Holds nothing.
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

    /// Whether it holds a resource.
    explicit operator bool() const noexcept { return resource_ != nullptr; }

    /// The resource. Requires that it holds one.
    T& operator*() const noexcept { return resource_->value; }
    T* operator->() const noexcept { return std::addressof(resource_->value); }
    /// The resource, null if it holds none.
    T* get() const noexcept {
        return resource_ == nullptr ? nullptr : std::addressof(resource_->value);
    }

    /// Returns the resource now instead of at the end. Never waits, throws or allocates.
    void give_back() noexcept {
        if (resource_ == nullptr) return;
        detail::resource* r = std::exchange(resource_, nullptr);
        r->home->put(r);
    }

    /// Ends the lease, and the resource with it: it is closed, not kept.
    void discard() noexcept {
        if (resource_ == nullptr) return;
        resource_->state = detail::condition::discard;
        give_back();
    }

    /// The same because of an error: the circuit breaker counts it as a failure.
    void discard(const std::exception_ptr& cause) noexcept {
        if (resource_ == nullptr) return;
        if (cause == nullptr) return discard();
        detail::resource* r = std::exchange(resource_, nullptr);
        r->home->discard(r, cause);
    }

    /// The resource is closed when the lease ends, however it does, and can be used until then.
    void discard_at_end() noexcept {
        if (resource_ != nullptr) resource_->state = detail::condition::discard;
    }

    /// Like discard(), for a holder who has learned that the resource is not the only one: the
    /// server was restarted, the primary is none any more. Whatever is open now is probed before it
    /// is lent again; with a connector that cannot probe it is retired. Many holders may say so one
    /// after the other: it is about what is as old as this one, so what was opened or probed since
    /// the first of them said it stays in use. To the circuit breaker it is a failure.
    void discard_and_suspect() noexcept {
        if (resource_ == nullptr) return;
        resource_->home->suspect(resource_);
        resource_->state = detail::condition::broken;
        give_back();
    }

    /// Returns the resource after an error: what becomes of it is for the connector's classify to
    /// say, and is `otherwise` if it has none.
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

    /// Have the resource reset before anybody else gets it; without a connector that can reset, it
    /// is closed instead. The lease goes on. Does nothing if it holds none.
    void mark_dirty() noexcept {
        if (resource_ != nullptr && resource_->state == detail::condition::clean)
            resource_->state = detail::condition::dirty;
    }

    /// Takes the resource out of the pool for good; its place is free at once. Requires that it
    /// holds one. If it owes a reset (verdict::reset_later), its next use makes that, as here.
    T detach() {
        auto* r = std::exchange(resource_, nullptr);
        std::unique_ptr<detail::resource> owner = r->home->detach(r);
        return std::move(r->value);
    }

private:
    template <class>
    friend class pool;
    friend struct detail::lease_maker;

    /// The new owner may be another thread, so the holder is unknown from now on.
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

/// Makes leases for those who acquire without a pool object at hand.
struct lease_maker {
    template <class T>
    static lease<T> of(resource* r) noexcept {
        return lease<T>(r);
    }
    /// This thread has just acquired it, whatever moves that took.
    template <class T>
    static void hold_here(lease<T>& l) noexcept {
        if (l) l.note_holder(this_thread());
    }
};

}  // namespace detail

}  // namespace cenote
