// Tests version.hpp: its numbers and its text are one version, that of the project.
#include "cenote/version.hpp"

#include <string>

#include <gtest/gtest.h>

namespace cenote {
namespace {

#if CENOTE_VERSION < 0 || CENOTE_VERSION >= 1'000'000
#error "CENOTE_VERSION is for #if, too"
#endif

TEST(version, has_the_same_numbers_and_text) {
    std::string numbers = std::to_string(version_major) + "." + std::to_string(version_minor) +
                          "." + std::to_string(version_patch);
    EXPECT_EQ(numbers, version_text);
    EXPECT_EQ(version, version_major * 10'000 + version_minor * 100 + version_patch);
    EXPECT_STREQ(CENOTE_VERSION_STRING, numbers.c_str());
}

TEST(version, is_that_of_the_project) { EXPECT_EQ(version_text, CENOTE_TEST_PROJECT_VERSION); }

}  // namespace
}  // namespace cenote
