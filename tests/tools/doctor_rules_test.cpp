// The rules of cenote doctor, one by one.
#include "cenote/doctor_rules.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using namespace doctor;
using namespace std::chrono_literals;
using testing::HasSubstr;

const auto today = std::chrono::system_clock::from_time_t(1'800'000'000);

/// A remote PostgreSQL without any problem.
facts healthy() {
    facts f;
    f.kind = server_kind::postgres;
    f.host = "db.example:5432";
    f.tls = {.in_use = true,
             .verified = true,
             .offered = true,
             .version = "TLSv1.3",
             .subject = "db.example",
             .issuer = "Example CA",
             .complaint = "",
             .expires = today + 24h * 365};
    f.open = {.count = 10, .p50 = 12ms, .p99 = 20ms};
    f.trip = {.count = 200, .p50 = 400us, .p99 = 900us};
    f.probe = {.count = 50, .p50 = 400us, .p99 = 900us};
    f.reset = {.count = 50, .p50 = 500us, .p99 = 1ms};
    f.limits = {{.name = "max_connections 100 less 3 reserved", .takes = 97, .in_use = 10}};
    f.clock_ahead = 2ms;
    f.idle_in_transaction_timeout = 60s;
    return f;
}

const finding* find(const std::vector<finding>& all, std::string_view code) {
    auto found =
        std::find_if(all.begin(), all.end(), [&](const finding& f) { return f.code == code; });
    return found == all.end() ? nullptr : &*found;
}

/// The severity of the finding with this code; nothing if there is none.
std::optional<severity> severity_of(const facts& f, std::string_view code, const planned& p = {}) {
    auto all = judge(f, p, today);
    const finding* found = find(all, code);
    return found == nullptr ? std::nullopt : std::optional(found->how);
}

TEST(doctor_rules_test, finds_no_problem_with_a_healthy_server) {
    auto all = judge(healthy(), {}, today);
    EXPECT_FALSE(has_problem(all));
    for (const finding& f : all) EXPECT_EQ(f.how, severity::ok) << f.code;
    EXPECT_GE(all.size(), 5u);
}

TEST(doctor_rules_test, the_worst_comes_first) {
    facts f = healthy();
    f.tls.verified = false;
    auto all = judge(f, {.max = 1000}, today);
    EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                               [](const finding& a, const finding& b) { return a.how < b.how; }));
    EXPECT_EQ(all.front().how, severity::problem);
    EXPECT_TRUE(has_problem(all));
}

TEST(doctor_rules_test, without_a_connection_there_is_one_finding_with_the_reason) {
    for (int i = 1; i <= static_cast<int>(connect_error::other); ++i) {
        facts f = healthy();
        f.error = static_cast<connect_error>(i);
        f.error_text = "the server's message";
        auto all = judge(f, {}, today);
        ASSERT_EQ(all.size(), 1u) << i;
        EXPECT_EQ(all[0].how, severity::problem) << i;
        EXPECT_EQ(all[0].why, "the server's message") << i;
        EXPECT_FALSE(all[0].then.empty()) << i;
    }
}

TEST(doctor_rules_test, all_processes_together_must_fit) {
    facts f = healthy();
    EXPECT_EQ(severity_of(f, "connections", {.max = 40, .processes = 2}), severity::ok);
    // 97 - 10 in use = 87 are free.
    EXPECT_EQ(severity_of(f, "no-connections-left", {.max = 87}), severity::note);
    EXPECT_EQ(severity_of(f, "connections-taken", {.max = 88}), severity::warning);
    EXPECT_EQ(severity_of(f, "connections-taken", {.max = 97}), severity::warning);
    EXPECT_EQ(severity_of(f, "too-few-connections", {.max = 98}), severity::problem);
    auto all = judge(f, {.max = 32, .processes = 8}, today);
    const finding* found = find(all, "too-few-connections");
    ASSERT_NE(found, nullptr);
    EXPECT_THAT(found->what, HasSubstr("8 processes × max 32 = 256 connections, but the server "
                                       "takes 97"));
    EXPECT_THAT(found->then, HasSubstr("at most 10 in each of 8 processes"));
}

TEST(doctor_rules_test, the_pool_should_close_idle_connections_first) {
    facts f = healthy();
    f.idle_limits = {{"idle_session_timeout", 60s}};
    EXPECT_EQ(severity_of(f, "idle-timeout", {.idle_timeout = 59s}), severity::ok);
    EXPECT_EQ(severity_of(f, "idle-timeout", {.idle_timeout = 60s}), severity::warning);
    f.idle_limits = {{"idle_session_timeout", 0s}};
    EXPECT_EQ(severity_of(f, "idle-timeout"), std::nullopt);
}

TEST(doctor_rules_test, connections_without_tls_are_safe_only_on_this_machine) {
    facts f = healthy();
    f.tls = {};
    EXPECT_EQ(severity_of(f, "tls-off"), severity::problem);
    f.local = true;
    EXPECT_EQ(severity_of(f, "tls-off"), std::nullopt);
    EXPECT_EQ(severity_of(f, "tls-local"), severity::ok);
    f = healthy();
    f.tls.verified = false;
    EXPECT_EQ(severity_of(f, "tls-unverified"), severity::warning);
    f.local = true;
    EXPECT_EQ(severity_of(f, "tls-unverified"), severity::note);
    f = healthy();
    f.tls.version = "TLSv1.1";
    EXPECT_EQ(severity_of(f, "tls-old"), severity::warning);
}

