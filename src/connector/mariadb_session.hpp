// One connection of libmariadb: its session, and the conversations with the server, in steps over
// the library's non-blocking calls.
//
// A non-blocking call runs on a stack of its own inside the library, from its _start through
// several _cont, and must reach its end: only the call itself frees what it keeps on that stack. So
// a conversation that ends early (a deadline, a canceled coroutine) first shuts the socket down and
// then continues its call, which now fails wherever it is.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mysql.h>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cenote/credentials.hpp"
#include "cenote/detail/process.hpp"
#include "cenote/mariadb.hpp"
#include "cenote/sql.hpp"
#include "cenote/sql_connection.hpp"
#include "connector/drive.hpp"
#include "connector/exchange.hpp"
#include "connector/login.hpp"
#include "connector/mariadb_bulk.hpp"
#include "connector/mariadb_throttle.hpp"
#include "connector/on_open.hpp"
#include "connector/result_sink.hpp"
#include "connector/statement_cache.hpp"

namespace cenote::mariadb::detail {

using connector_detail::instant;
using connector_detail::need;

/// Whether an error code is one of the library.
bool is_client_error(unsigned code) noexcept;
/// Whether connections with these options use TLS.
bool wants_tls(const options& o);

/// The buffers of a row's columns, and their conversion to values.
class row_reader {
public:
    /// `of`: a statement that was executed. `utc`: a TIMESTAMP is an instant. Throws
    /// std::bad_alloc.
    row_reader(MYSQL_STMT* of, bool utc);
    ~row_reader();
    row_reader(const row_reader&) = delete;
    row_reader& operator=(const row_reader&) = delete;

    std::span<const sql::column_info> columns() const { return infos_; }
    /// Of the row that was fetched last. Refer to that row and to this object.
    std::span<const sql::cell> cells();
    /// How many bytes its texts and bytes have.
    std::size_t memory() const noexcept { return memory_; }

private:
    struct column;

    sql::cell cell_of(std::size_t number);

    MYSQL_STMT* of_;
    std::unique_ptr<MYSQL_RES, decltype(&mysql_free_result)> described_;
    std::vector<column> columns_;
    std::vector<sql::column_info> infos_;
    std::vector<sql::cell> cells_;
    std::size_t memory_ = 0;
};

/// A parameter in the form that the library takes.
struct bound_value {
    MYSQL_TIME time{};
    sql::detail::text_buffer text{};
};

/// The handle of a statement. The destructor frees only the client's part, and only if the handle
/// has lost its connection (closed or reset): closing the statement on the server takes a
/// conversation.
class prepared {
public:
    explicit prepared(MYSQL* on);
    ~prepared();
    prepared(const prepared&) = delete;
    prepared& operator=(const prepared&) = delete;

    MYSQL_STMT* handle() const { return handle_; }
    MYSQL_STMT* release() { return std::exchange(handle_, nullptr); }

    /// After the server's reply: makes the buffers for its rows. Null: it has no rows.
    row_reader* read_rows(bool utc);
    row_reader* reader() { return reader_.get(); }
    /// All rows have been read.
    void forget_rows() noexcept;
    void bind(std::span<const sql::parameter> parameters);

    /// Whether the server reported columns when it prepared the statement.
    bool has_columns() const noexcept { return has_columns_; }
    /// Whether it sets FOUND_ROWS().
    bool selects() const noexcept { return selects_; }
    void note_prepared(std::string_view text) noexcept;

private:
    MYSQL_STMT* handle_;
    bool has_columns_ = false;
    bool selects_ = false;
    std::unique_ptr<row_reader> reader_;
    std::vector<bound_value> bound_;  // until the statement is sent
};

/// The statements that set a new session up, or one that was reset.
struct setup_script {
    std::vector<std::string> statements;
    bool checks_database = false;  // fails with a signal if another database is selected
};

/// What a connection learns from its server.
struct server_facts {
    std::optional<std::string> role;       // given by the server; each lease has it
    bool has_compound_statements = false;  // outside of stored programs
    std::string connection_id;             // as the server itself knows it
    std::string client_address;            // this end of the connection, as the server sees it
};

/// What a statement has returned. `late`: rows of which the server did not tell when it prepared
/// the statement, such as those of a procedure.
enum class rows_of_statement { none, some, late };

/// A setting of the options or of a lease. Throws std::invalid_argument. (mariadb.cpp)
void validate_setting(const std::string& name, const std::string& value);
/// A name between backticks.
std::string quoted(std::string_view name);
/// The value of a setting. A user variable is a text, since a number would lose its zeros.
std::string literal_of(const std::string& name, const std::string& value);
/// As a byte string, which means the same in every character set and mode.
std::string as_bytes(std::string_view text);
/// Whether a text contains this word; ignores case. `word`: in lower case.
bool mentions(std::string_view text, std::string_view word) noexcept;
/// Whether a statement may set FOUND_ROWS().
bool may_select(std::string_view text) noexcept;

class session final : public sql::detail::session, public std::enable_shared_from_this<session> {
public:
    /// Does not connect yet. `at`: the host's name or address; empty for a Unix socket.
    session(std::shared_ptr<const options> settings, std::string at,
            std::shared_ptr<const connector_detail::logins> past,
            std::shared_ptr<const credentials> by, instant open_until);
    /// Closes the connection without waiting.
    ~session() override;
    session(const session&) = delete;
    session& operator=(const session&) = delete;

