// The state of a connection: unusable from the start of an exchange until the exchange is complete.
//
// Every exchange (a request and its whole reply) runs inside an `exchange` object. An early end (an
// exception, a canceled coroutine, a destroyed frame, a deadline) leaves the connection broken, so
// that no later borrower reads a reply that was meant for an earlier one.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "cenote/connector.hpp"
#include "cenote/server_error.hpp"

namespace cenote::connector_detail {

/// The state of one connection. Moves with the connection.
class condition {
public:
    condition() = default;
    condition(condition&& other) noexcept
        : phase_(std::exchange(other.phase_, phase::broken)),
          changed_(other.changed_),
          suspect_(other.suspect_) {}
    condition& operator=(condition&& other) noexcept {
        phase_ = std::exchange(other.phase_, phase::broken);
        changed_ = other.changed_;
        suspect_ = other.suspect_;
        quiet_at_ = {};
        return *this;
    }
    ~condition() = default;

    /// Whether a request can be sent.
    bool idle() const noexcept { return phase_ == phase::idle; }
    bool broken() const noexcept { return phase_ == phase::broken; }

    /// The session may have changed since its last reset.
    void note_changed() noexcept { changed_ = true; }
    void note_reset() noexcept { changed_ = false; }
    /// Makes the connection unusable for good, in any phase.
    void note_broken(error_kind why = error_kind::connection) noexcept {
        phase_ = phase::broken;
        if (why == error_kind::suspect) suspect_ = true;
    }

    /// The socket was checked: it had no unread bytes.
    void note_quiet() noexcept { quiet_at_ = clock::now(); }
    /// The last check of the socket is so recent that another one would find the same. For a
    /// borrower who gets a connection right after its release.
    bool still_quiet() const noexcept {
        return idle() && quiet_at_ != clock::time_point{} && clock::now() - quiet_at_ < recent;
    }

    /// What to do with the connection, provided that its socket is quiet.
    verdict judge() const noexcept {
        if (phase_ != phase::idle) return suspect_ ? verdict::suspect : verdict::discard;
        return changed_ ? verdict::reset : verdict::keep;
    }

private:
    friend class exchange;

    enum class phase : std::uint8_t { idle, busy, broken };
    using clock = std::chrono::steady_clock;

    /// Shorter than any plausible interval between server-initiated messages.
    static constexpr std::chrono::microseconds recent{10};

    phase phase_ = phase::idle;
    bool changed_ = false;
    bool suspect_ = false;
    clock::time_point quiet_at_{};  // zero: not checked since the last exchange or move
};

/// One request and its reply.
class exchange {
public:
    /// Throws connection_error if the connection is broken, std::logic_error if another exchange
    /// is under way.
    explicit exchange(condition& of) : of_(&of) {
        if (of.broken())
            throw connection_error(error_kind::connection,
                                   "cenote: the connection is unusable: it was lost, or an "
                                   "operation on it ended early");
        if (!of.idle())
            throw std::logic_error(
                "cenote: another operation is under way on this connection; use one at a time");
        of.phase_ = condition::phase::busy;
        of.quiet_at_ = {};
    }
    exchange(exchange&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    exchange& operator=(exchange&&) = delete;
    ~exchange() {
        if (of_ != nullptr) of_->note_broken();
    }

    /// The whole reply has been read.
    void complete() noexcept {
        if (of_ == nullptr) return;
        if (!of_->broken()) of_->phase_ = condition::phase::idle;
        of_ = nullptr;
    }

private:
    condition* of_;
};

}  // namespace cenote::connector_detail
