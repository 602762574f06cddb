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
    std::string by = field(r, PG_DIAG_SOURCE_FUNCTION);
    bool code = by == "RevalidateCachedQuery" || by == "FetchPreparedStatement";
    return code && field(r, PG_DIAG_CONTEXT).empty();
}

/// Without what would show the statement.
complaint complaint_of(const PGresult* r) {
    complaint c;
    c.sqlstate = field(r, PG_DIAG_SQLSTATE);
    c.kind = kind_of(c.sqlstate, field(r, PG_DIAG_SEVERITY_NONLOCALIZED));
    c.text = field(r, PG_DIAG_MESSAGE_PRIMARY);
    c.stale = is_stale(r);
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
      kept_(settings_->statement_cache) {
    PQsetErrorVerbosity(handle(), PQERRORS_DEFAULT);
    PQsetNoticeReceiver(handle(), &session::hear, this);
    if (PQsetnonblocking(handle(), 1) != 0)
        throw connection_error(error_kind::connection, "cenote: PostgreSQL: cannot go on");
    for (const char* name : reading_settings) {
        const char* value = PQparameterStatus(handle(), name);
        first_settings_.emplace_back(value == nullptr ? "" : value);
    }
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
    while (PGnotify* told = PQnotifies(handle())) PQfreemem(told);
    return !babbles_ &&
           connector_detail::look_at(PQsocket(handle())) == connector_detail::sight::quiet;
}

verdict session::leave() noexcept {
    timeout_ = settings_->operation_timeout;
    if (in_transaction()) condition_.note_changed();
    if (condition_.idle()) {
        bool idle = PQtransactionStatus(handle()) == PQTRANS_IDLE || in_transaction();
        if (idle && quiet()) condition_.note_quiet();
        else condition_.note_broken();
    }
    return condition_.judge();
}

void session::note_reset() noexcept {
    condition_.note_reset();
    timeout_ = settings_->operation_timeout;
    end_statements();
    has_own_settings_ = false;
    only_reads_ = false;
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
    if (guard_ && !ended_) with_->call_off();
}

void conversation::begin() {
    guard_.emplace(with_->condition());
    if (whom_ == of::borrower && !with_->settings().unsafe_reset_by_tag)
        with_->condition().note_changed();
}

void conversation::ask(std::string_view text, std::span<const sql::parameter> parameters) {
    refuse_zero_bytes(text, "statement");
    libpq_parameters p(parameters);
    std::string command(text);
    begin();
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
    if (whom_ == of::borrower) with_->condition().note_changed();
    sent(PQsendPrepare(with_->handle(), name.c_str(), command.c_str(), p.count(), p.types()));
}

void conversation::sent(int success) {
    if (success == 0) lose();
}

void conversation::row_by_row() {
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
        if (PQconsumeInput(conn) == 0) lose();
    }
}

void conversation::hear(result_ptr r) {
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
        default: complaint_ = understood(complaint_of(r.get())); break;
    }
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
    if (whom_ == of::connector) return;
    std::string_view tag = reply_ ? PQcmdStatus(reply_.get()) : "";
    if (tag == "DEALLOCATE ALL" || tag == "DISCARD ALL") with_->forget_kept();
    bool harmless = !complaint_ && harmless_tag(tag);
    if (!harmless) with_->condition().note_changed();
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

// Statements that are kept.

namespace {

bool is_bytes(const sql::parameter& p) {
    return std::holds_alternative<std::span<const std::byte>>(p.get());
}

/// What a server must be told apart: the same text with bytes in place of text is another one.
std::string key_with_types(std::string_view text, std::span<const sql::parameter> parameters) {
    std::string key(text);
    key.push_back('\0');
    for (const sql::parameter& p : parameters) key.push_back(is_bytes(p) ? 'b' : 't');
    return key;
}

}  // namespace

