// What a pool learns from its execution context: whether this thread runs it, and forks.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>

namespace cenote::shell {

/// Whether the calling thread runs the context of an executor. Knows the executors of io_context
/// and thread_pool, strands around them, and any_io_executor around all of these; false for
/// executors of other types.
bool runs_here(const boost::asio::any_io_executor& where);

/// Has `handler` called in the child of a fork, when the user notifies the context
/// (execution_context::notify_fork), as long as a copy of the pointer exists.
void call_after_fork(const boost::asio::any_io_executor& where,
                     const std::shared_ptr<const std::function<void()>>& handler);

}  // namespace cenote::shell
