// Whether threads that give a resource back come again at once, so that it is worth while to set it
// aside for them.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cenote::core {

/// Counts in lends. Somebody who does not come costs as much as `price` who do come save; once that
/// is used up, nobody is waited for during the next lends, and each time for longer.
class comebacks {
public:
    /// Whether it is worth while after so many lends.
    bool are_likely(std::uint64_t lends) const { return lends >= direct_until_; }
    /// Somebody came for what had been set aside.
    void came() {
        credit_ = std::min(credit_ + 1, most);
        pause_ = first_pause;
    }
    /// Nobody did. Whatever else was set aside when the pause began says nothing more.
    void missed(std::uint64_t lends) {
        if (!are_likely(lends)) return;
        if (credit_ >= price) {
            credit_ -= price;
            return;
        }
        credit_ = 0;
        direct_until_ = lends + pause_;
        pause_ = std::min(2 * pause_, longest_pause);
    }

private:
    static constexpr std::uint32_t price = 16;
    static constexpr std::uint32_t most = 32;
    static constexpr std::uint64_t first_pause = 64;
    static constexpr std::uint64_t longest_pause = 4096;

    std::uint32_t credit_ = 0;
    std::uint64_t pause_ = first_pause;
    std::uint64_t direct_until_ = 0;
};

}  // namespace cenote::core
