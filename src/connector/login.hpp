// What an open logs in with: the credentials of the options, of a function or of a file.
#pragma once

#include <cstddef>
#include <memory>
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

/// The credentials for one open. A function that may block runs on a work thread if the open is
/// awaited. Throws what the function throws.
template <class Mode, class Options>
result_in<Mode, credentials> find_credentials(std::shared_ptr<const Options> o) {
    credentials found(o->password);
    if constexpr (std::is_same_v<Mode, awaited>) {
        if (o->async_credentials != nullptr) {
            found = co_await o->async_credentials();
        } else if (o->credentials != nullptr) {
            auto call = [o] { return o->credentials(); };
            found = co_await async_run_function(std::move(call));
        }
    } else {
        if (o->credentials != nullptr) found = o->credentials();
        else if (o->async_credentials != nullptr)
            throw connection_error(error_kind::final,
                                   "cenote: async_credentials needs a connector on an executor; "
                                   "set credentials, too");
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
