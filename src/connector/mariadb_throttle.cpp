// Between libmariadb and its socket.
#include "connector/mariadb_throttle.hpp"

// Without these the library's header does not say what MARIADB_PVIO::ctls is.
using uchar = unsigned char;
#define HAVE_TLS 1

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <ma_pvio.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <utility>

#include "connector/drive.hpp"

namespace cenote::mariadb::detail {

namespace {

/// The library's own table, and a copy with another way to read. All sockets have the same one.
struct methods_pair {
    explicit methods_pair(PVIO_METHODS& library) noexcept : before(&library), limited(library) {
        library_read = library.async_read;
        limited.async_read = [](MARIADB_PVIO* from, unsigned char* into, std::size_t size) {
            return static_cast<ssize_t>(throttle::read(size, [&](std::size_t most) -> std::int64_t {
                return library_read(from, into, most);
            }));
        };
    }

    PVIO_METHODS* before;
    PVIO_METHODS limited;
    /// Set before the first table with another way to read is installed.
    static inline decltype(PVIO_METHODS::async_read) library_read = nullptr;
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

/// Not before the handshake is over, in which the library waits by itself.
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
    by.left_ = connector_detail::most_per_step;
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

}  // namespace cenote::mariadb::detail
