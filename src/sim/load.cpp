// The simulated load: a virtual clock, the machine, and a server that slows down under load.
#include "sim/load.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <stdexcept>

#include "core/dice.hpp"
#include "core/machine.hpp"

namespace cenote::sim {

using core::duration;
using core::instant;

namespace {

duration scaled(duration d, double by) {
    return duration{std::llround(static_cast<double>(d.count()) * by)};
}

duration mean_of(const std::vector<duration>& all) {
    return std::accumulate(all.begin(), all.end(), duration{}) /
           static_cast<duration::rep>(all.size());
}

/// A distribution with another number of shares.
std::vector<duration> reshaped(const std::vector<duration>& from, std::size_t shares) {
    std::vector<duration> result(shares);
    for (std::size_t i = 0; i < shares; ++i)
        result[i] = from[(2 * i + 1) * from.size() / (2 * shares)];
    return result;
}

}  // namespace

measured_server::measured_server(std::vector<level> levels, duration open)
    : levels_(std::move(levels)), open_(open) {
    if (levels_.empty()) throw std::invalid_argument("cenote: a server without a measurement");
    std::size_t before = 0;
    for (level& l : levels_) {
        if (l.at_once <= before)
            throw std::invalid_argument("cenote: levels of a server must rise");
        before = l.at_once;
        if (l.service.empty() || l.service.front() < duration{} || l.service.back() <= duration{} ||
            !std::is_sorted(l.service.begin(), l.service.end()))
            throw std::invalid_argument("cenote: service times must be there, and sorted");
        // The mean must not change: it determines the throughput.
        duration mean = mean_of(l.service);
        l.service = reshaped(l.service, shares);
        double off = static_cast<double>(mean.count()) /
                     static_cast<double>(std::max<duration::rep>(1, mean_of(l.service).count()));
        for (duration& d : l.service) d = std::max(duration{1}, scaled(d, off));
        means_.push_back(mean_of(l.service));
    }
}

template <class Of>
duration measured_server::at(std::size_t at_once, Of of) const {
    at_once = std::max<std::size_t>(at_once, 1);
    auto above = std::lower_bound(levels_.begin(), levels_.end(), at_once,
                                  [](const level& l, std::size_t n) { return l.at_once < n; });
    if (above == levels_.end()) {
        std::size_t last = levels_.size() - 1;
        return scaled(of(last),
                      static_cast<double>(at_once) / static_cast<double>(levels_[last].at_once));
    }
    auto high = static_cast<std::size_t>(above - levels_.begin());
    if (above->at_once == at_once || high == 0) return of(high);
    std::size_t low = high - 1;
    double part = static_cast<double>(at_once - levels_[low].at_once) /
                  static_cast<double>(levels_[high].at_once - levels_[low].at_once);
    return scaled(of(low), 1 - part) + scaled(of(high), part);
}

duration measured_server::service(std::size_t at_once, std::size_t share) const {
    return at(at_once, [&](std::size_t i) { return levels_[i].service[share]; });
}

duration measured_server::mean_service(std::size_t at_once) const {
    return at(at_once, [&](std::size_t i) { return means_[i]; });
}

duration measured_server::reset(std::size_t at_once) const {
    return at(at_once, [&](std::size_t i) { return levels_[i].reset; });
}

bool measured_server::resets() const {
    return std::any_of(levels_.begin(), levels_.end(),
                       [](const level& l) { return l.reset > duration{}; });
}

duration measured_server::handover(std::size_t at_once) const {
    return at(at_once, [&](std::size_t i) { return levels_[i].handover; });
}

double measured_server::throughput(std::size_t at_once) const {
    auto cycle = mean_service(at_once) + reset(at_once);
    return static_cast<double>(at_once) / std::chrono::duration<double>(cycle).count();
}

duration load_result::quantile(const std::vector<duration>& of, double q) {
    if (of.empty()) return {};
    auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(of.size())));
    return of[std::clamp<std::size_t>(rank, 1, of.size()) - 1];
}

std::size_t load_result::busy_quantile(double q) const {
    double sum = 0;
    for (std::size_t n = 0; n < busy.size(); ++n) {
        sum += busy[n];
        if (sum >= q) return n;
    }
    return busy.empty() ? 0 : busy.size() - 1;
}

namespace {

/// One run.
class course {
public:
    course(const options& pool, const measured_server& server, const load& who)
        : who_(who),
          pool_(pool),
          random_(who.seed),
          machine_(pool, {.reset = server.resets()}, false, who.seed, start),
          places_(pool.max),
          open_(server.open()),
          dirty_(server.resets()) {
        for (std::size_t n = 0; n <= pool.max; ++n) {
            table_.emplace_back();
            for (std::size_t s = 0; s < measured_server::shares; ++s)
                table_.back().push_back(static_cast<double>(server.service(n, s).count()));
            resets_.push_back(static_cast<double>(server.reset(n).count()));
            handovers_.push_back(static_cast<double>(server.handover(n).count()));
        }
        result_.busy.resize(pool.max + 1);
        counted_after_ = who.leases / 10;
    }

