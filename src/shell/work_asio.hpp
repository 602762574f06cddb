// Connector calls that do not block: on an executor of the user, without a thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "cenote/asio_connector.hpp"
#include "core/instant.hpp"
#include "shell/workplace.hpp"

namespace cenote::shell {

/// Everything but the calls themselves happens in turns, at most one at a time. A turn starts the
/// calls that wait, cancels the abandoned ones, ticks, and sets the timer. Each call is a coroutine
/// on a strand of its own.
///
/// What is posted to the executor (a turn, the timer's handler, a call) has a reference to the
/// keeper. If the context drops it instead of running it, the context is being destroyed, and
/// nothing is posted there from then on.
class work_asio final : public workplace {
public:
    work_asio(keeper& home, const boost::asio::any_io_executor& where, const options& settings);

    void call(const job& j) noexcept override;
    std::size_t calls_here() const override { return 0; }
    bool needs_this_thread() const override;
    bool make_progress(core::instant until) noexcept override;
    void wake() noexcept override CENOTE_UNCHECKED_LOCKING;

    bool schedule(core::instant wake_at) override;
    void abandoned(core::slot_id slot, std::uint64_t call) override;
    bool stopped() const override { return stopping_; }
    std::exception_ptr why_stopped() const override { return dropped_error_; }
    bool too_many_hang() const override { return stopping_; }
    /// The end of the pool never waits for calls: it may run on the only thread they have.
    bool is_stuck(std::size_t) const override { return true; }
    void restart() override;
    void stop(pool_guard& lock) noexcept override CENOTE_UNCHECKED_LOCKING;

private:
    class running_call;
    class posted_step;

    void start_up() override { set_started(true); }
    void turn() noexcept CENOTE_UNCHECKED_LOCKING;
    bool step(pool_guard& lock) noexcept CENOTE_UNCHECKED_LOCKING;
    bool take_turn();
    void end_turn(pool_guard& lock) noexcept CENOTE_UNCHECKED_LOCKING;
    bool set_timer(pool_guard& lock, core::instant wake_at) noexcept CENOTE_UNCHECKED_LOCKING;
    void on_timer() noexcept;
    void dropped() noexcept;
    void cancel_abandoned(pool_guard& lock) noexcept CENOTE_UNCHECKED_LOCKING;
    template <class Which, class Cancel>
    void for_each_call(pool_guard& lock, Which which,
                       Cancel cancel) noexcept CENOTE_UNCHECKED_LOCKING;
    void cancel_foreign_calls() noexcept;
    void release_executor() noexcept;

    keeper& home_;
    const core::duration close_timeout_;
    const std::exception_ptr dropped_error_;

    // Only the thread that has the turn uses these.
    boost::asio::any_io_executor where_;
    std::optional<boost::asio::steady_timer> timer_;

    const std::shared_ptr<const std::function<void()>> after_fork_;

    // Guarded by the keeper's lock.
    running_call* calls_ = nullptr;  // in flight
    bool any_abandoned_ = false;
    bool turn_taken_ = false;  // a turn is posted, being posted, or running
    int posting_ = 0;          // turns that are being posted
    pool_condition posted_;
    bool stopping_ = false;
    core::instant timer_at_ = core::never;
};

}  // namespace cenote::shell
