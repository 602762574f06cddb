// The operations of PostgreSQL connections and connectors, each written once for both ways to wait.
#include "cenote/postgres.hpp"

#include <stdexcept>
#include <utility>

#include "connector/drive.hpp"
#include "connector/endpoint.hpp"
#include "connector/login.hpp"
#include "connector/on_open.hpp"
#include "connector/postgres_session.hpp"
#include "connector/socket.hpp"
#include "connector/statement_view.hpp"
#include "connector/work.hpp"

namespace cenote::postgres {

namespace asio = boost::asio;

using connector_detail::address;
using connector_detail::awaited;
using connector_detail::blocking;
using connector_detail::deadline_after;
using connector_detail::instant;
using connector_detail::into_kept_sink;
using connector_detail::into_result;
using connector_detail::into_sink;
using connector_detail::login_refused;
using connector_detail::logins;
using connector_detail::next_row;
using connector_detail::result_in;
using connector_detail::share_of;
using connector_detail::statement_view;
using connector_detail::user_threads;
using detail::attempt;
using detail::conversation;
using detail::conversion;
using detail::kept_execution;
using detail::login;
using detail::opening;
using detail::reset_trial;
using detail::scripts;
using detail::session;

// Connection.

connection::connection(std::shared_ptr<session> s) noexcept : sql::connection(std::move(s)) {}
connection::connection(connection&&) noexcept = default;
connection& connection::operator=(connection&& other) noexcept {
    if (this != &other) {
        end();
        sql::connection::operator=(std::move(other));
    }
    return *this;
}
connection::~connection() { end(); }

session& connection::own() const { return static_cast<session&>(sql::connection::own()); }

void connection::end() noexcept {
    if (session_) own().close();
}

namespace {

template <class Mode>
result_in<Mode, pg_conn*> expose_handle(std::shared_ptr<session> on) {
    if (on->reset_pending() || on->setup_pending()) {
        conversation request(on, conversation::origin::connector);
        request.set_up();
        co_await Mode::drive(request, on->deadline());
    }
    on->note_handle_exposed();
    co_return on->handle();
}

/// libpq was told the process number of the server at login; a pooler may have told another one.
constexpr const char* process_number = "select pg_catalog.pg_backend_pid()";
constexpr const char* set_read_only = "set session characteristics as transaction read only";

template <class Mode>
result_in<Mode, bool> is_direct(std::shared_ptr<session> on, instant until) {
    if (!on->direct()) {
        scripts ask(on, {process_number});
        co_await Mode::drive(ask, until);
        on->note_process(ask.reply());
    }
    co_return *on->direct();
}

template <class Mode>
result_in<Mode, void> make_read_only(std::shared_ptr<session> on) {
    on->opened().refuse("only_read()");
    instant until = on->deadline();
    const bool direct = co_await is_direct<Mode>(on, until);
    if (!direct) co_return;
    on->note_only_reads();
    scripts set(on, {set_read_only});
    co_await Mode::drive(set, until);
}

}  // namespace

pg_conn* connection::native_handle() const {
    return expose_handle<blocking>(own().shared_from_this()).get();
}

asio::awaitable<pg_conn*> connection::async_native_handle() const {
    return expose_handle<awaited>(own().shared_from_this());
}

void connection::only_read() { make_read_only<blocking>(own().shared_from_this()).get(); }

asio::awaitable<void> connection::async_only_read() {
    return make_read_only<awaited>(own().shared_from_this());
}

// Statements.

namespace {

/// The name of a statement on the server.
std::string name_of(std::size_t number) { return "cenote_" + std::to_string(number); }

/// Throws std::logic_error if the statement is not one of this session.
std::string name_in(const session& s, const statement& prepared) {
    if (auto number = s.number_of(prepared)) return name_of(*number);
    throw std::logic_error(
        "cenote: a prepared statement belongs to the connection and the lease that prepared it");
}

/// `Target`: what the rows go into, made of `to`; see result_sink.hpp.
template <class Mode, class Target, class Statement, class... To>
result_in<Mode, typename Target::outcome> execute(std::shared_ptr<session> on, Statement what,
                                                  To... to) {
    Target target(std::move(to)...);
    kept_execution request(on, what.text(), what.parameters());
    co_await Mode::drive(request, on->deadline());
    if (on->opened().is_open()) on->note_opened(what.text(), what.parameters(), request.reply());
    conversion rows(*on, request.reply(), target.sink());
    co_await Mode::drive(rows, instant::max());
    co_return target.take();
}

template <class Mode, class Target, class Statement, class... To>
result_in<Mode, typename Target::outcome> execute_prepared(std::shared_ptr<session> on,
                                                           statement prepared, Statement what,
                                                           To... to) {
    Target target(std::move(to)...);
    std::string name = name_in(*on, prepared);
    conversation request(on, conversation::origin::borrower);
    request.execute(name, what.parameters());
    co_await Mode::drive(request, on->deadline());
    conversion rows(*on, request.reply(), target.sink());
    co_await Mode::drive(rows, instant::max());
    co_return target.take();
}

template <class Mode, class Text>
result_in<Mode, statement> prepare(std::shared_ptr<session> on, Text text) {
    on->opened().refuse("prepare()");
    std::size_t number = on->next_statement();
    conversation request(on, conversation::origin::borrower);
    request.prepare(name_of(number), text);
    co_await Mode::drive(request, on->deadline());
    co_return on->named(number);
}

}  // namespace

sql::result session::execute(std::string_view text, std::span<const sql::parameter> parameters) {
    statement_view what(text, parameters);
    return postgres::execute<blocking, into_result>(shared_from_this(), what).get();
}

asio::awaitable<sql::result> session::async_execute(sql::bound_statement what) {
    return postgres::execute<awaited, into_result>(shared_from_this(), std::move(what));
}

statement session::prepare(std::string_view text) {
    return postgres::prepare<blocking>(shared_from_this(), text).get();
}

asio::awaitable<statement> session::async_prepare(std::string text) {
    return postgres::prepare<awaited>(shared_from_this(), std::move(text));
}

sql::result session::execute(const statement& prepared,
                             std::span<const sql::parameter> parameters) {
    statement_view what({}, parameters);
    return execute_prepared<blocking, into_result>(shared_from_this(), prepared, what).get();
}

asio::awaitable<sql::result> session::async_execute(statement prepared, sql::bound_statement what) {
    return execute_prepared<awaited, into_result>(shared_from_this(), prepared, std::move(what));
}

void session::execute_into(std::string_view text, std::span<const sql::parameter> parameters,
                           sql::row_sink& to) {
    statement_view what(text, parameters);
    postgres::execute<blocking, into_sink>(shared_from_this(), what, &to).get();
}

asio::awaitable<void> session::async_execute_into(sql::bound_statement what,
                                                  std::shared_ptr<sql::row_sink> to) {
    return postgres::execute<awaited, into_kept_sink>(shared_from_this(), std::move(what),
                                                      std::move(to));
}

void session::execute_into(const statement& prepared, std::span<const sql::parameter> parameters,
                           sql::row_sink& to) {
    statement_view what({}, parameters);
    execute_prepared<blocking, into_sink>(shared_from_this(), prepared, what, &to).get();
}

asio::awaitable<void> session::async_execute_into(statement prepared, sql::bound_statement what,
                                                  std::shared_ptr<sql::row_sink> to) {
    return execute_prepared<awaited, into_kept_sink>(shared_from_this(), prepared, std::move(what),
                                                     std::move(to));
}

// Cursors.

namespace {

/// The rows of a cursor are one conversation, which an error or a cancellation ends.
class rows final : public sql::detail::rows, public std::enable_shared_from_this<rows> {
public:
    explicit rows(std::shared_ptr<session> on) : on_(std::move(on)) {
        conversation_.emplace(on_, conversation::origin::borrower);
    }
    ~rows() override {
        if (conversation_) conversation_->drained();
    }
    rows(const rows&) = delete;
    rows& operator=(const rows&) = delete;

