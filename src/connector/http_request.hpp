// What is sent to an HTTP server: requests as bytes, and what all of one connector have in common.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cenote/http.hpp"
#include "cenote/secret.hpp"
#include "connector/transport.hpp"

namespace cenote::http::detail {

/// What a connector was made from, checked and made ready.
struct settings {
    /// Throws std::invalid_argument, or connection_error (final) if the files for TLS cannot be
    /// used.
    explicit settings(const options& chosen);

    options chosen;
    std::string host_field;  // the value of Host
    secret authorization;    // the value of Authorization; empty: none
    std::unique_ptr<connector_detail::tls_context> tls;
};

/// A request as it is sent, but for a long body. Contains passwords, and forgets them.
class request_text {
public:
    /// Throws std::invalid_argument if it is no proper request: nothing in it may end a line, or
    /// say where a message ends.
    request_text(const request& asked, const settings& by);
    request_text(const request_text&) = delete;
    request_text& operator=(const request_text&) = delete;
    ~request_text();

    std::string_view head() const noexcept { return text_; }
    /// What comes after it, as long as the request lives.
    std::string_view body() const noexcept { return body_; }

private:
    void add(std::string_view name, std::string_view value);

    std::string text_;
    std::string_view body_;
};

}  // namespace cenote::http::detail
