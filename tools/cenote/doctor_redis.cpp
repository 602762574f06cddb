// cenote doctor for Redis.
#include "doctor_servers.hpp"

#ifdef CENOTE_HAS_REDIS
#include <cenote/redis.hpp>
#include <cenote/url.hpp>

namespace doctor {

namespace redis = cenote::redis;
using std::chrono::system_clock;

namespace {

void trip(redis::connection& c) { c.command("PING"); }

/// Parses lines of "name:value".
setting_map parse_info(std::string_view text) {
    setting_map all;
    while (!text.empty()) {
        std::string_view line = text.substr(0, text.find("\r\n"));
        text.remove_prefix(std::min(line.size() + 2, text.size()));
        std::size_t colon = line.find(':');
        if (colon != std::string_view::npos)
            all.emplace(line.substr(0, colon), line.substr(colon + 1));
    }
    return all;
}

/// Reads one setting at a time, because old servers accept only one. Many servers forbid CONFIG.
void read_config(redis::connection& c, setting_map& into, facts& f) {
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

void read_settings(redis::connection& c, facts& into) {
    setting_map info;
    attempt<redis::command_error>("the server's state (INFO)", into,
                                  [&] { info = parse_info(c.command("INFO").as<std::string>()); });
    setting_map settings;
    if (auto clients = info.find("maxclients"); clients != info.end())
        settings["maxclients"] = clients->second;
    if (auto policy = info.find("maxmemory_policy"); policy != info.end()) {
        settings["maxmemory-policy"] = policy->second;
        settings["maxmemory"] = info["maxmemory"];
    }
    read_config(c, settings, into);
    into.version = "Redis " + info["redis_version"];
    if (auto most = number(settings, "maxclients"))
        into.limits.push_back({.name = "maxclients",
                               .takes = *most,
                               .in_use = without_own(number(info, "connected_clients")),
                               .error = "max number of clients reached"});
    if (auto idle = number(settings, "timeout"))
        into.idle_limits.emplace_back("timeout", seconds_from(*idle));
    into.memory = {.max_memory = number(settings, "maxmemory"),
                   .eviction = settings["maxmemory-policy"]};
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
    inspect_route({.host = o.host,
                   .port = o.port,
                   .timeout = how.timeout,
                   .tls = tls,
                   .ca_file = o.tls.ca_file,
                   .server_name = o.tls.server_name},
                  into);
    if (into.error != connect_error::none) return;
    throw_if_interrupted(how);
    auto read_tls = [&](redis::connection&) {
        into.tls.in_use = tls;
        into.tls.verified = tls && !o.tls.unsafe_accept_any_certificate;
    };
    examine_sessions(
        how, redis::connector(o), tls, trip, read_tls,
        [&](redis::connector&, redis::connection& c) { read_settings(c, into); }, into);
}

}  // namespace doctor
#endif