TEST(doctor_rules_test, a_certificate_that_expires_soon_is_reported) {
    facts f = healthy();
    f.tls.expires = today + 24h * 31;
    EXPECT_EQ(severity_of(f, "certificate-expires"), std::nullopt);
    f.tls.expires = today + 24h * 20;
    EXPECT_EQ(severity_of(f, "certificate-expires"), severity::warning);
    f.tls.expires = today + 24h * 6;
    EXPECT_EQ(severity_of(f, "certificate-expires"), severity::problem);
}

TEST(doctor_rules_test, what_a_pool_saves_is_reported) {
    facts f = healthy();
    EXPECT_EQ(severity_of(f, "pooling-pays"), severity::ok);
    f.open.p50 = 900us;
    EXPECT_EQ(severity_of(f, "pooling-saves-little"), severity::note);
    f = healthy();
    f.reset.p50 = 5ms;
    EXPECT_EQ(severity_of(f, "reset-is-costly"), severity::note);
    f = healthy();
    f.trip.p50 = 25ms;
    EXPECT_EQ(severity_of(f, "far-away"), severity::warning);
    f = healthy();
    f.trip.p99 = 30ms;
    EXPECT_EQ(severity_of(f, "latency-varies"), severity::note);
}

TEST(doctor_rules_test, a_dropped_idle_connection_is_a_problem_if_the_pool_keeps_them_longer) {
    facts f = healthy();
    f.idle = {.waited = 90s, .survived = true};
    EXPECT_EQ(severity_of(f, "idle-survived"), severity::ok);
    f.idle = {.waited = 90s, .survived = false, .silently = true};
    EXPECT_EQ(severity_of(f, "idle-dropped-silently"), severity::problem);
    EXPECT_EQ(severity_of(f, "idle-dropped-silently", {.idle_timeout = 60s}), severity::note);
    f.idle->silently = false;
    EXPECT_EQ(severity_of(f, "idle-closed"), severity::problem);
}

TEST(doctor_rules_test, roles_poolers_and_clocks) {
    facts f = healthy();
    f.replica = true;
    EXPECT_EQ(severity_of(f, "read-only"), severity::warning);
    f.may_be_read_only = true;
    EXPECT_EQ(severity_of(f, "read-only"), std::nullopt);
    f = healthy();
    f.in_front = pooler::session;
    EXPECT_EQ(severity_of(f, "pooler"), severity::note);
    f.in_front = pooler::transaction;
    EXPECT_EQ(severity_of(f, "pooler-transaction"), severity::warning);
    f = healthy();
    f.clock_ahead = -5s;
    EXPECT_EQ(severity_of(f, "clock"), severity::note);
    f.clock_error = 5s;
    EXPECT_EQ(severity_of(f, "clock"), severity::ok);
    f.clock_error = 0s;
    f.clock_ahead = 61s;
    EXPECT_EQ(severity_of(f, "clock"), severity::warning);
    EXPECT_EQ(severity_of(healthy(), "lifetime", {.max_lifetime = cenote::forever}),
              severity::note);
    f = healthy();
    f.idle_in_transaction_timeout = 0s;
    EXPECT_EQ(severity_of(f, "idle-in-transaction"), severity::note);
}

TEST(doctor_rules_test, prepared_statements_of_all_connections_must_fit) {
    facts f = healthy();
    f.max_prepared = 16382;
    f.statement_cache = 100;
    EXPECT_EQ(severity_of(f, "too-many-statements", {.max = 163}), std::nullopt);
    EXPECT_EQ(severity_of(f, "too-many-statements", {.max = 82, .processes = 2}),
              severity::problem);
}

TEST(doctor_rules_test, files_memory_and_web_servers) {
    facts f = healthy();
    f.file = sqlite_facts{.journal_mode = "delete",
                          .file_system = "a network file system (NFS)",
                          .writable = false,
                          .damage = "row 1 missing",
                          .free_bytes = 1000};
    for (const char* code : {"damaged", "network-file-system", "read-only-file"})
        EXPECT_EQ(severity_of(f, code), severity::problem) << code;
    EXPECT_EQ(severity_of(f, "disk-full"), severity::warning);
    EXPECT_EQ(severity_of(f, "not-wal"), severity::note);
    f = healthy();
    f.memory = redis_facts{.max_memory = 0, .eviction = "noeviction"};
    EXPECT_EQ(severity_of(f, "memory-unbounded"), severity::note);
    f.memory->max_memory = 1000;
    EXPECT_EQ(severity_of(f, "writes-may-fail"), severity::note);
    f.memory->eviction = "allkeys-lru";
    EXPECT_EQ(severity_of(f, "keys-may-vanish"), severity::note);
    f = healthy();
    f.web = {.status = 502, .keeps_alive = false};
    EXPECT_EQ(severity_of(f, "no-keep-alive"), severity::warning);
    EXPECT_EQ(severity_of(f, "server-fails"), severity::warning);
    f.web = {.status = 200, .keeps_alive = true, .requests_per_connection = 100};
    EXPECT_EQ(severity_of(f, "requests-per-connection"), severity::note);
}

}  // namespace
