// Resets of a session: on their own or in front of the next request, and which servers support the
// latter (docs/decisions/0018).
#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "connector/postgres_session.hpp"

namespace cenote::postgres::detail {

// The statements.

namespace {

/// DISCARD ALL without kept statements. Returns whether no other statement is prepared, and whether
/// the session has a schema for temporary objects.
constexpr const char* discard_all_but_kept =
    "close all; set session authorization default; reset all; unlisten *; "
    "select pg_catalog.pg_advisory_unlock_all(); discard temp; discard sequences; "
    "select pg_catalog.count(*) operator(pg_catalog.=) 0, "
    "pg_catalog.pg_my_temp_schema() operator(pg_catalog.<>) 0 "
    "from pg_catalog.pg_prepared_statements "
    "where from_sql or pg_catalog.left(name, 12) operator(pg_catalog.<>) 'cenote_kept_'";

/// The pieces in front of a request. Unlike DISCARD ALL none of them commits at once, so they need
/// a transaction.
constexpr std::array<const char*, 7> discard_most{
    begin_own,          "close all",  "set session authorization default",
    "reset all",        "unlisten *", "discard temp",
    "discard sequences"};

/// The last piece, which is a kept statement itself: planning it takes longer than all others. A
/// prepared statement that is not a kept one raises an error, because there is no second try; the
/// error's name explains it in the server's log.
constexpr const char* rest_name = "cenote_kept_rest";
constexpr const char* discard_rest =
    "select pg_catalog.pg_advisory_unlock_all(), "
    "case when pg_catalog.count(*) operator(pg_catalog.=) 0 then '' else "
    "pg_catalog.current_setting('cenote.prepared_statements_were_left') end, "
    "pg_catalog.pg_my_temp_schema() operator(pg_catalog.<>) 0 "
    "from pg_catalog.pg_prepared_statements "
    "where from_sql or pg_catalog.left(name, 12) operator(pg_catalog.<>) 'cenote_kept_'";

}  // namespace

std::size_t session::send_pending_reset() {
    const std::size_t pieces = send_reset();
    if (pieces == 0 || !repeats_on_open()) return pieces;
    const std::size_t more = send_on_open();
    return more == 0 ? 0 : pieces + more;
}

std::size_t session::send_reset() {
    std::size_t pieces = 0;
    auto count = [&pieces](int success) { return success != 0 && ++pieces > 0; };
    auto send_piece = [&](const char* text) { return count(send(text, {}) ? 1 : 0); };
    if (!spares_kept()) return send_piece(discard_all) ? pieces : 0;
    if (!std::ranges::all_of(discard_most, send_piece)) return 0;
    if (!reset_is_prepared_ && !count(PQsendPrepare(handle(), rest_name, discard_rest, 0, nullptr)))
        return 0;
    bool sent = count(PQsendQueryPrepared(handle(), rest_name, 0, nullptr, nullptr, nullptr, 0)) &&
                send_piece("commit");
    return sent ? pieces : 0;
}

void session::note_pending_reset_done(const PGresult* reply) {
    reset_pending_ = false;
    has_own_settings_ = false;  // those of a setup: after others the reset is not deferred
    if (!has_kept()) return;
    if (!spares_kept()) return forget_kept();
    reset_is_prepared_ = true;
    note_temporary(row_of(reply, 0).at(2).as<bool>());
}

void session::take_over_pending_reset() noexcept {
    if (std::exchange(reset_pending_, false)) condition_.note_changed();
}

std::vector<const char*> session::reset_statements() const {
    std::vector<const char*> texts;
    if (in_transaction()) texts.push_back("rollback");
    texts.push_back(spares_kept() ? discard_all_but_kept : discard_all);
    return texts;
}

bool session::reset_succeeded(const PGresult* reply) {
    if (!has_kept()) return true;
    if (!spares_kept()) {
        forget_kept();
        return true;
    }
    std::vector<sql::value> findings = row_of(reply, 0);
    note_temporary(findings.at(1).as<bool>());
    return findings.at(0).as<bool>() && kept_.on();
}

// What a lease does.

void session::note_use() noexcept {
    if (mode_ == reset_mode::at_release) condition_.note_changed();
    used_ = mode_ == reset_mode::with_next;
}

void session::note_text(std::string_view text) noexcept {
    if (mode_ == reset_mode::with_next && mentions_shared_objects(text)) condition_.note_changed();
}

/// Among the resets only DISCARD ALL deallocates the borrower's statements.
void session::note_prepare(std::string_view text) noexcept {
    if (mode_ == reset_mode::with_next && !kept_.on()) return note_text(text);
    condition_.note_changed();
}

void session::note_handle_exposed() {
    opened_.refuse("what is done with native_handle()");
    condition_.note_changed();
    note_own_settings();
    note_names_changed();
    reset_is_prepared_ = false;  // the borrower may prepare another statement by its name
}

namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool in_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}

