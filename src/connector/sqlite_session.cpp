// Calls of SQLite within their time limits, and undoing what leases have changed.
#include "connector/sqlite_session.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <new>
#include <sqlite3.h>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "cenote/server_error.hpp"

namespace cenote::sqlite::detail {

using connector_detail::deadline_after;
using connector_detail::instant;

namespace {

/// SQLite's default limit.
constexpr std::size_t longest_statement = 1'000'000'000;

/// Virtual machine instructions of SQLite between two looks at the clock.
constexpr int instructions_per_look = 1000;

// clang-format off
/// Pragmas of one connection that can be set back. Sorted.
constexpr std::array<std::string_view, 30> session_pragmas{
    "analysis_limit", "automatic_index", "busy_timeout", "cache_size", "cache_spill",
    "case_sensitive_like", "cell_size_check", "checkpoint_fullfsync", "count_changes",
    "defer_foreign_keys", "empty_result_callbacks", "foreign_keys", "full_column_names",
    "fullfsync", "ignore_check_constraints", "journal_size_limit", "legacy_alter_table",
    "locking_mode", "mmap_size", "query_only", "read_uncommitted", "recursive_triggers",
    "reverse_unordered_selects", "secure_delete", "short_column_names", "synchronous", "temp_store",
    "threads", "trusted_schema", "wal_autocheckpoint"};
// clang-format on
static_assert(std::ranges::is_sorted(session_pragmas));

/// Pragmas with an argument that leave the session unchanged: they query, or change the file.
/// Sorted.
constexpr std::array<std::string_view, 20> harmless_pragmas{
    "application_id",     "auto_vacuum", "encoding",    "foreign_key_check", "foreign_key_list",
    "incremental_vacuum", "index_info",  "index_list",  "index_xinfo",       "integrity_check",
    "journal_mode",       "optimize",    "page_size",   "quick_check",       "schema_version",
    "table_info",         "table_list",  "table_xinfo", "user_version",      "wal_checkpoint"};
static_assert(std::ranges::is_sorted(harmless_pragmas));

/// Its value cannot be queried. Off by default.
constexpr std::string_view unreadable_pragma = "case_sensitive_like";

std::string lower(std::string_view text) {
    std::string result(text);
    for (char& c : result)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return result;
}

std::string quoted(std::string_view name) {
    std::string result = "\"";
    for (char c : name) result += c == '"' ? std::string("\"\"") : std::string(1, c);
    return result + "\"";
}

int flags_of(open_mode mode) {
    constexpr int always = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_URI;
    switch (mode) {
        case open_mode::read_write: return always | SQLITE_OPEN_READWRITE;
        case open_mode::read_only: return always | SQLITE_OPEN_READONLY;
        case open_mode::create:
        case open_mode::memory: break;
    }
    return always | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
}

/// A URI for SQLite, with the path encoded so that no part of it is taken for a parameter.
std::string file_name(const options& o) {
    bool in_memory = o.mode == open_mode::memory;
    // The memdb VFS shares a database whose name begins with a slash. (SQLite's shared cache would,
    // too, but has no way to wait for its locks.)
    std::string name = in_memory ? "file:/" : "file:";
    for (char c : o.path) {
        constexpr std::string_view digits = "0123456789ABCDEF";
        auto byte = static_cast<unsigned char>(c);
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '/' || c == '.' || c == '-' || c == '_';
        if (plain) name += c;
        else (name += '%') += {digits[byte >> 4U], digits[byte & 15U]};
    }
    return in_memory ? name + "?vfs=memdb" : name;
}

bool is_broken(int code) {
    switch (code & 0xff) {
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB:
        case SQLITE_IOERR:
        case SQLITE_CANTOPEN:
        case SQLITE_MISUSE:
        case SQLITE_INTERNAL: return true;
        default: return false;
    }
}

/// Refers to SQLite's memory: valid until the next step.
sql::cell cell_at(sqlite3_stmt* s, int column) {
    switch (sqlite3_column_type(s, column)) {
        case SQLITE_INTEGER: return sql::cell(std::int64_t{sqlite3_column_int64(s, column)});
        case SQLITE_FLOAT: return sql::cell(sqlite3_column_double(s, column));
        case SQLITE_TEXT: {
            const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(s, column));
            auto size = static_cast<std::size_t>(sqlite3_column_bytes(s, column));
            return sql::cell(std::string_view(text, size));
        }
        case SQLITE_BLOB: {
            const auto* octets = static_cast<const std::byte*>(sqlite3_column_blob(s, column));
            auto size = static_cast<std::size_t>(sqlite3_column_bytes(s, column));
            return sql::cell(std::span(octets, size));
        }
        default: return {};
    }
}

/// Gives the rows of a statement to a sink.
class row_giver {
public:
    row_giver(sqlite3_stmt* of, sql::row_sink& to)
        : of_(of), to_(to), cells_(static_cast<std::size_t>(sqlite3_column_count(of))) {}

