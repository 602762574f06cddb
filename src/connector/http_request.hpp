// Requests as bytes, and the settings that all connections of one connector share.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cenote/http.hpp"
#include "cenote/secret.hpp"
#include "connector/transport.hpp"

namespace cenote::http::detail {

/// Checked options, and what is derived from them.
struct settings {
    /// Throws std::invalid_argument, or connection_error (final) if a file for TLS cannot be used.
    explicit settings(const options& given);

    options chosen;
    std::string host_field;  // the value of Host
    secret authorization;    // the value of Authorization; empty: none
    std::unique_ptr<connector_detail::tls_context> tls;
};

/// A request in the protocol's form, except for a long body. Wipes its memory at the end, since it
/// contains the password.
class request_text {
public:
    /// Throws std::invalid_argument if the request is malformed: no part of it may end a line or
    /// set the length of the message.
    request_text(const request& r, const settings& by);
    request_text(const request_text&) = delete;
    request_text& operator=(const request_text&) = delete;
    ~request_text();

    std::string_view head() const noexcept { return text_; }
    /// A long body, which refers to the request; otherwise empty.
    std::string_view body() const noexcept { return body_; }

private:
    void add(std::string_view name, std::string_view value);

    std::string text_;
    std::string_view body_;
};

}  // namespace cenote::http::detail
