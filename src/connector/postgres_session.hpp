// One connection of libpq: its session, and the conversations with the server.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <libpq-fe.h>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cenote/connector.hpp"
#include "cenote/credentials.hpp"
#include "cenote/detail/process.hpp"
#include "cenote/postgres.hpp"
#include "cenote/sql.hpp"
#include "cenote/sql_connection.hpp"
#include "connector/drive.hpp"
#include "connector/exchange.hpp"
#include "connector/meter.hpp"
#include "connector/on_open.hpp"
#include "connector/result_sink.hpp"
#include "connector/statement_cache.hpp"

namespace cenote::postgres::detail {

// From pg_type; the integer types.
inline constexpr Oid oid_int8 = 20;
inline constexpr Oid oid_int2 = 21;
inline constexpr Oid oid_int4 = 23;

using connector_detail::instant;
using connector_detail::need;

struct clear {
    void operator()(PGresult* r) const noexcept { PQclear(r); }
};
using result_ptr = std::unique_ptr<PGresult, clear>;

struct finish {
    void operator()(PGconn* c) const noexcept { PQfinish(c); }
};
using handle_ptr = std::unique_ptr<PGconn, finish>;

/// An error of the server or of libpq, ready to be thrown.
struct failure {
    error_kind kind = error_kind::connection;
    std::string sqlstate;
    std::string text;
    /// The prepared statement is gone or has to be prepared again; the server has run nothing.
    bool stale = false;
    /// Raised inside a function, a procedure or a block.
    bool in_function = false;
    /// Of the setup of the lease; the server has run nothing.
    bool unrun = false;

    std::string message() const;
    [[noreturn]] void raise() const;
};

/// A statement that a connection has run before.
struct kept_statement {
    std::string name;        // empty: not prepared
    std::vector<Oid> types;  // of its parameters
    /// The type of a parameter was inferred and may become wrong: never prepare it.
    bool unfit = false;
};

class libpq_parameters;

class session final : public sql::detail::session, public std::enable_shared_from_this<session> {
public:
    session(std::shared_ptr<const options> settings, handle_ptr connected);
    ~session() override { close(); }
    session(const session&) = delete;
    session& operator=(const session&) = delete;

    // The operations of a connection (postgres.cpp).
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
    // postgres_pipeline.cpp
    std::uint64_t execute_many(std::string_view text, sql::detail::value_source& rows,
                               const sql::many_options& how) override;
    boost::asio::awaitable<std::uint64_t> async_execute_many(
        std::string text, std::shared_ptr<sql::detail::value_source> rows,
        sql::many_options how) override;
    std::vector<sql::result> execute_batch(std::span<const sql::bound_statement> all,
                                           const sql::many_options& how) override;
    boost::asio::awaitable<std::vector<sql::result>> async_execute_batch(
        std::shared_ptr<const sql::batch> all, sql::many_options how) override;
    // postgres_copy.cpp
    sql::copy_in copy_in(std::string_view text) override;
    boost::asio::awaitable<sql::copy_in> async_copy_in(std::string text) override;
    sql::copy_out copy_out(std::string_view text) override;
    boost::asio::awaitable<sql::copy_out> async_copy_out(std::string text) override;
    void execute_into(std::string_view text, std::span<const sql::parameter> parameters,
                      sql::row_sink& to) override;
    boost::asio::awaitable<void> async_execute_into(sql::bound_statement what,
                                                    std::shared_ptr<sql::row_sink> to) override;
    void execute_into(const sql::statement& prepared, std::span<const sql::parameter> parameters,
                      sql::row_sink& to) override;
    boost::asio::awaitable<void> async_execute_into(sql::statement prepared,
                                                    sql::bound_statement what,
                                                    std::shared_ptr<sql::row_sink> to) override;
    void set_timeout(std::chrono::nanoseconds timeout) noexcept override { timeout_ = timeout; }
    void use(std::shared_ptr<const sql::lease_setup> setup) override;
    bool in_transaction() const noexcept override;
    bool transaction_failed() const noexcept override {
        return PQtransactionStatus(handle()) == PQTRANS_INERROR;
    }
    bool broken() const noexcept override { return condition_.broken(); }

