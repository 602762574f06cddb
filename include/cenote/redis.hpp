// Connections to Redis: commands, pipelines, replies, and the connectors that open connections.
// Library cenote::redis.
//
//     cenote::redis::connector cache{"redis://:secret@localhost:6379/2"};
//     cenote::pool<cenote::redis::connection> pool{cache, {.max = 10}};
//     auto lease = pool.acquire();
//     lease->command("SET", "greeting", "hello", "EX", 60);
//     auto value = lease->command("GET", "greeting").as<std::optional<std::string>>();
#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <charconv>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "cenote/connector.hpp"
#include "cenote/secret.hpp"
#include "cenote/server_error.hpp"
#include "cenote/tls.hpp"

namespace cenote::listening_detail {
class receiver;
}

namespace cenote::redis {

/// Binary data.
using bytes = std::vector<std::byte>;

/// The server has refused a command. The connection remains usable.
class command_error : public statement_error {
public:
    /// `text`: of the server. `only_its_word`: what() shows the first word only, because the text
    /// may repeat a password.
    explicit command_error(std::string_view text, bool only_its_word = false);

    /// The first word of the server's text: "WRONGTYPE", "NOSCRIPT", "ERR".
    const std::string& word() const noexcept { return word_; }

private:
    std::string word_;
};

/// A reply was read as a type that it does not have.
class bad_reply : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

namespace detail {

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;
template <class T>
constexpr bool is_vector = false;
template <class T>
constexpr bool is_vector<std::vector<T>> = true;

template <class T>
concept plain_integer = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
                        !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
                        !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

}  // namespace detail

/// The reply to one command: nil, an integer, text, an array of replies, or an error.
class reply {
public:
    /// An error among the replies of a pipeline.
    struct error {
        std::string text;  ///< What the server said.
        bool operator==(const error&) const = default;
    };
    using array = std::vector<reply>;
    using data = std::variant<std::monostate, std::int64_t, std::string, array, error>;

    /// Nil.
    reply() noexcept = default;
    /// For connections: what the server has sent.
    explicit reply(data d) noexcept : data_(std::move(d)) {}

    /// Which type of value the reply has.
    bool is_nil() const noexcept { return data_.index() == 0; }
    bool is_integer() const noexcept { return data_.index() == 1; }
    bool is_text() const noexcept { return data_.index() == 2; }
    bool is_array() const noexcept { return data_.index() == 3; }
    bool is_error() const noexcept { return data_.index() == 4; }
    /// The value as a variant, for code that handles each type.
    const data& get() const noexcept { return data_; }

    /// The value, of exactly this type. Throws command_error if the reply is an error, bad_reply if
    /// it has another type.
    std::int64_t integer() const;
    const std::string& text() const;
    const array& elements() const&;
    array elements() &&;
    /// An element of an array. Throws std::out_of_range, too.
    const reply& operator[](std::size_t index) const;
    /// The server's text. Throws bad_reply if the reply is not an error.
    const std::string& error_text() const;

    /// Converts to a number (an integer, or a text that consists of a number), a bool (0 or 1), a
    /// std::string, std::string_view or bytes; to a std::optional of these, which is empty for nil;
    /// to a std::vector of these. A string_view refers to the reply. Throws command_error if the
    /// reply is an error, bad_reply if it does not fit.
    template <class T>
    T as() const {
        if constexpr (detail::is_optional<T>) {
            if (is_nil()) return std::nullopt;
            return as<typename T::value_type>();
        } else if constexpr (std::same_as<T, bytes>) {
            auto octets = std::as_bytes(std::span(text()));
            return {octets.begin(), octets.end()};
        } else if constexpr (detail::is_vector<T>) {
            T all;
            all.reserve(elements().size());
            for (const reply& each : elements()) all.push_back(each.as<typename T::value_type>());
            return all;
        } else if constexpr (std::same_as<T, bool>) {
            return as_bool();
        } else if constexpr (detail::plain_integer<T>) {
            std::int64_t wide = as_integer();
            if (!std::in_range<T>(wide)) refuse("a smaller integer");
            return static_cast<T>(wide);
        } else if constexpr (std::floating_point<T>) {
            return static_cast<T>(as_double());
        } else {
            static_assert(std::same_as<T, std::string> || std::same_as<T, std::string_view>,
                          "cenote: a reply converts to bool, a number, std::string, "
                          "std::string_view, cenote::redis::bytes, and std::optional or "
                          "std::vector of these");
            return text();
        }
    }

