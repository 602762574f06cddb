// The PostgreSQL connector: connections, cursors, connectors; each operation blocking and awaited.
#include "cenote/postgres.hpp"

#include <netdb.h>
#include <stdexcept>
#include <sys/socket.h>
#include <utility>

#include "connector/drive.hpp"
#include "connector/postgres_session.hpp"
#include "connector/socket.hpp"

namespace cenote::postgres {

namespace asio = boost::asio;

using connector_detail::address;
using connector_detail::async_drive;
using connector_detail::deadline_after;
using connector_detail::drive;
using connector_detail::instant;
using connector_detail::share_of;
using detail::attempt;
using detail::chores;
using detail::conversation;
using detail::conversion;
using detail::opening;
using detail::recurring;
using detail::session;
using detail::trial;

namespace {

/// As the server knows it.
std::string name_of(std::size_t number) { return "cenote_" + std::to_string(number); }

/// The same. Throws std::logic_error if it is not one of this session's.
std::string name_in(const session& s, const statement& prepared) {
    if (auto number = s.number_of(prepared)) return name_of(*number);
    throw std::logic_error(
        "cenote: a prepared statement was used on another connection, or in another lease, "
        "than it was made in");
}

asio::awaitable<sql::result> async_ask(std::shared_ptr<session> on, sql::bound_statement what) {
    recurring talk(on, what.text(), what.parameters());
    co_await async_drive(talk, on->deadline());
    conversion rows(*on, talk.reply());
    co_await async_drive(rows, instant::max());
    co_return rows.take();
}

asio::awaitable<sql::result> async_ask_prepared(std::shared_ptr<session> on, statement prepared,
                                                sql::bound_statement what) {
    std::string name = name_in(*on, prepared);
    conversation talk(on, conversation::of::borrower);
    talk.ask_prepared(name, what.parameters());
    co_await async_drive(talk, on->deadline());
    conversion rows(*on, talk.reply());
    co_await async_drive(rows, instant::max());
    co_return rows.take();
}

asio::awaitable<statement> async_make(std::shared_ptr<session> on, std::string text) {
    std::size_t number = on->next_statement();
    conversation talk(on, conversation::of::borrower);
    talk.prepare(name_of(number), text);
    co_await async_drive(talk, on->deadline());
    co_return on->named(number);
}

}  // namespace

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

/// Whatever is done with it is not seen.
pg_conn* lent(session& of) {
    of.condition().note_changed();
    of.note_own_settings();
    of.note_names_changed();
    of.note_lent();
    return of.handle();
}

asio::awaitable<pg_conn*> async_lend(std::shared_ptr<session> of) {
    if (of->owes()) {
        conversation talk(of, conversation::of::connector);
        talk.pay();
        co_await async_drive(talk, of->deadline());
    }
    co_return lent(*of);
}

}  // namespace

pg_conn* connection::native_handle() const {
    if (own().owes()) {
        conversation talk(own().shared_from_this(), conversation::of::connector);
        talk.pay();
        drive(talk, own().deadline());
    }
    return lent(own());
}

asio::awaitable<pg_conn*> connection::async_native_handle() const {
    return async_lend(own().shared_from_this());
}

// What a connection offers.

sql::result session::execute(std::string_view text, std::span<const sql::parameter> parameters) {
    recurring talk(shared_from_this(), text, parameters);
    drive(talk, deadline());
    conversion rows(*this, talk.reply());
    drive(rows, instant::max());
    return rows.take();
}

asio::awaitable<sql::result> session::async_execute(sql::bound_statement what) {
    return async_ask(shared_from_this(), std::move(what));
}

statement session::prepare(std::string_view text) {
    std::size_t number = next_statement();
    conversation talk(shared_from_this(), conversation::of::borrower);
    talk.prepare(name_of(number), text);
    drive(talk, deadline());
    return named(number);
}

asio::awaitable<statement> session::async_prepare(std::string text) {
    return async_make(shared_from_this(), std::move(text));
}

sql::result session::execute(const statement& prepared,
                             std::span<const sql::parameter> parameters) {
    std::string name = name_in(*this, prepared);
    conversation talk(shared_from_this(), conversation::of::borrower);
    talk.ask_prepared(name, parameters);
    drive(talk, deadline());
    conversion rows(*this, talk.reply());
    drive(rows, instant::max());
    return rows.take();
}

asio::awaitable<sql::result> session::async_execute(statement prepared, sql::bound_statement what) {
    return async_ask_prepared(shared_from_this(), prepared, std::move(what));
}

