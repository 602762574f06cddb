// One handle of libmariadb's, what is known of its session, and the conversations that are held on
// it: each written once, in steps, over the library's calls that do not wait.
//
// Such a call runs on a stack of its own inside the library, from its _start through as many _cont
// as it takes, and must come to its end: what it keeps on that stack is freed by nobody else. So a
// conversation that is given up (a deadline, a cancelled coroutine) first shuts the socket down and
// then goes on with its call, which now fails wherever it is.
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

#include "cenote/detail/process.hpp"
#include "cenote/mariadb.hpp"
#include "cenote/sql.hpp"
#include "cenote/sql_connection.hpp"
#include "connector/drive.hpp"
#include "connector/exchange.hpp"
#include "connector/mariadb_throttle.hpp"
#include "connector/statement_cache.hpp"

namespace cenote::mariadb::detail {

using connector_detail::instant;
using connector_detail::need;

/// Whether the options ask for TLS, or leave it to us.
bool wants_tls(const options& o);

/// Where the columns of a row go, and what values they become.
class row_reader {
public:
    /// Of a statement that was executed. Throws std::bad_alloc.
    explicit row_reader(MYSQL_STMT* of);
    ~row_reader();
    row_reader(const row_reader&) = delete;
    row_reader& operator=(const row_reader&) = delete;

    const std::shared_ptr<const sql::column_names>& names() const { return names_; }
    /// Of the row that was fetched last.
    std::vector<sql::value> values() const;
    /// And how much memory they take.
    std::size_t memory() const;

private:
    struct column;

    sql::value value_of(std::size_t number) const;

    MYSQL_STMT* of_;
    std::vector<column> columns_;
    std::shared_ptr<const sql::column_names> names_;
};

/// A statement's handle. Closing it on the server takes a conversation; the destructor only frees
/// what is here, and only if the handle has lost its connection (closed or reset).
class prepared {
public:
    explicit prepared(MYSQL* on);
    ~prepared();
    prepared(const prepared&) = delete;
    prepared& operator=(const prepared&) = delete;

    MYSQL_STMT* handle() const { return handle_; }
    MYSQL_STMT* release() { return std::exchange(handle_, nullptr); }

    /// The server has answered: where its rows go. Null: it has none.
    row_reader* read_rows();
    row_reader* reader() { return reader_.get(); }
    /// All of them have been read.
    void forget_rows() noexcept;
    void bind(std::span<const sql::parameter> parameters);

    /// Whether the server told of columns when it was prepared.
    bool has_columns() const noexcept { return has_columns_; }
    /// Whether it sets what FOUND_ROWS() gives.
    bool selects() const noexcept { return selects_; }
    void note_prepared(std::string_view text) noexcept;

private:
    MYSQL_STMT* handle_;
    bool has_columns_ = false;
    bool selects_ = false;
    std::unique_ptr<row_reader> reader_;
};

/// What a connection is told that is new or was reset, statement by statement.
struct greeting {
    std::vector<std::string> texts;
    bool minds_database = false;  // they fail with a signal if it is in another one
};

/// What a connection learns of its server.
struct server_facts {
    std::optional<std::string> role;  // it gave it, and later borrowers are to have it, too
    bool knows_blocks = false;        // compound statements outside of stored programs
    std::string number;               // of the connection, as the server itself knows it
    std::string seen_at;              // where the server sees this end of it
};

/// As a string of bytes, which is read alike in whatever character set and mode.
std::string as_bytes(std::string_view text);
/// Whether a text has this word, written in lower case, in whatever case.
bool mentions(std::string_view text, std::string_view word) noexcept;
/// Whether a statement sets what FOUND_ROWS() gives.
bool may_select(std::string_view text) noexcept;

class session final : public sql::detail::session, public std::enable_shared_from_this<session> {
public:
    /// Opens nothing yet. `at`: the host, an address, or empty for a Unix socket.
    session(std::shared_ptr<const options> settings, std::string at, instant open_until);
    /// Says goodbye, without waiting.
    ~session() override;
    session(const session&) = delete;
    session& operator=(const session&) = delete;

