// How a session is reset: on its own, or in front of the next request; and whether its server can
// be trusted with the latter (docs/decisions/0018).
#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "connector/postgres_session.hpp"

namespace cenote::postgres::detail {

// What is said.

namespace {

/// The same, but for what is kept prepared. Says whether that is all that is, and whether the
/// session has a schema for temporary objects.
constexpr const char* undo_all_but_kept =
    "close all; set session authorization default; reset all; unlisten *; "
    "select pg_catalog.pg_advisory_unlock_all(); discard temp; discard sequences; "
    "select pg_catalog.count(*) operator(pg_catalog.=) 0, "
    "pg_catalog.pg_my_temp_schema() operator(pg_catalog.<>) 0 "
    "from pg_catalog.pg_prepared_statements "
    "where from_sql or pg_catalog.left(name, 12) operator(pg_catalog.<>) 'cenote_kept_'";

/// In front of a request. None of these commits at once as DISCARD ALL does, so they need a
/// transaction; its level is given because the session's default may be one that waits.
constexpr std::array<const char*, 7> undo_most{"begin isolation level read committed",
                                               "close all",
                                               "set session authorization default",
                                               "reset all",
                                               "unlisten *",
                                               "discard temp",
                                               "discard sequences"};

/// The rest, which is kept prepared itself: to plan it takes longer than all the others. There is
/// no time for a second try, so any other prepared statement is an error, with a name that explains
/// itself in the server's log.
constexpr const char* rest_name = "cenote_kept_rest";
constexpr const char* undo_rest =
    "select pg_catalog.pg_advisory_unlock_all(), "
    "case when pg_catalog.count(*) operator(pg_catalog.=) 0 then '' else "
    "pg_catalog.current_setting('cenote.prepared_statements_were_left') end, "
    "pg_catalog.pg_my_temp_schema() operator(pg_catalog.<>) 0 "
    "from pg_catalog.pg_prepared_statements "
    "where from_sql or pg_catalog.left(name, 12) operator(pg_catalog.<>) 'cenote_kept_'";

}  // namespace

std::size_t session::send_dues() {
    std::size_t pieces = 0;
    auto count = [&pieces](int success) { return success != 0 && ++pieces > 0; };
    auto say = [&](const char* text) {
        return count(PQsendQueryParams(handle(), text, 0, nullptr, nullptr, nullptr, nullptr, 0));
    };
    if (!spares_kept()) return say(undo_all) ? pieces : 0;
    if (!std::ranges::all_of(undo_most, say)) return 0;
    if (!keeps_rest_ && !count(PQsendPrepare(handle(), rest_name, undo_rest, 0, nullptr))) return 0;
    bool sent = count(PQsendQueryPrepared(handle(), rest_name, 0, nullptr, nullptr, nullptr, 0)) &&
                say("commit");
    return sent ? pieces : 0;
}

void session::note_paid(const PGresult* said) {
    owes_ = false;
    if (!has_kept()) return;
    if (!spares_kept()) return forget_kept();
    keeps_rest_ = true;
    note_temporary(row_of(said, 0).at(2).as<bool>());
}

void session::take_over_debt() noexcept {
    if (std::exchange(owes_, false)) condition_.note_changed();
}

std::vector<const char*> session::undoing() const {
    std::vector<const char*> texts;
    if (in_transaction()) texts.push_back("rollback");
    texts.push_back(spares_kept() ? undo_all_but_kept : undo_all);
    return texts;
}

bool session::is_undone(const PGresult* said) {
    if (!has_kept()) return true;
    if (!spares_kept()) {
        forget_kept();
        return true;
    }
    std::vector<sql::value> reply = row_of(said, 0);
    note_temporary(reply.at(1).as<bool>());
    return reply.at(0).as<bool>() && kept_.on();
}

// What a lease says.

void session::note_use() noexcept {
    if (mode_ == reset_mode::at_release) condition_.note_changed();
    used_ = mode_ == reset_mode::with_next;
}

void session::note_words(std::string_view text) noexcept {
    if (mode_ == reset_mode::with_next && speaks_of_shared_things(text)) condition_.note_changed();
}

/// Only DISCARD ALL ends what a borrower has prepared.
void session::note_prepares(std::string_view text) noexcept {
    if (mode_ == reset_mode::with_next && !kept_.on()) return note_words(text);
    condition_.note_changed();
}

namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

bool in_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}

/// At the end of a text counts, too.
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

bool speaks_of_shared_things(std::string_view text) noexcept {
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

// Whether a server can be trusted.

/// Since these it does not matter what follows DISCARD ALL in a pipeline
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
    return found == all_.end() ? std::nullopt : found->second.well;
}

void servers_tried::note(const std::string& where, bool well) {
    std::lock_guard lock(mutex_);
    all_[where].well = well;
}

void servers_tried::note_lost(const std::string& where) {
    constexpr int enough = 2;
    std::lock_guard lock(mutex_);
    findings& of = all_[where];
    if (++of.lost >= enough) of.well = false;
}

trial::trial(std::shared_ptr<session> with) : with_(std::move(with)) { begin(phase::leaving); }

/// The process's number tells whether the server itself is at the other end: where each transaction
/// may be another server connection's, nothing is left behind.
void trial::begin(phase next) {
    phase_ = next;
    now_.emplace(with_, conversation::of::connector);
    switch (next) {
        case phase::leaving:
            return now_->ask(
                "select pid, case when pid operator(pg_catalog.=) $1::int "
                "then pg_catalog.set_config('cenote.trial', 'left', false) end "
                "from pg_catalog.pg_backend_pid() pid",
                sql::bind(PQbackendPID(with_->handle())));
        case phase::resetting:
            return now_->ask("select pg_catalog.current_setting('cenote.fails_on_purpose')", {});
        case phase::looking:
            return now_->ask(
                "select pg_catalog.current_setting('cenote.trial', true) "
                "is not distinct from 'left'",
                {});
        case phase::tidying: return now_->ask_all(undo_all);
    }
}

/// False: that was all.
bool trial::go_on() {
    switch (phase_) {
        case phase::leaving:
            with_->note_process(now_->reply());
            if (!*with_->direct()) return false;
            with_->note_owed();
            return begin(phase::resetting), true;
        case phase::resetting: return begin(phase::tidying), true;  // it cannot have succeeded
        case phase::looking:
            well_ = !row_of(now_->reply(), 0).at(0).as<bool>();
            if (well_) return false;
            return begin(phase::tidying), true;
        case phase::tidying: break;
    }
    return false;
}

need trial::step() {
    for (;;) {
        try {
            need n = now_->step();
            if (n != need::nothing || !go_on()) return n;
        } catch (const statement_error&) {
            if (phase_ != phase::resetting) return need::nothing;  // not a server that we know
            begin(phase::looking);
        }
    }
}

}  // namespace cenote::postgres::detail
