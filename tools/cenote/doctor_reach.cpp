// Names, ports and certificates, looked at by hand: connectors do it in one go.
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

#include <cenote/server_error.hpp>

namespace doctor {

namespace {

using std::chrono::steady_clock;

/// A socket that is closed in the end.
class line {
public:
    explicit line(int descriptor = -1) noexcept : descriptor_(descriptor) {}
    line(line&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    line& operator=(line&& other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        return *this;
    }
    ~line() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }

    int descriptor() const noexcept { return descriptor_; }
    bool open() const noexcept { return descriptor_ >= 0; }

    bool say(std::string_view what) const {
        return ::send(descriptor_, what.data(), what.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(what.size());
    }
    /// Exactly so many bytes, or as many as came before the end or the timeout.
    std::string hear(std::size_t count) const {
        std::string heard(count, '\0');
        std::size_t have = 0;
        while (have < count) {
            ssize_t got = ::recv(descriptor_, heard.data() + have, count - have, 0);
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) break;
            have += static_cast<std::size_t>(got);
        }
        heard.resize(have);
        return heard;
    }

private:
    int descriptor_;
};

trouble trouble_of(int error) {
    switch (error) {
        case ECONNREFUSED: return trouble::refused;
        case ETIMEDOUT:
        case EAGAIN: return trouble::timed_out;
        default: return trouble::unreachable;
    }
}

/// 0, or the error. Blocks no longer than `timeout`, and nor does what is done with it later.
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

line reach(const way& there, facts& into) {
    auto begun = steady_clock::now();
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* all = nullptr;
    int error = ::getaddrinfo(there.host.c_str(), std::to_string(there.port).c_str(), &hints, &all);
    if (error != 0) {
        into.wrong = trouble::name_not_found;
        into.said = ::gai_strerror(error);
        return line();
    }
    std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> freed(all, &::freeaddrinfo);
    into.lookup = steady_clock::now() - begun;
    for (const addrinfo* one = all; one != nullptr; one = one->ai_next)
        into.addresses.push_back(text_of(*one));
    int first_error = 0;
    for (const addrinfo* one = all; one != nullptr; one = one->ai_next) {
        line made(::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol));
        begun = steady_clock::now();
        int why = made.open() ? connect_within(made.descriptor(), *one, there.timeout) : errno;
        if (why == 0) {
            into.tcp = steady_clock::now() - begun;
            return made;
        }
        if (first_error == 0) first_error = why;
    }
    into.wrong = trouble_of(first_error);
    into.said = std::generic_category().message(first_error);
    return line();
}

#ifdef CENOTE_HAS_TLS

/// Whether the server is now ready for the first word of TLS. Nothing: it said something else.
std::optional<bool> agree_on_postgres(const line& to) {
    constexpr std::string_view request("\0\0\0\x08\x04\xd2\x16\x2f", 8);
    if (!to.say(request)) return std::nullopt;
    std::string reply = to.hear(1);
    if (reply.empty() || (reply != "S" && reply != "N")) return std::nullopt;
    return reply == "S";
}

std::optional<bool> agree_on_mariadb(const line& to) {
    std::string head = to.hear(4);
    if (head.size() < 4) return std::nullopt;
    auto byte = [](const std::string& of, std::size_t at) {
        return static_cast<std::size_t>(static_cast<unsigned char>(of[at]));
    };
    std::size_t size = byte(head, 0) | byte(head, 1) << 8U | byte(head, 2) << 16U;
    std::string greeting = to.hear(std::min<std::size_t>(size, 4096));
    constexpr char protocol = 10;
    if (greeting.empty() || greeting[0] != protocol) return std::nullopt;
    // The version and its zero, the thread's number, eight bytes and a zero; then what it can.
    std::size_t at = greeting.find('\0', 1);
    if (at == std::string::npos || at + 1 + 4 + 9 + 2 > greeting.size()) return std::nullopt;
    constexpr std::size_t speaks_tls = 0x08;  // of the second byte
    if ((byte(greeting, at + 1 + 4 + 9 + 1) & speaks_tls) == 0) return false;
    // Protocol 4.1 with TLS and its way of logging in; packets of 16 MB, utf8mb4, nothing more.
    std::string request("\x20\0\0\x01\0\x8a\0\0\0\0\0\x01\x2d", 13);
    request.append(23, '\0');
    return to.say(request) ? std::optional(true) : std::nullopt;
}

std::optional<bool> agree(const line& to, preamble how) {
    switch (how) {
        case preamble::postgres: return agree_on_postgres(to);
        case preamble::mariadb: return agree_on_mariadb(to);
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

/// A handshake that accepts anybody, and tells what would have been wrong with it.
void shake_hands(const line& to, const way& there, facts& into) {
    std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                              &SSL_CTX_free);
    if (context == nullptr) return;
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_NONE, nullptr);
    bool trusts = there.ca_file.empty()
                      ? SSL_CTX_set_default_verify_paths(context.get()) == 1
                      : SSL_CTX_load_verify_file(context.get(), there.ca_file.c_str()) == 1;
    std::unique_ptr<SSL, decltype(&SSL_free)> tls(SSL_new(context.get()), &SSL_free);
    if (tls == nullptr) return;
    const std::string& name = there.server_name.empty() ? there.host : there.server_name;
    if (is_address(name)) {
        X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls.get()), name.c_str());
    } else {
        SSL_set1_host(tls.get(), name.c_str());
        // What SSL_set_tlsext_host_name does, which is a macro with an old cast.
        SSL_ctrl(tls.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                 const_cast<char*>(name.c_str()));
    }
    SSL_set_fd(tls.get(), to.descriptor());
    auto begun = steady_clock::now();
    if (SSL_connect(tls.get()) != 1) {
        into.tls.complaint = "the handshake failed";
    } else {
        into.handshake = steady_clock::now() - begun;
        read_certificate(tls.get(), into.tls);
        if (!trusts) into.tls.complaint = "the file of authorities cannot be read";
        SSL_shutdown(tls.get());
    }
    ERR_clear_error();
}

