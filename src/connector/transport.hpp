// Bytes to and from a server, with or without TLS, without waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cenote/tls.hpp"
#include "connector/drive.hpp"
#include "connector/socket.hpp"

// OpenSSL's names for its types.
struct ssl_ctx_st;
struct ssl_st;

namespace cenote::connector_detail {

/// What the TLS connections of one connector share: the trusted authorities and the client
/// certificate. Made once, since reading the files takes milliseconds. Safe to use from several
/// threads at once.
class tls_context {
public:
    /// `protocol`: offered by ALPN ("http/1.1"); empty: no ALPN. Throws connection_error (final) if
    /// a file cannot be used.
    explicit tls_context(tls_options options, std::string_view protocol = {});

    ssl_ctx_st* get() const noexcept { return made_.get(); }
    const tls_options& options() const noexcept { return options_; }

private:
    struct free_context {
        void operator()(ssl_ctx_st* made) const noexcept;
    };

    tls_options options_;
    std::unique_ptr<ssl_ctx_st, free_context> made_;
};

class transport {
public:
    transport() noexcept = default;
    explicit transport(socket plain) noexcept : socket_(std::move(plain)) {}
    transport(transport&&) noexcept = default;
    transport& operator=(transport&&) noexcept = default;
    ~transport() = default;

    /// Turns on TLS; shake_hands() comes next. Throws connection_error (final) if the host's name
    /// is invalid.
    void protect(const tls_context& by, const std::string& host);
    /// With a context of its own.
    void protect(const tls_options& options, const std::string& host);
    /// Continues the handshake. Throws connection_error: final if the server's certificate is
    /// refused, transient otherwise.
    need shake_hands();

    /// Return the number of bytes moved; 0 if `wanted` has to come first. Throw connection_error at
    /// the end of the stream and if the connection fails.
    std::size_t read_some(std::span<char> into, need& wanted);
    std::size_t write_some(std::string_view from, need& wanted);
    /// As read_some, but returns 0 and sets `wanted` to nothing at an orderly end of the stream.
    /// Under TLS an end without the server's close_notify throws: an attacker could have made it.
    std::size_t read_or_end(std::span<char> into, need& wanted);

    /// Checks for unread data. Under TLS the bytes in the socket may be part of the protocol, and
    /// data that was decrypted already is not in the socket.
    socket_state check() noexcept;
    int descriptor() const noexcept { return socket_.descriptor(); }
    bool is_protected() const noexcept { return tls_ != nullptr; }

    /// Sends TLS's close_notify, if that needs no waiting, and closes.
    void close() noexcept;
    /// Closes without sending anything: after a fork the connection is the parent's.
    void forsake() noexcept;

private:
    struct free_tls {
        void operator()(ssl_st* tls) const noexcept;
    };

    std::size_t moved(int result, need& wanted);

    socket socket_;  // destroyed last, since tls_ writes to it
    std::unique_ptr<ssl_st, free_tls> tls_;
};

class handshake final : public steps {
public:
    explicit handshake(transport& of) : of_(of) {}
    need step() override { return of_.shake_hands(); }
    int descriptor() const override { return of_.descriptor(); }
    const char* expected() const override { return "the TLS handshake"; }

private:
    transport& of_;
};

/// Looks the host up, connects, and makes the TLS handshake if `tls` is given: a tls_context, or
/// tls_options. The pointers stay valid until the result is there. Throws connection_error.
template <class Mode, class Tls>
result_in<Mode, transport> open_transport(const std::string* host, std::uint16_t port,
                                          const Tls* tls, instant deadline) {
    std::vector<address> found = co_await resolve<Mode>(*host, port);
    socket plain = co_await connect<Mode>(std::move(found), deadline);
    transport opened(std::move(plain));
    if (tls != nullptr) {
        opened.protect(*tls, *host);
        handshake hands(opened);
        co_await Mode::drive(hands, deadline);
    }
    co_return opened;
}

}  // namespace cenote::connector_detail
