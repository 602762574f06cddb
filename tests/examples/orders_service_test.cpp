// The orders service in this process: its responses, its refusals, and its end.
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "examples/orders_service/running.hpp"
#include "http_server/served.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/real_server.hpp"
#include "support/time_lapse.hpp"
#include "support/warded_process.hpp"

namespace {

using namespace std::chrono_literals;
using served::heard;
using support::ended;
using support::eventually;
using support::tcp_client;
using testing::HasSubstr;
using testing::Not;

const std::string tea = R"({"customer":"ann","lines":[{"item":"tea","quantity":2,"cents":350}]})";

std::string request_text(const std::string& method, const std::string& target,
                         const std::string& body) {
    return method + " " + target +
           " HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
}

class orders_service_at : public testing::Test {
protected:
    void start(std::size_t max = 4) {
        start_on("sqlite:" + (folder_.path() / "orders.db").string() + "?synchronous=off", max);
    }
    void start_on(const std::string& url, std::size_t max = 4) {
        orders_service::settings how;
        how.database = url;
        how.max = max;
        how.wait = wait_;
        how.limits.connections = 300;
        service_ = std::make_unique<orders_service::running>(how);
    }
    heard ask(const std::string& method, const std::string& target, const std::string& body = {}) {
        tcp_client client(service_->port());
        return served::ask(client, request_text(method, target, body));
    }
    std::int64_t count() {
        return service_->database().query("SELECT count(*) FROM orders").scalar<std::int64_t>();
    }
    cenote::stats pool() { return service_->database().stats(); }
    /// Checks that no lease is left, and that the pool's counters are consistent.
    void expect_unharmed() {
        EXPECT_TRUE(eventually([&] { return pool().leased == 0 && pool().waiting == 0; }));
        cenote::stats now = pool();
        std::uint64_t refused = 0;
        for (std::uint64_t each : now.refused_by_reason) refused += each;
        EXPECT_EQ(now.acquires, now.granted + refused);
        EXPECT_EQ(now.granted, now.released);
        EXPECT_EQ(now.discarded, 0u);
        EXPECT_LE(now.opened, now.max);
    }

