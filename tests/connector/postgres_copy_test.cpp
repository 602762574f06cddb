// COPY in and out of PostgreSQL, blocking and awaited: formats, errors, ends, back-pressure.
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/pool.hpp"
#include "connector/awaiting.hpp"
#include "connector/postgres_place.hpp"
#include "database/canceling.hpp"
#include "support/gate.hpp"
#include "support/heap_growth.hpp"
#include "support/patient.hpp"

namespace cenote::postgres {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using support::await;
using support::postgres_url;
using support::the_postgres;

struct blocking {
    static sql::copy_in in(connection& c, const char* text) { return c.copy_in(text); }
    static sql::copy_out out(connection& c, const char* text) { return c.copy_out(text); }
    static void row(sql::copy_in& to, const auto&... values) { to.write_row(values...); }
    static void write(sql::copy_in& to, std::string_view what) { to.write(what); }
    static std::uint64_t finish(sql::copy_in& of) { return of.finish(); }
    static std::optional<std::string_view> next(sql::copy_out& of) { return of.next(); }
};
struct awaited {
    static sql::copy_in in(connection& c, const char* text) { return await(c.async_copy_in(text)); }
    static sql::copy_out out(connection& c, const char* text) {
        return await(c.async_copy_out(text));
    }
    static void row(sql::copy_in& to, const auto&... values) {
        await(to.async_write_row(values...));
    }
    static void write(sql::copy_in& to, std::string_view what) { await(to.async_write(what)); }
    static std::uint64_t finish(sql::copy_in& of) { return await(of.async_finish()); }
    static std::optional<std::string_view> next(sql::copy_out& of) {
        return await(of.async_next());
    }
};

template <class Form>
struct postgres_copy : testing::Test {
    postgres_copy() {
        c.execute("DROP TABLE IF EXISTS copied");
        c.execute(
            "CREATE TABLE copied (id INTEGER PRIMARY KEY, t TEXT, d FLOAT8, b BYTEA, o BOOLEAN)");
    }
    std::int64_t count() { return c.execute("SELECT count(*) FROM copied").scalar<std::int64_t>(); }
    std::string all_of(sql::copy_out rows) {
        std::string all;
        while (auto some = Form::next(rows)) all += *some;
        EXPECT_FALSE(Form::next(rows));
        return all;
    }

