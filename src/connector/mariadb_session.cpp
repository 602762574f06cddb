// How a connection of libmariadb's is set up, held, given up and reset.
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
#include "connector/socket.hpp"

namespace cenote::mariadb::detail {

using connector_detail::look_at;
using connector_detail::sight;

namespace {

/// The library's own stacks: name lookups and handshakes run there, too.
constexpr std::size_t stack_size = 262'144;

/// More than any call takes to find out that its socket is shut.
constexpr int most_last_steps = 1000;

/// Those that never send the password as it is to whoever asks for it.
constexpr const char* accepted_auth = "mysql_native_password,client_ed25519,caching_sha2_password";

/// The library ignores SIGPIPE for the whole process when it is first used. That is not for it to
/// decide.
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

/// Under TLS the library writes to its socket in a way that raises SIGPIPE if the other side is
/// gone: held back here, for this thread. And it takes what OpenSSL still has to say to this thread
/// about another connection's failure for its own: that is cleared before, and for others after.
class manners {
public:
    explicit manners(bool needed) : clears_(needed) {
        if (!clears_) return;
        ERR_clear_error();
        sigset_t pending;
        ::sigpending(&pending);
        blocks_ = sigismember(&pending, SIGPIPE) == 0;
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        if (blocks_) ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    }
    ~manners() {
        if (!clears_) return;
        ERR_clear_error();
        if (!blocks_) return;
        const timespec none{};
        while (::sigtimedwait(&pipe_, nullptr, &none) < 0 && errno == EINTR) continue;
        ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    manners(const manners&) = delete;
    manners& operator=(const manners&) = delete;

private:
    bool clears_;
    bool blocks_ = false;
    sigset_t pipe_{};
    sigset_t before_{};
};

/// Until when this thread may wait in a handshake.
thread_local instant handshake_until = instant::max();

/// The library waits with this where it knows no other way: in the handshake of TLS.
int wait_in_handshake(my_socket socket, my_bool reads, int /*timeout*/) {
    for (;;) {
        auto left = std::chrono::ceil<std::chrono::milliseconds>(handshake_until -
                                                                 std::chrono::steady_clock::now());
        pollfd waited{.fd = static_cast<int>(socket),
                      .events = static_cast<short>(reads != 0 ? POLLIN : POLLOUT),
                      .revents = 0};
        if (left.count() <= 0) return errno = ETIMEDOUT, 0;  // however much there is to read
        int time = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
        int ready = ::poll(&waited, 1, time);
        if (ready > 0 || (ready < 0 && errno != EINTR)) return ready;
    }
}

void never_block(int descriptor) noexcept {
    int flags = ::fcntl(descriptor, F_GETFL);
    if (flags >= 0 && (flags & O_NONBLOCK) == 0) ::fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
}

bool is_clients_own(unsigned code) {
    return (code >= CR_MIN_ERROR && code <= 2999) || (code >= 5000 && code <= 5999);
}

/// The server's word for "not with this option"; MySQL has one of its own for this.
bool is_read_only(unsigned code) { return code == 1290 || code == 1836; }

error_kind kind_of(unsigned code, std::string_view sqlstate, std::string_view text) {
    switch (code) {
        case 1053:                              // shutdown in progress
        case 1927:                              // killed
        case 3169:                              // killed, as MySQL says it
        case 1836: return error_kind::suspect;  // read-only, as MySQL says it
        case 1290:                              // not with this option of the server's
            if (text.find("read-only") != text.npos || text.find("read_only") != text.npos)
                return error_kind::suspect;
            break;
        default: break;
    }
    bool lost = is_clients_own(code) || sqlstate.starts_with("08");
    return lost ? error_kind::connection : error_kind::statement;
}

/// Why it could not be opened: would it be any different later?
error_kind kind_of_open(unsigned code, std::string_view sqlstate, std::string_view text) {
    if (code == CR_SSL_CONNECTION_ERROR) {
        // Lost in the handshake is no verdict about anybody's certificate.
        bool verdict = text.find("certificate") != text.npos || text.find("required") != text.npos;
        return verdict ? error_kind::final : error_kind::transient;
    }
    constexpr std::array final_codes{1044, 1045, 1049, 1115, 1130, 1193, 1231, 1251, 1298,
                                     1524, 1698, 1862, 2019, 2049, 2054, 2059, 2061, 5010};
    if (std::ranges::find(final_codes, static_cast<int>(code)) != final_codes.end())
        return error_kind::final;
    bool full = code == 1203 || code == 1226 || code == 1040;
    bool denied = sqlstate.starts_with("28") || sqlstate.starts_with("42");
    return denied && !full ? error_kind::final : error_kind::transient;
}

/// Why nothing was run that goes with a reset.
std::string reset_failure(unsigned code, const std::string& text) {
    return (is_clients_own(code) ? "lost before the session of an earlier lease was reset: "
                                 : "the session of an earlier lease could not be reset: ") +
           text;
}

/// What the error is called that a signal is.
constexpr unsigned signalled = 1644;

}  // namespace

bool wants_tls(const options& o) { return o.tls.value_or(!is_loopback(o.host)); }

// Session.

session::session(std::shared_ptr<const options> settings, std::string at, instant open_until)
    : settings_(std::move(settings)),
      at_(std::move(at)),
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

/// Also after somebody has had the handle, and may have allowed them.
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
    // The handshake blocks: these two limit it.
    auto seconds = std::chrono::ceil<std::chrono::seconds>(settings_->connect_timeout).count();
    unsigned timeout = static_cast<unsigned>(std::clamp<std::int64_t>(seconds, 1, 3600));
    mysql_options(handle_, MYSQL_OPT_CONNECT_TIMEOUT, &timeout);
    mysql_optionsv(handle_, MARIADB_OPT_IO_WAIT, &wait_in_handshake);
}

session::~session() {
    if (process_ != cenote::detail::this_process) forsake();
    if (handle_ == nullptr) return;
    manners kept(encrypted_);
    if (!condition_.idle()) hang_up();
    int waits = mysql_close_start(handle_);
    if (waits != 0) hang_up();
    for (int i = 0; waits != 0 && i < most_last_steps; ++i)
        waits = mysql_close_cont(handle_, waits | MYSQL_WAIT_TIMEOUT);
}

bool session::quiet() const noexcept {
    if (handle_ == nullptr || look_at(descriptor()) != sight::quiet) return false;
    const MARIADB_PVIO* in = handle_->net.pvio;
    return in != nullptr && (in->cache == nullptr || in->cache_pos == nullptr ||
                             in->cache_pos >= in->cache + in->cache_size);
}

void session::forsake() noexcept {
    if (handle_ == nullptr) return;
    ::close(descriptor());
    condition_.note_broken();
    for (auto& each : statements_) each->release();
    for (auto& each : needless_) each->release();
    kept_.for_each([](std::unique_ptr<prepared>& each) { each->release(); });
    if (latest_ != nullptr) latest_->release();
    handle_ = nullptr;
}

void session::hang_up() noexcept { ::shutdown(descriptor(), SHUT_RDWR); }

bool session::in_transaction() const noexcept {
    return handle_ != nullptr && (handle_->server_status & SERVER_STATUS_IN_TRANS) != 0;
}

std::unique_ptr<prepared> session::take_needless() {
    if (latest_ != nullptr) return std::move(latest_);
    if (needless_.empty()) return nullptr;
    std::unique_ptr<prepared> one = std::move(needless_.back());
    needless_.pop_back();
    return one;
}

prepared* session::kept(std::string_view text) {
    std::unique_ptr<prepared>* found = kept_.on() ? kept_.find(text) : nullptr;
    return found == nullptr ? nullptr : found->get();
}

void session::keep_latest(std::string_view text) {
    if (!kept_.on() || latest_ == nullptr || changed_by_latest_) return;
    auto gone = kept_.add(std::string(text), std::move(latest_));
    if (gone) needless_.push_back(std::move(*gone));
}

void session::drop_kept(std::string_view text) {
    if (auto gone = kept_.remove(text)) needless_.push_back(std::move(*gone));
}

bool session::stop_keeping() {
    if (kept_.size() == 0) return false;
    kept_.for_each([this](auto& one) { needless_.push_back(std::move(one)); });
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
        "cenote: the statement is another connection's, or another lease's: it must be prepared "
        "anew");
}

