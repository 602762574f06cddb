// One handle of libpq's, and the conversations that are held over it.
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
#include <vector>

#include "cenote/connector.hpp"
#include "cenote/detail/process.hpp"
#include "cenote/postgres.hpp"
#include "cenote/sql.hpp"
#include "cenote/sql_connection.hpp"
#include "connector/drive.hpp"
#include "connector/exchange.hpp"
#include "connector/meter.hpp"
#include "connector/statement_cache.hpp"

namespace cenote::postgres::detail {

// Of pg_type, where they are fixed for ever: whole numbers.
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

/// What the server said about an error, as it is thrown.
struct complaint {
    error_kind kind = error_kind::connection;
    std::string sqlstate;
    std::string text;
    /// What was prepared is not there any more, or has to be prepared anew: nothing was run.
    bool stale = false;
    /// It was raised in a function, a procedure or a block.
    bool in_function = false;

    [[noreturn]] void raise() const;
};

/// A statement that a connection has run before.
struct kept_statement {
    std::string name;        // empty: it is not prepared
    std::vector<Oid> types;  // of its parameters
    /// A parameter's type was inferred and may become a wrong one: it is never prepared.
    bool unfit = false;
};

class session final : public sql::detail::session, public std::enable_shared_from_this<session> {
public:
    session(std::shared_ptr<const options> settings, handle_ptr connected);
    ~session() override { close(); }
    session(const session&) = delete;
    session& operator=(const session&) = delete;

    // What a connection offers (postgres.cpp).
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
    void set_timeout(std::chrono::nanoseconds timeout) noexcept override { timeout_ = timeout; }
    bool in_transaction() const noexcept override;
    bool transaction_failed() const noexcept override {
        return PQtransactionStatus(handle()) == PQTRANS_INERROR;
    }
    bool broken() const noexcept override { return condition_.broken(); }

    // Resets (postgres_reset.cpp, decision 0018).

    reset_mode mode() const noexcept { return mode_; }
    void set_mode(reset_mode how) noexcept { mode_ = how; }
    /// Whoever had the session before has left it as it was, and whoever asks next has it reset.
    bool owes() const noexcept { return owes_; }
    void note_owed() noexcept { owes_ = true; }
    /// Sends the pieces of that reset in pipeline mode and returns their number, 0 if libpq fails.
    /// The reply of the last with rows is for note_paid().
    std::size_t send_dues();
    void note_paid(const PGresult* said);
    /// Those that have come are for nobody.
    void drop_notifications() noexcept;
    /// A borrower has had the handle, and may have prepared what it liked by any name.
    void note_lent() noexcept { keeps_rest_ = false; }
    /// It is reset by itself now, and not by who asks next.
    void take_over_debt() noexcept;
    /// The same when it is reset on its own: in one message each.
    std::vector<const char*> undoing() const;
    /// The reply to that. False: everything has to go.
    bool is_undone(const PGresult* said);
    /// A borrower asks for something.
    void note_use() noexcept;
    /// In these words.
    void note_words(std::string_view text) noexcept;
    /// Has these words prepared.
    void note_prepares(std::string_view text) noexcept;

    PGconn* handle() const noexcept { return handle_.get(); }
    connector_detail::condition& condition() noexcept { return condition_; }
    const options& settings() const noexcept { return *settings_; }
    /// For an operation that begins now.
    instant deadline() const noexcept { return connector_detail::deadline_after(timeout_); }

    /// The number of one that is about to be prepared.
    std::size_t next_statement() noexcept { return ++statements_; }

    using kept_statements = connector_detail::statement_cache<kept_statement>;
    kept_statements& kept() noexcept { return kept_; }
    /// Those that had to go for others, and which the server still has.
    std::vector<std::string>& forgotten() noexcept { return forgotten_; }
    /// The server has none of them any more.
    void forget_kept() noexcept;
    /// Whether the server may have some of them.
    bool has_kept() const noexcept { return prepares_; }
    void note_kept() noexcept { prepares_ = true; }
    /// Whether the server itself is at the other end, and not somebody who hands each transaction
    /// to another one. Empty: not known yet.
    std::optional<bool>& direct() noexcept { return direct_; }

    /// A name may mean another table, function or type than before, for all statements of the
    /// session.
    void note_names_changed();
    /// As above, in a transaction that is still open: its end may undo it.
    bool names_in_flux() noexcept;
    /// Whether the session has a schema for temporary objects. The server reads names again when
    /// it makes that schema, but not when a later temporary table hides another one.
    void note_temporary(bool has_some) noexcept;
    bool knows_temporary() const noexcept { return knows_temporary_; }

