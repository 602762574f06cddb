// A connector call as a coroutine on a strand of its own: how it starts, is canceled, and ends.
#include "shell/asio_call.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include "cenote/asio_connector.hpp"
#include "shell/operations.hpp"

namespace cenote::shell {

namespace asio = boost::asio;

/// Runs when the coroutine has ended. If this is dropped, the coroutine was dropped, too.
class work_asio::running_call::ending {
public:
    explicit ending(std::shared_ptr<running_call> of) noexcept : of_(std::move(of)) {}
    ending(ending&&) noexcept = default;
    ending& operator=(ending&&) = delete;
    ~ending() {
        if (of_ == nullptr) return;
        if (posting_for != &of_->place_) of_->place_.dropped();
        of_->fail(of_->place_.dropped_error_);
    }
    void operator()(const std::exception_ptr&) { std::exchange(of_, nullptr)->end(); }

private:
    std::shared_ptr<running_call> of_;
};

void work_asio::running_call::start() {
    if (job_.is_orphans()) expire_after(place_.close_timeout_);
    asio::co_spawn(strand_, perform(shared_from_this()),
                   asio::bind_cancellation_slot(
                       stop_.slot(), asio::bind_executor(strand_, ending(shared_from_this()))));
}

asio::awaitable<void> work_asio::running_call::perform(std::shared_ptr<running_call> me) {
    auto& connector = static_cast<detail::async_connector&>(*me->connector_);
    try {
        switch (me->job_.which) {
            case core::verb::open: me->opened_ = co_await connector.open(); break;
            case core::verb::probe: me->well_ = co_await connector.probe(me->job_.on); break;
            case core::verb::reset: me->well_ = co_await connector.reset(me->job_.on); break;
            case core::verb::close: me->well_ = co_await connector.close(me->job_.on); break;
        }
    } catch (...) {
        me->error_ = std::current_exception();
    }
}

void work_asio::running_call::expire_after(core::duration time) {
    expiry_.emplace(strand_, core::after(std::chrono::steady_clock::now(), time));
    expiry_->async_wait([me = shared_from_this()](const boost::system::error_code& early) {
        if (!early) me->emit();
    });
}

void work_asio::running_call::cancel() noexcept {
    try_post(place_, [&] { asio::post(strand_, [me = shared_from_this()] { me->emit(); }); });
}

void work_asio::running_call::end() noexcept {
    if (std::exchange(ended_, true)) return;
    expiry_.reset();
    {
        pool_guard lock(place_.home_.lock);
        for (running_call** at = &place_.calls_; *at != nullptr; at = &(*at)->next) {
            if (*at != this) continue;
            *at = next;
            break;
        }
    }
    keeper& home = place_.home_;
    finish(home, job_, well_ && error_ == nullptr, error_, std::move(opened_));
    home.drop_ref();
}

}  // namespace cenote::shell
