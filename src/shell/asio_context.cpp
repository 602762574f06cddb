// Questions to an execution context of Boost.Asio, in terms of Asio's documented interface.
#include "shell/asio_context.hpp"

#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace cenote::shell {

namespace asio = boost::asio;

namespace {

/// An executor that keeps its context busy.
template <class Executor>
using tracked = std::decay_t<decltype(asio::require(std::declval<const Executor&>(),
                                                    asio::execution::outstanding_work.tracked))>;

template <class Executor>
bool runs(const Executor& where) {
    return where.running_in_this_thread();
}
bool runs(const asio::any_io_executor& where) { return runs_here(where); }
/// A strand itself only says whether this thread runs one of its own handlers.
template <class Inner>
bool runs(const asio::strand<Inner>& where) {
    return runs(where.get_inner_executor());
}

template <class... Known>
bool runs_as_any_of(const asio::any_io_executor& where) {
    auto runs_as = [&](const auto* known) { return known != nullptr && runs(*known); };
    return (runs_as(where.target<Known>()) || ...);
}

/// Belongs to a context, which calls notify_fork() when the user notifies it.
class fork_service : public asio::execution_context::service {
public:
    using key_type = fork_service;
    using handler = std::function<void()>;
    static inline asio::execution_context::id id;

    explicit fork_service(asio::execution_context& context) : service(context) {}

    void add(const std::shared_ptr<const handler>& h) {
        std::lock_guard lock(mutex_);
        std::erase_if(handlers_, [](const auto& each) { return each.expired(); });
        handlers_.push_back(h);
    }

private:
    void shutdown() noexcept override {}
    void notify_fork(asio::execution_context::fork_event event) override {
        if (event != asio::execution_context::fork_child) return;
        for (const auto& each : handlers_)
            if (auto call = each.lock()) (*call)();
    }

    std::mutex mutex_;
    std::vector<std::weak_ptr<const handler>> handlers_;
};

}  // namespace

bool runs_here(const asio::any_io_executor& where) {
    using loop = asio::io_context::executor_type;
    using threads = asio::thread_pool::executor_type;
    using asio::strand;
    return runs_as_any_of<loop, tracked<loop>, strand<loop>, strand<tracked<loop>>,
                          strand<strand<loop>>, threads, tracked<threads>, strand<threads>,
                          strand<strand<threads>>, strand<asio::any_io_executor>>(where);
}

void call_after_fork(const asio::any_io_executor& where,
                     const std::shared_ptr<const std::function<void()>>& handler) {
    auto& context = asio::query(where, asio::execution::context);
    asio::use_service<fork_service>(context).add(handler);
}

}  // namespace cenote::shell
