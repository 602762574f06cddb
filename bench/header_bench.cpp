// The compile time of each public header.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <vector>

#include "command.hpp"
#include "workloads.hpp"

namespace cenote::bench {

namespace {

namespace fs = std::filesystem;

/// Standard headers that most programs include, for comparison.
constexpr const char* reference = "standard headers";
constexpr const char* reference_text =
    "#include <chrono>\n#include <functional>\n#include <memory>\n#include <string>\n"
    "#include <vector>\n";

double seconds_of_children() {
    rusage used{};
    getrusage(RUSAGE_CHILDREN, &used);
    auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// The better time of two compilations: the first may read files from disk.
measured compile(const std::string& text) {
    fs::path source = fs::temp_directory_path() / ("cenote-header-" + std::to_string(getpid()));
    source += ".cpp";
    std::ofstream(source) << text;
    double best = 1e9;
    for (int i = 0; i < 2; ++i) {
        double before = seconds_of_children();
        output_of({CENOTE_BENCH_COMPILER, "-std=c++20", "-fsyntax-only", "-I", CENOTE_BENCH_INCLUDE,
                   source.string()});
        best = std::min(best, seconds_of_children() - before);
    }
    fs::remove(source);
    return {.metrics = {{"cpu", best * 1e3, "ms"}}};
}

workload headers() {
    workload w{.about = "CPU time of the compiler for a source that only includes this header",
               .exact = true};
    w.subjects.push_back({reference, [](double) { return compile(reference_text); }});
    std::vector<std::string> names;
    for (const auto& each : fs::directory_iterator(fs::path(CENOTE_BENCH_INCLUDE) / "cenote"))
        if (each.path().extension() == ".hpp") names.push_back(each.path().filename().string());
    std::ranges::sort(names);
    for (const std::string& name : names)
        w.subjects.push_back(
            {name, [name](double) { return compile("#include <cenote/" + name + ">\n"); }});
    w.goals.push_back({"pool.hpp / standard headers", goal::bound::at_most, 2,
                       ratio("pool.hpp", reference, "cpu")});
    return w;
}

}  // namespace

void run_headers(report& into) { into.run("headers", headers); }

}  // namespace cenote::bench