    // The operations of a connection (mariadb.cpp).
    sql::result execute(std::string_view text, std::span<const sql::parameter> parameters) override;
    boost::asio::awaitable<sql::result> async_execute(sql::bound_statement what) override;
    sql::statement prepare(std::string_view text) override;
    boost::asio::awaitable<sql::statement> async_prepare(std::string text) override;
    sql::result execute(const sql::statement& prepared,
                        std::span<const sql::parameter> parameters) override;
    boost::asio::awaitable<sql::result> async_execute(sql::statement prepared,
                                                      sql::bound_statement what) override;
    sql::cursor stream(std::string_view text, std::span<const sql::parameter> parameters) override;
    boost::asio::awaitable<sql::cursor> async_stream(sql::bound_statement what) override;
    // mariadb_bulk.cpp
    std::uint64_t execute_many(std::string_view text, sql::detail::value_source& rows,
                               const sql::many_options& how) override;
    boost::asio::awaitable<std::uint64_t> async_execute_many(
        std::string text, std::shared_ptr<sql::detail::value_source> rows,
        sql::many_options how) override;
    std::vector<sql::result> execute_batch(std::span<const sql::bound_statement> all,
                                           const sql::many_options& how) override;
    boost::asio::awaitable<std::vector<sql::result>> async_execute_batch(
        std::shared_ptr<const sql::batch> all, sql::many_options how) override;
    void execute_into(std::string_view text, std::span<const sql::parameter> parameters,
                      sql::row_sink& to) override;
    boost::asio::awaitable<void> async_execute_into(sql::bound_statement what,
                                                    std::shared_ptr<sql::row_sink> to) override;
    void execute_into(const sql::statement& prepared, std::span<const sql::parameter> parameters,
                      sql::row_sink& to) override;
    boost::asio::awaitable<void> async_execute_into(sql::statement prepared,
                                                    sql::bound_statement what,
                                                    std::shared_ptr<sql::row_sink> to) override;
    void set_timeout(std::chrono::nanoseconds timeout) override { timeout_ = timeout; }
    void use(std::shared_ptr<const sql::lease_setup> setup) override;
    bool in_transaction() const noexcept override;
    bool broken() const noexcept override { return condition_.broken(); }

    const options& settings() const { return *settings_; }
    const std::string& at() const { return at_; }
    const credentials& login() const { return *login_; }
    instant open_until() const { return open_until_; }
    MYSQL* handle() const noexcept { return handle_; }
    connector_detail::condition& condition() noexcept { return condition_; }
    int descriptor() const noexcept { return static_cast<int>(mysql_get_socket(handle_)); }
    bool encrypted() const noexcept { return encrypted_; }
    /// Whether the server takes many rows for one statement.
    bool has_bulk() const noexcept;
    /// Whether the options set the time zone to UTC, so that a TIMESTAMP is an instant.
    bool in_utc() const noexcept {
        return settings_->time_zone == "+00:00" || settings_->time_zone == "UTC";
    }

    instant deadline() const noexcept {
        return opened_.limit(connector_detail::deadline_after(timeout_));
    }
    /// All reads of the library go through the throttle.
    throttle& reads() noexcept { return reads_; }

    /// Whether the socket and the library have nothing unread.
    bool quiet() const noexcept;
    /// Ends the lease. Says what to do with the connection.
    verdict end_lease() noexcept;
    /// Closes the descriptor without telling the server: after a fork the connection is the
    /// parent's.
    void forsake() noexcept;
    /// Shuts the socket down, so that the call under way fails.
    void shut_down() noexcept;
    /// Asks the server, over another connection, to stop the statement. Does not wait, and may have
    /// no effect. The connection is unusable afterwards (mariadb_cancel.cpp).
    void cancel_statement() noexcept;

