// Requests to PostgreSQL, its replies and errors, and what they mean for the session.
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

/// Decided by the function of the server that has raised the error: a procedure may raise the same
/// codes after half of its work.
bool is_stale(const PGresult* r) {
    // The last five raise errors about a parameter whose type was inferred from a column that has
    // another type now.
    constexpr std::array<std::string_view, 7> before_it_runs{
        "RevalidateCachedQuery", "FetchPreparedStatement", "transformAssignedExpr", "op_error",
        "ParseFuncOrColumn",     "select_common_type",     "coerce_to_common_type"};
    return std::ranges::find(before_it_runs, field(r, PG_DIAG_SOURCE_FUNCTION)) !=
               before_it_runs.end() &&
           field(r, PG_DIAG_CONTEXT).empty();
}

/// Without the fields that quote the statement.
failure failure_of(const PGresult* r) {
    failure f;
    f.sqlstate = field(r, PG_DIAG_SQLSTATE);
    f.kind = kind_of(f.sqlstate, field(r, PG_DIAG_SEVERITY_NONLOCALIZED));
    f.text = field(r, PG_DIAG_MESSAGE_PRIMARY);
    f.stale = is_stale(r);
    f.in_function = !field(r, PG_DIAG_CONTEXT).empty();
    std::string detail = field(r, PG_DIAG_MESSAGE_DETAIL);
    if (!detail.empty()) f.text += " (" + detail + ")";
    if (f.text.empty()) {
        f.text = PQresultErrorMessage(r);  // from libpq itself
        f.text.resize(std::min(f.text.find('\n'), f.text.size()));
    }
    return f;
}

/// The server parses literals of times and texts by these settings, once, and reports their
/// changes.
constexpr std::array<const char*, 4> parse_settings{"TimeZone", "DateStyle", "IntervalStyle",
                                                    "standard_conforming_strings"};

/// Whether a command may change settings of the session; blocks and procedures may do anything.
bool may_change_settings(std::string_view tag) noexcept {
    constexpr std::array<std::string_view, 6> setting{"SET", "RESET",   "DISCARD",
                                                      "DO",  "EXECUTE", "CALL"};
    return std::ranges::find(setting, tag.substr(0, tag.find(' '))) != setting.end();
}

/// Whether a command creates, renames and drops nothing. False for blocks and procedures, which may
/// do anything, and for unknown commands.
bool keeps_names(std::string_view tag) noexcept {
    constexpr std::array<std::string_view, 27> keeping{
        "",      "SELECT", "INSERT",   "UPDATE",    "DELETE",  "MERGE",      "BEGIN",
        "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "SET",        "RESET",
        "SHOW",  "LISTEN", "UNLISTEN", "NOTIFY",    "PREPARE", "DEALLOCATE", "DECLARE",
        "FETCH", "MOVE",   "CLOSE",    "COPY",      "LOCK",    "ANALYZE"};
    return std::ranges::find(keeping, tag.substr(0, tag.find(' '))) != keeping.end();
}

/// `CREATE TABLE … AS` and `SELECT … INTO` have the tag of a SELECT, but no columns.
bool creates_table(const PGresult* r, std::string_view tag) noexcept {
    return tag.starts_with("SELECT") && PQresultStatus(r) == PGRES_COMMAND_OK;
}

/// Whether a command leaves the session as it is.
bool keeps_session(std::string_view tag) noexcept {
    constexpr std::array<std::string_view, 11> keeping{"SELECT",   "INSERT",    "UPDATE", "DELETE",
                                                       "MERGE",    "BEGIN",     "START",  "COMMIT",
                                                       "ROLLBACK", "SAVEPOINT", "RELEASE"};
    return std::ranges::find(keeping, tag.substr(0, tag.find(' '))) != keeping.end();
}

}  // namespace

std::string failure::message() const {
    return "cenote: PostgreSQL: " + text + (sqlstate.empty() ? "" : " [" + sqlstate + "]");
}

void failure::raise() const {
    if (kind == error_kind::statement) throw statement_error(message(), sqlstate);
    if (unrun) throw statement_not_run(kind, message(), sqlstate);
    throw connection_error(kind, message(), sqlstate);
}

error_kind kind_of(std::string_view sqlstate, std::string_view severity) noexcept {
    constexpr std::array<std::string_view, 4> of_the_server{"57P01", "57P02", "57P03", "25006"};
    if (std::ranges::find(of_the_server, sqlstate) != of_the_server.end())
        return error_kind::suspect;
    // The session survives any ERROR, even of class 08: a wrong number of parameters, or a lost
    // connection to another server inside a function.
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
        throw connection_error(
            error_kind::connection,
            "cenote: PostgreSQL: cannot switch the connection to non-blocking mode");
    if (mode_ == reset_mode::with_next && !resets_with_next(PQserverVersion(handle())))
        mode_ = reset_mode::at_release;
    note_parse_settings();
}

