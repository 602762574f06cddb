// A connector call on an executor.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "cenote/detail/process.hpp"
#include "shell/job.hpp"
#include "shell/work_asio.hpp"

namespace cenote::shell {

/// The workplace for which this thread is posting something.
inline constinit thread_local const work_asio* posting_for = nullptr;

/// Posts something to the executor. False: there was no memory for it.
template <class Post>
bool try_post(const work_asio& place, Post post) noexcept {
    const work_asio* outer = std::exchange(posting_for, &place);
    bool posted = true;
    try {
        post();
    } catch (const std::exception&) {
        posted = false;
    }
    posting_for = outer;
    return posted;
}

/// A connector call in flight. Its coroutine and the thread that cancels it share it. Ends once.
class work_asio::running_call : public std::enable_shared_from_this<running_call> {
public:
    running_call(work_asio& place, const job& j, const boost::asio::any_io_executor& where)
        : place_(place), job_(j), connector_(j.by), strand_(boost::asio::make_strand(where)) {}

    void start();

    /// From any thread. Without memory for it the call goes on until it ends by itself.
    void cancel() noexcept;
    /// On the strand.
    void emit() {
        if (!ended_) stop_.emit(boost::asio::cancellation_type::terminal);
    }

    void end() noexcept;
    void fail(std::exception_ptr why) noexcept {
        error_ = std::move(why);
        end();
    }

    bool is(core::slot_id slot, std::uint64_t call) const {
        return job_.slot == slot && job_.call == call && !is_foreign();
    }
    bool is_foreign() const { return job_.process != detail::this_process; }

    // In the list of calls, under the keeper's lock.
    bool abandoned = false;
    bool canceled = false;
    running_call* next = nullptr;

private:
    class ending;

    static boost::asio::awaitable<void> perform(std::shared_ptr<running_call> me);

    /// For an orphan, for which the machine has no timeout.
    void expire_after(core::duration time);

    work_asio& place_;
    const job job_;
    const detail::connector_ref connector_;  // the call's frame may end after the answer
    boost::asio::strand<boost::asio::any_io_executor> strand_;
    std::optional<boost::asio::steady_timer> expiry_;
    boost::asio::cancellation_signal stop_;
    bool ended_ = false;
    bool well_ = true;
    std::exception_ptr error_;
    std::unique_ptr<detail::resource> opened_;
};

}  // namespace cenote::shell
