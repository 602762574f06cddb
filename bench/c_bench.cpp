// The cost of the C API: the same cycle through the template and through handles.
#include <memory>
#include <stdexcept>
#include <string>

#include "cenote/cenote.h"
#include "cycles.hpp"
#include "subjects.hpp"
#include "workloads.hpp"

namespace cenote::bench {

namespace {

constexpr const char* cpp = "C++";
constexpr const char* in_c = "C";

/// cenote_pool through the C API.
class c_pool {
public:
    explicit c_pool(std::size_t size) {
        cenote_connector connector{};
        connector.size = sizeof connector;
        connector.open = [](void*, void** made, cenote_failure*) -> int {
            *made = new padded_resource;
            return CENOTE_KEEP;
        };
        connector.close = [](void*, void* made) { delete static_cast<padded_resource*>(made); };
        cenote_options o;
        check(cenote_options_init(&o, sizeof o));
        o.name = "bench";
        o.max = o.min_size = size;
        o.warm_up = CENOTE_WARM_UP_WAIT;
        check(cenote_create(&connector, &o, &pool_, nullptr));
    }
    ~c_pool() { cenote_destroy(pool_, nullptr); }
    c_pool(const c_pool&) = delete;
    c_pool& operator=(const c_pool&) = delete;

    friend void cycle(c_pool& p) {
        cenote_lease lease = 0;
        void* leased = nullptr;
        check(cenote_acquire(p.pool_, CENOTE_DEFAULT_TIMEOUT, &lease, &leased));
        ++static_cast<resource*>(leased)->uses;
        check(cenote_release(lease));
    }

private:
    static void check(cenote_code code) {
        if (code != CENOTE_OK) [[unlikely]]
            throw std::runtime_error(cenote_text(code));
    }

    ::cenote_pool pool_ = 0;
};

workload one_thread() {
    workload w{.about = "one thread, pool of 10: through C++ and through C", .seconds = 0.3};
    auto one = std::make_shared<cenote_pool>(10);
    auto other = std::make_shared<c_pool>(10);
    w.subjects = {{cpp, [=](double s) { return time_cycles(s, [&] { cycle(*one); }); }, 0.9},
                  {in_c, [=](double s) { return time_cycles(s, [&] { cycle(*other); }); }, 0.9}};
    w.goals = {{"C / C++", goal::bound::at_most, 2, ratio(in_c, cpp, "cycle")}};
    return w;
}

workload two_threads() {
    workload w{.about = "2 threads, pool of 10: through C++ and through C", .seconds = 0.4};
    auto one = std::make_shared<cenote_pool>(10);
    auto other = std::make_shared<c_pool>(10);
    w.subjects = {{cpp, [=](double s) { return run_threads(*one, 2, s); }, 1.85},
                  {in_c, [=](double s) { return run_threads(*other, 2, s); }, 1.85}};
    w.goals = {{"C++ / C", goal::bound::at_most, 2, ratio(cpp, in_c, "cycles")}};
    return w;
}

}  // namespace

void run_c(report& into) {
    into.run("c-one-thread", [] { return one_thread(); });
    into.run("c-two-threads", [] { return two_threads(); });
}

}  // namespace cenote::bench
