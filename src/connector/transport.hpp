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

// OpenSSL's own names for them.
struct ssl_ctx_st;
struct ssl_st;

namespace cenote::connector_detail {

/// What the connections of one connector have in common: whom to trust, and our own certificate.
/// Made once, since reading the files takes milliseconds. May be used by several threads at once.
class tls_context {
public:
    /// `protocol`: what will be spoken inside, as both sides agree on it ("http/1.1"); empty: that
    /// is not talked about. Throws connection_error (final) if the files cannot be used.
    explicit tls_context(tls_options how, std::string_view protocol = {});

    ssl_ctx_st* get() const noexcept { return made_.get(); }
    const tls_options& options() const noexcept { return how_; }

private:
    struct free_context {
        void operator()(ssl_ctx_st* made) const noexcept;
    };

    tls_options how_;
    std::unique_ptr<ssl_ctx_st, free_context> made_;
};

class transport {
public:
    transport() noexcept = default;
    explicit transport(socket plain) noexcept : socket_(std::move(plain)) {}
    transport(transport&&) noexcept = default;
    transport& operator=(transport&&) noexcept = default;
    ~transport() = default;

    /// From now on protected; shake_hands() comes next. Throws connection_error (final) if there
    /// can be no such host.
    void protect(const tls_context& by, const std::string& host);
    /// The same with a context of its own.
    void protect(const tls_options& how, const std::string& host);
    /// Goes on with the handshake. Throws connection_error: final if the other side is not who it
    /// should be, transient otherwise.
    need shake_hands();

    /// At least one byte was moved, or 0 and `wanted` says what is needed first. Throw
    /// connection_error at the end of the stream, and if it fails.
    std::size_t read_some(std::span<char> into, need& wanted);
    std::size_t write_some(std::string_view from, need& wanted);
    /// The same as read_some for those to whom the end of the stream says something: at an orderly
    /// one 0, and `wanted` is nothing. Where there is protection, an end that the other side has
    /// not announced is none: anybody could have made it.
    std::size_t read_or_end(std::span<char> into, need& wanted);

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