    connector to{postgres_url()};
    connection c = to.open();
};
using forms = testing::Types<blocking, awaited>;
TYPED_TEST_SUITE(postgres_copy, forms);

TYPED_TEST(postgres_copy, writes_rows_of_all_types) {
    const std::string hostile = "a\tb\nc\\d\re\\N\\.";
    const sql::bytes octets{std::byte{0}, std::byte{255}, std::byte{92}};
    sql::copy_in rows = TypeParam::in(this->c, "COPY copied FROM STDIN");
    TypeParam::row(rows, 1, hostile, 0.1, octets, true);
    TypeParam::row(rows, 2, nullptr, std::numeric_limits<double>::infinity(), nullptr, nullptr);
    TypeParam::row(rows, 3, "", -1e300, sql::bytes(), false);
    EXPECT_THROW(TypeParam::row(rows, 4, std::string("a\0b", 3), 1, nullptr, nullptr),
                 std::invalid_argument);
    EXPECT_EQ(TypeParam::finish(rows), 3u);
    EXPECT_THROW(TypeParam::finish(rows), std::logic_error);
    auto found = this->c.execute("SELECT t, d, b, o FROM copied ORDER BY id");
    EXPECT_EQ(found[0].template get<std::string>(0), hostile);
    EXPECT_EQ(found[0].template get<double>(1), 0.1);
    EXPECT_EQ(found[0].template get<sql::bytes>(2), octets);
    EXPECT_TRUE(found[0].template get<bool>(3));
    EXPECT_TRUE(found[1][0].is_null());
    EXPECT_EQ(found[2].template get<std::string>(0), "");
    EXPECT_EQ(found[2].template get<sql::bytes>(2), sql::bytes());
}

TYPED_TEST(postgres_copy, takes_bytes_in_any_pieces) {
    sql::copy_in rows = TypeParam::in(this->c, "COPY copied (id, t) FROM STDIN (FORMAT csv)");
    for (const char* piece : {"1,a", "\n2", ",\"b\nc\"\n", "", "3,"}) TypeParam::write(rows, piece);
    EXPECT_EQ(TypeParam::finish(rows), 3u);
    std::string csv = this->all_of(TypeParam::out(
        this->c, "COPY (SELECT id, t FROM copied ORDER BY id) TO STDOUT (FORMAT csv)"));
    EXPECT_EQ(csv, "1,a\n2,\"b\nc\"\n3,\n");
    std::string binary =
        this->all_of(TypeParam::out(this->c, "COPY copied TO STDOUT (FORMAT binary)"));
    this->c.execute("DELETE FROM copied");
    sql::copy_in again = TypeParam::in(this->c, "COPY copied FROM STDIN (FORMAT binary)");
    EXPECT_THROW(TypeParam::row(again, 1), std::logic_error);
    TypeParam::write(again, binary);
    EXPECT_EQ(TypeParam::finish(again), 3u);
    EXPECT_EQ(this->all_of(TypeParam::out(this->c, "COPY (SELECT 1 WHERE false) TO STDOUT")), "");
}

TYPED_TEST(postgres_copy, tells_errors_and_keeps_the_connection) {
    sql::copy_in rows = TypeParam::in(this->c, "COPY copied (id) FROM STDIN");
    for (int i = 0; i < 100'000; ++i) TypeParam::row(rows, i == 50 ? 1 : i);
    try {
        TypeParam::finish(rows);
        ADD_FAILURE();
    } catch (const statement_error& e) {
        EXPECT_EQ(e.sqlstate(), "23505");
    }
    EXPECT_EQ(this->count(), 0);
    EXPECT_THROW(TypeParam::in(this->c, "COPY nowhere FROM STDIN"), statement_error);
    EXPECT_THROW(TypeParam::in(this->c, "SELECT 1"), statement_error);
    EXPECT_THROW(TypeParam::out(this->c, "SELECT 1"), statement_error);
    sql::copy_out out = TypeParam::out(
        this->c, "COPY (SELECT 1/(1000-i) FROM generate_series(1, 2000) i) TO STDOUT");
    EXPECT_THROW(while (TypeParam::next(out)) continue, statement_error);
    EXPECT_EQ(this->count(), 0);
}

TYPED_TEST(postgres_copy, refuses_copy_elsewhere_and_in_the_other_direction) {
    auto broken = [this](auto what) {
        connection other = this->to.open();
        EXPECT_THROW(what(other), connection_error);
        EXPECT_TRUE(other.broken());
    };
    broken([](connection& o) { TypeParam::in(o, "COPY copied TO STDOUT"); });
    broken([](connection& o) { TypeParam::out(o, "COPY copied FROM STDIN"); });
    broken([](connection& o) { o.execute("COPY copied TO STDOUT"); });
    broken([](connection& o) { o.execute(sql::batch().add("COPY copied TO STDOUT")); });
}

TYPED_TEST(postgres_copy, occupies_the_connection) {
    sql::copy_in rows = TypeParam::in(this->c, "COPY copied (id) FROM STDIN");
    EXPECT_THROW(this->c.execute("SELECT 1"), std::logic_error);
    EXPECT_EQ(TypeParam::finish(rows), 0u);
    sql::copy_out out = TypeParam::out(this->c, "COPY copied TO STDOUT");
    EXPECT_THROW(this->c.execute("SELECT 1"), std::logic_error);
    EXPECT_EQ(this->all_of(std::move(out)), "");
    EXPECT_EQ(this->count(), 0);
}

TYPED_TEST(postgres_copy, copies_nothing_if_it_is_abandoned) {
    pool<connection> one{this->to, support::patient(1)};
    for (int i = 0; i < 3; ++i) {
        auto lease = one.acquire();
        lease->execute("SELECT 1");
        sql::copy_in rows = TypeParam::in(*lease, "COPY copied (id) FROM STDIN");
        for (int n = 0; n < 20'000 * i; ++n) TypeParam::row(rows, n);
    }
    for (int i = 0; i < 3; ++i) {
        auto lease = one.acquire();
        sql::copy_out rows =
            TypeParam::out(*lease, "COPY (SELECT generate_series(1, 1000000)) TO STDOUT");
        if (i > 0) {
            EXPECT_TRUE(TypeParam::next(rows));
        }
    }
    EXPECT_EQ(one.acquire()->execute("SELECT count(*) FROM copied").template scalar<int>(), 0);
}

TYPED_TEST(postgres_copy, resets_the_session_of_an_earlier_lease_first) {
    pool<connection> one{this->to, support::patient(1)};
    for (int i = 0; i < 3; ++i) {
        auto lease = one.acquire();
        sql::copy_in rows = TypeParam::in(*lease, "COPY copied (id) FROM STDIN");
        TypeParam::row(rows, i);
        EXPECT_EQ(TypeParam::finish(rows), 1u);
        lease->execute("SET application_name = 'changed'");
    }
    EXPECT_EQ(one.stats().opened, 1u);
    EXPECT_EQ(this->count(), 3);
}

/// More than the buffers of a COPY, much less than its rows.
constexpr std::size_t little = std::size_t{1} << 20U;

/// By hand with a million: CENOTE_COPY_ROWS.
TYPED_TEST(postgres_copy, needs_little_memory) {
    const char* wanted = std::getenv("CENOTE_COPY_ROWS");
    const int rows = wanted == nullptr ? 200'000 : std::stoi(wanted);
    const std::string text(100, 'x');
    support::heap_growth heap;
    sql::copy_in into = TypeParam::in(this->c, "COPY copied (id, t) FROM STDIN");
    for (int i = 0; i < rows; ++i) {
        TypeParam::row(into, i, text);
        if (i % 1000 == 999) heap.look();
    }
    EXPECT_EQ(TypeParam::finish(into), static_cast<std::uint64_t>(rows));
    std::size_t bytes = 0;
    sql::copy_out from = TypeParam::out(this->c, "COPY copied (id, t) TO STDOUT");
    while (auto some = TypeParam::next(from)) {
        bytes += some->size();
        heap.look();
    }
    EXPECT_GT(bytes, static_cast<std::size_t>(rows) * 100);
    if (!support::slowly) {
        EXPECT_LT(heap.most(), little);
    }
}

/// Writing waits for a server that does not read. So does a server that is not read from.
TYPED_TEST(postgres_copy, stops_where_the_server_stops) {
    sql::copy_in rows = TypeParam::in(this->c, "COPY copied (id, t) FROM STDIN");
    const std::string text(1000, 'x');
    this->c.set_timeout(200ms);
    support::heap_growth heap;
    the_postgres().pause();
    try {
        // A gigabyte, which no system buffers.
        for (int i = 0; i < 1'000'000; ++i) {
            TypeParam::row(rows, i, text);
            if (i % 1000 == 999) heap.look();
        }
        ADD_FAILURE();
    } catch (const exchange_timeout&) {
        heap.look();
    }
    the_postgres().resume();
    if (!support::slowly) {
        EXPECT_LT(heap.most(), little);
    }
    EXPECT_TRUE(this->c.broken());
}

TYPED_TEST(postgres_copy, is_lost_with_its_connection) {
    auto lost = [this](auto what) {
        connection other = this->to.open();
        EXPECT_THROW(what(other), connection_error);
        EXPECT_TRUE(other.broken());
    };
    lost([](connection& o) {
        sql::copy_in rows = TypeParam::in(o, "COPY copied (id) FROM STDIN");
        the_postgres().kill_backends();
        for (int i = 0; i < 1'000'000; ++i) TypeParam::row(rows, i);
        TypeParam::finish(rows);
    });
    lost([](connection& o) {
        sql::copy_out rows =
            TypeParam::out(o, "COPY (SELECT generate_series(1, 10000000)) TO STDOUT");
        TypeParam::next(rows);
        the_postgres().kill_backends();
        while (TypeParam::next(rows)) continue;
    });
    lost([](connection& o) {
        std::vector<int> all(1'000'000, 1);
        o.execute("SELECT 1");
        std::thread killer([] { the_postgres().kill_backends(); });
        try {
            for (;;) o.execute_many("SELECT $1::int", all);
        } catch (...) {
            killer.join();
            throw;
        }
    });
    connection fresh = this->to.open();
    EXPECT_EQ(fresh.execute("SELECT count(*) FROM copied").template scalar<int>(), 0);
}

asio::awaitable<void> copy_and_more(connection* c) {
    const std::string text(1000, 'x');
    sql::copy_in in = co_await c->async_copy_in("COPY copied (id, t) FROM STDIN");
    for (int i = 0; i < 200; ++i) co_await in.async_write_row(i, text);
    co_await in.async_finish();
    sql::copy_out out = co_await c->async_copy_out("COPY copied TO STDOUT");
    while (co_await out.async_next()) continue;
    std::vector<int> rows(300, 1);
    co_await c->async_execute_many("UPDATE copied SET t = 'x' WHERE id = $1", rows);
    sql::batch both;
    both.add("DELETE FROM copied").add("SELECT 1");
    co_await c->async_execute(both);
}

/// Canceled after each step, it breaks its connection or leaves it as it was.
TEST(postgres_copy_cancel, leaves_no_connection_in_the_middle) {
    pool<connection> one{connector{postgres_url()}, support::patient(1)};
    one.acquire()->execute("DROP TABLE IF EXISTS copied");
    one.acquire()->execute("CREATE TABLE copied (id INTEGER, t TEXT)");
    constexpr int too_many = 3000;
    int steps = 1;
    for (bool went_on = true; went_on && steps < too_many; ++steps) {
        SCOPED_TRACE(steps);
        // A step that cancels after the end of the first COPY leaves its rows. With the rows of all
        // steps before, reading them would take one step more each time, and the loop never ended.
        one.acquire()->execute("TRUNCATE copied");
        {
            auto lease = one.acquire();
            went_on = conformance::canceled_after(steps, copy_and_more(&*lease)).has_value();
        }
        EXPECT_EQ(one.acquire()->execute("SELECT $1::int", steps).scalar<int>(), steps);
    }
    EXPECT_GT(steps, 10);
    EXPECT_LT(steps, too_many);
}

/// The reply is cut off after each byte.
TEST(postgres_copy_cut, is_an_error_wherever_it_is) {
    support::gate gate(the_postgres().port());
    connector through{postgres_url(gate.port())};
    bool whole = false;
    for (std::size_t i = 0; !whole && i < 3000; i += 7) {
        gate.pass();
        connection c = through.open();
        gate.cut_after(i);
        try {
            std::vector<int> rows(20, 1);
            c.execute_many("SELECT $1::int", rows);
            sql::copy_out out = c.copy_out("COPY (SELECT generate_series(1, 20)) TO STDOUT");
            while (out.next()) continue;
            whole = true;
        } catch (const connection_error&) {
            EXPECT_TRUE(c.broken());
        }
    }
    EXPECT_TRUE(whole);
    gate.pass();
    gate.split();
    connection c = through.open();
    EXPECT_EQ(c.execute_many("SELECT $1::int", std::vector<int>(20, 1)), 0u);
    sql::copy_out out = c.copy_out("COPY (SELECT generate_series(1, 20)) TO STDOUT");
    std::size_t bytes = 0;
    while (auto some = out.next()) bytes += some->size();
    EXPECT_EQ(bytes, 9u * 2 + 11 * 3);
}

}  // namespace
}  // namespace cenote::postgres
