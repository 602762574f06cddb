// The keeper in the child of a fork: it begins again, empty, and lets go of what is the parent's.
//
// The child must not say a word on a connection that its parent uses as well. So what was open at
// the fork is foreign here: it is neither lent, probed, reset, closed nor destroyed. What no
// borrower holds is forsaken when the pool is first used; what one holds, when he lets go of it.
// What vanished threads held, or were calling the connector on, is left alone: its state is
// unknown.
//
// All other threads are gone: those of the pool, and those that waited. A waiter without a thread
// is forgotten, and told nothing unless it asks: the parent's coroutines are not to go on here by
// themselves.
//
// The keeper's memory is never freed in the child. Too much may still refer to it: leases,
// coroutines, and references of threads that are gone.
#include <exception>
#include <memory>
#include <utility>

#include "shell/around.hpp"
#include "shell/enter.hpp"

namespace cenote::shell {

using core::instant;
using detail::resource;

/// What cannot wait for the first use of the pool: the fast lane asks nothing. With nothing on the
/// shelf and no trace of a lease that allows a put, nothing foreign gets there.
void keeper::after_fork_in_child() noexcept {
    add_ref();
    leases.shut();
    for (std::size_t i = 0; i < shelf_.size(); ++i)
        if (resource* r = shelf_.collect(i); r != nullptr) r->orphan = true;
    lock.unlock();
}

void keeper::catch_up() {
    if (forks.is_behind()) enter([](instant) noexcept {});
}

void keeper::make_ready() {
    catch_up();
    work->start();
    if (forks.must_begin())
        enter([&](instant now) CENOTE_REQUIRES(lock) {
            if (forks.take_beginning() && !machine.closed()) machine.start(now, out);
        });
    ready_in_.store(detail::this_process, std::memory_order_release);
}

/// Without memory to begin again nothing of this process's is in the pool.
bool keeper::try_to_catch_up() noexcept {
    try {
        catch_up();
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

/// Throws before it has begun, or half-way: then it goes on from there.
void keeper::start_anew(errands& todo) {
    forks.disown_all(machine, calls);
    leases.prepare_anew(calls.slots());
    latest_ = core::long_ago;  // a child may be in another time namespace
    instant now = now_in_order();
    if (!std::exchange(forks.machine_is_gone, true)) std::destroy_at(&machine);
    std::construct_at(&machine, settings_with(*this, max_now), abilities_of(can, clock),
                      news.wants_any(), pick_seed(fixed), now);
    forks.machine_is_gone = false;
    out.clear();
    machine.make_room(out);
    machine.make_places(calls.slots(), out);

    bool was_closed = (shelf_.raised() & detail::pool_closed) != 0;
    leases.start_anew();  // leases of the parent still write where they wrote
    calls.start_anew();
    watchers.start_anew();
    lane.start_anew();
    around_lane.start_anew();
    opens.start_anew();
    news.start_anew();
    strategy.start_anew();
    work->start_anew();
    settles_ = 0;
    looked_for_ = core::long_ago;
    look_again_ = core::never;
    turns_seen_ = 0;
    occupied_ = false;
    forks.forsake_later(todo);
    if (was_closed) machine.close(now, out);
    out.clear();  // observers have heard that
    forks.has_begun();
}

}  // namespace cenote::shell
