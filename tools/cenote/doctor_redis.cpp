// Redis, asked by cenote doctor.
#include "doctor_servers.hpp"

#ifdef CENOTE_HAS_REDIS
#include <charconv>
#include <map>
#include <string_view>

#include "command.hpp"
#include "doctor_reach.hpp"
#include <cenote/redis.hpp>
#include <cenote/url.hpp>

namespace doctor {

namespace redis = cenote::redis;
using std::chrono::system_clock;

namespace {

void trip(redis::connection& c) { c.command("PING"); }

using settings_list = std::map<std::string, std::string, std::less<>>;

std::optional<std::uint64_t> number(const settings_list& from, std::string_view name) {
    auto found = from.find(name);
    if (found == from.end()) return std::nullopt;
    std::uint64_t value = 0;
    const std::string& text = found->second;
    auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    return end.ec == std::errc() ? std::optional(value) : std::nullopt;
}

/// Lines of "name:value".
settings_list parse_info(std::string_view text) {
    settings_list all;
    while (!text.empty()) {
        std::string_view line = text.substr(0, text.find("\r\n"));
        text.remove_prefix(std::min(line.size() + 2, text.size()));
        std::size_t colon = line.find(':');
        if (colon != std::string_view::npos)
            all.emplace(line.substr(0, colon), line.substr(colon + 1));
    }
    return all;
}

/// One setting at a time: old servers take only one. Many do not let everybody see them.
void read_config(redis::connection& c, settings_list& into, facts& f) {
    for (const char* name : {"maxclients", "timeout", "maxmemory", "maxmemory-policy"}) {
        try {
            auto pair = c.command("CONFIG", "GET", name).as<std::vector<std::string>>();
            if (pair.size() == 2) into[pair[0]] = pair[1];
        } catch (const redis::command_error& e) {
            f.not_seen.push_back("the server's settings (CONFIG GET: " + std::string(e.what()) +
                                 ")");
            return;
        }
    }
}

void read_clock(redis::connection& c, facts& into) {
    auto before = system_clock::now();
    auto theirs = c.command("TIME").as<std::vector<std::int64_t>>();
    if (theirs.size() != 2) return;
    compare_clocks(before, system_clock::now(),
                   std::chrono::seconds(theirs[0]) + std::chrono::microseconds(theirs[1]), into);
}

void ask(redis::connection& c, facts& into) {
    settings_list info;
    attempt<redis::command_error>("what the server says of itself", into,
                                  [&] { info = parse_info(c.command("INFO").as<std::string>()); });
    settings_list has;
    if (auto clients = info.find("maxclients"); clients != info.end())
        has["maxclients"] = clients->second;
    if (auto policy = info.find("maxmemory_policy"); policy != info.end()) {
        has["maxmemory-policy"] = policy->second;
        has["maxmemory"] = info["maxmemory"];
    }
    read_config(c, has, into);
    into.version = "Redis " + info["redis_version"];
    auto others = number(info, "connected_clients");
    if (others) others = *others - std::min<std::uint64_t>(*others, 1);  // this one
    if (auto most = number(has, "maxclients"))
        into.limits.push_back({.name = "maxclients",
                               .takes = *most,
                               .in_use = others,
                               .error = "max number of clients reached"});
    if (auto idle = number(has, "timeout"))
        into.idle_limits.emplace_back(
            "timeout", std::chrono::seconds(std::min<std::uint64_t>(*idle, 1'000'000'000)));
    into.memory = {.max_memory = number(has, "maxmemory"), .eviction = has["maxmemory-policy"]};
    into.replica = info["role"] == "slave";
    attempt<redis::command_error>("the server's clock", into, [&] { read_clock(c, into); });
}

}  // namespace

void examine_redis(const examination& how, facts& into) {
    redis::options o = redis::options::from_url(how.url);
    o.connect_timeout = std::chrono::ceil<std::chrono::milliseconds>(how.timeout);
    o.operation_timeout = o.connect_timeout;
    into.local = cenote::is_loopback(o.host);
    bool tls = o.use_tls == redis::options::protection::on ||
               (o.use_tls == redis::options::protection::automatic && !into.local);
    look_along({.host = o.host,
                .port = o.port,
                .timeout = how.timeout,
                .tls = tls,
                .ca_file = o.tls.ca_file,
                .server_name = o.tls.server_name},
               into);
    if (into.wrong != trouble::none) return;
    go_on(how);
    redis::connector by(o);
    try {
        redis::connection c = by.open();
        into.tls.in_use = tls;
        into.tls.verified = tls && !o.tls.unsafe_accept_anybody;
        trip(c);
        attempt<cenote::server_error>("what the server tells", into, [&] {
            ask(c, into);
            by.close(c);
        });
    } catch (const cenote::server_error& e) {
        return explain_failure(e, tls, into);
    }
    measure(how, by, trip, true, into);
    check_idleness(how, by, trip, into);
}

}  // namespace doctor
#endif
