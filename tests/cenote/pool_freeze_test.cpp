// A frozen process: what lay idle meanwhile is probed before it is lent again.
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <spawn.h>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using support::connector;
using support::door;
using support::eventually;
using support::plenty;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

const std::string as_child = "--as-the-frozen-child";

/// Whether this process was started by the class below.
bool is_child() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::string line(std::istreambuf_iterator<char>(file), {});
    return line.find(as_child) != std::string::npos;
}

/// This program once more, running the present test only. Does not outlive this object.
class child {
public:
    child() {
        const auto* test = testing::UnitTest::GetInstance()->current_test_info();
        std::vector<std::string> words{
            "child", std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name(),
            as_child};
        std::vector<char*> argv;
        for (auto& word : words) argv.push_back(word.data());
        argv.push_back(nullptr);
        if (posix_spawn(&id_, "/proc/self/exe", nullptr, nullptr, argv.data(), environ) != 0)
            id_ = 0;
    }
    ~child() {
        if (id_ == 0) return;
        kill(id_, SIGKILL);
        waitpid(id_, nullptr, 0);
    }
    child(const child&) = delete;
    child& operator=(const child&) = delete;

    bool stops() {
        return eventually([&] { return changed(WUNTRACED); }) && WIFSTOPPED(status_);
    }
    void go_on() const {
        if (id_ != 0) kill(id_, SIGCONT);
    }
    bool ends_well() {
        // It has limits of its own, which add up.
        return eventually([&] { return changed(0); }, 3 * plenty) && WIFEXITED(status_) &&
               WEXITSTATUS(status_) == EXIT_SUCCESS;
    }

private:
    bool changed(int what) {
        if (id_ == 0) return true;
        if (waitpid(id_, &status_, WNOHANG | what) != id_) return false;
        if (!WIFSTOPPED(status_)) id_ = 0;
        return true;
    }

    pid_t id_ = 0;
    int status_ = -1;
};

/// Leases two resources, is frozen while the pool's timer is due, and leases them again.
void be_frozen() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto to = server::start();
    door closes;
    std::mutex mutex;
    std::set<int> probed;
    to->on_probe = [&](int id) {
        std::lock_guard lock(mutex);
        probed.insert(id);
        return true;
    };
    session_pool pool{
        connector{to},
        {.max = 3, .acquire_timeout = plenty, .close_timeout = 2s, .probe_after_idle = 1h}};
    auto third = pool.acquire();
    for (int i = 0; i < 2; ++i) {
        auto one = pool.acquire();
        auto two = pool.acquire();
        ASSERT_EQ(to->opens, 3);
        ASSERT_EQ(to->probes, 0) << "they were not idle for an hour";
    }
    // A close that hangs: the timer is due at its deadline, and one can see when it has come.
    to->on_close = [closes](int) { closes.pass_through(); };
    to->on_open = [](int) { throw support::refused_by_server("only the old ones can be lent"); };
    third.discard();
    ASSERT_TRUE(eventually([&] { return to->closing == 1; }));
    ASSERT_EQ(pool.stats().abandoned, 0U) << "this machine is too slow to say anything";
    kill(getpid(), SIGSTOP);
    ASSERT_TRUE(eventually([&] { return pool.stats().abandoned == 1; }));
    auto one = pool.acquire();
    auto two = pool.acquire();
    {
        std::lock_guard lock(mutex);
        EXPECT_TRUE(probed.contains(one->id));
        EXPECT_TRUE(probed.contains(two->id));
    }
    closes.open();
}

/// Uses one resource over and over, so that it lies on the shelf when the process is frozen.
void be_frozen_at_work() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto to = server::start();
    session_pool pool{connector{to}, {.max = 2, .sweep_interval = 1s, .probe_after_idle = 1h}};
    for (int i = 0; i < 1000; ++i) (void)pool.acquire();
    kill(getpid(), SIGSTOP);
    // The first lease may come before the timer notices.
    EXPECT_TRUE(eventually([&] { return (void)pool.acquire(), to->probes > 0; }));
}

}  // namespace

TEST(pool_freeze, what_lay_idle_meanwhile_is_probed_before_it_is_lent) {
    if (is_child()) return be_frozen();
    child frozen;
    ASSERT_TRUE(frozen.stops());
    // The timer was due in at most two seconds and must be late by more than two.
    support::pass(4500ms);
    frozen.go_on();
    EXPECT_TRUE(frozen.ends_well()) << "what failed stands above";
}

TEST(pool_freeze, what_lay_on_the_shelf_meanwhile_is_probed_too) {
    if (is_child()) return be_frozen_at_work();
    child frozen;
    ASSERT_TRUE(frozen.stops());
    support::pass(4500ms);
    frozen.go_on();
    EXPECT_TRUE(frozen.ends_well()) << "what failed stands above";
}