    PGconn* handle() const noexcept { return handle_.get(); }
    connector_detail::condition& condition() noexcept { return condition_; }
    const options& settings() const noexcept { return *settings_; }
    /// Of an operation that begins now.
    instant deadline() const noexcept {
        return opened_.limit(connector_detail::deadline_after(timeout_));
    }

    /// Whether libpq and the socket have nothing unread.
    bool quiet() noexcept;
    /// Ends the lease. Says what to do with the connection.
    verdict end_lease() noexcept;
    /// Asks the server, on a thread for that, to stop the statement under way. Does not wait.
    void cancel_statement() noexcept;
    void close() noexcept;
    /// Closes the descriptor without telling the server: after a fork the connection is the
    /// parent's.
    void forsake() noexcept;

    // Resets (postgres_reset.cpp, decision 0018).

    reset_mode mode() const noexcept { return mode_; }
    void set_mode(reset_mode how) noexcept { mode_ = how; }
    /// Whether an earlier lease has used the session, so that the next request takes a reset along.
    bool reset_pending() const noexcept { return reset_pending_; }
    void note_reset_pending() noexcept { reset_pending_ = true; }
    /// Sends the pieces of the pending reset in pipeline mode. Returns their number, 0 if libpq
    /// fails.
    std::size_t send_pending_reset();
    /// `reply`: the last one with rows, or null.
    void note_pending_reset_done(const PGresult* reply);
    /// The pending reset becomes one of its own, instead of going with the next request.
    void take_over_pending_reset() noexcept;
    /// The statements of a reset of its own.
    std::vector<const char*> reset_statements() const;
    /// `reply`: to the last of reset_statements(). False: DISCARD ALL is needed.
    bool reset_succeeded(const PGresult* reply);
    /// The session is as it was when it was opened, except for kept statements.
    void note_reset() noexcept;

    // What on_open has run, which each reset repeats (postgres_setup.cpp, decision 0044).

    connector_detail::opening_record& opened() noexcept { return opened_; }
    /// on_open has run a statement. Throws std::logic_error if it cannot be repeated.
    void note_opened(std::string_view text, std::span<const sql::parameter> parameters,
                     const PGresult* reply);
    bool repeats_on_open() const noexcept { return !opened_.statements().empty(); }
    /// Sends it in pipeline mode, outside of a transaction. Returns the number of pieces, 0 if
    /// libpq fails.
    std::size_t send_on_open();
    /// Before on_open, and when it has ended and the session was reset.
    void note_on_open_begins(instant until);
    void note_on_open_ended();
    /// Whether on_open has made transactions read-only, which says nothing about the server.
    bool opened_read_only() const noexcept { return opened_read_only_; }

    // The setup of a lease: its role and its settings (postgres_setup.cpp, decision 0040).

    /// Whether the next request takes the setup along.
    bool setup_pending() const noexcept { return setup_ != nullptr && !setup_done_; }
    /// Throws statement_error if the setup would reach sessions of other clients.
    void check_setup() const;
    /// Sends the pieces of the setup in pipeline mode, outside of a transaction. Returns their
    /// number, 0 if libpq fails.
    std::size_t send_setup();
    /// The last piece has succeeded.
    void note_setup_done() noexcept;
    /// What the server's error means. All pieces have to be undone.
    failure meaning_of_setup_failure(failure f);

    // What a lease does.