// Cursors.

namespace {

/// All of them are one conversation.
class rows final : public sql::detail::rows, public std::enable_shared_from_this<rows> {
public:
    explicit rows(std::shared_ptr<session> on) : on_(std::move(on)) {
        talk_.emplace(on_, conversation::of::borrower);
    }
    ~rows() override {
        if (talk_) talk_->drained();
    }
    rows(const rows&) = delete;
    rows& operator=(const rows&) = delete;

    /// Returns when the first one has come.
    void begin(std::string_view text, std::span<const sql::parameter> parameters) {
        ask(text, parameters);
        try {
            drive(*talk_, on_->deadline());
        } catch (...) {
            talk_.reset();
            throw;
        }
    }
    static asio::awaitable<cursor> async_begin(std::shared_ptr<session> on,
                                               sql::bound_statement what) {
        auto begun = std::make_shared<rows>(std::move(on));
        begun->ask(what.text(), what.parameters());
        try {
            co_await async_drive(*begun->talk_, begun->on_->deadline());
        } catch (...) {
            begun->talk_.reset();
            throw;
        }
        co_return cursor(std::move(begun));
    }

    std::optional<sql::row> next() override {
        if (!talk_) return std::nullopt;
        try {
            drive(*talk_, on_->deadline());
            return take();
        } catch (...) {
            talk_.reset();
            throw;
        }
    }
    asio::awaitable<std::optional<sql::row>> async_next() override {
        return async_next_of(shared_from_this());
    }

private:
    void ask(std::string_view text, std::span<const sql::parameter> parameters) {
        talk_->ask(text, parameters);
        talk_->row_by_row();
    }
    /// Whatever ends it early ends the conversation.
    static asio::awaitable<std::optional<sql::row>> async_next_of(std::shared_ptr<rows> of) {
        if (!of->talk_) co_return std::nullopt;
        try {
            co_await async_drive(*of->talk_, of->on_->deadline());
            co_return of->take();
        } catch (...) {
            of->talk_.reset();
            throw;
        }
    }
    /// The row that has come, if it was not the end.
    std::optional<sql::row> take() {
        detail::result_ptr one = talk_->take_row();
        if (one == nullptr) {
            talk_.reset();
            return std::nullopt;
        }
        if (columns_ == nullptr) columns_ = detail::columns_of(one.get());
        return sql::row(columns_, detail::row_of(one.get(), 0));
    }

    std::shared_ptr<session> on_;
    std::optional<conversation> talk_;  // until its end
    std::shared_ptr<const sql::column_names> columns_;
};

}  // namespace

cursor session::stream(std::string_view text, std::span<const sql::parameter> parameters) {
    auto begun = std::make_shared<rows>(shared_from_this());
    begun->begin(text, parameters);
    return cursor(std::move(begun));
}

asio::awaitable<cursor> session::async_stream(sql::bound_statement what) {
    return rows::async_begin(shared_from_this(), std::move(what));
}

// Opening.

