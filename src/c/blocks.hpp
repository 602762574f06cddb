// The tables of the C API: arrays that grow in blocks, whose elements are never freed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>

namespace cenote::c {

/// Guards changes of the tables, which are infrequent. Nothing is called while it is locked. Locked
/// during a fork, so that the child gets a consistent state.
std::mutex& api_mutex() noexcept;

/// At most `Blocks` times `BlockSize` (a power of two) elements. Constant-initialized, so a lookup
/// in a global variable takes two loads.
///
/// Thread safety: one thread at a time may add (see api_mutex), while others look up.
template <class T, std::size_t BlockSize, std::size_t Blocks>
class blocks {
public:
    /// The element, or null. May return an element that add() has not returned yet: a whole block
    /// is constructed at once.
    T* find(std::size_t index) noexcept {
        if (index / BlockSize >= Blocks) return nullptr;
        T* block = blocks_[index / BlockSize].load(std::memory_order_acquire);
        return block == nullptr ? nullptr : block + index % BlockSize;
    }

    /// Adds an element and sets `index`. Throws std::bad_alloc, also at the maximum size.
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