void session::note_parse_settings() {
    initial_parse_settings_.clear();
    for (const char* name : parse_settings) {
        const char* value = PQparameterStatus(handle(), name);
        initial_parse_settings_.emplace_back(value == nullptr ? "" : value);
    }
}

bool session::set_up_handle() noexcept {
    PQuntrace(handle());
    PQsetErrorVerbosity(handle(), PQERRORS_DEFAULT);
    PQsetErrorContextVisibility(handle(), PQSHOW_CONTEXT_ERRORS);
    PQsetNoticeReceiver(handle(), &session::on_notice, this);
    if (PQpipelineStatus(handle()) != PQ_PIPELINE_OFF && PQexitPipelineMode(handle()) == 0)
        return false;
    return PQsetnonblocking(handle(), 1) == 0;
}

/// Ignores notices; but between requests libpq reports every stray message as one.
void session::on_notice(void* of, const PGresult* notice) noexcept {
    auto* me = static_cast<session*>(of);
    if (me->condition_.idle()) me->unsolicited_ = true;
    if (me->listening_) me->note_end(notice);
}

/// The server tells why it ends the connection.
void session::note_end(const PGresult* notice) noexcept {
    const char* severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (severity == nullptr) return;
    std::string_view is(severity);
    if (is != "FATAL" && is != "PANIC") return;
    try {
        end_ = failure_of(notice);
    } catch (...) {
        end_.reset();  // no memory: the end of the stream says enough
    }
}

connection_error session::loss() const {
    if (end_) return {end_->kind, "cenote: PostgreSQL: " + end_->text, end_->sqlstate};
    std::string why = PQerrorMessage(handle());
    why.resize(std::min(why.find('\n'), why.size()));
    return {error_kind::connection,
            "cenote: PostgreSQL: " + (why.empty() ? "the connection was lost" : why)};
}

bool session::in_transaction() const noexcept {
    PGTransactionStatusType status = PQtransactionStatus(handle());
    return status == PQTRANS_INTRANS || status == PQTRANS_INERROR;
}

bool session::quiet() noexcept {
    if (!condition_.idle() || PQstatus(handle()) != CONNECTION_OK) return false;
    // libpq reports messages that no request has caused as notices and notifications.
    drop_notifications();
    return !unsolicited_ && connector_detail::check_socket(PQsocket(handle())) ==
                                connector_detail::socket_state::quiet;
}

void session::drop_notifications() noexcept {
    while (PGnotify* one = PQnotifies(handle())) PQfreemem(one);
}

verdict session::end_lease() noexcept {
    timeout_ = settings_->operation_timeout;
    setup_.reset();
    if (!set_up_handle()) condition_.note_broken();
    if (in_transaction()) condition_.note_changed();
    if (condition_.idle()) {
        bool idle = PQtransactionStatus(handle()) == PQTRANS_IDLE || in_transaction();
        // Notifications may still come; the reset reads them.
        if (idle && listening_) condition_.note_changed();
        else if (idle && quiet()) condition_.note_quiet();
        else condition_.note_broken();
    }
    verdict v = condition_.judge();
    if (v != verdict::keep || !(used_ || reset_pending_)) return v;
    if (std::exchange(used_, false)) end_statements();
    reset_pending_ = true;
    return verdict::reset_later;
}

void session::note_reset() noexcept {
    condition_.note_reset();
    timeout_ = settings_->operation_timeout;
    end_statements();
    used_ = false;
    reset_pending_ = false;
    has_own_settings_ = false;
    only_reads_ = false;
    names_in_flux_ = false;
    listening_ = false;
    end_.reset();
}

