// When a session of MariaDB's is reset, how thoroughly, and what it is told then.
#include <algorithm>
#include <array>

#include "connector/mariadb_session.hpp"

namespace cenote::mariadb::detail {

namespace {

const char* name_of(isolation_level level) {
    switch (level) {
        case isolation_level::read_uncommitted: return "READ UNCOMMITTED";
        case isolation_level::read_committed: return "READ COMMITTED";
        case isolation_level::repeatable_read: return "REPEATABLE READ";
        case isolation_level::serializable: return "SERIALIZABLE";
        case isolation_level::server_default: break;
    }
    return nullptr;
}

/// What a connection is told. The values were checked to consist of letters, digits and little
/// else.
std::string settings_text(const options& o, bool tracks) {
    std::string all = "SET NAMES '" + o.charset + "'";
    if (!o.time_zone.empty()) all += ", SESSION time_zone = '" + o.time_zone + "'";
    // Of all that a server tells this is the least, and tells of all. The other one tells if a
    // borrower switches it off, and it tells if the borrower changes the other one first.
    if (tracks)
        all +=
            ", SESSION session_track_system_variables = 'session_track_state_change', "
            "SESSION session_track_state_change = ON";
    return all;
}

std::vector<std::string> settings_texts(const options& o, bool tracks) {
    std::vector<std::string> texts{settings_text(o, tracks)};
    if (const char* level = name_of(o.isolation))
        texts.push_back(std::string("SET SESSION TRANSACTION ISOLATION LEVEL ") + level);
    return texts;
}

std::vector<std::string> mode_texts(const options& o) {
    if (o.sql_mode.empty()) return {};
    return {"SET SESSION sql_mode = '" + o.sql_mode + "'"};
}

greeting plain_greeting(const options& o, bool tracks) {
    greeting g{.texts = settings_texts(o, tracks)};
    for (std::string& each : mode_texts(o)) g.texts.push_back(std::move(each));
    return g;
}

std::string quoted(std::string_view name) {
    std::string text = "`";
    for (char c : name) text.append(c == '`' ? 2 : 1, c);
    return text + "`";
}

/// All that in one round trip, with a signal if a borrower has left the connection in another
/// database: a block cannot go back to it. Its select also ends what FOUND_ROWS() knew.
std::string block_of(const std::vector<std::string>& texts, const options& o) {
    std::string block = "BEGIN NOT ATOMIC DECLARE stayed INT; ";
    for (const std::string& text : texts) block += text + "; ";
    block += "SELECT DATABASE() <=> " + as_bytes(o.database) + " INTO stayed; ";
    return block + "IF NOT stayed THEN SIGNAL SQLSTATE '45000'; END IF; END";
}

/// After a reset that was not enough, the settings and more: MariaDB leaves the role, the profiles
/// of past statements and FOUND_ROWS() as they were (10.11). The profiles go when their history has
/// no room and another one is made. A block ends with the mode it began with, so that is said on
/// its own.
greeting full_greeting(const options& o, bool tracks, bool is_mariadb, const server_facts& server) {
    std::vector<std::string> texts = settings_texts(o, tracks);
    if (is_mariadb) {
        texts[0] += ", ROLE " + (server.role ? quoted(*server.role) : "NONE") +
                    ", SESSION profiling = 1, SESSION profiling_history_size = 0";
        texts.emplace(texts.begin() + 1,
                      "SET SESSION profiling = 0, SESSION profiling_history_size = DEFAULT");
    } else if (server.role) {
        texts.push_back("SET ROLE " + *server.role);  // as MySQL has written it: a list of names
    }
    greeting g{.texts = std::move(texts), .minds_database = server.knows_blocks};
    if (server.knows_blocks) g.texts = {block_of(g.texts, o)};
    for (std::string& each : mode_texts(o)) g.texts.push_back(std::move(each));
    return g;
}

/// What a reset and these texts are on the wire.
std::string packets_of(const greeting& after) {
    constexpr unsigned char query = 3;
    constexpr unsigned char reset_connection = 31;
    std::string all = packet_of(reset_connection, {});
    for (const std::string& text : after.texts) all += packet_of(query, text);
    return all;
}

/// Whether others may have to wait until it is undone.
bool speaks_of_shared_things(std::string_view text) noexcept {
    // Far into long texts there are values.
    constexpr std::size_t most = 4096;
    constexpr std::array<std::string_view, 5> words{"get_lock", "lock table", "read lock",
                                                    "handler", "temporary"};
    return std::ranges::any_of(
        words, [&](std::string_view word) { return mentions(text.substr(0, most), word); });
}

}  // namespace

std::string as_bytes(std::string_view text) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string literal = "x'";
    for (char c : text) {
        auto byte = static_cast<unsigned char>(c);
        literal += digits[byte / 16];
        literal += digits[byte % 16];
    }
    return literal + "'";
}

namespace {

bool same(char in_text, char in_word) noexcept {
    char lower =
        in_text >= 'A' && in_text <= 'Z' ? static_cast<char>(in_text + ('a' - 'A')) : in_text;
    return lower == in_word;
}

/// Without spaces, comments and parentheses at the front.
std::string_view from_first_word(std::string_view text) noexcept {
    auto skip_past = [&](std::string_view end) {
        std::size_t at = text.find(end);
        text.remove_prefix(at == text.npos ? text.size() : at + end.size());
    };
    for (;;) {
        std::size_t at = text.find_first_not_of(" \t\r\n\f\v(");
        text.remove_prefix(std::min(at, text.size()));
        if (text.starts_with("/*")) skip_past("*/");
        else if (text.starts_with("--") || text.starts_with("#")) skip_past("\n");
        else return text;
    }
}

}  // namespace