// Conversation.

need conversation::step() {
    manners kept(on_->encrypted());
    throttle::step limited(on_->reads());
    if (waited_for_ != 0) waited_for_ = go_on_(into_, subject_, waited_for_ & ~MYSQL_WAIT_TIMEOUT);
    while (waited_for_ == 0) {
        throttle::install(handle());  // also if nothing has had to be waited for yet
        if (!advance()) return need::nothing;
        if (std::exchange(rests_, false)) return need::a_turn;
    }
    waits();
    throttle::install(handle());
    if (on_->reads().bytes() > most_bytes()) refuse_length();
    if (on_->reads().is_spent()) return need::a_turn;
    bool reads = (waited_for_ & MYSQL_WAIT_READ) != 0;
    bool writes = (waited_for_ & MYSQL_WAIT_WRITE) != 0;
    if (reads == writes) return need::to_do_either;
    return reads ? need::to_read : need::to_write;
}

conversation::~conversation() {
    if (waited_for_ == 0) return;
    if (work_) on_->call_off();
    manners kept(on_->encrypted());
    throttle::step limited(on_->reads());
    on_->reads().end();
    on_->condition().note_broken();
    for (int i = 0; waited_for_ != 0 && i < most_last_steps; ++i) {
        on_->hang_up();  // each time: it may have gone on to another address
        waited_for_ = go_on_(into_, subject_, waited_for_ | MYSQL_WAIT_TIMEOUT);
    }
}

