// execute_many and batches with more rows than the other side takes: memory is bounded, time limits
// hold, and nothing takes effect in part.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>

#include <gmock/gmock.h>

#include "cenote/server_error.hpp"
#include "connector/sql_many.hpp"
#include "support/clock.hpp"
#include "support/gate.hpp"
#include "support/heap_growth.hpp"
#include "support/patience.hpp"

namespace cenote::many_test {
namespace {

using namespace std::chrono_literals;
using support::eventually;

/// Rows that are made when they are asked for. `seen` is called before each.
struct made_rows {
    struct iterator {
        made_rows* of;
        int at;

        std::tuple<int, std::string_view> operator*() const {
            of->seen(at);
            if (at % 500 == 0) of->heap.look();
            of->made = at + 1;
            return {at, of->text};
        }
        iterator& operator++() {
            ++at;
            return *this;
        }
        void operator++(int) { ++at; }
        bool operator==(const iterator& other) const { return at == other.at; }
    };
    iterator begin() { return {this, 0}; }
    iterator end() { return {this, size}; }

    int size;
    std::string text;
    std::function<void(int)> seen = [](int) {};
    int made = 0;
    support::heap_growth heap{};
};

/// More than buffers need, much less than the rows.
constexpr std::size_t little = std::size_t{8} << 20U;

template <class Kind>
struct sql_many_pressure : with_table<Kind> {
    static constexpr bool is_sqlite = std::is_same_v<typename Kind::place, sqlite_place>;
};
using kinds = testing::Types<kind<postgres_place, blocking>, kind<postgres_place, awaited>,
                             kind<mariadb_place, blocking>, kind<mariadb_place, awaited>,
                             kind<sqlite_place, blocking>, kind<sqlite_place, awaited>>;
TYPED_TEST_SUITE(sql_many_pressure, kinds);

TYPED_TEST(sql_many_pressure, needs_little_memory) {
    using form = typename TypeParam::form;
    made_rows all{.size = support::rounds(100'000), .text = std::string(300, 'x')};
    EXPECT_EQ(form::many(this->c, this->insert, all), static_cast<std::uint64_t>(all.size));
    if (!support::slowly) {
        EXPECT_LT(all.heap.most(), little);
    }
    EXPECT_EQ(this->count(), all.size);
}

/// The time limit is for the server, not for the range that makes the rows.
TYPED_TEST(sql_many_pressure, waits_for_a_range_that_is_slow) {
    using form = typename TypeParam::form;
    support::stopped_clock time;
    this->c.set_timeout(1s);
    made_rows all{.size = 3000, .text = "x", .seen = [&](int row) {
                      if (row % 100 == 99) time.advance(1500ms);
                  }};
    for (bool atomic : {true, false}) {
        EXPECT_EQ(form::many(this->c, this->insert, all, {.atomic = atomic}), 3000u);
        EXPECT_EQ(this->count(), 3000);
        this->c.execute("DELETE FROM many");
    }
}

template <class Kind>
struct sql_many_stopped : with_table<Kind> {
    static auto& server() { return Kind::place::server(); }
};
using served_kinds = testing::Types<kind<postgres_place, blocking>, kind<postgres_place, awaited>,
                                    kind<mariadb_place, blocking>, kind<mariadb_place, awaited>>;
TYPED_TEST_SUITE(sql_many_stopped, served_kinds);

/// The server stops reading in the middle of the rows.
TYPED_TEST(sql_many_stopped, stops_where_the_server_stops) {
    using form = typename TypeParam::form;
    constexpr int middle = 5000;
    std::atomic<bool> paused{false};
    std::atomic<bool> over{false};
    made_rows all{.size = 10'000'000, .text = std::string(300, 'x'), .seen = [&](int row) {
                      if (row != middle) return;
                      this->server().pause();
                      paused = true;
                  }};
    support::stopped_clock time;
    this->c.set_timeout(2s);
    std::thread inserts([&] {
        EXPECT_THROW(form::many(this->c, this->insert, all), exchange_timeout);
        over = true;
    });
    EXPECT_TRUE(eventually([&] { return paused.load(); }));
    EXPECT_TRUE(eventually([&] {
        time.advance(500ms);
        return over.load();
    }));
    this->server().resume();
    inserts.join();
    if (this->is_postgres) {
        EXPECT_LT(all.made, all.size);  // three gigabytes, which no system buffers
    } else {
        EXPECT_LE(all.made, middle + 2000);  // a chunk
    }
    EXPECT_GE(all.made, middle);
    if (!support::slowly) {
        EXPECT_LT(all.heap.most(), little);
    }
    EXPECT_TRUE(this->c.broken());
    auto next = this->to.open();
    EXPECT_EQ(next.execute("SELECT count(*) FROM many").template scalar<int>(), 0);
}

/// The replies stop in the middle of a batch.
TYPED_TEST(sql_many_stopped, waits_no_longer_than_it_may_for_the_replies_of_a_batch) {
    using form = typename TypeParam::form;
    support::gate between(this->server().port());
    auto url = [&] {
        if constexpr (sql_many_stopped<TypeParam>::is_postgres)
            return support::postgres_url(between.port());
        else return support::mariadb_url(between.port());
    };
    typename TypeParam::place::connector through(url());
    int next = 0;
    for (std::size_t bytes : {0u, 1u, 200u, 1500u}) {
        SCOPED_TRACE(bytes);
        between.pass();
        sql::batch all;
        for (int i = 0; i < 500; ++i) all.add(this->insert, next++, std::string(300, 'x'));
        auto other = through.open();
        other.set_timeout(300ms);
        between.hold_replies_after(bytes);
        EXPECT_THROW(form::run(other, all), exchange_timeout);
        EXPECT_TRUE(other.broken());
    }
    between.pass();
    EXPECT_EQ(this->count() % 500, 0);  // a batch takes effect if the server has all of it
}

template <class Form>
struct sql_many_locked : with_table<kind<sqlite_place, Form>> {};
using forms = testing::Types<blocking, awaited>;
TYPED_TEST_SUITE(sql_many_locked, forms);

/// Another process has the write lock.
TYPED_TEST(sql_many_locked, stops_before_its_first_row) {
    typename sqlite_place::connector elsewhere{this->at.url()};
    auto holder = elsewhere.open();
    holder.execute("BEGIN IMMEDIATE");
    auto waiter = sqlite_place::connector{this->at.url("?busy_timeout=50ms")}.open();
    made_rows all{.size = 10'000'000, .text = std::string(300, 'x')};
    try {
        TypeParam::many(waiter, this->insert, all);
        ADD_FAILURE();
    } catch (const statement_error& e) {
        constexpr int busy = 5;
        EXPECT_EQ(e.code() & 0xff, busy);
    }
    EXPECT_LE(all.made, 1001);
    if (!support::slowly) {
        EXPECT_LT(all.heap.most(), little);
    }
    sql::batch two;
    two.add(this->insert, 1, "x").add(this->insert, 2, "y");
    EXPECT_THROW(TypeParam::run(waiter, two), statement_error);
    EXPECT_FALSE(waiter.in_transaction());
    holder.execute("ROLLBACK");
    EXPECT_EQ(TypeParam::run(waiter, two).size(), 2u);
    EXPECT_EQ(this->count(), 2);
}

/// A row that takes for ever, in the middle.
TYPED_TEST(sql_many_locked, stops_at_a_row_that_takes_too_long) {
    const char* text =
        "INSERT INTO many (id, name) SELECT ?1, ?2 WHERE (WITH RECURSIVE c(n) AS (SELECT 1 UNION "
        "ALL SELECT n + 1 FROM c WHERE ?1 = 5000) SELECT count(*) FROM c) > 0";
    made_rows all{.size = 10'000'000, .text = std::string(300, 'x')};
    this->c.set_timeout(300ms);
    for (bool atomic : {true, false}) {
        try {
            TypeParam::many(this->c, text, all, {.atomic = atomic});
            ADD_FAILURE();
        } catch (const statement_error& e) {
            constexpr int interrupted = 9;
            EXPECT_EQ(e.code() & 0xff, interrupted);
        }
        EXPECT_LE(all.made, 6001);
        EXPECT_FALSE(this->c.in_transaction());
        EXPECT_FALSE(this->c.broken());
        // On a busy machine an earlier row, too, may take too long.
        EXPECT_LE(this->count(), atomic ? 0 : 5000);
    }
}

}  // namespace
}  // namespace cenote::many_test
