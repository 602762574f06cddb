// Dirty until proven clean: what is known of the state a connection is in.
//
// Every exchange (a request sent, its reply read to the end) runs inside an `exchange`. The
// connection is unusable from its beginning and usable again only if it was told that it is
// complete: so whatever ends it early (an exception, a cancelled coroutine, a frame that is
// destroyed, a deadline) leaves a connection that is never lent again. Nobody has to remember it.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "cenote/connector.hpp"
#include "cenote/server_error.hpp"

namespace cenote::connector_detail {

/// Of one connection, which is moved along with it.
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

    /// Whether a request could be made.
    bool idle() const noexcept { return phase_ == phase::idle; }
    bool broken() const noexcept { return phase_ == phase::broken; }
    /// Whether the session may have been changed since the last reset.
    bool changed() const noexcept { return changed_; }

    void note_changed() noexcept { changed_ = true; }
    void note_reset() noexcept { changed_ = false; }
    /// It cannot be used any more, whatever it was doing.
    void note_broken(error_kind why = error_kind::connection) noexcept {
        phase_ = phase::broken;
        if (why == error_kind::suspect) suspect_ = true;
    }

    /// Its socket was looked at: nothing had come that nobody asked for.
    void note_quiet() noexcept { quiet_at_ = clock::now(); }
    /// That was only just now, and nothing was said since: another look would see no more. For who
    /// takes a connection that was put back a moment ago.
    bool still_quiet() const noexcept {
        return idle() && quiet_at_ != clock::time_point{} && clock::now() - quiet_at_ < moment;
    }

    /// What is to become of it, if its socket is quiet.
    verdict judge() const noexcept {
        if (phase_ != phase::idle) return suspect_ ? verdict::suspect : verdict::discard;
        return changed_ ? verdict::reset : verdict::keep;
    }

private:
    friend class exchange;

    enum class phase : std::uint8_t { idle, busy, broken };
    using clock = std::chrono::steady_clock;

    /// Far less than a server needs to think of something.
    static constexpr std::chrono::microseconds moment{10};

    phase phase_ = phase::idle;
    bool changed_ = false;
    bool suspect_ = false;
    clock::time_point quiet_at_{};  // not known to be after an exchange, or elsewhere
};

/// One request and its reply.
class exchange {
public:
    /// Throws connection_error if the connection is broken, std::logic_error if it is in the middle
    /// of another exchange.
    explicit exchange(condition& of) : of_(&of) {
        if (of.broken())
            throw connection_error(error_kind::connection,
                                   "cenote: the connection was lost or left in the middle of an "
                                   "exchange; it cannot be used any more");
        if (!of.idle())
            throw std::logic_error(
                "cenote: the connection is in the middle of another exchange: one at a time");
        of.phase_ = condition::phase::busy;
        of.quiet_at_ = {};
    }
    exchange(exchange&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
    exchange& operator=(exchange&&) = delete;
    ~exchange() {
        if (of_ != nullptr) of_->note_broken();
    }

    /// The reply has been read to its end, and nothing is left on the way.
    void complete() noexcept {
        if (of_ == nullptr) return;
        if (!of_->broken()) of_->phase_ = condition::phase::idle;
        of_ = nullptr;
    }
    /// The connection has moved, and its condition with it.
    void follow(condition& to) noexcept {
        if (of_ != nullptr) of_ = &to;
    }

private:
    condition* of_;
};

}  // namespace cenote::connector_detail
