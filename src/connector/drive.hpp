// Steps that go on as far as their socket lets them, and who waits for the socket: a thread, or a
// coroutine. So everything that is said to a server is written once.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace cenote::connector_detail {

using instant = std::chrono::steady_clock::time_point;

/// What steps need before they can go on. `a_turn`: nothing but a look at the clock and a turn of
/// the event loop for others; the step has done as much as one step may.
enum class need : std::uint8_t { nothing, to_read, to_write, to_do_either, a_turn };

/// The bytes that one step reads or converts before it asks for a_turn: a millisecond's work at
/// most, and enough that the turns cost little.
inline constexpr std::size_t most_per_step = std::size_t{64} << 10U;

/// Something that takes several steps.
class steps {
public:
    /// Goes on without waiting, by about most_per_step bytes at most: a server that sends faster
    /// than the steps read must hold neither the deadline nor the event loop. `nothing`: it is
    /// complete.
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

/// Takes all steps, and looks at the clock after each. Throws exchange_timeout, and what the steps
/// throw.
void drive(steps& s, instant deadline);
/// The same on the coroutine's executor, on any of its threads. Can be cancelled (terminally): then
/// it throws boost::system::system_error, and the steps were left where they were.
boost::asio::awaitable<void> async_drive(steps& s, instant deadline);

}  // namespace cenote::connector_detail
