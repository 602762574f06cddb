// Draws the plan of a run from its seed.
#include "sim/plan.hpp"

#include <algorithm>
#include <sstream>

#include "core/dice.hpp"

namespace cenote::sim {

namespace {

constexpr std::array<const char*, decision::kinds> kind_names = {
    "acquire",  "demand",  "attempt", "cancel",  "release", "detach", "reject",     "hand_on",
    "stop",     "resume",  "destroy", "look",    "admit",   "crowd",  "storm",      "gather",
    "call_off", "scatter", "answer",  "start",   "late",    "pass",   "retire_all", "suspect_all",
    "resize",   "pause",   "unpause", "suspend", "restore", "judge",  "breaker",    "close"};

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// A duration that is sometimes tiny, sometimes infinite, mostly in between.
nanoseconds span(core::dice& random, std::int64_t most_ms, bool may_be_forever) {
    if (may_be_forever && random.chance(25)) return forever;
    if (random.chance(10)) return milliseconds{1};
    return milliseconds{
        1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most_ms)))};
}

options draw_options(core::dice& random) {
    options o;
    o.max = 1 + random.below(random.chance(50) ? 3 : 8);
    if (random.chance(40)) o.min_size = random.below(o.max + 1);
    if (random.chance(30)) o.min_idle = random.below(o.max + 1);
    o.warm_up = random.chance(20) ? warm_up::none : warm_up::background;
    o.open_timeout = span(random, 400, false);
    o.probe_timeout = span(random, 200, false);
    o.reset_timeout = span(random, 200, false);
    o.close_timeout = span(random, 200, false);
    o.opening_max = 1 + random.below(4);
    o.idle_timeout = span(random, 3000, true);
    o.max_lifetime = span(random, 6000, true);
    o.lifetime_jitter = static_cast<double>(random.below(5)) / 8;
    o.max_uses = random.chance(30) ? 1 + random.below(5) : std::uint64_t{forever};
    o.sweep_interval = span(random, 500, false);
    o.probe_after_idle = random.chance(15) ? nanoseconds{0} : span(random, 800, true);
    o.probe_on_release = random.chance(15);
    o.heartbeat = random.chance(60) ? nanoseconds{forever} : span(random, 700, false);
    o.order = random.chance(30) ? order::fifo : order::lifo;
    o.fairness = random.chance(30) ? fairness::bounded : fairness::strict;
    o.bypass_for = span(random, 40, false);
    o.line_max = random.chance(20) ? random.below(4) : 100;
    if (random.chance(25)) {
        o.open_rate.per_second = 1 + random.below(200);
        o.open_rate.burst = 1 + random.below(4);
    }
    o.backoff.first = span(random, 40, false);
    o.backoff.cap_waiting = o.backoff.first * static_cast<std::int64_t>(1 + random.below(6));
    o.backoff.cap_idle = o.backoff.cap_waiting * static_cast<std::int64_t>(1 + random.below(6));
    return o;
}

/// How likely each kind is, in the order of decision::kind. The kinds of coroutines, crowds and
/// gatherers follow when the world has some.
std::array<std::uint32_t, decision::kinds> draw_weights(core::dice& random) {
    std::array<std::uint32_t, decision::kinds> weights = {30, 3, 5, 4, 25, 2, 3,  0, 0, 0,  0, 0,
                                                          0,  0, 0, 0, 0,  0, 30, 0, 6, 25, 1, 1};
    for (auto& w : weights)
        if (w != 0 && random.chance(25)) w = random.chance(50) ? 0 : w * 4;
    return weights;
}

std::uint32_t& weight_of(plan& p, decision::kind k) {
    return p.weights[static_cast<std::size_t>(k)];
}

/// A few worlds are crowded.
void draw_crowd(core::dice& random, plan& p) {
    if (!random.chance(3)) return;
    p.borrowers = 50 + random.below(350);
    p.settings.line_max = 1000;
    p.patient_percent = 50;
    weight_of(p, decision::kind::crowd) = 1;
    weight_of(p, decision::kind::storm) = random.chance(70) ? 1 : 0;
}