    // Resets (mariadb_reset.cpp, decision 0018).

    // Each of these may mean that the session has changed: a statement is about to be sent, a reply
    // or an error has come, the borrower has had the handle.
    void note_statement(std::string_view text) noexcept;
    void note_reply();
    void note_error(error_kind kind) noexcept;
    void note_handle_exposed() noexcept;
    /// A statement has ended that may have set FOUND_ROWS().
    void note_found_rows(const prepared& by) noexcept;
    bool handle_was_exposed() const noexcept { return handle_was_exposed_; }
    /// For a new session, or one that needs no full reset.
    const setup_script& basic_setup() const { return basic_setup_; }
    /// For a session that needs a full reset.
    const setup_script& full_setup() const { return full_setup_; }
    /// Whether COM_RESET_CONNECTION may leave a change behind.
    bool needs_full_reset() const noexcept {
        return !reports_lasting_changes_ || has_lasting_changes_;
    }
    // What is learned while the connection is opened decides the scripts and the reset mode.
    void note_connected();
    void note_tracking() noexcept;
    void note_server(server_facts facts);
    /// The session is as the options say.
    void note_set_up(bool in_full) noexcept;

    /// Whether the next statement takes a reset along.
    bool reset_pending() const noexcept { return reset_pending_; }
    void note_pending_reset_done() noexcept;
    /// Whether a change of an earlier lease is still there.
    bool has_leftovers() const noexcept { return reset_pending_ || stale_found_rows_; }
    /// Whether this text would see an earlier lease's FOUND_ROWS(), even with the pending reset.
    bool must_clear_found_rows(std::string_view text) const noexcept;
    void note_found_rows_cleared() noexcept { stale_found_rows_ = false; }
    /// A reset has closed all statements on the server, or will.
    void forget_statements() noexcept;

    // What on_open has run, which each reset repeats (mariadb_setup.cpp, decision 0044).

    connector_detail::opening_record& opened() noexcept { return opened_; }
    /// Throws std::logic_error if on_open must not run this statement.
    void check_opened(std::string_view text) const;
    /// on_open has run a statement. Throws std::logic_error if it cannot be repeated.
    void note_opened(std::string_view text, std::span<const sql::parameter> parameters,
                     rows_of_statement rows);
    /// The statements that repeat it.
    const std::vector<std::string>& repeated() const noexcept { return repeated_; }

    // The setup of a lease: its role and its settings (mariadb_setup.cpp, decision 0040).

    bool setup_pending() const noexcept { return !setup_.empty(); }
    /// One statement.
    const std::string& setup() const noexcept { return setup_; }
    /// Whether the setup can go in front of the next statement, in the same message.
    bool setup_goes_ahead() const noexcept {
        return setup_pending() && mode_ == reset_mode::with_next &&
               setup_.size() <= connector_detail::max_bytes_per_step;
    }
    /// Before a PREPARE: sends the pending reset and the pending setup in front of it.
    void begin_preface();
    bool preface_has_setup() const noexcept { return preface_has_setup_; }
    /// It is about to be sent: the session needs a full reset.
    void note_setup_sent();
    void note_setup_done() noexcept { setup_.clear(); }

    // Statements.

    /// The unnamed statement that was executed last. It is closed together with the next one.
    std::unique_ptr<prepared>& latest() { return latest_; }
    /// A statement that is to be closed, the latest included. Null: there is none.
    std::unique_ptr<prepared> take_closable();
    /// The statement with this text in the cache, or null.
    prepared* kept(std::string_view text);
    void keep_latest(std::string_view text);
    void drop_kept(std::string_view text);
    /// The server has no room for more statements: empties the cache and turns it off. False: the
    /// cache was empty.
    bool stop_keeping();
    sql::statement keep(std::unique_ptr<prepared> what);
    /// Throws std::logic_error if it belongs to another connection, or has ended with a reset.
    prepared& find(const sql::statement& s) const;

private:
    void choose_options();
    void refuse_files_and_reconnects() noexcept;
    void protect();
    std::string repetition_of(std::string_view text,
                              std::span<const sql::parameter> parameters) const;
    bool may_postpone_reset(bool unfinished) const noexcept;
    void postpone_reset() noexcept;

