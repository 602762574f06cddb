// A program with pools in every state that the dashboard shows, controlled by a test.
//
// usage: dashboard_scene [READ_TOKEN]
//
// Prints the dashboard's URL and the control token, then executes a command per line:
//   rest   stop the users of `orders`                        work   resume them
//   odd    show a further pool whose name looks like HTML    even   hide it
//   renew  replace `payments` by another pool of the same name
//   bye    exit (as at the end of the input)
#include <atomic>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "cenote/dashboard.hpp"
#include "cenote/pool.hpp"
#include "cenote/secret.hpp"

namespace {

using namespace std::chrono_literals;

struct session {
    int number = 0;
};

session open_session() {
    static std::atomic<int> made{0};
    std::this_thread::sleep_for(4ms);
    return {++made};
}

class scene {
public:
    scene(const cenote::secret& read_token, const cenote::secret& token)
        : board_({.read_token = read_token, .control_token = token}),
          orders_(open_session, orders_options()) {
        leak();
        payments_.deactivate();
        reports_.pause();
        for (const char* task : {"checkout", "checkout", "checkout", "list orders", "list orders",
                                 "invoice", "invoice", "stock", "stock", "search", "search",
                                 "search", "search", "mail", "mail", "stock", "invoice"})
            users_.emplace_back([this, task](const std::stop_token& s) { order(task, s); });
        users_.emplace_back([this](const std::stop_token& s) { look_up(s); });
        users_.emplace_back([this](const std::stop_token& s) { pay(s); });
        for (int i = 0; i < 3; ++i)
            users_.emplace_back([this](const std::stop_token& s) { report(s); });
    }

    std::string url() const { return board_.url(); }
    void rest() { resting_ = true; }
    void work() { resting_ = false; }
    void odd() { shown_.push_back(board_.watch(odd_.control())); }
    void even() { shown_.resize(4); }
    void renew() {
        shown_[2] = {};
        shown_[2] = board_.watch(new_payments_.control());
    }

private:
    cenote::options orders_options() const {
        return {.name = "orders", .max = 12, .min_idle = 2, .observers = {board_.observer()}};
    }

    void leak() {
        leaked_ = sessions_.acquire({.task = "nightly export"});
        // On another thread, because this one already holds a lease.
        std::jthread other([this] {
            kept_ = sessions_.acquire({.task = "cursor of a report", .leak_after = 1h});
        });
    }

    void order(const char* task, const std::stop_token& stop) {
        std::mt19937 random(std::random_device{}());
        std::uniform_int_distribution<int> hold(2000, 9000);
        std::uniform_int_distribution<int> think(500, 3000);
        while (!stop.stop_requested()) {
            std::this_thread::sleep_for(resting_ ? 5ms : std::chrono::microseconds(think(random)));
            if (resting_) continue;
            std::error_code error;
            auto held = orders_.acquire({.timeout = 500ms, .stop = stop, .task = task}, error);
            std::this_thread::sleep_for(std::chrono::microseconds(hold(random)));
        }
    }
    void look_up(const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            {
                std::error_code error;
                auto held =
                    sessions_.acquire({.stop = stop, .task = "login", .leak_after = 1h}, error);
                std::this_thread::sleep_for(1ms);
            }
            std::this_thread::sleep_for(20ms);
        }
    }
    void pay(const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            std::error_code error;
            auto held = payments_.acquire({.stop = stop, .task = "charge"}, error);
            std::this_thread::sleep_for(100ms);
        }
    }
    void report(const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            std::error_code error;
            auto held =
                reports_.acquire({.timeout = 1h, .stop = stop, .task = "monthly report"}, error);
            if (held) std::this_thread::sleep_for(30ms);
        }
    }

    std::atomic<bool> resting_{false};
    cenote::dashboard board_;
    cenote::pool<session> orders_;
    cenote::pool<session> sessions_{
        open_session,
        {.name = "sessions", .max = 8, .leak_after = 300ms, .observers = {board_.observer()}}};
    cenote::pool<session> payments_{
        open_session, {.name = "payments", .max = 4, .observers = {board_.observer()}}};
    cenote::pool<session> reports_{
        open_session,
        {.name = "reports", .max = 6, .min_size = 2, .observers = {board_.observer()}}};
    cenote::pool<session> new_payments_{open_session, {.name = "payments", .max = 3}};
    // A name that must not be interpreted as markup.
    cenote::pool<session> odd_{open_session, {.name = "<img src=x onerror=document.title='!'>"}};
    std::vector<cenote::dashboard::entry> shown_ = [this] {
        std::vector<cenote::dashboard::entry> all;
        all.push_back(board_.watch(orders_.control()));
        all.push_back(board_.watch(sessions_.control()));
        all.push_back(board_.watch(payments_.control()));
        all.push_back(board_.watch(reports_.control()));
        return all;
    }();
    cenote::lease<session> leaked_;
    cenote::lease<session> kept_;
    std::vector<std::jthread> users_;  // destroyed first
};

}  // namespace

int main(int argc, char** argv) {
    const std::string token = "a-token-for-tests-only";
    scene on{cenote::secret(argc > 1 ? argv[1] : ""), cenote::secret(token)};
    std::cout << on.url() << ' ' << token << std::endl;
    for (std::string line; std::getline(std::cin, line) && line != "bye";) {
        if (line == "rest") on.rest();
        if (line == "work") on.work();
        if (line == "odd") on.odd();
        if (line == "even") on.even();
        if (line == "renew") on.renew();
        std::cout << "ok" << std::endl;
    }
}
