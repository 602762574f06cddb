#!/usr/bin/env python3
# Writes the lane and its shelf once for each planted flaw, for lane_model_test.cpp.
"""usage: lane_flaws.py SHELF LANE OUT     (shelf.hpp, lane.hpp, the header to write)

A flaw replaces text of the real headers, so no flaw has to be in them. Its text must be there, and
exactly once: a flaw whose text is gone is reported by its name, and the build fails. White space in
the text does not count, so that a reformatted line still is the same line.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "faults"))
import schema  # noqa: E402

SHELF, LANE = "shelf.hpp", "lane.hpp"

# (name, the scenarios it shows in, (header, text, replacement) …)
FLAWS = (
    # The shelf itself.
    ("put_does_not_look_again", ["two_share_one"],
     (SHELF, "return attention_.load() == 0 ? nullptr : place.exchange(nullptr);",
      "return nullptr;")),
    ("take_ignores_attention", ["release_meets_two_waiters"],
     (SHELF, "must_return = found != nullptr && attention_.load() != 0;",
      "must_return = false;")),
    ("put_never_looks", ["two_share_one"],
     (SHELF, "if (attention_.load() != 0) return item;", ""),
     (SHELF, "return attention_.load() == 0 ? nullptr : place.exchange(nullptr);",
      "return nullptr;")),

    # follow_line(), and what every reason to shut the lane has in common.
    ("waiter_raises_after_collecting", ["two_share_one", "owed_while_in_put"],
     (LANE, "shut(now, detail::waiter_owed);",
      "{ collect(now); shelf_.raise(detail::waiter_owed); }")),
    ("waiter_does_not_collect", ["two_share_one", "owed_while_in_put"],
     (LANE, "shut(now, detail::waiter_owed);", "shelf_.raise(detail::waiter_owed);")),
    ("shut_collects_first",
     ["two_share_one", "owed_while_in_put", "close_meets_release_and_waiter", "recall_meets_put"],
     (LANE, "shelf_.raise(reason); collect(now);", "collect(now); shelf_.raise(reason);")),
    ("shut_does_not_collect",
     ["two_share_one", "owed_while_in_put", "close_meets_release", "recall_meets_take"],
     (LANE, "shelf_.raise(reason); collect(now);", "shelf_.raise(reason);")),
    ("collect_skips_a_cell", ["two_share_one_over_two_cells"],
     (LANE, "for (std::size_t i = 0; i < shelf_.size(); ++i)"
            " if (item* r = shelf_.collect(i); r != nullptr) bring_back(now, r);",
      "for (std::size_t i = 1; i < shelf_.size(); ++i)"
      " if (item* r = shelf_.collect(i); r != nullptr) bring_back(now, r);")),
    ("lowers_while_a_waiter_is_owed", ["release_meets_two_waiters"],
     (LANE, "if (!pool_.owes_waiter(now)) shelf_.lower(detail::waiter_owed);",
      "else shelf_.lower(detail::waiter_owed);")),
    ("stays_shut_for_waiters", ["release_meets_two_waiters"],
     (LANE, "if (!pool_.owes_waiter(now)) shelf_.lower(detail::waiter_owed);", "")),
    ("owed_never_shuts_the_lane", ["owed_while_in_put"],
     (LANE, "if (pool_.owes_waiter(now) && !is_shut_for_waiters()) shut(now, detail::waiter_owed);",
      "")),

    # take()
    ("steals_past_the_line", ["release_meets_two_waiters"],
     (LANE, "if (!is_open() || pool_.owes_waiter(now)) return nullptr;",
      "if ((shelf_.raised() & ~(detail::sweeper_asleep | detail::waiter_owed)) != 0)"
      " return nullptr;")),
    ("steals_on_a_shut_lane", ["swap_meets_a_recall"],
     (LANE, "if (!is_open() || pool_.owes_waiter(now)) return nullptr;",
      "if (pool_.owes_waiter(now)) return nullptr;")),
    ("steals_from_the_owed", ["owed_while_in_put_over_another"],
     (LANE, "if (!is_open() || pool_.owes_waiter(now)) return nullptr;",
      "if (!is_open()) return nullptr;")),

    # place(), accept_returned(), put()
    ("places_on_a_shut_shelf", ["swap_meets_the_line"],
     (LANE, "if (!is_open() || pool_.is_used_up(r) || pool_.is_expired(now, r)) return r;", "")),
    ("swap_loses_the_older", ["swap_on_an_open_lane"],
     (LANE, "if (item* over = place(now, r); over != nullptr)",
      "if (item* over = place(now, r); over == r)")),
    ("put_loses_the_older", ["swap_meets_a_sweep"],
     (LANE, "if (over != nullptr) bring_back(now, over);", "")),
    ("failed_swap_loses_the_older", ["swap_on_an_open_lane"],
     (LANE, "if (older != nullptr) bring_back(now, older);", "")),
    ("swap_places_over_another", ["swap_meets_a_waiter"],
     (LANE, "if (!shelf_.restore(cell, r)) {",
      "shelf_.collect(cell); if (!shelf_.restore(cell, r)) {")),
    ("returned_counts_a_release", ["swap_counts"],
     (LANE, "if (item* over = place(now, r); over != nullptr) bring_back(now, over);",
      "if (item* over = place(now, r); over != nullptr) {"
      " note_return(over); pool_.bring_back(now, over, now); }")),
    ("counts_after_it_has_put", ["slow_release_counts"],
     (LANE, "auto before = pool_.count_put(r);", ""),
     (LANE, "pool_.undo_put(r, before); return false; }",
      "return false; } pool_.count_put(r);")),
    ("counts_what_it_does_not_put", ["swap_counts_on_a_shut_lane"],
     (LANE, "pool_.undo_put(r, before);", "static_cast<void>(before);")),

    # sweep()
    ("sweep_restores_on_a_shut_lane", ["sweep_meets_release_and_waiter"],
     (LANE, "bool fit = touched && shelf_.raised() == 0 &&", "bool fit = touched &&")),
    ("sweep_restores_over_another", ["sweep_meets_two_releases"],
     (LANE, "if (fit && shelf_.restore(cell, r)) return true;",
      "if (fit) shelf_.collect(cell); if (fit && shelf_.restore(cell, r)) return true;")),
    ("sweeper_sleeps_without_collecting", ["sweep_twice"],
     (LANE, "sleep(); collect(now);", "sleep();")),
    ("sweeper_is_not_woken", ["sweep_twice"],
     (LANE, "shelf_.lower(detail::sweeper_asleep);", "")),
    ("sweeper_forgets_that_it_wakes", ["sweep_twice"],
     (LANE, "sweep_at_ = next_sweep(now); pool_.woke_up(now);", "pool_.woke_up(now);")),

    # What owes a reset.
    ("owing_is_not_expected", ["owing_wakes_the_sweeper", "first_owing_on_a_swept_lane"],
     (LANE, "if (pool_.owes_reset(r)) expect_owing(now);", "")),
    ("first_owing_hastens_nothing", ["first_owing_on_a_swept_lane"],
     (LANE, "sweep_by(next_sweep(now)); shelf_.accept_owing();", "shelf_.accept_owing();")),
    ("sweeps_forget_owing", ["owing_meets_a_sweep"],
     (LANE, "sweep_at_ = next_sweep(now); if (hot) return;",
      "sweep_at_ = pool_.next_sweep(now, false); if (hot) return;")),
    ("owing_is_forgotten_asleep", ["owing_meets_sleep_and_waking"],
     (SHELF, "void accept_owing() { accepts_owing_.store(true); }",
      "void accept_owing(bool now = true) { accepts_owing_.store(now); }"),
     (LANE, "sweep_at_ = Pool::never; shelf_.raise(detail::sweeper_asleep);",
      "sweep_at_ = Pool::never; shelf_.raise(detail::sweeper_asleep);"
      " some_owe_ = false; shelf_.accept_owing(false);")),

    # close()
    ("close_collects_first", ["close_meets_release_and_waiter"],
     (LANE, "shut(now, reason); sleep();", "collect(now); shelf_.raise(reason); sleep();")),
    ("close_does_not_collect", ["close_meets_release"],
     (LANE, "shut(now, reason); sleep();", "shelf_.raise(reason); sleep();")),

    # recall()
    ("recall_collects_first", ["recall_meets_put"],
     (LANE, "shut(now, detail::recalling);", "collect(now); shelf_.raise(detail::recalling);")),
    ("recall_does_not_collect", ["recall_meets_take"],
     (LANE, "shut(now, detail::recalling);", "shelf_.raise(detail::recalling);")),
    ("recall_forgets_those_out", ["recall_meets_put_and_slow_release"],
     (LANE, "recalled_ = pool_.leased();", "recalled_ = 0;")),
    ("recall_ends_with_the_first", ["recall_meets_two_puts"],
     (LANE, "if (--recalled_ == 0) shelf_.lower(detail::recalling);",
      "recalled_ = 0; shelf_.lower(detail::recalling);")),
    ("recall_counts_newer_leases", ["recall_meets_take"],
     (LANE, "if (recalled_ == 0 || pool_.lent_at(r) > recalled_at_) return;",
      "if (recalled_ == 0) return;")),
    ("recall_counts_while_it_collects", ["recall_and_lend_twice"],
     (LANE, "void recall(instant now) { recalled_ = 0;", "void recall(instant now) {")),
    ("recall_keeps_its_first_date", ["recall_and_lend_twice"],
     (LANE, "recalled_at_ = pool_.date_of(now);", "static_cast<void>(pool_.date_of(now));")),
    ("recall_misses_what_is_brought_back", ["recall_meets_sweep"],
     (LANE, "note_return(r); ++collected_;", "++collected_;")),
    ("recall_never_ends", ["recall_meets_two_puts"],
     (LANE, "if (--recalled_ == 0) shelf_.lower(detail::recalling);", "--recalled_;")),
    ("suspicion_is_not_noticed", ["recall_meets_put_and_slow_release"],
     (LANE, "if (std::exchange(suspicion_, pool_.suspicion()) != pool_.suspicion()) recall(now);",
      "")),
)


def inside_of(namespace, text, path):
    """What is in this namespace of a header, and the headers it includes."""
    name = f"namespace cenote::{namespace}"
    match = re.search(rf"^{name} {{$(.*)^}}  // {name}$", text, re.MULTILINE | re.DOTALL)
    if not match:
        sys.exit(f"lane_flaws.py: no {name} in {path}")
    return match[1].strip("\n"), re.findall(r"^#include .*$", text, re.MULTILINE)


OPENING = """\
// The lane and its shelf with each planted flaw. Written by lane_flaws.py.
#pragma once
#pragma GCC system_header  // a flaw may deserve a warning
"""
VARIANT = """
namespace cenote::lane_flaws::{name} {{
namespace detail {{
{shelf}
}}  // namespace detail
namespace shell {{
{lane}
}}  // namespace shell
}}  // namespace cenote::lane_flaws::{name}
"""
ROW = """\
    {{"{name}", "{scenario}",
     &interleave::make_lane<{name}::detail::basic_shelf, {name}::shell::basic_lane>}},
