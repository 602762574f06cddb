// A fake server and its connectors: counts all calls, and fails on command.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "cenote/connector.hpp"

namespace support {

/// The behavior of a call; may be replaced while the pool runs.
template <class Result>
class script {
public:
    script& operator=(std::function<Result(int)> does) {
        auto next = std::make_shared<std::function<Result(int)>>(std::move(does));
        std::lock_guard lock(mutex_);
        does_.swap(next);
        return *this;
    }
    Result operator()(int id) const {
        std::shared_ptr<std::function<Result(int)>> does;
        {
            std::lock_guard lock(mutex_);
            does = does_;
        }
        if (does != nullptr && *does) return (*does)(id);
        if constexpr (!std::is_void_v<Result>) return true;
    }

private:
    mutable std::mutex mutex_;
    std::shared_ptr<std::function<Result(int)>> does_;
};

struct refused_by_server : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class server;

/// A session with the fake server. Move-only, not default-constructible.
class session {
public:
    session(std::shared_ptr<server> home, int number, std::unique_ptr<std::atomic<bool>> busy)
        : id(number), home_(std::move(home)), busy_(std::move(busy)) {}
    inline session(session&& other) noexcept;
    session& operator=(session&&) = delete;
    inline ~session();

    /// Claims the session for one use; overlapping claims are counted.
    class claim {
    public:
        inline explicit claim(session& s);
        ~claim() {
            if (busy_ != nullptr) busy_->store(false);
        }
        claim(const claim&) = delete;
        claim& operator=(const claim&) = delete;

    private:
        std::atomic<bool>* busy_;
    };
    claim use() { return claim(*this); }

    int id;

private:
    std::shared_ptr<server> home_;
    std::unique_ptr<std::atomic<bool>> busy_;
};

class server : public std::enable_shared_from_this<server> {
public:
    static std::shared_ptr<server> start() { return std::make_shared<server>(); }

    session open() {
        int id = ++opens;
        raise(present, peak);
        raise(opening, opening_peak);
        std::unique_ptr<std::atomic<bool>> busy;
        try {
            on_open(id);
            busy = std::make_unique<std::atomic<bool>>(false);
        } catch (...) {
            --opening;
            --present;
            throw;
        }
        --opening;
        ++opened;
        return session(shared_from_this(), id, std::move(busy));
    }
    bool probe(session& s) { return verb(s, probes, on_probe); }
    bool reset(session& s) { return verb(s, resets, on_reset); }
    bool before_acquire(session& s) { return verb(s, acquires, on_acquire); }
    bool before_release(session& s) { return verb(s, releases, on_release); }
    void close(session& s) {
        auto claim = s.use();
        ++closes;
        raise(closing, closing_peak);
        try {
            on_close(s.id);
        } catch (...) {
            --closing;
            throw;
        }
        --closing;
    }

    script<void> on_open;
    script<bool> on_probe;
    script<bool> on_reset;
    script<bool> on_acquire;
    script<bool> on_release;
    script<void> on_close;

    std::atomic<int> opens{0};    // started
    std::atomic<int> opened{0};   // succeeded
    std::atomic<int> present{0};  // being opened, open, or being closed
    std::atomic<int> peak{0};     // the maximum of `present`
    std::atomic<int> opening{0};
    std::atomic<int> opening_peak{0};
    std::atomic<int> probes{0};
    std::atomic<int> resets{0};
    std::atomic<int> closes{0};
    std::atomic<int> closing{0};
    std::atomic<int> closing_peak{0};
    std::atomic<int> acquires{0};
    std::atomic<int> releases{0};
    std::atomic<int> ended{0};     // sessions destroyed
    std::atomic<int> moved{0};     // sessions moved
    std::atomic<int> overlaps{0};  // overlapping claims of a session

private:
    static void raise(std::atomic<int>& gauge, std::atomic<int>& highest) {
        int now = ++gauge;
        int seen = highest.load();
        while (seen < now && !highest.compare_exchange_weak(seen, now)) {
        }
    }
    static bool verb(session& s, std::atomic<int>& count, const script<bool>& does) {
        auto claim = s.use();
        ++count;
        return does(s.id);
    }
};

inline session::session(session&& other) noexcept
    : id(other.id), home_(std::move(other.home_)), busy_(std::move(other.busy_)) {
    if (home_ != nullptr) ++home_->moved;
}

inline session::~session() {
    if (home_ == nullptr) return;
    ++home_->ended;
    --home_->present;
}

inline session::claim::claim(session& s) : busy_(s.busy_.get()) {
    if (busy_->exchange(true)) {
        ++s.home_->overlaps;
        busy_ = nullptr;
    }
}

struct connector {
    std::shared_ptr<server> to;

    session open() const { return to->open(); }
    bool probe(session& s) const { return to->probe(s); }
    bool reset(session& s) const { return to->reset(s); }
    void close(session& s) const { to->close(s); }
};

/// With the hooks before_acquire and before_release.
struct hooked_connector : connector {
    bool before_acquire(session& s) const { return to->before_acquire(s); }
    bool before_release(session& s) const { return to->before_release(s); }
};

struct keep_it : std::runtime_error {
    keep_it() : runtime_error("keep it") {}
};
struct reset_it : std::runtime_error {
    reset_it() : runtime_error("reset it") {}
};
struct discard_it : std::runtime_error {
    discard_it() : runtime_error("discard it") {}
};
struct never_again : std::runtime_error {
    never_again() : runtime_error("never again") {}
};

/// Classifies the exceptions above.
struct judging_connector : connector {
    static cenote::verdict classify(const std::exception_ptr& error) {
        try {
            std::rethrow_exception(error);
        } catch (const keep_it&) {
            return cenote::verdict::keep;
        } catch (const reset_it&) {
            return cenote::verdict::reset;
        } catch (const never_again&) {
            return cenote::verdict::final;
        } catch (...) {
            return cenote::verdict::discard;
        }
    }
};

}  // namespace support
