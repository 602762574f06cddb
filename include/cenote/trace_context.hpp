// A place in a distributed trace, for acquires and statements: the contents of a W3C traceparent.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cenote {

/// A span of a distributed trace, as the header `traceparent` of W3C Trace Context names it. An
/// acquire that has one gives it to the observers (event::trace), so that its wait becomes a span
/// of the caller's trace. cenote makes no spans itself and sends none. See docs/guide/traces.md.
///
///     auto from = cenote::trace_context::parse(header).value_or(cenote::trace_context{});
///     auto conn = pool.acquire({.trace = from});
struct trace_context {
    /// The number of the trace. All zero: no trace.
    std::array<std::uint8_t, 16> trace_id{};
    /// The number of the span in which the acquire happens: `parent-id` of a traceparent.
    std::array<std::uint8_t, 8> span_id{};
    /// Bit 0: the trace is sampled (recorded).
    std::uint8_t flags = 0;

    /// Whether it names a span: neither number is all zero.
    explicit operator bool() const noexcept {
        return trace_id != decltype(trace_id){} && span_id != decltype(span_id){};
    }
    /// Whether the caller records this trace.
    bool sampled() const noexcept { return (flags & 1U) != 0; }

    bool operator==(const trace_context&) const = default;

    /// Reads a traceparent. Empty if it is malformed: wrong length, upper case, version `ff`, a
    /// number of zero. Then begin a new trace, as the standard demands. Later versions are read as
    /// version 00, without the flags that version 00 does not have.
    static std::optional<trace_context> parse(std::string_view traceparent) noexcept;

    /// The traceparent, in version 00, with 55 characters. Empty without a span. For example:
    /// `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`.
    std::string traceparent() const;

    /// The traceparent as an SQL comment in the form of sqlcommenter, to be appended to a
    /// statement. Empty without a span. It has no text from outside, so it cannot change the
    /// statement: `/*traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'*/`. See
    /// also database_options::trace_comments.
    std::string sql_comment() const;
};

}  // namespace cenote
