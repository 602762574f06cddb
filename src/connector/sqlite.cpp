// The operations of SQLite connections and connectors, blocking, or awaited on work threads;
// options.
#include "cenote/sqlite.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "cenote/url.hpp"
#include "connector/sqlite_exchange.hpp"
#include "connector/sqlite_session.hpp"
#include "connector/url_options.hpp"
#include "connector/work.hpp"

namespace cenote::sqlite {

namespace asio = boost::asio;

using connector_detail::async_run_function;
using connector_detail::result_sink;
using detail::async_exchanged;
using detail::exchanged;
using detail::session;
using detail::writers_line;

namespace {

// Options.

constexpr std::array<connector_detail::url_word<open_mode>, 4> modes{
    {{"rwc", open_mode::create},
     {"rw", open_mode::read_write},
     {"ro", open_mode::read_only},
     {"memory", open_mode::memory}}};

template <std::size_t Count>
void must_be_one_of(const std::array<const char*, Count>& words, const std::string& word,
                    const char* option) {
    if (word.empty() || std::ranges::find(words, word) != words.end()) return;
    std::string all;
    for (const char* each : words) (all += all.empty() ? "" : ", ") += each;
    throw std::invalid_argument(std::string("cenote: the SQLite option \"") + option +
                                "\" must be one of " + all);
}

void validate(const options& o) {
    if (o.path.empty()) throw std::invalid_argument("cenote: the SQLite option \"path\" is empty");
    if (o.path == ":memory:" || o.path.starts_with("file:"))
        throw std::invalid_argument(
            "cenote: each connection would have a private SQLite database in memory; to share one, "
            "give it a name and mode=memory");
    constexpr std::array journal_modes{"wal", "delete", "truncate", "persist", "memory", "off"};
    constexpr std::array safeties{"off", "normal", "full", "extra"};
    must_be_one_of(journal_modes, o.journal_mode, "journal_mode");
    must_be_one_of(safeties, o.synchronous, "synchronous");
}

}  // namespace

options options::from_url(std::string_view text) {
    using connector_detail::refuse_url;
    using connector_detail::take_text;
    url u = url::parse(text);
    if (u.scheme != "sqlite") refuse_url("must begin with sqlite:");
    if (!u.hosts.empty() || !u.user.empty())
        refuse_url("must name a file and no host: sqlite:/path");
    options o;
    o.path = u.path;
    url_parameters all(u);
    connector_detail::take_word(all, "mode", modes, o.mode);
    connector_detail::take_time(all, "busy_timeout", o.busy_timeout);
    connector_detail::take_time(all, "operation_timeout", o.operation_timeout);
    connector_detail::take_reply_limit(all, "max_reply_bytes", 0, o.max_reply_bytes);
    o.foreign_keys = all.take_bool("foreign_keys").value_or(o.foreign_keys);
    take_text(all, "journal_mode", o.journal_mode);
    take_text(all, "synchronous", o.synchronous);
    connector_detail::take_statement_cache(all, o.statement_cache);
    o.cache_size = all.take_number("cache_size", -1'000'000'000, 1'000'000'000);
    all.refuse_others();
    return o;
}

namespace {

asio::awaitable<void> discard(asio::awaitable<bool> what) { co_await std::move(what); }

}  // namespace

// Connection.

connection::connection(std::shared_ptr<session> s) noexcept : sql::connection(std::move(s)) {}

session& connection::own() const { return static_cast<session&>(sql::connection::own()); }

sqlite3* connection::native_handle() const {
    session& on = own();
    if (on.setup_pending()) exchanged(on, [](session& s) { return s.set_up_for_handle(), true; });
    return on.handle();
}

void connection::only_read(bool on) noexcept {
    if (session_ != nullptr) own().only_read(on);
}

// Statements.

sql::result session::execute(std::string_view text, std::span<const sql::parameter> parameters) {
    result_sink to;
    execute_into(text, parameters, to);
    return to.take();
}

asio::awaitable<sql::result> session::async_execute(sql::bound_statement what) {
    return async_exchanged(shared_from_this(), [w = std::move(what)](session& s) {
        result_sink to;
        s.perform(w.text(), w.parameters(), to);
        return to.take();
    });
}

void session::execute_into(std::string_view text, std::span<const sql::parameter> parameters,
                           sql::row_sink& to) {
    exchanged(*this, [&](session& s) { return s.perform(text, parameters, to), true; });
}

asio::awaitable<void> session::async_execute_into(sql::bound_statement what,
                                                  std::shared_ptr<sql::row_sink> to) {
    return discard(async_exchanged(shared_from_this(),
                                   [w = std::move(what), kept = std::move(to)](session& s) {
                                       return s.perform(w.text(), w.parameters(), *kept), true;
                                   }));
}

statement session::prepare(std::string_view text) {
    return exchanged(*this, [&](session& s) { return s.make(text); });
}

asio::awaitable<statement> session::async_prepare(std::string text) {
    return async_exchanged(shared_from_this(),
                           [t = std::move(text)](session& s) { return s.make(t); });
}

sql::result session::execute(const statement& prepared,
                             std::span<const sql::parameter> parameters) {
    result_sink to;
    execute_into(prepared, parameters, to);
    return to.take();
}

asio::awaitable<sql::result> session::async_execute(statement prepared, sql::bound_statement what) {
    return async_exchanged(shared_from_this(), [prepared, w = std::move(what)](session& s) {
        result_sink to;
        s.perform(prepared, w.parameters(), to);
        return to.take();
    });
}

void session::execute_into(const statement& prepared, std::span<const sql::parameter> parameters,
                           sql::row_sink& to) {
    exchanged(*this, [&](session& s) { return s.perform(prepared, parameters, to), true; });
}

asio::awaitable<void> session::async_execute_into(statement prepared, sql::bound_statement what,
                                                  std::shared_ptr<sql::row_sink> to) {
    return discard(async_exchanged(
        shared_from_this(), [prepared, w = std::move(what), kept = std::move(to)](session& s) {
            return s.perform(prepared, w.parameters(), *kept), true;
        }));
}

// Cursors.

namespace {

/// Between two rows no exchange is under way: unlike with a server, no reply is left that a later
/// borrower could read, and an unfinished statement ends with the cursor or the lease.
class rows final : public sql::detail::rows, public std::enable_shared_from_this<rows> {
public:
    explicit rows(std::shared_ptr<session> of) : of_(std::move(of)) {}
    ~rows() override { of_->end(begun_); }
    rows(const rows&) = delete;
    rows& operator=(const rows&) = delete;

