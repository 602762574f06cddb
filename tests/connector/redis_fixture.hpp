// A Redis server for one test program, and how its tests use it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "cenote/redis.hpp"
#include "connector/awaiting.hpp"
#include "support/patient.hpp"
#include "support/real_server.hpp"

namespace redis_fixture {

inline std::string url_of(std::uint16_t port, const std::string& rest = "") {
    return "redis://:" + std::string(support::canary_password) +
           "@127.0.0.1:" + std::to_string(port) + rest;
}

inline support::redis_server& server() {
    static support::redis_server one{{.tls = true}};
    return one;
}

/// A connector to that server.
inline cenote::redis::connector here(const std::string& rest = "") {
    std::size_t path = std::min(rest.find('?'), rest.size());
    std::string parameters = path < rest.size() ? rest.substr(path + 1) : "";
    return cenote::redis::connector(
        url_of(server().port(), rest.substr(0, path) + support::patiently(parameters)));
}

using support::await;

/// The error of a call: its kind and its text, which must not contain the password.
template <class Call>
std::pair<cenote::error_kind, std::string> failure(Call&& call) {
    try {
        call();
    } catch (const cenote::server_error& e) {
        std::string text = e.what();
        EXPECT_EQ(text.find(support::canary_password), text.npos)
            << "the text contains the password";
        return {e.kind(), text};
    }
    ADD_FAILURE() << "nothing was thrown";
    return {cenote::error_kind::statement, "nothing"};
}

inline std::int64_t id_of(cenote::redis::connection& c) {
    return c.command("CLIENT", "ID").integer();
}

/// A field of CLIENT INFO.
inline std::string about(cenote::redis::connection& c, const std::string& what) {
    std::string line = " " + c.command("CLIENT", "INFO").text();
    std::size_t at = line.find(" " + what + "=");
    if (at == line.npos) return "(none)";
    at += what.size() + 2;
    return line.substr(at, line.find_first_of(" \n", at) - at);
}

}  // namespace redis_fixture
