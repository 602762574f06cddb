// The handles that users have: a database, its scopes, its transactions.
#include "cenote/database.hpp"

#include <stdexcept>
#include <string>
#include <utility>

#include "database/operation.hpp"
#include "database/scope_connection.hpp"
#include "database/server.hpp"
#include "database/statement_task.hpp"
#include "database/topology.hpp"

namespace cenote {

namespace database_detail {

/// A transaction, shared by its handle and what is awaited. It is abandoned with the last of them.
class open_transaction final : public executor {
public:
    /// One that has ended.
    open_transaction() noexcept = default;
    open_transaction(std::shared_ptr<scope_connection> on, transaction_id which) noexcept
        : on_(std::move(on)), which_(which) {}
    ~open_transaction() override {
        if (active()) on_->abandon(which_);
    }

    bool active() const noexcept { return which_ != 0; }

    static cenote::transaction begun_by(const operation& o) {
        return cenote::transaction(std::make_shared<open_transaction>(o.on(), o.begun()));
    }

    /// Commits or rolls back.
    void end(operation::kind how) {
        operation o = in_this(how);
        drive(o);
        note_end();
    }
    static asio::awaitable<void> async_end(std::shared_ptr<open_transaction> it,
                                           operation::kind how) {
        operation o = it->in_this(how);
        co_await async_drive(&o);
        it->note_end();
    }

    cenote::transaction nest() {
        operation o = in_this(operation::kind::nest);
        drive(o);
        return begun_by(o);
    }
    static asio::awaitable<cenote::transaction> async_nest(std::shared_ptr<open_transaction> it) {
        operation o = it->in_this(operation::kind::nest);
        co_await async_drive(&o);
        co_return begun_by(o);
    }

private:
    std::shared_ptr<scope_connection> connection(const call& /*as*/) override {
        check_active();
        on_->check_innermost(which_);
        return on_;
    }
    operation in_this(operation::kind what) {
        check_active();
        return {on_, what, which_};
    }
    void check_active() const {
        if (!active())
            throw std::logic_error("cenote: the transaction has ended or was never started");
    }
    /// The connection may go back to its pool.
    void note_end() noexcept {
        which_ = 0;
        on_.reset();
    }

