// Repeats, judges and prints measurements.
#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <utility>

#include "noise.hpp"

namespace cenote::bench {

namespace {

constexpr int retries = 2;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::optional<std::size_t> index_of(const workload& w, const std::string& name) {
    auto found = std::find_if(w.subjects.begin(), w.subjects.end(),
                              [&](const subject& s) { return s.name == name; });
    if (found == w.subjects.end()) return std::nullopt;
    return static_cast<std::size_t>(found - w.subjects.begin());
}

std::vector<double> column(const repetitions& all, std::size_t index, const std::string& metric) {
    std::vector<double> values;
    for (const auto& row : all) values.push_back(row[index][metric]);
    return values;
}

/// Nothing if a repetition has no value.
std::optional<spread> known_spread(const std::vector<double>& values) {
    if (std::any_of(values.begin(), values.end(), [](double v) { return std::isnan(v); }))
        return std::nullopt;
    return spread_of(values);
}

/// At most three significant digits after the decimal point.
std::string short_number(double value) {
    char text[32];
    double size = std::abs(value);
    int digits = size >= 100 ? 0 : size >= 10 ? 1 : 3;
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

std::string quoted(const std::string& text) {
    std::string all = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') all += '\\';
        all += c;
    }
    return all + '"';
}

std::string json_of(const spread& s) {
    char text[96];
    std::snprintf(text, sizeof text, "\"value\": %.6g, \"spread\": [%.6g, %.6g]", s.median, s.low,
                  s.high);
    return text;
}

void write_list(std::ofstream& file, const char* name, const std::vector<std::string>& rows) {
    file << "  \"" << name << "\": [";
    for (std::size_t i = 0; i < rows.size(); ++i)
        file << (i == 0 ? "\n" : ",\n") << "    " << rows[i];
    file << "\n  ]";
}

}  // namespace

double measured::operator[](const std::string& name) const {
    for (const metric& m : metrics)
        if (m.name == name) return m.value;
    return nan;
}

spread spread_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    std::size_t n = values.size();
    double median = n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
    return {median, values.front(), values.back()};
}

judged value_of(std::string subject, std::string metric) {
    return [=](const workload& w, const repetitions& all) -> std::optional<spread> {
        auto index = index_of(w, subject);
        if (!index) return std::nullopt;
        return known_spread(column(all, *index, metric));
    };
}

judged ratio(std::string one, std::string other, std::string metric) {
    return ratio_to_best(std::move(one), {std::move(other)}, std::move(metric), best::largest);
}

judged ratio_to_best(std::string one, std::vector<std::string> others, std::string metric,
                     best which) {
    return [=](const workload& w, const repetitions& all) -> std::optional<spread> {
        auto index = index_of(w, one);
        if (!index) return std::nullopt;
        std::vector<double> values = column(all, *index, metric);
        std::vector<double> divisors(values.size(), nan);
        for (const std::string& other : others) {
            auto found = index_of(w, other);
            if (!found) continue;
            std::vector<double> its = column(all, *found, metric);
            for (std::size_t i = 0; i < its.size(); ++i)  // fmax and fmin ignore NaN
                divisors[i] = which == best::largest ? std::fmax(divisors[i], its[i])
                                                     : std::fmin(divisors[i], its[i]);
        }
        for (std::size_t i = 0; i < values.size(); ++i) values[i] /= divisors[i];
        return known_spread(values);
    };
}

judged ratio_to_leader(std::string one, std::vector<std::string> others, std::string lead,
                       std::string metric) {
    return [=](const workload& w, const repetitions& all) -> std::optional<spread> {
        auto index = index_of(w, one);
        if (!index) return std::nullopt;
        std::vector<double> values = column(all, *index, metric);
        std::vector<double> leads(values.size(), nan);
        std::vector<double> divisors(values.size(), nan);
        for (const std::string& other : others) {
            auto found = index_of(w, other);
            if (!found) continue;
            std::vector<double> its_lead = column(all, *found, lead);
            std::vector<double> its = column(all, *found, metric);
            for (std::size_t i = 0; i < its.size(); ++i) {
                if (std::isnan(its_lead[i]) || its_lead[i] <= leads[i]) continue;
                leads[i] = its_lead[i];
                divisors[i] = its[i];
            }
        }
        for (std::size_t i = 0; i < values.size(); ++i) values[i] /= divisors[i];
        return known_spread(values);
    };
}

judged unevenness(std::string metric) {
    return [=](const workload& w, const repetitions& all) -> std::optional<spread> {
        std::vector<double> best;
        for (std::size_t i = 0; i < w.subjects.size(); ++i)
            best.push_back(spread_of(column(all, i, metric)).low);
        auto [least, most] = std::minmax_element(best.begin(), best.end());
        double value = *most / *least;
        return spread{value, value, value};
    };
}

report::report(settings how) : how_(std::move(how)) { std::printf("%s\n", how_.machine.c_str()); }

