// Sessions of MariaDB as options::on_open sets them up.
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/mariadb.hpp"
#include "connector/mariadb_place.hpp"
#include "connector/sql_on_open.hpp"

namespace cenote::mariadb {
namespace {

using on_open_test::blocking_with;
using on_open_test::steps;
using support::mariadb_url;
using support::the_mariadb;

struct mariadb_case : support::mariadb_place {
    using options = mariadb::options;

    static constexpr const char* look =
        "select concat_ws(' ', @@max_statement_time, @tenant, @@time_zone, current_role(), "
        "(select group_concat(concat(i, name) order by i) from cached))";
    static constexpr const char* seen = "77.500000 acme\\ & 'søns' +01:00 clerk 1one,2two";

    static steps set_up() {
        return {{"select @@version"},
                {"set max_statement_time = ?", 77.5},
                {"set @tenant = ?", "acme\\ & 'søns'"},
                {"set session time_zone = '+01:00' -- and a comment"},
                {"create temporary table cached(i int, name text character set utf8mb4)"},
                {"insert into cached values (1, 'one'), (2, 'two')"},
                {"set role clerk"}};
    }
    static steps set_up_again() { return {{"set @tenant = ?", "acme\\ & 'søns'"}}; }

    static constexpr std::array changes_in_a_transaction{
        "set max_statement_time = 5", "set @tenant = 'other'", "update cached set name = 'x'"};

    static std::vector<std::string> changes(int i) {
        if (i % 3 == 0) return {};
        if (i % 3 == 1) return {"set max_statement_time = 5", "set role none"};
        return {"set @tenant = 'other', session time_zone = '+05:00'",
                "drop temporary table cached"};
    }
    static options plain(reset_mode how = reset_mode::with_next) {
        the_mariadb().execute_as_admin(
            "create role if not exists clerk; grant clerk to app@'%'; "
            "grant select, insert, update, delete, create temporary tables on orders.* to clerk");
        options o = options::from_url(mariadb_url());
        o.reset = how;
        return o;
    }
    static options through(support::gate& gate) {
        options o = plain();
        o.port = gate.port();
        return o;
    }
};

/// For a server that has no roles.
struct without_role : mariadb_case {
    static constexpr const char* look = "select concat_ws(' ', @@max_statement_time, @tenant)";
    static constexpr const char* seen = "77.500000 acme";

