// Declares, repeats, judges and prints measurements.
//
// The machine is shared and has slow phases of minutes, so a single time is not significant.
// Therefore all subjects of a workload take turns inside each repetition, and goals are judged by
// the median of the ratios of each repetition. A noisy run is repeated: the process got too few
// processors, other virtual machines stole time, or the processor ran at a lower frequency. Runs
// are never selected by their result.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cenote::bench {

struct metric {
    std::string name;
    double value = 0;
    std::string unit;
};

/// The result of one run of one subject.
struct measured {
    std::vector<metric> metrics = {};
    double cores = 0;           // average number of processors used
    std::string declined = {};  // why the subject cannot be measured
    std::string failed = {};    // the error

    double operator[](const std::string& name) const;
};

struct subject {
    std::string name;
    std::function<measured(double seconds)> run;
    double cores_needed = 0;  // a run with fewer is repeated
};

/// One row per repetition, one column per subject.
using repetitions = std::vector<std::vector<measured>>;

struct spread {
    double median = 0;
    double low = 0;
    double high = 0;
};
spread spread_of(std::vector<double> values);

struct workload;

/// The value of a goal; nothing if a subject is missing.
using judged = std::function<std::optional<spread>(const workload&, const repetitions&)>;

struct goal {
    enum class bound { at_most, at_least };

    std::string text;
    bound which{};
    double limit = 0;
    judged value;

    bool met(const spread& s) const {
        return which == bound::at_most ? s.median <= limit : s.median >= limit;
    }
};

struct workload {
    std::string name = {};
    std::string about = {};
    double seconds = 0.4;  // of one run
    std::vector<subject> subjects = {};
    std::vector<goal> goals = {};
    bool exact = false;  // deterministic: one repetition is enough
};

/// `metric` of one subject.
judged value_of(std::string subject, std::string metric);
/// `metric` of `one` divided by that of `other`, by repetition.
judged ratio(std::string one, std::string other, std::string metric);
/// `metric` of `one` divided by the best of the available `others`, by repetition.
enum class best { largest, smallest };
judged ratio_to_best(std::string one, std::vector<std::string> others, std::string metric,
                     best which);
/// `metric` of `one` divided by that of the available one of `others` whose `lead` is the largest,
/// by repetition.
judged ratio_to_leader(std::string one, std::vector<std::string> others, std::string lead,
                       std::string metric);
/// The largest of all subjects' best times divided by the smallest one.
judged unevenness(std::string metric);

struct settings {
    std::string machine;  // a description
    bool quick = false;
    std::string filter;
    std::string json;
    std::string peers;  // the folder of the peer processes; empty: none
    std::string self;   // the path of this program
};

/// Runs workloads, prints the results, and writes them to the JSON file.
class report {
public:
    explicit report(settings how);

    /// Creates and runs a workload if its name matches the filter.
    void run(const std::string& name, const std::function<workload()>& make);

    const settings& how() const noexcept { return how_; }

    /// Prints the summary and writes the file. False: writing or a peer failed.
    bool finish() const;

private:
    measured run_without_noise(const workload& w, const subject& s);
    void print(const workload& w, const repetitions& all);
    void print(const workload& w, const std::string& subject, const metric& m, const spread& seen);
    bool write_json() const;
    void judge(const workload& w, const repetitions& all);

    settings how_;
    std::vector<std::string> rows_;  // JSON
    std::vector<std::string> goals_;
    std::vector<std::string> missed_;
    std::size_t met_ = 0;
    std::size_t repeated_ = 0;
    std::size_t failed_ = 0;
};

}  // namespace cenote::bench
