// The steps of a conversation with Redis, the meaning of errors, and how a session is set up and
// reset.
#include "connector/redis_session.hpp"

#include <algorithm>
#include <atomic>
#include <random>
#include <string.h>
#include <utility>

#include "cenote/url.hpp"

namespace cenote::redis::detail {

using connector_detail::socket_state;
using mark = pipeline::mark;

// Conversation.

conversation::conversation(session& of, std::string_view wire, std::size_t expected)
    : of_(of), exchange_(of.condition_), unsent_(wire), expected_(expected) {
    replies_.reserve(std::min<std::size_t>(expected, 1024));
}

int conversation::descriptor() const { return of_.descriptor(); }

/// A read that left room in the buffer is as good as a check of the socket.
void conversation::complete() noexcept {
    exchange_.complete();
    if (drained_) of_.condition_.note_quiet();
}

need conversation::step() {
    try {
        return converse();
    } catch (const connection_error&) {
        throw_reason();
        throw;
    }
}

need conversation::converse() {
    need to_send = need::nothing;
    if (!unsent_.empty()) {
        to_send = write();
        // The reply takes a while: waits first. Under TLS it may have been read already, and the
        // socket would not become readable.
        if (unsent_.empty() && !of_.peer_.is_protected()) return need::to_read;
    }
    need to_receive = read();
    if (replies_.size() == expected_) {
        if (unsent_.empty()) return need::nothing;
        throw connection_error(error_kind::connection,
                               "cenote: Redis: the server sent a reply before the request");
    }
    if (to_send == need::a_turn) return to_send;
    if (unsent_.empty() || to_send == need::to_read || to_receive == need::a_turn)
        return to_receive;
    return need::to_do_either;  // the server may read on only after its replies were read
}

need conversation::write() {
    need wanted = need::nothing;
    try {
        for (std::size_t all = 0; !unsent_.empty();) {
            if (all >= connector_detail::max_bytes_per_step) return need::a_turn;
            std::size_t sent = of_.peer_.write_some(unsent_, wanted);
            if (sent == 0) return wanted;
            all += sent;
            unsent_.remove_prefix(sent);
        }
    } catch (const connection_error&) {
        read_rest();
        throw;
    }
    return wanted;
}

need conversation::read() {
    need wanted = need::nothing;
    for (std::size_t all = 0; replies_.size() < expected_;) {
        if (all >= connector_detail::max_bytes_per_step) return need::a_turn;
        std::size_t got = of_.peer_.read_some(of_.buffer_, wanted);
        if (got == 0) return wanted;
        all += got;
        drained_ = got < of_.buffer_.size() && !of_.peer_.is_protected();
        std::string_view left(of_.buffer_.data(), got);
        while (!left.empty()) {
            if (replies_.size() == expected_)
                throw connection_error(error_kind::connection,
                                       "cenote: Redis: the server sent more replies than expected");
            left.remove_prefix(of_.reader_.feed(left));
            if (of_.reader_.complete()) replies_.push_back(of_.reader_.take());
        }
    }
    return wanted;
}

/// The server may have sent a reason before it closed the connection.
void conversation::read_rest() {
    try {
        static_cast<void>(read());
    } catch (const connection_error&) {
        return;  // the caller throws the first error
    }
}

/// Throws the reason that the server sent, if there is one.
void conversation::throw_reason() const {
    if (replies_.empty() || !replies_.back().is_error()) return;
    const std::string& text = replies_.back().error_text();
    for (const char* reason : {"ERR max number of clients", "ERR Protocol error", "DENIED"})
        if (text.starts_with(reason))
            throw connection_error(kind_of_refusal(text),
                                   "cenote: Redis: the server closed the connection: " +
                                       text_of_refusal(text));
}

// Errors.

namespace {

struct refusal {
    std::string_view begins;
    error_kind kind;
    const char* text;
};

constexpr std::array<refusal, 17> refusals{{
    {"BUSY", error_kind::transient, "BUSY: a script is running"},
    {"CLUSTERDOWN", error_kind::transient, "CLUSTERDOWN: the cluster is down"},
    {"DENIED", error_kind::final, "DENIED: the server is in protected mode"},
    {"ERR AUTH", error_kind::final, "the server has no password, but one was sent"},
    {"ERR Client sent AUTH", error_kind::final, "the server has no password, but one was sent"},
    {"ERR DB index", error_kind::final, "the database does not exist"},
    {"ERR Protocol error", error_kind::connection, "the server could not parse the request"},
    {"ERR invalid DB index", error_kind::final, "the database does not exist"},
    {"ERR invalid password", error_kind::final, "the password is wrong"},
    {"ERR max number of clients", error_kind::transient, "max number of clients reached"},
    {"ERR unknown command", error_kind::final, "the server does not know the command"},
    {"LOADING", error_kind::transient, "LOADING: the server is loading its data"},
    {"MASTERDOWN", error_kind::transient, "MASTERDOWN: the primary is down"},
    {"NOAUTH", error_kind::final, "NOAUTH: the server requires a password"},
    {"NOPERM", error_kind::final, "NOPERM: the user lacks the permission"},
    {"TRYAGAIN", error_kind::transient, "TRYAGAIN: the server is busy"},
    {"WRONGPASS", error_kind::final, "WRONGPASS: the user or the password is wrong"},
}};

const refusal* find_refusal(std::string_view text) {
    const auto* found = std::ranges::find_if(
        refusals, [&](const refusal& each) { return text.starts_with(each.begins); });
    return found == refusals.end() ? nullptr : found;
}

[[noreturn]] void refuse(const std::string& text, bool only_its_word = false) {
    error_kind kind = kind_in_use(text);
    if (kind == error_kind::statement) throw command_error(text, only_its_word);
    throw connection_error(kind, command_error(text, only_its_word).what());
}

/// A text that no earlier request has contained.
std::string make_nonce() {
    static std::atomic<std::uint64_t> next{(std::uint64_t{std::random_device{}()} << 32U) ^
                                           std::random_device{}()};
    std::uint64_t n = next.fetch_add(0x9e3779b97f4a7c15U, std::memory_order_relaxed);
    n = (n ^ (n >> 30U)) * 0xbf58476d1ce4e5b9U;
    return "cenote-" + std::to_string(n ^ (n >> 31U));
}

}  // namespace

error_kind kind_in_use(std::string_view text) {
    // The server was demoted: it refuses writes, and unblocks waiting clients.
    for (const char* moved :
         {"READONLY ", "UNBLOCKED ", "EXECABORT Transaction discarded because of: READONLY "})
        if (text.starts_with(moved)) return error_kind::suspect;
    if (text.starts_with("NOAUTH "))
        return error_kind::connection;  // not the session that was set up
    return error_kind::statement;
}

error_kind kind_of_refusal(std::string_view text) {
    const refusal* found = find_refusal(text);
    return found == nullptr ? error_kind::final : found->kind;
}

std::string text_of_refusal(std::string_view text) {
    const refusal* found = find_refusal(text);
    return found == nullptr ? "an error that is hidden, because it may contain the password"
                            : found->text;
}

// Settings and setup.

settings::settings(const options& given) : chosen_(given) {
    auto refuse = [](const char* what) {
        throw std::invalid_argument(std::string("cenote: the Redis option ") + what);
    };
    if (given.host.empty()) refuse("\"host\" must not be empty");
    if (given.port == 0 && !given.host.starts_with('/')) refuse("\"port\" must not be 0");
    if (given.database < 0) refuse("\"database\" must not be negative");
    if (given.max_reply < 1024) refuse("\"max_reply\" must be at least 1024");
    if (!std::ranges::all_of(given.client_name, [](char c) { return c > ' ' && c < 0x7f; }))
        refuse("\"client_name\" has characters that are not allowed");
}

bool settings::uses_tls() const noexcept {
    if (chosen_.use_tls == options::protection::automatic) return !is_loopback(chosen_.host);
    return chosen_.use_tls == options::protection::on;
}

setup::setup(const settings& of, purpose why, const leftovers& left) : why_(why) {
    auto add = [this](const char* name, auto... words) {
        commands_.add(words...);
        expected_.push_back({name, "OK"});
    };
    if (why == purpose::reset) {
        add("RESET", "RESET");
        expected_.back().reply = "RESET";
    }
    if (why != purpose::probe) add_login(of);
    if (left.no_evict) add("CLIENT NO-EVICT", "CLIENT", "NO-EVICT", "OFF");
    if (left.no_touch) add("CLIENT NO-TOUCH", "CLIENT", "NO-TOUCH", "OFF");
    std::string nonce = make_nonce();
    commands_.add("PING", nonce);
    expected_.push_back({"PING", std::move(nonce)});
}

/// The user, the database and the client's name.
void setup::add_login(const settings& of) {
    const options& o = of.chosen();
    // A buffer that grows would leave a copy of the password behind.
    commands_.reserve(512 + o.user.size() + o.password.reveal().size() + o.client_name.size());
    std::string_view password = o.password.reveal();
    bool named = !o.user.empty();
    if (named || !password.empty()) {
        if (named) commands_.add("AUTH", o.user, password);
        else commands_.add("AUTH", password);
        expected_.push_back({"AUTH", "OK"});
    }
    if (o.database != 0) {
        commands_.add("SELECT", o.database);
        expected_.push_back({"SELECT", "OK"});
    }
    if (!o.client_name.empty()) {
        commands_.add("CLIENT", "SETNAME", o.client_name);
        expected_.push_back({"CLIENT SETNAME", "OK"});
    }
}

setup::~setup() { commands_.wipe(); }

void setup::check(std::span<const reply> replies) const {
    for (std::size_t i = 0; i < expected_.size(); ++i) {
        const reply& got = replies[i];
        if (got.is_text() && got.text() == expected_[i].reply) continue;
        std::string where = std::string("cenote: Redis: ") + expected_[i].name;
        if (!got.is_error())
            throw connection_error(error_kind::connection, where + " got an unexpected reply");
        error_kind kind =
            why_ == purpose::open ? kind_of_refusal(got.error_text()) : error_kind::connection;
        throw connection_error(kind, where + " was refused: " + text_of_refusal(got.error_text()));
    }
}

// Session.

void session::refuse_irreversible() const {
    if (left_.cannot_undo)
        throw connection_error(error_kind::connection,
                               "cenote: Redis: a command has changed the session in a way that "
                               "cannot be undone");
}

void session::note_reset() noexcept {
    condition_.note_reset();
    left_ = {};
    in_transaction_ = false;
}

bool session::usable() noexcept {
    return condition_.still_quiet() || (condition_.idle() && peer_.check() == socket_state::quiet);
}

verdict session::end_lease() noexcept {
    timeout_ = settings_->chosen().operation_timeout;
    verdict v = condition_.judge();
    bool stays = v == verdict::keep || v == verdict::reset;
    if (!stays) return v;
    if (left_.cannot_undo) return verdict::discard;
    if (condition_.still_quiet()) return v;
    if (peer_.check() != socket_state::quiet) return verdict::discard;
    condition_.note_quiet();
    return v;
}

void session::note_sent(const pipeline& commands) {
    for (mark m : commands.marks()) {
        if (m != mark::harmless) condition_.note_changed();
        if (m == mark::no_evict) left_.no_evict = true;
        if (m == mark::no_touch) left_.no_touch = true;
        if (m == mark::cannot_undo) left_.cannot_undo = true;
    }
}

void session::note_replies(std::span<const mark> marks, std::span<const reply> replies) {
    for (std::size_t i = 0; i < marks.size(); ++i) {
        const reply& got = replies[i];
        if (marks[i] == mark::begins && !got.is_error()) in_transaction_ = true;
        bool over = !got.is_error() || got.error_text().starts_with("EXECABORT");
        if (marks[i] == mark::ends && over) in_transaction_ = false;
        if (!got.is_error()) continue;
        error_kind kind = kind_in_use(got.error_text());
        if (kind != error_kind::statement) condition_.note_broken(kind);
    }
}

reply unless_error(const pipeline& one, reply got) {
    if (got.is_error()) refuse(got.error_text(), one.marks().front() == mark::confidential);
    return got;
}

pipeline session::in_multi(const pipeline& commands) const {
    if (in_transaction_)
        throw std::logic_error(
            "cenote: Redis: transaction() inside a transaction that MULTI has begun");
    for (mark m : commands.marks())
        if (m == mark::begins || m == mark::ends || m == mark::watches)
            throw std::invalid_argument(
                "cenote: Redis: MULTI, EXEC, DISCARD, RESET and WATCH cannot be inside a "
                "transaction");
    return commands.in_multi();
}

/// EXECABORT ends the transaction. After another error of EXEC the session is still inside it.
void session::refuse_exec(const std::string& text) {
    if (!text.starts_with("EXECABORT")) {
        in_transaction_ = true;
        condition_.note_changed();
    }
    refuse(text);
}

std::optional<std::vector<reply>> session::outcome(std::vector<reply> replies) {
    const reply& begun = replies.front();
    if (begun.is_error())
        throw command_error("MULTI was refused, so the commands ran without a transaction: " +
                            begun.error_text());
    for (const reply& queued : replies)
        if (&queued != &replies.back() && queued.is_error()) refuse(queued.error_text());
    reply& done = replies.back();
    if (done.is_nil()) return std::nullopt;
    if (done.is_error()) refuse_exec(done.error_text());
    if (!done.is_array() || done.elements().size() + 2 != replies.size()) {
        condition_.note_broken();
        throw connection_error(error_kind::connection,
                               "cenote: Redis: EXEC got an unexpected reply");
    }
    return std::move(done).elements();
}

}  // namespace cenote::redis::detail
