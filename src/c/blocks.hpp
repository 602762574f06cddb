// Things that are found by an index, stay where they are, and are never freed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <new>

namespace cenote::c {

/// Room for `Blocks` times `BlockSize` (a power of two) of them. In a global variable it needs no
/// construction, so that looking one up takes two loads. One thread at a time may add; others may
/// look meanwhile.
template <class T, std::size_t BlockSize, std::size_t Blocks>
class blocks {
public:
    /// Null: there is none. Some are there before they are given out: they are as they were made.
    T* find(std::size_t index) noexcept {
        if (index / BlockSize >= Blocks) return nullptr;
        T* block = blocks_[index / BlockSize].load(std::memory_order_acquire);
        return block == nullptr ? nullptr : block + index % BlockSize;
    }

    /// The next, and its index. Throws std::bad_alloc, also if there is no more room.
    T& add(std::size_t& index) {
        index = used_;
        if (index / BlockSize >= Blocks) throw std::bad_alloc();
        if (index % BlockSize == 0)
            blocks_[index / BlockSize].store(new T[BlockSize], std::memory_order_release);
        ++used_;
        return *find(index);
    }

private:
    std::size_t used_ = 0;
    std::array<std::atomic<T*>, Blocks> blocks_{};
};

}  // namespace cenote::c
