// Runs, replays and shrinks simulations.
#include "sim/run.hpp"

#include <algorithm>

#include "core/ensure.hpp"

namespace cenote::sim {

namespace {

[[noreturn]] void throw_finding(const char* invariant) { throw finding(invariant); }

/// Plays the decisions of `decide` until it has no more, then the end of the world.
template <class Decide>
verdict carry_out(const plan& p, bool keep, spectator* watching, Decide decide) {
    // Once: several threads may run worlds.
    static const bool installed = (core::when_broken = throw_finding, true);
    static_cast<void>(installed);
    verdict v;
    try {
        world w(p, watching);
        try {
            decision d;
            while (decide(w, d)) {
                if (keep) v.decisions.push_back(d);
                w.step(d);
            }
            if (p.ends_live) w.finish();
        } catch (const finding& f) {
            v.failed = true;
            v.what = f.what();
        }
        v.hash = w.hash();
        v.seen = w.seen();
    } catch (const finding& f) {
        v.failed = true;
        v.what = f.what();
    }
    return v;
}

}  // namespace

verdict run(const plan& p, bool keep, spectator* watching) {
    std::size_t left = p.steps;
    return carry_out(p, keep, watching, [&](world& w, decision& d) {
        // Little happens in a closed pool once it has drained.
        if (w.closed()) left = std::min<std::size_t>(left, 100);
        if (left == 0) return false;
        --left;
        d = w.draw();
        return true;
    });
}

verdict replay(const plan& p, const std::vector<decision>& decisions, spectator* watching) {
    std::size_t at = 0;
    return carry_out(p, true, watching, [&](world&, decision& d) {
        if (at == decisions.size()) return false;
        d = decisions[at++];
        return true;
    });
}

std::vector<decision> shrink(const plan& p, std::vector<decision> decisions) {
    const std::string what = replay(p, decisions).what;
    // Delta debugging: leaves out smaller and smaller pieces.
    for (std::size_t piece = std::max<std::size_t>(decisions.size() / 2, 1); piece > 0;) {
        bool smaller = false;
        for (std::size_t at = 0; at < decisions.size();) {
            std::vector<decision> fewer = decisions;
            auto from = fewer.begin() + static_cast<std::ptrdiff_t>(at);
            fewer.erase(from,
                        from + static_cast<std::ptrdiff_t>(std::min(piece, decisions.size() - at)));
            verdict v = replay(p, fewer);
            if (v.failed && v.what == what) {
                decisions = v.decisions;  // ends at the finding
                smaller = true;
            } else {
                at += piece;
            }
        }
        if (piece == 1 && !smaller) break;
        if (!smaller || piece > decisions.size()) piece = std::max<std::size_t>(piece / 2, 1);
    }
    return decisions;
}

}  // namespace cenote::sim