    void note_use() noexcept;
    void note_text(std::string_view text) noexcept;
    /// The borrower prepares a statement with this text.
    void note_prepare(std::string_view text) noexcept;
    /// The borrower has had the handle. Nothing is known about what was done with it.
    void note_handle_exposed();
    /// Drops notifications that libpq has read: they were for an earlier lease.
    void drop_notifications() noexcept;
    /// From now on until a reset the server may send something at any time.
    void note_listening() noexcept {
        condition_.note_changed();
        listening_ = true;
    }
    /// Why the connection is lost, while nothing is requested.
    connection_error loss() const;
    /// Whether a statement may have changed a setting of the session.
    bool has_own_settings() const noexcept { return has_own_settings_; }
    void note_own_settings() noexcept { has_own_settings_ = true; }
    /// Whether the settings by which texts are parsed are those of the new session. A prepared
    /// statement is not parsed again when one of them changes.
    bool parse_settings_unchanged() const;
    /// Whether only_read() has made the session read-only.
    bool only_reads() const noexcept { return only_reads_; }
    void note_only_reads() noexcept;
    /// A name may now mean another table, function or type, for all statements of the session.
    void note_names_changed();
    /// Whether that happened in the open transaction, whose end may undo it.
    bool names_in_flux() noexcept;

    // Kept statements (postgres_kept.cpp).

    using kept_statements = connector_detail::statement_cache<kept_statement>;
    kept_statements& kept() noexcept { return kept_; }
    /// The number of the next statement to be prepared.
    std::size_t next_statement() noexcept { return ++statements_; }
    /// The names of evicted statements that the server still has.
    std::vector<std::string>& evicted() noexcept { return evicted_; }
    /// The server has deallocated all of them.
    void forget_kept() noexcept;
    /// Whether the server may have kept statements.
    bool has_kept() const noexcept { return has_kept_; }
    void note_kept() noexcept { has_kept_ = true; }
    /// Whether the server itself is at the other end, and not a pooler that gives each transaction
    /// another server connection. Empty: not known yet.
    const std::optional<bool>& direct() const noexcept { return direct_; }
    /// Sets direct() by the server's reply to pg_backend_pid().
    void note_process(const PGresult* reply);
    /// Whether the session has a schema for temporary objects. The server looks names up again when
    /// it creates that schema, but not when a later temporary table hides another table.
    void note_temporary(bool has_some) noexcept;
    bool knows_temporary() const noexcept { return knows_temporary_; }

private:
    static void on_notice(void* of, const PGresult* notice) noexcept;
    void note_end(const PGresult* notice) noexcept;
    /// Sets libpq's options of the handle, which a borrower may have changed. False if libpq fails.
    bool set_up_handle() noexcept;
    /// Whether a reset has to spare the kept statements.
    bool spares_kept() const noexcept { return has_kept_ && kept_.on(); }
    std::size_t send_reset();
    bool send(const char* text, const libpq_parameters& with) noexcept;
    void note_parse_settings();
    /// Whether transactions are read-only by default. PostgreSQL tells it since version 14.
    bool starts_read_only() const;

    std::shared_ptr<const options> settings_;
    handle_ptr handle_;
    connector_detail::condition condition_;
    std::chrono::nanoseconds timeout_;
    std::size_t statements_ = 0;  // prepared so far
    kept_statements kept_;
    std::vector<std::string> evicted_;
    std::optional<bool> direct_;
    bool has_kept_ = false;
    bool reset_is_prepared_ = false;  // a part of the reset is a kept statement itself
    bool knows_temporary_ = false;
    bool names_in_flux_ = false;
    bool has_own_settings_ = false;
    bool only_reads_ = false;
    std::vector<std::string> initial_parse_settings_;
    connector_detail::opening_record opened_;
    bool opened_read_only_ = false;
    std::shared_ptr<const sql::lease_setup> setup_;  // of this lease
    bool setup_done_ = false;
    bool setup_changes_parsing_ = false;
    reset_mode mode_;
    bool used_ = false;           // in this lease, in ways that a pending reset undoes
    bool reset_pending_ = false;  // an earlier lease has used it
    bool unsolicited_ = false;    // a notice came while no request was under way
    bool listening_ = false;      // notifications may come
    std::optional<failure> end_;  // the server's reason, while listening
    ::cenote::detail::process_number process_ = ::cenote::detail::this_process;
};

/// What requests and their replies have in common: an exchange, and a pending reset that goes
/// first. Destroyed before the end of the reply, it breaks the connection and asks the server to
/// stop.
class exchanging : public connector_detail::steps {
public:
    /// Requests of the connector itself change nothing in the session.
    enum class origin : std::uint8_t { borrower, connector };

