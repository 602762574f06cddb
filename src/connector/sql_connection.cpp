// Which statements are whose.
#include "cenote/sql_connection.hpp"

#include <atomic>

namespace cenote::sql::detail {

std::uint64_t session::new_generation() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace cenote::sql::detail
