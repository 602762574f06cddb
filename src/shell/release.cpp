
/// What a direct end did.
struct passed {
    detail::waiter* to = nullptr;  // to be notified
    bool aside = false;            // set aside for this thread; else and if `to` is null: nothing
    bool rearm = false;            // the timer; the caller has a reference for that
};

/// Turns: sets the resource aside for this thread (core/machine_turns.cpp). Not inlined: a
/// coroutine at the head of the line grants no turns.
[[gnu::noinline]] passed set_aside(keeper& k, instant now, resource* r) CENOTE_REQUIRES(k.lock) {
    if (!k.machine.set_aside(now, r->slot, k.leases.uses_since(r), lease_ledger::held(now, r),
                             r->owes, thread_that_returns(k, r)))
