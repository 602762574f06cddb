// Name lookup, TCP connection and TLS handshake as separate, measured steps.
#include "doctor_reach.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <string_view>
#include <sys/socket.h>
#include <sys/time.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#ifdef CENOTE_HAS_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#endif

#include "command.hpp"
#include <cenote/server_error.hpp>

namespace doctor {

namespace {

using std::chrono::steady_clock;

/// Closes the socket in its destructor.
class tcp_socket {
public:
    explicit tcp_socket(int descriptor = -1) noexcept : descriptor_(descriptor) {}
    tcp_socket(tcp_socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    tcp_socket& operator=(tcp_socket&& other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        return *this;
    }
    ~tcp_socket() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }

    int descriptor() const noexcept { return descriptor_; }
    bool open() const noexcept { return descriptor_ >= 0; }

    bool send(std::string_view bytes) const {
        return ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(bytes.size());
    }
    /// Receives `count` bytes, or fewer at the end of the stream and after the timeout.
    std::string receive(std::size_t count) const {
        std::string bytes(count, '\0');
        std::size_t size = 0;
        while (size < count) {
            ssize_t got = ::recv(descriptor_, bytes.data() + size, count - size, 0);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) break;
            size += static_cast<std::size_t>(got);
        }
        bytes.resize(size);
        return bytes;
    }

private:
    int descriptor_;
};

connect_error error_of(int error) {
    switch (error) {
        case ECONNREFUSED: return connect_error::refused;
        case ETIMEDOUT:
        case EAGAIN: return connect_error::timed_out;
        default: return connect_error::unreachable;
    }
}

/// Returns 0 or the error. Blocks for at most `timeout`, which is also set for later sends and
/// receives.
int connect_within(int descriptor, const addrinfo& where, nanoseconds timeout) {
    int flags = ::fcntl(descriptor, F_GETFL);
    ::fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
    if (::connect(descriptor, where.ai_addr, where.ai_addrlen) != 0) {
        if (errno != EINPROGRESS) return errno;
        pollfd one{descriptor, POLLOUT, 0};
        auto limit = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
        if (::poll(&one, 1, static_cast<int>(limit)) <= 0) return ETIMEDOUT;
        int error = 0;
        socklen_t size = sizeof error;
        ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error != 0) return error;
    }
    ::fcntl(descriptor, F_SETFL, flags);
    auto seconds = std::chrono::floor<std::chrono::seconds>(timeout);
    auto rest = std::chrono::duration_cast<std::chrono::microseconds>(timeout - seconds);
    timeval limit{.tv_sec = seconds.count(), .tv_usec = rest.count()};
    ::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    return 0;
}

std::string text_of(const addrinfo& where) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(where.ai_addr, where.ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) != 0)
        return "?";
    return text.data();
}

tcp_socket connect(const route& to, facts& into) {
    auto begun = steady_clock::now();
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* all = nullptr;
    int error = ::getaddrinfo(to.host.c_str(), std::to_string(to.port).c_str(), &hints, &all);
    if (error != 0) {
        into.error = connect_error::name_not_found;
        into.error_text = ::gai_strerror(error);
        return tcp_socket();
    }
    std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> freed(all, &::freeaddrinfo);
    into.lookup = steady_clock::now() - begun;
    for (const addrinfo* one = all; one != nullptr; one = one->ai_next)
        into.addresses.push_back(text_of(*one));
    int first_error = 0;
    for (const addrinfo* one = all; one != nullptr; one = one->ai_next) {
        tcp_socket made(
            ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol));
        begun = steady_clock::now();
        int why = made.open() ? connect_within(made.descriptor(), *one, to.timeout) : errno;
        if (why == 0) {
            into.tcp = steady_clock::now() - begun;
            return made;
        }
        if (first_error == 0) first_error = why;
    }
    into.error = error_of(first_error);
    into.error_text = std::generic_category().message(first_error);
    return tcp_socket();
}