    std::shared_ptr<const options> settings_;
    std::string at_;
    std::shared_ptr<const connector_detail::logins> logins_;
    std::shared_ptr<const credentials> login_;
    instant open_until_;
    MYSQL* handle_;
    bool encrypted_;
    throttle reads_;
    connector_detail::condition condition_;
    std::chrono::nanoseconds timeout_;
    std::string setup_;  // of this lease; empty: none, or done
    reset_mode mode_ = reset_mode::at_release;
    bool tracks_ = false;                   // the server reports changes of the session
    bool reports_lasting_changes_ = false;  // those that COM_RESET_CONNECTION leaves behind, too
    bool has_lasting_changes_ = false;
    bool blocks_others_ = false;       // by a lock or the like
    bool stale_found_rows_ = false;    // FOUND_ROWS() may be an earlier lease's
    bool handle_was_exposed_ = false;  // the options of the library may have changed
    bool reset_pending_ = false;
    bool cancel_done_ = false;    // or not needed
    instant known_since_;         // when the server certainly had the connection
    std::string client_address_;  // as the server sees it; empty: a proxy may be in between
    setup_script basic_setup_;
    setup_script full_setup_;
    std::string reset_packets_;  // COM_RESET_CONNECTION, the basic setup and the repetition
    std::string preface_;        // the packets of a preface that has more than these
    bool preface_has_setup_ = false;
    connector_detail::opening_record opened_;
    std::vector<std::string> repeated_;
    std::unique_ptr<prepared> latest_;
    std::vector<std::unique_ptr<prepared>> statements_;
    connector_detail::statement_cache<std::unique_ptr<prepared>> kept_;
    std::vector<std::unique_ptr<prepared>> closable_;
    bool changed_by_latest_ = false;  // the latest statement has changed the session
    cenote::detail::process_number process_ = cenote::detail::this_process;
};

/// A sequence of the library's calls. What they refer to (texts, buffers) must outlive this object,
/// so it belongs to the session or the caller, never to a derived class.
class conversation : public connector_detail::steps {
public:
    explicit conversation(session& on) : on_(&on) { on.reads().restart(); }
    conversation(const conversation&) = delete;
    conversation& operator=(const conversation&) = delete;

    need step() final;
    int descriptor() const final { return on_->descriptor(); }

protected:
    ~conversation();

    /// The last call has ended: checks its outcome and begins the next call. False: it was the
    /// last.
    virtual bool advance() = 0;
    virtual void before_wait() {}
    /// The limit of what the server may send.
    virtual std::size_t max_bytes() const { return on_->settings().max_reply_bytes; }
    /// Called by advance() to let the event loop have a turn before the next advance().
    void yield() noexcept { yields_ = true; }
    [[noreturn]] void refuse_length() const;

    template <auto Start, auto Continue, class Result, class Subject, class... Args>
    void call(Result* into, Subject* subject, Args... args) {
        waits_for_ = Start(into, subject, args...);
        into_ = static_cast<void*>(into);
        subject_ = subject;
        continue_ = [](void* result, void* on, int events) {
            return Continue(static_cast<Result*>(result), static_cast<Subject*>(on), events);
        };
    }

    session& on() const { return *on_; }
    MYSQL* handle() const { return on_->handle(); }
    int& number() { return outcome_.number; }
    my_bool& flag() { return outcome_.flag; }
    MYSQL*& made() { return outcome_.made; }
    MYSQL_RES*& rows() { return outcome_.rows; }

    // Throw the error of the server or the library.
    [[noreturn]] void fail_statement(MYSQL_STMT* of);
    [[noreturn]] void fail();
    [[noreturn]] void fail(unsigned code, const std::string& sqlstate, const std::string& text);
    /// The setup of the lease was refused; its statement was not run.
    [[noreturn]] void fail_setup(unsigned code, const std::string& sqlstate,
                                 const std::string& text);
    /// The pending reset has failed.
    [[noreturn]] void fail_reset(unsigned code, const std::string& sqlstate,
                                 const std::string& text);
    [[noreturn]] static void fail_unrun(error_kind kind, unsigned code, const std::string& sqlstate,
                                        const std::string& why);
    /// Asks the server to stop the statement if the conversation ends early.
    void cancel_if_abandoned() noexcept { cancels_ = true; }
    /// Whether a reset goes along with the request: if it fails, nothing has been run.
    bool& with_reset() noexcept { return with_reset_; }

private:
    session* on_;
    bool cancels_ = false;
    bool with_reset_ = false;
    bool yields_ = false;
    int waits_for_ = 0;
    int (*continue_)(void*, void*, int) = nullptr;
    void* subject_ = nullptr;
    void* into_ = nullptr;
    union {
        int number;
        my_bool flag;
        MYSQL* made;
        MYSQL_RES* rows;
    } outcome_{};
};

/// Connects or resets, and then sets the session up as the options say.
class setting_up final : public conversation {
public:
    enum class start : std::uint8_t {
        connect,
        reset,
        pending_reset,  // a request of the borrower waits for it
        cancel          // connects without a database and without setting up
    };
    setting_up(session& on, start how);