/// Some worlds have only threads, some only coroutines.
void draw_coroutines(core::dice& random, plan& p) {
    using kind = decision::kind;
    if (random.chance(40)) return;
    p.coroutines = random.chance(50) ? p.borrowers : random.below(p.borrowers + 1);
    p.looks = random.chance(40);
    weight_of(p, kind::stop) = random.chance(50) ? 1 : 0;
    weight_of(p, kind::resume) = 5 + static_cast<std::uint32_t>(random.below(30));
    weight_of(p, kind::destroy) = static_cast<std::uint32_t>(random.below(8));
    if (!p.looks) return;
    weight_of(p, kind::look) = static_cast<std::uint32_t>(random.below(20));
    weight_of(p, kind::admit) = 5 + static_cast<std::uint32_t>(random.below(20));
}

void draw_overload(core::dice& random, plan& p) {
    p.pairs = random.chance(40);
    // There must be another thread.
    if (p.pairs && p.borrowers > 2) weight_of(p, decision::kind::hand_on) = 3;
    p.settings.refuse_deadlock = random.chance(90);
    p.ranks = random.chance(30);
    if (p.ranks) p.settings.head_start = span(random, 200, false);
    if (!random.chance(20)) return;
    p.settings.shed.target = span(random, 50, false);
    p.settings.shed.interval = span(random, 200, false);
}

void draw_gatherers(core::dice& random, plan& p) {
    if (p.settings.max < 2 || !random.chance(25)) return;
    p.gatherers = 1 + random.below(3);
    weight_of(p, decision::kind::gather) = 5;
    weight_of(p, decision::kind::call_off) = 1;
    weight_of(p, decision::kind::scatter) = 8;
}

void draw_breaker(core::dice& random, plan& p) {
    if (!random.chance(30)) return;
    if (random.chance(80)) p.failures = 1 + random.below(4);
    p.probes = 1 + random.below(3);
    p.successes = 1 + random.below(3);
    p.cool_down = span(random, 300, false);
    weight_of(p, decision::kind::judge) = random.chance(50) ? 50 : 10;
    weight_of(p, decision::kind::breaker) = random.chance(50) ? 1 : 0;
}

/// In some worlds threads take turns, mostly without coroutines beside them.
void draw_turns(core::dice& random, plan& p) {
    bool any_thread = p.coroutines < p.borrowers;
    if (!random.chance(45) || !any_thread) return;
    p.settings.fairness = fairness::turns;
    p.can.turns = 1 + static_cast<std::uint32_t>(random.below(4));
    if (random.chance(60)) p.coroutines = 0;
    if (random.chance(50)) p.pairs = false;
}

/// Events between the end of a lease and the next one, which follows soon.
void disturb_turns(core::dice& random, plan& p) {
    using kind = decision::kind;
    if (p.can.turns == 0) return;
    if (random.chance(15)) weight_of(p, kind::resize) = 10;
    if (random.chance(15)) weight_of(p, kind::pause) = weight_of(p, kind::unpause) = 10;
    if (random.chance(15)) weight_of(p, kind::suspect_all) = 10;
    if (random.chance(30))
        p.settings.max_lifetime = std::chrono::microseconds{200 + random.below(1000)};
    if (random.chance(15)) {
        p.settings.shed.target = span(random, 3, false);
        p.settings.shed.interval = span(random, 10, false);
    }
    // Without coroutines a decision for one would let time pass instead.
    if (p.coroutines > 0) return;
    for (auto k : {kind::stop, kind::resume, kind::destroy, kind::look, kind::admit})
        weight_of(p, k) = 0;
}

