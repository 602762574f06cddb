// An array that can grow without moving its elements.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>

namespace cenote::shell {

/// The first block has room for the initial count, each further block for as many elements as all
/// blocks before it. One thread at a time may call grow(); other threads may read and change
/// elements meanwhile.
template <class T>
class stable_array {
public:
    explicit stable_array(std::size_t count)
        : shift_(std::countr_zero(std::bit_ceil(count))), first_(std::bit_ceil(count)) {
        grow(count);
    }
    stable_array(const stable_array&) = delete;
    stable_array& operator=(const stable_array&) = delete;
    ~stable_array() {
        for (auto& block : blocks_) delete[] block.load(std::memory_order_relaxed);
    }

    /// Grows the array to at least `count` elements. Throws std::bad_alloc; the size is unchanged
    /// then.
    void grow(std::size_t count) {
        while (room_ < count) {
            std::size_t more = used_ == 0 ? first_ : room_;
            T* block = new T[more]();  // first: it may throw
            blocks_[used_++].store(block, std::memory_order_release);
            room_ += more;
        }
        if (count > size()) size_.store(count, std::memory_order_release);
    }

    std::size_t size() const { return size_.load(std::memory_order_acquire); }

    T& operator[](std::size_t i) {
        if (i < first_) [[likely]]
            return block(0)[i];
        std::size_t rest = i >> shift_;
        auto number = static_cast<std::size_t>(std::bit_width(rest));
        return block(number)[i - (std::bit_floor(rest) << shift_)];
    }
    const T& operator[](std::size_t i) const { return const_cast<stable_array&>(*this)[i]; }

private:
    T* block(std::size_t number) { return blocks_[number].load(std::memory_order_acquire); }

    const int shift_;          // first_ is 1 << shift_
    const std::size_t first_;  // the size of the first block
    std::size_t room_ = 0;     // in all blocks
    std::size_t used_ = 0;     // blocks
    std::atomic<std::size_t> size_{0};
    std::array<std::atomic<T*>, 8 * sizeof(std::size_t)> blocks_{};
};

}  // namespace cenote::shell