recurring::recurring(std::shared_ptr<session> with, std::string_view text,
                     std::span<const sql::parameter> parameters)
    : with_(std::move(with)), text_(text), parameters_(parameters) {
    begin();
}

void recurring::begin() {
    // Nothing of ours can be done in a transaction that has failed, but for its end.
    if (!with_->kept().on() || with_->transaction_failed()) return ask();
    if (!with_->reads_texts_as_ever()) return ask();
    key_ = text_;
    if (std::ranges::any_of(parameters_, is_bytes))
        key_ = own_key_ = key_with_types(text_, parameters_);
    std::string* known = with_->kept().find(key_);
    if (known == nullptr) {
        std::optional<std::string> gone = with_->kept().add(std::string(key_), {});
        if (gone && !gone->empty()) with_->forgotten().push_back(std::move(*gone));
        return ask();
    }
    name_ = *known;
    // A transaction has its own first statement: ours would be another.
    bool needs_more = !with_->direct() || !with_->forgotten().empty();
    if (!name_.empty() || (needs_more && with_->in_transaction())) return ask();
    if (!with_->direct()) return look();
    make_room_or_prepare();
}

/// The server's own number, and the one that libpq was told: whoever is in between has another.
void recurring::look() {
    phase_ = phase::looking;
    now_.emplace(with_, conversation::of::connector);
    now_->ask("select pg_catalog.pg_backend_pid()", {});
}

void recurring::make_room_or_prepare() {
    std::vector<std::string>& forgotten = with_->forgotten();
    if (forgotten.empty()) return prepare();
    phase_ = phase::making_room;
    now_.emplace(with_, conversation::of::connector);
    now_->ask("deallocate " + forgotten.back(), {});
    forgotten.pop_back();
}

void recurring::prepare() {
    phase_ = phase::preparing;
    name_ = "cenote_kept_" + std::to_string(with_->next_statement());
    with_->note_kept();
    now_.emplace(with_, conversation::of::connector);
    now_->prepare(name_, text_, parameters_);
}

void recurring::ask() {
    phase_ = phase::asking;
    now_.emplace(with_, conversation::of::borrower);
    if (name_.empty()) now_->ask(text_, parameters_);
    else now_->ask_prepared(name_, parameters_);
}

need recurring::step() {
    for (;;) {
        try {
            need n = now_->step();
            if (n != need::nothing || !go_on()) return n;
        } catch (const statement_error& e) {
            if (!goes_on_after(e)) throw;
        }
    }
}

/// In a transaction a statement that is stale has failed with it.
bool recurring::goes_on_after(const statement_error& e) {
    constexpr std::string_view unknown = "26000";
    if (phase_ == phase::making_room && e.sqlstate() == unknown) {
        make_room_or_prepare();  // so much the better
        return true;
    }
    if (phase_ != phase::asking || name_.empty() || !now_->found_stale()) return false;
    if (e.sqlstate() != unknown) with_->forgotten().push_back(name_);
    name_.clear();
    if (std::string* known = with_->kept().find(key_)) known->clear();
    if (again_ || with_->in_transaction()) return false;
    again_ = true;
    prepare();
    return true;
}

/// A step has come to its end. False: that was all.
bool recurring::go_on() {
    switch (phase_) {
        case phase::looking: {
            with_->note_process(now_->reply());
            if (*with_->direct()) return make_room_or_prepare(), true;
            with_->kept().turn_off();
            return ask(), true;
        }
        case phase::making_room: return make_room_or_prepare(), true;
        case phase::preparing:
            if (std::string* known = with_->kept().find(key_)) *known = name_;
            return ask(), true;
        case phase::asking: break;
    }
    return false;
}

// Chores.

chores::chores(std::shared_ptr<session> with, std::vector<const char*> statements)
    : with_(std::move(with)), left_(statements.rbegin(), statements.rend()) {
    begin_next();
}

void chores::begin_next() {
    now_.emplace(with_, conversation::of::connector);
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