void report::run(const std::string& name, const std::function<workload()>& make) {
    if (name.find(how_.filter) == std::string::npos) return;
    workload w = make();
    w.name = name;
    constexpr double without_peers = 0.3;  // so that all workloads take 5 minutes
    if (how_.peers.empty()) w.seconds *= without_peers;
    if (how_.quick) w.seconds /= 3;
    std::printf("\n%s: %s\n", w.name.c_str(), w.about.c_str());
    std::fflush(stdout);
    std::size_t count = w.subjects.size();
    repetitions all(w.exact ? 1 : how_.quick ? 3 : 7, std::vector<measured>(count));
    for (std::size_t r = 0; r < all.size(); ++r)
        for (std::size_t i = 0; i < count; ++i) {
            std::size_t turn = (r + i) % count;  // each repetition starts with another subject
            bool declines = r > 0 && !all[r - 1][turn].declined.empty();
            if (declines) all[r][turn] = all[r - 1][turn];
            else all[r][turn] = run_without_noise(w, w.subjects[turn]);
        }
    print(w, all);
    judge(w, all);
    std::fflush(stdout);
    write_json();  // now, so that a later crash loses nothing
}

measured report::run_without_noise(const workload& w, const subject& s) {
    measured best;
    double best_quietness = -1;
    for (int i = 0; i <= retries; ++i) {
        noise_detector noise;
        measured m = s.run(w.seconds);
        double quietness = noise.quietness();
        if (s.cores_needed > 0) quietness = std::min(quietness, m.cores / s.cores_needed);
        if (quietness > best_quietness) {
            best = std::move(m);
            best_quietness = quietness;
        }
        if (best_quietness >= 1 || best.metrics.empty()) break;
        if (i < retries) ++repeated_;
    }
    return best;
}

void report::print(const workload& w, const repetitions& all) {
    std::printf("  %-22s %-16s %10s   %s\n", "subject", "", "median", "min..max");
    for (std::size_t i = 0; i < w.subjects.size(); ++i) {
        const std::string& name = w.subjects[i].name;
        const measured& first = all.front()[i];
        if (!first.declined.empty())
            std::printf("  %-22s declined: %s\n", name.c_str(), first.declined.c_str());
        for (const metric& m : first.metrics)
            if (auto seen = known_spread(column(all, i, m.name))) print(w, name, m, *seen);
        for (const auto& row : all) {
            if (row[i].failed.empty()) continue;
            std::printf("  %-22s FAILED: %s\n", name.c_str(), row[i].failed.c_str());
            ++failed_;
        }
    }
}

void report::print(const workload& w, const std::string& subject, const metric& m,
                   const spread& seen) {
    std::printf("  %-22s %-16s %10s   %s..%s %s\n", subject.c_str(), m.name.c_str(),
                short_number(seen.median).c_str(), short_number(seen.low).c_str(),
                short_number(seen.high).c_str(), m.unit.c_str());
    rows_.push_back("{\"workload\": " + quoted(w.name) + ", \"about\": " + quoted(w.about) +
                    ", \"subject\": " + quoted(subject) + ", \"metric\": " + quoted(m.name) +
                    ", \"unit\": " + quoted(m.unit) + ", " + json_of(seen) + "}");
}

void report::judge(const workload& w, const repetitions& all) {
    for (const goal& g : w.goals) {
        std::optional<spread> known = g.value(w, all);
        if (!known) {
            std::printf("  --    %s: not measured, a subject is missing\n", g.text.c_str());
            continue;
        }
        const spread& s = *known;
        bool met = g.met(s);
        const char* sign = g.which == goal::bound::at_most ? "<=" : ">=";
        std::string line = g.text + " " + short_number(s.median) + " (" + short_number(s.low) +
                           ".." + short_number(s.high) + "), goal " + sign + " " +
                           short_number(g.limit);
        std::printf("  %s  %s\n", met ? "PASS" : "MISS", line.c_str());
        goals_.push_back("{\"workload\": " + quoted(w.name) + ", \"goal\": " + quoted(g.text) +
                         ", \"bound\": " + quoted(sign) + ", \"limit\": " + short_number(g.limit) +
                         ", " + json_of(s) + ", \"met\": " + (met ? "true" : "false") + "}");
        if (met) ++met_;
        else missed_.push_back(w.name + ": " + line);
    }
}

bool report::finish() const {
    std::printf("\n%zu goals met, %zu missed; %zu noisy runs repeated\n", met_, missed_.size(),
                repeated_);
    for (const std::string& line : missed_) std::printf("  MISS  %s\n", line.c_str());
    if (failed_ > 0) std::printf("%zu runs of peers failed\n", failed_);
    return write_json() && failed_ == 0;
}

bool report::write_json() const {
    if (how_.json.empty()) return true;
    std::ofstream file(how_.json);
    file << "{\n  \"machine\": " << quoted(how_.machine) << ",\n";
    write_list(file, "results", rows_);
    file << ",\n";
    write_list(file, "goals", goals_);
    file << "\n}\n";
    file.close();
    if (!file) std::fprintf(stderr, "cenote-bench: cannot write %s\n", how_.json.c_str());
    return !file.fail();
}

}  // namespace cenote::bench