    /// Within an exchange.
    bool begin(std::string_view text, std::span<const sql::parameter> parameters) {
        begun_ = of_->begin(text, parameters);
        return true;
    }

    std::optional<sql::row> next() override {
        next_into(own_);
        return own_.take();
    }
    asio::awaitable<std::optional<sql::row>> async_next() override {
        return async_exchanged(of_, [me = shared_from_this()](session&) {
            me->take(me->own_);
            return me->own_.take();
        });
    }
    bool next_into(sql::row_sink& to) override {
        return exchanged(*of_, [&](session&) { return take(to); });
    }
    asio::awaitable<bool> async_next_into(std::shared_ptr<sql::row_sink> to) override {
        return async_exchanged(of_, [me = shared_from_this(), kept = std::move(to)](session&) {
            return me->take(*kept);
        });
    }

private:
    bool take(sql::row_sink& to) {
        if (ended_) return false;
        if (of_->next(begun_, to)) return true;
        ended_ = true;
        of_->end(std::exchange(begun_, {}));  // another statement may get its slot from now on
        return false;
    }

    std::shared_ptr<session> of_;
    statement begun_;
    connector_detail::next_row own_;
    bool ended_ = false;
};

asio::awaitable<cursor> async_begin(std::shared_ptr<rows> begun, asio::awaitable<bool> begins) {
    co_await std::move(begins);
    co_return cursor(std::move(begun));
}

}  // namespace

cursor session::stream(std::string_view text, std::span<const sql::parameter> parameters) {
    auto begun = std::make_shared<rows>(shared_from_this());
    exchanged(*this, [&](session&) { return begun->begin(text, parameters); });
    return cursor(std::move(begun));
}

asio::awaitable<cursor> session::async_stream(sql::bound_statement what) {
    auto begun = std::make_shared<rows>(shared_from_this());
    auto begins = async_exchanged(shared_from_this(), [begun, w = std::move(what)](session&) {
        return begun->begin(w.text(), w.parameters());
    });
    return async_begin(std::move(begun), std::move(begins));
}

// Connectors.

std::string connector::endpoint() const { return "sqlite:" + settings_->path; }

connector::connector(options settings)
    : settings_(std::make_shared<const options>(std::move(settings))) {
    validate(*settings_);
    if (settings_->mode != open_mode::read_only) line_ = std::make_shared<writers_line>();
}

connection connector::open() {
    connection made(std::make_shared<session>(settings_, line_));
    if (settings_->on_open) {
        made.own().begin_on_open();
        settings_->on_open(made);
    }
    made.own().finish_opening();
    return made;
}

bool connector::probe(connection& c) {
    return exchanged(c.own(), [](session& s) { return s.probe(); });
}

void connector::reset(connection& c) {
    exchanged(c.own(), [](session& s) { return s.reset(), true; });
}

void connector::close(connection& c) { c.session_.reset(); }

verdict connector::before_release(connection& c) noexcept {
    return c.session_ == nullptr ? verdict::discard : c.own().end_lease();
}

void connector::forsake(connection& c) noexcept {
    if (c.session_ != nullptr) c.own().forsake();
}

asio::awaitable<connection> async_connector::open() {
    return async_run_function([by = blocking_]() mutable { return by.open(); });
}

asio::awaitable<bool> async_connector::probe(connection& c) {
    return async_exchanged(c.own().shared_from_this(), [](session& s) { return s.probe(); });
}

asio::awaitable<void> async_connector::reset(connection& c) {
    return discard(
        async_exchanged(c.own().shared_from_this(), [](session& s) { return s.reset(), true; }));
}

/// On a work thread, since closing may have to write what is left in the journal.
asio::awaitable<void> async_connector::close(connection& c) {
    return discard(async_run_function(
        [last = std::move(c.session_)]() mutable { return last.reset(), true; }));
}

}  // namespace cenote::sqlite
