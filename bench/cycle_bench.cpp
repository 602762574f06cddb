// What a cycle costs when there are enough resources for everybody.
#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cycles.hpp"
#include "instructions.hpp"
#include "peers.hpp"
#include "subjects.hpp"
#include "workloads.hpp"

namespace cenote::bench {

namespace {

template <class Subject, class... Args>
subject on_one_thread(const std::string& name, Args... args) {
    auto pool = std::make_shared<Subject>(args...);
    return {.name = name,
            .run = [pool](double seconds) { return time_cycles(seconds, [&] { cycle(*pool); }); },
            .cores_needed = 0.9};
}

/// A mutex that nobody else wants, twice: what most pools cannot do without.
struct two_locks {
    std::mutex mutex;
    thing it{};
};

void cycle(two_locks& floor) {
    for (int i = 0; i < 2; ++i) {
        std::lock_guard lock(floor.mutex);
        ++floor.it.uses;
    }
}

/// A handler that is posted and run.
struct one_post {
    boost::asio::io_context io{1};
    thing it{};
};

void cycle(one_post& floor) {
    boost::asio::post(floor.io, [&] { ++floor.it.uses; });
    floor.io.restart();
    floor.io.run_one();
}

workload one_thread(const guests& others) {
    workload w{.about = "one thread, pool of 10; floor: two atomic exchanges on two cache lines",
               .seconds = 0.3,
               .subjects = {
                   on_one_thread<two_exchanges>("floor"), on_one_thread<two_locks>("two locks"),
                   on_one_thread<one_post>("Asio post"), on_one_thread<cenote_pool>("cenote", 10)}};
    meet_peers(
        [&]<class Pool>(const char* name) { w.subjects.push_back(on_one_thread<Pool>(name, 10)); });
    others.join(w, {hikaricp, commons_pool2, puddle, go_channel, r2d2, psycopg_pool}, "w1 size=10",
                0.9);
    w.goals.push_back(
        {"cenote / floor", goal::bound::at_most, 2.5, ratio("cenote", "floor", "cycle")});
    auto beats = [&](const char* peer, double factor) {
        w.goals.push_back({std::string(peer) + " / cenote", goal::bound::at_least, factor,
                           ratio(peer, "cenote", "cycle")});
    };
    for (const char* peer : {textbook, semaphore, soci_}) beats(peer, 1.9);
    beats(hikaricp, 6);
    beats(puddle, 9);
    beats(r2d2, 15);
    beats(commons_pool2, 20);
    return w;
}

workload enough_for_all(std::size_t threads, const guests& others) {
    std::string count = std::to_string(threads);
    workload w{.about = count + " threads, pool of 10", .seconds = 0.4};
    auto add = [&]<class Pool>(const char* name) {
        auto pool = std::make_shared<Pool>(10);
        w.subjects.push_back(
            {name, [=](double s) { return run_threads(*pool, threads, s); }, 1.85});
    };
    add.operator()<cenote_pool>("cenote");
    meet_peers(add);
    others.join(w, {hikaricp, commons_pool2, puddle, go_channel, r2d2},
                "w2 size=10 threads=" + count, 1.85);
    auto beats = [&](const char* peer, double factor) {
        w.goals.push_back({std::string("cenote / ") + peer, goal::bound::at_least, factor,
                           ratio("cenote", peer, "cycles")});
    };
    beats(textbook, 8);
    beats(soci_, 8);
    beats(hikaricp, 5);
    return w;
}

/// One pool per size; all its resources are idle, or all but one are lent already.
workload flat_in_size(const std::string& about, cenote::order order, bool all_idle) {
    struct lent {
        lent(std::size_t size, cenote::order order) : pool(size, {.order = order}) {}
        cenote_pool pool;
        std::vector<lease<thing>> out;
    };
    workload w{.about = about, .seconds = 0.1};
    for (std::size_t size : {4u, 64u, 1024u, 4096u}) {
        auto it = std::make_shared<lent>(size, order);
        for (std::size_t i = 1; i < size && !all_idle; ++i) it->out.push_back(it->pool.acquire());
        w.subjects.push_back(
            {std::to_string(size),
             [it](double seconds) { return time_cycles(seconds, [&] { cycle(it->pool); }); }, 0.9});
    }
    w.goals = {{"largest / smallest", goal::bound::at_most, 2.0, unevenness("cycle")}};
    return w;
}

}  // namespace

void run_cycles(report& into, const guests& others) {
    into.run("w1-one-thread", [&] { return one_thread(others); });
    into.run("w1-instructions", [&] { return instructions(into.how().self); });
    into.run("w2-2-threads", [&] { return enough_for_all(2, others); });
    into.run("w2-8-threads", [&] { return enough_for_all(8, others); });
    into.run("size-fast-idle",
             [] { return flat_in_size("pool size, fast lane, all idle", order::lifo, true); });
    into.run("size-fast-leased", [] {
        return flat_in_size("pool size, fast lane, all but one leased", order::lifo, false);
    });
    into.run("size-keeper-idle", [] {
        return flat_in_size("pool size, through the keeper, all idle", order::fifo, true);
    });
    into.run("size-keeper-leased", [] {
        return flat_in_size("pool size, through the keeper, all but one leased", order::fifo,
                            false);
    });
}

}  // namespace cenote::bench
