// The customers of the bank, the threads that disturb them, and the audit.
#include "database/bank.hpp"

#include <array>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/error.hpp"
#include "database/canceling.hpp"
#include "support/patience.hpp"

namespace cenote::bank {

namespace {

namespace asio = boost::asio;

using asio::awaitable;
using conformance::is_cancellation;

constexpr int customers = 1000;
constexpr std::size_t connections = 10;
constexpr int threads = 2;
constexpr int accounts = 20;
constexpr std::int64_t at_first = 1000;
constexpr std::int64_t total = accounts * at_first;

/// So long that no acquire times out.
constexpr auto in_line = std::chrono::minutes(30);

/// A number from the environment, or a default.
std::uint64_t told(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::string said_by(const std::exception_ptr& e) {
    try {
        std::rethrow_exception(e);
    } catch (const server_error& s) {
        return std::string(s.what()) + " [" + std::string(s.sqlstate()) + ", " +
               std::to_string(s.code()) + "]";
    } catch (const std::exception& other) {
        return other.what();
    } catch (...) {
        return "something else";
    }
}

/// A conflict with another transaction: a serialization failure, a deadlock, a lock timeout.
bool is_collision(const statement_error& e) {
    constexpr int waited_too_long = 1205;  // of MariaDB
    constexpr int busy = 5;                // of SQLite
    if (e.sqlstate().empty()) return (e.code() & 0xff) == busy;
    return e.sqlstate() == "40001" || e.sqlstate() == "40P01" || e.code() == waited_too_long;
}

struct transfer {
    std::int64_t id = 0;
    int from = 0;
    int to = 0;
    std::int64_t amount = 0;
};

enum class fate { done, undone, unknown };

struct entry {
    transfer what;
    fate came_to = fate::undone;
};

struct counts {
    std::atomic<std::uint64_t> looks{0};
    std::atomic<std::uint64_t> done{0};
    std::atomic<std::uint64_t> undone{0};
    std::atomic<std::uint64_t> unknown{0};
    std::atomic<std::uint64_t> collisions{0};
    std::atomic<std::uint64_t> losses{0};
    std::atomic<std::uint64_t> cancels{0};
    std::atomic<std::uint64_t> kills{0};
};

/// What all customers share.
struct hall {
    explicit hall(const place& where)
        : at(where), db(where.url, {.pool = {.max = connections, .acquire_timeout = in_line}}) {}

    /// Records an error.
    void complain(const std::string& about) {
        std::lock_guard lock(mutex);
        if (complaints.size() < 20) complaints.push_back(about);
    }
    bool has_complaints() {
        std::lock_guard lock(mutex);
        return !complaints.empty();
    }

    const place& at;
    asio::io_context loop;  // outlives the database, whose threads post to it
    database db;
    counts seen;
    std::atomic<bool> closing{false};
    std::atomic<int> present{0};
    std::mutex mutex;
    std::vector<std::string> complaints;
};

// Customers.

/// Runs one coroutine after the other, each until it is canceled.
class customer {
public:
    customer(hall& in, int number, std::uint64_t seed)
        : in_(&in),
          strand_(asio::make_strand(in.loop)),
          dice_(static_cast<dice::result_type>(seed + 7919U * static_cast<unsigned>(number))),
          next_id_(number * std::int64_t{10'000'000}) {
        ++in.present;
    }

    void begin();
    /// From any thread; the cancellation runs on the strand of the coroutine.
    void cancel();
    /// Whether it has, or is about to get, a connection.
    bool is_served() const { return served_; }
    const std::vector<entry>& book() const { return book_; }

private:
    void ended(const std::exception_ptr& why);
    bool is_expected(const std::exception_ptr& why);
    void expect(bool holds, const char* what);
    fate fate_after(const std::exception_ptr& failed, bool committing);
    void note(const transfer& what, fate came_to);

    unsigned draw(unsigned sides) { return static_cast<unsigned>(dice_() >> 4U) % sides; }
    transfer drawn_transfer();
    isolation drawn_isolation();

    awaitable<void> live();
    awaitable<void> one_deed();
    awaitable<void> look_twice();
    awaitable<void> read_rows();
    awaitable<void> ask();
    awaitable<void> leave_dirt();
    awaitable<void> pay_by_function();
    awaitable<void> pay_by_hand();
    awaitable<void> pay_in_two();

    awaitable<void> pay(transaction* t, transfer what);
    awaitable<void> pay_by_reading(transaction* t, transfer what);
    awaitable<void> set_balance(transaction* t, int account, std::int64_t change);
    awaitable<void> pay_within(transaction* t, transfer what, bool reads, bool* committing);
    awaitable<void> pay_and_end(transfer what, bool* committing, fate* came_to);
    awaitable<void> pay_both(transfer first, transfer second, bool* committing, fate* of_second);
    awaitable<void> fail_within(transaction* t);

    hall* in_;
    asio::strand<asio::io_context::executor_type> strand_;
    dice dice_;
    std::int64_t next_id_;
    std::optional<asio::cancellation_signal> signal_;
    bool lives_ = false;
    bool canceled_ = false;
    std::atomic<bool> served_{false};
    std::vector<entry> book_;
};

void customer::begin() {
    canceled_ = false;
    lives_ = true;
    signal_.emplace();
    auto end = [this](const std::exception_ptr& why) { ended(why); };
    asio::co_spawn(
        strand_, live(),
        asio::bind_cancellation_slot(signal_->slot(), asio::bind_executor(strand_, end)));
}

void customer::cancel() {
    asio::post(strand_, [this] {
        if (!lives_ || canceled_ || in_->closing) return;
        canceled_ = true;
        signal_->emit(asio::cancellation_type::terminal);
    });
}

void customer::ended(const std::exception_ptr& why) {
    served_ = false;
    lives_ = false;
    if (canceled_) ++in_->seen.cancels;
    if (why != nullptr && !is_expected(why)) in_->complain(said_by(why));
    if (in_->closing) --in_->present;
    else asio::post(strand_, [this] { begin(); });  // after the end of the previous coroutine
}

bool customer::is_expected(const std::exception_ptr& why) {
    if (is_cancellation(why)) return canceled_;
    bool kills = static_cast<bool>(in_->at.kill);
    try {
        std::rethrow_exception(why);
    } catch (const connection_error& e) {
        ++in_->seen.losses;
        return kills && e.kind() != error_kind::timed_out;
    } catch (const statement_error& e) {
        ++in_->seen.collisions;
        return is_collision(e);
    } catch (...) {
        return false;
    }
}

void customer::expect(bool holds, const char* what) {
    if (!holds) in_->complain(what);
}

void customer::note(const transfer& what, fate came_to) {
    book_.push_back({what, came_to});
    counts& seen = in_->seen;
    ++(came_to == fate::done ? seen.done : came_to == fate::undone ? seen.undone : seen.unknown);
}

/// Unknown only if the commit was in flight.
fate customer::fate_after(const std::exception_ptr& failed, bool committing) {
    if (is_cancellation(failed)) return committing ? fate::unknown : fate::undone;
    try {
        std::rethrow_exception(failed);
    } catch (const transaction_lost& e) {
        expect(committing || !e.maybe_committed(), "it may be committed without a commit");
        return e.maybe_committed() ? fate::unknown : fate::undone;
    } catch (...) {
        return fate::undone;
    }
}

transfer customer::drawn_transfer() {
    int from = 1 + static_cast<int>(draw(accounts));
    int to = 1 + (from + static_cast<int>(draw(accounts - 1))) % accounts;
    return {++next_id_, from, to, 1 + draw(10)};
}

isolation customer::drawn_isolation() {
    constexpr std::array all{isolation::server_default, isolation::read_committed,
                             isolation::repeatable_read, isolation::serializable};
    return all.at(draw(all.size()));
}

awaitable<void> customer::live() {
    while (!in_->closing) {
        std::exception_ptr failed;
        try {
            co_await one_deed();
        } catch (...) {
            failed = std::current_exception();
        }
        served_ = false;
        if (failed == nullptr) continue;
        if (canceled_) std::rethrow_exception(failed);
        if (!is_expected(failed)) in_->complain(said_by(failed));
    }
}

awaitable<void> customer::one_deed() {
    switch (draw(8)) {
        case 0: return look_twice();
        case 1: return read_rows();
        case 2: return ask();
        case 3: return leave_dirt();
        case 4: return pay_by_hand();
        case 5: return pay_in_two();
        default: return pay_by_function();
    }
}

// Reading customers.

/// Both reads must see the same transfers.
awaitable<void> customer::look_twice() {
    constexpr const char* half =
        "SELECT CAST(coalesce(sum(balance), 0) AS INTEGER) FROM account WHERE id % 2 = ?";
    isolation level = draw(2) == 0 ? isolation::repeatable_read : isolation::serializable;
    transaction_options how{.isolation = level, .read_only = draw(4) != 0};
    transaction t = co_await in_->db.async_begin(how);
    served_ = true;
    sql::result even = co_await t.async_query(half, 0);
    sql::result odd = co_await t.async_query(half, 1);
    auto both = even.scalar<std::int64_t>() + odd.scalar<std::int64_t>();
    expect(both == total, "a transaction sees what does not add up");
    if (draw(2) == 0) co_await t.async_commit();
    ++in_->seen.looks;
}

/// Stops at any row. All rows together must add up.
awaitable<void> customer::read_rows() {
    sql::cursor rows = co_await in_->db.async_stream("SELECT balance FROM account ORDER BY id");
    served_ = true;
    std::int64_t sum = 0;
    unsigned last = draw(2 * accounts);
    for (unsigned i = 0; i < last; ++i) {
        std::optional<sql::row> one = co_await rows.async_next();
        if (!one) break;
        sum += one->get<std::int64_t>(0);
    }
    expect(last <= accounts || sum == total, "rows that do not add up");
    ++in_->seen.looks;
}

/// Must get its own answer.
awaitable<void> customer::ask() {
    auto mine = static_cast<std::int64_t>(dice_() % 1'000'000'000);
    sql::result got;
    if (draw(2) == 0) {
        got = co_await in_->db.async_query("SELECT CAST(? AS INTEGER)", mine);
    } else {
        got = co_await in_->db.async_query(idempotent, "SELECT CAST(? AS INTEGER)", mine);
    }
    expect(got.scalar<std::int64_t>() == mine, "the answer to another statement");
    ++in_->seen.looks;
}

/// Fails if an earlier scope has left its table. The audit fails if the transaction in plain SQL is
/// ever committed.
awaitable<void> customer::leave_dirt() {
    auto s = in_->db.scope();
    co_await s.async_execute("CREATE TEMPORARY TABLE mine (n INTEGER)");
    served_ = true;
    co_await s.async_execute(in_->at.setting);
    int number = static_cast<int>(draw(1000));
    co_await s.async_execute("INSERT INTO mine VALUES (?)", number);
    sql::result kept = co_await s.async_query("SELECT n FROM mine");
    expect(kept.scalar<int>() == number, "a scope has the table of another one");
    if (draw(2) == 0) {
        int whose = 1 + static_cast<int>(draw(accounts));
        co_await s.async_execute("BEGIN");
        co_await s.async_execute("UPDATE account SET balance = balance + 1000000 WHERE id = ?",
                                 whose);
    }
    if (draw(4) == 0) s.discard_at_end();
    ++in_->seen.looks;
}

// Paying customers.

awaitable<void> customer::pay(transaction* t, transfer what) {
    sql::result less = co_await t->async_execute(
        "UPDATE account SET balance = balance - ? WHERE id = ?", what.amount, what.from);
    sql::result more = co_await t->async_execute(
        "UPDATE account SET balance = balance + ? WHERE id = ?", what.amount, what.to);
    sql::result noted = co_await t->async_execute("INSERT INTO ledger VALUES (?, ?, ?, ?)", what.id,
                                                  what.from, what.to, what.amount);
    expect(less.affected() + more.affected() + noted.affected() == 3, "a statement did nothing");
}

awaitable<void> customer::set_balance(transaction* t, int account, std::int64_t change) {
    sql::result now = co_await t->async_query("SELECT balance FROM account WHERE id = ?", account);
    auto then = now.scalar<std::int64_t>() + change;
    co_await t->async_execute("UPDATE account SET balance = ? WHERE id = ?", then, account);
}

/// Correct only if the server isolates it from other transfers of the account.
awaitable<void> customer::pay_by_reading(transaction* t, transfer what) {
    co_await set_balance(t, what.from, -what.amount);
    co_await set_balance(t, what.to, what.amount);
    co_await t->async_execute("INSERT INTO ledger VALUES (?, ?, ?, ?)", what.id, what.from, what.to,
                              what.amount);
}

awaitable<void> customer::pay_within(transaction* t, transfer what, bool reads, bool* committing) {
    *committing = false;  // it may have been tried before
    served_ = true;
    if (reads) {
        co_await pay_by_reading(t, what);
    } else if (draw(4) == 0) {
        transaction inner = co_await t->async_begin();
        co_await pay(&inner, what);
        co_await inner.async_commit();
    } else {
        co_await pay(t, what);
    }
    *committing = true;
}

awaitable<void> customer::pay_by_function() {
    transfer what = drawn_transfer();
    transaction_options how{
        .isolation = drawn_isolation(), .retries = 5, .backoff = std::chrono::milliseconds(1)};
    bool reads = how.isolation == isolation::serializable && draw(2) == 0;
    bool committing = false;
    std::function<awaitable<void>(transaction&)> work = [&](transaction& t) {
        return pay_within(&t, what, reads, &committing);
    };
    std::exception_ptr failed;
    try {
        co_await in_->db.async_transaction(work, how);
    } catch (...) {
        failed = std::current_exception();
    }
    note(what, failed == nullptr ? fate::done : fate_after(failed, committing));
    if (failed != nullptr) std::rethrow_exception(failed);
}

awaitable<void> customer::pay_and_end(transfer what, bool* committing, fate* came_to) {
    transaction_options how{.isolation = drawn_isolation()};
    transaction t = co_await in_->db.async_begin(how);
    served_ = true;
    co_await pay(&t, what);
    switch (draw(4)) {
        case 0: co_await t.async_rollback(); break;
        case 1: break;  // abandoned
        default:
            *committing = true;
            co_await t.async_commit();
            *came_to = fate::done;
    }
}

awaitable<void> customer::pay_by_hand() {
    transfer what = drawn_transfer();
    bool committing = false;
    fate came_to = fate::undone;
    std::exception_ptr failed;
    try {
        co_await pay_and_end(what, &committing, &came_to);
    } catch (...) {
        failed = std::current_exception();
    }
    note(what, failed == nullptr ? came_to : fate_after(failed, committing));
    if (failed != nullptr) std::rethrow_exception(failed);
}

/// An invalid statement in a nested transaction, which is rolled back.
awaitable<void> customer::fail_within(transaction* t) {
    std::exception_ptr failed;
    try {
        co_await t->async_execute("INSERT INTO account VALUES (1, 0)");
    } catch (const statement_error&) {
        failed = std::current_exception();
    }
    expect(failed != nullptr, "there are two accounts of one number");
    bool canceled = failed != nullptr && is_cancellation(failed);
    if (canceled) std::rethrow_exception(failed);
}

awaitable<void> customer::pay_both(transfer first, transfer second, bool* committing,
                                   fate* of_second) {
    transaction t = co_await in_->db.async_begin();
    served_ = true;
    co_await pay(&t, first);
    bool keeps = draw(3) == 0;
    {
        transaction inner = co_await t.async_begin();
        co_await pay(&inner, second);
        if (!keeps && draw(2) == 0) co_await fail_within(&inner);
        if (keeps) {
            co_await inner.async_commit();
        } else if (draw(2) == 0) {
            co_await inner.async_rollback();
        }
    }
    *committing = true;
    if (keeps) *of_second = fate::unknown;
    co_await t.async_commit();
    if (keeps) *of_second = fate::done;
}

awaitable<void> customer::pay_in_two() {
    transfer first = drawn_transfer();
    transfer second = drawn_transfer();
    bool committing = false;
    fate of_second = fate::undone;
    std::exception_ptr failed;
    try {
        co_await pay_both(first, second, &committing, &of_second);
    } catch (...) {
        failed = std::current_exception();
    }
    fate of_first = failed == nullptr ? fate::done : fate_after(failed, committing);
    note(first, of_first);
    note(second, of_second == fate::undone ? fate::undone : of_first);
    if (failed != nullptr) std::rethrow_exception(failed);
}

// The bank.

class bank {
public:
    explicit bank(const place& at)
        : seed_(told("CENOTE_BANK_SEED", std::random_device{}())),
          seconds_(static_cast<std::int64_t>(told("CENOTE_BANK_SECONDS", 3))),
          in_(at) {
        std::printf("%s\n", replay().c_str());
        std::fflush(stdout);
    }

    std::string replay() const {
        return "to do business as here: CENOTE_BANK_SEED=" + std::to_string(seed_) +
               " CENOTE_BANK_SECONDS=" + std::to_string(seconds_.count());
    }
    void found();
    void open();
    void audit();

private:
    using rows = std::map<std::int64_t, transfer>;

    bool is_enough();
    void cancel_at_random();
    void kill_at_random();
    void close(std::vector<std::thread>& loop_threads);
    void report() const;
    void check_pool();
    void check_accounts(const rows& ledger);
    void check_books(const rows& ledger);
    rows read_ledger();

    std::uint64_t seed_;
    std::chrono::seconds seconds_;
    hall in_;
    std::vector<std::unique_ptr<customer>> all_;
    std::atomic<bool> disturbs_{true};
};

void bank::found() {
    database& db = in_.db;
    for (const char* name : {"account", "ledger"})
        db.execute("DROP TABLE IF EXISTS " + std::string(name));
    db.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, balance BIGINT NOT NULL)");
    db.execute(
        "CREATE TABLE ledger (id BIGINT PRIMARY KEY, source INTEGER NOT NULL, "
        "target INTEGER NOT NULL, amount BIGINT NOT NULL)");
    for (int i = 1; i <= accounts; ++i)
        db.execute("INSERT INTO account VALUES (?, ?)", i, at_first);
}

/// Whether every kind of event has happened.
bool bank::is_enough() {
    const counts& seen = in_.seen;
    bool killed = !in_.at.kill || (seen.kills > 0 && seen.losses > 0);
    return killed && seen.done > 0 && seen.undone > 0 && seen.looks > 0 && seen.cancels > 0;
}

/// Mostly customers with a connection: nearly all others wait in line, where a cancellation is
/// cheap.
void bank::cancel_at_random() {
    dice d(static_cast<dice::result_type>(seed_ + 1));
    while (disturbs_) {
        std::size_t whom = d() % all_.size();
        bool in_line_too = d() % 8 == 0;
        for (int tries = 0; tries < 200 && !in_line_too && !all_[whom]->is_served(); ++tries)
            whom = d() % all_.size();
        all_[whom]->cancel();
        // Leaves time for some transfers to finish; correctness does not depend on it.
        std::this_thread::sleep_for(std::chrono::microseconds(d() % 20'000));
    }
}

void bank::kill_at_random() {
    if (!in_.at.kill) return;
    dice d(static_cast<dice::result_type>(seed_ + 2));
    database own{in_.at.url, {.pool = {.max = 1, .acquire_timeout = in_line}}};
    while (disturbs_) {
        // Leaves time for some transfers to finish.
        std::this_thread::sleep_for(std::chrono::microseconds(d() % 60'000));
        bool all = d() % 16 == 0;
        try {
            in_.seen.kills += in_.at.kill(own, all, d);
        } catch (const statement_error&) {
            continue;  // the connection had ended
        }
        cenote::stats now = in_.db.stats();
        if (now.total > connections) in_.complain("there are more connections than allowed");
    }
}

void bank::open() {
    auto busy = asio::make_work_guard(in_.loop);
    std::vector<std::thread> loop_threads;
    for (int i = 0; i < threads; ++i) loop_threads.emplace_back([this] { in_.loop.run(); });
    for (int i = 0; i < customers; ++i)
        all_.push_back(std::make_unique<customer>(in_, i + 1, seed_));
    for (const auto& each : all_) each->begin();
    std::thread cancels([this] { cancel_at_random(); });
    std::thread kills([this] { kill_at_random(); });
    auto end = std::chrono::steady_clock::now() + seconds_;
    support::eventually(
        [&] {
            bool over = std::chrono::steady_clock::now() >= end && is_enough();
            return over || in_.has_complaints();
        },
        seconds_ + 10 * support::plenty);
    disturbs_ = false;
    cancels.join();
    kills.join();
    busy.reset();
    close(loop_threads);
}

/// Lets all customers finish. A customer that does not finish would wait forever.
void bank::close(std::vector<std::thread>& loop_threads) {
    in_.closing = true;
    bool left = support::eventually([this] { return in_.present == 0; }, 10 * support::plenty);
    EXPECT_TRUE(left) << in_.present << " customers are stuck";
    if (!left) in_.loop.stop();
    for (std::thread& each : loop_threads) each.join();
}

void bank::report() const {
    const counts& seen = in_.seen;
    auto number = [](const auto& n) { return static_cast<unsigned long long>(n); };
    std::printf(
        "%llu transfers done, %llu undone, %llu with unknown outcome; %llu looks; %llu kills, "
        "%llu losses; %llu cancels; %llu collisions; %llu connections opened\n",
        number(seen.done), number(seen.undone), number(seen.unknown), number(seen.looks),
        number(seen.kills), number(seen.losses), number(seen.cancels), number(seen.collisions),
        number(in_.db.stats().opened));
    std::fflush(stdout);
}

void bank::check_pool() {
    EXPECT_TRUE(support::eventually([this] { return in_.db.stats().leased == 0; }));
    cenote::stats now = in_.db.stats();
    EXPECT_LE(now.total, connections);
    EXPECT_EQ(now.waiting, 0u);
    EXPECT_EQ(now.granted, now.released + now.detached);
    EXPECT_EQ(now.refused(errc::timed_out), 0u);
    EXPECT_TRUE(support::eventually([this] { return in_.at.busy() == 0; }))
        << in_.at.busy() << " sessions are in the middle of something";
}

bank::rows bank::read_ledger() {
    rows all;
    sql::result found = in_.db.query("SELECT id, source, target, amount FROM ledger");
    for (auto [id, from, to, amount] : found.as<std::int64_t, int, int, std::int64_t>())
        all[id] = {id, from, to, amount};
    return all;
}

void bank::check_accounts(const rows& ledger) {
    std::map<int, std::int64_t> expected;
    for (int i = 1; i <= accounts; ++i) expected[i] = at_first;
    for (const auto& [id, what] : ledger) {
        expected[what.from] -= what.amount;
        expected[what.to] += what.amount;
    }
    std::int64_t sum = 0;
    std::map<int, std::int64_t> found;
    sql::result all = in_.db.query("SELECT id, balance FROM account");
    for (auto [id, balance] : all.as<int, std::int64_t>()) sum += found[id] = balance;
    EXPECT_EQ(sum, total);
    EXPECT_EQ(found, expected);
}

/// Compares what each customer was told with the tables.
void bank::check_books(const rows& ledger) {
    std::size_t known = 0;
    for (const auto& each : all_) {
        for (const entry& e : each->book()) {
            auto there = ledger.find(e.what.id);
            bool is_there = there != ledger.end();
            if (is_there) ++known;
            if (e.came_to == fate::done && !is_there)
                in_.complain("a transfer that was confirmed is lost");
            if (e.came_to == fate::undone && is_there)
                in_.complain("a transfer that failed was made");
            bool same =
                !is_there || (there->second.from == e.what.from && there->second.to == e.what.to &&
                              there->second.amount == e.what.amount);
            if (!same) in_.complain("a transfer is another one than was asked for");
        }
    }
    EXPECT_EQ(known, ledger.size()) << "there are transfers that no task has started";
}

void bank::audit() {
    report();
    check_pool();
    EXPECT_TRUE(is_enough());
    rows ledger = read_ledger();
    check_accounts(ledger);
    check_books(ledger);
    for (const std::string& each : in_.complaints) ADD_FAILURE() << each;
}

}  // namespace

void do_business(const place& at) {
    bank one(at);
    SCOPED_TRACE(one.replay());
    one.found();
    one.open();
    one.audit();
}

}  // namespace cenote::bank