/// In some worlds most leases go by express. Busy ones have many borrowers for few resources, calm
/// ones a resource for each borrower. Little else happens there, but anything may.
void draw_express(core::dice& random, plan& p) {
    using kind = decision::kind;
    bool crowd = weight_of(p, kind::crowd) > 0;
    bool busy = random.chance(p.can.turns > 0 ? 60 : 18);
    bool calm = random.chance(25);
    if (crowd || (!busy && !calm)) return;
    options& o = p.settings;
    o.max = busy ? 1 + random.below(3) : 2 + random.below(6);
    o.min_size = random.below(o.max + 1);
    o.min_idle = busy || random.chance(50) ? 0 : random.below(o.max + 1);
    if (busy && o.fairness == fairness::bounded && random.chance(95)) o.fairness = fairness::strict;
    if (random.chance(80)) o.max_uses = std::uint64_t{forever};
    if (random.chance(90)) o.line_max = 100;
    if (random.chance(95)) o.shed = {};
    if (random.chance(95)) o.probe_on_release = false;
    if (o.probe_after_idle == nanoseconds{0}) o.probe_after_idle = milliseconds{700};
    p.reports = random.chance(5);
    p.borrowers = busy ? o.max + 5 + random.below(20) : 1 + random.below(o.max);
    p.coroutines = std::min(p.coroutines, p.borrowers);
    p.fault_percent = random.chance(70) ? 0 : p.fault_percent;
    p.patient_percent = 80;
    for (auto k : {kind::acquire, kind::release, kind::resume}) weight_of(p, k) = 250;
    weight_of(p, kind::attempt) = busy ? 0 : 5;
    weight_of(p, kind::pass) = 5 + static_cast<std::uint32_t>(random.below(15));
    if (random.chance(90)) weight_of(p, kind::pause) = weight_of(p, kind::close) = 0;
}

void draw_debts(core::dice& random, plan& p) {
    if (!random.chance(40)) return;
    p.owing_percent = random.chance(50) ? 90 : 30;
    p.settings.reset_after = span(random, 300, true);
    if (random.chance(5)) p.settings.reset_after = nanoseconds{0};
    if (random.chance(90)) p.can.reset = true;
}

}  // namespace

std::string to_string(const decision& d) {
    std::ostringstream text;
    text << kind_names[static_cast<std::size_t>(d.what)] << ' ' << d.a << ' ' << d.b;
    return text.str();
}

bool parse(const std::string& text, decision& d) {
    std::istringstream in(text);
    std::string name;
    if (!(in >> name >> d.a >> d.b)) return false;
    auto found = std::find(kind_names.begin(), kind_names.end(), name);
    if (found == kind_names.end()) return false;
    d.what = static_cast<decision::kind>(found - kind_names.begin());
    return true;
}

plan draw_plan(std::uint64_t seed, std::size_t steps) {
    core::dice random(seed ^ 0x63656e6f7465u);
    plan p;
    p.seed = seed;
    p.settings = draw_options(random);
    p.can = {.probe = random.chance(70), .reset = random.chance(70)};
    p.reports = random.chance(50);
    p.ends_live = random.chance(50);
    p.borrowers = 1 + random.below(random.chance(50) ? 4 : 14);
    p.steps = steps;
    constexpr std::array<std::uint64_t, 4> fault_mix = {0, 10, 40, 90};
    p.fault_percent = fault_mix[random.below(fault_mix.size())];
    p.final_percent = random.chance(30) ? 30 : 0;
    p.patient_percent = random.chance(40) ? 50 : 5;
    p.weights = draw_weights(random);
    // Without these nothing happens.
    for (auto k : {decision::kind::acquire, decision::kind::answer, decision::kind::pass})
        weight_of(p, k) = std::max(weight_of(p, k), 5u);
    if (random.chance(30)) weight_of(p, decision::kind::close) = 1;
    if (random.chance(20)) {
        weight_of(p, decision::kind::pause) = 1;
        weight_of(p, decision::kind::unpause) = 4;
    }
    p.calls_wait = random.chance(30);
    if (p.calls_wait) weight_of(p, decision::kind::start) = 20;
    draw_crowd(random, p);
    draw_coroutines(random, p);
    draw_breaker(random, p);
    draw_overload(random, p);
    draw_gatherers(random, p);
    if (random.chance(20)) weight_of(p, decision::kind::resize) = 1;
    p.hasty = random.chance(30);
    if (random.chance(20)) {
        weight_of(p, decision::kind::suspend) = 1;
        weight_of(p, decision::kind::restore) = 2;
    }
    p.can.sees_freezes = !random.chance(20);
    if (random.chance(20)) p.settings.open_errors = open_errors::fail_fast;
    core::dice turns(seed ^ 0x7475726eu);  // so that worlds without turns stay as they are
    draw_turns(turns, p);
    draw_express(random, p);
    disturb_turns(turns, p);
    draw_debts(random, p);
    return p;
}

}  // namespace cenote::sim
