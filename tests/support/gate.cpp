// The proxy: one thread, one poll call, and a byte queue for each direction of each connection.
#include "support/gate.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <limits>
#include <linux/sockios.h>
#include <list>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <set>
#include <stdexcept>
#include <string>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "support/backend.hpp"
#include "support/patience.hpp"

namespace support {

namespace {

using clock = std::chrono::steady_clock;
constexpr auto never = clock::time_point::max();
/// The capacity of one direction's queue; a full queue blocks the sender.
constexpr std::size_t room = 256 * 1024;
constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();

/// The commands in effect.
struct behavior {
    std::chrono::nanoseconds delay{};
    std::size_t bytes_per_second = no_limit;
    std::size_t corrupt_every = 0;
    std::size_t cut_after = no_limit;
    gate::ending cut{};
    bool split = false;
    bool hold = false;
    bool silent = false;
    bool black_hole = false;
    std::string altered;  // empty: nothing left to alter
    std::string altered_into;
};

void make_resetting(const descriptor& socket) {
    linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

/// One direction of a connection: bytes that were received on one side and wait for the other.
struct flow {
    struct piece {
        std::string bytes;
        clock::time_point due;
    };
    std::deque<piece> pieces;
    std::size_t buffered = 0;
    bool heard_end = false;
    bool said_end = false;
    // Counted from the command.
    std::size_t until_cut = no_limit;
    std::size_t until_hold = no_limit;
    std::size_t since_corrupt = 0;
    /// When the next byte may be sent, while the rate is limited.
    clock::time_point free_at{};

    void clear() {
        pieces.clear();
        buffered = 0;
    }
};

/// A client's connection, and the gate's own connection to the server.
struct link {
    descriptor client;
    descriptor server;
    flow requests;
    bool client_speaks = false;
    flow replies;
    bool lost = false;     // accepted in the black hole
    bool unheard = false;  // no bytes yet that decide whether it is overlooked
    bool overlooked = false;
    bool finished = false;  // shut down here; both sides still have to close
    bool client_gone = false;
    bool over = false;
};

/// Whether the kernel has bytes or an end that it has never sent.
bool has_unsent(const descriptor& to) {
    int unsent = 0;
    return ::ioctl(to.get(), SIOCOUTQNSD, &unsent) == 0 && unsent > 0;
}

/// Whether the kernel has received no end from this client.
bool seems_open(const descriptor& client) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(client.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
    // In both FIN_WAIT states only this side has shut down.
    return info.tcpi_state == TCP_ESTABLISHED || info.tcpi_state == TCP_FIN_WAIT1 ||
           info.tcpi_state == TCP_FIN_WAIT2;
}

/// The ports of clients whose sockets are in one of these states, from the kernel's table. On a
/// busy machine an end takes milliseconds to reach the other side of a loopback connection, but the
/// closed socket itself changes its state at once.
std::set<unsigned> ports_of_clients(unsigned server_port, std::initializer_list<unsigned> states) {
    std::set<unsigned> ports;
    std::ifstream table("/proc/self/net/tcp");
    std::string line;
    while (std::getline(table, line)) {
        unsigned local = 0;
        unsigned remote = 0;
        unsigned state = 0;
        if (std::sscanf(line.c_str(), " %*u: %*8x:%4x %*8x:%4x %2x", &local, &remote, &state) != 3)
            continue;
        bool counts = std::ranges::find(states, state) != states.end();
        if (counts && remote == server_port) ports.insert(local);
    }
    return ports;
}
std::set<unsigned> ports_of_open_clients(unsigned server_port) {
    return ports_of_clients(server_port, {TCP_ESTABLISHED, TCP_CLOSE_WAIT});
}

unsigned port_of_peer(const descriptor& client) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    void* filled = &address;
    if (::getpeername(client.get(), static_cast<sockaddr*>(filled), &size) != 0) return 0;
    return ntohs(address.sin_port);
}

enum class heard { something, nothing, end, failure };

heard hear(const descriptor& from, std::string& bytes, std::size_t most) {
    char buffer[16 * 1024];
    ssize_t got = ::recv(from.get(), buffer, std::min(most, sizeof buffer), MSG_DONTWAIT);
    if (got > 0) {
        bytes.assign(buffer, static_cast<std::size_t>(got));
        return heard::something;
    }
    if (got == 0) return heard::end;
    return errno == EAGAIN || errno == EINTR ? heard::nothing : heard::failure;
}

}  // namespace

class gate::loop {
public:
    explicit loop(std::uint16_t server_port);
    ~loop();

