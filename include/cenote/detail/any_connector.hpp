// A connector of whatever type, as the compiled library calls it.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>

#include "cenote/detail/resource.hpp"

namespace cenote {

/// What a connector's `classify` says about an exception.
enum class verdict : std::uint8_t {
    keep,     ///< The resource is fine; the error was about what it was asked to do.
    reset,    ///< The resource works but must be reset before anybody else gets it.
    discard,  ///< The resource is broken. From `open`: try again later.
    final,    ///< Broken, and opening another will fail the same way (bad credentials, bad name).
};

}  // namespace cenote

namespace cenote::detail {

/// What a connector is able to do, beyond open.
struct connector_abilities {
    bool probe = false;
    bool reset = false;
    bool before_acquire = false;
    bool before_release = false;
};

/// What the keeper itself asks a connector. Each call may throw whatever the user's code throws,
/// except where it says noexcept.
class any_connector {
public:
    virtual ~any_connector() = default;

    virtual connector_abilities abilities() const noexcept = 0;
    virtual bool before_acquire(resource& r) = 0;
    virtual bool before_release(resource& r) = 0;
    /// `discard` if the connector has no opinion, or if asking it fails.
    virtual verdict classify(const std::exception_ptr& error) const noexcept = 0;
    /// In the child of a fork: lets go of what belongs to the parent, without a word.
    virtual void forsake(resource& r) noexcept = 0;
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