    /// Returns when the first row has come.
    template <class Mode, class Statement>
    static result_in<Mode, cursor> begin(std::shared_ptr<session> on, Statement what) {
        on->opened().refuse("stream()");
        auto begun = std::make_shared<rows>(std::move(on));
        begun->conversation_->query(what.text(), what.parameters());
        begun->conversation_->row_by_row();
        co_await begun->wait<Mode>();
        co_return cursor(std::move(begun));
    }

    std::optional<sql::row> next() override {
        next_into(own_);
        return own_.take();
    }
    asio::awaitable<std::optional<sql::row>> async_next() override {
        return async_next_row(shared_from_this());
    }
    bool next_into(sql::row_sink& to) override {
        return next_of<blocking>(shared_from_this(), &to).get();
    }
    asio::awaitable<bool> async_next_into(std::shared_ptr<sql::row_sink> to) override {
        return next_of<awaited>(shared_from_this(), std::move(to));
    }

private:
    static asio::awaitable<std::optional<sql::row>> async_next_row(std::shared_ptr<rows> of) {
        co_await next_of<awaited>(of, &of->own_);
        co_return of->own_.take();
    }
    /// `Sink`: a pointer of any kind.
    template <class Mode, class Sink>
    static result_in<Mode, bool> next_of(std::shared_ptr<rows> of, Sink to) {
        if (!of->conversation_) co_return false;
        co_await of->wait<Mode>();
        co_return of->take(*to);
    }
    template <class Mode>
    result_in<Mode, void> wait() {
        try {
            co_await Mode::drive(*conversation_, on_->deadline());
        } catch (...) {
            conversation_.reset();
            throw;
        }
    }
    /// Gives the row that has come to a sink. False at the end.
    bool take(sql::row_sink& to) {
        try {
            row_ = conversation_->take_row();
            const PGresult* reply = row_ == nullptr ? conversation_->reply() : row_.get();
            if (!reader_ && reply != nullptr) reader_.emplace(reply);
            if (!to.begun() && reply != nullptr) begin(to, reply);
            if (row_ != nullptr) to.row(reader_->row(row_.get(), 0));
            else conversation_.reset();
            return row_ != nullptr;
        } catch (...) {
            conversation_.reset();
            throw;
        }
    }
    /// The names are those of the present reply.
    static void begin(sql::row_sink& to, const PGresult* reply) {
        to.begin(detail::cell_reader(reply).columns(), 0);
    }