    exchanging(const exchanging&) = delete;
    exchanging& operator=(const exchanging&) = delete;

    int descriptor() const override { return PQsocket(with_->handle()); }
    const char* expected() const override { return "PostgreSQL's reply"; }

protected:
    exchanging(std::shared_ptr<session> with, origin from)
        : with_(std::move(with)), origin_(from) {}
    ~exchanging();

    session& with() const noexcept { return *with_; }
    PGconn* handle() const noexcept { return with_->handle(); }
    bool begun() const noexcept { return exchange_.has_value(); }
    bool ended() const noexcept { return ended_; }
    connector_detail::meter& read() noexcept { return read_; }

    void begin();
    // The borrower's text.
    void note_text(std::string_view text) noexcept {
        if (origin_ == origin::borrower) with_->note_text(text);
    }
    void note_prepare(std::string_view text) noexcept {
        if (origin_ == origin::borrower) with_->note_prepare(text);
    }
    /// Enters pipeline mode, and sends the pending reset if there is one.
    void begin_pipeline();
    /// Enters pipeline mode, and sends what on_open has run.
    void begin_repetition();
    bool resets() const noexcept { return reset_results_ > 0; }
    /// One of the results of a pending reset or of the repetition, or a null. True: that was the
    /// last; then drop notifications, since an earlier lease was listening until the reset.
    bool on_reset_result(result_ptr r);
    /// Sends what libpq has buffered. True: everything is sent.
    bool flush();
    /// Reads once. Throws if the reply is too long.
    void consume();
    /// An error of the server.
    failure failure_in(const PGresult* r) const;
    /// Of a reply, or of a failure.
    void note_changes(const PGresult* reply, bool failed, bool in_function);
    /// The whole reply has been read. Throws the failure.
    void conclude();
    /// The connection was lost. Throws the failure that the server has announced, if any.
    [[noreturn]] void fail();

    std::optional<failure> failure_;

private:
    failure classified(failure f) const;
    [[noreturn]] void fail_unrun(const PGresult* why);

    std::shared_ptr<session> with_;
    origin origin_;
    std::optional<connector_detail::exchange> exchange_;
    bool ended_ = false;
    std::size_t reset_results_ = 0;  // that have not come yet
    bool repeats_ = false;           // only what on_open has run
    bool unrun_ = false;             // the server has skipped the request
    connector_detail::meter read_;
    result_ptr reset_reply_;
};

/// One request and its reply, in steps.
///
/// A pending reset and the setup of the lease go before the request, and one Sync after all: the
/// server skips everything between an error and the Sync, so a request whose reset or setup has
/// failed is not run.
class conversation final : public exchanging {
public:
    conversation(std::shared_ptr<session> with, origin from)
        : exchanging(std::move(with), from), sets_up_(from == origin::borrower) {}
    ~conversation() = default;
    conversation(const conversation&) = delete;
    conversation& operator=(const conversation&) = delete;

    // Requests: exactly one of them. Throw std::invalid_argument before anything is sent, and
    // connection_error.
    void query(std::string_view text, std::span<const sql::parameter> parameters);
    void execute(const std::string& name, std::span<const sql::parameter> parameters);
    void prepare(const std::string& name, std::string_view text,
                 std::span<const sql::parameter> parameters = {});
    void describe(const std::string& name);
    /// Several statements in one message, all or nothing. The reply is that of the last. Requires
    /// that no reset is pending.
    void run(const char* script);
    /// Only the pending reset.
    void reset();
    /// Only the pending reset and the pending setup.
    void set_up();
    /// Only what on_open has run.
    void repeat_on_open();
    /// Directly after a request: step() returns at each row.
    void row_by_row();
    /// Before a query that is a COPY in this direction: step() returns when the COPY has begun.
    void expect_copy(ExecStatusType direction) noexcept { copy_ = direction; }