    /// Whether nothing has come that nobody asked for.
    bool quiet() noexcept;
    /// The lease is over: what is to become of the connection.
    verdict leave() noexcept;
    /// The session is as it was when it was opened, but for statements that are kept.
    void note_reset() noexcept;
    /// A statement may have changed a setting of the session's, and has not been undone yet.
    bool has_own_settings() const noexcept { return has_own_settings_; }
    void note_own_settings() noexcept { has_own_settings_ = true; }
    /// Whether a text means here what it meant when the session began. A prepared one is not read
    /// again when one of these settings changes.
    bool reads_texts_as_ever() const;
    /// Nothing can be written in the session, by our own doing.
    bool only_reads() const noexcept { return only_reads_; }
    void note_only_reads() noexcept;
    /// By the answer of the server's process: see direct().
    void note_process(const PGresult* its_number);
    /// Asks the server to stop what nobody waits for any more. Does not wait itself.
    void call_off() noexcept;

    void close() noexcept;
    /// Lets go of the descriptor without a word: it is the parent's.
    void forsake() noexcept;

private:
    static void hear(void* of, const PGresult* notice) noexcept;
    /// Restores libpq's settings of the handle, which a borrower may have changed. False if libpq
    /// refuses.
    bool set_up_handle() noexcept;
    /// What is kept prepared is to outlast a reset.
    bool spares_kept() const noexcept { return has_kept() && kept_.on(); }

    std::shared_ptr<const options> settings_;
    handle_ptr handle_;
    connector_detail::condition condition_;
    std::chrono::nanoseconds timeout_;
    std::size_t statements_ = 0;  // that were ever prepared
    kept_statements kept_;
    std::vector<std::string> forgotten_;
    std::optional<bool> direct_;
    bool prepares_ = false;    // something was kept prepared
    bool keeps_rest_ = false;  // a part of the reset itself is
    bool knows_temporary_ = false;
    bool names_in_flux_ = false;
    bool has_own_settings_ = false;
    bool only_reads_ = false;
    std::vector<std::string> first_settings_;  // of those by which texts are read
    reset_mode mode_;
    bool used_ = false;  // in this lease, in ways that a reset at the next one's beginning undoes
    bool owes_ = false;  // the same of an earlier lease
    bool babbles_ = false;  // something came while nothing was asked
    ::cenote::detail::process_number process_ = ::cenote::detail::this_process;
};

/// One request and its reply, in steps. Whoever leaves it before its end leaves a broken connection
/// and a server that is told to stop.
///
/// If the session owes a reset, that goes before the request, and both before one Sync: the server
/// skips what follows an error up to the Sync, so a request whose reset has failed is not run.
class conversation final : public connector_detail::steps {
public:
    /// Whose request it is: those of the connector's own change nothing in the session.
    enum class of : std::uint8_t { borrower, connector };

    conversation(std::shared_ptr<session> with, of whom) : with_(std::move(with)), whom_(whom) {}
    ~conversation();
    conversation(const conversation&) = delete;
    conversation& operator=(const conversation&) = delete;

    // Requests: one of them. Throw std::invalid_argument before anything is sent, and
    // connection_error.
    void ask(std::string_view text, std::span<const sql::parameter> parameters);
    void ask_prepared(const std::string& name, std::span<const sql::parameter> parameters);
    void prepare(const std::string& name, std::string_view text,
                 std::span<const sql::parameter> parameters = {});
    void describe(const std::string& name);
    /// Several statements, one after the other, all or nothing. The reply is that of the last. Not
    /// of a session that owes a reset.
    void ask_all(const char* texts);
    /// Nothing but the reset that the session owes.
    void pay();
    /// Directly after a request: let step() return at each row.
    void row_by_row();

    need step() override;
    int descriptor() const override { return PQsocket(with_->handle()); }
    const char* awaited() const override { return "PostgreSQL's reply"; }