    void begin() {
        std::vector<sql::column_info> columns(cells_.size());
        for (std::size_t i = 0; i < columns.size(); ++i) {
            const char* name = sqlite3_column_name(of_, static_cast<int>(i));
            const char* type = sqlite3_column_decltype(of_, static_cast<int>(i));
            columns[i].name = name == nullptr ? "" : name;
            columns[i].type_name = type == nullptr ? "" : type;
        }
        to_.begin(columns, 0);
    }
    /// The present row. Returns the memory that it takes.
    std::size_t give() {
        std::size_t memory = to_.bytes_per_row(cells_.size());
        for (std::size_t i = 0; i < cells_.size(); ++i) {
            sql::cell& c = cells_[i] = cell_at(of_, static_cast<int>(i));
            if (c.kind() == sql::cell_kind::text) memory += c.text().size();
            if (c.kind() == sql::cell_kind::bytes) memory += c.octets().size();
        }
        to_.row(cells_);
        return memory;
    }

private:
    sqlite3_stmt* of_;
    sql::row_sink& to_;
    std::vector<sql::cell> cells_;
};

}  // namespace

const int session::locked = SQLITE_BUSY;

session::rewind::~rewind() {
    sqlite3_reset(of);
    sqlite3_clear_bindings(of);
}

void finalize::operator()(sqlite3_stmt* s) const noexcept { sqlite3_finalize(s); }

session::session(std::shared_ptr<const options> settings, std::shared_ptr<writers_line> line)
    : settings_(std::move(settings)),
      line_(std::move(line)),
      kept_(settings_->statement_cache),
      timeout_(settings_->operation_timeout) {
    open();
    try {
        note_begun();
        set_up();
    } catch (...) {
        sqlite3_close_v2(handle_);
        throw;
    }
}

session::~session() {
    if (handle_ == nullptr) {
        // Not even finalizes: that would touch the parent's handle.
        for (compiled& s : statements_) std::ignore = s.handle.release();
        kept_.for_each([](compiled& s) { std::ignore = s.handle.release(); });
        return;
    }
    statements_.clear();
    kept_.clear();
    sqlite3_close_v2(handle_);
}

void session::open() {
    int code = sqlite3_open_v2(file_name(*settings_).c_str(), &handle_, flags_of(settings_->mode),
                               nullptr);
    if (code == SQLITE_OK) return;
    std::string why = handle_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(handle_);
    sqlite3_close_v2(handle_);
    // The file does not exist or is not accessible: trying again is useless.
    error_kind kind = (code & 0xff) == SQLITE_CANTOPEN || (code & 0xff) == SQLITE_PERM
                          ? error_kind::final
                          : error_kind::transient;
    throw connection_error(kind, "cenote: SQLite: cannot open the database: " + why, {}, code);
}

