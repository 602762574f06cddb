// How a measurement is declared, repeated, judged and printed.
//
// The machine is shared and has slow phases of minutes, so a single time says nothing. Therefore:
// all subjects of a workload take turns inside each repetition; ratios are taken inside a
// repetition and their median is judged; a run that was disturbed is repeated: its process did not
// get the processors it needs, other guests of the host stole time, or the processor was slower
// than it can be. Runs are selected by that only, never by their result.
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

/// What one run of one subject gave.
struct measured {
    std::vector<metric> metrics = {};
    double cores = 0;           // processors the process had on average while it was measured
    std::string declined = {};  // why there is nothing to be measured
    std::string failed = {};    // or what went wrong

    double operator[](const std::string& name) const;
};

struct subject {
    std::string name;
    std::function<measured(double seconds)> run;
    double cores_needed = 0;  // with less the run is repeated; 0: any will do
};

/// One row per repetition, one column per subject.
using repetitions = std::vector<std::vector<measured>>;

/// A value and how far it spread.
struct spread {
    double median = 0;
    double low = 0;
    double high = 0;
};
spread spread_of(std::vector<double> values);

struct workload;

/// What is judged; nothing if somebody who is needed for it is not there.
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
    bool exact = false;  // the same each time, so once is enough
};

/// `metric` of one subject.
judged value_of(std::string subject, std::string metric);
/// `metric` of `one`, divided by that of `other` in the same repetition.
judged ratio(std::string one, std::string other, std::string metric);
/// `metric` of `one`, divided by the best of `others` (those of them that are there) in the same
/// repetition.
enum class best { largest, smallest };
judged ratio_to_best(std::string one, std::vector<std::string> others, std::string metric,
                     best which);
/// The largest of all subjects' best times divided by the smallest.
judged unevenness(std::string metric);

struct settings {
    std::string machine;  // what it is measured on
    bool quick = false;
    std::string filter;
    std::string json;
    std::string peers;  // the folder of those who measure themselves; empty: none
    std::string self;   // this program
};

/// Runs workloads, prints what they give, and keeps it for the file.
class report {
public:
    explicit report(settings how);

    /// Makes and runs a workload, if the filter lets its name pass.
    void run(const std::string& name, const std::function<workload()>& make);

    const settings& how() const noexcept { return how_; }

    /// Prints the summary and writes the file. False: that failed, or a peer has.
    bool finish() const;

private:
    measured run_undisturbed(const workload& w, const subject& s);
    void print(const workload& w, const repetitions& all);
    void print(const workload& w, const std::string& subject, const metric& m, const spread& seen);
    bool write_json() const;
    void judge(const workload& w, const repetitions& all);

    settings how_;
    std::vector<std::string> rows_;  // for the file
    std::vector<std::string> goals_;
    std::vector<std::string> missed_;
    std::size_t met_ = 0;
    std::size_t repeated_ = 0;
    std::size_t failed_ = 0;
};

}  // namespace cenote::bench
