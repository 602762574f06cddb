// A statement that nobody waits for any more: the server is told so on a connection of its own.
//
// The connection whose statement it is has ended then, for good, so that what is stopped is nobody
// else's. That the server which was reached is the same, and the number still means the same
// connection there, is known from where the server sees our end of it (address and port; of a Unix
// socket only that it is one), and from the server's having been up since the connection was made.
#include <algorithm>
#include <chrono>

#include "connector/drive.hpp"
#include "connector/mariadb_session.hpp"
#include "connector/work.hpp"

namespace cenote::mariadb::detail {

using connector_detail::deadline_after;
using connector_detail::drive;

namespace {

/// What the two threads that do this spend on one that cannot be reached.
constexpr std::chrono::milliseconds most_time{5000};

struct work_to_stop {
    std::shared_ptr<const options> settings;
    std::string at;
    unsigned long number;
    std::string seen_at;
    instant known_since;
    instant until;

    /// Whether the server has the same connection under this number.
    std::string question(bool is_mariadb) const {
        std::string same =
            "SELECT 1 FROM information_schema.processlist WHERE id = " + std::to_string(number) +
            " AND host = " + as_bytes(seen_at);
        if (!is_mariadb) return same;
        auto age =
            std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - known_since);
        return same +
               " AND (SELECT variable_value FROM information_schema.global_status WHERE "
               "variable_name = 'UPTIME') >= " +
               std::to_string(age.count());
    }

    /// Throws server_error: it was not to be.
    void stop() const {
        session aside(settings, at, until);
        settling connect(aside, settling::from::aside);
        drive(connect, until);
        const bool is_mariadb = mariadb_connection(aside.handle()) != 0;
        if (!is_mariadb && seen_at.find(':') == seen_at.npos) return;
        const std::string same = question(is_mariadb);
        asking look(aside, same);
        drive(look, until);
        if (look.answer() != "1") return;
        // Softly, where that is known: what cannot be repaired if it stops halfway goes on.
        const std::string kill =
            std::string(is_mariadb ? "KILL SOFT QUERY " : "KILL QUERY ") + std::to_string(number);
        asking stop(aside, kill);
        drive(stop, until);
    }
};

}  // namespace

void session::call_off() noexcept {
    if (handle_ == nullptr || seen_at_.empty() || std::exchange(is_over_, true)) return;
    if (process_ != cenote::detail::this_process) return;
    try {
        work_to_stop what{.settings = settings_,
                          .at = at_,
                          .number = mysql_thread_id(handle_),
                          .seen_at = seen_at_,
                          .known_since = known_since_,
                          .until = deadline_after(std::min(settings_->connect_timeout, most_time))};
        connector_detail::run_aside([what] {
            try {
                what.stop();
            } catch (const std::exception&) {
                return;  // it has ended by itself, or the server cannot be reached
            }
        });
    } catch (...) {
        return;  // the server will notice some day
    }
}

}  // namespace cenote::mariadb::detail
