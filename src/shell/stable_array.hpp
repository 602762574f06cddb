// An array that grows, and whose elements stay where they are.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>

namespace cenote::shell {

/// The first block holds what it was made for, each further one as many as all before it. One
/// thread at a time may grow it; others may read and change elements meanwhile.
template <class T>
class stable_array {
public:
    /// Requires count > 0.
    explicit stable_array(std::size_t count) : first_(count) { grow(count); }
    stable_array(const stable_array&) = delete;
    stable_array& operator=(const stable_array&) = delete;
    ~stable_array() {
        for (auto& block : blocks_) delete[] block.load(std::memory_order_relaxed);
    }

    /// There are at least so many from now on. Throws std::bad_alloc before anything has changed,
    /// except that a later call may have less to do.
    void grow(std::size_t count) {
        while (room_ < count) {
            blocks_[used_].store(new T[used_ == 0 ? first_ : room_](), std::memory_order_release);
            room_ += used_ == 0 ? first_ : room_;
            ++used_;
        }
        if (count > size()) size_.store(count, std::memory_order_release);
    }

    std::size_t size() const { return size_.load(std::memory_order_acquire); }

    T& operator[](std::size_t i) {
        if (i < first_) return block(0)[i];
        auto number = static_cast<std::size_t>(std::bit_width(i / first_));
        return block(number)[i - (first_ << (number - 1))];
    }
    const T& operator[](std::size_t i) const { return const_cast<stable_array&>(*this)[i]; }

private:
    T* block(std::size_t number) { return blocks_[number].load(std::memory_order_acquire); }

    const std::size_t first_;
    std::size_t room_ = 0;
    std::size_t used_ = 0;
    std::atomic<std::size_t> size_{0};
    std::array<std::atomic<T*>, 8 * sizeof(std::size_t)> blocks_{};
};

}  // namespace cenote::shell