    bool operator==(const reply&) const = default;

private:
    bool as_bool() const;
    std::int64_t as_integer() const;
    double as_double() const;
    [[noreturn]] void refuse(const char* wanted) const;

    data data_;
};

/// A word of a command: text, bytes, or a number. Refers to text and bytes without a copy.
class argument {
public:
    /// Text. It must live until the command was sent.
    argument(std::string_view text) noexcept : text_(text.data()), size_(text.size()) {}
    argument(const std::string& text) noexcept : argument(std::string_view(text)) {}
    /// Throws std::invalid_argument if `text` is null.
    argument(const char* text);
    argument(std::span<const std::byte> octets) noexcept
        : argument(std::string_view(reinterpret_cast<const char*>(octets.data()), octets.size())) {}
    argument(const bytes& octets) noexcept : argument(std::span<const std::byte>(octets)) {}
    argument(detail::plain_integer auto value) noexcept { write(value); }
    /// With the fewest digits that are read as the same number.
    argument(std::floating_point auto value) noexcept { write(static_cast<double>(value)); }

    /// The word as it is sent.
    std::string_view view() const noexcept {
        return {text_ == nullptr ? digits_.data() : text_, size_};
    }

private:
    template <class Number>
    void write(Number value) noexcept {
        auto end = std::to_chars(digits_.data(), digits_.data() + digits_.size(), value);
        size_ = static_cast<std::size_t>(end.ptr - digits_.data());
    }

    const char* text_ = nullptr;  // null: digits_
    std::size_t size_ = 0;
    std::array<char, 32> digits_{};
};

/// Commands that are sent in one message; their replies are read together.
///
///     cenote::redis::pipeline p;
///     p.add("INCR", "visits").add("GET", "greeting");
///     std::vector<cenote::redis::reply> both = lease->execute(p);
///
/// Thread safety: const members may be called from several threads at once.
class pipeline {
public:
    /// Adds a command and copies its words. Throws std::invalid_argument for an empty name, and for
    /// commands that do not get exactly one reply (SUBSCRIBE, MONITOR, CLIENT REPLY, QUIT and the
    /// like): later replies would be mismatched.
    template <class... Args>
    pipeline& add(std::string_view name, const Args&... args) {
        const std::array<argument, 1 + sizeof...(Args)> words{argument(name), argument(args)...};
        return add_words(words);
    }
    /// As add(), for a list of words whose length is not fixed. The first one is the command's
    /// name.
    pipeline& add_words(std::span<const argument> words);

    /// How many commands it has.
    std::size_t size() const noexcept { return marks_.size(); }
    bool empty() const noexcept { return marks_.empty(); }
    /// Makes room for this many bytes of commands in the protocol's form.
    void reserve(std::size_t size) { wire_.reserve(size); }
    void clear() noexcept;
    /// Clears, and overwrites the memory. For commands that contain a password.
    void wipe() noexcept;

    // For connections and tests.

