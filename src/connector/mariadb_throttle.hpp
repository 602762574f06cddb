// Limits what libmariadb reads in one step, since its calls read until the socket is empty and a
// server can send without end; and sends a preface in front of the library's next request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mysql.h>

#include "connector/mariadb_preface.hpp"

namespace cenote::mariadb::detail {

/// Counts the bytes of one reply, and tells the library to wait when one step has read enough. The
/// library reads through a table of functions (MARIADB_PVIO::methods) or, under TLS, through a BIO
/// of OpenSSL; both are replaced by ones that use the throttle of the thread's current step.
class throttle {
public:
    /// One step on this thread.
    class step {
    public:
        explicit step(throttle& by) noexcept;
        ~step();
        step(const step&) = delete;
        step& operator=(const step&) = delete;

    private:
        throttle* before_;
    };

    /// Replaces the functions of a handle that has a connection, once.
    static void install(MYSQL* on) noexcept;

    /// A new reply begins.
    void restart() noexcept { bytes_ = 0; }
    /// Makes every later read return the end of the stream.
    void end() noexcept { ended_ = true; }
    std::uint64_t bytes() const noexcept { return bytes_; }
    /// Sent in front of the library's next request. Not under TLS.
    preface& ahead() noexcept { return ahead_; }
    /// Whether the step has read as much as it may.
    bool is_spent() const noexcept { return left_ == 0; }

    /// Reads by `from(size)`, which is like recv(), unless the step is spent: then fails with
    /// EAGAIN.
    template <class From>
    static std::int64_t read(std::size_t size, From&& from) {
        throttle* by = current();
        if (by == nullptr) return from(size);
        if (!by->may_read(size)) return by->ended_ ? 0 : -1;
        const std::int64_t got = from(size);
        if (got > 0) by->note_read(static_cast<std::size_t>(got));
        return got;
    }

    /// As read(), without the replies to the preface.
    template <class From>
    static std::int64_t read_behind(unsigned char* into, std::size_t size, From&& from) {
        const std::int64_t got = read(size, from);
        throttle* by = current();
        if (got <= 0 || by == nullptr || !by->ahead_.is_open()) return got;
        return by->without_preface(into, static_cast<std::size_t>(got));
    }

    /// Writes by `to()`, which is like send(); if there is a preface, sends both in one message.
    template <class To>
    static std::int64_t write_behind(int socket, const unsigned char* what, std::size_t size,
                                     To&& to) {
        throttle* by = current();
        if (by == nullptr || by->ahead_.unsent().empty()) return to();
        return by->write_ahead(socket, what, size);
    }

private:
    static throttle*& current() noexcept;
    bool may_read(std::size_t& size) const noexcept;
    void note_read(std::size_t size) noexcept;
    std::int64_t without_preface(unsigned char* bytes, std::size_t size) noexcept;
    std::int64_t write_ahead(int socket, const unsigned char* what, std::size_t size) noexcept;

    preface ahead_;
    std::uint64_t bytes_ = 0;
    std::size_t left_ = 0;
    bool ended_ = false;
};

}  // namespace cenote::mariadb::detail
