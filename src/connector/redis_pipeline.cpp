// Commands in Redis's protocol, and what is known of each: whether it may change the session, and
// whether it gets exactly one reply.
#include <algorithm>
#include <array>
#include <string.h>

#include "cenote/redis.hpp"

namespace cenote::redis {

namespace {

using mark = pipeline::mark;

// clang-format off
/// Commands that leave the session unchanged. Every other command may change it, so an unknown
/// command costs a reset. Sorted.
constexpr std::array<std::string_view, 187> harmless{
    "APPEND", "BITCOUNT", "BITFIELD", "BITFIELD_RO", "BITOP", "BITPOS", "BLMOVE", "BLMPOP", "BLPOP",
    "BRPOP", "BRPOPLPUSH", "BZMPOP", "BZPOPMAX", "BZPOPMIN", "COPY", "DBSIZE", "DECR", "DECRBY",
    "DEL", "DUMP", "ECHO", "EXISTS", "EXPIRE", "EXPIREAT", "EXPIRETIME", "FLUSHALL", "FLUSHDB",
    "GEOADD", "GEODIST", "GEOHASH", "GEOPOS", "GEORADIUS", "GEORADIUSBYMEMBER",
    "GEORADIUSBYMEMBER_RO", "GEORADIUS_RO", "GEOSEARCH", "GEOSEARCHSTORE", "GET", "GETBIT",
    "GETDEL", "GETEX", "GETRANGE", "GETSET", "HDEL", "HEXISTS", "HEXPIRE", "HGET", "HGETALL",
    "HINCRBY", "HINCRBYFLOAT", "HKEYS", "HLEN", "HMGET", "HMSET", "HRANDFIELD", "HSCAN", "HSET",
    "HSETNX", "HSTRLEN", "HTTL", "HVALS", "INCR", "INCRBY", "INCRBYFLOAT", "INFO", "KEYS",
    "LASTSAVE", "LCS", "LINDEX", "LINSERT", "LLEN", "LMOVE", "LMPOP", "LOLWUT", "LPOP", "LPOS",
    "LPUSH", "LPUSHX", "LRANGE", "LREM", "LSET", "LTRIM", "MGET", "MOVE", "MSET", "MSETNX",
    "OBJECT", "PERSIST", "PEXPIRE", "PEXPIREAT", "PEXPIRETIME", "PFADD", "PFCOUNT", "PFMERGE",
    "PING", "PSETEX", "PTTL", "PUBLISH", "RANDOMKEY", "RENAME", "RENAMENX", "RESTORE", "RPOP",
    "RPOPLPUSH", "RPUSH", "RPUSHX", "SADD", "SCAN", "SCARD", "SDIFF", "SDIFFSTORE", "SET", "SETBIT",
    "SETEX", "SETNX", "SETRANGE", "SINTER", "SINTERCARD", "SINTERSTORE", "SISMEMBER", "SMEMBERS",
    "SMISMEMBER", "SMOVE", "SORT", "SORT_RO", "SPOP", "SPUBLISH", "SRANDMEMBER", "SREM", "SSCAN",
    "STRLEN", "SUBSTR", "SUNION", "SUNIONSTORE", "TIME", "TOUCH", "TTL", "TYPE", "UNLINK", "WAIT",
    "XACK", "XADD", "XAUTOCLAIM", "XCLAIM", "XDEL", "XGROUP", "XINFO", "XLEN", "XPENDING", "XRANGE",
    "XREAD", "XREADGROUP", "XREVRANGE", "XSETID", "XTRIM", "ZADD", "ZCARD", "ZCOUNT", "ZDIFF",
    "ZDIFFSTORE", "ZINCRBY", "ZINTER", "ZINTERCARD", "ZINTERSTORE", "ZLEXCOUNT", "ZMPOP", "ZMSCORE",
    "ZPOPMAX", "ZPOPMIN", "ZRANDMEMBER", "ZRANGE", "ZRANGEBYLEX", "ZRANGEBYSCORE", "ZRANGESTORE",
    "ZRANK", "ZREM", "ZREMRANGEBYLEX", "ZREMRANGEBYRANK", "ZREMRANGEBYSCORE", "ZREVRANGE",
    "ZREVRANGEBYLEX", "ZREVRANGEBYSCORE", "ZREVRANK", "ZSCAN", "ZSCORE", "ZUNION", "ZUNIONSTORE"};
// clang-format on
static_assert(std::ranges::is_sorted(harmless));

/// Commands with no reply, several replies, or replies in another protocol. Sorted.
constexpr std::array<std::string_view, 11> unpaired{
    "MONITOR",    "PSUBSCRIBE", "PSYNC",        "PUNSUBSCRIBE", "QUIT",       "REPLCONF",
    "SSUBSCRIBE", "SUBSCRIBE",  "SUNSUBSCRIBE", "SYNC",         "UNSUBSCRIBE"};
static_assert(std::ranges::is_sorted(unpaired));

/// Subcommands of CLIENT that RESET undoes, or that do not concern the session. Sorted.
constexpr std::array<std::string_view, 14> undone_by_reset{
    "CACHING", "GETNAME", "GETREDIR", "HELP",     "ID",           "INFO",    "KILL",
    "LIST",    "PAUSE",   "SETNAME",  "TRACKING", "TRACKINGINFO", "UNBLOCK", "UNPAUSE"};
static_assert(std::ranges::is_sorted(undone_by_reset));

/// Cuts off what exceeds the length of any command.
std::string upper_case(std::string_view word) {
    std::string upper(word.substr(0, 32));
    for (char& c : upper)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    return upper;
}

[[noreturn]] void refuse(const std::string& name) {
    throw std::invalid_argument(
        "cenote: Redis: " + name +
        " is not supported: it does not get exactly one reply, so later replies would be "
        "mismatched");
}

mark mark_of_client(const std::string& subcommand) {
    if (subcommand == "REPLY") refuse("CLIENT REPLY");
    if (subcommand == "NO-EVICT") return mark::no_evict;
    if (subcommand == "NO-TOUCH") return mark::no_touch;
    bool undone = std::ranges::binary_search(undone_by_reset, subcommand);
    return undone ? mark::changes : mark::cannot_undo;
}

/// Throws std::invalid_argument.
mark mark_of(std::span<const argument> words) {
    std::string name = upper_case(words.front().view());
    std::string second = words.size() > 1 ? upper_case(words[1].view()) : std::string();
    if (name.empty()) throw std::invalid_argument("cenote: Redis: the command has no name");
    if (std::ranges::binary_search(harmless, name)) return mark::harmless;
    if (std::ranges::binary_search(unpaired, name)) refuse(name);
    if (name == "SCRIPT" && second == "DEBUG") refuse("SCRIPT DEBUG");
    if (name == "HELLO" && !second.empty() && second != "2")
        refuse("HELLO with another protocol than 2");
    if (name == "CLIENT") return mark_of_client(second);
    if (name == "WATCH") return mark::watches;
    if (name == "MULTI") return mark::begins;
    if (name == "EXEC" || name == "DISCARD" || name == "RESET") return mark::ends;
    for (const char* tells : {"ACL", "AUTH", "CONFIG", "HELLO", "MIGRATE"})
        if (name == tells) return mark::confidential;
    return mark::changes;
}

void append_number(std::string& to, char kind, std::size_t number) {
    std::array<char, 24> digits{};
    auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
    to += kind;
    to.append(digits.data(), end.ptr);
    to += "\r\n";
}

}  // namespace

argument::argument(const char* text) : text_(text), size_(text == nullptr ? 0 : strlen(text)) {
    if (text == nullptr) throw std::invalid_argument("cenote: Redis: an argument is null");
}

pipeline& pipeline::add_words(std::span<const argument> words) {
    if (words.empty()) throw std::invalid_argument("cenote: Redis: the command has no name");
    mark m = mark_of(words);
    std::size_t before = wire_.size();
    try {
        append_number(wire_, '*', words.size());
        for (const argument& each : words) {
            append_number(wire_, '$', each.view().size());
            wire_.append(each.view()).append("\r\n");
        }
        marks_.push_back(m);
    } catch (...) {  // no half command may stay
        wire_.resize(before);
        throw;
    }
    return *this;
}

void pipeline::clear() noexcept {
    wire_.clear();
    marks_.clear();
}

void pipeline::wipe() noexcept {
    explicit_bzero(wire_.data(), wire_.size());
    clear();
}

pipeline pipeline::in_multi() const {
    pipeline all;
    all.reserve(wire_.size() + 64);
    all.add("MULTI");
    all.wire_ += wire_;
    all.marks_.insert(all.marks_.end(), marks_.begin(), marks_.end());
    all.add("EXEC");
    all.marks_.front() = all.marks_.back() = mark::harmless;
    return all;
}

}  // namespace cenote::redis
