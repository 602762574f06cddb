// Bytes to and from a server, protected or not, without waiting.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cenote/tls.hpp"
#include "connector/drive.hpp"
#include "connector/socket.hpp"

// OpenSSL's own name for it.
struct ssl_st;

namespace cenote::connector_detail {

class transport {
public:
    transport() noexcept = default;
    explicit transport(socket plain) noexcept : socket_(std::move(plain)) {}
    transport(transport&&) noexcept = default;
    transport& operator=(transport&&) noexcept = default;
    ~transport() = default;

    /// From now on protected; shake_hands() comes next. Throws connection_error (final) if the
    /// files it names cannot be used.
    void protect(const tls_options& how, const std::string& host);
    /// Goes on with the handshake. Throws connection_error: final if the other side is not who it
    /// should be, transient otherwise.
    need shake_hands();

    /// At least one byte was moved, or 0 and `wanted` says what is needed first. Throw
    /// connection_error at the end of the stream, and if it fails.
    std::size_t read_some(std::span<char> into, need& wanted);
    std::size_t write_some(std::string_view from, need& wanted);

    /// Through the protection: what lies in the socket may be a word of TLS itself, and what was
    /// read from it may be waiting here.
    sight look() noexcept;
    int descriptor() const noexcept { return socket_.descriptor(); }
    bool is_protected() const noexcept { return tls_ != nullptr; }

    /// Says goodbye if that needs no waiting, and closes.
    void close() noexcept;
    /// Closes without a word: what was inherited by a fork is the parent's.
    void forsake() noexcept;

private:
    struct free_tls {
        void operator()(ssl_st* tls) const noexcept;
    };

    std::size_t moved(int result, need& wanted);

    socket socket_;  // goes last: tls_ writes to it
    std::unique_ptr<ssl_st, free_tls> tls_;
};

/// The handshake, as steps.
class handshake final : public steps {
public:
    explicit handshake(transport& of) : of_(of) {}
    need step() override { return of_.shake_hands(); }
    int descriptor() const override { return of_.descriptor(); }
    const char* awaited() const override { return "the TLS handshake"; }

private:
    transport& of_;
};

}  // namespace cenote::connector_detail