    static steps set_up() {
        return {{"set max_statement_time = ?", 77.5}, {"set @tenant = 'acme'"}};
    }
    static std::vector<std::string> changes(int i) {
        if (i % 2 == 0) return {};
        return {"set max_statement_time = 5, @tenant = 'other'"};
    }
};

class mariadb_on_open : public testing::TestWithParam<reset_mode> {};

TEST_P(mariadb_on_open, is_found_by_every_lease) {
    on_open_test::every_lease_finds_what_it_sets<mariadb_case>(mariadb_case::plain(GetParam()));
}

TEST_P(mariadb_on_open, is_found_by_the_statements_of_a_database) {
    on_open_test::statements_of_a_database_find_what_it_sets<mariadb_case>(
        mariadb_case::plain(GetParam()));
}

TEST_P(mariadb_on_open, is_found_under_tls) {
    on_open_test::every_lease_finds_what_it_sets<without_role>(
        support::mariadb_with_tls::shared().reached_from(mariadb_case::plain(GetParam())));
}

TEST_P(mariadb_on_open, keeps_leases_from_running_if_it_cannot_be_repeated) {
    steps all = mariadb_case::set_up();
    all.insert(all.begin(), {"do (select count(*) from source)"});
    on_open_test::no_lease_runs_without_it<mariadb_case>(
        blocking_with<mariadb_case>(mariadb_case::plain(GetParam()), all),
        GetParam() == reset_mode::by_tracking ? "set max_statement_time = 9" : "select 1",
        [](bool there) {
            the_mariadb().execute_as_admin(there ? "create table if not exists source(i int)"
                                                 : "drop table if exists source");
        });
}

INSTANTIATE_TEST_SUITE_P(modes, mariadb_on_open,
                         testing::Values(reset_mode::with_next, reset_mode::at_release,
                                         reset_mode::by_tracking));

TEST(mariadb_on_open, is_called_once_for_each_connection) {
    on_open_test::it_is_called_once_for_each_connection<mariadb_case>(mariadb_case::plain());
}

TEST(mariadb_on_open, costs_no_round_trip) {
    support::gate gate(the_mariadb().port());
    // Roles are changes after which the pool resets the session at release.
    options with = mariadb_case::through(gate);
    on_open_test::its_repetition_costs_no_round_trip<mariadb_case>(with, gate);
}

/// All kinds of values, which are repeated as literals.
TEST(mariadb_on_open, repeats_values_as_they_are) {
    using namespace std::chrono;
    const sql::bytes octets{std::byte{0}, std::byte{255}, std::byte{'\''}};
    const std::string hard = "a'b\\c\"d\xc3\xb8?";
    const steps all{{"set @a = ?", sql::parameter(std::int64_t{-9'000'000'000})},
                    {"set @b = ?", sql::parameter(0.1)},
                    {"set @c = ?", sql::parameter(hard)},
                    {"set @d = ?", sql::parameter(octets)},
                    {"set @e = ?", sql::parameter(nullptr)},
                    {"set @f = ?", sql::parameter(true)},
                    {"set @g = ?", sql::parameter(year{2024} / 2 / 29)},
                    {"set @h = ?", sql::parameter(local_days(year{2024} / 2 / 29) + 90s + 5us)},
                    {"set @i = ?", sql::parameter(-(25h + 1s))},
                    {"set @j = ?", sql::parameter(1e300)},
                    {"set @k = ?", sql::parameter("")}};
    const char* look =
        "select convert(concat_ws('|', @a, @b + 0, hex(@c), hex(@d), @e is null, @f, @g, @h, @i, "
        "@j = 1e300, @k) using utf8mb4)";
    connector to(blocking_with<mariadb_case>(mariadb_case::plain(), all));
    connection c = to.open();
    const std::string first = c.execute(look).scalar<std::string>();
    EXPECT_EQ(to.before_release(c), verdict::reset_later);
    const std::string second = c.execute(look).scalar<std::string>();
    connector plain(mariadb_case::plain());
    connection d = plain.open();
    on_open_test::run(d, all);
    const std::string by_hand = d.execute(look).scalar<std::string>();
    EXPECT_EQ(first, by_hand);
    EXPECT_EQ(second, by_hand);
    EXPECT_THAT(by_hand, testing::StartsWith("-9000000000|0.1|"));
}

TEST(mariadb_on_open, is_refused_what_cannot_be_repeated) {
    the_mariadb().execute_as_admin(
        "create or replace procedure tell() select 1; grant execute on orders.* to app@'%'");
    using all = std::vector<on_open_test::attempt<mariadb_case>>;
    std::vector<int> rows{1, 2};
    auto setup = std::make_shared<sql::lease_setup>();
    setup->role = "clerk";
    on_open_test::it_is_refused<mariadb_case>(
        mariadb_case::plain(),
        all{{"prepare", [](connection& c) { c.prepare("select 1"); }},
            {"stream", [](connection& c) { c.stream("select 1"); }},
            {"execute_many", [&](connection& c) { c.execute_many("do ?", rows); }},
            {"batch",
             [](connection& c) {
                 sql::batch one;
                 one.add("select 1");
                 c.execute(one);
             }},
            {"handle", [](connection& c) { c.native_handle(); }},
            {"use", [&](connection& c) { c.use(setup); }},
            {"START TRANSACTION", [](connection& c) { c.execute("start transaction"); }},
            {"autocommit", [](connection& c) { c.execute("set autocommit = 0"); }},
            {"session tracking",
             [](connection& c) { c.execute("set SESSION_track_state_change = off"); }},
            {"procedure with rows", [](connection& c) { c.execute("call tell()"); }},
            {"too much", [](connection& c) {
                 std::string long_text = "set @text = '" + std::string(1000, 'x') + "'";
                 for (int i = 0; i < 100; ++i) c.execute(long_text);
             }}});
    the_mariadb().execute_as_admin("drop procedure tell");
}

TEST(mariadb_on_open, fails_the_open_if_it_cannot_be_repeated) {
    on_open_test::it_fails_the_open_if_it_cannot_be_repeated<mariadb_case>(
        blocking_with<mariadb_case>(mariadb_case::plain(), {{"create table unique_one(i int)"}}));
    the_mariadb().execute_as_admin("drop table unique_one");
}

TEST(mariadb_on_open, fails_the_open_with_its_exception) {
    on_open_test::its_exception_fails_the_open<mariadb_case>(mariadb_case::plain());
    on_open_test::a_pool_tells_its_exception<mariadb_case>();
}

TEST(mariadb_on_open, fails_if_the_connection_is_killed) {
    on_open_test::a_killed_connection_fails_the_open<mariadb_case>();
}

TEST(mariadb_on_open, fails_wherever_it_is_cut_off) {
    support::gate gate(the_mariadb().port());
    gate.overlook(support::is_side_connection);
    on_open_test::it_fails_wherever_it_is_cut_off<mariadb_case>(mariadb_case::through(gate), gate);
}

TEST(mariadb_on_open, can_be_canceled_at_every_step) {
    support::gate gate(the_mariadb().port());
    gate.overlook(support::is_side_connection);
    on_open_test::it_can_be_canceled_at_every_step<mariadb_case>(mariadb_case::through(gate), gate);
}

TEST(mariadb_on_open, that_hangs_times_out) {
    on_open_test::an_awaited_function_that_hangs_times_out<mariadb_case>();
    on_open_test::a_statement_that_hangs_times_out<mariadb_case>("do sleep(600)");
}

TEST(mariadb_on_open, that_hangs_is_left_behind) {
    on_open_test::a_pool_abandons_functions_that_hang<mariadb_case>();
    on_open_test::a_canceled_open_leaves_its_function_behind<mariadb_case>();
}

/// The database of the options is selected first, and then what on_open has selected.
TEST(mariadb_on_open, may_select_another_database) {
    the_mariadb().execute_as_admin(
        "create database if not exists other; grant all on other.* to app@'%'");
    cenote::pool<connection> one{
        connector{blocking_with<mariadb_case>(
            mariadb_case::plain(),
            {{"use other"}, {"create temporary table here as select database() as name"}})},
        support::patient(1)};
    for (int i = 0; i < 6; ++i) {
        auto lease = one.acquire();
        EXPECT_EQ(lease->execute("select concat(database(), name) from here").scalar<std::string>(),
                  "otherother");
        if (i % 2 == 1) lease->execute("use orders");
    }
    EXPECT_EQ(one.stats().opened, 1u);
    the_mariadb().execute_as_admin("drop database other");
}

}  // namespace
}  // namespace cenote::mariadb