void conversation::refuse_length() const {
    on_->condition().note_broken();
    const bool by_option = most_bytes() == on_->settings().max_reply_bytes;
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
    on().note_failed(kind);
    std::string what = "cenote: MariaDB: " + text + " (" + std::to_string(code) + ")";
    if (kind == error_kind::statement)
        throw statement_error(what, sqlstate, static_cast<int>(code));
    if (with_reset_)
        refuse_unrun(kind, code, sqlstate,
                     on().reads().ahead().is_open() ? reset_failure(code, text) : text);
    throw connection_error(kind, what, sqlstate, static_cast<int>(code));
}

void conversation::fail_reset(unsigned code, const std::string& sqlstate, const std::string& text) {
    error_kind kind = kind_of(code, sqlstate, text);
    if (kind == error_kind::statement) kind = error_kind::connection;
    on().note_failed(kind);
    refuse_unrun(kind, code, sqlstate, reset_failure(code, text));
}

void conversation::refuse_unrun(error_kind kind, unsigned code, const std::string& sqlstate,
                                const std::string& why) {
    throw statement_not_run(kind,
                            "cenote: MariaDB: the statement was not run: " + why + " (" +
                                std::to_string(code) + ")",
                            sqlstate, static_cast<int>(code));
}

// Settling.

settling::settling(session& on, from what)
    : conversation(on),
      from_(what),
      full_((what == from::lease || what == from::debt) && on.needs_full_reset()) {}

const char* settling::awaited() const {
    return phase_ == phase::connected ? "the connection to be made" : "a reply";
}

bool settling::advance() {
    switch (phase_) {
        case phase::begin:
            if (from_ == from::nothing || from_ == from::aside) return connect(), true;
            phase_ = phase::cleared;
            call<mysql_reset_connection_start, mysql_reset_connection_cont>(&number(), handle());
            return true;
        case phase::connected:
            if (made() == nullptr) fail_settling();
            note_connected();
            return from_ != from::aside && say_next();
        case phase::cleared:
            if (number() != 0) fail_settling();
            on().forget_statements();
            if (!on().handle_was_lent()) return say_next();
            phase_ = phase::limited;
            call<mysql_set_server_option_start, mysql_set_server_option_cont>(
                &number(), handle(), MYSQL_OPTION_MULTI_STATEMENTS_OFF);
            return true;
        case phase::limited:
            if (number() != 0) fail_settling();
            return say_next();
        case phase::said: return heard();
        case phase::asked: return hear_facts();
        case phase::stored: return note_facts();
        case phase::selected:
            if (number() != 0) fail_settling();
            selected_ = true;
            return say_next();
    }
    return false;
}

/// Far more than a login or a reset takes.
std::size_t settling::most_bytes() const { return std::size_t{256} << 10U; }

void settling::connect() {
    const options& o = on().settings();
    const char* host = on().at().empty() ? "localhost" : on().at().c_str();
    const char* path = on().at().empty() ? o.host.c_str() : nullptr;
    const char* database = from_ == from::aside ? nullptr : o.database.c_str();
    phase_ = phase::connected;
    handshake_until = on().open_until();
    call<mysql_real_connect_start, mysql_real_connect_cont>(
        &made(), handle(), host, o.user.c_str(), o.password.c_str(), database,
        static_cast<unsigned>(o.port), path, static_cast<unsigned long>(CLIENT_MULTI_RESULTS));
}

/// The library makes its socket block between two waits; under TLS it would then do so. And it
/// leaves it to every program that is started.
void settling::waits() {
    if (phase_ != phase::connected) return;
    connector_detail::close_on_exec(descriptor());
    handshake_until = on().open_until();
    if (on().encrypted()) never_block(descriptor());
}

void settling::note_connected() {
    never_block(descriptor());
    connector_detail::close_on_exec(descriptor());
    connector_detail::make_vigilant(descriptor());
    number() = 0;
    on().note_connected();
    // Kept for reconnects, which there are none of.
    if (char* password = handle()->passwd; password != nullptr)
        explicit_bzero(password, std::strlen(password));
}

bool settling::say_next() {
    const greeting& all = what_to_say();
    if (said_ < all.texts.size()) {
        phase_ = phase::said;
        query(all.texts[said_++]);
        return true;
    }
    if (from_ == from::nothing) return ask_facts();
    return !full_ || all.minds_database || selected_ ? end() : select();
}

