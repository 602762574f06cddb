// How errands end: by themselves, waited for, or let go.
#include "watch/dashboard_errands.hpp"

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

namespace cenote::detail {

/// Belongs to its thread, too, which may outlive the errands if they end in its midst.
struct errands::errand {
    void tell(const board::result& how) {
        std::lock_guard lock(mutex);
        if (then) then(how);
        then = nullptr;
    }
    void hush() {
        std::lock_guard lock(mutex);
        then = nullptr;
    }

    std::mutex mutex;
    listener then;  // empty: nobody listens any more
    std::atomic<bool> ended{false};
    std::thread thread;
};

errands::~errands() {
    for (const auto& each : all_) each->hush();
    for (const auto& each : all_) {
        if (each->thread.get_id() == std::this_thread::get_id()) each->thread.detach();
        else each->thread.join();
    }
}

void errands::run(std::shared_ptr<board> on, control_order order, listener then) {
    forget_ended();
    auto one = std::make_shared<errand>();
    one->then = std::move(then);
    all_.push_back(one);
    try {
        one->thread = std::thread([one, on = std::move(on), order = std::move(order)] {
            try {
                one->tell(on->carry_out(order));
            } catch (...) {  // memory is short: whoever waits to hear of it gets tired of that
                one->hush();
            }
            one->ended = true;
        });
    } catch (...) {
        all_.pop_back();
        throw;
    }
}

void errands::forget_ended() {
    std::erase_if(all_, [](const std::shared_ptr<errand>& each) {
        if (!each->ended) return false;
        each->thread.join();
        return true;
    });
}

}  // namespace cenote::detail
