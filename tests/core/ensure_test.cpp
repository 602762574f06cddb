// Tests that a broken invariant stops the program, or throws where the simulator wants that.
#include "core/ensure.hpp"

#include <csignal>
#include <stdexcept>

#include <gtest/gtest.h>

namespace cenote::core {
namespace {

TEST(ensure, accepts_what_holds) { ensure(true, "this holds"); }

TEST(ensure, aborts_with_the_invariant) {
    auto usual = when_broken;
    when_broken = nullptr;
    EXPECT_EXIT(ensure(false, "two is one"), testing::KilledBySignal(SIGABRT),
                "cenote: invariant broken: two is one");
    when_broken = usual;
}

TEST(ensure, calls_the_handler_first) {
    auto usual = when_broken;
    when_broken = [](const char* invariant) { throw std::logic_error(invariant); };
    EXPECT_THROW(ensure(false, "two is one"), std::logic_error);
    when_broken = usual;
}

}  // namespace
}  // namespace cenote::core
