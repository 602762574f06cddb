// Sleeping on a word until another thread changes it.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/instant.hpp"

namespace cenote::shell {

/// Sleeps while *word == value, at most until `limit`. May return before.
void sleep_on(const std::atomic<std::uint32_t>& word, std::uint32_t value,
              core::instant limit) noexcept;

/// Wakes up to `count` threads that sleep on a word. Needs its address only: the word may be gone.
void wake_from(const std::atomic<std::uint32_t>* word, int count) noexcept;

}  // namespace cenote::shell
