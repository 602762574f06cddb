// Sets up a private Redis.
#include <string>
#include <utility>
#include <vector>

#include "support/real_server.hpp"

namespace support {

namespace {

constexpr const char* basic = R"(
bind 127.0.0.1
port @port@
dir @folder@
save ""
appendonly no
daemonize no
requirepass "@password@"
maxclients @max_clients@
)";

constexpr const char* with_tls = R"(
tls-port @port@
tls-cert-file @file@
tls-key-file @key@
tls-ca-cert-file @authority@
tls-auth-clients no
)";

}  // namespace

redis_server::redis_server(options chosen)
    : real_server("redis", "redis"), password_(std::move(chosen.password)) {
    std::string settings = filled(basic, {{"port", std::to_string(port())},
                                          {"folder", folder()},
                                          {"password", password_},
                                          {"max_clients", std::to_string(chosen.max_clients)}});
    if (chosen.tls) {
        certificates_.emplace(folder_);
        certificate mine = certificates_->good();
        settings += filled(with_tls, {{"port", std::to_string(tls_port())},
                                      {"file", mine.file},
                                      {"key", mine.key},
                                      {"authority", authority()}});
    }
    std::string file = folder_.write("redis.conf", settings + chosen.settings + "\n");
    control_by({.command = {program("redis-server"), file},
                .ready = "Ready to accept connections",
                .shutdown = warded_process::order::terminate,
                .crash = warded_process::order::kill});
    start();
}

std::string redis_server::execute_as_admin(const std::vector<std::string>& words) const {
    std::vector<std::string> command = {
        program("redis-cli"), "-h",     "127.0.0.1", "-p", std::to_string(port()),
        "--no-auth-warning",  "--pass", password_,   "-e"};
    command.insert(command.end(), words.begin(), words.end());
    return run_program(command);
}

int redis_server::connections() const {
    // One line per client, including this one.
    std::string list = execute_as_admin({"client", "list"});
    std::size_t count = 0;
    for (std::size_t at = 0; (at = list.find("id=", at)) != std::string::npos; at += 3)
        if (at == 0 || list[at - 1] == '\n') ++count;
    return static_cast<int>(count) - 1;
}

void redis_server::kill_backends() const {
    // Does not kill the client that sends it.
    execute_as_admin({"client", "kill", "type", "normal"});
}

}  // namespace support