/// The server does not plan a prepared statement again when a new table hides the planned one.
void session::note_names_changed() {
    kept_.for_each([this](kept_statement& one) {
        if (!one.name.empty()) evicted_.push_back(std::move(one.name));
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

bool session::parse_settings_unchanged() const {
    if (has_own_settings_ || (setup_pending() && setup_changes_parsing_)) return false;
    for (std::size_t i = 0; i < parse_settings.size(); ++i) {
        const char* value = PQparameterStatus(handle(), parse_settings[i]);
        if (initial_parse_settings_[i] != (value == nullptr ? "" : value)) return false;
    }
    return true;
}

void session::note_only_reads() noexcept {
    only_reads_ = true;
    condition_.note_changed();
}

void session::note_process(const PGresult* reply) {
    direct_ = row_of(reply, 0).at(0).as<int>() == PQbackendPID(handle());
}

void session::forget_kept() noexcept {
    kept_.clear();
    evicted_.clear();
    has_kept_ = false;
    reset_is_prepared_ = false;
    knows_temporary_ = false;
}

void session::cancel_statement() noexcept {
    if (PQstatus(handle()) != CONNECTION_OK) return;
    PGcancel* request = PQgetCancel(handle());
    if (request == nullptr) return;
    try {
        std::shared_ptr<PGcancel> kept(request, &PQfreeCancel);
        connector_detail::run_detached([kept] {
            std::array<char, 256> error{};
            static_cast<void>(PQcancel(kept.get(), error.data(), static_cast<int>(error.size())));
        });
    } catch (...) {
        return;  // no memory: the server finishes the statement
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

// Exchanges.

exchanging::~exchanging() {
    if (exchange_ && !ended_ && !unrun_) with_->cancel_statement();
}

void exchanging::begin() {
    exchange_.emplace(with_->condition());
    if (origin_ == origin::borrower) with_->note_use();
}

void exchanging::begin_pipeline() {
    if (PQenterPipelineMode(handle()) == 0) fail();
    if (!with_->reset_pending()) return;
    reset_results_ = with_->send_pending_reset();
    if (reset_results_ == 0) fail();
}

void exchanging::begin_repetition() {
    if (PQenterPipelineMode(handle()) == 0) fail();
    repeats_ = true;
    reset_results_ = with_->send_on_open();
    if (reset_results_ == 0) fail();
}

bool exchanging::flush() {
    int left = PQflush(handle());
    if (left < 0) fail();
    return left == 0;
}

/// Once for each step: libpq reads at most what its buffer holds, and parses all of it at once.
void exchanging::consume() {
    if (PQconsumeInput(handle()) == 0) fail();
    read_.note_read(PQsocket(handle()));
    if (read_.bytes() > with_->settings().max_reply_bytes) refuse_length(*with_);
}

/// Each piece of the reset has a result and a null. Only the first with rows is the connector's.
bool exchanging::on_reset_result(result_ptr r) {
    if (r != nullptr) {
        switch (PQresultStatus(r.get())) {
            case PGRES_COMMAND_OK: return false;
            case PGRES_TUPLES_OK:
                if (reset_reply_ == nullptr) reset_reply_ = std::move(r);
                return false;
            default: fail_unrun(r.get());
        }
    }
    if (PQstatus(handle()) != CONNECTION_OK) fail();
    if (--reset_results_ > 0) return false;
    if (!repeats_) with_->note_pending_reset_done(reset_reply_.get());
    return true;
}

failure exchanging::failure_in(const PGresult* r) const { return classified(failure_of(r)); }

/// "Read-only" is an error of the statement alone if the server was meant for reading, or if only
/// the transaction or the session is read-only. Otherwise the server was demoted.
failure exchanging::classified(failure f) const {
    if (f.sqlstate != "25006") return f;
    auto is_off = [this](const char* what) {
        const char* value = PQparameterStatus(handle(), what);
        return value != nullptr && std::string_view(value) == "off";
    };
    server_role wanted = with_->settings().role_of_server;
    bool for_reading = wanted == server_role::standby || wanted == server_role::read_only ||
                       wanted == server_role::prefer_standby;
    bool by_session = with_->has_own_settings() || with_->only_reads() ||
                      with_->opened_read_only() || is_read_only_by_default(with_->settings());
    bool takes_writes =
        is_off("in_hot_standby") && (by_session || is_off("default_transaction_read_only"));
    if (for_reading || takes_writes) f.kind = error_kind::statement;
    return f;
}

/// What the tag of the command tells about changes of the session. With the other reset modes,
/// note_use() has noted a change already.
void exchanging::note_changes(const PGresult* reply, bool failed, bool in_function) {
    if (origin_ == origin::connector) return;
    std::string_view tag = reply == nullptr ? "" : PQcmdStatus(const_cast<PGresult*>(reply));
    if (tag == "DEALLOCATE ALL" || tag == "DISCARD ALL") with_->forget_kept();
    bool table = reply != nullptr && creates_table(reply, tag);
    bool unchanged = !failed && keeps_session(tag) && !table;
    if (!unchanged) with_->condition().note_changed();
    // A procedure may have committed something before it failed.
    bool half_done = failed && in_function;
    if (table || half_done || !keeps_names(tag)) with_->note_names_changed();
    if (may_change_settings(tag)) with_->note_own_settings();
}

void exchanging::conclude() {
    if (PQstatus(handle()) != CONNECTION_OK) fail();
    ended_ = true;
    if (failure_ && failure_->kind != error_kind::statement)
        with_->condition().note_broken(failure_->kind);
    exchange_->complete();
    if (failure_) failure_->raise();
}

void exchanging::fail() {
    failure why;
    if (failure_) why = *failure_;
    if (why.kind == error_kind::statement) why.kind = error_kind::connection;
    if (why.text.empty()) {
        PGconn* conn = handle();
        why.text = conn == nullptr ? "" : PQerrorMessage(conn);
        why.text.resize(std::min(why.text.find('\n'), why.text.size()));
        if (why.text.empty()) why.text = "the connection was lost";
    }
    with_->condition().note_broken(why.kind);
    why.raise();
}

/// The server's error proves that it could not reset the session and has skipped the request. An
/// error of libpq alone proves nothing: the request may have been run.
void exchanging::fail_unrun(const PGresult* why) {
    failure f = failure_of(why);
    if (f.sqlstate.empty()) {
        failure_ = std::move(f);
        fail();
    }
    if (f.kind == error_kind::statement) f.kind = error_kind::connection;
    unrun_ = true;
    with_->condition().note_broken(f.kind);
    if (repeats_)
        throw connection_error(f.kind,
                               "cenote: PostgreSQL: what on_open has run could not be repeated: " +
                                   f.text + " [" + f.sqlstate + "]",
                               f.sqlstate);
    throw statement_not_run(f.kind,
                            "cenote: PostgreSQL: the statement was not run, because the session "
                            "of an earlier lease could not be reset: " +
                                f.text + " [" + f.sqlstate + "]",
                            f.sqlstate);
}

// Conversation.

void conversation::reset() {
    start();
    answered_ = true;
    sent(1);
}

void conversation::set_up() {
    sets_up_ = true;
    reset();
}

void conversation::repeat_on_open() {
    begin();
    pipelined_ = true;
    begin_repetition();
    answered_ = true;
    sent(1);
}

void conversation::query(std::string_view text, std::span<const sql::parameter> parameters) {
    refuse_zero_bytes(text, "statement");
    libpq_parameters p(parameters);
    std::string command(text);
    start();
    note_text(text);
    sent(PQsendQueryParams(handle(), command.c_str(), p.count(), p.types(), p.values(), p.lengths(),
                           p.formats(), 0));
}

void conversation::run(const char* script) {
    start();
    sent(PQsendQuery(handle(), script));
}

void conversation::execute(const std::string& name, std::span<const sql::parameter> parameters) {
    libpq_parameters p(parameters);
    start();
    sent(PQsendQueryPrepared(handle(), name.c_str(), p.count(), p.values(), p.lengths(),
                             p.formats(), 0));
}

void conversation::prepare(const std::string& name, std::string_view text,
                           std::span<const sql::parameter> parameters) {
    refuse_zero_bytes(text, "statement");
    libpq_parameters p(parameters);
    std::string command(text);
    start();
    prepares_ = true;
    note_prepare(text);
    sent(PQsendPrepare(handle(), name.c_str(), command.c_str(), p.count(), p.types()));
}

void conversation::describe(const std::string& name) {
    start();
    sent(PQsendDescribePrepared(handle(), name.c_str()));
}

void conversation::start() {
    sets_up_ = sets_up_ && with().setup_pending();
    if (sets_up_) with().check_setup();
    begin();
    pipelined_ = with().reset_pending() || sets_up_;
    if (pipelined_) begin_pipeline();
    if (!sets_up_) return;
    setup_results_ = with().send_setup();
    if (setup_results_ == 0) fail();
}

void conversation::sent(int success) {
    if (success == 0) fail();
    if (pipelined_ && PQpipelineSync(handle()) == 0) fail();
}

void conversation::row_by_row() {
    by_row_ = true;
    if (resets() || setup_results_ > 0)
        return;  // libpq applies the mode to the reply that comes next
    if (PQsetSingleRowMode(handle()) == 0) fail();
}

need conversation::step() {
    if (ended() || row_ || copies_) return need::nothing;
    if (with().condition().broken()) fail();
    if (flushing_) flushing_ = !flush();
    for (bool read = std::exchange(fresh_, false);; read = true) {
        while (PQisBusy(handle()) == 0) {
            on_result(result_ptr(PQgetResult(handle())));
            if (ended() || row_ || copies_) return need::nothing;
        }
        if (read) return flushing_ ? need::to_do_either : need::to_read;
        consume();
    }
}

void conversation::on_result(result_ptr r) {
    if (resets()) {
        if (!on_reset_result(std::move(r))) return;
        if (by_row_) row_by_row();  // before libpq looks at the next reply, as below
        with().drop_notifications();
        return;
    }
    if (setup_results_ > 0) return on_setup_result(std::move(r));
    if (r == nullptr && pipelined_) {
        bool twice = std::exchange(answered_, true);
        if (twice || PQstatus(handle()) != CONNECTION_OK) fail();
        return;
    }
    if (r == nullptr) return end();
    switch (ExecStatusType status = PQresultStatus(r.get())) {
        case PGRES_SINGLE_TUPLE: row_ = std::move(r); break;
        case PGRES_TUPLES_OK:
        case PGRES_COMMAND_OK:
        case PGRES_EMPTY_QUERY: reply_ = std::move(r); break;
        case PGRES_COPY_IN:
        case PGRES_COPY_OUT:
        case PGRES_COPY_BOTH: on_copy(status, std::move(r)); break;
        case PGRES_PIPELINE_SYNC:
            if (PQexitPipelineMode(handle()) == 0) fail();
            if (with().in_transaction() && failure_ && failure_->unrun) undo_setup();
            else end();
            break;
        case PGRES_PIPELINE_ABORTED:
            if (failure_) break;  // of the setup
            [[fallthrough]];
        default: failure_ = failure_in(r.get()); break;
    }
}

/// Each piece of the setup has a result and a null, also those that were skipped after an error.
void conversation::on_setup_result(result_ptr r) {
    if (r != nullptr) {
        switch (PQresultStatus(r.get())) {
            case PGRES_COMMAND_OK:
            case PGRES_TUPLES_OK: return;
            case PGRES_PIPELINE_ABORTED:
                if (failure_) return;
                [[fallthrough]];
            default: failure_ = with().meaning_of_setup_failure(failure_of(r.get())); return;
        }
    }
    if (PQstatus(handle()) != CONNECTION_OK) fail();
    if (--setup_results_ > 0 || failure_) return;
    with().note_setup_done();
    if (by_row_) row_by_row();
}

/// The setup has failed in a transaction of its own. Its end is part of this conversation.
void conversation::undo_setup() {
    pipelined_ = false;
    if (PQsendQuery(handle(), "rollback") == 0) fail();
    flushing_ = true;
}

void conversation::on_copy(ExecStatusType direction, result_ptr r) {
    if (copy_ != direction)
        throw connection_error(error_kind::connection,
                               "cenote: PostgreSQL: COPY takes copy_in or copy_out, in the "
                               "direction of the statement");
    copies_ = true;
    reply_ = std::move(r);
}

void conversation::end_copy() noexcept {
    copies_ = false;
    fresh_ = flushing_ = true;
    copy_.reset();
}

void conversation::end() {
    if (PQstatus(handle()) != CONNECTION_OK) fail();
    if (!prepares_ || failure_)
        note_changes(reply_.get(), failure_.has_value(), failure_ && failure_->in_function);
    conclude();
}

/// Reads from the socket only once: a server that sends fast could keep this going for long.
bool conversation::drained() noexcept {
    if (!begun()) return false;  // no request was sent; the bytes may belong to another exchange
    try {
        for (int looks = 0; looks < 2; ++looks) {
            while (!ended() && !copies_ && PQisBusy(handle()) == 0) {
                on_result(result_ptr(PQgetResult(handle())));
                row_.reset();
            }
            if (ended() || PQconsumeInput(handle()) == 0) break;
        }
    } catch (...) {
        return ended();
    }
    return ended();
}

// Sequences.

need sequence::step() {
    for (;;) {
        try {
            need n = now_->step();
            if (n != need::nothing || !advance()) return n;
        } catch (const statement_error& e) {
            if (!recover(e)) throw;
        }
    }
}

scripts::scripts(std::shared_ptr<session> with, std::vector<const char*> statements)
    : sequence(std::move(with)), left_(statements.rbegin(), statements.rend()) {
    scripts::advance();
}

bool scripts::advance() {
    if (left_.empty()) return false;
    conversation& next = begin(conversation::origin::connector);
    if (with().reset_pending()) {
        next.reset();
    } else {
        next.run(left_.back());
        left_.pop_back();
    }
    return true;
}

}  // namespace cenote::postgres::detail