    std::shared_ptr<session> on_;
    std::optional<conversation> conversation_;  // until its end
    std::optional<detail::cell_reader> reader_;
    detail::result_ptr row_;  // what cells refer to
    next_row own_;
};

}  // namespace

cursor session::stream(std::string_view text, std::span<const sql::parameter> parameters) {
    statement_view what(text, parameters);
    return rows::begin<blocking>(shared_from_this(), what).get();
}

asio::awaitable<cursor> session::async_stream(sql::bound_statement what) {
    return rows::begin<awaited>(shared_from_this(), std::move(what));
}

// Opening.

namespace {

std::uint16_t port_of(const url::host& h) { return h.port == 0 ? 5432 : h.port; }

/// Which addresses to try, in which order.
class attempt_list {
public:
    explicit attempt_list(std::shared_ptr<const options> settings)
        : settings_(std::move(settings)) {}

    void add(const url::host& h, const std::vector<address>& found) {
        for (const address& a : found)
            add_one(h, h.name.starts_with('/') ? "" : connector_detail::numeric_host(a));
    }
    /// The lookup of one host has failed; the other hosts may do.
    void note_unknown(std::exception_ptr why) { unknown_ = std::move(why); }

    /// Throws if there is none.
    std::vector<attempt> all() const {
        if (there_.empty()) std::rethrow_exception(unknown_);
        std::vector<attempt> list = there_;
        if (settings_->role_of_server != server_role::prefer_standby) return list;
        for (attempt& a : list) a.wanted = server_role::standby;
        list.insert(list.end(), there_.begin(), there_.end());
        return list;
    }

private:
    void add_one(const url::host& h, std::string numeric_address) {
        server_role wanted = settings_->role_of_server;
        if (wanted == server_role::prefer_standby) wanted = server_role::any;
        there_.push_back({.host = h.name,
                          .address = std::move(numeric_address),
                          .port = std::to_string(port_of(h)),
                          .tls = detail::effective_tls(*settings_, h.name),
                          .wanted = wanted});
    }

    std::shared_ptr<const options> settings_;
    std::vector<attempt> there_;
    std::exception_ptr unknown_;
};

template <class Mode>
result_in<Mode, std::vector<attempt>> look_up(std::shared_ptr<const options> settings) {
    attempt_list list(settings);
    for (const url::host& h : settings->hosts) {
        try {
            std::vector<address> found =
                co_await connector_detail::resolve<Mode>(h.name, port_of(h));
            list.add(h, found);
        } catch (const connection_error&) {
            list.note_unknown(std::current_exception());
        }
    }
    co_return list.all();
}

/// The connection was lost during the trial. The address deserves another attempt: after two lost
/// trials servers_tried has an answer without a trial.
class lost_in_trial : public connection_error {
public:
    using connection_error::connection_error;
};

/// Whether to go on with the rest of the list after a failed open. A wrong password is wrong
/// everywhere.
bool goes_on_after(const connection_error& e, std::vector<attempt>& list, std::size_t at) {
    if (dynamic_cast<const login_refused*>(&e) != nullptr) return false;
    if (dynamic_cast<const lost_in_trial*>(&e) != nullptr) {
        attempt same = list.at(at);
        list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), std::move(same));
        return true;
    }
    return list.size() - at > 1 && e.kind() != error_kind::final;
}

