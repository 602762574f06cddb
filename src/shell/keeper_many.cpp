// The keeper and those who want several resources at once, or none.
#include <bit>
#include <optional>

#include "shell/enter.hpp"
#include "shell/keeper.hpp"
#include "shell/wait_thread.hpp"

namespace cenote::shell {

using core::instant;
using detail::resource;

bool keeper::acquire_many(const detail::wish& w, std::span<resource*> into, errc& why) {
    if (into.size() == 1) return (into.front() = acquire(w, why)) != nullptr;
    many_waiter me(into);
    me.site = w.site;
    me.wants = w.how;
    me.holder = detail::this_thread();
    me.deadline = w.deadline;
    me.cannot_wait = cannot_wait_here();
    for (;;) {
        get_ready();
        const detail::process_number asked_in = detail::this_process;
        // Once it waits, `me` is for others to write until it has been told.
        core::answer said = ask_for_many(me);
        bool refused_at_once = said.what == core::answer::kind::refused;
        bool waits = said.what == core::answer::kind::waiting;
        if (waits || said.error == errc::deadlock) may_block(w.site);
        if (detail::this_process != asked_in) continue;  // forked by an observer
        if (!refused_at_once) wait(me, w);
        if (detail::this_process != asked_in && me.filled == 0) continue;
        if (me.filled == 0) break;
        if (admits_all(into)) return true;
    }
    why = me.error;
    refused(why);
    return false;
}

/// What was granted at once comes like everything else: it is told.
core::answer keeper::ask_for_many(many_waiter& me) {
    me.rearm();
    me.filled = 0;
    core::answer a;
    enter([&](instant now) {
        machine_.make_room(out_);
        bool again = me.ticket != 0;
        if (!again) {
            me.ticket = machine_.draw_ticket();
            me.arrived = now;
        }
        if (might_lend_suspects()) notice_suspension(now);
        collect_shelf(now);  // the machine is to see all there are
        std::uint64_t holder = note_who_holds(me.holder, me.into.size());
        a = machine_.acquire(
            now,
            {.deadline = me.deadline,
             .cookie = std::bit_cast<std::uint64_t>(static_cast<detail::waiter*>(&me)),
             .ticket = me.ticket,
             .arrived = me.arrived,
             .again = again,
             .cannot_wait = me.cannot_wait,
             .queues = me.wants.queues,
             .rank = me.wants.rank,
             .count = static_cast<std::uint32_t>(me.into.size()),
             .holder = holder},
            out_);
        me.place = std::bit_cast<std::uint64_t>(a.waiter);
        me.error = a.error;
        if (a.nested) note_nested(me.site);
    });
    return a;
}

/// If one of them is unfit, all go back, and their borrower to its place in line.
bool keeper::admits_all(std::span<resource*> all) noexcept {
    bool fit = true;
    for (resource* r : all) {
        if (admits(r)) continue;
        r->state = detail::condition::unfit;
        fit = false;
    }
    if (fit) return true;
    for (resource*& r : all) {
        if (r->state == detail::condition::clean) r->state = detail::condition::unused;
        release(std::exchange(r, nullptr));
    }
    return false;
}

}  // namespace cenote::shell