    need step() override;

    /// The whole reply, at its end.
    const PGresult* reply() const noexcept { return reply_.get(); }
    /// The row that has come, if row by row.
    result_ptr take_row() noexcept {
        read().restart();
        return std::move(row_);
    }
    /// The request has failed because the prepared statement was stale; nothing was run.
    bool found_stale() const noexcept { return failure_ && failure_->stale; }
    /// Reads what has come already. Whether that was the end.
    bool drained() noexcept;
    /// Whether a COPY is under way. Its reply has its format.
    bool copies() const noexcept { return copies_; }
    /// The COPY has ended: the reply follows.
    void end_copy() noexcept;
    using exchanging::consume;
    using exchanging::fail;
    using exchanging::read;

private:
    void start();
    void sent(int success);
    void end();
    void on_result(result_ptr r);
    void on_setup_result(result_ptr r);
    void undo_setup();
    void on_copy(ExecStatusType direction, result_ptr r);

    bool flushing_ = true;
    bool fresh_ = true;              // no reply can have come yet
    bool sets_up_;                   // if the lease has a setup
    bool pipelined_ = false;         // a reset or a setup goes first
    std::size_t setup_results_ = 0;  // that have not come yet
    bool prepares_ = false;
    bool by_row_ = false;
    bool answered_ = false;  // everything except for the Sync
    std::optional<ExecStatusType> copy_;
    bool copies_ = false;
    result_ptr row_;
    result_ptr reply_;
};

/// Several conversations, one after the other.
class sequence : public connector_detail::steps {
public:
    sequence(const sequence&) = delete;
    sequence& operator=(const sequence&) = delete;

    need step() final;
    int descriptor() const final { return PQsocket(with_->handle()); }
    const char* expected() const final { return "PostgreSQL's reply"; }
    /// Of the last conversation.
    const PGresult* reply() const noexcept { return now_->reply(); }

protected:
    explicit sequence(std::shared_ptr<session> with) : with_(std::move(with)) {}
    ~sequence() = default;

    /// The conversation has succeeded: begins the next one. False: it was the last.
    virtual bool advance() = 0;
    /// The server has refused the statement. False: that is the outcome. True: goes on.
    virtual bool recover(const statement_error&) { return false; }

    session& with() const noexcept { return *with_; }
    conversation& begin(conversation::origin from) { return now_.emplace(with_, from); }
    const conversation& now() const noexcept { return *now_; }

private:
    std::shared_ptr<session> with_;
    std::optional<conversation> now_;
};

/// Statements of the connector itself, after a pending reset.
class scripts final : public sequence {
public:
    scripts(std::shared_ptr<session> with, std::vector<const char*> statements);

private:
    bool advance() override;

    std::vector<const char*> left_;  // the next one last
};

/// Executes a statement that may be kept prepared: its first run is a plain query, its second
/// prepares it. If the server has deallocated it, or what it refers to has changed, the server has
/// done nothing: then it runs as a plain query, and its next run prepares it again.
///
/// The server infers the types of parameters when it prepares a statement, and never again. So a
/// statement is prepared only if no change of a table can make these types wrong (decision 0030).
class kept_execution final : public sequence {
public:
    kept_execution(std::shared_ptr<session> with, std::string_view text,
                   std::span<const sql::parameter> parameters);

private:
    enum class phase : std::uint8_t {
        resetting,
        checking,
        deallocating,
        preparing,
        describing,
        executing
    };

