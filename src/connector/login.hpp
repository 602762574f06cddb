// What an open logs in with: the credentials of the options, of a function or of a file.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cenote/credentials.hpp"
#include "cenote/secret.hpp"
#include "cenote/server_error.hpp"
#include "connector/drive.hpp"
#include "connector/work.hpp"

namespace cenote::connector_detail {

/// Whether another open may have other credentials, so that no refusal of a login is final.
template <class Options>
bool has_credentials_source(const Options& o) {
    return o.credentials != nullptr || o.async_credentials != nullptr;
}

/// Throws connection_error if a text has a zero byte, which would cut it off.
void check_credentials(const credentials& who);

/// The server has refused a login, and other credentials may be accepted.
class login_refused : public connection_error {
public:
    explicit login_refused(const std::string& what, std::string_view sqlstate = {}, int code = 0)
        : connection_error(error_kind::transient, what, sqlstate, code) {}
};

/// What the copies of a connector share about their logins.
///
/// Thread safety: all members may be called from several threads at once.
class logins {
public:
    /// Throws login_refused if the server has refused the same credentials within the last second:
    /// servers lock accounts after a few refused logins.
    void check(const credentials& by) const;
    void note_refused(const credentials& by, const login_refused& why);

    /// These credentials; the latest ones if they are the same.
    std::shared_ptr<const credentials> shared(credentials by) const;
    void note_accepted(std::shared_ptr<const credentials> by);
    /// Those of the latest login that the server has accepted. Null: there was none.
    std::shared_ptr<const credentials> latest() const;

    /// For options::credentials. Not shared with other connectors, since a function may hang.
    const std::shared_ptr<user_threads>& threads() const noexcept { return threads_; }

private:
    struct refusal {
        credentials by;
        login_refused why;
        instant at;
    };

    mutable std::mutex mutex_;
    std::optional<refusal> refusal_;
    std::shared_ptr<const credentials> latest_;
    std::shared_ptr<user_threads> threads_ = std::make_shared<user_threads>();
};

/// Runs a function that has to be awaited, on an event loop of its own. Cancels it at the deadline,
/// and waits for its end. Throws what it throws, and exchange_timeout.
credentials run_awaited_function(const std::function<boost::asio::awaitable<credentials>()>& what,
                                 instant deadline);

/// The credentials for one open. A function that may block runs on a thread for it if the open is
/// awaited. Throws what the function throws.
template <class Mode, class Options>
result_in<Mode, credentials> find_credentials(std::shared_ptr<const Options> o,
                                              std::shared_ptr<user_threads> threads) {
    credentials found(o->password);
    if constexpr (std::is_same_v<Mode, awaited>) {
        if (o->async_credentials != nullptr) {
            found = co_await o->async_credentials();
        } else if (o->credentials != nullptr) {
            auto call = [o] { return o->credentials(); };
            found = co_await async_run_user_function(std::move(threads), std::move(call));
        }
    } else {
        if (o->credentials != nullptr) found = o->credentials();
        else if (o->async_credentials != nullptr)
            found = run_awaited_function(o->async_credentials, deadline_after(o->connect_timeout));
    }
    if (found.user.empty()) found.user = o->user;
    check_credentials(found);
    co_return found;
}

/// The text of a regular file. Throws connection_error (transient) if it cannot be read or is
/// longer than `most` bytes. `is_private`: also if others than its owner have access to it.
secret text_of_file(const std::string& path, std::size_t most, bool is_private);

/// The password that a text in the form of ~/.pgpass has for a connection: lines of
/// `host:port:database:user:password`, where `*` matches anything and a backslash stands before a
/// ':' or a backslash. The first line that matches counts. Pure.
std::optional<secret> find_in_passfile(std::string_view text, std::string_view host,
                                       std::string_view port, std::string_view database,
                                       std::string_view user);

}  // namespace cenote::connector_detail