namespace {

std::string numeric(const address& a) {
    char host[NI_MAXHOST];
    const auto* at = reinterpret_cast<const sockaddr*>(&a.bytes);
    int error = ::getnameinfo(at, a.size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
    if (error != 0)
        throw connection_error(error_kind::transient, "cenote: PostgreSQL: a host has no address");
    return host;
}

std::uint16_t port_of(const url::host& h) { return h.port == 0 ? 5432 : h.port; }

/// Which addresses to try, in which order.
class itinerary {
public:
    explicit itinerary(std::shared_ptr<const options> settings) : settings_(std::move(settings)) {}

    void add(const url::host& h, const std::vector<address>& found) {
        for (const address& a : found) add_one(h, h.name.starts_with('/') ? "" : numeric(a));
    }
    /// One of several hosts cannot be found: the others may do.
    void note_unknown(std::exception_ptr why) { unknown_ = std::move(why); }

    /// Where to go. Throws if there is nowhere.
    std::vector<attempt> all() const {
        if (there_.empty()) std::rethrow_exception(unknown_);
        std::vector<attempt> list = there_;
        if (settings_->role_of_server != server_role::prefer_standby) return list;
        for (attempt& a : list) a.wanted = server_role::standby;
        list.insert(list.end(), there_.begin(), there_.end());
        return list;
    }

private:
    void add_one(const url::host& h, std::string numbers) {
        server_role wanted = settings_->role_of_server;
        if (wanted == server_role::prefer_standby) wanted = server_role::any;
        there_.push_back({.host = h.name,
                          .address = std::move(numbers),
                          .port = std::to_string(port_of(h)),
                          .tls = detail::effective_tls(*settings_, h.name),
                          .wanted = wanted});
    }

    std::shared_ptr<const options> settings_;
    std::vector<attempt> there_;
    std::exception_ptr unknown_;
};

std::vector<attempt> look_up(const std::shared_ptr<const options>& settings) {
    itinerary found(settings);
    for (const url::host& h : settings->hosts) {
        try {
            found.add(h, connector_detail::resolve(h.name, port_of(h)));
        } catch (const connection_error&) {
            found.note_unknown(std::current_exception());
        }
    }
    return found.all();
}

asio::awaitable<std::vector<attempt>> async_look_up(std::shared_ptr<const options> settings) {
    itinerary found(settings);
    for (const url::host& h : settings->hosts) {
        try {
            std::vector<address> at = co_await connector_detail::async_resolve(h.name, port_of(h));
            found.add(h, at);
        } catch (const connection_error&) {
            found.note_unknown(std::current_exception());
        }
    }
    co_return found.all();
}

/// The same address is worth another try: after two of these it is not tried out any more.
class lost_in_trial : public connection_error {
public:
    using connection_error::connection_error;
};

/// Whether to go on after an open that has failed, with what is left of the list. A wrong password
/// is wrong everywhere.
bool goes_on_after(const connection_error& e, std::vector<attempt>& list, std::size_t at) {
    if (dynamic_cast<const lost_in_trial*>(&e) != nullptr) {
        attempt same = list.at(at);
        list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), std::move(same));
        return true;
    }
    return list.size() - at > 1 && e.kind() != error_kind::final;
}

/// Tries out, once for each server, whether resets may go with the next request.
class introduction {
public:
    introduction(std::shared_ptr<detail::servers_tried> known, std::shared_ptr<session> to)
        : known_(std::move(known)), to_(std::move(to)) {
        where_ = std::string(PQhost(to_->handle())) + ":" + PQport(to_->handle());
        if (to_->mode() != reset_mode::with_next) return;
        std::optional<bool> before = known_->resets_with_next(where_);
        if (before) settle(*before);
        else trial_.emplace(to_);
    }

    /// To be driven, if it is there.
    trial* steps() { return trial_ ? &*trial_ : nullptr; }
    void note_done() {
        known_->note(where_, trial_->well());
        settle(trial_->well());
    }
    /// As if it could not be opened.
    [[noreturn]] void note_lost(const connection_error& e) {
        known_->note_lost(where_);
        throw lost_in_trial(error_kind::transient, e.what(), e.sqlstate());
    }

private:
    void settle(bool well) {
        if (!well) to_->set_mode(reset_mode::at_release);
    }

    std::shared_ptr<detail::servers_tried> known_;
    std::shared_ptr<session> to_;
    std::string where_;
    std::optional<trial> trial_;
};

void introduce(std::shared_ptr<detail::servers_tried> known, const std::shared_ptr<session>& to,
               instant deadline) {
    introduction one(std::move(known), to);
    if (one.steps() == nullptr) return;
    try {
        drive(*one.steps(), deadline);
    } catch (const connection_error& e) {
        one.note_lost(e);
    }
    one.note_done();
}

asio::awaitable<void> async_introduce(std::shared_ptr<detail::servers_tried> known,
                                      std::shared_ptr<session> to, instant deadline) {
    introduction one(std::move(known), to);
    if (one.steps() == nullptr) co_return;
    try {
        co_await async_drive(*one.steps(), deadline);
    } catch (const connection_error& e) {
        one.note_lost(e);
    }
    one.note_done();
}

asio::awaitable<std::shared_ptr<session>> async_open(std::shared_ptr<const options> settings,
                                                     std::shared_ptr<detail::servers_tried> known) {
    instant deadline = deadline_after(settings->connect_timeout);
    std::vector<attempt> list = co_await async_look_up(settings);
    for (std::size_t i = 0;; ++i) {
        std::size_t left = list.size() - i;
        try {
            opening one(settings, list.at(i));
            co_await async_drive(one, share_of(deadline, left));
            std::shared_ptr<session> made = one.take();
            co_await async_introduce(known, made, share_of(deadline, left));
            co_return made;
        } catch (const connection_error& e) {
            if (!goes_on_after(e, list, i)) throw;
        }
    }
}

}  // namespace

// Connectors.

