// Plain sockets and OpenSSL behind one interface.
#include "connector/transport.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <bit>
#include <cerrno>
#include <limits>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <system_error>

#include "cenote/server_error.hpp"

namespace cenote::connector_detail {

namespace {

[[noreturn]] void lost(const std::string& why, int code = 0) {
    throw connection_error(error_kind::connection, "cenote: the connection was lost: " + why, {},
                           code);
}
[[noreturn]] void lost(int error) { lost(std::generic_category().message(error), error); }

/// OpenSSL's first queued error; clears the queue.
std::string openssl_text() {
    unsigned long code = ERR_get_error();
    ERR_clear_error();
    if (code == 0) return "unknown error";
    const char* reason = ERR_reason_error_string(code);
    return reason != nullptr ? reason : "error " + std::to_string(code);
}

[[noreturn]] void unusable(const std::string& what) {
    throw connection_error(error_kind::final, "cenote: TLS: " + what + ": " + openssl_text());
}

int clipped(std::size_t size) {
    return static_cast<int>(std::min<std::size_t>(size, std::numeric_limits<int>::max()));
}

// A socket as a BIO of OpenSSL. The BIO that comes with OpenSSL raises SIGPIPE.

int socket_of(BIO* bio) {
    return static_cast<int>(std::bit_cast<std::intptr_t>(BIO_get_data(bio)));
}

int bio_write(BIO* bio, const char* from, int size) {
    BIO_clear_retry_flags(bio);
    auto sent =
        ::send(socket_of(bio), from, static_cast<std::size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
    return static_cast<int>(sent);
}

/// The bytes that the current call of OpenSSL may still read. A call goes on as long as it finds
/// messages of TLS itself (tickets, new keys), and a server can send these without end.
thread_local std::size_t left_to_read = 0;

void begin_call() noexcept {
    ERR_clear_error();
    errno = 0;
    left_to_read = 2 * max_bytes_per_step;
}

int bio_read(BIO* bio, char* into, int size) {
    BIO_clear_retry_flags(bio);
    if (left_to_read == 0) {
        errno = EAGAIN;
        BIO_set_retry_read(bio);
        return -1;
    }
    auto got = ::recv(socket_of(bio), into, std::min(static_cast<std::size_t>(size), left_to_read),
                      MSG_DONTWAIT);
    if (got > 0) left_to_read -= static_cast<std::size_t>(got);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
    return static_cast<int>(got);
}

long bio_control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO_METHOD* socket_method() {
    static BIO_METHOD* const method = [] {
        BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "cenote socket");
        BIO_meth_set_write(m, bio_write);
        BIO_meth_set_read(m, bio_read);
        BIO_meth_set_ctrl(m, bio_control);
        return m;
    }();
    return method;
}

void set_trusted(SSL_CTX* to, const tls_options& how) {
    if (how.unsafe_accept_any_certificate) {
        SSL_CTX_set_verify(to, SSL_VERIFY_NONE, nullptr);
        return;
    }
    SSL_CTX_set_verify(to, SSL_VERIFY_PEER, nullptr);
    bool trusts = how.ca_file.empty() ? SSL_CTX_set_default_verify_paths(to) == 1
                                      : SSL_CTX_load_verify_file(to, how.ca_file.c_str()) == 1;
    if (!trusts) unusable("cannot read the certificates of trusted authorities");
}

/// Without this, OpenSSL asks for a passphrase on the terminal.
int no_passphrase(char*, int, int, void*) { return 0; }

void set_certificate(SSL_CTX* to, const tls_options& how) {
    if (how.certificate_file.empty()) return;
    SSL_CTX_set_default_passwd_cb(to, no_passphrase);
    const std::string& key = how.key_file.empty() ? how.certificate_file : how.key_file;
    bool loaded = SSL_CTX_use_certificate_chain_file(to, how.certificate_file.c_str()) == 1 &&
                  SSL_CTX_use_PrivateKey_file(to, key.c_str(), SSL_FILETYPE_PEM) == 1;
    if (!loaded) unusable("cannot read the client certificate or its key");
}

void offer_protocol(SSL_CTX* to, std::string_view protocol) {
    if (protocol.empty()) return;
    std::string listed(1, static_cast<char>(protocol.size()));
    listed += protocol;
    const auto* bytes = reinterpret_cast<const unsigned char*>(listed.data());
    if (SSL_CTX_set_alpn_protos(to, bytes, static_cast<unsigned>(listed.size())) != 0)
        unusable("cannot offer the protocol");
}

bool is_address(const std::string& host) {
    std::array<unsigned char, sizeof(in6_addr)> bytes{};
    return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
           ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

/// The name or address that the certificate must be valid for.
void expect_name(SSL* tls, const std::string& name) {
    if (is_address(name)) {
        if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), name.c_str()) != 1)
            unusable("cannot verify this address");
        return;
    }
    SSL_set_hostflags(tls, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    // What SSL_set_tlsext_host_name does, without its cast.
    std::string sent = name;
    long set = SSL_ctrl(tls, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, sent.data());
    if (SSL_set1_host(tls, name.c_str()) != 1 || set != 1) unusable("cannot verify this host name");
}

}  // namespace

void tls_context::free_context::operator()(ssl_ctx_st* made) const noexcept { SSL_CTX_free(made); }

