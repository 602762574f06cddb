// An array that grows, and whose elements stay where they are.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>

namespace cenote::shell {

/// The first block has room for what it was made for, each further one for as many as all before
/// it. One thread at a time may grow it; others may read and change elements meanwhile.
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

    /// There are at least so many from now on. Throws std::bad_alloc before anything has changed,
    /// except that a later call may have less to do.
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
        return block(number_of(rest))[i - (std::bit_floor(rest) << shift_)];
    }
    const T& operator[](std::size_t i) const { return const_cast<stable_array&>(*this)[i]; }

private:
    static std::size_t number_of(std::size_t rest) {
        return static_cast<std::size_t>(std::bit_width(rest));
    }
    T* block(std::size_t number) { return blocks_[number].load(std::memory_order_acquire); }

    const int shift_;          // the size of the first block is a power of two
    const std::size_t first_;  // this one
    std::size_t room_ = 0;
    std::size_t used_ = 0;
    std::atomic<std::size_t> size_{0};
    std::array<std::atomic<T*>, 8 * sizeof(std::size_t)> blocks_{};
};

}  // namespace cenote::shell