bool begins_with(std::string_view text, std::string_view word) {
    return text.size() >= word.size() &&
           std::ranges::equal(text.substr(0, word.size()), word,
                              [](char a, char b) { return lower(a) == b; });
}

bool is_whole_word(std::string_view text, std::size_t at, std::size_t size) {
    bool begins = at == 0 || !in_word(text[at - 1]);
    return begins && (at + size == text.size() || !in_word(text[at + size]));
}

}  // namespace

bool mentions_shared_objects(std::string_view text) noexcept {
    for (std::size_t at = 0; at < text.size(); ++at) {
        std::string_view rest = text.substr(at);
        switch (text[at]) {
            case 'a':
            case 'A':
                if (begins_with(rest, "advisory")) return true;
                break;
            case 'l':
            case 'L':
                if (begins_with(rest, "listen") && is_whole_word(text, at, 6)) return true;
                break;
            case 'p':
            case 'P':
                if (begins_with(rest, "pg_temp") && is_whole_word(text, at, 7)) return true;
                break;
            case 't':
            case 'T':
                if (begins_with(rest, "temp") &&
                    (is_whole_word(text, at, 4) ||
                     (begins_with(rest, "temporary") && is_whole_word(text, at, 9))))
                    return true;
                break;
            default: break;
        }
    }
    return false;
}

// Which servers support pending resets.

/// Since these versions DISCARD ALL commits at once inside a pipeline
/// (XACT_FLAGS_NEEDIMMEDIATECOMMIT in the server's source).
bool resets_with_next(int version) noexcept {
    constexpr std::array<int, 5> first_of_each{100022, 110017, 120012, 130008, 140005};
    if (version >= 150000) return true;
    return std::ranges::any_of(first_of_each, [version](int first) {
        return version >= first && version / 10'000 == first / 10'000;
    });
}

std::optional<bool> servers_tried::resets_with_next(const std::string& where) const {
    std::lock_guard lock(mutex_);
    auto found = all_.find(where);
    return found == all_.end() ? std::nullopt : found->second.works;
}

void servers_tried::note(const std::string& where, bool works) {
    std::lock_guard lock(mutex_);
    all_[where].works = works;
}

void servers_tried::note_lost(const std::string& where) {
    constexpr int max_lost = 2;
    std::lock_guard lock(mutex_);
    findings& of = all_[where];
    if (++of.lost >= max_lost) of.works = false;
}

reset_trial::reset_trial(std::shared_ptr<session> with) : sequence(std::move(with)) {
    begin_phase(phase::changing);
}

/// The first statement compares the process number: behind a pooler, which may give each
/// transaction another server connection, it leaves no setting behind.
void reset_trial::begin_phase(phase next) {
    phase_ = next;
    if (next == phase::over) return;
    conversation& request = begin(conversation::origin::connector);
    switch (next) {
        case phase::changing:
            return request.query(
                "select pid, case when pid operator(pg_catalog.=) $1::int "
                "then pg_catalog.set_config('cenote.trial', 'left', false) end "
                "from pg_catalog.pg_backend_pid() pid",
                sql::bind(PQbackendPID(with().handle())));
        case phase::resetting:
            return request.query("select pg_catalog.current_setting('cenote.fails_on_purpose')",
                                 {});
        case phase::checking:
            return request.query(
                "select pg_catalog.current_setting('cenote.trial', true) "
                "is not distinct from 'left'",
                {});
        case phase::cleaning: return request.run(discard_all);
        case phase::over: break;
    }
}

bool reset_trial::advance() {
    switch (phase_) {
        case phase::changing:
            with().note_process(reply());
            if (!*with().direct()) return false;
            with().note_reset_pending();
            return begin_phase(phase::resetting), true;
        case phase::resetting: return begin_phase(phase::cleaning), true;  // should have failed
        case phase::checking:
            works_ = !row_of(reply(), 0).at(0).as<bool>();
            if (works_) return false;
            return begin_phase(phase::cleaning), true;
        case phase::cleaning:
        case phase::over: break;
    }
    return false;
}

/// An error where none is expected: not a PostgreSQL server, so resets cannot be relied on.
bool reset_trial::recover(const statement_error&) {
    begin_phase(phase_ == phase::resetting ? phase::checking : phase::over);
    return true;
}

}  // namespace cenote::postgres::detail
