// Cancels an abandoned statement: a second connection asks the server to stop it (KILL QUERY).
//
// The statement's own connection is unusable by then, so no later statement on it can be stopped by
// mistake. The second connection may reach another server, or the number of the first connection
// may belong to another client by now. So the statement is stopped only if the server lists the
// number with the client address that the first connection has (address and port; a Unix socket has
// neither), and if the server has been up since before the first connection was made.
#include <algorithm>
#include <chrono>
#include <vector>

#include "connector/drive.hpp"
#include "connector/login.hpp"
#include "connector/mariadb_session.hpp"
#include "connector/work.hpp"

namespace cenote::mariadb::detail {

using connector_detail::blocking;
using connector_detail::deadline_after;

namespace {

/// The longest that a server which cannot be reached occupies one of the two threads for this.
constexpr std::chrono::milliseconds max_time{5000};

struct statement_to_cancel {
    std::shared_ptr<const options> settings;
    std::string at;
    std::shared_ptr<const connector_detail::logins> logins;
    std::shared_ptr<const credentials> login;  // of the connection
    unsigned long connection_id;
    std::string client_address;
    instant known_since;
    instant until;

    /// A query that returns 1 if the server has the same connection under this number.
    std::string same_connection(bool is_mariadb) const {
        std::string same = "SELECT 1 FROM information_schema.processlist WHERE id = " +
                           std::to_string(connection_id) +
                           " AND host = " + as_bytes(client_address);
        if (!is_mariadb) return same;
        auto age =
            std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - known_since);
        return same +
               " AND (SELECT variable_value FROM information_schema.global_status WHERE "
               "variable_name = 'UPTIME') >= " +
               std::to_string(age.count());
    }

    /// What to log in with. Options::credentials is not asked: it belongs to the user, whose pool
    /// may be gone. If the user has logged in again since, the newer password counts.
    std::vector<std::shared_ptr<const credentials>> candidates() const {
        std::shared_ptr<const credentials> latest = logins->latest();
        if (latest == nullptr) return {login};
        if (latest->user == login->user) return {latest};
        return {login, latest};
    }

    void cancel() const {
        for (const auto& each : candidates()) {
            try {
                return cancel_as(each);
            } catch (const connector_detail::login_refused&) {
                continue;
            }
        }
    }

    /// Throws server_error.
    void cancel_as(const std::shared_ptr<const credentials>& by) const {
        session second(settings, at, logins, by, until);
        setting_up connect(second, setting_up::start::cancel);
        blocking::drive(connect, until);
        const bool is_mariadb = mariadb_connection(second.handle()) != 0;
        if (!is_mariadb && client_address.find(':') == client_address.npos) return;
        const std::string same = same_connection(is_mariadb);
        querying look(second, same);
        blocking::drive(look, until);
        if (look.value() != "1") return;
        // SOFT lets statements go on that would leave a broken table behind.
        const std::string kill = std::string(is_mariadb ? "KILL SOFT QUERY " : "KILL QUERY ") +
                                 std::to_string(connection_id);
        querying stop(second, kill);
        blocking::drive(stop, until);
    }
};

}  // namespace

void session::cancel_statement() noexcept {
    if (handle_ == nullptr || client_address_.empty() || std::exchange(cancel_done_, true)) return;
    if (process_ != cenote::detail::this_process) return;
    try {
        statement_to_cancel what{
            .settings = settings_,
            .at = at_,
            .logins = logins_,
            .login = login_,
            .connection_id = mysql_thread_id(handle_),
            .client_address = client_address_,
            .known_since = known_since_,
            .until = deadline_after(std::min(settings_->connect_timeout, max_time))};
        connector_detail::run_detached([what] {
            try {
                what.cancel();
            } catch (...) {
                return;  // the statement has ended, or the server cannot be reached
            }
        });
    } catch (...) {
        return;  // no memory: the server finishes the statement
    }
}

}  // namespace cenote::mariadb::detail