void look_at_certificate(const line& to, const way& there, facts& into) {
    into.tls.offered = agree(to, there.before_tls);
    if (into.tls.offered == true) shake_hands(to, there, into);
}

#else

void look_at_certificate(const line&, const way&, facts& into) {
    into.not_seen.emplace_back("the certificate (this program was built without OpenSSL)");
}

#endif

/// By what servers say, each in its own numbers.
trouble trouble_of(const cenote::server_error& e) {
    std::string_view state = e.sqlstate();
    int code = e.code();
    if (state == "28P01" || code == 1045 || code == 1698) return trouble::wrong_password;
    if (state == "3D000" || code == 1049) return trouble::no_database;
    if (state == "53300" || code == 1040 || code == 1203 || code == 1226) return trouble::too_many;
    if (state == "28000" || state == "42501" || code == 1044 || code == 1130)
        return trouble::not_allowed;
    std::string_view said = e.what();
    auto says = [&](std::string_view word) { return said.find(word) != std::string_view::npos; };
    if (says("WRONGPASS") || says("NOAUTH") || says("invalid password"))
        return trouble::wrong_password;
    if (says("max number of clients")) return trouble::too_many;
    if (says("NOPERM")) return trouble::not_allowed;
    return trouble::none;
}

}  // namespace

void look_along(const way& there, facts& into) {
    into.host = there.host;
    if (there.host.starts_with('/')) return;
    if (there.host.find(':') != std::string::npos) into.host = "[" + there.host + "]";
    into.host += ":" + std::to_string(there.port);
    line to = reach(there, into);
    if (to.open() && (there.tls || there.before_tls != preamble::none))
        look_at_certificate(to, there, into);
}

void explain_failure(const std::exception& e, bool wanted_tls, facts& into) {
    into.said = e.what();
    const auto* told = dynamic_cast<const cenote::server_error*>(&e);
    into.wrong = told == nullptr ? trouble::other : trouble_of(*told);
    if (told == nullptr || into.wrong != trouble::none) return;
    bool over = told->kind() == cenote::error_kind::timed_out;
    if (wanted_tls && into.tls.offered == false) into.wrong = trouble::tls_not_offered;
    else if (over) into.wrong = trouble::silent;
    else if (wanted_tls && into.tls.expires && !into.tls.complaint.empty())
        into.wrong = trouble::tls_untrusted;
    else if (wanted_tls && into.tls.offered == true && !into.handshake)
        into.wrong = trouble::tls_failed;
    else if (told->kind() == cenote::error_kind::final) into.wrong = trouble::other;
    else into.wrong = trouble::broken_off;
}

}  // namespace doctor
