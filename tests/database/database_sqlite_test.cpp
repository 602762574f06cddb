// A database in a file.
#include <string>

#include "connector/sqlite_file.hpp"
#include "database/conformance.hpp"

namespace cenote::conformance {
namespace {

struct sqlite_place {
    support::sqlite_file file;

    std::string url() const { return file.url(); }
    const char* setting = "PRAGMA cache_size = 77";
    const char* what_is_set = "SELECT 'it is ' || cache_size FROM pragma_cache_size";
    const char* value = "it is 77";
    static constexpr bool fails_as_a_whole = false;
};

using kinds = testing::Types<kind<sqlite_place, blocking>, kind<sqlite_place, awaited>>;
INSTANTIATE_TYPED_TEST_SUITE_P(sqlite, any_database, kinds);

TEST(database, says_which_urls_it_knows) {
    EXPECT_THROW(database("oracle://x/y"), invalid_url);
    EXPECT_THROW(database("orders.db"), invalid_url);
    EXPECT_THROW(database("sqlite::memory:"), std::invalid_argument);
}

}  // namespace
}  // namespace cenote::conformance