    std::uint16_t port() const { return port_; }
    /// Runs `what` on the loop's thread, after it has accepted all pending connections.
    void run_on_loop(const std::function<void(loop&)>& what);

    // The rest is called only on the loop's thread.

    void refuse();
    void listen();
    void finish(link& one);
    void reset(link& one);
    /// Returns the ports of the affected clients.
    std::set<unsigned> end_all(ending how);
    /// Removes the clients whose kernel knows the end.
    void leave_unaware(std::set<unsigned>& clients, ending how) const;
    std::list<link>& links() { return links_; }
    static bool counts(const link& one) { return !one.unheard && !one.overlooked; }
    std::size_t connections() const;
    std::size_t accepted() const { return accepted_; }
    std::size_t turns() const { return turns_; }
    std::size_t most_at_once() const { return most_at_once_; }
    void overlook(predicate of_beginnings) { overlooked_ = std::move(of_beginnings); }

    behavior now;

private:
    void run();
    void wait(clock::time_point until);
    void watch(const descriptor& socket, bool reads, bool writes);
    bool ready(const descriptor& socket) const;
    void run_command();
    void accept_all();
    void listen_to_beginning(link& one, const std::string& bytes);
    void count();
    void connect(link& one);
    void carry(link& one);
    void discard(link& one);
    void take_in(link& one, const descriptor& from, flow& way);
    void give_out(link& one, const descriptor& to, flow& way);
    bool give_piece(link& one, const descriptor& to, flow& way);
    std::size_t portion(const flow& way, std::size_t size) const;
    void alter(std::string& bytes);
    void end_if_all_is_said(link& one);
    clock::time_point next_due(const link& one) const;
    void watch_link(const link& one);

    std::uint16_t server_port_;
    descriptor listener_;
    std::uint16_t port_;
    descriptor wake_;
    bool listening_ = true;
    std::list<link> links_;
    std::size_t accepted_ = 0;
    std::size_t turns_ = 0;
    std::size_t most_at_once_ = 0;
    predicate overlooked_;
    std::vector<pollfd> polled_;
    /// The time of this round, read once: what to wait for and how long must agree.
    clock::time_point time_;

