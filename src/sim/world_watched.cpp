// What a spectator is shown. Without a spectator nothing here runs.
#include <algorithm>
#include <tuple>

#include "sim/world.hpp"

namespace cenote::sim {

actor world::actor_of(const borrower& who) const {
    return {.what = is_coroutine(who) ? actor::kind::coroutine : actor::kind::thread,
            .number = index_of(who)};
}

actor world::actor_of(const gatherer& who) const {
    return {.what = actor::kind::gatherer,
            .number = static_cast<std::size_t>(&who - gatherers_.data())};
}

/// The borrower or gatherer with this cookie, whether or not it still waits.
actor world::actor_called(std::uint64_t cookie) {
    if (const gatherer* g = gatherer_named(cookie)) return actor_of(*g);
    return actor_of(borrowers_[cookie % borrowers_.size()]);
}

/// The place of a waiter with this turn, from 1.
std::size_t world::place_in_line(core::instant turn_of_it, std::uint64_t came) const {
    std::size_t before = 0;
    for (const borrower& b : borrowers_)
        before +=
            b.what == doing::waiting && std::tuple(turn(b), b.came) < std::tuple(turn_of_it, came);
    for (const gatherer& g : gatherers_)
        before += g.waits && std::tuple(g.arrived + plan_.settings.head_start, g.came) <
                                 std::tuple(turn_of_it, came);
    return before + 1;
}

void world::note(const actor& who, const core::answer& a, std::size_t in_line,
                 core::instant deadline) {
    switch (a.what) {
        case core::answer::kind::granted:
            // A gatherer is granted its resources by actions.
            if (who.what != actor::kind::gatherer)
                followed_.push_back(
                    {.what = consequence::kind::granted, .who = who, .slot = a.slot});
            break;
        case core::answer::kind::refused:
            followed_.push_back({.what = consequence::kind::refused, .who = who, .error = a.error});
            break;
        case core::answer::kind::waiting:
            followed_.push_back({.what = consequence::kind::waits,
                                 .who = who,
                                 .place = in_line,
                                 .deadline = deadline});
    }
}

void world::note(const core::action& a) {
    auto call_of = [&] {
        auto found = std::find_if(calls_.begin(), calls_.end(),
                                  [&](const call& c) { return c.number == a.call; });
        return found == calls_.end() ? core::verb::open : found->which;
    };
    using kind = consequence::kind;
    switch (a.what) {
        case core::action::kind::call:
            followed_.push_back({.what = kind::calls, .slot = a.slot, .which = a.which});
            break;
        case core::action::kind::abandon:
            followed_.push_back({.what = kind::given_up, .slot = a.slot, .which = call_of()});
            break;
        case core::action::kind::make_way:
            followed_.push_back(
                {.what = kind::makes_way, .slot = a.slot, .which = core::verb::open});
            break;
        case core::action::kind::grant:
            followed_.push_back(
                {.what = kind::granted, .who = actor_called(a.cookie), .slot = a.slot});
            break;
        case core::action::kind::refuse:
            followed_.push_back(
                {.what = kind::refused, .who = actor_called(a.cookie), .error = a.error});
            break;
        case core::action::kind::report: note_report(a); break;
        case core::action::kind::judge: break;
    }
}

/// Most reports repeat what is shown already.
void world::note_report(const core::action& a) {
    if (a.event == event_kind::breaker_changed)
        followed_.push_back({.what = consequence::kind::circuit, .breaker = a.circuit});
    if (a.event != event_kind::retired) return;
    for (std::size_t i = 0; i < places_.size(); ++i)
        if (places_[i].exists && places_[i].resource == a.call)
            followed_.push_back({.what = consequence::kind::retired,
                                 .slot = static_cast<core::slot_id>(i),
                                 .why = a.why});
}

/// The actor and the slot of a decision, before it is carried out.
scene world::foresee(const decision& d) const {
    scene s;
    s.what = d;
    auto about = [&](const std::vector<call>& calls) {
        if (calls.empty()) return;
        s.slot = calls[d.a % calls.size()].slot;
        s.which = calls[d.a % calls.size()].which;
    };
    if (d.what <= decision::kind::admit) {
        const borrower& who = borrowers_[d.a % borrowers_.size()];
        s.who = actor_of(who);
        s.slot = who.slot;
        s.passed_over = !fits(who, d.what);
    } else if (d.what >= decision::kind::gather && d.what <= decision::kind::scatter) {
        if (!gatherers_.empty()) s.who = actor_of(gatherers_[d.a % gatherers_.size()]);
    } else if (d.what == decision::kind::late) {
        about(given_up_);
    } else if (d.what == decision::kind::answer || d.what == decision::kind::start) {
        about(calls_);
    } else if (d.what == decision::kind::judge) {
        s.passed_over = news_.empty();
    }
    return s;
}

void world::step_watched(const decision& d) {
    scene s = foresee(d);
    core::instant before = now_;
    followed_.clear();
    bool called = false;
    try {
        called = carry_out(d);
    } catch (const finding&) {
        s.passed = now_ - before;
        show(s);
        throw;
    }
    s.passed = now_ - before;
    if (d.what == decision::kind::pass) s.unnoticed = !called;
    else if (d.what > decision::kind::admit && d.what != decision::kind::judge)
        s.passed_over = !called;
    if (d.what == decision::kind::gather && !gatherers_.empty())
        s.count = gatherers_[d.a % gatherers_.size()].count;
    show(s);
}

void world::show(scene& s) {
    s.step = seen_.steps;
    s.at = now_ - began_at_;
    s.followed = followed_;
    for (core::slot_id id = 0; id < machine_.places(); ++id)
        s.slots.push_back(machine_.look(id).state);
    s.max = max_;
    stats counted;
    machine_.read(counted);
    s.waiting = counted.waiting;
    s.paused = paused_;
    s.closed = closed_;
    s.circuit = machine_.breaker().state();
    spectator_->see(s);
}

}  // namespace cenote::sim
