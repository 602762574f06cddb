// When a session of MariaDB is reset, how thoroughly, and with which statements.
#include <algorithm>
#include <array>
#include <utility>

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

/// The values need no quoting: validate() has checked their characters.
std::string settings_text(const options& o, bool tracks) {
    std::string all = "SET NAMES '" + o.charset + "'";
    if (!o.time_zone.empty()) all += ", SESSION time_zone = '" + o.time_zone + "'";
    // session_track_state_change reports any change with the fewest bytes. The first variable makes
    // the server report when a borrower switches that off; to change the first variable is a change
    // of state itself.
    if (tracks)
        all +=
            ", SESSION session_track_system_variables = 'session_track_state_change', "
            "SESSION session_track_state_change = ON";
    for (const auto& [name, value] : o.settings)
        all +=
            (name.starts_with('@') ? ", " : ", SESSION ") + name + " = " + literal_of(name, value);
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

setup_script basic_setup_of(const options& o, bool tracks) {
    setup_script s{.statements = settings_texts(o, tracks)};
    for (std::string& each : mode_texts(o)) s.statements.push_back(std::move(each));
    return s;
}

/// All statements in one round trip. Raises a signal if a borrower has selected another database: a
/// block cannot select one. Its SELECT also clears FOUND_ROWS().
std::string block_of(const std::vector<std::string>& texts, const options& o) {
    std::string block = "BEGIN NOT ATOMIC DECLARE stayed INT; ";
    for (const std::string& text : texts) block += text + "; ";
    block += "SELECT DATABASE() <=> " + as_bytes(o.database) + " INTO stayed; ";
    return block + "IF NOT stayed THEN SIGNAL SQLSTATE '45000'; END IF; END";
}

/// The settings, and what COM_RESET_CONNECTION of MariaDB 10.11 leaves as it was: the role, the
/// profiles of past statements and FOUND_ROWS(). The profiles are dropped when the size of their
/// history is 0 and another one is added. At its end a block restores the sql_mode it began with,
/// so the mode is set after the block.
setup_script full_setup_of(const options& o, bool tracks, bool is_mariadb,
                           const server_facts& server) {
    std::vector<std::string> texts = settings_texts(o, tracks);
    if (is_mariadb) {
        texts[0] += ", ROLE " + (server.role ? quoted(*server.role) : "NONE") +
                    ", SESSION profiling = 1, SESSION profiling_history_size = 0";
        texts.emplace(texts.begin() + 1,
                      "SET SESSION profiling = 0, SESSION profiling_history_size = DEFAULT");
    } else if (server.role) {
        texts.push_back("SET ROLE " + *server.role);  // MySQL's form: a list of quoted names
    }
    setup_script s{.statements = std::move(texts),
                   .checks_database = server.has_compound_statements};
    if (server.has_compound_statements) s.statements = {block_of(s.statements, o)};
    for (std::string& each : mode_texts(o)) s.statements.push_back(std::move(each));
    return s;
}

/// COM_RESET_CONNECTION and these statements in the protocol's form.
std::string packets_of(const setup_script& after) {
    constexpr unsigned char reset_connection = 31;
    std::string all = packet_of(reset_connection, {});
    for (const std::string& text : after.statements) all += query_packet(text);
    return all;
}

/// Whether a statement may make other connections wait until the session is reset.
bool mentions_shared_objects(std::string_view text) noexcept {
    // The far end of a long text consists of values.
    constexpr std::size_t max_searched = 4096;
    constexpr std::array<std::string_view, 5> words{"get_lock", "lock table", "read lock",
                                                    "handler", "temporary"};
    return std::ranges::any_of(
        words, [&](std::string_view word) { return mentions(text.substr(0, max_searched), word); });
}

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

/// Routines and blocks count as well.
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

verdict session::end_lease() noexcept {
    timeout_ = settings_->operation_timeout;
    setup_.clear();
    if (handle_was_exposed_ && handle_ != nullptr) refuse_files_and_reconnects();
    bool automatic = handle_ != nullptr && (handle_->server_status & SERVER_STATUS_AUTOCOMMIT) != 0;
    bool unfinished = in_transaction() || !automatic;
    if (unfinished || !statements_.empty()) condition_.note_changed();
    verdict judged = condition_.judge();
    bool stays = judged == verdict::keep || judged == verdict::reset;
    if (stays && !quiet()) return verdict::discard;
    condition_.note_quiet();
    if (judged != verdict::reset || !may_postpone_reset(unfinished)) return judged;
    postpone_reset();
    return verdict::reset_later;
}

/// Only if other connections need not wait for it, and COM_RESET_CONNECTION removes every change.
bool session::may_postpone_reset(bool unfinished) const noexcept {
    return mode_ == reset_mode::with_next && !unfinished && !blocks_others_ && !needs_full_reset();
}

void session::postpone_reset() noexcept {
    if (reset_pending_) return;
    reset_pending_ = true;
    forget_statements();
}

void session::note_statement(std::string_view text) noexcept {
    changed_by_latest_ = false;
    if (mode_ != reset_mode::by_tracking) condition_.note_changed();
    if (mode_ == reset_mode::with_next && !blocks_others_)
        blocks_others_ = mentions_shared_objects(text);
}

void session::note_reply() {
    if ((handle_->server_status & SERVER_SESSION_STATE_CHANGED) != 0) note_setup_sent();
}

void session::note_setup_sent() {
    condition_.note_changed();
    has_lasting_changes_ = true;
    // Kept statements would run with the database and the modes of the time they were prepared.
    changed_by_latest_ = true;
    kept_.for_each(
        [this](std::unique_ptr<prepared>& each) { closable_.push_back(std::move(each)); });
    kept_.clear();
}

/// The reply to a failed statement does not report what it changed before it failed.
void session::note_error(error_kind kind) noexcept {
    // No further result follows an error.
    constexpr unsigned more = SERVER_MORE_RESULTS_EXIST | SERVER_PS_OUT_PARAMS;
    handle_->server_status &= ~more;
    condition_.note_changed();
    has_lasting_changes_ = true;
    if (kind == error_kind::statement) return;
    condition_.note_broken(kind);
    cancel_done_ = true;
}

/// FOUND_ROWS() outlasts a reset. Every SELECT sets it, even one that returns no rows.
void session::note_found_rows(const prepared& by) noexcept {
    if (by.selects()) stale_found_rows_ = false;
}

bool session::must_clear_found_rows(std::string_view text) const noexcept {
    return has_leftovers() && mentions(text, "found_rows");
}

void session::note_handle_exposed() noexcept {
    handle_was_exposed_ = true;
    condition_.note_changed();
    has_lasting_changes_ = true;
    stale_found_rows_ = false;
}

void session::note_connected() {
    constexpr unsigned long first_that_tracks = 100'202;
    bool tracks = settings_->reset == reset_mode::by_tracking ||
                  (mariadb_connection(handle_) != 0 &&
                   mysql_get_server_version(handle_) >= first_that_tracks);
    basic_setup_ = basic_setup_of(*settings_, tracks);
    reset_packets_ = packets_of(basic_setup_);
}

/// The server reports that tracking was switched on, unless a proxy drops the report.
void session::note_tracking() noexcept {
    tracks_ = (handle_->server_status & SERVER_SESSION_STATE_CHANGED) != 0;
    reports_lasting_changes_ = tracks_ && mariadb_connection(handle_) != 0;
    mode_ = settings_->reset;
    if (mode_ == reset_mode::with_next && (!reports_lasting_changes_ || encrypted_))
        mode_ = reset_mode::at_release;
    if (mode_ == reset_mode::by_tracking && !tracks_) mode_ = reset_mode::at_release;
}

void session::note_server(server_facts facts) {
    known_since_ = std::chrono::steady_clock::now();
    bool is_mariadb = mariadb_connection(handle_) != 0;
    constexpr unsigned long first_with_blocks = 100'101;
    if (!is_mariadb || mysql_get_server_version(handle_) < first_with_blocks)
        facts.has_compound_statements = false;
    full_setup_ = full_setup_of(*settings_, tracks_, is_mariadb, facts);
    // If the server knows the connection by another number there is a proxy, which may change
    // servers.
    if (facts.connection_id == std::to_string(mysql_thread_id(handle_)))
        client_address_ = std::move(facts.client_address);
    else if (mode_ == reset_mode::with_next) mode_ = reset_mode::at_release;
}

void session::note_set_up(bool in_full) noexcept {
    condition_.note_reset();
    reset_pending_ = has_lasting_changes_ = blocks_others_ = handle_was_exposed_ = false;
    stale_found_rows_ = !in_full;
}

/// The condition stays changed: by the statement that the reset goes with.
void session::note_pending_reset_done() noexcept {
    reset_pending_ = false;
    stale_found_rows_ = true;
}

void session::forget_statements() noexcept {
    // So that the library does not close them on the server one by one.
    handle_->methods->invalidate_stmts(handle_, "a reset");
    latest_.reset();
    statements_.clear();
    kept_.clear();
    closable_.clear();
    end_statements();
}

}  // namespace cenote::mariadb::detail
