// Commands as they are sent, and what is known of each: whether it leaves the session as it is, and
// whether it is answered at all.
#include <algorithm>
#include <array>
#include <string.h>

#include "cenote/redis.hpp"

namespace cenote::redis {

namespace {

using mark = pipeline::mark;

/// Those that read and write data and nothing else: no session is another one afterwards. What is
/// not here may change it; so an unknown command costs a reset, never a surprise.
constexpr std::array<std::string_view, 187> harmless{"APPEND",
                                                     "BITCOUNT",
                                                     "BITFIELD",
                                                     "BITFIELD_RO",
                                                     "BITOP",
                                                     "BITPOS",
                                                     "BLMOVE",
                                                     "BLMPOP",
                                                     "BLPOP",
                                                     "BRPOP",
                                                     "BRPOPLPUSH",
                                                     "BZMPOP",
                                                     "BZPOPMAX",
                                                     "BZPOPMIN",
                                                     "COPY",
                                                     "DBSIZE",
                                                     "DECR",
                                                     "DECRBY",
                                                     "DEL",
                                                     "DUMP",
                                                     "ECHO",
                                                     "EXISTS",
                                                     "EXPIRE",
                                                     "EXPIREAT",
                                                     "EXPIRETIME",
                                                     "FLUSHALL",
                                                     "FLUSHDB",
                                                     "GEOADD",
                                                     "GEODIST",
                                                     "GEOHASH",
                                                     "GEOPOS",
                                                     "GEORADIUS",
                                                     "GEORADIUSBYMEMBER",
                                                     "GEORADIUSBYMEMBER_RO",
                                                     "GEORADIUS_RO",
                                                     "GEOSEARCH",
                                                     "GEOSEARCHSTORE",
                                                     "GET",
                                                     "GETBIT",
                                                     "GETDEL",
                                                     "GETEX",
                                                     "GETRANGE",
                                                     "GETSET",
                                                     "HDEL",
                                                     "HEXISTS",
                                                     "HEXPIRE",
                                                     "HGET",
                                                     "HGETALL",
                                                     "HINCRBY",
                                                     "HINCRBYFLOAT",
                                                     "HKEYS",
                                                     "HLEN",
                                                     "HMGET",
                                                     "HMSET",
                                                     "HRANDFIELD",
                                                     "HSCAN",
                                                     "HSET",
                                                     "HSETNX",
                                                     "HSTRLEN",
                                                     "HTTL",
                                                     "HVALS",
                                                     "INCR",
                                                     "INCRBY",
                                                     "INCRBYFLOAT",
                                                     "INFO",
                                                     "KEYS",
                                                     "LASTSAVE",
                                                     "LCS",
                                                     "LINDEX",
                                                     "LINSERT",
                                                     "LLEN",
                                                     "LMOVE",
                                                     "LMPOP",
                                                     "LOLWUT",
                                                     "LPOP",
                                                     "LPOS",
                                                     "LPUSH",
                                                     "LPUSHX",
                                                     "LRANGE",
                                                     "LREM",
                                                     "LSET",
                                                     "LTRIM",
                                                     "MGET",
                                                     "MOVE",
                                                     "MSET",
                                                     "MSETNX",
                                                     "OBJECT",
                                                     "PERSIST",
                                                     "PEXPIRE",
                                                     "PEXPIREAT",
                                                     "PEXPIRETIME",
                                                     "PFADD",
                                                     "PFCOUNT",
                                                     "PFMERGE",
                                                     "PING",
                                                     "PSETEX",
                                                     "PTTL",
                                                     "PUBLISH",
                                                     "RANDOMKEY",
                                                     "RENAME",
                                                     "RENAMENX",
                                                     "RESTORE",
                                                     "RPOP",
                                                     "RPOPLPUSH",
                                                     "RPUSH",
                                                     "RPUSHX",
                                                     "SADD",
                                                     "SCAN",
                                                     "SCARD",
                                                     "SDIFF",
                                                     "SDIFFSTORE",
                                                     "SET",
                                                     "SETBIT",
                                                     "SETEX",
                                                     "SETNX",
                                                     "SETRANGE",
                                                     "SINTER",
                                                     "SINTERCARD",
                                                     "SINTERSTORE",
                                                     "SISMEMBER",
                                                     "SMEMBERS",
                                                     "SMISMEMBER",
                                                     "SMOVE",
                                                     "SORT",
                                                     "SORT_RO",
                                                     "SPOP",
                                                     "SPUBLISH",
                                                     "SRANDMEMBER",
                                                     "SREM",
                                                     "SSCAN",
                                                     "STRLEN",
                                                     "SUBSTR",
                                                     "SUNION",
                                                     "SUNIONSTORE",
                                                     "TIME",
                                                     "TOUCH",
                                                     "TTL",
                                                     "TYPE",
                                                     "UNLINK",
                                                     "WAIT",
                                                     "XACK",
                                                     "XADD",
                                                     "XAUTOCLAIM",
                                                     "XCLAIM",
                                                     "XDEL",
                                                     "XGROUP",
                                                     "XINFO",
                                                     "XLEN",
                                                     "XPENDING",
                                                     "XRANGE",
                                                     "XREAD",
                                                     "XREADGROUP",
                                                     "XREVRANGE",
                                                     "XSETID",
                                                     "XTRIM",
                                                     "ZADD",
                                                     "ZCARD",
                                                     "ZCOUNT",
                                                     "ZDIFF",
                                                     "ZDIFFSTORE",
                                                     "ZINCRBY",
                                                     "ZINTER",
                                                     "ZINTERCARD",
                                                     "ZINTERSTORE",
                                                     "ZLEXCOUNT",
                                                     "ZMPOP",
                                                     "ZMSCORE",
                                                     "ZPOPMAX",
                                                     "ZPOPMIN",
                                                     "ZRANDMEMBER",
                                                     "ZRANGE",
                                                     "ZRANGEBYLEX",
                                                     "ZRANGEBYSCORE",
                                                     "ZRANGESTORE",
                                                     "ZRANK",
                                                     "ZREM",
                                                     "ZREMRANGEBYLEX",
                                                     "ZREMRANGEBYRANK",
                                                     "ZREMRANGEBYSCORE",
                                                     "ZREVRANGE",
                                                     "ZREVRANGEBYLEX",
                                                     "ZREVRANGEBYSCORE",
                                                     "ZREVRANK",
                                                     "ZSCAN",
                                                     "ZSCORE",
                                                     "ZUNION",
                                                     "ZUNIONSTORE"};
static_assert(std::ranges::is_sorted(harmless));

/// Answered by none, by many, or in another protocol.
constexpr std::array<std::string_view, 11> unpaired{
    "MONITOR",    "PSUBSCRIBE", "PSYNC",        "PUNSUBSCRIBE", "QUIT",       "REPLCONF",
    "SSUBSCRIBE", "SUBSCRIBE",  "SUNSUBSCRIBE", "SYNC",         "UNSUBSCRIBE"};
static_assert(std::ranges::is_sorted(unpaired));

/// What CLIENT is asked for that RESET undoes, or that is nobody's session.
constexpr std::array<std::string_view, 14> clients_undone{
    "CACHING", "GETNAME", "GETREDIR", "HELP",     "ID",           "INFO",    "KILL",
    "LIST",    "PAUSE",   "SETNAME",  "TRACKING", "TRACKINGINFO", "UNBLOCK", "UNPAUSE"};
static_assert(std::ranges::is_sorted(clients_undone));

/// In capitals; what is too long for any command is as good as unknown.
std::string capitals(std::string_view word) {
    std::string upper(word.substr(0, 32));
    for (char& c : upper)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    return upper;
}

[[noreturn]] void refuse(const std::string& name) {
    throw std::invalid_argument(
        "cenote: Redis: " + name +
        " cannot be sent here: it is not answered by exactly one reply, so that each later one "
        "would be taken for another");
}

mark mark_of_client(const std::string& what) {
    if (what == "REPLY") refuse("CLIENT REPLY");
    if (what == "NO-EVICT") return mark::no_evict;
    if (what == "NO-TOUCH") return mark::no_touch;
    return std::ranges::binary_search(clients_undone, what) ? mark::changes : mark::cannot_undo;
}

/// Throws std::invalid_argument.
mark mark_of(std::span<const argument> words) {
    std::string name = capitals(words.front().view());
    std::string second = words.size() > 1 ? capitals(words[1].view()) : std::string();
    if (name.empty()) throw std::invalid_argument("cenote: Redis: a command without a name");
    if (std::ranges::binary_search(harmless, name)) return mark::harmless;
    if (std::ranges::binary_search(unpaired, name)) refuse(name);
    if (name == "SCRIPT" && second == "DEBUG") refuse("SCRIPT DEBUG");
    if (name == "HELLO" && !second.empty() && second != "2") refuse("HELLO for another protocol");
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
    if (words.empty()) throw std::invalid_argument("cenote: Redis: a command without a name");
    mark m = mark_of(words);
    std::size_t before = wire_.size();
    try {
        append_number(wire_, '*', words.size());
        for (const argument& each : words) {
            append_number(wire_, '$', each.view().size());
            wire_.append(each.view()).append("\r\n");
        }
        marks_.push_back(m);
    } catch (...) {  // half a command is worse than none
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
