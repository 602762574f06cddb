// The keeper when the other side changes: another connector takes over, or all is suspect.
#include <stdexcept>
#include <string>
#include <utility>

#include "shell/enter.hpp"
#include "shell/keeper.hpp"

namespace cenote::shell {

using core::instant;

namespace {

/// Whoever replaces a connector must be able to do what the pool counts on, and nothing more: the
/// pool would not ask for it.
void must_be_alike(const detail::connector_abilities& present,
                   const detail::connector_abilities& next, const std::string& pool) {
    auto refuse = [&](const std::string& why) {
        throw std::invalid_argument("cenote: the new connector of \"" + pool + "\" " + why);
    };
    if (next.blocks != present.blocks)
        refuse(next.blocks ? "blocks; a pool on an executor needs an asynchronous one"
                           : "is asynchronous; a pool without an executor needs one that blocks");
    auto same = [&](bool had, bool has, const std::string& verb) {
        if (had != has)
            refuse((has ? "has " : "has no ") + verb +
                   ", unlike the present one; of probe, reset, " +
                   "before_acquire and before_release it must have the same");
    };
    same(present.probe, next.probe, "probe");
    same(present.reset, next.reset, "reset");
    same(present.before_acquire, next.before_acquire, "before_acquire");
    same(present.before_release, next.before_release, "before_release");
    if (next.before_acquire_is_quick != present.before_acquire_is_quick)
        refuse(next.before_acquire_is_quick
                   ? "has a before_acquire that is noexcept, unlike the present one"
                   : "has a before_acquire that is not noexcept, unlike the present one");
}

}  // namespace

void keeper::replace_connector(std::unique_ptr<detail::any_connector> next) {
    must_be_alike(can_, next->abilities(), name_);
    detail::connector_ref other(next.release());  // the present one ends with it, unlocked, if idle
    enter([&](instant now) noexcept {
        connector_.swap(other);
        recall(now);
        machine_.retire_all(now, out_);
    });
}

/// Without a probe there is no way to clear anything of suspicion.
void keeper::suspect_all(instant now) {
    if (can_.probe) return machine_.suspect_all(now, out_);  // mind_the_lane() recalls
    recall(now);
    machine_.retire_all(now, out_);
}

void keeper::suspect_all() noexcept {
    enter([&](instant now) noexcept { suspect_all(now); });
}

/// A server that goes down takes many leases with it, and all their holders say so. What has been
/// proven since the first of them is not what they speak of.
void keeper::suspect(const detail::resource* r) noexcept {
    enter([&](instant now) noexcept {
        const core::slot& s = machine_.look(r->slot);
        bool retired = s.epoch < machine_.generation();
        bool suspected = can_.probe && s.checked_at <= machine_.suspect_at();
        if (!retired && !suspected) suspect_all(now);
    });
}

}  // namespace cenote::shell