#ifdef CENOTE_HAS_TLS

/// Requests TLS. Returns whether the server accepts; nothing after an unexpected reply.
std::optional<bool> start_tls_postgres(const tcp_socket& to) {
    constexpr std::string_view request("\0\0\0\x08\x04\xd2\x16\x2f", 8);
    if (!to.send(request)) return std::nullopt;
    std::string reply = to.receive(1);
    if (reply.empty() || (reply != "S" && reply != "N")) return std::nullopt;
    return reply == "S";
}

std::optional<bool> start_tls_mariadb(const tcp_socket& to) {
    std::string head = to.receive(4);
    if (head.size() < 4) return std::nullopt;
    auto byte = [](const std::string& of, std::size_t at) {
        return static_cast<std::size_t>(static_cast<unsigned char>(of[at]));
    };
    std::size_t size = byte(head, 0) | byte(head, 1) << 8U | byte(head, 2) << 16U;
    std::string greeting = to.receive(std::min<std::size_t>(size, 4096));
    constexpr char protocol = 10;
    if (greeting.empty() || greeting[0] != protocol) return std::nullopt;
    // Version with a zero, thread ID (4 bytes), salt (8 bytes) with a zero, then the capabilities.
    std::size_t at = greeting.find('\0', 1);
    if (at == std::string::npos || at + 1 + 4 + 9 + 2 > greeting.size()) return std::nullopt;
    constexpr std::size_t tls_capability = 0x08;  // in the second byte
    if ((byte(greeting, at + 1 + 4 + 9 + 1) & tls_capability) == 0) return false;
    // SSLRequest: protocol 4.1, TLS and secure login; packets of 16 MB, utf8mb4.
    std::string request("\x20\0\0\x01\0\x8a\0\0\0\0\0\x01\x2d", 13);
    request.append(23, '\0');
    return to.send(request) ? std::optional(true) : std::nullopt;
}

std::optional<bool> start_tls(const tcp_socket& to, preamble how) {
    switch (how) {
        case preamble::postgres: return start_tls_postgres(to);
        case preamble::mariadb: return start_tls_mariadb(to);
        case preamble::none: break;
    }
    return true;
}

std::string name_of(const X509_NAME* name) {
    std::array<char, 256> text{};
    int size = X509_NAME_get_text_by_NID(const_cast<X509_NAME*>(name), NID_commonName, text.data(),
                                         static_cast<int>(text.size()));
    return size > 0 ? std::string(text.data()) : "";
}

bool is_address(const std::string& host) {
    std::unique_ptr<ASN1_OCTET_STRING, decltype(&ASN1_OCTET_STRING_free)> parsed(
        a2i_IPADDRESS(host.c_str()), &ASN1_OCTET_STRING_free);
    return parsed != nullptr;
}

void read_certificate(const SSL* tls, tls_facts& into) {
    into.version = SSL_get_version(tls);
    long result = SSL_get_verify_result(tls);
    into.complaint = result == X509_V_OK ? "" : X509_verify_cert_error_string(result);
    std::unique_ptr<X509, decltype(&X509_free)> certificate(SSL_get1_peer_certificate(tls),
                                                            &X509_free);
    if (certificate == nullptr) return;
    into.subject = name_of(X509_get_subject_name(certificate.get()));
    into.issuer = name_of(X509_get_issuer_name(certificate.get()));
    std::tm until{};
    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &until) == 1)
        into.expires = std::chrono::system_clock::from_time_t(::timegm(&until));
}