    support::temporary_folder folder_{"orders", "-"};
    /// For a connection. Long, so that a busy machine refuses no request.
    std::chrono::milliseconds wait_ = std::chrono::minutes(1);
    std::unique_ptr<orders_service::running> service_;
};

/// The test of every database.
void expect_orders(const std::function<heard(const char*, const char*, const std::string&)>& ask) {
    heard made = ask("POST", "/orders", tea);
    EXPECT_EQ(made.status, 201);
    EXPECT_TRUE(made.has("Location: /orders/1\r\n"));
    EXPECT_TRUE(made.has("Content-Type: application/json\r\n"));
    std::string open = R"({"id":1,"customer":"ann","status":"open","total":700,)"
                       R"("lines":[{"item":"tea","quantity":2,"cents":350}]})";
    EXPECT_EQ(made.body, open);
    EXPECT_EQ(ask("GET", "/orders/1", "").body, open);
    heard paid = ask("POST", "/orders/1/pay", "");
    EXPECT_EQ(paid.status, 200);
    EXPECT_THAT(paid.body, HasSubstr(R"("status":"paid")"));
    EXPECT_EQ(ask("POST", "/orders/1/pay", "").status, 409);
    EXPECT_EQ(ask("POST", "/orders/1/cancel", "").status, 409);
    EXPECT_THAT(ask("GET", "/orders/1", "").body, HasSubstr(R"("status":"paid")"));
    EXPECT_EQ(ask("POST", "/orders", tea).status, 201);
    EXPECT_THAT(ask("GET", "/orders?after=1", "").body, HasSubstr(R"({"orders":[{"id":2,)"));
}

TEST_F(orders_service_at, an_order_is_made_shown_and_paid_once) {
    start();
    expect_orders([&](auto... what) { return ask(what...); });
    expect_unharmed();
}

TEST_F(orders_service_at, postgres_orders_are_the_same) {
    support::postgres_server server;
    start_on(support::app_url("postgresql", server.port()) + "?sslmode=disable");
    expect_orders([&](auto... what) { return ask(what...); });
    expect_unharmed();
    service_.reset();
}

TEST_F(orders_service_at, mariadb_orders_are_the_same) {
    support::mariadb_server server;
    start_on(support::app_url("mariadb", server.port()) + "?tls=off");
    expect_orders([&](auto... what) { return ask(what...); });
    expect_unharmed();
    service_.reset();
}

TEST_F(orders_service_at, orders_are_listed_in_pages) {
    start();
    for (int i = 0; i < 5; ++i) EXPECT_EQ(ask("POST", "/orders", tea).status, 201);
    EXPECT_EQ(ask("POST", "/orders/3/cancel").status, 200);
    std::string page = ask("GET", "/orders?after=2&limit=2").body;
    EXPECT_THAT(page, HasSubstr(R"("id":3,"customer":"ann","status":"canceled")"));
    EXPECT_THAT(page, HasSubstr(R"("id":4)"));
    EXPECT_THAT(page, Not(HasSubstr(R"("id":2)")));
    EXPECT_THAT(page, Not(HasSubstr(R"("id":5)")));
    EXPECT_EQ(ask("GET", "/orders?after=5").body, R"({"orders":[]})");
}

TEST_F(orders_service_at, bad_requests_are_explained_and_change_nothing) {
    start();
    std::string deep(1000, '[');
    std::vector<std::pair<std::string, const char*>> bodies{
        {"", "not valid JSON"},
        {"{", "not valid JSON"},
        {deep, "not valid JSON"},
        {"[]", "an object"},
        {"{}", "customer is missing"},
        {R"({"customer":"","lines":[]})", "customer must be"},
        {R"({"customer":7,"lines":[]})", "customer must be"},
        {R"({"customer":"a\u0000b","lines":[]})", "customer must be"},
        {"{\"customer\":\"\xff\xfe\",\"lines\":[]}", "not valid JSON"},
        {R"({"customer":")" + std::string(101, 'a') + R"(","lines":[]})", "customer must be"},
        {R"({"customer":"a","lines":[]})", "lines must be"},
        {R"({"customer":"a","lines":[7]})", "each line"},
        {R"({"customer":"a","lines":[{"item":"t","quantity":0,"cents":1}]})", "quantity must be"},
        {R"({"customer":"a","lines":[{"item":"t","quantity":1.5,"cents":1}]})", "quantity must"},
        {R"({"customer":"a","lines":[{"item":"t","quantity":99999999999999999999,"cents":1}]})",
         "quantity must"},
        {R"({"customer":"a","lines":[{"item":"t","quantity":1,"cents":-1}]})", "cents must be"},
        {R"({"customer":"a","lines":[{"item":"t","quantity":1,"cents":1,"x":1}]})",
         "unknown member"}};
    for (auto& [body, why] : bodies) {
        heard a = ask("POST", "/orders", body);
        EXPECT_EQ(a.status, 400) << body;
        EXPECT_THAT(a.body, HasSubstr(why));
    }
    for (const char* query : {"limit=0", "limit=101", "limit=x", "after=-1", "after=1;DROP"})
        EXPECT_EQ(ask("GET", std::string("/orders?") + query).status, 400) << query;
    EXPECT_EQ(ask("POST", "/orders", std::string(70'000, ' ')).status, 413);
    EXPECT_EQ(count(), 0);
    expect_unharmed();
}

TEST_F(orders_service_at, other_paths_and_methods_are_refused) {
    start();
    for (const char* target : {"/", "/orderss", "/orders/", "/orders/x", "/orders/-1", "/orders/1/",
                               "/orders/1/pay/", "/orders/1/delete", "/orders/99999999999999999999",
                               "/../etc/passwd", "/orders/../../etc/passwd", "/orders/%2e%2e",
                               "//orders", "/metrics/..", "*", "/orders/7"})
        EXPECT_EQ(ask("GET", target).status, 404) << target;
    EXPECT_EQ(ask("POST", "/orders/7/pay").status, 404);
    for (const char* method : {"PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"}) {
        heard a = ask(method, "/orders");
        EXPECT_EQ(a.status, 405) << method;
        EXPECT_TRUE(a.has("Allow: GET, HEAD, POST\r\n"));
    }
    EXPECT_EQ(ask("GET", "/orders/7/pay").status, 405);
    EXPECT_EQ(ask("POST", "/orders/7").status, 405);
    EXPECT_EQ(ask("POST", "/metrics").status, 405);
    EXPECT_EQ(ask("GET", "http://test/health").status, 200);
}

TEST_F(orders_service_at, health_and_metrics_take_no_lease) {
    start();
    EXPECT_TRUE(eventually([&] { return ask("GET", "/ready").status == 200; }));
    std::uint64_t before = pool().acquires;
    EXPECT_EQ(ask("GET", "/health").status, 200);
    EXPECT_THAT(ask("GET", "/metrics").body,
                HasSubstr("cenote_pool_acquires_total{pool=\"orders\"} " + std::to_string(before)));
    EXPECT_EQ(pool().acquires, before);
}

TEST_F(orders_service_at, requests_without_a_connection_are_refused_with_retry_after) {
    wait_ = std::chrono::seconds(20);
    start(1);
    auto hog = std::make_unique<cenote::scope>(service_->database().scope());
    hog->query("SELECT 1");
    for (auto [method, target, body] :
         {std::tuple("GET", "/orders", std::string()), std::tuple("POST", "/orders", tea)}) {
        support::stopped_clock time;
        std::atomic<bool> over{false};
        auto answer = std::async(std::launch::async, [&, how = method, to = target, what = body] {
            heard a = ask(how, to, what);
            over = true;
            return a;
        });
        EXPECT_TRUE(
            support::time_passes_in_line(time, service_->database(), [&] { return over.load(); }));
        heard a = answer.get();
        EXPECT_EQ(a.status, 503) << method;
        EXPECT_THAT(a.head, testing::ContainsRegex("Retry-After: [1-9]"));
        EXPECT_THAT(a.body, Not(HasSubstr(".cpp")));
    }
    EXPECT_EQ(ask("GET", "/health").status, 200);
    hog.reset();
    EXPECT_TRUE(eventually([&] { return ask("POST", "/orders", tea).status == 201; }));
    EXPECT_EQ(count(), 1);
}

TEST_F(orders_service_at, a_failed_transaction_leaves_nothing) {
    start();
    service_->database().execute(
        "CREATE TRIGGER no_gold BEFORE INSERT ON order_line WHEN NEW.item = 'gold' BEGIN SELECT "
        "RAISE(ABORT, 'no'); END");
    heard a = ask("POST", "/orders",
                  R"({"customer":"ann","lines":[{"item":"tea","quantity":1,"cents":1},)"
                  R"({"item":"gold","quantity":1,"cents":1}]})");
    EXPECT_EQ(a.status, 500);
    EXPECT_THAT(a.body, Not(HasSubstr("gold")));
    EXPECT_EQ(count(), 0);
    EXPECT_EQ(ask("POST", "/orders", tea).status, 201);
    expect_unharmed();
}

TEST_F(orders_service_at, hostile_clients_do_not_harm_the_pool) {
    start(2);
    std::vector<std::unique_ptr<tcp_client>> all;
    auto say = [&](const std::string& bytes) {
        all.push_back(std::make_unique<tcp_client>(service_->port()));
        all.back()->say(bytes);
    };
    for (int i = 0; i < 250; ++i) say("");                                // idle
    for (int i = 0; i < 10; ++i) say("POST /orders HTTP/1.1\r\nHost: ");  // slow
    for (int i = 0; i < 10; ++i)
        say("POST /orders HTTP/1.1\r\nHost: t\r\nContent-Length: 60000\r\n\r\n{");
    for (int i = 0; i < 10; ++i) say("\x80\x03 nonsense\r\n\r\n");
    for (int i = 0; i < 10; ++i) {
        say(request_text("GET", "/orders", ""));  // does not wait for the response
        all.pop_back();
    }
    EXPECT_EQ(ask("POST", "/orders", tea).status, 201);
    EXPECT_EQ(ask("GET", "/orders/1").status, 200);
    all.clear();
    expect_unharmed();
    EXPECT_TRUE(eventually([&] { return service_->stats().connections == 0; }));
}

/// Sends requests until the server closes the connection and refuses new ones.
class busy_client {
public:
    explicit busy_client(std::uint16_t port) : thread_([this, port] { run(port); }) {}
    void join() { thread_.join(); }
    int made() const { return made_; }
    int lost() const { return lost_; }

private:
    void run(std::uint16_t port) {
        try {
            for (bool more = true; more;) {
                tcp_client client(port);
                more = talk(client);
            }
        } catch (const std::system_error&) {
            refused_ = true;  // the server no longer listens, so it accepted no request
        }
    }
    bool talk(tcp_client& client) {
        for (;;) {
            heard a = served::ask(client, request_text("POST", "/orders", tea));
            if (a.status == 201) ++made_;
            else ++lost_;
            if (a.status != 201) return false;
            if (a.has("Connection: close")) return true;
        }
    }

    int made_ = 0;
    int lost_ = 0;
    bool refused_ = false;
    std::thread thread_;
};

TEST_F(orders_service_at, a_shutdown_under_load_loses_no_request) {
    start(2);
    std::vector<std::unique_ptr<busy_client>> all;
    for (int i = 0; i < 10; ++i) all.push_back(std::make_unique<busy_client>(service_->port()));
    EXPECT_TRUE(eventually([&] { return service_->stats().answered > 100; }));
    EXPECT_EQ(service_->stop(support::plenty), 0u);
    int made = 0;
    for (auto& each : all) {
        each->join();
        EXPECT_EQ(each->lost(), 0);
        made += each->made();
    }
    EXPECT_EQ(count(), made);
    expect_unharmed();
}

TEST_F(orders_service_at, ready_fails_before_the_service_stops_listening) {
    start();
    EXPECT_TRUE(eventually([&] { return ask("GET", "/ready").status == 200; }));
    service_->announce_end();
    EXPECT_EQ(ask("GET", "/ready").status, 503);
    EXPECT_EQ(ask("GET", "/health").status, 200);
    EXPECT_EQ(ask("POST", "/orders", tea).status, 201);
    EXPECT_EQ(service_->stop(support::plenty), 0u);
}

}  // namespace
