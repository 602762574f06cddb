// An array that grows while threads read it: elements keep their address and value.
#include "shell/stable_array.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/patience.hpp"

using cenote::shell::stable_array;
using support::eventually;

namespace {

/// Cannot be copied or moved, so it can only stay where it is.
struct rooted {
    rooted() = default;
    rooted(const rooted&) = delete;
    rooted& operator=(const rooted&) = delete;

    std::uint64_t number = 0;
};

/// Where each element is.
template <class T>
std::vector<T*> addresses(stable_array<T>& a) {
    std::vector<T*> all;
    for (std::size_t i = 0; i < a.size(); ++i) all.push_back(&a[i]);
    return all;
}

/// Numbers the elements, and sees that each keeps its own.
template <class T>
void expect_all_apart(stable_array<T>& a) {
    std::vector<T*> all = addresses(a);
    EXPECT_EQ(std::set<T*>(all.begin(), all.end()).size(), a.size());
    for (std::size_t i = 0; i < a.size(); ++i) a[i].number = i + 1;
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i].number, i + 1);
}

/// Counts the objects that are alive. The constructor fails after `spared` calls.
struct counted {
    counted() {
        if (spared-- == 0) throw std::bad_alloc();
        ++alive;
    }
    ~counted() { --alive; }
    counted(const counted&) = delete;
    counted& operator=(const counted&) = delete;

    static inline int alive = 0;
    static inline int spared = -1;
    std::uint64_t number = 0;
};

struct stable_array_from : testing::TestWithParam<std::size_t> {};

}  // namespace

TEST(stable_array, has_as_many_as_it_was_made_with) {
    stable_array<rooted> a(3);
    EXPECT_EQ(a.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(a[i].number, 0U);
    expect_all_apart(a);
}

TEST(stable_array, begins_with_nothing_in_its_elements) {
    struct plain {
        int number;
        void* pointer;
    };
    stable_array<plain> a(2);
    a.grow(9);
    for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(a[i].number, 0);
        EXPECT_EQ(a[i].pointer, nullptr);
    }
}

TEST(stable_array, never_becomes_smaller) {
    stable_array<rooted> a(5);
    a.grow(1);
    EXPECT_EQ(a.size(), 5U);
    a.grow(5);
    EXPECT_EQ(a.size(), 5U);
    a.grow(7);
    a.grow(6);
    EXPECT_EQ(a.size(), 7U);
}

TEST(stable_array, can_be_read_if_it_is_const) {
    stable_array<rooted> a(1);
    a.grow(4);
    a[3].number = 7;
    const auto& same = a;
    EXPECT_EQ(same[3].number, 7U);
    EXPECT_EQ(&same[3], &a[3]);
}

TEST_P(stable_array_from, grows_one_by_one) {
    stable_array<rooted> a(GetParam());
    std::vector<rooted*> known = addresses(a);
    for (std::size_t count = GetParam() + 1; count <= GetParam() + 70; ++count) {
        a[count - 2].number = count;
        a.grow(count);
        ASSERT_EQ(a.size(), count);
        ASSERT_EQ(a[count - 2].number, count);
        ASSERT_EQ(a[count - 1].number, 0U);
        for (std::size_t i = 0; i < known.size(); ++i) ASSERT_EQ(&a[i], known[i]);
        known.push_back(&a[count - 1]);
    }
    expect_all_apart(a);
}

TEST_P(stable_array_from, grows_by_leaps) {
    stable_array<rooted> a(GetParam());
    for (std::size_t count : {2u, 3u, 5u, 17u, 16u, 100u, 101u, 1023u, 1025u, 5000u}) {
        std::vector<rooted*> before = addresses(a);
        std::size_t size = std::max(a.size(), std::size_t{count});
        a.grow(count);
        ASSERT_EQ(a.size(), size);
        for (std::size_t i = 0; i < before.size(); ++i) ASSERT_EQ(&a[i], before[i]);
        expect_all_apart(a);
    }
}

INSTANTIATE_TEST_SUITE_P(sizes, stable_array_from,
                         testing::Values(1U, 2U, 3U, 5U, 7U, 8U, 9U, 10U, 31U, 33U, 1000U));

TEST(stable_array, grows_from_one_to_a_million) {
    stable_array<rooted> a(1);
    rooted* first = &a[0];
    a.grow(1'000'000);
    EXPECT_EQ(&a[0], first);
    expect_all_apart(a);
}

TEST(stable_array, ends_each_element_once) {
    {
        stable_array<counted> a(3);
        a.grow(20);
        EXPECT_GE(counted::alive, 20);
    }
    EXPECT_EQ(counted::alive, 0);
}

TEST(stable_array, has_not_changed_if_it_could_not_grow) {
    stable_array<counted> a(4);
    for (std::size_t i = 0; i < 4; ++i) a[i].number = 10 + i;
    // At the first block that is missing, and at a later one.
    for (int spared : {0, 3, 4, 11}) {
        std::vector<counted*> before = addresses(a);
        counted::spared = spared;
        EXPECT_THROW(a.grow(40), std::bad_alloc);
        counted::spared = -1;
        EXPECT_EQ(a.size(), 4U);
        EXPECT_EQ(addresses(a), before);
        for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(a[i].number, 10 + i);
    }
    a.grow(40);
    EXPECT_EQ(a.size(), 40U);
    expect_all_apart(a);
}

// What the sanitizer watches: others read and change what they can see while one makes it grow.
TEST(stable_array, can_be_read_and_changed_while_it_grows) {
    stable_array<std::atomic<std::uint64_t>> a(1);
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> wrong{0};
    std::atomic<std::size_t> most_seen{0};
    auto read = [&] {
        do {
            std::size_t size = a.size();
            for (std::size_t i = 0; i < size; ++i) {
                std::uint64_t found = a[i].load(std::memory_order_relaxed);
                if (found != 0 && found != i + 1) ++wrong;
                a[i].store(i + 1, std::memory_order_relaxed);
            }
            most_seen = size;
        } while (!over);
    };
    std::thread one(read);
    std::thread other(read);
    for (std::size_t count = 1; count <= 3000; count += 1 + count / 50) {
        a.grow(count);
        if (count % 7 == 0) std::this_thread::yield();
    }
    a.grow(3000);
    EXPECT_TRUE(eventually([&] { return most_seen == 3000; }));
    over = true;
    one.join();
    other.join();
    EXPECT_EQ(wrong, 0U);
    for (std::size_t i = 0; i < 3000; ++i) EXPECT_EQ(a[i], i + 1);
}

// A pointer to an element outlives everything that happens to the array.
TEST(stable_array, leaves_an_element_to_its_user_while_it_grows) {
    stable_array<rooted> a(3);
    std::atomic<bool> over{false};
    std::thread user([&, mine = &a[2]] {
        while (!over) ++mine->number;  // this thread's own, so not atomic
    });
    for (std::size_t count = 3; count <= 20'000; count += 1 + count / 20) a.grow(count);
    over = true;
    user.join();
    EXPECT_GE(a.size(), 19'000U);
}