    void begin_execution();
    void begin_known(kept_statement& known);
    void reset();
    void check_session();
    void deallocate_or_prepare();
    void prepare();
    void describe();
    void note_types();
    void evict(kept_statement& known);
    void execute();
    bool advance() override;
    bool recover(const statement_error& e) override;

    std::string_view text_;
    std::span<const sql::parameter> parameters_;
    std::string_view key_;  // the text, and which parameters have declared types if any have
    std::string own_key_;
    std::string name_;  // empty: not prepared
    phase phase_ = phase::executing;
    bool one_by_one_ = false;  // how statements are deallocated
};

/// For each of `count` parameters, whether the text alone decides its type: each of its places has
/// a cast to a built-in type, as in `$1::bigint`. All false if the text would need a whole lexer.
std::vector<bool> typed_by_text(std::string_view text, std::size_t count);

/// Whether a statement can be kept prepared for these values.
enum class fitness : std::uint8_t {
    fits,  // the types are what the server would infer now
    not_for_these,
    outgrown,  // a number exceeds its type, which may have changed since
    never,
};
/// `types`: empty if they are not known yet; then `fits` means that they are worth asking for.
fitness fitness_of(std::string_view text, std::span<const sql::parameter> parameters,
                   std::span<const Oid> types);

// Values.

/// Parameters in libpq's form. Refers to bytes, copies everything else.
class libpq_parameters {
public:
    libpq_parameters() = default;
    /// Throws std::invalid_argument.
    explicit libpq_parameters(std::span<const sql::parameter> from) { assign(from); }
    void assign(std::span<const sql::parameter> from);

    int count() const noexcept { return static_cast<int>(values_.size()); }
    const Oid* types() const noexcept { return types_.data(); }
    const char* const* values() const noexcept { return values_.data(); }
    const int* lengths() const noexcept { return lengths_.data(); }
    const int* formats() const noexcept { return formats_.data(); }
    /// How many bytes they have, about.
    std::size_t size() const noexcept { return size_; }

private:
    struct adder;

    std::string texts_;
    std::vector<Oid> types_;
    std::vector<const char*> values_;
    std::vector<int> lengths_;
    std::vector<int> formats_;
    std::size_t size_ = 0;
    sql::detail::text_buffer buffer_{};
};

/// Throws std::invalid_argument: C would cut the text off at the zero byte.
void refuse_zero_bytes(std::string_view text, const char* what);

/// Reads the rows of a reply as cells, which refer to the reply and to this object.
class cell_reader {
public:
    /// The columns of the reply. It must live as long as the names are read.
    explicit cell_reader(const PGresult* reply);

    std::span<const sql::column_info> columns() const noexcept { return columns_; }
    /// A row of this reply, or of another one with the same columns. Throws sql::bad_value.
    std::span<const sql::cell> row(const PGresult* reply, int row);
    /// The bytes of the row that was read last.
    std::size_t memory() const noexcept { return memory_; }

private:
    sql::cell cell_of(std::size_t column, std::string_view text);

    std::vector<sql::column_info> columns_;
    std::vector<sql::cell> cells_;
    std::vector<sql::bytes> decoded_;  // by column; empty without bytea
    std::size_t memory_ = 0;
};

/// Throws sql::bad_value.
std::vector<sql::value> row_of(const PGresult* r, int row);

/// Throws connection_error: a reply is longer than options::max_reply_bytes.
[[noreturn]] void refuse_length(session& from);

/// Converts the rows of a whole reply, in steps that need no socket. Needs no deadline: the server
/// has done its part, and the length is limited.
class conversion final : public connector_detail::steps {
public:
    conversion(session& from, const PGresult* reply, sql::row_sink& to);

    /// Throws sql::bad_value, and connection_error if the rows take too much memory.
    need step() override;
    int descriptor() const override { return -1; }

private:
    void note_affected();