/// Tries, once for each server, whether a reset can go with the next request.
template <class Mode>
result_in<Mode, void> choose_reset_mode(std::shared_ptr<session> on,
                                        std::shared_ptr<detail::servers_tried> known,
                                        instant deadline) {
    if (on->mode() != reset_mode::with_next) co_return;
    const std::string where = std::string(PQhost(on->handle())) + ":" + PQport(on->handle());
    std::optional<bool> works = known->resets_with_next(where);
    if (!works) {
        reset_trial trial(on);
        try {
            co_await Mode::drive(trial, deadline);
        } catch (const connection_error& e) {
            known->note_lost(where);
            throw lost_in_trial(error_kind::transient, e.what(), e.sqlstate());
        }
        works = trial.works();
        known->note(where, *works);
    }
    if (!*works) on->set_mode(reset_mode::at_release);
}

template <class Mode>
result_in<Mode, login> find_login(std::shared_ptr<const options> settings,
                                  std::shared_ptr<user_threads> threads) {
    login by;
    by.who = co_await connector_detail::find_credentials<Mode>(settings, std::move(threads));
    if (settings->passfile.empty()) co_return by;
    if constexpr (std::is_same_v<Mode, awaited>) {
        auto call = [settings] { return detail::text_of_passfile(*settings); };
        by.passfile = co_await connector_detail::async_run_function(std::move(call));
    } else {
        by.passfile = detail::text_of_passfile(*settings);
    }
    co_return by;
}

template <class Mode>
result_in<Mode, std::shared_ptr<session>> open_as(std::shared_ptr<const options> settings,
                                                  std::shared_ptr<detail::servers_tried> known,
                                                  login by, instant deadline) {
    std::vector<attempt> list = co_await look_up<Mode>(settings);
    for (std::size_t i = 0;; ++i) {
        std::size_t left = list.size() - i;
        try {
            opening one(settings, list.at(i), by);
            co_await Mode::drive(one, share_of(deadline, left));
            std::shared_ptr<session> made = one.take();
            co_await choose_reset_mode<Mode>(made, known, share_of(deadline, left));
            co_return made;
        } catch (const connection_error& e) {
            if (!goes_on_after(e, list, i)) throw;
        }
    }
}

/// Has the source of the credentials asked once more if the server refuses them: they may have
/// changed meanwhile.
template <class Mode>
result_in<Mode, std::shared_ptr<session>> log_in(std::shared_ptr<const options> settings,
                                                 std::shared_ptr<detail::servers_tried> known,
                                                 std::shared_ptr<logins> past, instant* until) {
    for (bool again = false;; again = true) {
        login by = co_await find_login<Mode>(settings, past->threads());
        const credentials sent = by.sent();
        past->check(sent);
        *until = deadline_after(settings->connect_timeout);
        try {
            co_return co_await open_as<Mode>(settings, known, by, *until);
        } catch (const login_refused& e) {
            past->note_refused(sent, e);
            if (again) throw;
        }
    }
}

template <class Mode>
result_in<Mode, void> reset(std::shared_ptr<session> on, instant until) {
    on->take_over_pending_reset();
    scripts most(on, on->reset_statements());
    co_await Mode::drive(most, until);
    if (!on->reset_succeeded(most.reply())) {
        scripts all(on, {detail::discard_all});
        co_await Mode::drive(all, until);
        on->forget_kept();
    }
    if (on->repeats_on_open()) {
        conversation again(on, conversation::origin::connector);
        again.repeat_on_open();
        co_await Mode::drive(again, until);
    }
    on->note_reset();
}

/// Through a pooler, what on_open sets would reach the sessions of other clients. Where resets go
/// with the next request, the trial has shown that there is none.
template <class Mode>
result_in<Mode, void> refuse_pooler(std::shared_ptr<session> on, instant until) {
    bool direct = on->mode() == reset_mode::with_next;
    if (!direct) direct = co_await is_direct<Mode>(on, until);
    if (!direct)
        throw connection_error(error_kind::final,
                               "cenote: PostgreSQL: on_open needs a direct connection to the "
                               "server, because a pooler would give the session to other clients, "
                               "too");
}

/// After on_open the session is reset, so that the first lease finds the same as all others, and a
/// statement that cannot be repeated fails the open.
template <class Mode>
result_in<Mode, void> set_up(std::shared_ptr<const options> settings,
                             std::shared_ptr<connection> on, std::shared_ptr<session> of,
                             std::shared_ptr<user_threads> threads, instant until) {
    if (!connector_detail::has_on_open(*settings)) co_return;
    co_await refuse_pooler<Mode>(of, until);
    of->note_on_open_begins(until);
    co_await connector_detail::call_on_open<Mode>(settings, std::move(on), std::move(threads),
                                                  until);
    co_await reset<Mode>(of, until);
    of->note_on_open_ended();
}

