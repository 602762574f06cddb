// The handles: a database, its scopes, its transactions.
#include "cenote/database.hpp"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

#include "cenote/mariadb.hpp"
#include "cenote/postgres.hpp"
#include "cenote/sqlite.hpp"
#include "database/held.hpp"
#include "database/places.hpp"
#include "database/server.hpp"
#include "database/store.hpp"

namespace cenote {

using database_detail::begun;
using database_detail::caller;
using database_detail::held;
using database_detail::part;
using database_detail::places;
using database_detail::server;
using database_detail::store;

namespace database_detail {

namespace {

[[noreturn]] void refuse_ended() {
    throw std::logic_error("cenote: the transaction has ended, or never begun");
}

/// Whom a transaction asks that has ended: nothing may run outside of it by mistake.
class nobody final : public asked {
public:
    sql::result execute(std::string_view, std::span<const sql::parameter>, const caller&) override {
        refuse_ended();
    }
    asio::awaitable<sql::result> async_execute(sql::bound_statement, caller) override {
        refuse_ended();
    }
    sql::cursor stream(std::string_view, std::span<const sql::parameter>, const caller&) override {
        refuse_ended();
    }
    asio::awaitable<sql::cursor> async_stream(sql::bound_statement, caller) override {
        refuse_ended();
    }
};

}  // namespace

struct begun {
    begun(std::shared_ptr<held> where, transaction_id number) noexcept
        : on(std::move(where)), which(number) {}
    ~begun() {
        if (which != 0) on->abandon(which);
    }
    begun(const begun&) = delete;
    begun& operator=(const begun&) = delete;

    /// Committed or rolled back. Its connection may go.
    void note_end() noexcept {
        which = 0;
        on.reset();
    }

    std::shared_ptr<held> on;
    transaction_id which;  // 0: it has ended
};

namespace {

/// Whom a transaction asks: what it holds, while it is the innermost one.
class asked_within final : public asked {
public:
    explicit asked_within(std::shared_ptr<begun> of) noexcept : of_(std::move(of)) {}

    sql::result execute(std::string_view text, std::span<const sql::parameter> values,
                        const caller& by) override {
        return innermost().execute(text, values, by);
    }
    asio::awaitable<sql::result> async_execute(sql::bound_statement what, caller by) override {
        return innermost().async_execute(std::move(what), by);
    }
    sql::cursor stream(std::string_view text, std::span<const sql::parameter> values,
                       const caller& by) override {
        return innermost().stream(text, values, by);
    }
    asio::awaitable<sql::cursor> async_stream(sql::bound_statement what, caller by) override {
        return innermost().async_stream(std::move(what), by);
    }

private:
    held& innermost() const {
        if (of_->which == 0) refuse_ended();
        of_->on->check_innermost(of_->which);
        return *of_->on;
    }

