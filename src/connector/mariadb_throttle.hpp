// Limits what libmariadb reads: its calls return when the socket has nothing more, and a server
// that sends without end keeps them reading. And puts a preface in front of what it writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mysql.h>

#include "connector/mariadb_preface.hpp"

namespace cenote::mariadb::detail {

/// Counts the bytes of one reply, and has the library wait when one step has read enough. The
/// library asks for every byte through a table of functions (MARIADB_PVIO::methods) or, under TLS,
/// through a BIO of OpenSSL's; both are replaced by ones that ask the throttle of this thread.
class throttle {
public:
    /// While it exists, this thread's reads are counted: one step.
    class step {
    public:
        explicit step(throttle& by) noexcept;
        ~step();
        step(const step&) = delete;
        step& operator=(const step&) = delete;

    private:
        throttle* before_;
    };

    /// For the connection of this handle, as soon as there is one. Does nothing the second time.
    static void install(MYSQL* on) noexcept;

    /// Another reply begins.
    void restart() noexcept { bytes_ = 0; }
    /// From now on every read finds the end of the stream.
    void end() noexcept { ended_ = true; }
    std::uint64_t bytes() const noexcept { return bytes_; }
    /// What goes in front of the library's next request. Not under TLS.
    preface& ahead() noexcept { return ahead_; }
    /// The step has read as much as it may.
    bool is_spent() const noexcept { return left_ == 0; }

    /// Reads by `from(size)`, as recv does, if it may: otherwise there is nothing just now.
    template <class From>
    static std::int64_t read(std::size_t size, From&& from) {
        throttle* by = current();
        if (by == nullptr) return from(size);
        if (!by->may_read(size)) return by->ended_ ? 0 : -1;
        const std::int64_t got = from(size);
        if (got > 0) by->note_read(static_cast<std::size_t>(got));
        return got;
    }

    /// The same without what belongs to the preface.
    template <class From>
    static std::int64_t read_behind(unsigned char* into, std::size_t size, From&& from) {
        const std::int64_t got = read(size, from);
        throttle* by = current();
        if (got <= 0 || by == nullptr || !by->ahead_.is_open()) return got;
        return by->without_preface(into, static_cast<std::size_t>(got));
    }

    /// Writes by `to()`, as send does, unless a preface is to go first: then both together.
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
