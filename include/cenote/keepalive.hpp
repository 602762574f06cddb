// How connections to servers notice that their peer is gone.
#pragma once

#include <chrono>

namespace cenote {

/// The keepalive of TCP connections. A peer that vanishes without a word (a power failure, a
/// firewall that has forgotten the connection) is noticed after `idle` + `probes` * `interval` if
/// nothing is sent, and after `user_timeout` if data was sent. Without effect on Unix sockets.
///
/// In URLs of PostgreSQL and MariaDB: keepalive_idle, keepalive_interval, keepalive_probes,
/// user_timeout.
struct keepalive_options {
    /// Default 30 s; from 1 to 32767 s. Silence before the first probe. Set it below the time after
    /// which a firewall or a load balancer in between forgets idle connections.
    std::chrono::seconds idle{30};
    /// Default 10 s; from 1 to 32767 s. The time between probes.
    std::chrono::seconds interval{10};
    /// Default 3; from 1 to 127. The number of unanswered probes after which the connection is
    /// dead.
    int probes = 3;
    /// Default 30 s; 0 leaves it to the system, which takes a quarter of an hour. How long sent
    /// data may stay unacknowledged before the connection is dead.
    std::chrono::milliseconds user_timeout{30'000};

    bool operator==(const keepalive_options&) const = default;
};

}  // namespace cenote