/// Makes a handshake that accepts any certificate, and records why verification would fail.
void tls_handshake(const tcp_socket& on, const route& to, facts& into) {
    std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                              &SSL_CTX_free);
    if (context == nullptr) return;
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
    bool has_authorities = to.ca_file.empty()
                               ? SSL_CTX_set_default_verify_paths(context.get()) == 1
                               : SSL_CTX_load_verify_file(context.get(), to.ca_file.c_str()) == 1;
    std::unique_ptr<SSL, decltype(&SSL_free)> tls(SSL_new(context.get()), &SSL_free);
    if (tls == nullptr) return;
    const std::string& name = to.server_name.empty() ? to.host : to.server_name;
    if (is_address(name)) {
        X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls.get()), name.c_str());
    } else {
        SSL_set1_host(tls.get(), name.c_str());
        // SSL_set_tlsext_host_name is a macro with an old-style cast.
        SSL_ctrl(tls.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                 const_cast<char*>(name.c_str()));
    }
    SSL_set_fd(tls.get(), on.descriptor());
    auto begun = steady_clock::now();
    if (SSL_connect(tls.get()) != 1) {
        into.tls.complaint = "the handshake failed";
    } else {
        into.handshake = steady_clock::now() - begun;
        read_certificate(tls.get(), into.tls);
        if (!has_authorities) into.tls.complaint = "the file of authorities cannot be read";
        SSL_shutdown(tls.get());
    }
    ERR_clear_error();
}

void inspect_tls(const tcp_socket& on, const route& to, facts& into) {
    into.tls.offered = start_tls(on, to.before_tls);
    if (into.tls.offered == true) tls_handshake(on, to, into);
}

#else

void inspect_tls(const tcp_socket&, const route&, facts& into) {
    into.not_seen.emplace_back("the certificate (this program was built without OpenSSL)");
}

#endif

/// Recognizes the servers' error codes and messages.
connect_error error_of(const cenote::server_error& e) {
    std::string_view state = e.sqlstate();
    int code = e.code();
    if (state == "28P01" || code == 1045 || code == 1698) return connect_error::wrong_password;
    if (state == "3D000" || code == 1049) return connect_error::no_database;
    if (state == "53300" || code == 1040 || code == 1203 || code == 1226)
        return connect_error::too_many;
    if (state == "28000" || state == "42501" || code == 1044 || code == 1130)
        return connect_error::not_allowed;
    std::string_view text = e.what();
    auto contains = [&](std::string_view part) {
        return text.find(part) != std::string_view::npos;
    };
    if (contains("WRONGPASS") || contains("NOAUTH") || contains("invalid password"))
        return connect_error::wrong_password;
    if (contains("max number of clients")) return connect_error::too_many;
    if (contains("NOPERM")) return connect_error::not_allowed;
    return connect_error::none;
}

}  // namespace

void inspect_route(const route& to, facts& into) {
    into.host = to.host;
    if (to.host.starts_with('/')) return;
    if (to.host.find(':') != std::string::npos) into.host = "[" + to.host + "]";
    into.host += ":" + std::to_string(to.port);
    tcp_socket connected = connect(to, into);
    if (connected.open() && (to.tls || to.before_tls != preamble::none))
        inspect_tls(connected, to, into);
}

void explain_failure(const std::exception& e, bool wants_tls, facts& into) {
    into.error_text = command::without_prefix(e.what());
    const auto* failure = dynamic_cast<const cenote::server_error*>(&e);
    into.error = failure == nullptr ? connect_error::other : error_of(*failure);
    if (failure == nullptr || into.error != connect_error::none) return;
    bool timed_out = failure->kind() == cenote::error_kind::timed_out;
    if (wants_tls && into.tls.offered == false) into.error = connect_error::tls_not_offered;
    else if (timed_out) into.error = connect_error::silent;
    else if (wants_tls && into.tls.expires && !into.tls.complaint.empty())
        into.error = connect_error::tls_untrusted;
    else if (wants_tls && into.tls.offered == true && !into.handshake)
        into.error = connect_error::tls_failed;
    else if (failure->kind() == cenote::error_kind::final) into.error = connect_error::other;
    else into.error = connect_error::broken_off;
}

}  // namespace doctor