void session::set_up() {
    limit time(*this);
    sqlite3_progress_handler(
        handle_, instructions_per_look,
        [](void* me) { return static_cast<const session*>(me)->late() ? 1 : 0; }, this);
    install_busy_handler();
    const options& o = *settings_;
    if (!o.journal_mode.empty() && o.mode != open_mode::read_only && o.mode != open_mode::memory)
        run("PRAGMA journal_mode = " + o.journal_mode);
    if (!o.synchronous.empty()) run("PRAGMA synchronous = " + o.synchronous);
    if (o.cache_size) run("PRAGMA cache_size = " + std::to_string(*o.cache_size));
    run(std::string("PRAGMA foreign_keys = ") + (o.foreign_keys ? "on" : "off"));
    run("SELECT count(*) FROM sqlite_schema");  // whether it is a database at all
}

void session::note_begun() noexcept {
    stopped_.store(false, std::memory_order_relaxed);
    until_ = deadline_after(timeout_);
    lock_until_ = std::min(until_, deadline_after(settings_->busy_timeout));
    goes_without_turn_ = false;
}

void session::install_busy_handler() {
    auto wait = [](void* me, int tries) {
        return static_cast<const session*>(me)->wait_for_lock(tries) ? 1 : 0;
    };
    sqlite3_busy_handler(handle_, wait, this);
}

void session::begin_on_open() {
    opened_.begin(instant::max());
    watch_statements();
    by_connector_ = false;
}

void session::finish_opening() {
    if (in_transaction()) connector_detail::refuse_in_on_open("it leaves a transaction open");
    end_lease();
    by_connector_ = true;
    note_begun();
    note_baseline();
    limit time(*this);
    attached_ = attached();
    if (!opened_.statements().empty()) drop_temporaries();
    repeat_on_open();
    opened_.end();
    has_changed_ = cannot_undo_ = false;
    watch_statements();
    by_connector_ = false;
}

void session::watch_statements() {
    sqlite3_set_authorizer(
        handle_,
        [](void* me, int action, const char* name, const char* argument, const char* database,
           const char*) {
            static_cast<session*>(me)->note(action, name, argument, database);
            return SQLITE_OK;
        },
        this);
}

void session::note_baseline() {
    limit time(*this);
    for (std::string_view name : session_pragmas) {
        if (name == unreadable_pragma) {
            baseline_.emplace_back(name, "0");
            continue;
        }
        sql::result now = run("PRAGMA " + std::string(name));
        if (now.empty()) continue;  // has no effect on this database
        const sql::value& v = now[0][0];
        const auto* number = std::get_if<std::int64_t>(&v.get());
        baseline_.emplace_back(name,
                               number != nullptr ? std::to_string(*number) : v.as<std::string>());
    }
}

// What a lease changes. SQLite reports what each statement does when it compiles the statement.

void session::note(int action, const char* name, const char* argument, const char* database) {
    if (by_connector_) return;
    switch (action) {  // actions that change the session or a table
        case SQLITE_INSERT:
        case SQLITE_UPDATE:
        case SQLITE_DELETE: {
            std::string_view where = database == nullptr ? "" : database;
            auto& all = compiled_writes_;
            (where == "main" ? all.main : where == "temp" ? all.temporary : all.attached) = true;
            if (all.temporary && !opened_.statements().empty())
                has_changed_ = compiled_change_ = true;
            break;
        }
        case SQLITE_PRAGMA:
            if (argument != nullptr) note_pragma(lower(name));
            break;
        case SQLITE_DETACH:
            // It may be in memory, and is then gone.
            if (name != nullptr && std::ranges::find(attached_, lower(name)) != attached_.end())
                cannot_undo_ = true;
            has_changed_ = compiled_change_ = true;
            break;
        case SQLITE_ATTACH:
        case SQLITE_CREATE_TEMP_INDEX:
        case SQLITE_CREATE_TEMP_TABLE:
        case SQLITE_CREATE_TEMP_TRIGGER:
        case SQLITE_CREATE_TEMP_VIEW: has_changed_ = compiled_change_ = true; break;
        default: break;
    }
}