tls_context::tls_context(tls_options options, std::string_view protocol)
    : options_(std::move(options)), made_(SSL_CTX_new(TLS_client_method())) {
    if (made_ == nullptr) unusable("cannot create a context");
    SSL_CTX_set_min_proto_version(made_.get(), TLS1_2_VERSION);
    SSL_CTX_set_mode(made_.get(),
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    set_trusted(made_.get(), options_);
    set_certificate(made_.get(), options_);
    offer_protocol(made_.get(), protocol);
}

void transport::free_tls::operator()(ssl_st* tls) const noexcept { SSL_free(tls); }

void transport::protect(const tls_options& options, const std::string& host) {
    protect(tls_context(options), host);
}

void transport::protect(const tls_context& by, const std::string& host) {
    const tls_options& options = by.options();
    tls_.reset(SSL_new(by.get()));
    BIO* bio = BIO_new(socket_method());
    if (tls_ == nullptr || bio == nullptr) unusable("out of memory");
    BIO_set_data(bio, std::bit_cast<void*>(std::intptr_t{socket_.descriptor()}));
    BIO_set_init(bio, 1);
    SSL_set_bio(tls_.get(), bio, bio);
    if (!options.unsafe_accept_any_certificate)
        expect_name(tls_.get(), options.server_name.empty() ? host : options.server_name);
    SSL_set_connect_state(tls_.get());
}

need transport::shake_hands() {
    begin_call();
    int result = SSL_do_handshake(tls_.get());
    if (result == 1) return need::nothing;
    switch (SSL_get_error(tls_.get(), result)) {
        case SSL_ERROR_WANT_READ: return need::to_read;
        case SSL_ERROR_WANT_WRITE: return need::to_write;
        default: break;
    }
    long verdict = SSL_get_verify_result(tls_.get());
    if (verdict != X509_V_OK)
        throw connection_error(error_kind::final,
                               std::string("cenote: TLS: the server's certificate is refused: ") +
                                   X509_verify_cert_error_string(verdict),
                               {}, static_cast<int>(verdict));
    throw connection_error(error_kind::transient,
                           "cenote: TLS: the handshake failed: " + openssl_text());
}

/// The outcome of SSL_read or SSL_write. `wanted` is nothing after the peer's close_notify.
std::size_t transport::moved(int result, need& wanted) {
    if (result > 0) return static_cast<std::size_t>(result);
    int system_error = errno;
    switch (SSL_get_error(tls_.get(), result)) {
        case SSL_ERROR_WANT_READ: wanted = need::to_read; return 0;
        case SSL_ERROR_WANT_WRITE: wanted = need::to_write; return 0;
        case SSL_ERROR_ZERO_RETURN: wanted = need::nothing; return 0;
        case SSL_ERROR_SYSCALL:
            if (system_error == 0) lost("the server closed the connection");
            lost(system_error);
        default: break;
    }
    lost(openssl_text());
}

std::size_t transport::read_some(std::span<char> into, need& wanted) {
    std::size_t got = read_or_end(into, wanted);
    if (got == 0 && wanted == need::nothing) lost("the server closed the connection");
    return got;
}

std::size_t transport::read_or_end(std::span<char> into, need& wanted) {
    if (tls_ != nullptr) {
        begin_call();
        return moved(SSL_read(tls_.get(), into.data(), clipped(into.size())), wanted);
    }
    for (;;) {
        auto got = ::recv(socket_.descriptor(), into.data(), into.size(), MSG_DONTWAIT);
        if (got > 0) return static_cast<std::size_t>(got);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno != EAGAIN) lost(errno);
        wanted = got == 0 ? need::nothing : need::to_read;
        return 0;
    }
}

std::size_t transport::write_some(std::string_view from, need& wanted) {
    if (tls_ != nullptr) {
        begin_call();
        std::size_t sent = moved(SSL_write(tls_.get(), from.data(), clipped(from.size())), wanted);
        if (sent == 0 && wanted == need::nothing) lost("the server closed the connection");
        return sent;
    }
    for (;;) {
        auto sent =
            ::send(socket_.descriptor(), from.data(), from.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) return static_cast<std::size_t>(sent);
        if (errno == EINTR) continue;
        if (errno != EAGAIN) lost(errno);
        wanted = need::to_write;
        return 0;
    }
}

socket_state transport::check() noexcept {
    if (!socket_) return socket_state::ended;
    if (tls_ == nullptr) return check_socket(socket_.descriptor());
    if (SSL_pending(tls_.get()) > 0) return socket_state::unread;
    if (check_socket(socket_.descriptor()) == socket_state::quiet) return socket_state::quiet;
    // The bytes may be only a session ticket, which SSL_peek consumes.
    char one = 0;
    begin_call();
    int result = SSL_peek(tls_.get(), &one, 1);
    if (result > 0 || left_to_read == 0) return socket_state::unread;
    int why = SSL_get_error(tls_.get(), result);
    ERR_clear_error();
    return why == SSL_ERROR_WANT_READ ? socket_state::quiet : socket_state::ended;
}

void transport::close() noexcept {
    if (tls_ != nullptr && SSL_is_init_finished(tls_.get())) {
        begin_call();
        SSL_shutdown(tls_.get());
        ERR_clear_error();
    }
    forsake();
}

void transport::forsake() noexcept {
    tls_.reset();
    socket_.close();
}

}  // namespace cenote::connector_detail