    // What a connection offers (mariadb.cpp).
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
    void set_timeout(std::chrono::nanoseconds timeout) override { timeout_ = timeout; }
    bool in_transaction() const noexcept override;
    bool broken() const noexcept override { return condition_.broken(); }

    const options& settings() const { return *settings_; }
    const std::string& at() const { return at_; }
    instant open_until() const { return open_until_; }
    MYSQL* handle() const noexcept { return handle_; }
    connector_detail::condition& condition() noexcept { return condition_; }
    int descriptor() const noexcept { return static_cast<int>(mysql_get_socket(handle_)); }
    bool encrypted() const noexcept { return encrypted_; }

    /// Whether nothing has come that nobody asked for, neither to the socket nor to the library.
    bool quiet() const noexcept;
    /// The lease is over. What is to become of the connection?
    verdict leave() noexcept;
    /// Closes the descriptor and lets go of the rest: it is the parent's.
    void forsake() noexcept;
    /// Nobody waits for what is under way any more: it is to fail.
    void hang_up() noexcept;
    /// The server is to stop working on it, too. Waits for nothing; may do nothing. Whoever has had
    /// this called has the connection no more (mariadb_call_off.cpp).
    void call_off() noexcept;

    /// What it reads goes through here.
    throttle& reads() noexcept { return reads_; }

    instant deadline() const noexcept { return connector_detail::deadline_after(timeout_); }

    // Resets (mariadb_reset.cpp, decision 0018).

    /// A statement is about to be sent, an answer has come, an error has: each may mean that the
    /// session has changed.
    void note_asked(std::string_view text) noexcept;
    void note_answered();
    void note_failed(error_kind kind) noexcept;
    /// A statement has ended that perhaps has set what FOUND_ROWS() gives.
    void note_found_rows(const prepared& by) noexcept;
    /// Somebody has had the handle.
    void note_anything() noexcept;
    bool handle_was_lent() const noexcept { return handle_was_lent_; }
    /// What a connection is told that is new, or whose reset was enough.
    const greeting& plain() const { return plain_; }
    /// What it is told if its reset was not enough.
    const greeting& full() const { return full_; }
    /// A reset of the server's may leave something of what was done.
    bool needs_full_reset() const noexcept { return !knows_lasting_ || lasting_; }
    /// Decide what it is told, and when.
    void note_connected();
    void note_tracking() noexcept;
    void note_server(server_facts facts);
    /// It is as its options say.
    void note_settled(bool in_full) noexcept;

    /// Its next statement takes a reset along.
    bool owes() const noexcept { return owes_; }
    void begin_payment() noexcept { reads_.ahead().begin(dues_, 1 + plain_.texts.size()); }
    void note_paid() noexcept;
    /// Something of an earlier lease is still there.
    bool has_left_overs() const noexcept { return owes_ || alien_rows_; }
    /// The same, and this text would see it, even if a reset went along.
    bool must_forget_rows(std::string_view text) const noexcept;
    void note_rows_forgotten() noexcept { alien_rows_ = false; }
    /// The server has forgotten them all, or will.
    void forget_statements() noexcept;

    /// What was executed last without a name, which is not closed before it has to be.
    std::unique_ptr<prepared>& latest() { return latest_; }
    /// Another one that is to be closed, the latest included. Null: there is none.
    std::unique_ptr<prepared> take_needless();
    /// Those that are kept for another time, by their text.
    prepared* kept(std::string_view text);
    void keep_latest(std::string_view text);
    /// It has to be prepared anew.
    void drop_kept(std::string_view text);
    /// The server has no room for them. False: none of those it has are kept here.
    bool stop_keeping();
    sql::statement keep(std::unique_ptr<prepared> what);
    /// Throws std::logic_error if it is none of this connection's, or from before its last reset.
    prepared& find(const sql::statement& s) const;

private:
    void choose_options();
    void refuse_files_and_reconnects() noexcept;
    void protect();
    bool may_owe(bool unfinished) const noexcept;
    void owe() noexcept;