/// `wrap`: makes a connection of a session.
template <class Mode, class Wrap>
result_in<Mode, connection> open(std::shared_ptr<const options> settings,
                                 std::shared_ptr<detail::servers_tried> known,
                                 std::shared_ptr<logins> past, Wrap wrap) {
    instant until{};
    std::shared_ptr<session> made = co_await log_in<Mode>(settings, known, past, &until);
    std::shared_ptr<connection> on = wrap(made);
    co_await set_up<Mode>(settings, on, made, past->threads(), until);
    co_return std::move(*on);
}

}  // namespace

// Connectors.

namespace {

bool must_have_role(const session& s) {
    server_role wanted = s.settings().role_of_server;
    return wanted != server_role::any && wanted != server_role::prefer_standby;
}

/// What a probe sends: the statement of the options, and then the question for the role. Without
/// both an empty statement.
std::vector<const char*> probe_statements(const session& s) {
    std::vector<const char*> all;
    if (!s.settings().probe.empty() || !must_have_role(s))
        all.push_back(s.settings().probe.c_str());
    if (must_have_role(s))
        all.push_back(
            "select pg_catalog.pg_is_in_recovery(), "
            "pg_catalog.current_setting('default_transaction_read_only') operator(pg_catalog.=) "
            "'on'");
    return all;
}

bool has_wanted_role(const session& s, const PGresult* reply) {
    if (!must_have_role(s) || PQntuples(reply) == 0) return true;
    std::vector<sql::value> answer = detail::row_of(reply, 0);
    bool standby = answer.at(0).as<bool>();
    bool read_only = standby || answer.at(1).as<bool>();
    switch (s.settings().role_of_server) {
        case server_role::read_write: return !read_only;
        case server_role::read_only: return read_only;
        case server_role::primary: return !standby;
        case server_role::standby: return standby;
        case server_role::any:
        case server_role::prefer_standby: break;
    }
    return true;
}

template <class Mode>
result_in<Mode, bool> probe(std::shared_ptr<session> on) {
    scripts ask(on, probe_statements(*on));
    co_await Mode::drive(ask, on->deadline());
    co_return has_wanted_role(*on, ask.reply());
}

}  // namespace

std::string connector::endpoint() const {
    constexpr std::uint16_t usual_port = 5432;
    std::string text = "postgresql://";
    for (const url::host& each : settings_->hosts) {
        if (!text.ends_with('/')) text += ',';
        text += connector_detail::endpoint_of(each.name, each.port == 0 ? usual_port : each.port);
    }
    return settings_->database.empty() ? text : text + '/' + settings_->database;
}

connector::connector(options settings)
    : settings_(std::make_shared<const options>(std::move(settings))),
      known_(std::make_shared<detail::servers_tried>()),
      logins_(std::make_shared<logins>()) {
    detail::validate(*settings_);
}

connection connector::open() {
    auto wrap = [](const std::shared_ptr<session>& s) {
        return std::make_shared<connection>(connection(s));
    };
    return postgres::open<blocking>(settings_, known_, logins_, wrap).get();
}

bool connector::probe(connection& c) {
    return postgres::probe<blocking>(c.own().shared_from_this()).get();
}

void connector::reset(connection& c) {
    postgres::reset<blocking>(c.own().shared_from_this(), c.own().deadline()).get();
}

void connector::close(connection& c) noexcept { c.end(); }

bool connector::before_acquire(connection& c) noexcept {
    if (c.session_ == nullptr) return false;
    return c.own().condition().still_quiet() || c.own().quiet();
}

verdict connector::before_release(connection& c) noexcept {
    return c.session_ == nullptr ? verdict::discard : c.own().end_lease();
}

void connector::forsake(connection& c) noexcept {
    if (c.session_ != nullptr) c.own().forsake();
}

asio::awaitable<connection> async_connector::open() {
    auto wrap = [](const std::shared_ptr<session>& s) {
        return std::make_shared<connection>(connection(s));
    };
    return postgres::open<awaited>(blocking_.settings_, blocking_.known_, blocking_.logins_, wrap);
}

asio::awaitable<bool> async_connector::probe(connection& c) {
    return postgres::probe<awaited>(c.own().shared_from_this());
}

asio::awaitable<void> async_connector::reset(connection& c) {
    return postgres::reset<awaited>(c.own().shared_from_this(), c.own().deadline());
}

}  // namespace cenote::postgres
