// What is said over one handle of libpq's: requests, replies, errors, and what is left of a
// session.
#include "connector/postgres_session.hpp"

#include <algorithm>
#include <array>
#include <unistd.h>
#include <utility>

#include "connector/socket.hpp"
#include "connector/work.hpp"

namespace cenote::postgres::detail {

namespace {

std::string field(const PGresult* r, int which) {
    const char* text = PQresultErrorField(r, which);
    return text == nullptr ? std::string() : std::string(text);
}

/// By where in the server it comes from: a procedure may raise the same codes after it has done
/// half of its work.
bool is_stale(const PGresult* r) {
    // The last five raise what a changed type of a column makes of a parameter whose type was
    // inferred from the old one.
    constexpr std::array<std::string_view, 7> before_it_runs{
        "RevalidateCachedQuery", "FetchPreparedStatement", "transformAssignedExpr", "op_error",
        "ParseFuncOrColumn",     "select_common_type",     "coerce_to_common_type"};
    return std::ranges::find(before_it_runs, field(r, PG_DIAG_SOURCE_FUNCTION)) !=
               before_it_runs.end() &&
           field(r, PG_DIAG_CONTEXT).empty();
}

/// Without what would show the statement.
complaint complaint_of(const PGresult* r) {
    complaint c;
    c.sqlstate = field(r, PG_DIAG_SQLSTATE);
    c.kind = kind_of(c.sqlstate, field(r, PG_DIAG_SEVERITY_NONLOCALIZED));
    c.text = field(r, PG_DIAG_MESSAGE_PRIMARY);
    c.stale = is_stale(r);
    c.in_function = !field(r, PG_DIAG_CONTEXT).empty();
    std::string detail = field(r, PG_DIAG_MESSAGE_DETAIL);
    if (!detail.empty()) c.text += " (" + detail + ")";
    if (c.text.empty()) {
        c.text = PQresultErrorMessage(r);  // of libpq's own
        c.text.resize(std::min(c.text.find('\n'), c.text.size()));
    }
    return c;
}

/// Literals of times and texts are read by these, once; the server tells of each change.
constexpr std::array<const char*, 4> reading_settings{"TimeZone", "DateStyle", "IntervalStyle",
                                                      "standard_conforming_strings"};

/// Of commands that change settings of the session, or may: blocks and procedures do as they like.
bool setting_tag(std::string_view tag) noexcept {
    constexpr std::array<std::string_view, 6> setting{"SET", "RESET",   "DISCARD",
                                                      "DO",  "EXECUTE", "CALL"};
    return std::ranges::find(setting, tag.substr(0, tag.find(' '))) != setting.end();
}

/// Of commands that neither make nor drop anything that has a name. Those of blocks and procedures
/// may, and so may those that are not known here.
bool keeps_names(std::string_view tag) noexcept {
    constexpr std::array<std::string_view, 27> keeping{
        "",      "SELECT", "INSERT",   "UPDATE",    "DELETE",  "MERGE",      "BEGIN",
        "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "SET",        "RESET",
        "SHOW",  "LISTEN", "UNLISTEN", "NOTIFY",    "PREPARE", "DEALLOCATE", "DECLARE",
        "FETCH", "MOVE",   "CLOSE",    "COPY",      "LOCK",    "ANALYZE"};
    return std::ranges::find(keeping, tag.substr(0, tag.find(' '))) != keeping.end();
}

/// `CREATE TABLE … AS` and `SELECT … INTO` have the tag of a SELECT, but no columns.
bool makes_table(const PGresult* r, std::string_view tag) noexcept {
    return tag.starts_with("SELECT") && PQresultStatus(r) == PGRES_COMMAND_OK;
}

bool harmless_tag(std::string_view tag) noexcept {
    constexpr std::array<std::string_view, 11> harmless{"SELECT",   "INSERT",    "UPDATE", "DELETE",
                                                        "MERGE",    "BEGIN",     "START",  "COMMIT",
                                                        "ROLLBACK", "SAVEPOINT", "RELEASE"};
    return std::ranges::find(harmless, tag.substr(0, tag.find(' '))) != harmless.end();
}

}  // namespace

void complaint::raise() const {
    std::string what = "cenote: PostgreSQL: " + text;
    if (!sqlstate.empty()) what += " [" + sqlstate + "]";
    if (kind == error_kind::statement) throw statement_error(what, sqlstate);
    throw connection_error(kind, what, sqlstate);
}

error_kind kind_of(std::string_view sqlstate, std::string_view severity) noexcept {
    constexpr std::array<std::string_view, 4> of_the_server{"57P01", "57P02", "57P03", "25006"};
    if (std::ranges::find(of_the_server, sqlstate) != of_the_server.end())
        return error_kind::suspect;
    // After an ERROR the session goes on, also one of class 08: a wrong number of parameters, or
    // somebody else's connection that a function has lost.
    return severity == "ERROR" ? error_kind::statement : error_kind::connection;
}

// Session.

session::session(std::shared_ptr<const options> settings, handle_ptr connected)
    : settings_(std::move(settings)),
      handle_(std::move(connected)),
      timeout_(settings_->operation_timeout),
      kept_(settings_->statement_cache),
      mode_(settings_->reset) {
    if (!set_up_handle())
        throw connection_error(error_kind::connection, "cenote: PostgreSQL: cannot go on");
    if (mode_ == reset_mode::with_next && !resets_with_next(PQserverVersion(handle())))
        mode_ = reset_mode::at_release;
    for (const char* name : reading_settings) {
        const char* value = PQparameterStatus(handle(), name);
        first_settings_.emplace_back(value == nullptr ? "" : value);
    }
}

bool session::set_up_handle() noexcept {
    PQuntrace(handle());
    PQsetErrorVerbosity(handle(), PQERRORS_DEFAULT);
    PQsetErrorContextVisibility(handle(), PQSHOW_CONTEXT_ERRORS);
    PQsetNoticeReceiver(handle(), &session::hear, this);
    if (PQpipelineStatus(handle()) != PQ_PIPELINE_OFF && PQexitPipelineMode(handle()) == 0)
        return false;
    return PQsetnonblocking(handle(), 1) == 0;
}

/// Notices are for nobody; but while nothing was asked they are all we ever see of a stray message.
void session::hear(void* of, const PGresult* /*notice*/) noexcept {
    auto* me = static_cast<session*>(of);
    if (me->condition_.idle()) me->babbles_ = true;
}

bool session::in_transaction() const noexcept {
    PGTransactionStatusType status = PQtransactionStatus(handle());
    return status == PQTRANS_INTRANS || status == PQTRANS_INERROR;
}

bool session::quiet() noexcept {
    if (!condition_.idle() || PQstatus(handle()) != CONNECTION_OK) return false;
    // What libpq has read and nobody has asked for it takes for a notice or a notification.
    drop_notifications();
    return !babbles_ &&
           connector_detail::look_at(PQsocket(handle())) == connector_detail::sight::quiet;
}

void session::drop_notifications() noexcept {
    while (PGnotify* told = PQnotifies(handle())) PQfreemem(told);
}

verdict session::leave() noexcept {
    timeout_ = settings_->operation_timeout;
    if (!set_up_handle()) condition_.note_broken();
    if (in_transaction()) condition_.note_changed();
    if (condition_.idle()) {
        bool idle = PQtransactionStatus(handle()) == PQTRANS_IDLE || in_transaction();
        if (idle && quiet()) condition_.note_quiet();
        else condition_.note_broken();
    }
    verdict v = condition_.judge();
    if (v != verdict::keep || !(used_ || owes_)) return v;
    if (std::exchange(used_, false)) end_statements();
    owes_ = true;
    return verdict::reset_later;
}

void session::note_reset() noexcept {
    condition_.note_reset();
    timeout_ = settings_->operation_timeout;
    end_statements();
    used_ = false;
    owes_ = false;
    has_own_settings_ = false;
    only_reads_ = false;
    names_in_flux_ = false;
}

/// A plan is not made anew because a table now hides the one that it is about.
void session::note_names_changed() {
    kept_.for_each([this](kept_statement& one) {
        if (!one.name.empty()) forgotten_.push_back(std::move(one.name));
    });
    kept_.clear();
    knows_temporary_ = false;
    names_in_flux_ = in_transaction();
}

bool session::names_in_flux() noexcept {
    if (!in_transaction()) names_in_flux_ = false;
    return names_in_flux_;
}

void session::note_temporary(bool has_some) noexcept {
    knows_temporary_ = true;
    if (has_some) kept_.turn_off();
}

bool session::reads_texts_as_ever() const {
    if (has_own_settings_) return false;
    for (std::size_t i = 0; i < reading_settings.size(); ++i) {
        const char* value = PQparameterStatus(handle(), reading_settings[i]);
        if (first_settings_[i] != (value == nullptr ? "" : value)) return false;
    }
    return true;
}

void session::note_only_reads() noexcept {
    only_reads_ = true;
    condition_.note_changed();
}

void session::note_process(const PGresult* its_number) {
    direct_ = row_of(its_number, 0).at(0).as<int>() == PQbackendPID(handle());
}

void session::forget_kept() noexcept {
    kept_.clear();
    forgotten_.clear();
    prepares_ = false;
    keeps_rest_ = false;
    knows_temporary_ = false;
}

void session::call_off() noexcept {
    if (PQstatus(handle()) != CONNECTION_OK) return;
    PGcancel* request = PQgetCancel(handle());
    if (request == nullptr) return;
    try {
        std::shared_ptr<PGcancel> kept(request, &PQfreeCancel);
        connector_detail::run_aside([kept] {
            std::array<char, 256> error{};
            static_cast<void>(PQcancel(kept.get(), error.data(), static_cast<int>(error.size())));
        });
    } catch (...) {
        return;  // the server will notice some day
    }
}

void session::close() noexcept {
    if (process_ != ::cenote::detail::this_process) forsake();
    condition_.note_broken();
    handle_.reset();
}

void session::forsake() noexcept {
    condition_.note_broken();
    if (PGconn* parents = handle_.release()) ::close(PQsocket(parents));
}

// Conversation.

conversation::~conversation() {
    if (guard_ && !ended_ && !unrun_) with_->call_off();
}

void conversation::begin() {
    guard_.emplace(with_->condition());
    if (whom_ == of::borrower) with_->note_use();
    if (with_->owes()) send_dues();
}

void conversation::send_dues() {
    PGconn* conn = with_->handle();
    if (PQenterPipelineMode(conn) == 0) lose();
    pipelined_ = true;
    dues_ = with_->send_dues();
    if (dues_ == 0) lose();
}

void conversation::pay() {
    begin();
    answered_ = true;
    sent(1);
}

void conversation::ask(std::string_view text, std::span<const sql::parameter> parameters) {
    refuse_zero_bytes(text, "statement");
    libpq_parameters p(parameters);
    std::string command(text);
    begin();
    if (whom_ == of::borrower) with_->note_words(text);
    sent(PQsendQueryParams(with_->handle(), command.c_str(), p.count(), p.types(), p.values(),
                           p.lengths(), p.formats(), 0));
}

void conversation::ask_all(const char* texts) {
    begin();
    sent(PQsendQuery(with_->handle(), texts));
}

void conversation::ask_prepared(const std::string& name,
                                std::span<const sql::parameter> parameters) {
    libpq_parameters p(parameters);
    begin();
    sent(PQsendQueryPrepared(with_->handle(), name.c_str(), p.count(), p.values(), p.lengths(),
                             p.formats(), 0));
}

void conversation::prepare(const std::string& name, std::string_view text,
                           std::span<const sql::parameter> parameters) {
    refuse_zero_bytes(text, "statement");
    libpq_parameters p(parameters);
    std::string command(text);
    begin();
    prepares_ = true;
    if (whom_ == of::borrower) with_->note_prepares(text);
    sent(PQsendPrepare(with_->handle(), name.c_str(), command.c_str(), p.count(), p.types()));
}

void conversation::describe(const std::string& name) {
    begin();
    sent(PQsendDescribePrepared(with_->handle(), name.c_str()));
}

void conversation::sent(int success) {
    if (success == 0) lose();
    if (pipelined_ && PQpipelineSync(with_->handle()) == 0) lose();
}

void conversation::row_by_row() {
    by_row_ = true;
    if (dues_ > 0) return;  // it is for the request whose reply comes next
    if (PQsetSingleRowMode(with_->handle()) == 0) lose();
}

need conversation::step() {
    if (ended_ || row_) return need::nothing;
    if (with_->condition().broken()) lose();
    PGconn* conn = with_->handle();
    if (flushing_) {
        int left = PQflush(conn);
        if (left < 0) lose();
        flushing_ = left != 0;
    }
    for (bool read = std::exchange(fresh_, false);; read = true) {
        while (PQisBusy(conn) == 0) {
            hear(result_ptr(PQgetResult(conn)));
            if (ended_ || row_) return need::nothing;
        }
        if (read) return flushing_ ? need::to_do_either : need::to_read;
        consume();
    }
}

/// What libpq reads at a time is limited by its buffer, and what it has read is parsed at once: so
/// once for each step.
void conversation::consume() {
    PGconn* conn = with_->handle();
    if (PQconsumeInput(conn) == 0) lose();
    read_.note_read(PQsocket(conn));
    if (read_.bytes() > with_->settings().max_reply_bytes) refuse_length(*with_);
}

void conversation::hear(result_ptr r) {
    if (dues_ > 0) return hear_due(std::move(r));
    if (r == nullptr && pipelined_) {
        bool twice = std::exchange(answered_, true);
        if (twice || PQstatus(with_->handle()) != CONNECTION_OK) lose();
        return;
    }
    if (r == nullptr) return conclude();
    switch (PQresultStatus(r.get())) {
        case PGRES_SINGLE_TUPLE: row_ = std::move(r); break;
        case PGRES_TUPLES_OK:
        case PGRES_COMMAND_OK:
        case PGRES_EMPTY_QUERY: reply_ = std::move(r); break;
        case PGRES_COPY_IN:
        case PGRES_COPY_OUT:
        case PGRES_COPY_BOTH:
            throw connection_error(error_kind::connection,
                                   "cenote: PostgreSQL: COPY is not offered here; use "
                                   "native_handle() and discard the lease");
        case PGRES_PIPELINE_SYNC: leave_pipeline(); break;
        default: complaint_ = understood(complaint_of(r.get())); break;
    }
}

/// Each piece has a result and a null.
void conversation::hear_due(result_ptr r) {
    if (r != nullptr) {
        switch (PQresultStatus(r.get())) {
            case PGRES_COMMAND_OK: return;
            case PGRES_TUPLES_OK: due_reply_ = std::move(r); return;
            default: refuse_unrun(r.get());
        }
    }
    if (PQstatus(with_->handle()) != CONNECTION_OK) lose();
    if (--dues_ > 0) return;
    with_->note_paid(due_reply_.get());
    if (by_row_) row_by_row();
    with_->drop_notifications();  // an earlier lease listened, until now
}

void conversation::leave_pipeline() {
    if (PQexitPipelineMode(with_->handle()) == 0) lose();
    conclude();
}

/// "Read-only" says something new about the server only if it was to be one that writes, and does
/// not; not if it is somebody's transaction or session that may not.
complaint conversation::understood(complaint c) const {
    if (c.sqlstate != "25006") return c;
    auto is_off = [this](const char* what) {
        const char* value = PQparameterStatus(with_->handle(), what);
        return value != nullptr && std::string_view(value) == "off";
    };
    server_role wanted = with_->settings().role_of_server;
    bool for_reading = wanted == server_role::standby || wanted == server_role::read_only ||
                       wanted == server_role::prefer_standby;
    bool own_doing = with_->has_own_settings() || with_->only_reads();
    bool writes =
        is_off("in_hot_standby") && (own_doing || is_off("default_transaction_read_only"));
    if (for_reading || writes) c.kind = error_kind::statement;
    return c;
}

void conversation::conclude() {
    if (PQstatus(with_->handle()) != CONNECTION_OK) lose();
    ended_ = true;
    judge_change();
    if (complaint_ && complaint_->kind != error_kind::statement)
        with_->condition().note_broken(complaint_->kind);
    guard_->complete();
    if (complaint_) complaint_->raise();
}

/// Who does not trust the command's tag has noted the change before.
void conversation::judge_change() {
    if (whom_ == of::connector || (prepares_ && !complaint_)) return;
    std::string_view tag = reply_ ? PQcmdStatus(reply_.get()) : "";
    if (tag == "DEALLOCATE ALL" || tag == "DISCARD ALL") with_->forget_kept();
    bool table = reply_ && makes_table(reply_.get(), tag);
    bool harmless = !complaint_ && harmless_tag(tag) && !table;
    if (!harmless) with_->condition().note_changed();
    // A procedure may have committed something before it failed.
    bool half_done = complaint_ && complaint_->in_function;
    if (table || half_done || !keeps_names(tag)) with_->note_names_changed();
    if (setting_tag(tag)) with_->note_own_settings();
}

/// Not more than one look at the socket: what comes as fast as it is read may go on for long.
bool conversation::drained() noexcept {
    if (!guard_) return false;  // nothing was asked; what can be read may be somebody else's
    PGconn* conn = with_->handle();
    try {
        for (int looks = 0; looks < 2; ++looks) {
            while (!ended_ && PQisBusy(conn) == 0) {
                hear(result_ptr(PQgetResult(conn)));
                row_.reset();
            }
            if (ended_ || PQconsumeInput(conn) == 0) break;
        }
    } catch (...) {
        return ended_;
    }
    return ended_;
}

void conversation::lose() {
    complaint why;
    if (complaint_) why = *complaint_;
    if (why.kind == error_kind::statement) why.kind = error_kind::connection;
    if (why.text.empty()) {
        PGconn* conn = with_->handle();
        why.text = conn == nullptr ? "" : PQerrorMessage(conn);
        why.text.resize(std::min(why.text.find('\n'), why.text.size()));
        if (why.text.empty()) why.text = "the connection is lost";
    }
    with_->condition().note_broken(why.kind);
    why.raise();
}

/// The server says why it could not reset the session, and skips the rest. What libpq alone says
/// proves nothing: the rest may have been run.
void conversation::refuse_unrun(const PGresult* why) {
    complaint c = complaint_of(why);
    if (c.sqlstate.empty()) {
        complaint_ = std::move(c);
        lose();
    }
    if (c.kind == error_kind::statement) c.kind = error_kind::connection;
    unrun_ = true;
    with_->condition().note_broken(c.kind);
    throw statement_not_run(c.kind,
                            "cenote: PostgreSQL: the statement was not run, since the session of "
                            "an earlier lease could not be reset: " +
                                c.text + " [" + c.sqlstate + "]",
                            c.sqlstate);
}

// Chores.

chores::chores(std::shared_ptr<session> with, std::vector<const char*> statements)
    : with_(std::move(with)), left_(statements.rbegin(), statements.rend()) {
    begin_next();
}

void chores::begin_next() {
    now_.emplace(with_, conversation::of::connector);
    if (with_->owes()) return now_->pay();
    now_->ask_all(left_.back());
    left_.pop_back();
}

need chores::step() {
    for (;;) {
        need n = now_->step();
        if (n != need::nothing || left_.empty()) return n;
        begin_next();
    }
}

}  // namespace cenote::postgres::detail
