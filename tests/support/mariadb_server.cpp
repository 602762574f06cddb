// Sets up a private MariaDB.
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/patience.hpp"
#include "support/real_server.hpp"

namespace support {

namespace {

std::string sql_text(const std::string& text) {
    std::string made = "'";
    for (char c : text) {
        if (c == '\'' || c == '\\') made += '\\';
        made += c;
    }
    return made + "'";
}

}  // namespace

mariadb_server::mariadb_server(options chosen) : real_server("mariadb", "mysql") {
    std::string data = "--datadir=" + (folder() / "data").string();
    run_program({program("mariadb-install-db"), "--no-defaults", data,
                 // A server that starts deletes all temporary tables in its folder.
                 "--tmpdir=" + folder().string(), "--auth-root-authentication-method=normal",
                 "--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=4M",
                 "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync"});
    control how{.command = {program("mariadbd"), "--no-defaults", data,
                            "--socket=" + socket().string(), "--port=" + std::to_string(port()),
                            "--bind-address=127.0.0.1", "--skip-networking=0",
                            "--skip-name-resolve", "--pid-file=" + (folder() / "pid").string(),
                            "--tmpdir=" + folder().string(),
                            // A separate port for administrators.
                            "--extra-port=" + std::to_string(admin_port_.number()),
                            "--extra-max-connections=10",
                            "--max-connections=" + std::to_string(chosen.max_connections),
                            // The data is temporary: what only makes it durable is off.
                            "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=4M",
                            "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0",
                            "--innodb-flush-method=nosync", "--sync-binlog=0", "--skip-log-bin",
                            "--performance-schema=0"},
                .ready = "ready for connections",
                .shutdown = warded_process::order::terminate,
                .crash = warded_process::order::kill};
    how.command.insert(how.command.end(), chosen.arguments.begin(), chosen.arguments.end());
    control_by(std::move(how));
    start();
    execute_as_admin("create database orders; create user app@'%' identified by " +
                         sql_text(chosen.password) + "; grant all on orders.* to app@'%'",
                     "mysql");
}

std::string mariadb_server::execute_as_admin(const std::string& sql,
                                             const std::string& database) const {
    return run_program({program("mariadb"), "--no-defaults", "--batch", "--skip-column-names",
                        "--host=127.0.0.1", "--port=" + std::to_string(admin_port_.number()),
                        "--user=root", "--database=" + database, "--execute=" + sql});
}

int mariadb_server::connections(const std::string& user) const {
    return std::stoi(execute_as_admin(
        "select count(*) from information_schema.processlist where user = " + sql_text(user),
        "mysql"));
}

void mariadb_server::kill_backends() const {
    execute_as_admin("kill user app", "mysql");
    if (!eventually([this] { return connections() == 0; }))
        throw std::runtime_error("mariadbd has not closed killed connections");
}

}  // namespace support