    std::mutex mutex_;
    std::condition_variable done_;
    const std::function<void(loop&)>* command_ = nullptr;
    bool ends_ = false;
    std::thread thread_;
};

gate::loop::loop(std::uint16_t server_port)
    : server_port_(server_port),
      // Its address may be reused, so it can listen again while accepted connections exist.
      listener_(with_own_port(SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK)),
      port_(port_of(listener_)),
      wake_(checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {
    checked(::listen(listener_.get(), 512), "listen");
    thread_ = std::thread([this] { run(); });
}

gate::loop::~loop() {
    run_on_loop([](loop& me) { me.ends_ = true; });
    thread_.join();
}

void gate::loop::run_on_loop(const std::function<void(loop&)>& what) {
    std::unique_lock lock(mutex_);
    // One command at a time, also from several threads.
    done_.wait(lock, [this] { return command_ == nullptr; });
    command_ = &what;
    ::eventfd_write(wake_.get(), 1);
    done_.wait(lock, [&] { return command_ != &what; });
}

void gate::loop::run_command() {
    eventfd_t count = 0;
    ::eventfd_read(wake_.get(), &count);
    std::lock_guard lock(mutex_);
    if (command_ == nullptr) return;
    accept_all();
    (*command_)(*this);
    command_ = nullptr;
    done_.notify_all();
}

void gate::loop::run() {
    while (!ends_) {
        polled_.clear();
        time_ = clock::now();
        watch(wake_, true, false);
        if (listening_) watch(listener_, true, false);
        clock::time_point until = never;
        for (const link& one : links_) {
            watch_link(one);
            until = std::min(until, next_due(one));
        }
        wait(until);
        if (ready(wake_)) run_command();
        if (listening_) accept_all();
        for (link& one : links_) carry(one);
        links_.remove_if([](const link& one) { return one.over; });
    }
    links_.clear();
}

void gate::loop::wait(clock::time_point until) {
    using std::chrono::nanoseconds;
    constexpr nanoseconds longest = std::chrono::milliseconds(999);
    timespec limit{};
    if (until != never) {
        auto left = std::clamp<nanoseconds>(until - clock::now(), nanoseconds(0), longest);
        limit.tv_nsec = left.count();
    }
    ::ppoll(polled_.data(), polled_.size(), until == never ? nullptr : &limit, nullptr);
}

void gate::loop::watch(const descriptor& socket, bool reads, bool writes) {
    short events = 0;
    if (reads) events = POLLIN;
    if (writes) events = static_cast<short>(events | POLLOUT);
    // Even without events, poll reports a hang-up in every round.
    if (events != 0 && socket.get() >= 0)
        polled_.push_back({.fd = socket.get(), .events = events, .revents = 0});
}

bool gate::loop::ready(const descriptor& socket) const {
    return std::ranges::any_of(
        polled_, [&](const pollfd& one) { return one.fd == socket.get() && one.revents != 0; });
}

void gate::loop::watch_link(const link& one) {
    bool loses = now.black_hole || one.lost || one.finished;
    if (now.silent && !loses) return;
    auto due = [this](const flow& way) {
        return !way.pieces.empty() && way.pieces.front().due <= time_ && way.free_at <= time_;
    };
    bool replies_go = !now.hold && one.replies.until_hold > 0 && due(one.replies);
    watch(one.client,
          !one.client_gone && (loses || (!one.requests.heard_end && one.requests.buffered < room)),
          !loses && replies_go);
    watch(one.server, !one.replies.heard_end && (loses || one.replies.buffered < room),
          !loses && due(one.requests));
}

clock::time_point gate::loop::next_due(const link& one) const {
    clock::time_point first = never;
    if (now.silent || now.black_hole) return first;
    for (const flow* way : {&one.requests, &one.replies}) {
        if (way->pieces.empty() || (now.hold && way == &one.replies)) continue;
        if (way->until_hold == 0) continue;
        clock::time_point due = std::max(way->pieces.front().due, way->free_at);
        // Bytes that are already due wait for the socket to become writable.
        if (due > time_) first = std::min(first, due);
    }
    return first;
}

void gate::loop::accept_all() {
    std::size_t before = accepted_;
    for (;;) {
        int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) break;
        ++accepted_;
        link& one = links_.emplace_back();
        one.client = descriptor(fd);
        one.lost = now.black_hole;
        one.replies.until_cut = now.cut_after;
        one.unheard = overlooked_ != nullptr;
    }
    // Once for all of them: a count reads the kernel's table of all sockets. If each connection
    // were counted, clients that give up and connect again could come faster than they are
    // accepted.
    if (accepted_ != before && overlooked_ == nullptr) count();
}

void gate::loop::listen_to_beginning(link& one, const std::string& bytes) {
    if (!std::exchange(one.unheard, false)) return;
    one.overlooked = overlooked_ != nullptr && overlooked_(bytes);
    if (!one.overlooked) count();
}

/// All pending connections were accepted before this call, and a client that is open now was open
/// then: so the counted clients were connected at the same time.
void gate::loop::count() {
    if (links_.size() > most_at_once_) most_at_once_ = std::max(most_at_once_, connections());
}

void gate::loop::connect(link& one) {
    constexpr int kind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    one.server = descriptor(::socket(AF_INET, kind, 0));
    int yes = 1;
    for (const descriptor* side : {&one.client, &one.server})
        ::setsockopt(side->get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    sockaddr_in address = loopback(server_port_);
    if (::connect(one.server.get(), plain(address), sizeof address) < 0 && errno != EINPROGRESS)
        reset(one);
}

void gate::loop::refuse() {
    if (!std::exchange(listening_, false)) return;
    // A socket that no longer listens keeps its port.
    checked(::shutdown(listener_.get(), SHUT_RD), "shutdown");
}

void gate::loop::listen() {
    if (std::exchange(listening_, true)) return;
    checked(::listen(listener_.get(), 512), "listen");
}

void gate::loop::finish(link& one) {
    ::shutdown(one.client.get(), SHUT_WR);
    ::shutdown(one.server.get(), SHUT_WR);
    // Closing with unread bytes would send a reset: keep the sockets, and discard what arrives.
    one.finished = true;
}

void gate::loop::reset(link& one) {
    make_resetting(one.client);
    if (one.server.get() >= 0) make_resetting(one.server);
    one.over = true;
    one.client = descriptor();
    one.server = descriptor();
}

std::set<unsigned> gate::loop::end_all(ending how) {
    std::set<unsigned> clients;
    for (link& one : links_) {
        if (one.over) continue;
        clients.insert(port_of_peer(one.client));
        if (how == ending::reset) reset(one);
        else finish(one);
    }
    return clients;
}

void gate::loop::leave_unaware(std::set<unsigned>& clients, ending how) const {
    std::set<unsigned> unaware = how == ending::reset ? ports_of_open_clients(port_)
                                                      : ports_of_clients(port_, {TCP_ESTABLISHED});
    std::erase_if(clients, [&](unsigned port) { return !unaware.contains(port); });
    // A new client may have the port of a closed one; and a client that does not read cannot
    // receive the end.
    for (const link& one : links_)
        if (!one.finished || has_unsent(one.client)) clients.erase(port_of_peer(one.client));
}

std::size_t gate::loop::connections() const {
    std::set<unsigned> open = ports_of_open_clients(port_);
    return static_cast<std::size_t>(std::ranges::count_if(links_, [&](const link& one) {
        return counts(one) && seems_open(one.client) && open.contains(port_of_peer(one.client));
    }));
}

void gate::loop::carry(link& one) {
    if (one.over) return;
    if (now.black_hole || one.lost || one.finished) return discard(one);
    if (now.silent) return;
    if (one.server.get() < 0) connect(one);
    // The client closed in the black hole; pass its end on to the server now.
    if (one.client_gone) one.requests.heard_end = true;
    if (!one.over) take_in(one, one.client, one.requests);
    if (!one.over) take_in(one, one.server, one.replies);
    if (!one.over) give_out(one, one.server, one.requests);
    if (!one.over && !now.hold) give_out(one, one.client, one.replies);
    if (!one.over) end_if_all_is_said(one);
}

void gate::loop::discard(link& one) {
    one.requests.clear();
    one.replies.clear();
    std::string gone;
    while (!one.client_gone) {
        heard what = hear(one.client, gone, room);
        if (what == heard::nothing) break;
        if (what == heard::something) listen_to_beginning(one, gone);
        one.client_gone = what != heard::something;
    }
    while (one.server.get() >= 0 && !one.replies.heard_end) {
        heard what = hear(one.server, gone, room);
        if (what == heard::nothing) break;
        one.replies.heard_end = what != heard::something;
    }
    one.over = one.client_gone && (one.server.get() < 0 || one.replies.heard_end);
}

void gate::loop::take_in(link& one, const descriptor& from, flow& way) {
    // Most connections are quiet: skip the system call.
    if (!ready(from)) return;
    while (!way.heard_end && way.buffered < room) {
        std::string bytes;
        heard what = hear(from, bytes, room - way.buffered);
        if (what == heard::nothing) return;
        if (what == heard::failure) return reset(one);
        if (what == heard::end) {
            way.heard_end = true;
            return;
        }
        bool replies = &way == &one.replies;
        bool client_spoke = std::exchange(one.client_speaks, !replies);
        if (!replies && !client_spoke) ++turns_;
        if (!replies) listen_to_beginning(one, bytes);
        if (!replies) alter(bytes);
        if (replies && now.corrupt_every > 0)
            for (char& byte : bytes)
                if (++way.since_corrupt % now.corrupt_every == 0) byte = static_cast<char>(~byte);
        way.buffered += bytes.size();
        way.pieces.push_back({.bytes = std::move(bytes),
                              .due = clock::now() + (replies ? now.delay : clock::duration{})});
    }
}

void gate::loop::alter(std::string& bytes) {
    if (now.altered.empty()) return;
    std::size_t at = bytes.find(now.altered);
    if (at == bytes.npos) return;
    bytes.replace(at, now.altered_into.size(), now.altered_into);
    now.altered.clear();
}

/// How many bytes may be sent in one segment.
std::size_t gate::loop::portion(const flow& way, std::size_t size) const {
    std::size_t most = now.split ? 1 : size;
    // Portions of 10 ms, so that the stream is even.
    if (now.bytes_per_second != no_limit)
        most = std::min(most, std::max<std::size_t>(1, now.bytes_per_second / 100));
    return std::min({most, size, way.until_cut, way.until_hold});
}

bool gate::loop::give_piece(link& one, const descriptor& to, flow& way) {
    flow::piece& first = way.pieces.front();
    bool replies = &way == &one.replies;
    if (now.split && has_unsent(to)) {
        way.free_at = clock::now() + std::chrono::milliseconds(1);
        return false;
    }
    std::size_t size = now.split ? 1 : first.bytes.size();
    if (replies) size = portion(way, first.bytes.size());
    // Read the clock before sending: a test may advance it as soon as the client has received this.
    clock::time_point time = clock::now();
    ssize_t sent = ::send(to.get(), first.bytes.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
        // A socket that is still connecting counts as busy.
        if (errno != EAGAIN && errno != EINTR && errno != ENOTCONN) reset(one);
        return false;
    }
    auto count = static_cast<std::size_t>(sent);
    way.buffered -= count;
    first.bytes.erase(0, count);
    if (first.bytes.empty()) way.pieces.pop_front();
    if (!replies) return !now.split;
    if (way.until_cut != no_limit) way.until_cut -= count;
    if (way.until_hold != no_limit) way.until_hold -= count;
    if (now.bytes_per_second != no_limit)
        way.free_at = time + std::chrono::nanoseconds(static_cast<std::int64_t>(
                                 1'000'000'000 * count / now.bytes_per_second));
    // One byte per round, so that all connections take turns.
    return !now.split;
}

void gate::loop::give_out(link& one, const descriptor& to, flow& way) {
    bool replies = &way == &one.replies;
    for (;;) {
        if (replies && way.until_cut == 0)
            return now.cut == ending::reset ? reset(one) : finish(one);
        if (way.pieces.empty() || way.until_hold == 0) return;
        clock::time_point time = clock::now();
        if (way.pieces.front().due > time || way.free_at > time) return;
        if (!give_piece(one, to, way)) return;
    }
}

void gate::loop::end_if_all_is_said(link& one) {
    auto pass_on = [](flow& way, const descriptor& to) {
        if (!way.heard_end || way.said_end || !way.pieces.empty()) return;
        way.said_end = true;
        ::shutdown(to.get(), SHUT_WR);
    };
    pass_on(one.requests, one.server);
    if (!now.hold) pass_on(one.replies, one.client);
    one.over = one.requests.said_end && one.replies.said_end;
}

gate::gate(std::uint16_t server_port) : loop_(std::make_unique<loop>(server_port)) {}
gate::~gate() = default;

std::uint16_t gate::port() const { return loop_->port(); }

void gate::pass() {
    loop_->run_on_loop([](loop& me) {
        me.now = {};
        for (link& one : me.links()) {
            one.replies.until_cut = no_limit;
            one.replies.until_hold = no_limit;
            one.replies.free_at = {};
            for (flow::piece& piece : one.replies.pieces) piece.due = {};
        }
        me.listen();
    });
}

void gate::delay(std::chrono::nanoseconds time) {
    loop_->run_on_loop([=](loop& me) { me.now.delay = time; });
}

void gate::throttle(std::size_t bytes_per_second) {
    loop_->run_on_loop([=](loop& me) { me.now.bytes_per_second = bytes_per_second; });
}

void gate::split() {
    loop_->run_on_loop([](loop& me) { me.now.split = true; });
}

void gate::hold_replies() {
    loop_->run_on_loop([](loop& me) { me.now.hold = true; });
}

void gate::let_go() {
    loop_->run_on_loop([](loop& me) {
        me.now.hold = false;
        for (link& one : me.links()) one.replies.until_hold = no_limit;
    });
}

void gate::hold_replies_after(std::size_t bytes) {
    loop_->run_on_loop([=](loop& me) {
        for (link& one : me.links())
            if (me.counts(one)) one.replies.until_hold = bytes;
    });
}

void gate::alter_request(const std::string& what, const std::string& into) {
    if (what.empty() || what.size() != into.size())
        throw std::invalid_argument("gate: the replacement must have the same length");
    loop_->run_on_loop([&](loop& me) {
        me.now.altered = what;
        me.now.altered_into = into;
    });
}

bool gate::altered() {
    bool yes = false;
    loop_->run_on_loop([&](loop& me) { yes = me.now.altered.empty(); });
    return yes;
}

void gate::accept_and_be_silent() {
    loop_->run_on_loop([](loop& me) { me.now.silent = true; });
}

void gate::cut_after(std::size_t bytes, ending how) {
    loop_->run_on_loop([=](loop& me) {
        me.now.cut = how;
        me.now.cut_after = bytes;
        for (link& one : me.links()) one.replies.until_cut = bytes;
    });
}

void gate::corrupt(std::size_t every_nth) {
    loop_->run_on_loop([=](loop& me) {
        me.now.corrupt_every = every_nth;
        for (link& one : me.links()) one.replies.since_corrupt = 0;
    });
}

void gate::black_hole() {
    loop_->run_on_loop([](loop& me) { me.now.black_hole = true; });
}

void gate::refuse() {
    loop_->run_on_loop([](loop& me) { me.refuse(); });
}

void gate::finish_all() { end_all(ending::finish); }

void gate::reset_all() { end_all(ending::reset); }

void gate::end_all(ending how) {
    std::set<unsigned> unaware;
    loop_->run_on_loop([&](loop& me) { unaware = me.end_all(how); });
    bool all_know = eventually([&] {
        loop_->run_on_loop([&](loop& me) { me.leave_unaware(unaware, how); });
        return unaware.empty();
    });
    if (!all_know) throw std::runtime_error("gate: a client does not receive the end");
}

std::size_t gate::buffered() {
    std::size_t count = 0;
    loop_->run_on_loop([&](loop& me) {
        for (const link& one : me.links())
            if (me.counts(one)) count += one.replies.buffered;
    });
    return count;
}

std::size_t gate::connections() {
    std::size_t count = 0;
    loop_->run_on_loop([&](loop& me) { count = me.connections(); });
    return count;
}

std::size_t gate::accepted() {
    std::size_t count = 0;
    loop_->run_on_loop([&](loop& me) { count = me.accepted(); });
    return count;
}

std::size_t gate::turns() {
    std::size_t count = 0;
    loop_->run_on_loop([&](loop& me) { count = me.turns(); });
    return count;
}

void gate::overlook(const std::string& beginning) {
    overlook([beginning](const std::string& bytes) { return bytes.starts_with(beginning); });
}

void gate::overlook(predicate of_beginnings) {
    loop_->run_on_loop([&](loop& me) { me.overlook(of_beginnings); });
}

std::size_t gate::most_at_once() {
    std::size_t count = 0;
    loop_->run_on_loop([&](loop& me) { count = me.most_at_once(); });
    return count;
}

}  // namespace support
