// Describes pool events in one line of English, for logs and the dashboard.
#pragma once

#include <string>
#include <string_view>

#include "cenote/event.hpp"

namespace cenote::detail {

/// `text` with each run of spaces and control characters replaced by one space.
std::string on_one_line(std::string_view text);

/// What distinguishes events of one kind: the cause, the reason or the call site. Events of the
/// same kind, pool and subject count as repetitions.
std::string event_subject(const event& what);

/// Describes the event without the pool's name. `subject`: event_subject(what).
std::string event_text(const event& what, const std::string& subject);

}  // namespace cenote::detail