"""
TABLE = """
namespace cenote::lane_flaws {{
struct row {{
    const char* name;
    const char* shows_in;  // a scenario
    interleave::lane_maker make;
}};
inline constexpr row all[] = {{
{rows}}};
}}  // namespace cenote::lane_flaws
"""


def main():
    shelf_path, lane_path, out = map(Path, sys.argv[1:])
    shelf, includes = inside_of("detail", shelf_path.read_text(encoding="utf-8"), shelf_path)
    lane, more = inside_of("shell", lane_path.read_text(encoding="utf-8"), lane_path)
    includes = sorted({*includes, *more, '#include "shell/toy_keeper.hpp"'})
    parts, rows = [OPENING, *(line + "\n" for line in includes)], []
    real = {SHELF: schema.Source(shelf), LANE: schema.Source(lane)}
    for name, scenarios, *edits in FLAWS:
        flawed = dict(real)
        for header, old, new in edits:
            try:
                flawed[header] = flawed[header].replace(old, new)
            except schema.Misfit as why:
                sys.exit(f"lane_flaws.py: a flaw that no longer applies: {name}: {why}")
        parts.append(VARIANT.format(name=name, shelf=flawed[SHELF].text, lane=flawed[LANE].text))
        rows += [ROW.format(name=name, scenario=scenario) for scenario in scenarios]
    out.write_text("".join(parts) + TABLE.format(rows="".join(rows)), encoding="utf-8")


if __name__ == "__main__":
    main()