    const char* expected() const override;

private:
    enum class phase {
        begin,
        connected,
        cleared,
        limited,
        sent,
        queried,
        stored,
        selected,
        repeated
    };

    bool advance() override;
    void before_wait() override;
    std::size_t max_bytes() const override;
    void connect();
    void note_connected();
    bool send_next();
    const setup_script& script() const;
    bool on_sent();
    bool repeat_next();
    bool end();
    void query(std::string_view text);
    bool select_database();
    bool query_facts();
    bool store_facts();
    bool note_facts();
    [[noreturn]] void fail_set_up();

    phase phase_ = phase::begin;
    start start_;
    bool full_;
    std::size_t sent_ = 0;
    std::size_t repeated_ = 0;
    bool selected_ = false;
};

class pinging final : public conversation {
public:
    using conversation::conversation;

private:
    bool advance() override;
    bool begun_ = false;
};

/// Runs a text of the connector itself, which the caller keeps alive.
class querying final : public conversation {
public:
    querying(session& on, std::string_view text) : conversation(on), text_(text) {}
    /// The first value of the reply; empty if there is none or it is null.
    const std::string& value() const noexcept { return value_; }

private:
    enum class phase { begin, sent, stored };

    bool advance() override;
    void note_value();

    std::string_view text_;
    phase phase_ = phase::begin;
    std::string value_;
};

/// Throws std::invalid_argument for what MariaDB has no type for. `utc`: see session::in_utc.
void refuse_parameters(std::span<const sql::parameter> parameters, bool utc);

/// Prepares a statement, executes it, or both, and reads the reply.
class executing final : public conversation {
public:
    enum class extent { prepare, all, until_rows };
    /// Both throw std::invalid_argument. `to`: gets the rows; may be null unless `how_far` is
    /// `all`.
    executing(session& on, std::string_view text, std::span<const sql::parameter> parameters,
              extent how_far, sql::row_sink* to = nullptr);
    executing(session& on, prepared& what, std::span<const sql::parameter> parameters,
              sql::row_sink* to);

    /// Executes in bulk. `rows` must outlive this object.
    executing(session& on, prepared& what, bulk_rows& rows, std::size_t first, std::size_t last,
              sql::row_sink* to)
        : executing(on, what, {}, to) {
        many_ = {.rows = &rows, .first = first, .last = last};
    }

    /// With `until_rows`: whether there are rows to be fetched.
    bool has_rows() const { return has_rows_; }
    /// What the statement has returned.
    rows_of_statement rows_returned() const {
        if (!has_result_) return rows_of_statement::none;
        return what_->has_columns() ? rows_of_statement::some : rows_of_statement::late;
    }

private:
    enum class phase { begin, prepared, executed, stored, copying, next };

    bool advance() override;
    bool prepare();
    void check_preface();
    bool execute();
    bool on_reply();
    bool on_stored();
    bool copy();
    bool next_result();

    std::string_view text_;
    prepared* what_ = nullptr;
    std::span<const sql::parameter> parameters_;
    struct {
        bulk_rows* rows = nullptr;
        std::size_t first = 0;
        std::size_t last = 0;
    } many_;
    extent extent_ = extent::all;
    phase phase_ = phase::begin;
    sql::row_sink* to_;
    std::uint64_t affected_ = 0;
    std::int64_t last_id_ = 0;
    std::size_t memory_ = 0;  // of the rows
    bool has_result_ = false;
    bool has_rows_ = false;
};

/// Fetches a row of the session's latest statement; after the last one, reads further results.
class fetching final : public conversation {
public:
    fetching(session& on, sql::row_sink& to) : conversation(on), to_(&to) { cancel_if_abandoned(); }

    /// Whether the sink has got a row.
    bool has_row() const noexcept { return has_row_; }

private:
    enum class phase { begin, fetched, stored, next };

    bool advance() override;
    bool on_fetched();
    bool next_result();
    void note_end();

    sql::row_sink* to_;
    phase phase_ = phase::begin;
    bool has_row_ = false;
};

}  // namespace cenote::mariadb::detail