    load_result go(const enough& is_enough) {
        machine_.start(now_, out_);
        if (who_.rate > 0) next_arrival_ = now_ + gap();
        else again_ = who_.borrowers;
        carry_out();
        for (std::uint32_t steps = 1; ended_ < who_.leases + counted_after_; ++steps) {
            step();
            if (steps % 256 == 0 && is_enough()) break;
        }
        conclude();
        return std::move(result_);
    }

private:
    enum class doing : std::uint8_t { nothing, handed, served, kept, resetting, opening, closing };
    struct place {
        doing what = doing::nothing;
        double left = 0;        // the part of its service or reset that is left
        std::size_t share = 0;  // which service time it has
        instant until{};        // the end of a phase that does not depend on the concurrency
        std::uint64_t call = 0;
        instant arrived{};
    };

    duration gap() {
        double u = (static_cast<double>(random_.next() >> 11) + 0.5) * 0x1p-53;
        return duration{std::llround(-std::log(u) / who_.rate * 1e9)};
    }

    /// How long the present phase takes from beginning to end at the present concurrency.
    double whole(const place& p) const {
        if (p.what == doing::handed) return handovers_[at_once_];
        return p.what == doing::served ? table_[at_once_][p.share] : resets_[at_once_];
    }
    static bool shares_the_server(doing what) {
        return what == doing::handed || what == doing::served || what == doing::resetting;
    }
    static bool has_its_time(doing what) {
        return what == doing::kept || what == doing::opening || what == doing::closing;
    }

    /// Passes the time until the next event, and plays it.
    void step() {
        instant next = std::min(next_arrival_, machine_.wake_at());
        std::size_t which = places_.size();
        for (std::size_t i = 0; i < places_.size(); ++i) {
            const place& p = places_[i];
            instant ends = core::never;
            if (shares_the_server(p.what))
                ends = now_ + duration{static_cast<duration::rep>(
                                  std::ceil(std::max(p.left, 0.0) * whole(p)))};
            else if (has_its_time(p.what)) ends = p.until;
            if (ends < next || (ends == next && which == places_.size())) {
                next = ends;
                which = i;
            }
        }
        pass(std::max(next, now_));
        if (which < places_.size()) end(static_cast<core::slot_id>(which));
        else if (now_ == next_arrival_) arrive_and_plan_the_next();
        else machine_.tick(now_, out_);
        carry_out();
    }

    void pass(instant to) {
        auto by = static_cast<double>((to - now_).count());
        for (place& p : places_)
            if (shares_the_server(p.what)) p.left -= by / std::max(1.0, whole(p));
        if (ended_ >= counted_after_) result_.busy[std::min(busy_, pool_.max)] += by;
        now_ = to;
    }

    void arrive_and_plan_the_next() {
        next_arrival_ = now_ + gap();
        arrive();
    }

    void arrive() {
        machine_.make_room(out_);
        std::uint64_t cookie = came_.size() + gone_;
        came_.push_back(now_);
        auto said = machine_.acquire(
            now_, {.deadline = core::after(now_, pool_.acquire_timeout), .cookie = cookie}, out_);
        if (said.what == core::answer::kind::granted) granted(said.slot, cookie, false);
        if (said.what == core::answer::kind::refused) refused(cookie);
    }

    void granted(core::slot_id slot, std::uint64_t cookie, bool waited) {
        place& p = places_[slot];
        p = {.what = doing::handed,
             .left = 1,
             .share = static_cast<std::size_t>(random_.below(measured_server::shares)),
             .arrived = came_[cookie - gone_]};
        ++at_once_;
        ++busy_;
        forget(cookie);
        if (!waited || handovers_[at_once_] <= 0) serve(p);
    }

    void serve(place& p) {
        p.what = doing::served;
        p.left = 1;
        if (ended_ >= counted_after_) result_.wait.push_back(now_ - p.arrived);
    }

    /// The clock starts when the last lease of the warm-up has ended or was refused.
    void count_from_here() {
        if (ended_ == counted_after_) counted_from_ = now_;
    }

    void refused(std::uint64_t cookie) {
        forget(cookie);
        count_from_here();
        if (ended_ >= counted_after_) ++result_.refused;
        ++ended_;
        if (who_.rate <= 0) ++again_;
    }

