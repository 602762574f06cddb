// The interface through which the compiled library calls a connector of any type.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "cenote/verdict.hpp"

namespace cenote::detail {

struct resource;

/// Which optional members a connector has.
struct connector_abilities {
    bool probe = false;
    bool reset = false;
    bool before_acquire = false;
    bool before_acquire_is_quick = false;  // declared noexcept: may run on an event loop
    bool before_release = false;
    bool classify = false;
    bool blocks = true;  // its calls need a thread, not an executor
};

/// The calls that the keeper makes itself. Each may throw what the user's code throws, unless it is
/// noexcept.
class any_connector {
public:
    any_connector() = default;
    any_connector(const any_connector&) = delete;
    any_connector& operator=(const any_connector&) = delete;
    virtual ~any_connector() = default;

    virtual connector_abilities abilities() const noexcept = 0;
    virtual bool before_acquire(resource& r) = 0;
    virtual verdict before_release(resource& r) = 0;
    /// `discard` if the connector has no classify, or if it throws.
    virtual verdict classify(const std::exception_ptr& error) const noexcept = 0;
    /// For an exception of open().
    virtual verdict classify_open(const std::exception_ptr& error) const noexcept = 0;
    /// What the connector connects to, for people; empty if it does not say.
    virtual std::string endpoint() const { return {}; }
    /// In the child of a fork: releases the child's copy of a resource of the parent.
    virtual void forsake(resource& r) noexcept = 0;

private:
    friend class connector_ref;

    std::atomic<std::size_t> refs_{0};
};

/// A counted reference to a connector. The pool that opens with the connector has one, and so has
/// each of its resources and running calls. Dropping the last one runs the user's destructor, so it
/// must not happen under a lock.
class connector_ref {
public:
    connector_ref() noexcept = default;
    explicit connector_ref(any_connector* of) noexcept : of_(of) {
        if (of_ != nullptr) of_->refs_.fetch_add(1, std::memory_order_relaxed);
    }
    connector_ref(connector_ref&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    connector_ref& operator=(connector_ref&& other) noexcept {
        connector_ref(std::move(other)).swap(*this);
        return *this;
    }
    ~connector_ref() {
        if (of_ != nullptr && of_->refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete of_;
    }

    any_connector* get() const noexcept { return of_; }
    any_connector* operator->() const noexcept { return of_; }
    any_connector& operator*() const noexcept { return *of_; }

    void swap(connector_ref& other) noexcept { std::swap(of_, other.of_); }

    /// release() gives up the reference without dropping it, and adopt() takes it over again. For
    /// places that have room for a plain pointer only.
    [[nodiscard]] any_connector* release() noexcept { return std::exchange(of_, nullptr); }
    static connector_ref adopt(any_connector* released) noexcept {
        connector_ref taken;
        taken.of_ = released;
        return taken;
    }

private:
    any_connector* of_ = nullptr;
};

/// A connector whose calls block, so that they need a thread.
class blocking_connector : public any_connector {
public:
    virtual std::unique_ptr<resource> open() = 0;
    virtual bool probe(resource& r) = 0;
    virtual bool reset(resource& r) = 0;
    virtual void close(resource& r) = 0;
};

}  // namespace cenote::detail
