// The keeper when the other side changes: another connector takes over.
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

}  // namespace cenote::shell
