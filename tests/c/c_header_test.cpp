// The header in C++, and exceptions of C++ callbacks.
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>

#include "cenote/cenote.h"

namespace {

using testing::HasSubstr;

int open_throws(void* context, void**, cenote_failure*) {
    if (context != nullptr) throw 42;
    throw std::runtime_error("thrown by open");
}

TEST(header, compiles_as_cpp) {
    cenote_acquire_options how = CENOTE_ACQUIRE_OPTIONS;
    EXPECT_EQ(how.size, sizeof how);
    EXPECT_STREQ(cenote_word(CENOTE_OK), "ok");
    EXPECT_THAT(CENOTE_HERE, HasSubstr("c_header_test.cpp:"));
}

TEST(header, no_exception_of_a_callback_escapes) {
    cenote_connector c{};
    c.size = sizeof c;
    c.open = open_throws;
    cenote_options o;
    ASSERT_EQ(cenote_options_init(&o, sizeof o), CENOTE_OK);
    o.min_size = 1;
    o.warm_up = CENOTE_WARM_UP_WAIT;
    cenote_pool pool = 0;
    cenote_failure why{};
    why.size = sizeof why;
    EXPECT_EQ(cenote_create(&c, &o, &pool, &why), CENOTE_OPEN_FAILED);
    EXPECT_STREQ(why.text, "thrown by open");
    c.context = &pool;
    EXPECT_EQ(cenote_create(&c, &o, &pool, &why), CENOTE_OPEN_FAILED);
    EXPECT_THAT(std::string(why.text), HasSubstr("not a std::exception"));
}

TEST(header, exceptions_of_other_callbacks_are_failures) {
    static int made = 0;
    cenote_connector c{};
    c.size = sizeof c;
    c.open = [](void*, void** into, cenote_failure*) -> int {
        *into = &++made;
        return CENOTE_KEEP;
    };
    c.close = [](void*, void*) { throw std::runtime_error("thrown by close"); };
    c.probe = [](void*, void*, cenote_failure*) -> int { throw std::runtime_error("by probe"); };
    c.reset = [](void*, void*, cenote_failure*) -> int { throw std::runtime_error("by reset"); };
    c.before_release = [](void*, void*) -> int { throw std::runtime_error("by before_release"); };
    cenote_observer seen{};
    seen.size = sizeof seen;
    seen.wants = CENOTE_WANTS_ALL;
    seen.on_event = [](void*, const cenote_event*) { throw std::runtime_error("by on_event"); };
    cenote_options o;
    ASSERT_EQ(cenote_options_init(&o, sizeof o), CENOTE_OK);
    o.max = 1;
    o.observer = &seen;
    cenote_pool pool = 0;
    ASSERT_EQ(cenote_create(&c, &o, &pool, nullptr), CENOTE_OK);
    for (int i = 0; i < 3; ++i) {
        cenote_lease lease = 0;
        ASSERT_EQ(cenote_acquire(pool, CENOTE_DEFAULT_TIMEOUT, &lease, nullptr), CENOTE_OK);
        EXPECT_EQ(cenote_release(lease), CENOTE_OK);
    }
    EXPECT_GE(made, 3) << "what before_release does not judge is not kept";
    EXPECT_EQ(cenote_destroy(pool, nullptr), CENOTE_OK);
}

}  // namespace