    std::shared_ptr<begun> of_;
};

const std::shared_ptr<asked>& no_transaction() {
    static const std::shared_ptr<asked> one = std::make_shared<nobody>();
    return one;
}

/// How often a statement is run that may be.
constexpr int tries = 3;

/// Whether it is worth another one.
bool may_run_again(const connection_error& e) {
    bool for_good = dynamic_cast<const transaction_lost*>(&e) != nullptr ||
                    dynamic_cast<const session_lost*>(&e) != nullptr;
    return !for_good && e.kind() != error_kind::timed_out;
}

/// It has only met another one: a serialization failure, a deadlock, a lock of SQLite's.
bool is_collision(const server_error& e) {
    if (!e.sqlstate().empty()) return e.sqlstate() == "40001" || e.sqlstate() == "40P01";
    constexpr int busy = 5;
    constexpr int locked = 6;
    int code = e.code() & 0xff;
    return e.kind() == error_kind::statement && (code == busy || code == locked);
}

bool is_collision(const std::exception_ptr& failed) {
    try {
        std::rethrow_exception(failed);
    } catch (const server_error& e) {
        return is_collision(e);
    } catch (...) {
        return false;
    }
}

/// Between half of it and all of it, so that those who have met do not meet again.
std::chrono::nanoseconds drawn(std::chrono::nanoseconds pause) {
    static thread_local std::minstd_rand dice(std::random_device{}());
    std::uniform_real_distribution<double> share(0.5, 1.0);
    return std::chrono::nanoseconds(
        static_cast<std::int64_t>(static_cast<double>(pause.count()) * share(dice)));
}

}  // namespace

sql::result execute_again(asked& to, std::string_view text, std::span<const sql::parameter> values,
                          const caller& by) {
    for (int left = tries;;) {
        try {
            return to.execute(text, values, by);
        } catch (const connection_error& e) {
            if (--left == 0 || !may_run_again(e)) throw;
        }
    }
}

asio::awaitable<sql::result> async_execute_again(std::shared_ptr<asked> to,
                                                 sql::bound_statement what, caller by) {
    for (int left = tries;;) {
        try {
            sql::bound_statement once(what.text(), what.parameters());
            co_return co_await to->async_execute(std::move(once), by);
        } catch (const connection_error& e) {
            if (--left == 0 || !may_run_again(e)) throw;
        }
    }
}

std::optional<std::chrono::nanoseconds> attempts::pause_after(const std::exception_ptr& failed) {
    if (left_ == 0 || !is_collision(failed)) return std::nullopt;
    --left_;
    constexpr std::chrono::nanoseconds longest = std::chrono::seconds(1);
    std::chrono::nanoseconds now = drawn(pause_);
    pause_ = std::min(pause_ * 2, longest);
    return now;
}

bool attempts::again_after(const std::exception_ptr& failed) {
    std::optional<std::chrono::nanoseconds> pause = pause_after(failed);
    if (pause) std::this_thread::sleep_for(*pause);
    return pause.has_value();
}

asio::awaitable<void> wait_for(std::chrono::nanoseconds pause) {
    auto where = co_await asio::this_coro::executor;
    asio::steady_timer timer(where, pause);
    co_await timer.async_wait(asio::use_awaitable);
}

}  // namespace database_detail

// Transaction.

transaction::transaction() noexcept : statements(database_detail::no_transaction()) {}

transaction::transaction(std::shared_ptr<held> on, database_detail::transaction_id which)
    : begun_(std::make_shared<begun>(std::move(on), which)) {
    asked_ = std::make_shared<database_detail::asked_within>(begun_);
}

transaction::transaction(transaction&& other) noexcept
    : statements(std::exchange(other.asked_, database_detail::no_transaction())),
      begun_(std::move(other.begun_)) {}

transaction& transaction::operator=(transaction&& other) noexcept {
    if (this != &other) {
        begun_ = std::move(other.begun_);
        asked_ = std::exchange(other.asked_, database_detail::no_transaction());
    }
    return *this;
}

transaction::~transaction() = default;

bool transaction::active() const noexcept { return begun_ != nullptr && begun_->which != 0; }

namespace {

begun& open_one(const std::shared_ptr<begun>& of) {
    if (of == nullptr || of->which == 0) database_detail::refuse_ended();
    return *of;
}

// What is awaited may outlive the handle that it was asked of.

boost::asio::awaitable<void> commit_begun(std::shared_ptr<begun> of) {
    begun& one = open_one(of);
    co_await held::async_commit(one.on, one.which);
    one.note_end();
}

boost::asio::awaitable<void> roll_back_begun(std::shared_ptr<begun> of) {
    begun& one = open_one(of);
    co_await held::async_rollback(one.on, one.which);
    one.note_end();
}

boost::asio::awaitable<transaction> begin_within(std::shared_ptr<begun> of) {
    begun& one = open_one(of);
    co_return co_await held::async_begin_in(one.on, one.which);
}

}  // namespace

void transaction::commit() {
    begun& one = open_one(begun_);
    one.on->commit(one.which);
    one.note_end();
}

void transaction::rollback() {
    begun& one = open_one(begun_);
    one.on->rollback(one.which);
    one.note_end();
}

transaction transaction::begin() {
    begun& one = open_one(begun_);
    return one.on->begin_in(one.which);
}

boost::asio::awaitable<void> transaction::awaited_commit() { return commit_begun(begun_); }
boost::asio::awaitable<void> transaction::awaited_rollback() { return roll_back_begun(begun_); }
boost::asio::awaitable<transaction> transaction::awaited_begin() { return begin_within(begun_); }

// Scope.

scope::scope(std::shared_ptr<held> on) noexcept : statements(on), on_(std::move(on)) {}

cenote::transaction scope::begin(const transaction_options& how) { return on_->begin(how); }

boost::asio::awaitable<cenote::transaction> scope::awaited_begin(transaction_options how) {
    return held::async_begin(on_, how);
}

bool scope::has_connection() const noexcept { return on_->has_link(); }
void scope::discard_at_end() noexcept { on_->discard_at_end(); }

// Database.

namespace {

std::shared_ptr<places> only(std::shared_ptr<server> at, const database_options& how) {
    auto primary = std::make_shared<store>(std::move(at), how.pool);
    return std::make_shared<places>(std::move(primary), std::vector<std::shared_ptr<store>>{});
}

}  // namespace

database_calls::database_calls(std::shared_ptr<places> all, const acquire_options& how) noexcept
    : statements(all->primary(), how), places_(std::move(all)) {}

database::database(std::shared_ptr<places> all) : database_calls(std::move(all)) {}

database::database(std::string_view url, const database_options& how)
    : database(only(database_detail::server_of(url, how), how)) {}
database::database(const sqlite::options& where, const database_options& how)
    : database(only(database_detail::make_sqlite(where, how), how)) {}
database::database(const postgres::options& where, const database_options& how)
    : database(only(database_detail::make_postgres(where, how), how)) {}
database::database(const mariadb::options& where, const database_options& how)
    : database(only(database_detail::make_mariadb(where, how), how)) {}

std::shared_ptr<places> database::all_of(std::string_view primary, const replicas& others,
                                         const database_options& how) {
    std::shared_ptr<server> first = database_detail::server_of(primary, how, part::primary);
    std::vector<std::shared_ptr<server>> rest;
    for (const std::string& url : others.urls) {
        rest.push_back(database_detail::server_of(url, how, part::replica));
        if (rest.back()->speaks() != first->speaks())
            throw std::invalid_argument("cenote: a replica is another kind of database");
    }
    std::vector<std::shared_ptr<store>> readable;
    readable.reserve(rest.size());
    for (std::shared_ptr<server>& each : rest)
        readable.push_back(
            database_detail::replica_of(std::move(each), how.pool, readable.size() + 1));
    return std::make_shared<places>(std::make_shared<store>(std::move(first), how.pool),
                                    std::move(readable));
}

namespace {

/// `how` says something else than `kept`, which database::direct has in any case. The default of an
/// option counts as not set.
template <class T>
void refuse_other(const char* option, const T& how, const T& usual, const T& kept,
                  const std::string& text) {
    if (how == usual || how == kept) return;
    throw invalid_option(option, text,
                         "has no effect on database::direct, which keeps one connection");
}

void refuse_other(const char* option, std::uint64_t how, std::uint64_t usual, std::uint64_t kept) {
    refuse_other(option, how, usual, kept, std::to_string(how));
}

void refuse_other(const char* option, std::chrono::nanoseconds how,
                  std::chrono::nanoseconds usual) {
    refuse_other<std::chrono::nanoseconds>(option, how, usual, forever,
                                           std::to_string(how.count()) + " ns");
}

void refuse_what_direct_ignores(const options& how) {
    const options usual;
    refuse_other("max", how.max, usual.max, 1);
    refuse_other("min_size", how.min_size, usual.min_size, 1);
    refuse_other("min_idle", how.min_idle, usual.min_idle, 0);
    refuse_other("warm_up", how.warm_up, usual.warm_up, warm_up::wait, "none");
    refuse_other("idle_timeout", how.idle_timeout, usual.idle_timeout);
    refuse_other("max_lifetime", how.max_lifetime, usual.max_lifetime);
    refuse_other("lifetime_jitter", how.lifetime_jitter, usual.lifetime_jitter, 0.0,
                 std::to_string(how.lifetime_jitter));
    refuse_other("max_uses", how.max_uses, usual.max_uses, forever);
}

}  // namespace

/// A pool of one, which is there from the beginning and never changed for another that is as good.
database_options database::one_connection(database_options how) {
    refuse_what_direct_ignores(how.pool);
    how.pool.max = 1;
    how.pool.min_size = 1;
    how.pool.min_idle = 0;
    how.pool.warm_up = warm_up::wait;
    how.pool.idle_timeout = forever;
    how.pool.max_lifetime = forever;
    how.pool.max_uses = forever;
    return how;
}

database& database::operator=(database&& other) noexcept {
    if (this != &other) {
        if (places_ != nullptr) places_->close();
        asked_ = std::move(other.asked_);
        places_ = std::move(other.places_);
    }
    return *this;
}

database::~database() {
    if (places_ != nullptr) places_->close();
}

namespace {

std::shared_ptr<held> held_of(std::shared_ptr<places> among, held::use how, bool read_only,
                              const caller& by) {
    if (read_only) return std::make_shared<held>(std::move(among), how, by);
    return std::make_shared<held>(among->primary(), how, by);
}

}  // namespace

cenote::scope database_calls::scope(const scope_options& how, std::source_location at) {
    auto use = how.keeps_session ? held::use::session : held::use::any_session;
    return cenote::scope(held_of(places_, use, how.read_only, {at, how_}));
}

cenote::transaction database_calls::begin(const transaction_options& how, std::source_location at) {
    return held_of(places_, held::use::statements, how.read_only, {at, how_})->begin(how);
}

boost::asio::awaitable<cenote::transaction> database_calls::begin_in(std::shared_ptr<places> places,
                                                                     transaction_options how,
                                                                     database_detail::caller by) {
    return held::async_begin(held_of(std::move(places), held::use::statements, how.read_only, by),
                             how);
}

/// It is rolled back in any case: if not now, then as its connection comes back.
void database_calls::roll_back(cenote::transaction& t) noexcept {
    try {
        if (t.active()) t.rollback();
    } catch (...) {
        return;
    }
}

boost::asio::awaitable<void> database_calls::async_roll_back(cenote::transaction* t) {
    try {
        if (t->active()) co_await t->async_rollback();
    } catch (...) {
        co_return;
    }
}

stats database::stats() const {
    cenote::stats all;
    for (const cenote::stats& each : stats_of_each()) all += each;
    return all;
}

std::vector<cenote::stats> database::stats_of_each() const { return places_->stats_of_each(); }
std::vector<pool_control> database::controls() const { return places_->controls(); }

}  // namespace cenote
