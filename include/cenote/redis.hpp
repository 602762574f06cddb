// Connections to Redis: commands and replies, blocking and awaited, and the connectors that pool
// them.
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

namespace cenote::redis {

using bytes = std::vector<std::byte>;

/// The server would not do what one command asked for. The connection can be used on.
class command_error : public statement_error {
public:
    /// `text`: as the server said it. Where that may repeat what must stay secret, only its word.
    explicit command_error(std::string_view text, bool only_its_word = false);

    /// The first word of the server's text: "WRONGTYPE", "ERR".
    const std::string& word() const noexcept { return word_; }

private:
    std::string word_;
};

/// A reply was asked for as something it is not.
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

/// What the server answered to one command: nil, a whole number, text, an array of these, or an
/// error.
class reply {
public:
    /// An error as a value: a command of several failed.
    struct error {
        std::string text;
        bool operator==(const error&) const = default;
    };
    using array = std::vector<reply>;
    using data = std::variant<std::monostate, std::int64_t, std::string, array, error>;

    reply() noexcept = default;
    explicit reply(data d) noexcept : data_(std::move(d)) {}

    bool is_nil() const noexcept { return data_.index() == 0; }
    bool is_integer() const noexcept { return data_.index() == 1; }
    bool is_text() const noexcept { return data_.index() == 2; }
    bool is_array() const noexcept { return data_.index() == 3; }
    bool is_error() const noexcept { return data_.index() == 4; }
    const data& get() const noexcept { return data_; }

    // As what it is. Throw command_error if it is an error, bad_reply if it is something else.

    std::int64_t integer() const;
    const std::string& text() const;
    const array& elements() const&;
    array elements() &&;
    /// One of the elements. Throws std::out_of_range, too.
    const reply& operator[](std::size_t index) const;
    /// The server's words. Throws bad_reply if it is no error.
    const std::string& error_text() const;

    /// As a number (also if it is text that is exactly that number), a bool (0 or 1), a
    /// std::string, a std::string_view or bytes; a std::optional of these, which is empty for nil;
    /// a std::vector of these. Throws like the others.
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
                          "cenote: a reply can be had as bool, a number, std::string, "
                          "std::string_view, cenote::redis::bytes, or std::optional or "
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

/// A word of a command: text, bytes, or a number. Text and bytes are referred to, not copied.
class argument {
public:
    argument(std::string_view text) noexcept : text_(text.data()), size_(text.size()) {}
    argument(const std::string& text) noexcept : argument(std::string_view(text)) {}
    /// Throws std::invalid_argument if it is null.
    argument(const char* text);
    argument(std::span<const std::byte> octets) noexcept
        : argument(std::string_view(reinterpret_cast<const char*>(octets.data()), octets.size())) {}
    argument(const bytes& octets) noexcept : argument(std::span<const std::byte>(octets)) {}
    argument(detail::plain_integer auto value) noexcept { write(value); }
    /// With as many digits as are needed to read the same number again.
    argument(std::floating_point auto value) noexcept { write(static_cast<double>(value)); }

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

/// Commands that are sent together; the replies come together, too.
///
/// Commands that would not be answered with exactly one reply each (SUBSCRIBE, MONITOR, CLIENT
/// REPLY, QUIT and the like) are refused with std::invalid_argument: every later reply would be
/// taken for another one.
class pipeline {
public:
    template <class... Args>
    pipeline& add(std::string_view name, const Args&... args) {
        const std::array<argument, 1 + sizeof...(Args)> words{argument(name), argument(args)...};
        return add_words(words);
    }
    /// The same for as many as there happen to be; the first is the command's name.
    pipeline& add_words(std::span<const argument> words);

    std::size_t size() const noexcept { return marks_.size(); }
    bool empty() const noexcept { return marks_.empty(); }
    void reserve(std::size_t size) { wire_.reserve(size); }
    void clear() noexcept;
    /// The same, and leaves no trace of it in memory.
    void wipe() noexcept;

    // For the connection.

    /// What a command means for the session.
    enum class mark : std::uint8_t {
        harmless,      ///< Leaves the session as it is.
        changes,       ///< May change it; RESET undoes that.
        confidential,  ///< The same, and what the server says of it may repeat a password.
        watches,       ///< WATCH
        begins,        ///< MULTI
        ends,          ///< EXEC, DISCARD, RESET
        no_evict,      ///< CLIENT NO-EVICT: undone by itself alone.
        no_touch,      ///< CLIENT NO-TOUCH: the same.
        cannot_undo,   ///< Nothing is known to undo it.
    };
    const std::string& wire() const noexcept { return wire_; }
    std::span<const mark> marks() const noexcept { return marks_; }
    /// The same commands between a MULTI and an EXEC, which together leave a session as it is.
    pipeline in_multi() const;

private:
    std::string wire_;
    std::vector<mark> marks_;
};

/// Where a Redis is, and how to speak to it.
struct options {
    enum class protection : std::uint8_t {
        automatic,  ///< On, but for loopback addresses and Unix sockets.
        on,
        off,  ///< Whoever is on the way can read and change everything, the password included.
    };