    /// Forgets the arrival of a borrower that was answered.
    void forget(std::uint64_t cookie) {
        came_[cookie - gone_] = core::long_ago;
        while (!came_.empty() && came_.front() == core::long_ago) {
            came_.pop_front();
            ++gone_;
        }
    }

    void end(core::slot_id slot) {
        place& p = places_[slot];
        switch (p.what) {
            case doing::handed: serve(p); break;
            case doing::served:
                --at_once_;
                p.what = doing::kept;
                p.until = core::after(now_, who_.hold);
                if (who_.hold <= duration{}) end(slot);
                break;
            case doing::kept: release(slot); break;
            case doing::resetting:
                --at_once_;
                --busy_;
                p.what = doing::nothing;
                machine_.on_reset(now_, slot, p.call, core::outcome::ok, out_);
                break;
            case doing::opening:
                p.what = doing::nothing;
                machine_.on_open(now_, slot, p.call, core::outcome::ok, out_);
                break;
            case doing::closing:
                p.what = doing::nothing;
                machine_.on_close(now_, slot, p.call, core::outcome::ok, out_);
                break;
            case doing::nothing: break;
        }
    }

    void release(core::slot_id slot) {
        place& p = places_[slot];
        p.what = doing::nothing;
        --busy_;
        count_from_here();
        if (ended_ >= counted_after_) result_.total.push_back(now_ - p.arrived);
        ++ended_;
        machine_.release(now_, slot, dirty_ ? core::condition::dirty : core::condition::clean, 1,
                         std::nullopt, out_);
        if (who_.rate <= 0) ++again_;
    }

    /// Carries out the machine's actions. No call is late or fails here.
    void carry_out() {
        while (!out_.empty() || again_ > 0) {
            todo_.swap(out_);
            for (const core::action& a : todo_) carry_out(a);
            todo_.clear();
            if (again_ > 0) {
                --again_;
                arrive();
            }
        }
    }

    void carry_out(const core::action& a) {
        using kind = core::action::kind;
        if (a.what == kind::grant) granted(a.slot, a.cookie, true);
        else if (a.what == kind::refuse) refused(a.cookie);
        else if (a.what == kind::abandon || a.what == kind::make_way) give_up(places_[a.slot]);
        else if (a.what == kind::call) begin(a);
    }

    void begin(const core::action& a) {
        place& p = places_[a.slot];
        machine_.begun(now_, a.slot, a.call);
        p.call = a.call;
        p.until = now_;
        switch (a.which) {
            case core::verb::open:
                p.what = doing::opening;
                p.until = now_ + open_;
                break;
            case core::verb::reset:
                p.what = doing::resetting;
                p.left = 1;
                ++at_once_;
                ++busy_;
                break;
            case core::verb::close: p.what = doing::closing; break;
            case core::verb::probe: break;  // not among its abilities
        }
    }

    void give_up(place& p) {
        if (shares_the_server(p.what)) {
            --at_once_;
            --busy_;
        }
        p.what = doing::nothing;
    }

    void conclude() {
        auto seconds = std::chrono::duration<double>(now_ - counted_from_).count();
        result_.throughput = static_cast<double>(result_.total.size()) / std::max(seconds, 1e-9);
        std::sort(result_.wait.begin(), result_.wait.end());
        std::sort(result_.total.begin(), result_.total.end());
        double all = std::accumulate(result_.busy.begin(), result_.busy.end(), 0.0);
        for (double& part : result_.busy) part /= std::max(all, 1.0);
    }

    static constexpr instant start{};

    const load& who_;
    options pool_;
    core::dice random_;
    instant now_ = start;
    core::machine machine_;
    core::actions out_, todo_;
    std::vector<place> places_;
    duration open_;
    bool dirty_;                              // leases end with a reset
    std::vector<std::vector<double>> table_;  // by concurrency and share
    std::vector<double> resets_;              // by concurrency
    std::vector<double> handovers_;           // by concurrency
    std::size_t at_once_ = 0;                 // the concurrency of the server
    std::size_t busy_ = 0;                    // resources that are leased or reset
    std::size_t again_ = 0;                   // borrowers that acquire again now
    instant next_arrival_ = core::never;
    std::deque<instant> came_;  // arrivals by cookie, from the first that is not answered
    std::uint64_t gone_ = 0;    // how many there were before that
    std::size_t ended_ = 0;
    std::size_t counted_after_ = 0;
    instant counted_from_ = start;
    load_result result_;
};

}  // namespace

load_result run(const options& pool, const measured_server& server, const load& who,
                const enough& is_enough) {
    validate(pool);
    return course(pool, server, who).go(is_enough);
}

}  // namespace cenote::sim
