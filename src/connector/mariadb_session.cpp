// Connections of libmariadb: their options, setting up, resets, ends and errors.
#include "connector/mariadb_session.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <ctime>
#include <errmsg.h>
#include <fcntl.h>
#include <ma_pvio.h>
#include <mutex>
#include <new>
#include <openssl/err.h>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

#include "cenote/url.hpp"
#include "connector/login.hpp"
#include "connector/socket.hpp"

namespace cenote::mariadb::detail {

using connector_detail::check_socket;
using connector_detail::socket_state;

namespace {

/// Of the library's own stacks; name lookups and handshakes run on them, too.
constexpr std::size_t stack_size = 262'144;

/// More steps than any call needs to notice that its socket was shut down.
constexpr int max_last_steps = 1000;

/// The plugins that never send the password itself.
constexpr const char* accepted_auth = "mysql_native_password,client_ed25519,caching_sha2_password";

/// Restores the handler of SIGPIPE, which the library sets to "ignore" for the whole process at its
/// first use.
void begin_library() {
    static std::once_flag begun;
    std::call_once(begun, [] {
        struct sigaction before{};
        ::sigaction(SIGPIPE, nullptr, &before);
        bool failed = mysql_server_init(0, nullptr, nullptr) != 0;
        ::sigaction(SIGPIPE, &before, nullptr);
        if (failed) throw std::bad_alloc();
    });
}

/// Encloses calls of the library under TLS. Blocks SIGPIPE for this thread, which the library's
/// write raises when the peer is gone. Clears OpenSSL's error queue of this thread before, since
/// the library would take the errors of another connection for its own, and after, for the same
/// reason.
class tls_call_guard {
public:
    explicit tls_call_guard(bool encrypted) : active_(encrypted) {
        if (!active_) return;
        ERR_clear_error();
        sigset_t pending;
        ::sigpending(&pending);
        blocks_ = sigismember(&pending, SIGPIPE) == 0;
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        if (blocks_) ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    }
    ~tls_call_guard() {
        if (!active_) return;
        ERR_clear_error();
        if (!blocks_) return;
        const timespec none{};
        while (::sigtimedwait(&pipe_, nullptr, &none) < 0 && errno == EINTR) continue;
        ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    tls_call_guard(const tls_call_guard&) = delete;
    tls_call_guard& operator=(const tls_call_guard&) = delete;

private:
    bool active_;
    bool blocks_ = false;
    sigset_t pipe_{};
    sigset_t before_{};
};

/// The deadline of the handshake on this thread.
thread_local instant handshake_until = instant::max();

/// The library's blocking wait, which it uses in the TLS handshake.
int wait_in_handshake(my_socket socket, my_bool reads, int /*timeout*/) {
    for (;;) {
        auto left = std::chrono::ceil<std::chrono::milliseconds>(handshake_until -
                                                                 std::chrono::steady_clock::now());
        pollfd waited{.fd = static_cast<int>(socket),
                      .events = static_cast<short>(reads != 0 ? POLLIN : POLLOUT),
                      .revents = 0};
        if (left.count() <= 0) return errno = ETIMEDOUT, 0;  // even if there is data to read
        int time = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
        int ready = ::poll(&waited, 1, time);
        if (ready > 0 || (ready < 0 && errno != EINTR)) return ready;
    }
}

void never_block(int descriptor) noexcept {
    int flags = ::fcntl(descriptor, F_GETFL);
    if (flags >= 0 && (flags & O_NONBLOCK) == 0) ::fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
}

/// 1290: the server runs with an option that forbids the statement. MySQL has a code of its own.
bool is_read_only(unsigned code) { return code == 1290 || code == 1836; }

error_kind kind_of(unsigned code, std::string_view sqlstate, std::string_view text) {
    switch (code) {
        case 1053:                              // shutdown in progress
        case 1927:                              // killed
        case 3169:                              // killed (MySQL)
        case 1836: return error_kind::suspect;  // read-only (MySQL)
        case 1290:                              // forbidden by an option of the server
            if (text.find("read-only") != text.npos || text.find("read_only") != text.npos)
                return error_kind::suspect;
            break;
        default: break;
    }
    bool lost = is_client_error(code) || sqlstate.starts_with("08");
    return lost ? error_kind::connection : error_kind::statement;
}

/// Of a failed open: final if a later attempt would fail, too.
error_kind kind_of_open(unsigned code, std::string_view sqlstate, std::string_view text) {
    if (code == CR_SSL_CONNECTION_ERROR) {
        // A connection that was lost in the handshake says nothing about the certificate.
        bool refused = text.find("certificate") != text.npos || text.find("required") != text.npos;
        return refused ? error_kind::final : error_kind::transient;
    }
    constexpr std::array final_codes{1044, 1045, 1049, 1115, 1130, 1193, 1231, 1251, 1298,
                                     1524, 1698, 1862, 2019, 2049, 2054, 2059, 2061, 5010};
    if (std::ranges::find(final_codes, static_cast<int>(code)) != final_codes.end())
        return error_kind::final;
    bool full = code == 1203 || code == 1226 || code == 1040;
    bool denied = sqlstate.starts_with("28") || sqlstate.starts_with("42");
    return denied && !full ? error_kind::final : error_kind::transient;
}

/// Whether other credentials may mend the failure of an open: 1862 means that the password has
/// expired.
bool is_about_login(unsigned code, std::string_view sqlstate) {
    return sqlstate.starts_with("28") || code == 1862;
}

/// Why a statement that goes with a reset was not run.
std::string reset_failure(unsigned code, const std::string& text) {
    return (is_client_error(code)
                ? "the connection was lost before the session was reset and set up: "
                : "the session of an earlier lease could not be reset: ") +
           text;
}

/// The code of an error that SIGNAL has raised.
constexpr unsigned signaled = 1644;

}  // namespace

bool is_client_error(unsigned code) noexcept {
    return (code >= CR_MIN_ERROR && code <= 2999) || (code >= 5000 && code <= 5999);
}

bool wants_tls(const options& o) { return o.tls.value_or(!is_loopback(o.host)); }

// Session.

session::session(std::shared_ptr<const options> settings, std::string at,
                 std::shared_ptr<const connector_detail::logins> past,
                 std::shared_ptr<const credentials> by, instant open_until)
    : settings_(std::move(settings)),
      at_(std::move(at)),
      logins_(std::move(past)),
      login_(std::move(by)),
      open_until_(open_until),
      handle_((begin_library(), mysql_init(nullptr))),
      encrypted_(wants_tls(*settings_)),
      timeout_(settings_->operation_timeout),
      kept_(settings_->statement_cache) {
    if (handle_ == nullptr) throw std::bad_alloc();
    choose_options();
    if (encrypted_) protect();
}

void session::choose_options() {
    mysql_options(handle_, MYSQL_OPT_NONBLOCK, &stack_size);
    unsigned protocol = at_.empty() ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
    mysql_options(handle_, MYSQL_OPT_PROTOCOL, &protocol);
    my_bool no = 0;
    my_bool yes = 1;
    refuse_files_and_reconnects();
    mysql_options(handle_, MYSQL_SECURE_AUTH, &yes);
    mysql_options(handle_, MYSQL_REPORT_DATA_TRUNCATION, &yes);
    mysql_optionsv(handle_, MARIADB_OPT_RESTRICTED_AUTH, accepted_auth);
    mysql_options(handle_, MYSQL_SET_CHARSET_NAME, settings_->charset.c_str());
    mysql_options(handle_, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &no);
    mysql_options(handle_, MYSQL_OPT_SSL_ENFORCE, &no);
}

/// Also after a borrower has had the handle and may have allowed them.
void session::refuse_files_and_reconnects() noexcept {
    my_bool no = 0;
    unsigned none = 0;
    mysql_options(handle_, MYSQL_OPT_RECONNECT, &no);
    mysql_options(handle_, MYSQL_OPT_LOCAL_INFILE, &none);
    mysql_set_local_infile_default(handle_);
}

void session::protect() {
    my_bool yes = 1;
    mysql_options(handle_, MYSQL_OPT_SSL_ENFORCE, &yes);
    mysql_options(handle_, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &yes);
    mysql_options(handle_, MARIADB_OPT_TLS_VERSION, "TLSv1.2,TLSv1.3");
    auto set = [this](mysql_option option, const std::string& file) {
        if (!file.empty()) mysql_options(handle_, option, file.c_str());
    };
    set(MYSQL_OPT_SSL_CA, settings_->tls_ca);
    set(MYSQL_OPT_SSL_CERT, settings_->tls_cert);
    set(MYSQL_OPT_SSL_KEY, settings_->tls_key);
    // The handshake blocks; these two options limit its time.
    auto seconds = std::chrono::ceil<std::chrono::seconds>(settings_->connect_timeout).count();
    unsigned timeout = static_cast<unsigned>(std::clamp<std::int64_t>(seconds, 1, 3600));
    mysql_options(handle_, MYSQL_OPT_CONNECT_TIMEOUT, &timeout);
    mysql_optionsv(handle_, MARIADB_OPT_IO_WAIT, &wait_in_handshake);
}

session::~session() {
    if (process_ != cenote::detail::this_process) forsake();
    if (handle_ == nullptr) return;
    tls_call_guard guard(encrypted_);
    if (!condition_.idle()) shut_down();
    int waits = mysql_close_start(handle_);
    if (waits != 0) shut_down();
    for (int i = 0; waits != 0 && i < max_last_steps; ++i)
        waits = mysql_close_cont(handle_, waits | MYSQL_WAIT_TIMEOUT);
}

bool session::quiet() const noexcept {
    if (handle_ == nullptr || check_socket(descriptor()) != socket_state::quiet) return false;
    const MARIADB_PVIO* in = handle_->net.pvio;
    return in != nullptr && (in->cache == nullptr || in->cache_pos == nullptr ||
                             in->cache_pos >= in->cache + in->cache_size);
}

void session::forsake() noexcept {
    if (handle_ == nullptr) return;
    ::close(descriptor());
    condition_.note_broken();
    for (auto& each : statements_) each->release();
    for (auto& each : closable_) each->release();
    kept_.for_each([](std::unique_ptr<prepared>& each) { each->release(); });
    if (latest_ != nullptr) latest_->release();
    handle_ = nullptr;
}

bool session::has_bulk() const noexcept {
    unsigned long extended = 0;
    constexpr unsigned long bulk = MARIADB_CLIENT_STMT_BULK_OPERATIONS >> 32U;
    return mariadb_get_infov(handle_, MARIADB_CONNECTION_EXTENDED_SERVER_CAPABILITIES, &extended) ==
               0 &&
           (extended & bulk) != 0;
}

void session::shut_down() noexcept { ::shutdown(descriptor(), SHUT_RDWR); }

bool session::in_transaction() const noexcept {
    return handle_ != nullptr && (handle_->server_status & SERVER_STATUS_IN_TRANS) != 0;
}

std::unique_ptr<prepared> session::take_closable() {
    if (latest_ != nullptr) return std::move(latest_);
    if (closable_.empty()) return nullptr;
    std::unique_ptr<prepared> one = std::move(closable_.back());
    closable_.pop_back();
    return one;
}

prepared* session::kept(std::string_view text) {
    std::unique_ptr<prepared>* found = kept_.on() ? kept_.find(text) : nullptr;
    return found == nullptr ? nullptr : found->get();
}

void session::keep_latest(std::string_view text) {
    if (!kept_.on() || latest_ == nullptr || changed_by_latest_) return;
    if (connector_detail::has_trace_comment(text)) return;
    auto gone = kept_.add(std::string(text), std::move(latest_));
    if (gone) closable_.push_back(std::move(*gone));
}

void session::drop_kept(std::string_view text) {
    if (auto gone = kept_.remove(text)) closable_.push_back(std::move(*gone));
}

bool session::stop_keeping() {
    if (kept_.size() == 0) return false;
    kept_.for_each([this](auto& one) { closable_.push_back(std::move(one)); });
    kept_.turn_off();
    return true;
}

sql::statement session::keep(std::unique_ptr<prepared> what) {
    statements_.push_back(std::move(what));
    return named(statements_.size() - 1);
}

prepared& session::find(const sql::statement& s) const {
    if (auto number = number_of(s)) return *statements_.at(*number);
    throw std::logic_error(
        "cenote: a prepared statement belongs to the connection and the lease that prepared it");
}

// Conversation.

need conversation::step() {
    tls_call_guard guard(on_->encrypted());
    throttle::step limited(on_->reads());
    if (waits_for_ != 0) waits_for_ = continue_(into_, subject_, waits_for_ & ~MYSQL_WAIT_TIMEOUT);
    while (waits_for_ == 0) {
        throttle::install(handle());  // here, too: a call may end without a wait
        if (!advance()) return need::nothing;
        if (std::exchange(yields_, false)) return need::a_turn;
    }
    before_wait();
    throttle::install(handle());
    if (on_->reads().bytes() > max_bytes()) refuse_length();
    if (on_->reads().is_spent()) return need::a_turn;
    bool reads = (waits_for_ & MYSQL_WAIT_READ) != 0;
    bool writes = (waits_for_ & MYSQL_WAIT_WRITE) != 0;
    if (reads == writes) return need::to_do_either;
    return reads ? need::to_read : need::to_write;
}

conversation::~conversation() {
    if (waits_for_ == 0) return;
    if (cancels_) on_->cancel_statement();
    tls_call_guard guard(on_->encrypted());
    throttle::step limited(on_->reads());
    on_->reads().end();
    on_->condition().note_broken();
    for (int i = 0; waits_for_ != 0 && i < max_last_steps; ++i) {
        on_->shut_down();  // each time: the library may go on to another address
        waits_for_ = continue_(into_, subject_, waits_for_ | MYSQL_WAIT_TIMEOUT);
    }
}

void conversation::refuse_length() const {
    on_->condition().note_broken();
    const bool by_option = max_bytes() == on_->settings().max_reply_bytes;
    throw connection_error(error_kind::connection,
                           by_option
                               ? "cenote: MariaDB: the reply is longer than max_reply_bytes"
                               : "cenote: MariaDB: the server sends too much in a login or reset");
}

void conversation::fail_statement(MYSQL_STMT* of) {
    unsigned code = mysql_stmt_errno(of);
    if (code == 0) fail();
    fail(code, mysql_stmt_sqlstate(of), mysql_stmt_error(of));
}

void conversation::fail() {
    fail(mysql_errno(handle()), mysql_sqlstate(handle()), mysql_error(handle()));
}

void conversation::fail(unsigned code, const std::string& sqlstate, const std::string& text) {
    error_kind kind = kind_of(code, sqlstate, text);
    if (is_read_only(code) && on().settings().role_of_server == server_role::read_only)
        kind = error_kind::statement;
    on().note_error(kind);
    std::string what = "cenote: MariaDB: " + text + " (" + std::to_string(code) + ")";
    if (kind == error_kind::statement)
        throw statement_error(what, sqlstate, static_cast<int>(code));
    if (with_reset_)
        fail_unrun(kind, code, sqlstate,
                   on().reads().ahead().is_open() ? reset_failure(code, text) : text);
    throw connection_error(kind, what, sqlstate, static_cast<int>(code));
}

void conversation::fail_reset(unsigned code, const std::string& sqlstate, const std::string& text) {
    error_kind kind = kind_of(code, sqlstate, text);
    if (kind == error_kind::statement) kind = error_kind::connection;
    on().note_error(kind);
    fail_unrun(kind, code, sqlstate, reset_failure(code, text));
}

void conversation::fail_setup(unsigned code, const std::string& sqlstate, const std::string& text) {
    const error_kind kind = kind_of(code, sqlstate, text);
    on().note_error(kind);
    if (kind != error_kind::statement) fail_unrun(kind, code, sqlstate, text);
    throw statement_error(
        "cenote: MariaDB: the statement was not run, because the role or the settings of its lease "
        "could not be set: " +
            text + " (" + std::to_string(code) + ")",
        sqlstate, static_cast<int>(code));
}

void conversation::fail_unrun(error_kind kind, unsigned code, const std::string& sqlstate,
                              const std::string& why) {
    throw statement_not_run(kind,
                            "cenote: MariaDB: the statement was not run: " + why + " (" +
                                std::to_string(code) + ")",
                            sqlstate, static_cast<int>(code));
}

// Setting up.

setting_up::setting_up(session& on, start how)
    : conversation(on),
      start_(how),
      full_((how == start::reset || how == start::pending_reset) && on.needs_full_reset()) {}

const char* setting_up::expected() const {
    return phase_ == phase::connected ? "the connection" : "a reply";
}

bool setting_up::advance() {
    switch (phase_) {
        case phase::begin:
            if (start_ == start::connect || start_ == start::cancel) return connect(), true;
            phase_ = phase::cleared;
            call<mysql_reset_connection_start, mysql_reset_connection_cont>(&number(), handle());
            return true;
        case phase::connected:
            if (made() == nullptr) fail_set_up();
            note_connected();
            return start_ != start::cancel && send_next();
        case phase::cleared:
            if (number() != 0) fail_set_up();
            on().forget_statements();
            if (!on().handle_was_exposed()) return send_next();
            phase_ = phase::limited;
            call<mysql_set_server_option_start, mysql_set_server_option_cont>(
                &number(), handle(), MYSQL_OPTION_MULTI_STATEMENTS_OFF);
            return true;
        case phase::limited:
            if (number() != 0) fail_set_up();
            return send_next();
        case phase::sent: return on_sent();
        case phase::queried: return store_facts();
        case phase::stored: return note_facts();
        case phase::selected:
            if (number() != 0) fail_set_up();
            selected_ = true;
            return send_next();
        case phase::repeated: return repeat_next();
    }
    return false;
}

/// Far more than a login or a reset needs.
std::size_t setting_up::max_bytes() const { return std::size_t{256} << 10U; }

void setting_up::connect() {
    const options& o = on().settings();
    const char* host = on().at().empty() ? "localhost" : on().at().c_str();
    const char* path = on().at().empty() ? o.host.c_str() : nullptr;
    const char* database = start_ == start::cancel ? nullptr : o.database.c_str();
    const credentials& by = on().login();
    phase_ = phase::connected;
    handshake_until = on().open_until();
    call<mysql_real_connect_start, mysql_real_connect_cont>(
        &made(), handle(), host, by.user.c_str(), by.password.c_str(), database,
        static_cast<unsigned>(o.port), path, static_cast<unsigned long>(CLIENT_MULTI_RESULTS));
}

/// Between two waits the library switches its socket to blocking, which matters under TLS. And it
/// leaves the socket open in started programs.
void setting_up::before_wait() {
    if (phase_ != phase::connected) return;
    connector_detail::close_on_exec(descriptor());
    handshake_until = on().open_until();
    if (on().encrypted()) never_block(descriptor());
}

void setting_up::note_connected() {
    never_block(descriptor());
    connector_detail::close_on_exec(descriptor());
    connector_detail::enable_keepalive(descriptor(), on().settings().keepalive);
    number() = 0;
    on().note_connected();
    // The library keeps it for reconnects, which are off.
    if (char* password = handle()->passwd; password != nullptr)
        explicit_bzero(password, std::strlen(password));
}

bool setting_up::send_next() {
    const setup_script& all = script();
    if (sent_ < all.statements.size()) {
        phase_ = phase::sent;
        query(all.statements[sent_++]);
        return true;
    }
    if (start_ == start::connect) return query_facts();
    const bool selects = full_ && !all.checks_database && !selected_;
    if (selects) return select_database();
    phase_ = phase::repeated;
    return repeat_next();
}

/// What on_open has run. At the first call no reply has come yet.
bool setting_up::repeat_next() {
    const std::vector<std::string>& all = on().repeated();
    if (repeated_ > 0) {
        if (number() != 0) fail_set_up();
        if (mysql_field_count(handle()) != 0)
            throw connection_error(error_kind::connection,
                                   "cenote: MariaDB: a statement of on_open now returns rows");
    }
    if (repeated_ == all.size()) return end();
    query(all[repeated_++]);
    return true;
}

const setup_script& setting_up::script() const {
    return full_ ? on().full_setup() : on().basic_setup();
}

bool setting_up::on_sent() {
    if (number() == 0) {
        if (start_ == start::connect && sent_ == 1) on().note_tracking();
        return send_next();
    }
    bool other_database = script().checks_database && mysql_errno(handle()) == signaled;
    if (!other_database) fail_set_up();
    return select_database();
}

bool setting_up::end() {
    on().note_set_up(full_ || start_ == start::connect);
    return false;
}

void setting_up::query(std::string_view text) {
    call<mysql_real_query_start, mysql_real_query_cont>(&number(), handle(), text.data(),
                                                        static_cast<unsigned long>(text.size()));
}

/// A borrower may have selected another database with USE, which a reset keeps.
bool setting_up::select_database() {
    phase_ = phase::selected;
    call<mysql_select_db_start, mysql_select_db_cont>(&number(), handle(),
                                                      on().settings().database.c_str());
    return true;
}

bool setting_up::query_facts() {
    phase_ = phase::queried;
    query(
        "SELECT CURRENT_ROLE(), @@GLOBAL.sql_mode LIKE '%ORACLE%', CONNECTION_ID(), "
        "(SELECT host FROM information_schema.processlist WHERE id = CONNECTION_ID())");
    return true;
}

bool setting_up::store_facts() {
    if (number() != 0) {
        // An error of the server means that it is too old for roles.
        if (is_client_error(mysql_errno(handle()))) fail_set_up();
        on().note_server({});
        return end();
    }
    phase_ = phase::stored;
    call<mysql_store_result_start, mysql_store_result_cont>(&rows(), handle());
    return true;
}

bool setting_up::note_facts() {
    std::unique_ptr<MYSQL_RES, decltype(&mysql_free_result)> all(rows(), &mysql_free_result);
    if (all == nullptr) fail_set_up();
    MYSQL_ROW row = mysql_fetch_row(all.get());
    server_facts facts;
    if (row != nullptr) {
        if (row[0] != nullptr) facts.role = row[0];
        facts.has_compound_statements = row[1] != nullptr && std::string_view(row[1]) == "0";
        if (row[2] != nullptr) facts.connection_id = row[2];
        if (row[3] != nullptr) facts.client_address = row[3];
    }
    on().note_server(facts);
    return end();
}

/// Shows only texts that cannot contain a password: those of the server, and the library's texts
/// about hosts and certificates.
void setting_up::fail_set_up() {
    on().condition().note_broken();  // the session is only partly set up
    if (start_ == start::reset && phase_ == phase::repeated)
        fail(mysql_errno(handle()), mysql_sqlstate(handle()),
             std::string("what on_open has run could not be repeated: ") + mysql_error(handle()));
    if (start_ == start::reset) fail();
    if (start_ == start::pending_reset)
        fail_reset(mysql_errno(handle()), mysql_sqlstate(handle()), mysql_error(handle()));
    unsigned code = mysql_errno(handle());
    std::string sqlstate = mysql_sqlstate(handle());
    std::string text = mysql_error(handle());
    error_kind kind = kind_of_open(code, sqlstate, text);
    constexpr std::array without_password{CR_CONNECTION_ERROR, CR_CONN_HOST_ERROR,
                                          CR_UNKNOWN_HOST,     CR_SERVER_GONE_ERROR,
                                          CR_SERVER_LOST,      CR_SSL_CONNECTION_ERROR};
    bool show =
        !is_client_error(code) ||
        std::ranges::find(without_password, static_cast<int>(code)) != without_password.end();
    const std::string what = "cenote: MariaDB: cannot open: " +
                             (show ? text : std::string("error in the client library")) + " (" +
                             std::to_string(code) + ")";
    if (is_about_login(code, sqlstate) && connector_detail::has_credentials_source(on().settings()))
        throw connector_detail::login_refused(what, sqlstate, static_cast<int>(code));
    throw connection_error(kind, what, sqlstate, static_cast<int>(code));
}

bool pinging::advance() {
    if (std::exchange(begun_, true)) {
        if (number() != 0) fail();
        return false;
    }
    call<mysql_ping_start, mysql_ping_cont>(&number(), handle());
    return true;
}

bool querying::advance() {
    switch (phase_) {
        case phase::begin:
            phase_ = phase::sent;
            call<mysql_real_query_start, mysql_real_query_cont>(
                &number(), handle(), text_.data(), static_cast<unsigned long>(text_.size()));
            return true;
        case phase::sent:
            if (number() != 0) fail();
            if (mysql_field_count(handle()) == 0) return false;
            phase_ = phase::stored;
            call<mysql_store_result_start, mysql_store_result_cont>(&rows(), handle());
            return true;
        case phase::stored: note_value(); break;
    }
    return false;
}

void querying::note_value() {
    std::unique_ptr<MYSQL_RES, decltype(&mysql_free_result)> all(rows(), &mysql_free_result);
    if (all == nullptr) fail();
    MYSQL_ROW row = mysql_fetch_row(all.get());
    if (row != nullptr && row[0] != nullptr) value_ = row[0];
}

}  // namespace cenote::mariadb::detail