void session::note_pragma(std::string_view name) {
    if (std::ranges::binary_search(harmless_pragmas, name)) return;
    has_changed_ = compiled_change_ = true;
    if (!std::ranges::binary_search(session_pragmas, name)) cannot_undo_ = true;
}

verdict session::end_lease() noexcept {
    // A work thread may still be using a statement of an exchange under way.
    if (!condition_.idle()) return condition_.judge();
    statements_.clear();
    end_statements();
    end_turn();
    setup_.reset();
    only_reads_ = false;
    timeout_ = settings_->operation_timeout;
    sqlite3_set_last_insert_rowid(handle_, 0);
    if (cannot_undo_) return verdict::discard;
    return has_changed_ || in_transaction() ? verdict::reset : verdict::keep;
}

void session::reset() {
    limit time(*this);
    statements_.clear();
    end_statements();
    by_connector_ = true;
    if (in_transaction()) run("ROLLBACK");
    if (has_changed_) {
        if (cannot_undo_)
            throw connection_error(error_kind::connection,
                                   "cenote: SQLite: a pragma was set that cannot be set back");
        undo_pragmas();  // first: one of them may forbid the rest
        drop_temporaries();
        detach_all();
        repeat_on_open();
        has_changed_ = false;
    }
    by_connector_ = false;
}

void session::use(std::shared_ptr<const sql::lease_setup> setup) {
    opened_.refuse("the setup of a lease");
    if (!setup->role.empty()) throw std::invalid_argument("cenote: SQLite has no roles");
    for (const auto& [name, value] : setup->settings) {
        if (!std::ranges::binary_search(session_pragmas, lower(name)))
            throw std::invalid_argument("cenote: SQLite: \"" + name +
                                        "\" is not a pragma that can be set for one lease");
        bool is_word = !value.empty() && std::ranges::all_of(value, [](char c) {
            return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
        });
        if (!is_word)
            throw std::invalid_argument(
                "cenote: SQLite: the value of a pragma must be a number or a word");
    }
    if (setup->statement_timeout) {
        if (setup->statement_timeout->count() <= 0)
            throw std::invalid_argument("cenote: statement_timeout must be positive");
        set_timeout(*setup->statement_timeout);
    }
    setup_ = std::move(setup);
}

/// Before the first statement. The reset undoes the pragmas.
void session::set_up_lease() {
    if (setup_ == nullptr) return;
    for (const auto& [name, value] : setup_->settings)
        run(std::string("PRAGMA ").append(name).append(" = ").append(value));
    setup_.reset();
}

void session::undo_pragmas() {
    for (const auto& [name, value] : baseline_) {
        std::string text = "PRAGMA ";
        run(text.append(name).append(" = ").append(value));
    }
    install_busy_handler();  // PRAGMA busy_timeout has installed another one
}

void session::drop_temporaries() {
    // Triggers and views first: they may depend on the tables. Indexes go with their tables.
    for (const char* kind : {"trigger", "view", "table"}) {
        sql::result all = run("SELECT name FROM temp.sqlite_schema WHERE type = '" +
                              std::string(kind) + "' AND name NOT LIKE 'sqlite_%'");
        for (const sql::row& each : all)
            run("DROP " + std::string(kind) + " temp." + quoted(each.get<std::string>(0)));
    }
}

/// The names of attached databases, in lower case.
std::vector<std::string> session::attached() {
    std::vector<std::string> names;
    for (const sql::row& each : run("PRAGMA database_list")) {
        std::string name = lower(each.get<std::string>("name"));
        if (name != "main" && name != "temp") names.push_back(std::move(name));
    }
    return names;
}

void session::detach_all() {
    for (const std::string& name : attached())
        if (std::ranges::find(attached_, name) == attached_.end()) run("DETACH " + quoted(name));
}

// What on_open has run. Its pragmas are the baseline, and its databases stay attached; temporary
// objects are made again.

