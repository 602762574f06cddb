// A Redis for one test program, and how its tests speak to it.
#pragma once

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <gtest/gtest.h>

#include "cenote/redis.hpp"
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

/// To that one.
inline cenote::redis::connector here(const std::string& rest = "") {
    std::size_t path = std::min(rest.find('?'), rest.size());
    std::string parameters = path < rest.size() ? rest.substr(path + 1) : "";
    return cenote::redis::connector(
        url_of(server().port(), rest.substr(0, path) + support::patiently(parameters)));
}

template <class T>
boost::asio::awaitable<void> keep(boost::asio::awaitable<T> what, std::optional<T>* into) {
    T value = co_await std::move(what);
    into->emplace(std::move(value));
}

/// On a loop of its own.
template <class T>
T await(boost::asio::awaitable<T> what) {
    boost::asio::io_context loop;
    if constexpr (std::is_void_v<T>) {
        auto done = boost::asio::co_spawn(loop, std::move(what), boost::asio::use_future);
        loop.run();
        done.get();
    } else {
        std::optional<T> result;
        auto kept = keep(std::move(what), &result);
        auto done = boost::asio::co_spawn(loop, std::move(kept), boost::asio::use_future);
        loop.run();
        done.get();
        return std::move(*result);
    }
}

/// What it threw: its kind, and a text without the password.
template <class Call>
std::pair<cenote::error_kind, std::string> failure(Call&& call) {
    try {
        call();
    } catch (const cenote::server_error& e) {
        std::string text = e.what();
        EXPECT_EQ(text.find(support::canary_password), text.npos) << "it tells the password";
        return {e.kind(), text};
    }
    ADD_FAILURE() << "nothing was thrown";
    return {cenote::error_kind::statement, "nothing"};
}

inline std::int64_t id_of(cenote::redis::connection& c) {
    return c.command("CLIENT", "ID").integer();
}

/// A word of CLIENT INFO.
inline std::string about(cenote::redis::connection& c, const std::string& what) {
    std::string line = " " + c.command("CLIENT", "INFO").text();
    std::size_t at = line.find(" " + what + "=");
    if (at == line.npos) return "(none)";
    at += what.size() + 2;
    return line.substr(at, line.find_first_of(" \n", at) - at);
}

}  // namespace redis_fixture
