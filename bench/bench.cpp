// cenote-bench: measures cenote against other pools and against the limits of the hardware.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <semaphore>
#include <string>
#include <string_view>
#include <sys/utsname.h>
#include <thread>

#include "instructions.hpp"
#include "noise.hpp"
#include "peer_process.hpp"
#include "peers.hpp"
#include "report.hpp"
#include "stopwatch.hpp"
#include "workloads.hpp"

namespace cenote::bench {

double nanoseconds_per_tick() {
    static const double value = [] {
        using namespace std::chrono;
        auto began = steady_clock::now();
        std::uint64_t first = ticks();
        std::this_thread::sleep_for(50ms);
        auto passed = static_cast<double>(ticks() - first);
        return static_cast<double>((steady_clock::now() - began).count()) / passed;
    }();
    return value;
}

namespace {

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    return "unknown processor";
}

std::string this_machine() {
    utsname system{};
    uname(&system);
    return processor_name() + ", " + std::to_string(std::thread::hardware_concurrency()) +
           " processors, " + system.sysname + " " + system.release + ", compiler " + __VERSION__;
}

[[noreturn]] void usage(int status) {
    std::fprintf(status == 0 ? stdout : stderr,
                 "usage: cenote-bench [--quick] [--filter TEXT] [--json FILE] [--peers FOLDER]\n"
                 "  --quick         3 short repetitions instead of 7: rough results\n"
                 "  --filter TEXT   run only workloads whose name contains TEXT\n"
                 "  --json FILE     write workload, subject, metric, value and spread to FILE\n"
                 "  --peers FOLDER  also measure the peer processes in FOLDER\n"
                 "  --cycles NAME COUNT  only run cycles of one pool, for callgrind\n");
    std::exit(status);
}

/// A second thread, without which glibc and libstdc++ skip work that users of a pool always pay
/// for.
class parked_thread {
public:
    parked_thread() : thread_([this] { end_.acquire(); }) {}
    ~parked_thread() {
        end_.release();
        thread_.join();
    }
    parked_thread(const parked_thread&) = delete;
    parked_thread& operator=(const parked_thread&) = delete;

private:
    std::binary_semaphore end_{0};
    std::thread thread_;
};

[[noreturn]] void only_make_cycles(const std::string& name, const std::string& count) {
    parked_thread parked;
    if (!make_cycles(name, std::stoull(count))) usage(2);
    std::exit(0);
}

settings parse(int argc, char** argv) {
    settings how{.machine = this_machine(),
                 .quick = false,
                 .filter = {},
                 .json = {},
                 .peers = {},
                 .self = std::filesystem::read_symlink("/proc/self/exe")};
    for (int i = 1; i < argc; ++i) {
        std::string_view word = argv[i];
        auto value = [&] {
            if (i + 1 == argc) usage(2);
            return std::string(argv[++i]);
        };
        if (word == "--quick") how.quick = true;
        else if (word == "--filter") how.filter = value();
        else if (word == "--json") how.json = value();
        else if (word == "--peers") how.peers = value();
        else if (word == "--cycles") {
            std::string name = value();
            only_make_cycles(name, value());
        } else usage(word == "--help" ? 0 : 2);
    }
    return how;
}

}  // namespace

}  // namespace cenote::bench

int main(int argc, char** argv) {
    using namespace cenote::bench;
    report results(parse(argc, argv));
    parked_thread parked;
    processor_time before = processor_time::now();
    for (const std::string& name : missing_peers())
        std::printf("skipped: %s is not installed (make bench-peers)\n", name.c_str());
    peer_processes peers(results.how().peers);
    run_cycles(results, peers);
    run_c(results);
    run_contention(results, peers);
    run_coroutines(results, peers);
    run_storm(results, peers);
    run_queries(results, peers);
    run_machine(results);
    run_servers(results);
    run_databases(results);
    run_rows(results);
    run_many(results);
    run_outages(results);
    run_headers(results);
    std::printf("\n%.1f %% steal time: used by other virtual machines of the host\n",
                100 * processor_time::now().stolen_since(before));
    return results.finish() ? 0 : 1;
}
