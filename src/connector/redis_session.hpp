// One conversation after another with a Redis, and what the session has become through them.
#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cenote/redis.hpp"
#include "connector/drive.hpp"
#include "connector/exchange.hpp"
#include "connector/redis_reader.hpp"
#include "connector/transport.hpp"

namespace cenote::redis::detail {

namespace asio = boost::asio;
using connector_detail::instant;
using connector_detail::need;
using connector_detail::transport;

/// Options that were looked at, shared by a connector and what it opens.
class settings {
public:
    /// Throws std::invalid_argument.
    explicit settings(const options& how);

    const options& how() const noexcept { return how_; }
    bool protects() const noexcept;

private:
    options how_;
};

/// What a session has to be told apart from RESET before somebody else may have it.
struct stains {
    bool no_evict = false;
    bool no_touch = false;
    bool incurable = false;
};

/// The words that make a session what its URL says: each has an answer that it must get. The last
/// one sends a word that the server cannot know before, which proves that request and reply are
/// still in step.
class greeting {
public:
    enum class purpose : std::uint8_t { open, reset, probe };
    greeting(const settings& of, purpose why, const stains& left = {});
    greeting(const greeting&) = delete;
    greeting& operator=(const greeting&) = delete;
    ~greeting();  // wipes the password

    std::string_view wire() const noexcept { return commands_.wire(); }
    std::size_t size() const noexcept { return expected_.size(); }
    /// Throws connection_error, of the kind that this is where it happened.
    void check(std::span<const reply> replies) const;

private:
    struct expectation {
        const char* name;
        std::string answer;
    };
    void introduce(const settings& of);

    purpose why_;
    pipeline commands_;
    std::vector<expectation> expected_;
};

class session;

/// Some commands and as many replies: one exchange.
class conversation final : public connector_detail::steps {
public:
    conversation(session& of, std::string_view wire, std::size_t expected);

    need step() override;
    int descriptor() const override;
    const char* awaited() const override { return "the reply of Redis"; }

    /// All of them. Requires that all steps were taken.
    std::vector<reply>& replies() noexcept { return replies_; }
    /// They are what they should be: the connection is good again.
    void complete() noexcept;

private:
    need converse();
    need write();
    need read();
    void hear();
    void last_words() const;

    session& of_;
    connector_detail::exchange exchange_;
    std::string_view unsent_;
    std::size_t expected_;
    bool drained_ = false;  // there was nothing behind what was read last
    std::vector<reply> replies_;
};

class session {
public:
    session(std::shared_ptr<const settings> of, transport line)
        : settings_(std::move(of)),
          line_(std::move(line)),
          reader_(settings_->how().max_reply),
          timeout_(settings_->how().operation_timeout) {}

    std::vector<reply> execute(const pipeline& commands);
    static asio::awaitable<std::vector<reply>> async_execute(session* s, pipeline commands);
    std::optional<std::vector<reply>> transaction(const pipeline& commands);
    static asio::awaitable<std::optional<std::vector<reply>>> async_transaction(session* s,
                                                                                pipeline commands);
    /// The reply to one command, if it is no error.
    reply only(const pipeline& one);
    static asio::awaitable<reply> async_only(session* s, pipeline one);

    /// Says all of it by the deadline and checks what comes back.
    void greet(const greeting& words, instant deadline);
    static asio::awaitable<void> async_greet(session* s, const greeting* words, instant deadline);
    void note_reset() noexcept;

    bool fit() noexcept;
    verdict judge() noexcept;
    const stains& left() const noexcept { return stains_; }
    instant deadline() const { return connector_detail::deadline_after(timeout_); }
    void set_timeout(std::chrono::milliseconds limit) noexcept { timeout_ = limit; }
    bool in_transaction() const noexcept { return in_transaction_; }
    transport& line() noexcept { return line_; }
    int descriptor() const noexcept { return line_.descriptor(); }

private:
    friend class conversation;

    void before(const pipeline& commands);
    void after(std::span<const pipeline::mark> marks, std::span<const reply> replies);
    pipeline in_multi(const pipeline& commands) const;
    [[noreturn]] void refuse_exec(const std::string& text);
    std::optional<std::vector<reply>> outcome(std::vector<reply> replies);

    std::shared_ptr<const settings> settings_;
    connector_detail::condition condition_;
    transport line_;
    reply_reader reader_;
    std::chrono::milliseconds timeout_;
    stains stains_;
    bool in_transaction_ = false;
    std::array<char, std::size_t{16} << 10U> buffer_{};
};

/// What an error means that the server says when it is greeted, and how it may be told.
error_kind kind_of_refusal(std::string_view text);
std::string tellable(std::string_view text);

}  // namespace cenote::redis::detail
