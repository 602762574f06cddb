// A small simulated world, in which a few borrowers and a connector follow a script.
//
// sim::world draws its decisions; this world is given them, so a run can be repeated with one thing
// changed: a borrower cancels at a certain step, or a verb answers in another way. Time is virtual.
// One step is one event of the script, one answer, or the timer.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "cenote/options.hpp"
#include "cenote/stats.hpp"
#include "core/machine.hpp"
#include "sim/model.hpp"

namespace cenote::sim {

/// What a pool calls: the connector's verbs in the order of core::verb, then the hooks.
enum class party : std::uint8_t { open, probe, reset, close, before_acquire, before_release };
inline constexpr std::size_t party_count = 6;

/// How a party answers one call. If `after` is forever, it never does.
struct reply {
    core::duration after{};
    core::outcome how = core::outcome::ok;
};

/// How a borrower ends its lease.
enum class ending : std::uint8_t { release, mark_dirty, discard, detach };

/// One acquire and the lease that follows from it.
struct visit {
    core::duration at{};  // since the beginning, or later, when the visit before has ended
    core::duration hold{};
    ending by = ending::release;
    core::duration patience = forever;
};

/// What the borrowers are. Mixed: every other one is a coroutine, the first one is a thread.
enum class cast : std::uint8_t { threads, coroutines, mixed };

/// A request that concerns the whole pool.
struct happening {
    enum class kind : std::uint8_t { close, retire_all, suspect_all };
    core::duration at{};
    kind what{};
};

struct script {
    std::string name;
    options settings;
    std::vector<std::vector<visit>> borrowers;
    cast played_by = cast::threads;
    /// What each party answers to its first call, its second, …; later calls succeed, or repeat the
    /// last answer.
    std::array<std::vector<reply>, party_count> replies;
    bool last_reply_stays = false;
    std::vector<happening> happenings;
    /// When failures and acquires stop. Forever: when every visit has ended.
    core::duration lasts = forever;

    std::vector<reply>& answers(party who) { return replies[static_cast<std::size_t>(who)]; }
};

/// After step `step` borrower `who` cancels or, if it is a coroutine, is destroyed.
struct cancellation {
    std::size_t step = 0;
    std::size_t who = 0;
    bool destroys = false;
    auto operator<=>(const cancellation&) const = default;
};

/// Where borrower `who` was suspended after step `step`.
struct suspension {
    enum class kind : std::uint8_t { in_line, admitted, told };
    std::size_t step = 0;
    std::size_t who = 0;
    kind where{};
    bool coroutine = false;
    auto operator<=>(const suspension&) const = default;
};

/// The result of a run.
struct account {
    /// How each visit ended, borrower by borrower: s(erved), t(imed out), c(losed), f(ailed to
    /// open), x (canceled), d(estroyed), - (did not begin).
    std::string ends;
    /// Where a cancel is possible. A thread is suspended in line only; a coroutine also while
    /// before_acquire looks at what it was granted, and until its executor resumes it.
    std::vector<suspension> points;
    std::uint64_t waits = 0;  // the machine's count of waiters, summed over all steps
    std::size_t steps = 0;
    std::array<std::size_t, party_count> calls{};  // of each party
};

/// Plays a script with cancellations (at most one per step and borrower, in any order). Throws
/// `finding` as soon as machine, invariants, model or world disagree. `trace`, if not null,
/// receives a line for each event.
account play(const script& s, const std::vector<cancellation>& cancels,
             std::ostream* trace = nullptr);

}  // namespace cenote::sim
