// One MariaDB for all tests of a program, and how to reach it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "cenote/mariadb.hpp"
#include "connector/awaiting.hpp"
#include "support/patient.hpp"
#include "support/real_server.hpp"

namespace support {

/// Started when first used, and gone at the end of the program.
inline mariadb_server& the_mariadb() {
    static mariadb_server one;
    return one;
}

/// With the parameters that follow the question mark.
inline std::string mariadb_url(std::uint16_t port, const std::string& parameters = {}) {
    return "mariadb://app:" + std::string(canary_password) + "@127.0.0.1:" + std::to_string(port) +
           "/orders" + patiently(parameters);
}

inline std::string mariadb_url(const std::string& parameters = {}) {
    return mariadb_url(the_mariadb().port(), parameters);
}

/// Whether these are the first bytes of a connection of the library's own, by which it has a
/// statement killed that was given up. It wants no database: its login says so by a bit of its
/// fifth byte.
inline bool is_side_connection(const std::string& login) {
    return login.size() > 4 && (login[4] & 8) == 0;
}

/// The server's number for a connection, asked of the server.
inline std::uint64_t backend_of(cenote::mariadb::connection& c) {
    return c.execute("select connection_id()").scalar<std::uint64_t>();
}

inline boost::asio::awaitable<std::unique_ptr<cenote::mariadb::connection>> async_opened(
    cenote::mariadb::async_connector* by) {
    cenote::mariadb::connection made = co_await by->open();
    co_return std::make_unique<cenote::mariadb::connection>(std::move(made));
}

/// What co_spawn returns must have a default, which connections have not.
inline cenote::mariadb::connection await_open(cenote::mariadb::async_connector& by) {
    return std::move(*await(async_opened(&by)));
}

/// For tests that are the same with another server.
struct mariadb_place {
    using connection = cenote::mariadb::connection;
    using connector = cenote::mariadb::connector;
    using async_connector = cenote::mariadb::async_connector;

    /// Gives back the number it is given.
    static constexpr const char* echo = "select ?";

    static mariadb_server& server() { return the_mariadb(); }
    static std::string url(const std::string& parameters = {}) { return mariadb_url(parameters); }
    /// Does not wait until they are gone: others may have come meanwhile.
    static void kill_all() { the_mariadb().execute_as_admin("kill user app", "mysql"); }
};

}  // namespace support
