// A database of PostgreSQL's.
#include <string>

#include "connector/postgres_place.hpp"
#include "database/conformance.hpp"
#include "database/conformance_served.hpp"

namespace cenote::conformance {
namespace {

struct postgres_place {
    static std::string url() { return support::postgres_url(); }
    static void kill_all() { support::the_postgres().kill_backends(); }
    const char* slow = "SELECT pg_sleep(0.3)";
    const char* setting = "SET application_name = 'changed'";
    const char* what_is_set = "SHOW application_name";
    const char* value = "changed";
    const char* setting_seen = setting;
    const char* what_is_seen = what_is_set;
    const char* value_seen = value;
    const char* lock = "SELECT pg_advisory_lock(7)";
    const char* try_lock = "SELECT pg_try_advisory_xact_lock(7)::int";
    static constexpr bool fails_as_a_whole = true;
};

using kinds = testing::Types<kind<postgres_place, blocking>, kind<postgres_place, awaited>>;
INSTANTIATE_TYPED_TEST_SUITE_P(postgres, any_database, kinds);
INSTANTIATE_TYPED_TEST_SUITE_P(postgres, any_served_database, kinds);

}  // namespace
}  // namespace cenote::conformance