    std::string host = "127.0.0.1";  ///< A path (with its slash) is a Unix socket.
    std::uint16_t port = 6379;
    std::string user;  ///< Empty: the default one.
    secret password;   ///< Empty: says nothing of who it is, unless there is a user.
    int database = 0;
    std::string client_name;  ///< As the server's CLIENT LIST shows it.
    protection use_tls = protection::automatic;
    tls_options tls;
    /// For the connection, TLS and the first words together.
    std::chrono::milliseconds connect_timeout{5'000};
    /// For each exchange, unless the holder of a lease sets another one. What blocks in the server
    /// (BLPOP) must be given less time there.
    std::chrono::milliseconds operation_timeout{30'000};
    /// How much room one reply may take, in bytes. The server is not trusted with more.
    std::size_t max_reply = std::size_t{64} << 20U;

    /// `redis://user:password@host:port/database?key=value`, or `rediss:` for TLS. Keys: tls,
    /// tls_ca, tls_cert, tls_key, tls_server_name, client_name, connect_timeout,
    /// operation_timeout, max_reply. `redis:` to another machine must say `tls=off`, so that nobody
    /// sends a password in the clear by accident. Throws invalid_url.
    static options from_url(std::string_view text);
};

namespace detail {
class session;
class settings;
}  // namespace detail

/// One connection. Operations either complete, throw command_error (the connection is as good as
/// before), or throw something else and leave a connection that cannot be used any more, and that
/// no pool lends again.
///
/// Thread safety: one operation at a time; a second one meanwhile throws std::logic_error. The
/// awaited forms run on the executor of their coroutine, another one each time if you like. They
/// own what they were given, and begin when they are awaited.
class connection {
public:
    explicit connection(std::unique_ptr<detail::session> s) noexcept;
    connection(connection&& other) noexcept;
    connection& operator=(connection&& other) noexcept;
    ~connection();

    /// One command: `command("SET", key, value, "EX", 60)`. Throws command_error if the server
    /// would not do it.
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

    /// All of them in one exchange; what the server would not do is an error among the replies.
    std::vector<reply> execute(const pipeline& commands);
    boost::asio::awaitable<std::vector<reply>> async_execute(pipeline commands);

    /// All or nothing, with nobody else's commands in between (MULTI, EXEC). Empty: a key that was
    /// watched (`command("WATCH", key)`) has changed, and nothing was done. Throws command_error if
    /// the server would not begin with one of them; what fails later is an error among the replies.
    std::optional<std::vector<reply>> transaction(const pipeline& commands);
    boost::asio::awaitable<std::optional<std::vector<reply>>> async_transaction(pipeline commands);

    /// Another time limit for each exchange, until the lease ends.
    void set_timeout(std::chrono::milliseconds limit) noexcept;
    /// Between a MULTI of one's own and its EXEC.
    bool in_transaction() const noexcept;
    /// The socket, to be looked at only.
    int native_handle() const noexcept;

private:
    friend class connector;
    friend class async_connector;

    reply only(const pipeline& one);
    boost::asio::awaitable<reply> async_only(pipeline one);

    std::unique_ptr<detail::session> session_;
};

/// Opens, probes, resets and closes connections, by blocking: `pool<connection>{connector{url}}`.
class connector {
public:
    explicit connector(const options& how);
    explicit connector(std::string_view url) : connector(options::from_url(url)) {}

    connection open();
    /// Whether the server sends back a word that it cannot have known.
    bool probe(connection& c);
    /// Back to what the URL says, whatever was done to the session. Throws if that is not certain.
    void reset(connection& c);
    void close(connection& c) noexcept;
    bool before_acquire(connection& c) noexcept;
    /// keep only if nothing can have changed the session.
    verdict before_release(connection& c) noexcept;
    verdict classify(const std::exception_ptr& error) const { return verdict_of(error); }
    void forsake(connection& c) noexcept;

private:
    std::shared_ptr<const detail::settings> settings_;
};

/// The same for pools on an executor, whose loop it never blocks.
class async_connector {
public:
    explicit async_connector(const options& how);
    explicit async_connector(std::string_view url) : async_connector(options::from_url(url)) {}

    boost::asio::awaitable<connection> open();
    boost::asio::awaitable<bool> probe(connection& c);
    boost::asio::awaitable<void> reset(connection& c);
    void close(connection& c) noexcept;
    bool before_acquire(connection& c) noexcept;
    verdict before_release(connection& c) noexcept;
    verdict classify(const std::exception_ptr& error) const { return verdict_of(error); }
    void forsake(connection& c) noexcept;

private:
    std::shared_ptr<const detail::settings> settings_;
};

}  // namespace cenote::redis
