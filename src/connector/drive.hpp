// Steps that go on as far as their socket lets them, and who waits for the socket: a thread, or a
// coroutine. So everything that is said to a server is written once.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>

namespace cenote::connector_detail {

using instant = std::chrono::steady_clock::time_point;

/// What somebody needs before they can go on.
enum class need : std::uint8_t { nothing, to_read, to_write, to_do_either };

/// Something that takes several steps.
class steps {
public:
    /// Goes on as far as possible without waiting. `nothing`: it is complete.
    /// May close the descriptor: whoever connects tries one address after the other, and libraries
    /// hang up when the server did.
    virtual need step() = 0;
    virtual int descriptor() const = 0;
    /// For the text of a timeout: "the reply", "the connection".
    virtual const char* awaited() const { return "a reply"; }

protected:
    ~steps() = default;
};

/// When something ends that may take so long from now on. Too long is for ever.
instant deadline_after(std::chrono::nanoseconds time) noexcept;

/// Takes all steps. Throws exchange_timeout, and what the steps throw.
void drive(steps& s, instant deadline);
/// The same on the coroutine's executor, on any of its threads. Can be cancelled (terminally): then
/// it throws boost::system::system_error, and the steps were left where they were.
boost::asio::awaitable<void> async_drive(steps& s, instant deadline);

}  // namespace cenote::connector_detail