void session::note_opened(const compiled& s, std::span<const sql::parameter> parameters) {
    if (opened_.is_open() && s.is_temporary) opened_.add(sqlite3_sql(s.handle.get()), parameters);
}

void session::repeat_on_open() {
    for (const sql::bound_statement& each : opened_.statements()) {
        compiled s = compile(each.text());
        connector_detail::result_sink to;
        collect(s, each.parameters(), to);
    }
}

// Statements.

compiled session::compile(std::string_view text, unsigned flags) {
    compiled_change_ = false;
    compiled_writes_ = {};
    sqlite3_stmt* raw = nullptr;
    const char* rest = nullptr;
    if (text.size() > longest_statement)
        throw statement_error("cenote: SQLite: the statement is too long");
    int code =
        sqlite3_prepare_v3(handle_, text.data(), static_cast<int>(text.size()), flags, &raw, &rest);
    compiled made{.handle = std::unique_ptr<sqlite3_stmt, finalize>(raw)};
    if (code != SQLITE_OK) fail(code);
    if (raw == nullptr) throw statement_error("cenote: SQLite: the statement is empty");
    // A second statement would never be run, and may be an injection.
    std::string_view left(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
    if (left.find_first_not_of(" \t\r\n\f;") != left.npos) {
        sqlite3_stmt* more = nullptr;
        code = sqlite3_prepare_v3(handle_, left.data(), static_cast<int>(left.size()), 0, &more,
                                  nullptr);
        std::unique_ptr<sqlite3_stmt, finalize> second(more);
        if (code != SQLITE_OK || second != nullptr)
            throw statement_error(
                "cenote: SQLite: the text has more than one statement; run one at a time");
    }
    // A write that names no table concerns all of them: BEGIN IMMEDIATE, VACUUM.
    const auto& where = compiled_writes_;
    bool whole = !where.main && !where.temporary && !where.attached;
    bool changes = sqlite3_stmt_readonly(raw) == 0;
    made.writes = changes && (whole || where.main || where.attached);
    made.writes_to_main = changes && (whole || where.main);
    made.is_temporary = changes && where.temporary;
    return made;
}

void session::bind(sqlite3_stmt* to, std::span<const sql::parameter> parameters, bool copies) {
    auto places = static_cast<std::size_t>(sqlite3_bind_parameter_count(to));
    if (places != parameters.size())
        throw statement_error("cenote: SQLite: the statement has " + std::to_string(places) +
                              " parameters, but " + std::to_string(parameters.size()) +
                              " values were bound");
    sql::detail::refuse_named(parameters);
    for (std::size_t i = 0; i < places; ++i)
        bind_one(to, static_cast<int>(i + 1), parameters[i], copies);
}

namespace {

/// SQLITE_TRANSIENT, which makes SQLite copy; the macro has a C cast.
sqlite3_destructor_type transient() {
    return std::bit_cast<sqlite3_destructor_type>(std::intptr_t{-1});
}

struct binder {
    sqlite3_stmt* to;
    int place;
    sqlite3_destructor_type keeps;

    int operator()(std::monostate) const { return sqlite3_bind_null(to, place); }
    int operator()(bool b) const { return sqlite3_bind_int(to, place, b ? 1 : 0); }
    int operator()(std::int64_t i) const { return sqlite3_bind_int64(to, place, i); }
    int operator()(double d) const { return sqlite3_bind_double(to, place, d); }
    int operator()(std::string_view text) const {
        const char* from = text.data() == nullptr ? "" : text.data();
        return sqlite3_bind_text64(to, place, from, text.size(), keeps, SQLITE_UTF8);
    }
    int operator()(std::span<const std::byte> octets) const {
        if (octets.empty()) return sqlite3_bind_zeroblob(to, place, 0);
        return sqlite3_bind_blob64(to, place, octets.data(), octets.size(), keeps);
    }
    int operator()(const sql::detail::array_view&) const {
        throw std::invalid_argument("cenote: SQLite has no arrays: bind one value each");
    }
    int operator()(const auto& date_or_id) const {
        sql::detail::text_buffer buffer{};
        std::string_view text = sql::detail::text_of(date_or_id, buffer);
        return sqlite3_bind_text64(to, place, text.data(), text.size(), transient(), SQLITE_UTF8);
    }
};

}  // namespace

void session::bind_one(sqlite3_stmt* to, int place, const sql::parameter& p, bool copies) {
    sqlite3_destructor_type keeps = copies ? transient() : nullptr;  // SQLITE_STATIC
    int code = std::visit(binder{to, place, keeps}, p.get());
    if (code != SQLITE_OK) fail(code);
}

bool session::step(sqlite3_stmt* s) {
    int code = sqlite3_step(s);
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    fail(code);
}

void session::collect(sqlite3_stmt* s, sql::row_sink& to) {
    std::int64_t before = sqlite3_total_changes64(handle_);
    std::size_t memory = 0;
    bool more = step(s);
    row_giver rows(s, to);  // the first step may compile the statement again
    for (rows.begin(); more; more = step(s)) {
        memory += rows.give();
        if (memory > settings_->max_reply_bytes && !by_connector_)
            throw statement_error("cenote: SQLite: the rows take more memory than max_reply_bytes");
    }
    bool changed = sqlite3_total_changes64(handle_) != before;
    to.note_affected(changed ? static_cast<std::uint64_t>(sqlite3_changes64(handle_)) : 0,
                     sqlite3_last_insert_rowid(handle_));
}

void session::collect(const compiled& s, std::span<const sql::parameter> parameters,
                      sql::row_sink& to) {
    bind(s.handle.get(), parameters, false);
    take_turn(s);
    collect(s.handle.get(), to);
}

sql::result session::run(const std::string& text) {
    compiled s = compile(text);
    connector_detail::result_sink to;
    collect(s.handle.get(), to);
    return to.take();
}

void session::perform(std::string_view text, std::span<const sql::parameter> parameters,
                      sql::row_sink& to) {
    limit time(*this);
    set_up_lease();
    bool keeps = kept_.on() && !opened_.is_open() && !connector_detail::has_trace_comment(text);
    if (keeps) return perform_kept(text, parameters, to);
    compiled s = compile(text);
    collect(s, parameters, to);
    note_opened(s, parameters);
}

void session::set_up_for_handle() {
    limit time(*this);
    set_up_lease();
}

/// SQLite reports changes of the session when it compiles a statement, not when it runs one. So a
/// statement that changes the session is not kept, but compiled for each run.
void session::perform_kept(std::string_view text, std::span<const sql::parameter> parameters,
                           sql::row_sink& to) {
    if (compiled* known = kept_.find(text)) {
        rewind at_the_end{known->handle.get()};
        return collect(*known, parameters, to);
    }
    compiled fresh = compile(text, SQLITE_PREPARE_PERSISTENT);
    if (compiled_change_) return collect(fresh, parameters, to);
    kept_.add(std::string(text), std::move(fresh));
    perform_kept(text, parameters, to);
}

sql::statement session::make(std::string_view text) {
    limit time(*this);
    set_up_lease();
    return keep(compile(text, SQLITE_PREPARE_PERSISTENT));
}

void session::perform(const sql::statement& prepared, std::span<const sql::parameter> parameters,
                      sql::row_sink& to) {
    limit time(*this);
    const compiled& s = find(prepared);
    rewind at_the_end{s.handle.get()};
    collect(s, parameters, to);
    note_opened(s, parameters);
}

sql::statement session::begin(std::string_view text, std::span<const sql::parameter> parameters) {
    limit time(*this);
    set_up_lease();
    compiled s = compile(text);
    bind(s.handle.get(), parameters, true);
    return keep(std::move(s));
}

bool session::next(const sql::statement& begun, sql::row_sink& to) {
    limit time(*this);
    const compiled& found = find(begun);
    take_turn(found);
    sqlite3_stmt* s = found.handle.get();
    bool more = step(s);
    row_giver rows(s, to);
    if (!to.begun()) rows.begin();
    if (more) rows.give();
    return more;
}

void session::end(const sql::statement& begun) noexcept {
    auto number = number_of(begun);
    if (!number) return;
    if (handle_ == nullptr) std::ignore = statements_[*number].handle.release();  // the parent's
    else statements_[*number].handle.reset();
    end_turn();
}

sql::statement session::keep(compiled s) {
    auto place = std::ranges::find_if(statements_, [](const auto& each) { return !each.handle; });
    if (place == statements_.end()) place = statements_.emplace(place);
    *place = std::move(s);
    return named(static_cast<std::size_t>(place - statements_.begin()));
}

const compiled& session::find(const sql::statement& s) const {
    auto number = number_of(s);
    if (!number || statements_.at(*number).handle == nullptr)
        throw std::logic_error(
            "cenote: a prepared statement belongs to the connection and the lease that prepared "
            "it");
    return statements_[*number];
}

// The line of writers.

/// A transaction that has begun to read does not wait for a turn: the writer may be waiting for its
/// end. Without a turn until the deadline the statement runs nevertheless, and fails with SQLite's
/// own error.
void session::take_turn(const compiled& s) {
    wants_turn_ = false;
    if (!s.writes) return;
    if (only_reads_)
        throw statement_error("cenote: SQLite: the statement writes, but the lease is read-only",
                              {}, SQLITE_READONLY);
    if (!s.writes_to_main || turn_ || goes_without_turn_ || line_ == nullptr) return;
    if (sqlite3_txn_state(handle_, "main") != SQLITE_TXN_NONE) return;
    turn_ = line_->try_take();
    if (turn_) return;
    wants_turn_ = !waits_;
    if (wants_turn_) throw statement_error("cenote: SQLite: database is locked", {}, locked);
    turn_ = line_->take_until(lock_deadline_);
}

void session::end_turn() noexcept {
    if (!turn_ || handle_ == nullptr) return;
    if (sqlite3_txn_state(handle_, "main") != SQLITE_TXN_WRITE) turn_.give_back();
}

// The rest.

bool session::probe() {
    limit time(*this);
    by_connector_ = true;
    run("PRAGMA schema_version");
    by_connector_ = false;
    return true;
}

bool session::in_transaction() const noexcept { return sqlite3_get_autocommit(handle_) == 0; }

bool session::late() const noexcept {
    return stopped_.load(std::memory_order_relaxed) ||
           (deadline_ != instant::max() && std::chrono::steady_clock::now() >= deadline_);
}

/// Pauses before the next try for a lock. False: gives up.
bool session::wait_for_lock(int tries) const noexcept {
    if (!waits_ || late() || std::chrono::steady_clock::now() >= lock_deadline_) return false;
    // Briefly at first: most locks are held for one write.
    auto pause = std::chrono::microseconds{std::min(100 << std::min(tries, 7), 10'000)};
    std::this_thread::sleep_for(pause);
    return true;
}

void session::refuse_stopped() const {
    if (stopped_.load(std::memory_order_relaxed))
        throw statement_error("cenote: SQLite: the statement was canceled", {}, SQLITE_INTERRUPT);
}

void session::fail(int code) const {
    int extended = sqlite3_extended_errcode(handle_);
    if (code == SQLITE_NOMEM) throw std::bad_alloc();
    if ((code & 0xff) == SQLITE_INTERRUPT) {
        refuse_stopped();
        throw statement_error("cenote: SQLite: the statement exceeded its time limit", {}, code);
    }
    std::string text = std::string("cenote: SQLite: ") + sqlite3_errmsg(handle_);
    if (is_broken(code)) throw connection_error(error_kind::connection, text, {}, extended);
    throw statement_error(text, {}, extended);
}

}  // namespace cenote::sqlite::detail
