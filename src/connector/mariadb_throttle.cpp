// The functions between libmariadb and its socket.
#include "connector/mariadb_throttle.hpp"

// The library's header declares MARIADB_PVIO::ctls only with these.
using uchar = unsigned char;
#define HAVE_TLS 1

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <ma_pvio.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <utility>

#include "connector/drive.hpp"

namespace cenote::mariadb::detail {

namespace {

/// The library's table of functions, which all sockets share, and a copy with the throttle's.
struct methods_pair {
    explicit methods_pair(PVIO_METHODS& library) noexcept : before(&library), limited(library) {
        library_read = library.async_read;
        library_write = library.async_write;
        limited.async_read = [](MARIADB_PVIO* from, unsigned char* into, std::size_t size) {
            auto read = [&](std::size_t most) -> std::int64_t {
                return library_read(from, into, most);
            };
            return static_cast<ssize_t>(throttle::read_behind(into, size, read));
        };
        limited.async_write = [](MARIADB_PVIO* to, const unsigned char* what, std::size_t size) {
            auto write = [&]() -> std::int64_t { return library_write(to, what, size); };
            const int socket = static_cast<int>(mysql_get_socket(to->mysql));
            return static_cast<ssize_t>(throttle::write_behind(socket, what, size, write));
        };
    }

    PVIO_METHODS* before;
    PVIO_METHODS limited;
    /// Set before the copy is installed for the first time.
    static inline decltype(PVIO_METHODS::async_read) library_read = nullptr;
    static inline decltype(PVIO_METHODS::async_write) library_write = nullptr;
};

methods_pair& methods_of(PVIO_METHODS& library) {
    static methods_pair both(library);
    return both;
}

int bio_read(BIO* bio, char* into, int size) {
    BIO_clear_retry_flags(bio);
    const int socket = static_cast<int>(std::bit_cast<std::intptr_t>(BIO_get_data(bio)));
    auto got =
        throttle::read(static_cast<std::size_t>(size), [&](std::size_t most) -> std::int64_t {
            return ::recv(socket, into, most, 0);
        });
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
    return static_cast<int>(got);
}

long bio_control(BIO*, int, long, void*) { return 0; }

const BIO_METHOD* reading_method() {
    static BIO_METHOD* const method = [] {
        BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "cenote throttle");
        BIO_meth_set_read(m, bio_read);
        BIO_meth_set_ctrl(m, bio_control);
        return m;
    }();
    return method;
}

/// After the handshake, during which the library waits by itself.
void install_in_tls(SSL* tls, int socket) noexcept {
    if (SSL_is_init_finished(tls) == 0 || BIO_get_data(SSL_get_rbio(tls)) != nullptr) return;
    BIO* bio = BIO_new(reading_method());
    if (bio == nullptr) return;
    BIO_set_data(bio, std::bit_cast<void*>(std::intptr_t{socket}));
    BIO_set_init(bio, 1);
    SSL_set0_rbio(tls, bio);
}

}  // namespace

throttle*& throttle::current() noexcept {
    static thread_local throttle* now = nullptr;
    return now;
}

throttle::step::step(throttle& by) noexcept : before_(std::exchange(current(), &by)) {
    by.left_ = connector_detail::max_bytes_per_step;
}

throttle::step::~step() { current() = before_; }

void throttle::install(MYSQL* on) noexcept {
    MARIADB_PVIO* io = on == nullptr ? nullptr : on->net.pvio;
    if (io == nullptr || (io->type != PVIO_TYPE_SOCKET && io->type != PVIO_TYPE_UNIXSOCKET)) return;
    methods_pair& both = methods_of(*io->methods);
    if (io->methods == both.before) io->methods = &both.limited;
    if (io->ctls != nullptr && io->ctls->ssl != nullptr)
        install_in_tls(static_cast<SSL*>(io->ctls->ssl), static_cast<int>(mysql_get_socket(on)));
}

bool throttle::may_read(std::size_t& size) const noexcept {
    errno = EAGAIN;
    if (ended_) return false;
    size = std::min(size, left_);
    return left_ > 0;
}

void throttle::note_read(std::size_t size) noexcept {
    bytes_ += size;
    left_ -= std::min(size, left_);
}

std::int64_t throttle::without_preface(unsigned char* bytes, std::size_t size) noexcept {
    const std::size_t rest = ahead_.take_out({bytes, size});
    if (ahead_.refused()) return 0;  // end of stream: the rest must not be read
    if (rest > 0) return static_cast<std::int64_t>(rest);
    errno = EAGAIN;
    return -1;
}

std::int64_t throttle::write_ahead(int socket, const unsigned char* what,
                                   std::size_t size) noexcept {
    const std::string_view first = ahead_.unsent();
    std::array<iovec, 2> parts{{{const_cast<char*>(first.data()), first.size()},
                                {const_cast<unsigned char*>(what), size}}};
    msghdr both{};
    both.msg_iov = parts.data();
    both.msg_iovlen = parts.size();
    ssize_t sent = -1;
    do sent = ::sendmsg(socket, &both, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0) return -1;
    const std::size_t own = std::min(static_cast<std::size_t>(sent), first.size());
    ahead_.note_sent(own);
    if (static_cast<std::size_t>(sent) > own) return sent - static_cast<ssize_t>(own);
    errno = EAGAIN;
    return -1;
}

}  // namespace cenote::mariadb::detail