const greeting& settling::what_to_say() const { return full_ ? on().full() : on().plain(); }

bool settling::heard() {
    if (number() == 0) {
        if (from_ == from::nothing && said_ == 1) on().note_tracking();
        return say_next();
    }
    bool strayed = what_to_say().minds_database && mysql_errno(handle()) == signalled;
    if (!strayed) fail_settling();
    return select();
}

bool settling::end() {
    on().note_settled(full_ || from_ == from::nothing);
    return false;
}

void settling::query(std::string_view text) {
    call<mysql_real_query_start, mysql_real_query_cont>(&number(), handle(), text.data(),
                                                        static_cast<unsigned long>(text.size()));
}

/// A borrower may USE another one, and a reset keeps it.
bool settling::select() {
    phase_ = phase::selected;
    call<mysql_select_db_start, mysql_select_db_cont>(&number(), handle(),
                                                      on().settings().database.c_str());
    return true;
}

/// Which role does the server give to a new connection, which syntax, and what is it to the server?
bool settling::ask_facts() {
    phase_ = phase::asked;
    query(
        "SELECT CURRENT_ROLE(), @@GLOBAL.sql_mode LIKE '%ORACLE%', CONNECTION_ID(), "
        "(SELECT host FROM information_schema.processlist WHERE id = CONNECTION_ID())");
    return true;
}

bool settling::hear_facts() {
    if (number() != 0) {
        // An old server that knows no roles says so. Anything else is an error.
        if (is_clients_own(mysql_errno(handle()))) fail_settling();
        on().note_server({});
        return end();
    }
    phase_ = phase::stored;
    call<mysql_store_result_start, mysql_store_result_cont>(&rows(), handle());
    return true;
}

bool settling::note_facts() {
    std::unique_ptr<MYSQL_RES, decltype(&mysql_free_result)> all(rows(), &mysql_free_result);
    if (all == nullptr) fail_settling();
    MYSQL_ROW row = mysql_fetch_row(all.get());
    server_facts facts;
    if (row != nullptr) {
        if (row[0] != nullptr) facts.role = row[0];
        facts.knows_blocks = row[1] != nullptr && std::string_view(row[1]) == "0";
        if (row[2] != nullptr) facts.number = row[2];
        if (row[3] != nullptr) facts.seen_at = row[3];
    }
    on().note_server(facts);
    return end();
}

/// Only what cannot contain a password: what the server says, and what the library says of hosts
/// and certificates.
void settling::fail_settling() {
    on().condition().note_broken();  // half of what it is to be is nothing
    if (from_ == from::lease) fail();
    if (from_ == from::debt)
        fail_reset(mysql_errno(handle()), mysql_sqlstate(handle()), mysql_error(handle()));
    unsigned code = mysql_errno(handle());
    std::string sqlstate = mysql_sqlstate(handle());
    std::string text = mysql_error(handle());
    error_kind kind = kind_of_open(code, sqlstate, text);
    constexpr std::array harmless{CR_CONNECTION_ERROR, CR_CONN_HOST_ERROR,
                                  CR_UNKNOWN_HOST,     CR_SERVER_GONE_ERROR,
                                  CR_SERVER_LOST,      CR_SSL_CONNECTION_ERROR};
    bool tell = !is_clients_own(code) ||
                std::ranges::find(harmless, static_cast<int>(code)) != harmless.end();
    throw connection_error(kind,
                           "cenote: MariaDB: cannot open: " +
                               (tell ? text : std::string("the client library refuses")) + " (" +
                               std::to_string(code) + ")",
                           sqlstate, static_cast<int>(code));
}

bool pinging::advance() {
    if (std::exchange(begun_, true)) {
        if (number() != 0) fail();
        return false;
    }
    call<mysql_ping_start, mysql_ping_cont>(&number(), handle());
    return true;
}

bool asking::advance() {
    switch (phase_) {
        case phase::begin:
            phase_ = phase::asked;
            call<mysql_real_query_start, mysql_real_query_cont>(
                &number(), handle(), question_.data(),
                static_cast<unsigned long>(question_.size()));
            return true;
        case phase::asked:
            if (number() != 0) fail();
            if (mysql_field_count(handle()) == 0) return false;
            phase_ = phase::stored;
            call<mysql_store_result_start, mysql_store_result_cont>(&rows(), handle());
            return true;
        case phase::stored: note_answer(); break;
    }
    return false;
}

void asking::note_answer() {
    std::unique_ptr<MYSQL_RES, decltype(&mysql_free_result)> all(rows(), &mysql_free_result);
    if (all == nullptr) fail();
    MYSQL_ROW row = mysql_fetch_row(all.get());
    if (row != nullptr && row[0] != nullptr) answer_ = row[0];
}

}  // namespace cenote::mariadb::detail
