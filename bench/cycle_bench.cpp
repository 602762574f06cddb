// W1 and W2: the cost of a cycle without contention.
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

/// Locking an uncontended mutex twice, which most pools cannot avoid.
struct two_locks {
    std::mutex mutex;
    resource it{};
};

void cycle(two_locks& floor) {
    for (int i = 0; i < 2; ++i) {
        std::lock_guard lock(floor.mutex);
        ++floor.it.uses;
    }
}

/// Posting a handler to an io_context and running it.
struct one_post {
    boost::asio::io_context io{1};
    resource it{};
};

void cycle(one_post& floor) {
    boost::asio::post(floor.io, [&] { ++floor.it.uses; });
    floor.io.restart();
    floor.io.run_one();
}

workload one_thread(const peer_processes& peers) {
    workload w{.about = "one thread, pool of 10; floor: two atomic exchanges on two cache lines",
               .seconds = 0.3,
               .subjects = {
                   on_one_thread<two_exchanges>("floor"), on_one_thread<two_locks>("two locks"),
                   on_one_thread<one_post>("Asio post"), on_one_thread<cenote_pool>("cenote", 10)}};
    for_each_peer(
        [&]<class Pool>(const char* name) { w.subjects.push_back(on_one_thread<Pool>(name, 10)); });
    peers.add_subjects(w, {hikaricp, commons_pool2, puddle, go_channel, r2d2, psycopg_pool},
                       "w1 size=10", 0.9);
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

workload without_contention(std::size_t threads, const peer_processes& peers) {
    std::string count = std::to_string(threads);
    workload w{.about = count + " threads, pool of 10", .seconds = 0.4};
    auto add = [&]<class Pool>(const char* name) {
        auto pool = std::make_shared<Pool>(10);
        w.subjects.push_back(
            {name, [=](double s) { return run_threads(*pool, threads, s); }, 1.85});
    };
    add.operator()<cenote_pool>("cenote");
    for_each_peer(add);
    peers.add_subjects(w, {hikaricp, commons_pool2, puddle, go_channel, r2d2},
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

/// One pool per size, with all resources idle, or all but one leased.
workload flat_in_size(const std::string& about, cenote::order order, bool all_idle) {
    struct prepared_pool {
        prepared_pool(std::size_t size, cenote::order order) : pool(size, {.order = order}) {}
        cenote_pool pool;
        std::vector<lease<resource>> out;
    };
    workload w{.about = about, .seconds = 0.1};
    for (std::size_t size : {4u, 64u, 1024u, 4096u}) {
        auto it = std::make_shared<prepared_pool>(size, order);
        for (std::size_t i = 1; i < size && !all_idle; ++i) it->out.push_back(it->pool.acquire());
        w.subjects.push_back(
            {std::to_string(size),
             [it](double seconds) { return time_cycles(seconds, [&] { cycle(it->pool); }); }, 0.9});
    }
    w.goals = {{"largest / smallest", goal::bound::at_most, 2.0, unevenness("cycle")}};
    return w;
}

}  // namespace

void run_cycles(report& into, const peer_processes& peers) {
    into.run("w1-one-thread", [&] { return one_thread(peers); });
    into.run("w1-instructions", [&] { return instructions(into.how().self); });
    into.run("w2-2-threads", [&] { return without_contention(2, peers); });
    into.run("w2-8-threads", [&] { return without_contention(8, peers); });
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