    /// The whole reply, at its end.
    const PGresult* reply() const noexcept { return reply_.get(); }
    /// A row that has come, if row by row.
    result_ptr take_row() noexcept {
        read_.restart();
        return std::move(row_);
    }
    bool ended() const noexcept { return ended_; }
    /// It has failed, and the server has not run anything of it: it did not have it (any more).
    bool found_stale() const noexcept { return complaint_ && complaint_->stale; }
    /// Reads what is there already. Whether that was the end.
    bool drained() noexcept;

private:
    void begin();
    void send_dues();
    void sent(int success);
    void hear(result_ptr r);
    void hear_due(result_ptr r);
    void leave_pipeline();
    complaint understood(complaint c) const;
    void consume();
    void conclude();
    void judge_change();
    [[noreturn]] void lose();
    [[noreturn]] void refuse_unrun(const PGresult* why);

    std::shared_ptr<session> with_;
    of whom_;
    std::optional<connector_detail::exchange> guard_;
    bool flushing_ = true;
    bool fresh_ = true;  // nothing can have come yet
    bool ended_ = false;
    bool pipelined_ = false;  // it began with a reset
    std::size_t dues_ = 0;    // pieces of that whose replies have not come
    bool prepares_ = false;
    bool by_row_ = false;
    bool answered_ = false;  // all but the Sync
    bool unrun_ = false;     // the server has skipped it
    connector_detail::meter read_;
    result_ptr due_reply_;
    result_ptr row_;
    result_ptr reply_;
    std::optional<complaint> complaint_;
};

/// Statements of the connector's own, one after the other, once nothing is owed.
class chores final : public connector_detail::steps {
public:
    chores(std::shared_ptr<session> with, std::vector<const char*> statements);

    need step() override;
    int descriptor() const override { return PQsocket(with_->handle()); }
    const char* awaited() const override { return "PostgreSQL's reply"; }
    /// Of the last one.
    const PGresult* reply() const noexcept { return now_->reply(); }

private:
    void begin_next();

    std::shared_ptr<session> with_;
    std::vector<const char*> left_;  // in reverse
    std::optional<conversation> now_;
};

/// A statement that may be kept prepared: at its first time it is simply run, at its second it is
/// prepared. If the server has forgotten it, or what it refers to has changed, it is run without
/// being prepared, and prepared anew at its next run: the server has done nothing then.
///
/// The server infers the types of parameters when it prepares a statement, and never again. So one
/// is prepared only if no change of a table can make these types wrong ones (decision 0030).
class recurring final : public connector_detail::steps {
public:
    recurring(std::shared_ptr<session> with, std::string_view text,
              std::span<const sql::parameter> parameters);

    need step() override;
    int descriptor() const override { return PQsocket(with_->handle()); }
    const char* awaited() const override { return "PostgreSQL's reply"; }
    const PGresult* reply() const noexcept { return now_->reply(); }

private:
    enum class phase : std::uint8_t { paying, looking, making_room, preparing, describing, asking };

    void begin();
    void begin_known(kept_statement& known);
    void pay();
    void look();
    void make_room_or_prepare();
    void prepare();
    void describe();
    void note_types();
    void give_up_kept(kept_statement& known);
    void ask();
    bool go_on();
    bool goes_on_after(const statement_error& e);

    std::shared_ptr<session> with_;
    std::string_view text_;
    std::span<const sql::parameter> parameters_;
    std::string_view key_;  // the text, and which of its values are bytes if any are
    std::string own_key_;
    std::string name_;  // empty: it is not prepared
    phase phase_ = phase::asking;
    bool one_by_one_ = false;  // statements are ended
    std::optional<conversation> now_;
};

/// Which of so many parameters get their types from the text alone: each place is cast to a type of
/// the server's own, as in `$1::bigint`. None if the text has what would need a whole lexer.
std::vector<bool> typed_by_text(std::string_view text, std::size_t count);

/// What is known of the types of a statement's parameters, for the values at hand.
enum class fitness : std::uint8_t {
    fits,  // the same as if the types were inferred now
    not_for_these,
    outgrown,  // a number is beyond its type, which may have changed since
    never,
};
/// `types` is empty if they are not known yet: then fits means that they are worth asking for.
fitness fitness_of(std::string_view text, std::span<const sql::parameter> parameters,
                   std::span<const Oid> types);

// Values.

/// Parameters as libpq takes them. Refers to bytes, copies everything else.
class libpq_parameters {
public:
    /// Throws std::invalid_argument.
    explicit libpq_parameters(std::span<const sql::parameter> from);

    int count() const noexcept { return static_cast<int>(values_.size()); }
    const Oid* types() const noexcept { return types_.data(); }
    const char* const* values() const noexcept { return values_.data(); }
    const int* lengths() const noexcept { return lengths_.data(); }
    const int* formats() const noexcept { return formats_.data(); }

private:
    struct adder;

