// How a conversation goes on, what it leaves behind, and how that is undone.
#include "connector/redis_session.hpp"

#include <algorithm>
#include <atomic>
#include <random>
#include <string.h>
#include <utility>

#include "cenote/url.hpp"

namespace cenote::redis::detail {

using connector_detail::sight;
using mark = pipeline::mark;

// Conversation.

conversation::conversation(session& of, std::string_view wire, std::size_t expected)
    : of_(of), exchange_(of.condition_), unsent_(wire), expected_(expected) {
    replies_.reserve(std::min<std::size_t>(expected, 1024));
}

int conversation::descriptor() const { return of_.descriptor(); }

/// A read that found less than it had room for is as good as a look.
void conversation::complete() noexcept {
    exchange_.complete();
    if (drained_) of_.condition_.note_quiet();
}

need conversation::step() {
    try {
        return converse();
    } catch (const connection_error&) {
        last_words();
        throw;
    }
}

need conversation::converse() {
    need to_send = need::nothing;
    if (!unsent_.empty()) {
        to_send = write();
        // It will take a while. What TLS has read already would not make the socket readable.
        if (unsent_.empty() && !of_.line_.is_protected()) return need::to_read;
    }
    need to_hear = read();
    if (replies_.size() == expected_) {
        if (unsent_.empty()) return need::nothing;
        throw connection_error(error_kind::connection,
                               "cenote: Redis: the server answered before it was asked");
    }
    if (to_send == need::a_turn) return to_send;
    if (unsent_.empty() || to_send == need::to_read || to_hear == need::a_turn) return to_hear;
    return need::to_do_either;  // a server that waits for us to read would never take the rest
}

need conversation::write() {
    need wanted = need::nothing;
    try {
        for (std::size_t all = 0; !unsent_.empty();) {
            if (all >= connector_detail::most_per_step) return need::a_turn;
            std::size_t sent = of_.line_.write_some(unsent_, wanted);
            if (sent == 0) return wanted;
            all += sent;
            unsent_.remove_prefix(sent);
        }
    } catch (const connection_error&) {
        hear();
        throw;
    }
    return wanted;
}

need conversation::read() {
    need wanted = need::nothing;
    for (std::size_t all = 0; replies_.size() < expected_;) {
        if (all >= connector_detail::most_per_step) return need::a_turn;
        std::size_t got = of_.line_.read_some(of_.buffer_, wanted);
        if (got == 0) return wanted;
        all += got;
        drained_ = got < of_.buffer_.size() && !of_.line_.is_protected();
        std::string_view left(of_.buffer_.data(), got);
        while (!left.empty()) {
            if (replies_.size() == expected_)
                throw connection_error(error_kind::connection,
                                       "cenote: Redis: the server sent more than it was asked for");
            left.remove_prefix(of_.reader_.feed(left));
            if (of_.reader_.complete()) replies_.push_back(of_.reader_.take());
        }
    }
    return wanted;
}

/// Before it hung up it may have said why.
void conversation::hear() {
    try {
        static_cast<void>(read());
    } catch (const connection_error&) {
        return;  // that it is lost is known
    }
}

/// Throws with the reason, if there is one.
void conversation::last_words() const {
    if (replies_.empty() || !replies_.back().is_error()) return;
    const std::string& text = replies_.back().error_text();
    for (const char* farewell : {"ERR max number of clients", "ERR Protocol error", "DENIED"})
        if (text.starts_with(farewell))
            throw connection_error(kind_of_refusal(text),
                                   "cenote: Redis: the server hung up: " + tellable(text));
}

// Errors.

namespace {

struct refusal {
    std::string_view begins;
    error_kind kind;
    const char* told;  // in our words: the server's may repeat what it was sent
};

constexpr std::array<refusal, 17> refusals{{
    {"BUSY", error_kind::transient, "BUSY: a script is running"},
    {"CLUSTERDOWN", error_kind::transient, "CLUSTERDOWN: the cluster is down"},
    {"DENIED", error_kind::final, "DENIED: it is in protected mode"},
    {"ERR AUTH", error_kind::final, "it has no password, but was given one"},
    {"ERR Client sent AUTH", error_kind::final, "it has no password, but was given one"},
    {"ERR DB index", error_kind::final, "there is no such database"},
    {"ERR Protocol error", error_kind::connection, "it could not read what it was sent"},
    {"ERR invalid DB index", error_kind::final, "there is no such database"},
    {"ERR invalid password", error_kind::final, "the password is wrong"},
    {"ERR max number of clients", error_kind::transient, "max number of clients reached"},
    {"ERR unknown command", error_kind::final, "it does not know the command"},
    {"LOADING", error_kind::transient, "LOADING: it is loading its data"},
    {"MASTERDOWN", error_kind::transient, "MASTERDOWN: its primary is down"},
    {"NOAUTH", error_kind::final, "NOAUTH: it wants a password"},
    {"NOPERM", error_kind::final, "NOPERM: the user may not do that"},
    {"TRYAGAIN", error_kind::transient, "TRYAGAIN: not now"},
    {"WRONGPASS", error_kind::final, "WRONGPASS: the user or the password is wrong"},
}};

const refusal* find_refusal(std::string_view text) {
    const auto* found = std::ranges::find_if(
        refusals, [&](const refusal& each) { return text.starts_with(each.begins); });
    return found == refusals.end() ? nullptr : found;
}

/// What an error in use means for the connection itself.
error_kind kind_in_use(std::string_view text) {
    // Who writes here must write elsewhere now; who waited here was let go for the same reason.
    for (const char* moved :
         {"READONLY ", "UNBLOCKED ", "EXECABORT Transaction discarded because of: READONLY "})
        if (text.starts_with(moved)) return error_kind::suspect;
    if (text.starts_with("NOAUTH ")) return error_kind::connection;  // not the session we opened
    return error_kind::statement;
}

[[noreturn]] void refuse(const std::string& text, bool only_its_word = false) {
    error_kind kind = kind_in_use(text);
    if (kind == error_kind::statement) throw command_error(text, only_its_word);
    throw connection_error(kind, command_error(text, only_its_word).what());
}

/// Nobody can send it back who has not just read it.
std::string make_nonce() {
    static std::atomic<std::uint64_t> next{(std::uint64_t{std::random_device{}()} << 32U) ^
                                           std::random_device{}()};
    std::uint64_t n = next.fetch_add(0x9e3779b97f4a7c15U, std::memory_order_relaxed);
    n = (n ^ (n >> 30U)) * 0xbf58476d1ce4e5b9U;
    return "cenote-" + std::to_string(n ^ (n >> 31U));
}

}  // namespace

error_kind kind_of_refusal(std::string_view text) {
    const refusal* found = find_refusal(text);
    return found == nullptr ? error_kind::final : found->kind;
}

std::string tellable(std::string_view text) {
    const refusal* found = find_refusal(text);
    return found == nullptr ? "an error that is not shown, since it may repeat the password"
                            : found->told;
}

// Settings and greetings.

settings::settings(const options& how) : how_(how) {
    auto refuse = [](const char* what) {
        throw std::invalid_argument(std::string("cenote: Redis: ") + what);
    };
    if (how.host.empty()) refuse("options.host is empty");
    if (how.port == 0 && !how.host.starts_with('/')) refuse("options.port is 0");
    if (how.database < 0) refuse("options.database is below zero");
    if (how.max_reply < 1024) refuse("options.max_reply is less than 1024 bytes");
    if (!std::ranges::all_of(how.client_name, [](char c) { return c > ' ' && c < 0x7f; }))
        refuse("options.client_name has a character that no client's name has");
}

bool settings::protects() const noexcept {
    if (how_.use_tls == options::protection::automatic) return !is_loopback(how_.host);
    return how_.use_tls == options::protection::on;
}

greeting::greeting(const settings& of, purpose why, const stains& left) : why_(why) {
    auto say = [this](const char* name, auto... words) {
        commands_.add(words...);
        expected_.push_back({name, "OK"});
    };
    if (why == purpose::reset) {
        say("RESET", "RESET");
        expected_.back().answer = "RESET";
    }
    if (why != purpose::probe) introduce(of);
    if (left.no_evict) say("CLIENT NO-EVICT", "CLIENT", "NO-EVICT", "OFF");
    if (left.no_touch) say("CLIENT NO-TOUCH", "CLIENT", "NO-TOUCH", "OFF");
    std::string nonce = make_nonce();
    commands_.add("PING", nonce);
    expected_.push_back({"PING", std::move(nonce)});
}

/// Who we are, where we want to be, and what we are called.
void greeting::introduce(const settings& of) {
    const options& how = of.how();
    // A wire that grows would leave the password where it was before.
    commands_.reserve(512 + how.user.size() + how.password.reveal().size() +
                      how.client_name.size());
    std::string_view password = how.password.reveal();
    bool named = !how.user.empty();
    if (named || !password.empty()) {
        if (named) commands_.add("AUTH", how.user, password);
        else commands_.add("AUTH", password);
        expected_.push_back({"AUTH", "OK"});
    }
    if (how.database != 0) {
        commands_.add("SELECT", how.database);
        expected_.push_back({"SELECT", "OK"});
    }
    if (!how.client_name.empty()) {
        commands_.add("CLIENT", "SETNAME", how.client_name);
        expected_.push_back({"CLIENT SETNAME", "OK"});
    }
}

greeting::~greeting() { commands_.wipe(); }

void greeting::check(std::span<const reply> replies) const {
    for (std::size_t i = 0; i < expected_.size(); ++i) {
        const reply& got = replies[i];
        if (got.is_text() && got.text() == expected_[i].answer) continue;
        std::string where = std::string("cenote: Redis: ") + expected_[i].name;
        if (!got.is_error())
            throw connection_error(error_kind::connection,
                                   where + " was answered by what is no answer to it");
        error_kind kind =
            why_ == purpose::open ? kind_of_refusal(got.error_text()) : error_kind::connection;
        throw connection_error(kind, where + " was refused: " + tellable(got.error_text()));
    }
}

// Session.

void session::greet(const greeting& words, instant by) {
    conversation c(*this, words.wire(), words.size());
    connector_detail::drive(c, by);
    words.check(c.replies());
    c.complete();
}

asio::awaitable<void> session::async_greet(session* s, const greeting* words, instant by) {
    conversation c(*s, words->wire(), words->size());
    co_await connector_detail::async_drive(c, by);
    words->check(c.replies());
    c.complete();
}

void session::note_reset() noexcept {
    condition_.note_reset();
    stains_ = {};
    in_transaction_ = false;
}

bool session::fit() noexcept {
    return condition_.still_quiet() || (condition_.idle() && line_.look() == sight::quiet);
}

verdict session::judge() noexcept {
    timeout_ = settings_->how().operation_timeout;
    verdict v = condition_.judge();
    bool usable = v == verdict::keep || v == verdict::reset;
    if (!usable) return v;
    if (stains_.incurable) return verdict::discard;
    if (condition_.still_quiet()) return v;
    if (line_.look() != sight::quiet) return verdict::discard;
    condition_.note_quiet();
    return v;
}

/// Before it is sent: what comes of it may never be known.
void session::before(const pipeline& commands) {
    for (mark m : commands.marks()) {
        if (m != mark::harmless) condition_.note_changed();
        if (m == mark::no_evict) stains_.no_evict = true;
        if (m == mark::no_touch) stains_.no_touch = true;
        if (m == mark::cannot_undo) stains_.incurable = true;
    }
}

void session::after(std::span<const mark> marks, std::span<const reply> replies) {
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

std::vector<reply> session::execute(const pipeline& commands) {
    if (commands.empty()) return {};
    conversation c(*this, commands.wire(), commands.size());
    before(commands);
    connector_detail::drive(c, deadline());
    c.complete();
    after(commands.marks(), c.replies());
    return std::move(c.replies());
}

asio::awaitable<std::vector<reply>> session::async_execute(session* s, pipeline commands) {
    if (commands.empty()) co_return std::vector<reply>();
    conversation c(*s, commands.wire(), commands.size());
    s->before(commands);
    co_await connector_detail::async_drive(c, s->deadline());
    c.complete();
    s->after(commands.marks(), c.replies());
    co_return std::move(c.replies());
}

namespace {

reply unless_refused(const pipeline& one, reply got) {
    if (got.is_error()) refuse(got.error_text(), one.marks().front() == mark::confidential);
    return got;
}

}  // namespace

reply session::only(const pipeline& one) {
    return unless_refused(one, std::move(execute(one).front()));
}

asio::awaitable<reply> session::async_only(session* s, pipeline one) {
    std::vector<reply> replies = co_await async_execute(s, one);
    co_return unless_refused(one, std::move(replies.front()));
}

/// The commands between MULTI and EXEC.
pipeline session::in_multi(const pipeline& commands) const {
    if (in_transaction_)
        throw std::logic_error("cenote: Redis: a transaction inside one that MULTI has begun");
    for (mark m : commands.marks())
        if (m == mark::begins || m == mark::ends || m == mark::watches)
            throw std::invalid_argument(
                "cenote: Redis: MULTI, EXEC, DISCARD, RESET and WATCH cannot be inside a "
                "transaction");
    return commands.in_multi();
}

/// EXEC ends a transaction also if it is refused. If the server sees it differently, the session is
/// still inside.
void session::refuse_exec(const std::string& text) {
    if (!text.starts_with("EXECABORT")) {
        in_transaction_ = true;
        condition_.note_changed();
    }
    refuse(text);
}

/// What came of a transaction: the replies are those of MULTI, of the commands (that they are
/// queued) and of EXEC.
std::optional<std::vector<reply>> session::outcome(std::vector<reply> replies) {
    const reply& begun = replies.front();
    if (begun.is_error())
        throw command_error("MULTI was refused, so the commands ran each by itself: " +
                            begun.error_text());
    for (const reply& queued : replies)
        if (&queued != &replies.back() && queued.is_error()) refuse(queued.error_text());
    reply& done = replies.back();
    if (done.is_nil()) return std::nullopt;
    if (done.is_error()) refuse_exec(done.error_text());
    if (!done.is_array() || done.elements().size() + 2 != replies.size()) {
        condition_.note_broken();
        throw connection_error(error_kind::connection,
                               "cenote: Redis: EXEC was answered by what is no answer to it");
    }
    return std::move(done).elements();
}

std::optional<std::vector<reply>> session::transaction(const pipeline& commands) {
    pipeline all = in_multi(commands);
    return outcome(execute(all));
}

asio::awaitable<std::optional<std::vector<reply>>> session::async_transaction(session* s,
                                                                              pipeline commands) {
    pipeline all = s->in_multi(commands);
    std::vector<reply> replies = co_await async_execute(s, std::move(all));
    co_return s->outcome(std::move(replies));
}

}  // namespace cenote::redis::detail
