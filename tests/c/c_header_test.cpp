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

TEST(header, is_for_cpp_as_well) {
    cenote_wish wish = CENOTE_WISH;
    EXPECT_EQ(wish.size, sizeof wish);
    EXPECT_STREQ(cenote_word(CENOTE_OK), "ok");
    EXPECT_THAT(CENOTE_HERE, HasSubstr("c_header_test.cpp:"));
}

TEST(header, no_exception_of_a_callback_gets_through) {
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

}  // namespace
