// One MariaDB server for all tests of a program, and how to reach it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cenote/mariadb.hpp"
#include "connector/awaiting.hpp"
#include "support/patient.hpp"
#include "support/real_server.hpp"

namespace support {

/// Started at its first use, stopped at the end of the program.
inline mariadb_server& the_mariadb() {
    static mariadb_server one;
    return one;
}

/// `parameters`: what follows the question mark.
inline std::string mariadb_url(std::uint16_t port, const std::string& parameters = {}) {
    return "mariadb://app:" + std::string(canary_password) + "@127.0.0.1:" + std::to_string(port) +
           "/orders" + patiently(parameters);
}

inline std::string mariadb_url(const std::string& parameters = {}) {
    return mariadb_url(the_mariadb().port(), parameters);
}

/// Whether these are the first bytes of a connection by which the connector cancels a statement.
/// Its login selects no database: a bit of the fifth byte is clear.
inline bool is_side_connection(const std::string& login) {
    return login.size() > 4 && (login[4] & 8) == 0;
}

/// The number of the connection, by a query.
inline std::uint64_t backend_of(cenote::mariadb::connection& c) {
    return c.execute("select connection_id()").scalar<std::uint64_t>();
}

inline boost::asio::awaitable<std::unique_ptr<cenote::mariadb::connection>> async_opened(
    cenote::mariadb::async_connector* by) {
    cenote::mariadb::connection made = co_await by->open();
    co_return std::make_unique<cenote::mariadb::connection>(std::move(made));
}

/// co_spawn needs a result with a default constructor, which connections lack.
inline cenote::mariadb::connection await_open(cenote::mariadb::async_connector& by) {
    return std::move(*await(async_opened(&by)));
}

/// A server that offers TLS. Made when the first test needs it, stopped at the end of the program.
class mariadb_with_tls {
public:
    static mariadb_with_tls& shared() {
        static mariadb_with_tls one;
        return one;
    }

    /// Lets a connection to the common server go to this one, encrypted.
    cenote::mariadb::options reached_from(cenote::mariadb::options o) const {
        o.port = server_->port();
        o.tls = true;
        o.tls_ca = all_.authority().string();
        return o;
    }

private:
    mariadb_with_tls() {
        const certificate shown = all_.good();
        folder_.give_to_user();
        mariadb_server::options chosen;
        chosen.arguments = {"--ssl-ca=" + all_.authority().string(),
                            "--ssl-cert=" + shown.file.string(), "--ssl-key=" + shown.key.string()};
        server_.emplace(chosen);
    }

    temporary_folder folder_{"mariadb-tls", user_for("mysql")};
    certificates all_{folder_};
    std::optional<mariadb_server> server_;
};

/// For tests that several servers share.
struct mariadb_place {
    using connection = cenote::mariadb::connection;
    using connector = cenote::mariadb::connector;
    using async_connector = cenote::mariadb::async_connector;

    /// Returns its parameter, a number.
    static constexpr const char* echo = "select ?";

    static mariadb_server& server() { return the_mariadb(); }
    static std::string url(const std::string& parameters = {}) { return mariadb_url(parameters); }
    /// Does not wait for their end: new connections may come meanwhile.
    static void kill_all() { the_mariadb().execute_as_admin("kill user app", "mysql"); }
};

}  // namespace support