    session& from_;
    const PGresult* reply_;
    sql::row_sink& to_;
    cell_reader reader_;
    int next_ = 0;
    std::size_t memory_ = 0;
};

// Pending resets: which servers support them.

/// Begins a transaction of the connector. The session's default level may be one that waits.
inline constexpr const char* begin_own = "begin isolation level read committed";
/// Ends prepared statements, too.
inline constexpr const char* discard_all = "discard all";

/// Whether a server of this version commits DISCARD ALL at once, before it runs what follows.
bool resets_with_next(int version) noexcept;
/// Whether a text mentions what must not outlive its lease: advisory locks, LISTEN, temporary
/// tables.
bool mentions_shared_objects(std::string_view text) noexcept;

/// Which servers support pending resets, by address. Thread-safe.
class servers_tried {
public:
    /// Empty: not tried yet.
    std::optional<bool> resets_with_next(const std::string& where) const;
    void note(const std::string& where, bool works);
    /// The connection was lost during the trial. After two of these the answer is no.
    void note_lost(const std::string& where);

private:
    struct findings {
        std::optional<bool> works;
        int lost = 0;
    };
    mutable std::mutex mutex_;
    std::map<std::string, findings> all_;
};

/// Tries a pending reset on a new session: changes a setting, sends the reset together with a
/// statement that fails, and checks that the setting is gone.
class reset_trial final : public sequence {
public:
    explicit reset_trial(std::shared_ptr<session> with);

    bool works() const noexcept { return works_; }

private:
    enum class phase : std::uint8_t { changing, resetting, checking, cleaning, over };

    bool advance() override;
    bool recover(const statement_error& e) override;
    void begin_phase(phase next);

    phase phase_ = phase::changing;
    bool works_ = false;
};

// Opening.

/// One address to be tried.
struct attempt {
    std::string host;     // by name, or the folder of a Unix socket
    std::string address;  // numeric; empty for a Unix socket
    std::string port;
    tls_mode tls = tls_mode::off;
    server_role wanted = server_role::any;
};

/// What an open logs in with.
struct login {
    credentials who;
    secret passfile;  // its text

    /// What the server judges: another file may have another password.
    credentials sent() const { return {who.user, passfile.empty() ? who.password : passfile}; }
};

/// Reads the passfile of the options. Throws connection_error (transient).
secret text_of_passfile(const options& settings);
/// Throws connection_error (transient) if the passfile has none.
secret password_for(const options& settings, const attempt& where, const login& by);

/// Connects to one address and logs in.
class opening final : public connector_detail::steps {
public:
    /// Throws connection_error.
    opening(std::shared_ptr<const options> settings, const attempt& where, const login& by);

    need step() override;
    int descriptor() const override { return PQsocket(handle_.get()); }
    const char* expected() const override { return "PostgreSQL to accept the login"; }

    std::shared_ptr<session> take();

private:
    [[noreturn]] void fail() const;

    std::shared_ptr<const options> settings_;
    std::string where_;
    secret password_;
    handle_ptr handle_;
    connector_detail::meter read_;
    bool begun_ = false;
};

/// The meaning of libpq's message about a failed open; its text without details for developers.
failure failure_of_open(std::string_view message);

/// A name of a setting is compared in lower case.
std::string in_lower_case(std::string text);
/// Throws std::invalid_argument unless a name in lower case and a value are those of a setting.
void check_syntax_of_setting(const std::string& name, const std::string& value);
/// Whether options::settings make transactions read-only, which says nothing about the server.
bool is_read_only_by_default(const options& settings);

/// What an error means for an open connection.
error_kind kind_of(std::string_view sqlstate, std::string_view severity) noexcept;

/// All settings of libpq for an attempt, by name, except for the password. Throws connection_error
/// if an environment variable would interfere.
std::vector<std::pair<const char*, std::string>> keywords_of(const options& settings,
                                                             const attempt& where,
                                                             const std::string& user);
const char* password_of(const secret& password);
/// Throws std::invalid_argument.
void validate(const options& settings);
tls_mode effective_tls(const options& settings, const std::string& host);

}  // namespace cenote::postgres::detail