    std::shared_ptr<const options> settings_;
    std::string at_;
    instant open_until_;
    MYSQL* handle_;
    bool encrypted_;
    throttle reads_;
    connector_detail::condition condition_;
    std::chrono::nanoseconds timeout_;
    reset_mode mode_ = reset_mode::at_release;
    bool tracks_ = false;           // the server tells of what has changed the session
    bool knows_lasting_ = false;    // and of everything that its reset leaves
    bool lasting_ = false;          // that has happened
    bool urgent_ = false;           // others may be kept waiting by what was done
    bool alien_rows_ = false;       // FOUND_ROWS() may be an earlier lease's
    bool handle_was_lent_ = false;  // the library may be set up otherwise
    bool owes_ = false;             // a reset
    bool is_over_ = false;          // there is nothing to call off, or it has been
    instant known_since_;           // to the server
    std::string seen_at_;           // by the server; empty: it was not the server that said so
    greeting plain_;
    greeting full_;
    std::string dues_;  // a reset and what is said after it, as it is sent
    std::unique_ptr<prepared> latest_;
    std::vector<std::unique_ptr<prepared>> statements_;
    connector_detail::statement_cache<std::unique_ptr<prepared>> kept_;
    std::vector<std::unique_ptr<prepared>> needless_;
    bool changed_by_latest_ = false;  // what was asked last has changed the session
    cenote::detail::process_number process_ = cenote::detail::this_process;
};

/// A row of calls of the library's. What they refer to (texts, buffers) must outlive it, so it is
/// in the session or with the caller, and never in a class derived from this.
class conversation : public connector_detail::steps {
public:
    explicit conversation(session& on) : on_(&on) { on.reads().restart(); }
    conversation(const conversation&) = delete;
    conversation& operator=(const conversation&) = delete;

    need step() final;
    int descriptor() const final { return on_->descriptor(); }
    /// The library closes its socket as soon as it finds it lost.

protected:
    ~conversation();

    /// The last call has ended: looks at what came of it, and begins the next. False: that was all.
    virtual bool advance() = 0;
    virtual void waits() {}
    /// The bytes that may come as long as it lasts.
    virtual std::size_t most_bytes() const { return on_->settings().max_reply_bytes; }
    /// Called by advance(): others have their turn before it is called again.
    void rest() noexcept { rests_ = true; }
    [[noreturn]] void refuse_length() const;

    template <auto Start, auto Continue, class Result, class Subject, class... Args>
    void call(Result* into, Subject* subject, Args... args) {
        waited_for_ = Start(into, subject, args...);
        into_ = static_cast<void*>(into);
        subject_ = subject;
        go_on_ = [](void* result, void* on, int events) {
            return Continue(static_cast<Result*>(result), static_cast<Subject*>(on), events);
        };
    }

    session& on() const { return *on_; }
    MYSQL* handle() const { return on_->handle(); }
    int& number() { return outcome_.number; }
    my_bool& flag() { return outcome_.flag; }
    MYSQL*& made() { return outcome_.made; }
    MYSQL_RES*& rows() { return outcome_.rows; }

    /// Throw what the server or the library has said.
    [[noreturn]] void fail_statement(MYSQL_STMT* of);
    [[noreturn]] void fail();
    /// Throw what was said to a reset of an earlier lease's session.
    [[noreturn]] void fail_reset(unsigned code, const std::string& sqlstate,
                                 const std::string& text);
    [[noreturn]] static void refuse_unrun(error_kind kind, unsigned code,
                                          const std::string& sqlstate, const std::string& why);
    /// If it ends early the server is to stop working on it.
    void is_work() noexcept { work_ = true; }
    /// Whether a reset goes along with what was asked: then nothing has been run if that fails.
    bool& with_reset() noexcept { return with_reset_; }

private:
    [[noreturn]] void fail(unsigned code, const std::string& sqlstate, const std::string& text);