bool mentions(std::string_view text, std::string_view word) noexcept {
    return !std::ranges::search(text, word, same).empty();
}

/// A routine or block may: it is taken for one that does.
bool may_select(std::string_view text) noexcept {
    const std::string_view first = from_first_word(text);
    auto begins_with = [&](std::string_view word) {
        return std::ranges::equal(first.substr(0, word.size()), word, same);
    };
    constexpr std::array<std::string_view, 6> selecting{"select", "with", "values",
                                                        "table",  "call", "execute"};
    return std::ranges::any_of(selecting, begins_with) ||
           (begins_with("begin") && mentions(first, "select"));
}

verdict session::leave() noexcept {
    timeout_ = settings_->operation_timeout;
    if (handle_was_lent_ && handle_ != nullptr) refuse_files_and_reconnects();
    bool automatic = handle_ != nullptr && (handle_->server_status & SERVER_STATUS_AUTOCOMMIT) != 0;
    bool unfinished = in_transaction() || !automatic;
    if (unfinished || !statements_.empty()) condition_.note_changed();
    verdict judged = condition_.judge();
    bool stays = judged == verdict::keep || judged == verdict::reset;
    if (stays && !quiet()) return verdict::discard;
    condition_.note_quiet();
    if (judged != verdict::reset || !may_owe(unfinished)) return judged;
    owe();
    return verdict::reset_later;
}

/// Only what nobody else has to wait for, and what the server's reset removes.
bool session::may_owe(bool unfinished) const noexcept {
    return mode_ == reset_mode::with_next && !unfinished && !urgent_ && !needs_full_reset();
}

void session::owe() noexcept {
    if (owes_) return;
    owes_ = true;
    forget_statements();
}

void session::note_asked(std::string_view text) noexcept {
    changed_by_latest_ = false;
    if (mode_ != reset_mode::by_tracking) condition_.note_changed();
    if (mode_ == reset_mode::with_next && !urgent_) urgent_ = speaks_of_shared_things(text);
}

void session::note_answered() {
    if ((handle_->server_status & SERVER_SESSION_STATE_CHANGED) == 0) return;
    condition_.note_changed();
    lasting_ = true;
    // What was prepared goes on in the database, and by the modes, of that time.
    changed_by_latest_ = true;
    kept_.for_each(
        [this](std::unique_ptr<prepared>& each) { needless_.push_back(std::move(each)); });
    kept_.clear();
}

/// With an error the server does not tell what the statement has changed until then.
void session::note_failed(error_kind kind) noexcept {
    // Whatever was to follow, it does not follow an error.
    constexpr unsigned more = SERVER_MORE_RESULTS_EXIST | SERVER_PS_OUT_PARAMS;
    handle_->server_status &= ~more;
    condition_.note_changed();
    lasting_ = true;
    if (kind == error_kind::statement) return;
    condition_.note_broken(kind);
    is_over_ = true;
}

/// FOUND_ROWS() outlasts a reset. Any select sets it, also one without rows to be seen.
void session::note_found_rows(const prepared& by) noexcept {
    if (by.selects()) alien_rows_ = false;
}

bool session::must_forget_rows(std::string_view text) const noexcept {
    return has_left_overs() && mentions(text, "found_rows");
}

void session::note_anything() noexcept {
    handle_was_lent_ = true;
    condition_.note_changed();
    lasting_ = true;
    alien_rows_ = false;
}

void session::note_connected() {
    constexpr unsigned long first_that_tracks = 100'202;
    bool tracks = settings_->reset == reset_mode::by_tracking ||
                  (mariadb_connection(handle_) != 0 &&
                   mysql_get_server_version(handle_) >= first_that_tracks);
    plain_ = plain_greeting(*settings_, tracks);
    dues_ = packets_of(plain_);
}

/// To have tracking switched on is a change that it tells of, unless somebody on the way keeps that
/// to himself.
void session::note_tracking() noexcept {
    tracks_ = (handle_->server_status & SERVER_SESSION_STATE_CHANGED) != 0;
    knows_lasting_ = tracks_ && mariadb_connection(handle_) != 0;
    mode_ = settings_->reset;
    if (mode_ == reset_mode::with_next && (!knows_lasting_ || encrypted_))
        mode_ = reset_mode::at_release;
    if (mode_ == reset_mode::by_tracking && !tracks_) mode_ = reset_mode::at_release;
}

void session::note_server(server_facts facts) {
    known_since_ = std::chrono::steady_clock::now();
    bool is_mariadb = mariadb_connection(handle_) != 0;
    constexpr unsigned long first_with_blocks = 100'101;
    if (!is_mariadb || mysql_get_server_version(handle_) < first_with_blocks)
        facts.knows_blocks = false;
    full_ = full_greeting(*settings_, tracks_, is_mariadb, facts);
    // Between here and a server that gives it another number is somebody who may change servers.
    if (facts.number == std::to_string(mysql_thread_id(handle_)))
        seen_at_ = std::move(facts.seen_at);
    else if (mode_ == reset_mode::with_next) mode_ = reset_mode::at_release;
}

void session::note_settled(bool in_full) noexcept {
    condition_.note_reset();
    owes_ = lasting_ = urgent_ = handle_was_lent_ = false;
    alien_rows_ = !in_full;
}

/// What is asked now was noted before.
void session::note_paid() noexcept {
    owes_ = false;
    alien_rows_ = true;
}

void session::forget_statements() noexcept {
    // So that they are not closed one by one.
    handle_->methods->invalidate_stmts(handle_, "a reset");
    latest_.reset();
    statements_.clear();
    kept_.clear();
    needless_.clear();
    end_statements();
}

}  // namespace cenote::mariadb::detail