connector::connector(options settings)
    : settings_(std::make_shared<const options>(std::move(settings))),
      known_(std::make_shared<detail::servers_tried>()) {
    detail::validate(*settings_);
}

connection connector::open() {
    instant deadline = deadline_after(settings_->connect_timeout);
    std::vector<attempt> list = look_up(settings_);
    for (std::size_t i = 0;; ++i) {
        std::size_t left = list.size() - i;
        try {
            opening one(settings_, list.at(i));
            drive(one, share_of(deadline, left));
            std::shared_ptr<session> made = one.take();
            introduce(known_, made, share_of(deadline, left));
            return connection(std::move(made));
        } catch (const connection_error& e) {
            if (!goes_on_after(e, list, i)) throw;
        }
    }
}

namespace {

/// What a probe asks: nothing, where any server will do.
std::vector<const char*> probing(const session& s) {
    server_role wanted = s.settings().role_of_server;
    if (wanted == server_role::any || wanted == server_role::prefer_standby) return {""};
    return {
        "select pg_catalog.pg_is_in_recovery(), "
        "pg_catalog.current_setting('default_transaction_read_only') operator(pg_catalog.=) "
        "'on'"};
}

bool is_wanted(const session& s, const PGresult* reply) {
    if (PQntuples(reply) == 0) return true;
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

/// The number of the server's process. libpq was told one, too.
constexpr const char* whose = "select pg_catalog.pg_backend_pid()";
constexpr const char* only_reads = "set session characteristics as transaction read only";

asio::awaitable<void> async_only_read(std::shared_ptr<session> on) {
    instant until = on->deadline();
    if (!on->direct()) {
        chores ask(on, {whose});
        co_await async_drive(ask, until);
        on->note_process(ask.reply());
    }
    if (!*on->direct()) co_return;
    on->note_only_reads();
    chores set(on, {only_reads});
    co_await async_drive(set, until);
}

asio::awaitable<bool> async_probe(std::shared_ptr<session> on) {
    chores ask(on, probing(*on));
    co_await async_drive(ask, on->deadline());
    co_return is_wanted(*on, ask.reply());
}

asio::awaitable<void> async_reset(std::shared_ptr<session> on) {
    instant until = on->deadline();
    on->take_over_debt();
    chores ask(on, on->undoing());
    co_await async_drive(ask, until);
    if (!on->is_undone(ask.reply())) {
        chores all(on, {detail::undo_all});
        co_await async_drive(all, until);
        on->forget_kept();
    }
    on->note_reset();
}

}  // namespace

void connection::only_read() {
    session& s = own();
    instant until = s.deadline();
    if (!s.direct()) {
        chores ask(s.shared_from_this(), {whose});
        drive(ask, until);
        s.note_process(ask.reply());
    }
    if (!*s.direct()) return;
    s.note_only_reads();
    chores set(s.shared_from_this(), {only_reads});
    drive(set, until);
}

asio::awaitable<void> connection::async_only_read() {
    return postgres::async_only_read(own().shared_from_this());
}

bool connector::probe(connection& c) {
    chores ask(c.own().shared_from_this(), probing(c.own()));
    drive(ask, c.own().deadline());
    return is_wanted(c.own(), ask.reply());
}

void connector::reset(connection& c) {
    session& s = c.own();
    instant until = s.deadline();
    s.take_over_debt();
    chores ask(s.shared_from_this(), s.undoing());
    drive(ask, until);
    if (!s.is_undone(ask.reply())) {
        chores all(s.shared_from_this(), {detail::undo_all});
        drive(all, until);
        s.forget_kept();
    }
    s.note_reset();
}

void connector::close(connection& c) noexcept { c.end(); }

bool connector::before_acquire(connection& c) noexcept {
    if (c.session_ == nullptr) return false;
    return c.own().condition().still_quiet() || c.own().quiet();
}

verdict connector::before_release(connection& c) noexcept {
    return c.session_ == nullptr ? verdict::discard : c.own().leave();
}

void connector::forsake(connection& c) noexcept {
    if (c.session_ != nullptr) c.own().forsake();
}

asio::awaitable<connection> async_connector::open() {
    std::shared_ptr<session> made = co_await async_open(blocking_.settings_, blocking_.known_);
    co_return connection(std::move(made));
}

asio::awaitable<bool> async_connector::probe(connection& c) {
    return async_probe(c.own().shared_from_this());
}

asio::awaitable<void> async_connector::reset(connection& c) {
    return async_reset(c.own().shared_from_this());
}

}  // namespace cenote::postgres