    session* on_;
    bool work_ = false;
    bool with_reset_ = false;
    bool rests_ = false;
    int waited_for_ = 0;
    int (*go_on_)(void*, void*, int) = nullptr;
    void* subject_ = nullptr;
    void* into_ = nullptr;
    union {
        int number;
        my_bool flag;
        MYSQL* made;
        MYSQL_RES* rows;
    } outcome_{};
};

/// Makes the connection, or resets it; then has it as its options say. `aside`: only makes it,
/// and asks for no database.
class settling final : public conversation {
public:
    /// `debt`: somebody asks for something, and the reset of an earlier lease has to come first.
    enum class from { nothing, lease, debt, aside };
    settling(session& on, from what);

    const char* awaited() const override;

private:
    enum class phase { begin, connected, cleared, limited, said, asked, stored, selected };

    bool advance() override;
    void waits() override;
    std::size_t most_bytes() const override;
    void connect();
    void note_connected();
    bool say_next();
    const greeting& what_to_say() const;
    bool heard();
    bool end();
    void query(std::string_view text);
    bool select();
    bool ask_facts();
    bool hear_facts();
    bool note_facts();
    [[noreturn]] void fail_settling();

    phase phase_ = phase::begin;
    from from_;
    bool full_;
    std::size_t said_ = 0;
    bool selected_ = false;
};

class pinging final : public conversation {
public:
    using conversation::conversation;

private:
    bool advance() override;
    bool begun_ = false;
};

/// Asks for one value, or has something done. The question is the caller's.
class asking final : public conversation {
public:
    asking(session& on, std::string_view question) : conversation(on), question_(question) {}
    /// Empty: none, or null.
    const std::string& answer() const noexcept { return answer_; }

private:
    enum class phase { begin, asked, stored };

    bool advance() override;
    void note_answer();

    std::string_view question_;
    phase phase_ = phase::begin;
    std::string answer_;
};

/// Prepares a statement, executes one, or both, and reads what comes of it.
class executing final : public conversation {
public:
    enum class extent { prepare, all, until_rows };
    executing(session& on, std::string_view text, std::span<const sql::parameter> parameters,
              extent how_far)
        : conversation(on), text_(text), parameters_(parameters), extent_(how_far) {
        is_work();
        on.note_asked(text);
    }
    executing(session& on, prepared& what, std::span<const sql::parameter> parameters)
        : conversation(on), what_(&what), parameters_(parameters), phase_(phase::prepared) {
        is_work();
        on.note_asked({});
    }

    sql::result take() { return std::move(result_); }
    /// With `until_rows`: whether there are any to be fetched.
    bool has_rows() const { return has_rows_; }

private:
    enum class phase { begin, prepared, executed, stored, copying, next };

    bool advance() override;
    bool prepare();
    void hear_reset();
    bool execute();
    bool answered();
    bool stored();
    bool copy();
    bool go_on();

    std::string_view text_;
    prepared* what_ = nullptr;
    std::span<const sql::parameter> parameters_;
    extent extent_ = extent::all;
    phase phase_ = phase::begin;
    sql::result result_;
    std::size_t memory_ = 0;  // of its rows
    bool has_result_ = false;
    bool has_rows_ = false;
};

/// Fetches a row of the session's latest statement; after the last one, reads what else there is.
class fetching final : public conversation {
public:
    explicit fetching(session& on) : conversation(on) { is_work(); }

    std::optional<sql::row> take() { return std::move(row_); }

private:
    enum class phase { begin, fetched, stored, next };

    bool advance() override;
    bool fetched();
    bool go_on();
    void note_end();

    phase phase_ = phase::begin;
    std::optional<sql::row> row_;
};

}  // namespace cenote::mariadb::detail