    std::shared_ptr<scope_connection> on_;
    transaction_id which_ = 0;  // 0: it has ended
};

namespace {

const std::shared_ptr<executor>& ended_transaction() {
    static const std::shared_ptr<executor> one = std::make_shared<open_transaction>();
    return one;
}

cenote::transaction begin(std::shared_ptr<scope_connection> on, const transaction_options& how) {
    operation o(std::move(on), how);
    drive(o);
    return open_transaction::begun_by(o);
}

asio::awaitable<cenote::transaction> async_begin(std::shared_ptr<scope_connection> on,
                                                 transaction_options how) {
    operation o(std::move(on), how);
    co_await async_drive(&o);
    co_return open_transaction::begun_by(o);
}

}  // namespace

// Statements.

std::shared_ptr<scope_connection> executor::run(task& what, std::string_view text,
                                                std::span<const sql::parameter> values,
                                                const call& as) {
    operation o(connection(as), what, text, values, as.idempotent);
    drive(o);
    return o.on();
}

asio::awaitable<std::shared_ptr<scope_connection>> executor::async_run(
    std::shared_ptr<executor> by, task* what, const sql::bound_statement* with, call as) {
    operation o(by->connection(as), *what, with->text(), with->parameters(), as.idempotent);
    co_await async_drive(&o);
    co_return o.on();
}

sql::result executor::execute(std::string_view text, std::span<const sql::parameter> values,
                              const call& as) {
    execution all;
    run(all, text, values, as);
    return all.take();
}

asio::awaitable<sql::result> executor::async_execute(std::shared_ptr<executor> by,
                                                     sql::bound_statement what, call as) {
    execution all;
    co_await async_run(std::move(by), &all, &what, as);
    co_return all.take();
}

void executor::execute_into(std::string_view text, std::span<const sql::parameter> values,
                            const call& as, const std::shared_ptr<sql::row_sink>& to) {
    mapping rows(to);
    run(rows, text, values, as);
}

asio::awaitable<void> executor::async_execute_into(std::shared_ptr<executor> by,
                                                   sql::bound_statement what, call as,
                                                   std::shared_ptr<sql::row_sink> to) {
    mapping rows(std::move(to));
    co_await async_run(std::move(by), &rows, &what, as);
}

sql::cursor executor::stream(std::string_view text, std::span<const sql::parameter> values,
                             const call& as) {
    streaming rows;
    std::shared_ptr<scope_connection> on = run(rows, text, values, as);
    return on->keep(rows.take());
}

asio::awaitable<sql::cursor> executor::async_stream(std::shared_ptr<executor> by,
                                                    sql::bound_statement what, call as) {
    streaming rows;
    std::shared_ptr<scope_connection> on = co_await async_run(std::move(by), &rows, &what, as);
    co_return on->keep(rows.take());
}

}  // namespace database_detail

using database_detail::executor;
using database_detail::make_server;
using database_detail::open_transaction;
using database_detail::operation;
using database_detail::role;
using database_detail::scope_connection;
using database_detail::server;
using database_detail::server_pool;
using database_detail::server_pool_ptr;
using database_detail::session_use;
using database_detail::topology;

namespace {

/// The executor of a handle as what it is: an open_transaction, a scope_connection or a topology.
template <class T>
std::shared_ptr<T> own(std::shared_ptr<executor> e) {
    return std::static_pointer_cast<T>(std::move(e));
}

}  // namespace

// Transaction.

transaction::transaction() noexcept : statements(database_detail::ended_transaction()) {}

transaction::transaction(std::shared_ptr<executor> open) noexcept : statements(std::move(open)) {}

transaction::transaction(transaction&& other) noexcept
    : statements(std::exchange(other.executor_, database_detail::ended_transaction())) {}

transaction& transaction::operator=(transaction&& other) noexcept {
    if (this != &other)
        executor_ = std::exchange(other.executor_, database_detail::ended_transaction());
    return *this;
}

transaction::~transaction() = default;

bool transaction::active() const noexcept { return own<open_transaction>(executor_)->active(); }
void transaction::commit() { own<open_transaction>(executor_)->end(operation::kind::commit); }
void transaction::rollback() { own<open_transaction>(executor_)->end(operation::kind::rollback); }
transaction transaction::begin() { return own<open_transaction>(executor_)->nest(); }

boost::asio::awaitable<void> transaction::awaited_commit() {
    return open_transaction::async_end(own<open_transaction>(executor_), operation::kind::commit);
}
boost::asio::awaitable<void> transaction::awaited_rollback() {
    return open_transaction::async_end(own<open_transaction>(executor_), operation::kind::rollback);
}
boost::asio::awaitable<transaction> transaction::awaited_begin() {
    return open_transaction::async_nest(own<open_transaction>(executor_));
}

// Scope.

scope::scope(std::shared_ptr<executor> connection) noexcept : statements(std::move(connection)) {}

transaction scope::begin(const transaction_options& how) {
    return database_detail::begin(own<scope_connection>(executor_), how);
}

boost::asio::awaitable<transaction> scope::awaited_begin(transaction_options how) {
    return database_detail::async_begin(own<scope_connection>(executor_), how);
}

bool scope::has_connection() const noexcept {
    return own<scope_connection>(executor_)->has_connection();
}
void scope::discard_at_end() noexcept { own<scope_connection>(executor_)->discard_at_end(); }

// Database.

namespace {

std::shared_ptr<scope_connection> new_connection(std::shared_ptr<executor> of, session_use use,
                                                 bool read_only, const database_detail::call& as) {
    std::shared_ptr<topology> servers = own<topology>(std::move(of));
    server_pool_ptr primary = servers->primary();
    return std::make_shared<scope_connection>(std::move(primary),
                                              read_only ? std::move(servers) : nullptr, use, as);
}

std::shared_ptr<topology> only(const server& to, const database_options& how) {
    return std::make_shared<topology>(std::make_shared<server_pool>(to, how.pool),
                                      std::vector<server_pool_ptr>());
}

}  // namespace

scope database_calls::scope(const scope_options& how, std::source_location at) {
    auto use = how.keeps_session ? session_use::session : session_use::replaceable;
    return cenote::scope(new_connection(executor_, use, how.read_only, {at, how_, setup_}));
}

transaction database_calls::begin(const transaction_options& how, std::source_location at) {
    return database_detail::begin(
        new_connection(executor_, session_use::statement, how.read_only, {at, how_, setup_}), how);
}

boost::asio::awaitable<transaction> database_calls::begin_in(std::shared_ptr<executor> in,
                                                             transaction_options how,
                                                             const database_detail::call& as) {
    return database_detail::async_begin(
        new_connection(std::move(in), session_use::statement, how.read_only, as), how);
}

database::database(std::shared_ptr<executor> servers) noexcept
    : database_calls(std::move(servers)) {}

database::database(std::string_view url, const database_options& how)
    : database(only(make_server(url, how), how)) {}
database::database(const sqlite::options& where, const database_options& how)
    : database(only(make_server(where, how), how)) {}
database::database(const postgres::options& where, const database_options& how)
    : database(only(make_server(where, how), how)) {}
database::database(const mariadb::options& where, const database_options& how)
    : database(only(make_server(where, how), how)) {}

std::shared_ptr<executor> database::with_replicas(const database_detail::place& primary,
                                                  const replicas& others,
                                                  const database_options& how) {
    server first = make_server(primary, how, role::primary);
    std::vector<server> rest;
    for (const auto& each : others.all_) {
        rest.push_back(make_server(*each, how, role::replica));
        if (rest.back().dialect() != first.dialect())
            throw std::invalid_argument(
                "cenote: a replica is a server of another kind than the primary");
    }
    std::vector<server_pool_ptr> pools;
    pools.reserve(rest.size());
    for (const server& each : rest)
        pools.push_back(make_replica_pool(each, how.pool, pools.size() + 1));
    return std::make_shared<topology>(std::make_shared<server_pool>(first, how.pool),
                                      std::move(pools));
}

namespace {

template <class T>
std::string text_of(const T& value) {
    if constexpr (std::is_same_v<T, warm_up>) return "none";
    else if constexpr (std::is_arithmetic_v<T>) return std::to_string(value);
    else return std::to_string(value.count()) + " ns";
}

/// Refuses a value other than `kept`, which database::direct uses in any case. A default counts as
/// not set.
template <class T>
void refuse_other(const char* option, const T& value, const T& usual,
                  const std::type_identity_t<T>& kept) {
    if (value == usual || value == kept) return;
    throw invalid_option(option, text_of(value),
                         "has no effect on database::direct, which keeps one connection");
}

void refuse_ignored_options(const options& how) {
    const options usual;
    refuse_other("max", how.max, usual.max, 1);
    refuse_other("min_size", how.min_size, usual.min_size, 1);
    refuse_other("min_idle", how.min_idle, usual.min_idle, 0);
    refuse_other("warm_up", how.warm_up, usual.warm_up, warm_up::wait);
    refuse_other("idle_timeout", how.idle_timeout, usual.idle_timeout, forever);
    refuse_other("max_lifetime", how.max_lifetime, usual.max_lifetime, forever);
    refuse_other("lifetime_jitter", how.lifetime_jitter, usual.lifetime_jitter, 0);
    refuse_other("max_uses", how.max_uses, usual.max_uses, forever);
}

}  // namespace

/// A pool of one connection, which is opened at once and never retired.
database_options database::one_connection(database_options how) {
    refuse_ignored_options(how.pool);
    how.pool.max = 1;
    how.pool.min_size = 1;
    how.pool.min_idle = 0;
    how.pool.warm_up = warm_up::wait;
    how.pool.idle_timeout = forever;
    how.pool.max_lifetime = forever;
    how.pool.max_uses = forever;
    return how;
}

database_view database::with(const use_options& how) const {
    acquire_options acquire{.timeout = how.timeout,
                            .deadline = how.deadline,
                            .stop = how.stop,
                            .priority = how.priority,
                            .queue = how.queue,
                            .task = how.task,
                            .leak_after = how.leak_after,
                            .trace = how.trace};
    bool sets_up = !how.role.empty() || how.settings.size() > 0 || !how.setting_list.empty() ||
                   how.statement_timeout;
    if (!sets_up) return {executor_, acquire};
    auto setup = std::make_shared<sql::lease_setup>();
    setup->role = how.role;
    setup->statement_timeout = how.statement_timeout;
    for (const setting& each : how.settings) setup->settings.emplace_back(each.name, each.value);
    for (const setting& each : how.setting_list)
        setup->settings.emplace_back(each.name, each.value);
    return {executor_, acquire, std::move(setup)};
}

database& database::operator=(database&& other) noexcept {
    if (this != &other) {
        if (executor_ != nullptr) own<topology>(executor_)->close();
        executor_ = std::move(other.executor_);
    }
    return *this;
}

database::~database() {
    if (executor_ != nullptr) own<topology>(executor_)->close();
}

notifications database::listen(const channel_list& channels, const listen_options& how,
                               std::source_location at) {
    std::shared_ptr<topology> servers = own<topology>(executor_);
    auto made = servers->listeners().make(servers->primary(), channels, how, at);
    listening_detail::listener::open(made);
    return notifications(std::move(made));
}

boost::asio::awaitable<notifications> database::listen_to(std::shared_ptr<executor> of,
                                                          channel_list channels, listen_options how,
                                                          std::source_location at) {
    std::shared_ptr<topology> servers = own<topology>(std::move(of));
    auto made = servers->listeners().make(servers->primary(), channels, how, at);
    co_await listening_detail::listener::async_open(made);
    co_return notifications(std::move(made));
}

stats database::stats() const {
    cenote::stats all;
    for (const cenote::stats& each : stats_of_each()) all += each;
    return all;
}

std::vector<stats> database::stats_of_each() const {
    return own<topology>(executor_)->stats_of_each();
}
std::vector<pool_control> database::controls() const {
    return own<topology>(executor_)->controls();
}

}  // namespace cenote