    std::string texts_;
    std::vector<Oid> types_;
    std::vector<const char*> values_;
    std::vector<int> lengths_;
    std::vector<int> formats_;
};

/// Throws std::invalid_argument: C would see only what comes before a zero byte.
void refuse_zero_bytes(std::string_view text, const char* what);

std::shared_ptr<const sql::column_names> columns_of(const PGresult* r);
/// Throws sql::bad_value.
std::vector<sql::value> row_of(const PGresult* r, int row);

/// Throws connection_error: a reply is longer than options::max_reply_bytes.
[[noreturn]] void refuse_length(session& from);

/// The rows of a whole reply, converted in steps that need no socket. It has no deadline: the
/// server has done its part, and the length is limited.
class conversion final : public connector_detail::steps {
public:
    conversion(session& from, const PGresult* reply);

    /// Throws sql::bad_value and, if the rows take too much memory, connection_error.
    need step() override;
    int descriptor() const override { return -1; }
    sql::result take();

private:
    session& from_;
    const PGresult* reply_;
    sql::result result_;
    int next_ = 0;
    std::size_t memory_ = 0;
};

// Resets that go before the next request: whether a server can be trusted with them.

/// Also ends whatever is prepared.
inline constexpr const char* undo_all = "discard all";

/// By its version: DISCARD ALL commits at once, whatever follows it before the Sync.
bool resets_with_next(int version) noexcept;
/// Whether a text speaks of what nobody should hold for longer than its lease: advisory locks,
/// LISTEN, temporary tables.
bool speaks_of_shared_things(std::string_view text) noexcept;

/// What is known of servers, by their addresses. Thread-safe.
class servers_tried {
public:
    /// Empty: it was not tried yet.
    std::optional<bool> resets_with_next(const std::string& where) const;
    void note(const std::string& where, bool well);
    /// The connection was lost meanwhile. Nobody tries it for ever.
    void note_lost(const std::string& where);

private:
    struct findings {
        std::optional<bool> well;
        int lost = 0;
    };
    mutable std::mutex mutex_;
    std::map<std::string, findings> all_;
};

/// On a new session: leaves something in it, has it reset in one flight with a statement that
/// fails, and looks whether it is gone.
class trial final : public connector_detail::steps {
public:
    explicit trial(std::shared_ptr<session> with);

    need step() override;
    int descriptor() const override { return PQsocket(with_->handle()); }
    const char* awaited() const override { return "PostgreSQL's reply"; }
    bool well() const noexcept { return well_; }

private:
    enum class phase : std::uint8_t { leaving, resetting, looking, tidying };

    bool go_on();
    void begin(phase next);

    std::shared_ptr<session> with_;
    phase phase_ = phase::leaving;
    bool well_ = false;
    std::optional<conversation> now_;
};

// Opening.

/// One address to be tried.
struct attempt {
    std::string host;     // as it is named, or the folder of a Unix socket
    std::string address;  // empty for a Unix socket
    std::string port;
    tls_mode tls = tls_mode::off;
    server_role wanted = server_role::any;
};

/// A connection in the making.
class opening final : public connector_detail::steps {
public:
    /// Throws connection_error.
    opening(std::shared_ptr<const options> settings, const attempt& where);

    need step() override;
    int descriptor() const override { return PQsocket(handle_.get()); }
    const char* awaited() const override { return "PostgreSQL to let us in"; }

    std::shared_ptr<session> take();

private:
    [[noreturn]] void fail() const;

    std::shared_ptr<const options> settings_;
    std::string where_;
    handle_ptr handle_;
    connector_detail::meter read_;
    bool begun_ = false;
};

/// What libpq says about a connection that could not be made: what it means, and its words without
/// those that are for its developers.
complaint understand(std::string_view message);

/// What an error means for an open connection.
error_kind kind_of(std::string_view sqlstate, std::string_view severity) noexcept;

/// The name and value of each of libpq's settings for this attempt, but for the password. Throws
/// connection_error if the environment would interfere.
std::vector<std::pair<const char*, std::string>> keywords_of(const options& settings,
                                                             const attempt& where);
const char* password_of(const options& settings);
/// Throws std::invalid_argument.
void validate(const options& settings);
tls_mode effective_tls(const options& settings, const std::string& host);

}  // namespace cenote::postgres::detail