    /// What a command does to the session.
    enum class mark : std::uint8_t {
        harmless,      ///< Leaves it unchanged.
        changes,       ///< May change it; RESET undoes that.
        confidential,  ///< As `changes`; an error of the server may repeat a password.
        watches,       ///< WATCH
        begins,        ///< MULTI
        ends,          ///< EXEC, DISCARD, RESET
        no_evict,      ///< CLIENT NO-EVICT, which only itself undoes.
        no_touch,      ///< CLIENT NO-TOUCH, which only itself undoes.
        cannot_undo,   ///< Changes it in a way that no command undoes.
    };
    /// The commands in the protocol's form.
    const std::string& wire() const noexcept { return wire_; }
    std::span<const mark> marks() const noexcept { return marks_; }
    /// These commands between MULTI and EXEC.
    pipeline in_multi() const;

private:
    std::string wire_;
    std::vector<mark> marks_;
};

/// Where a server is, and how connections to it are set up.
struct options {
    /// Whether connections use TLS.
    enum class protection : std::uint8_t {
        automatic,  ///< TLS, except for loopback addresses and Unix sockets.
        on,         ///< Always.
        off,        ///< An attacker on the network can read and change everything.
    };

    /// Default: this machine. A name, an address, or the path of a Unix socket (with its slash).
    std::string host = "127.0.0.1";
    std::uint16_t port = 6379;
    /// Default: the server's default user.
    std::string user;
    /// Default none. The connection then sends no AUTH, unless there is a user.
    secret password;
    /// The number of the database. A reset selects it again after a borrower's SELECT.
    int database = 0;
    /// Default none. The name that CLIENT LIST shows.
    std::string client_name;
    /// Default: automatic.
    protection use_tls = protection::automatic;
    tls_options tls;
    /// Default 5 s. How long an open may take: connecting, TLS and login together.
    std::chrono::milliseconds connect_timeout{5'000};
    /// Default 30 s. How long each exchange may take. A longer one throws exchange_timeout, and the
    /// connection is lost. connection::set_timeout() changes it for one lease. Give commands that
    /// wait on the server (BLPOP) a shorter time limit than this.
    std::chrono::milliseconds operation_timeout{30'000};
    /// Default 64 MiB, at least 1 KiB. The memory that one reply may take, in bytes. A longer reply
    /// throws connection_error, and the connection is lost. Raise it for large values.
    std::size_t max_reply = std::size_t{64} << 20U;

    /// `redis://user:password@host:port/database?key=value`, or `rediss:` for TLS. Keys: tls,
    /// tls_ca, tls_cert, tls_key, tls_server_name, client_name, connect_timeout, operation_timeout,
    /// max_reply. `redis:` with a host on another machine needs `tls=off`, so that a password is
    /// not sent in clear text by accident. Throws invalid_url.
    static options from_url(std::string_view text);
};

namespace detail {
class session;
class settings;
}  // namespace detail

/// One connection.
///
/// Every operation throws
/// - command_error if the server refuses a command. The connection remains usable.
/// - connection_error if the connection is lost, exchange_timeout after operation_timeout. The
///   connection is unusable.
/// - std::invalid_argument before anything is sent, for commands that are not supported: see
///   pipeline::add.
/// - std::logic_error if another operation is under way.
///
/// Awaited operations own their arguments, start when they are awaited, and run on the executor of
/// their coroutine, which may differ from one to the next. A coroutine that is canceled
/// (terminally) or destroyed leaves the connection unusable.
///
/// Thread safety: one thread or coroutine at a time, one operation at a time.
class connection {
public:
    /// For connectors.
    explicit connection(std::unique_ptr<detail::session> s) noexcept;
    connection(connection&& other) noexcept;
    connection& operator=(connection&& other) noexcept;
    ~connection();

    /// Runs one command: `command("SET", key, value, "EX", 60)`.
    template <class... Args>
    reply command(std::string_view name, const Args&... args) {
        pipeline one;
        one.add(name, args...);
        return only(one);
    }
    template <class... Args>
    boost::asio::awaitable<reply> async_command(std::string_view name, const Args&... args) {
        pipeline one;
        one.add(name, args...);
        return async_only(std::move(one));
    }

    /// Runs all commands in one exchange. A command that the server refuses has an error among the
    /// replies; this does not throw command_error.
    std::vector<reply> execute(const pipeline& commands);
    boost::asio::awaitable<std::vector<reply>> async_execute(pipeline commands);

    /// Runs all commands between MULTI and EXEC: no other client's commands come in between. Empty:
    /// a watched key (`command("WATCH", key)`) has changed, and no command was run. Throws
    /// command_error if the server refuses to queue a command; then none was run. (If it refuses
    /// MULTI itself, the commands have run without a transaction; what() says so.) A command that
    /// fails later has an error among the replies. Throws std::logic_error inside another
    /// transaction.
    std::optional<std::vector<reply>> transaction(const pipeline& commands);
    boost::asio::awaitable<std::optional<std::vector<reply>>> async_transaction(pipeline commands);

    /// The time limit of each exchange for the rest of the lease, instead of operation_timeout.
    void set_timeout(std::chrono::milliseconds limit) noexcept;
    /// Whether the borrower's own MULTI has no EXEC yet.
    bool in_transaction() const noexcept;
    /// The socket. Do not read from it or write to it.
    int native_handle() const noexcept;

    /// For the library: see redis_subscribe.hpp. The connection can only be closed afterwards.
    std::unique_ptr<listening_detail::receiver> receiver();

private:
    friend class connector;
    friend class async_connector;

    reply only(const pipeline& one);
    boost::asio::awaitable<reply> async_only(pipeline one);

    std::unique_ptr<detail::session> session_;
};

/// Opens connections, for a pool with threads of its own.
///
/// A lease that ran only commands which read and write data costs no reset. After any other command
/// the session is reset: RESET, and then user, database and name as in the options. That needs
/// Redis 6.2 and, with ACLs, the right to RESET; otherwise such a connection is closed.
///
/// Thread safety: may be used from several threads at once.
class connector {
public:
    /// Throws std::invalid_argument for inconsistent options.
    explicit connector(const options& chosen);
    /// Throws invalid_url.
    explicit connector(std::string_view url) : connector(options::from_url(url)) {}

    /// Throws connection_error: transient or final.
    connection open();
    /// Sends a PING with a new text, which the reply must repeat. Throws connection_error.
    bool probe(connection& c);
    /// Throws connection_error, also if a command has changed the session in a way that RESET does
    /// not undo.
    void reset(connection& c);
    void close(connection& c) noexcept;
    /// Whether the connection can be leased: its socket has no unread bytes.
    bool before_acquire(connection& c) noexcept;
    verdict before_release(connection& c) noexcept;
    verdict classify(const std::exception_ptr& error) const { return verdict_of(error); }
    /// The server, without user and secrets, for people.
    std::string endpoint() const;
    void forsake(connection& c) noexcept;

private:
    friend class async_connector;
    std::shared_ptr<const detail::settings> settings_;
};

/// As connector, for a pool on an executor. Never blocks it: names are looked up on work threads.
class async_connector {
public:
    /// As the constructors of connector.
    explicit async_connector(const options& chosen) : blocking_(chosen) {}
    explicit async_connector(std::string_view url) : blocking_(url) {}

    /// As the members of connector.
    boost::asio::awaitable<connection> open();
    boost::asio::awaitable<bool> probe(connection& c);
    boost::asio::awaitable<void> reset(connection& c);
    void close(connection& c) noexcept { blocking_.close(c); }
    bool before_acquire(connection& c) noexcept { return blocking_.before_acquire(c); }
    verdict before_release(connection& c) noexcept { return blocking_.before_release(c); }
    verdict classify(const std::exception_ptr& error) const { return verdict_of(error); }
    std::string endpoint() const { return blocking_.endpoint(); }
    void forsake(connection& c) noexcept { blocking_.forsake(c); }

private:
    connector blocking_;
};

}  // namespace cenote::redis
