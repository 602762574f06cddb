// 16: a test of a program that uses a pool: hours pass at once, and no test sleeps.
#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <cenote/pool.hpp>
#include <cenote/testing.hpp>

using namespace std::chrono_literals;

namespace {

struct session {
    int number;
};

/// The class under test: it creates its own pool, from options that a test can set.
class report_service {
public:
    report_service(auto connect, cenote::options settings)
        : sessions_(std::move(connect), std::move(settings)) {}

    std::string report() {
        try {
            auto lease = sessions_.acquire_for(2s);
            return "report from session " + std::to_string(lease->number);
        } catch (const cenote::pool_error&) {
            return "no report, try again";
        }
    }
    const cenote::pool<session>& sessions() const { return sessions_; }

private:
    cenote::pool<session> sessions_;
};

void expect(bool holds, const char* what) {
    std::printf("%s: %s\n", what, holds ? "true" : "FALSE");
    if (!holds) throw std::logic_error(what);
}

}  // namespace

int main() {
    auto clock = std::make_shared<cenote::manual_clock>();
    bool up = true;
    int opened = 0;
    auto connect = [&] {
        if (!up) throw std::runtime_error("connection refused");
        return session{++opened};
    };
    report_service service{connect, {.max = 1, .idle_timeout = 5min, .clock = clock}};

    expect(service.report() == "report from session 1", "the first report opens a session");
    clock->advance(4min);
    expect(service.sessions().stats().total == 1, "after four minutes it is still open");
    clock->advance(1min);
    expect(service.sessions().stats().total == 0, "after five minutes without use it is closed");

    up = false;
    auto before = clock->now();
    expect(service.report() == "no report, try again", "without a server there is no report");
    expect(clock->now() - before == 2s, "and that took two seconds");

    up = true;
    expect(service.report() == "report from session 2", "after the server's return there is one");
}
