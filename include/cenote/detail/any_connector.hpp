// A connector of whatever type, as the compiled library calls it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

namespace cenote {

/// What a connector's `classify` and `classify_open` say about an exception, or its
/// `before_release` about a resource that comes back.
enum class verdict : std::uint8_t {
    keep,     ///< The resource is fine; the error was about what it was asked to do.
    reset,    ///< The resource works but must be reset before anybody else gets it.
    discard,  ///< The resource is broken. From `open`: try again later.
    final,    ///< Broken, and opening another will fail the same way (bad credentials, bad name).
    suspect,  ///< Broken, and so may be whatever is as old (server restarted, primary demoted).
              ///< See lease::discard_and_suspect(). From `open`: like discard.
    reset_later,  ///< From `before_release`: the resource works. It owes a reset, which its next
                  ///< use makes, or the pool when it stays idle for options::reset_after. From
                  ///< anything else: like reset, or like discard if it is about `open`.
};

}  // namespace cenote

namespace cenote::detail {

struct resource;

/// What a connector is able to do, beyond open.
struct connector_abilities {
    bool probe = false;
    bool reset = false;
    bool before_acquire = false;
    bool before_acquire_is_quick = false;  // so much so that it may run on an event loop
    bool before_release = false;
    bool classify = false;
    bool blocks = true;  // its calls need a thread, not an executor
};

/// What the keeper itself asks a connector. Each call may throw whatever the user's code throws,
/// except where it says noexcept.
class any_connector {
public:
    any_connector() = default;
    any_connector(const any_connector&) = delete;
    any_connector& operator=(const any_connector&) = delete;
    virtual ~any_connector() = default;

    virtual connector_abilities abilities() const noexcept = 0;
    virtual bool before_acquire(resource& r) = 0;
    virtual verdict before_release(resource& r) = 0;
    /// `discard` if the connector has no opinion, or if asking it fails.
    virtual verdict classify(const std::exception_ptr& error) const noexcept = 0;
    /// The same for what open() threw.
    virtual verdict classify_open(const std::exception_ptr& error) const noexcept = 0;
    /// In the child of a fork: lets go of what belongs to the parent, without a word.
    virtual void forsake(resource& r) noexcept = 0;

private:
    friend class connector_ref;

    std::atomic<std::size_t> refs_{0};
};

/// Keeps a connector: the pool that opens with it, each resource that it opened, and each of its
/// calls have one. Whoever lets go of the last one ends the connector. That is the user's code, so
/// it must not happen under a lock.
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

    /// For where only a plain pointer fits: what release() gives away, adopt() takes over.
    [[nodiscard]] any_connector* release() noexcept { return std::exchange(of_, nullptr); }
    static connector_ref adopt(any_connector* released) noexcept {
        connector_ref taken;
        taken.of_ = released;
        return taken;
    }

private:
    any_connector* of_ = nullptr;
};

/// One whose calls return when they have been made, so that they need a thread.
class blocking_connector : public any_connector {
public:
    virtual std::unique_ptr<resource> open() = 0;
    virtual bool probe(resource& r) = 0;
    virtual bool reset(resource& r) = 0;
    virtual void close(resource& r) = 0;
};

}  // namespace cenote::detail
