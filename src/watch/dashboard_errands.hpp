// Does to pools what was ordered, on threads of its own.
#pragma once

#include <functional>
#include <list>
#include <memory>

#include "watch/dashboard_request.hpp"
#include "watch/dashboard_state.hpp"

namespace cenote::detail {

/// What is done to a pool may run others' code: a coroutine that gets its lease may block, take the
/// pool off the board, or end the dashboard. So each errand has a thread, which ends with it.
///
/// Thread safety: one thread at a time.
class errands {
public:
    using listener = std::function<void(const board::result&)>;

    errands() = default;
    /// Waits for all of them, but for the one that it is called from; nobody hears of them.
    ~errands();
    errands(const errands&) = delete;
    errands& operator=(const errands&) = delete;

    /// Tells `then` on the errand's thread how it went. Throws std::system_error if there is no
    /// thread to be had.
    void run(std::shared_ptr<board> on, control_order order, listener then);

private:
    struct errand;

    void forget_ended();

    std::list<std::shared_ptr<errand>> all_;
};

}  // namespace cenote::detail
