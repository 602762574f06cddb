// One PostgreSQL server for all tests of a program, and how to reach it.
#pragma once

#include <cstdint>
#include <string>

#include "cenote/postgres.hpp"
#include "support/patient.hpp"
#include "support/real_server.hpp"

namespace support {

/// Started at its first use, stopped at the end of the program.
inline postgres_server& the_postgres() {
    static postgres_server one;
    return one;
}

/// `parameters`: what follows the question mark.
inline std::string postgres_url(std::uint16_t port, const std::string& parameters = {}) {
    return "postgresql://app:" + std::string(canary_password) +
           "@127.0.0.1:" + std::to_string(port) + "/orders" + patiently(parameters);
}

inline std::string postgres_url(const std::string& parameters = {}) {
    return postgres_url(the_postgres().port(), parameters);
}

/// The number of the server's process behind a connection.
inline int backend_of(cenote::postgres::connection& c) {
    return c.execute("select pg_backend_pid()").scalar<int>();
}

/// For tests that several servers share.
struct postgres_place {
    using connection = cenote::postgres::connection;
    using connector = cenote::postgres::connector;
    using async_connector = cenote::postgres::async_connector;

    /// Returns its parameter, a number.
    static constexpr const char* echo = "select $1::int8";

    static postgres_server& server() { return the_postgres(); }
    static std::string url(const std::string& parameters = {}) { return postgres_url(parameters); }
    static void kill_all() { the_postgres().kill_backends(); }
};

}  // namespace support
