// Conversations with a Redis server, and what they change in the session.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cenote/redis.hpp"
#include "connector/drive.hpp"
#include "connector/exchange.hpp"
#include "connector/redis_reader.hpp"
#include "connector/transport.hpp"

namespace cenote::redis::detail {

using connector_detail::instant;
using connector_detail::need;
using connector_detail::transport;

/// Checked options, shared by a connector and its connections.
class settings {
public:
    /// Throws std::invalid_argument.
    explicit settings(const options& given);

    const options& chosen() const noexcept { return chosen_; }
    bool uses_tls() const noexcept;

private:
    options chosen_;
};

/// Changes of a session that RESET does not undo.
struct leftovers {
    bool no_evict = false;
    bool no_touch = false;
    bool cannot_undo = false;
};

/// The commands that make a session what its URL says, each with the reply that it must get. The
/// last one is a PING with a new random text, whose reply proves that requests and replies are in
/// step.
class setup {
public:
    enum class purpose : std::uint8_t { open, reset, probe };
    setup(const settings& of, purpose why, const leftovers& left = {});
    setup(const setup&) = delete;
    setup& operator=(const setup&) = delete;
    ~setup();  // wipes the password

    std::string_view wire() const noexcept { return commands_.wire(); }
    std::size_t size() const noexcept { return expected_.size(); }
    /// Throws connection_error; its kind depends on the purpose.
    void check(std::span<const reply> replies) const;

private:
    struct expectation {
        const char* name;
        std::string reply;
    };
    void add_login(const settings& of);

    purpose why_;
    pipeline commands_;
    std::vector<expectation> expected_;
};

class receiver;
class session;

/// One exchange: commands, and as many replies.
class conversation final : public connector_detail::steps {
public:
    conversation(session& of, std::string_view wire, std::size_t expected);

    need step() override;
    int descriptor() const override;
    const char* expected() const override { return "the reply of Redis"; }

    /// Requires that all steps were taken.
    std::vector<reply>& replies() noexcept { return replies_; }
    /// The replies are right: the connection is usable again.
    void complete() noexcept;

private:
    need converse();
    need write();
    need read();
    void read_rest();
    void throw_reason() const;

    session& of_;
    connector_detail::exchange exchange_;
    std::string_view unsent_;
    std::size_t expected_;
    bool drained_ = false;  // nothing came after the last read
    std::vector<reply> replies_;
};

class session {
public:
    session(std::shared_ptr<const settings> of, transport peer)
        : settings_(std::move(of)),
          peer_(std::move(peer)),
          reader_(settings_->chosen().max_reply),
          timeout_(settings_->chosen().operation_timeout) {}

    instant deadline() const { return connector_detail::deadline_after(timeout_); }
    void set_timeout(std::chrono::milliseconds limit) noexcept { timeout_ = limit; }
    bool in_transaction() const noexcept { return in_transaction_; }
    transport& peer() noexcept { return peer_; }
    int descriptor() const noexcept { return peer_.descriptor(); }

    /// Notes what the commands may change, before they are sent: their replies may never come.
    void note_sent(const pipeline& commands);
    void note_replies(std::span<const pipeline::mark> marks, std::span<const reply> replies);
    /// The commands between MULTI and EXEC. Throws std::logic_error inside another transaction,
    /// std::invalid_argument if one of them must not be inside a transaction.
    pipeline in_multi(const pipeline& commands) const;
    /// The outcome of a transaction, by the replies to MULTI, to the commands (which are queued)
    /// and to EXEC.
    std::optional<std::vector<reply>> outcome(std::vector<reply> replies);

    /// Throws connection_error if a reset would leave a change behind.
    void refuse_irreversible() const;
    void note_reset() noexcept;
    const leftovers& left() const noexcept { return left_; }
    bool usable() noexcept;
    /// Ends the lease. Says what to do with the connection.
    verdict end_lease() noexcept;

private:
    friend class conversation;
    friend class receiver;

    [[noreturn]] void refuse_exec(const std::string& text);

    std::shared_ptr<const settings> settings_;
    connector_detail::condition condition_;
    transport peer_;
    reply_reader reader_;
    std::chrono::milliseconds timeout_;
    leftovers left_;
    bool in_transaction_ = false;
    std::array<char, std::size_t{16} << 10U> buffer_{};
};

/// The reply to a single command. Throws command_error or connection_error if it is an error.
reply unless_error(const pipeline& one, reply got);

/// What an error in use means for the connection.
error_kind kind_in_use(std::string_view text);

/// What an error means that comes while a session is set up, and a text of our own for it: the
/// server's text may repeat the password.
error_kind kind_of_refusal(std::string_view text);
std::string text_of_refusal(std::string_view text);

}  // namespace cenote::redis::detail
