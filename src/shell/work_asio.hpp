// Where connector calls run that do not block: on an executor of the user's, without a thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>

#include "cenote/asio_connector.hpp"
#include "core/instant.hpp"
#include "shell/workplace.hpp"

namespace cenote::shell {

/// Everything but the calls themselves happens in turns, at most one at a time: a turn starts the
/// calls that wait, cancels those that were abandoned, ticks, and sets the timer. Each call is a
/// coroutine on a strand of its own.
///
/// What is on the executor (a turn, the timer's handler, a call) keeps the keeper. If the
/// executor's context drops it instead of running it, the context is going away, and nothing is put
/// there any more.
class work_asio final : public workplace {
public:
    work_asio(keeper& home, const boost::asio::any_io_executor& where, const options& settings);
    ~work_asio() override;

    void call(const job& j) noexcept override;
    std::size_t calls_here() const override { return 0; }
    bool needs_this_thread() const override;
    bool do_something(core::instant until) noexcept override;
    void summon() noexcept override CENOTE_UNCHECKED_LOCKING;

    bool look(core::instant wake_at) override;
    void abandoned(core::slot_id slot, std::uint64_t call) override;
    bool stopped() const override { return stopping_; }
    std::exception_ptr why_stopped() const override { return dropped_error_; }
    bool overwhelmed() const override { return stopping_; }
    /// The pool's end never waits for calls: it may well come on the only thread they have.
    bool helpless(std::size_t) const override { return true; }
    void start_anew() override;
    void stop(holding& lock) noexcept override CENOTE_UNCHECKED_LOCKING;

    /// In the child of a fork, when nobody runs the context: cancels the calls that the parent
    /// began, before they go on here.
    void forsake_calls() noexcept;

private:
    class running_call;
    class errand;

    void start_up() override;
    void turn() noexcept CENOTE_UNCHECKED_LOCKING;
    bool step(holding& lock) noexcept CENOTE_UNCHECKED_LOCKING;
    bool take_turn();
    void end_turn(holding& lock) noexcept CENOTE_UNCHECKED_LOCKING;
    bool set_timer(holding& lock, core::instant wake_at) noexcept CENOTE_UNCHECKED_LOCKING;
    void on_timer() noexcept;
    void dropped() noexcept;
    void cancel_abandoned(holding& lock) noexcept CENOTE_UNCHECKED_LOCKING;
    void let_go() noexcept;

    keeper& home_;
    const core::duration close_timeout_;
    const std::exception_ptr dropped_error_;

    // Belong to whoever has the turn.
    boost::asio::any_io_executor where_;
    std::optional<boost::asio::steady_timer> timer_;

    const std::shared_ptr<work_asio*> told_of_forks_;

    // Guarded by the keeper's lock.
    running_call* calls_ = nullptr;  // in flight
    bool somebody_abandoned_ = false;
    bool turn_taken_ = false;  // a turn is on the executor, on the way there, or under way
    int summoning_ = 0;        // so many are on the way there
    condition summoned_;
    bool stopping_ = false;
    core::instant timer_at_ = core::never;
};

}  // namespace cenote::shell
