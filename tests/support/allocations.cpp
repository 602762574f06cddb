// The global operator new that counts and fails on demand.
#include "support/allocations.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

constexpr std::int64_t never = -1;

struct plan {
    std::int64_t spared = never;
    std::size_t at_least = 0;
    bool lasting = false;
    bool happened = false;
};

constinit thread_local std::uint64_t made_here = 0;
constinit thread_local plan here;
std::atomic<std::uint64_t> made_anywhere{0};
std::atomic<std::int64_t> alive{0};
std::atomic<std::int64_t> spared_anywhere{never};
std::atomic<bool> happened_anywhere{false};

bool fails_anywhere() {
    if (spared_anywhere.load(std::memory_order_relaxed) == never) return false;
    std::int64_t left = spared_anywhere.load();
    while (left != never)
        if (spared_anywhere.compare_exchange_weak(left, left - 1)) break;
    if (left != 0) return false;
    happened_anywhere = true;
    return true;
}

bool must_fail(std::size_t size) {
    if (size < here.at_least) return fails_anywhere();
    if (here.spared == 0) {
        here.happened = true;
        if (!here.lasting) here.spared = never;
        return true;
    }
    if (here.spared > 0) --here.spared;
    return fails_anywhere();
}

void* get(std::size_t size, std::size_t alignment) {
    ++made_here;
    made_anywhere.fetch_add(1, std::memory_order_relaxed);
    if (must_fail(size)) throw std::bad_alloc();
    std::size_t rounded = (size + alignment - 1) / alignment * alignment;
    void* p = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
    if (p == nullptr) throw std::bad_alloc();
    ++alive;
    return p;
}

void give(void* p) {
    if (p == nullptr) return;
    --alive;
    std::free(p);
}

constexpr std::size_t usual = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

void* get_quietly(std::size_t size, std::size_t alignment) noexcept {
    try {
        return get(size, alignment);
    } catch (...) {
        return nullptr;
    }
}

}  // namespace

void* operator new(std::size_t n) { return get(n, usual); }
void* operator new[](std::size_t n) { return get(n, usual); }
void* operator new(std::size_t n, std::align_val_t a) { return get(n, std::size_t(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return get(n, std::size_t(a)); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return get_quietly(n, usual); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept {
    return get_quietly(n, usual);
}
void operator delete(void* p) noexcept { give(p); }
void operator delete[](void* p) noexcept { give(p); }
void operator delete(void* p, std::size_t) noexcept { give(p); }
void operator delete[](void* p, std::size_t) noexcept { give(p); }
void operator delete(void* p, std::align_val_t) noexcept { give(p); }
void operator delete[](void* p, std::align_val_t) noexcept { give(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { give(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { give(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { give(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { give(p); }

namespace support {

std::uint64_t allocations_here() { return made_here; }
std::uint64_t allocations_made() { return made_anywhere; }
std::int64_t allocations_alive() { return alive; }

allocation_failure::allocation_failure(std::uint64_t spared, scope where, std::size_t at_least) {
    auto count = static_cast<std::int64_t>(spared);
    here = {};
    happened_anywhere = false;
    if (where == scope::once_on_any_thread) spared_anywhere = count;
    else here = {.spared = count, .at_least = at_least, .lasting = where == scope::from_then_on};
}

allocation_failure::~allocation_failure() {
    here.spared = never;
    spared_anywhere = never;
}

bool allocation_failure::happened() const { return here.happened || happened_anywhere; }

}  // namespace support
