// Other notations for the place of a server, such as `host=db dbname=orders`, and their URLs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cenote/url.hpp"

namespace cenote::connector_detail {

/// If the text is not a URL but has another known notation: which one, and the URL to use instead:
/// "this is a libpq connection string, not a URL; use postgresql://app:***@db/orders". Otherwise
/// empty.
///
/// The answer contains no password: in its place is `***`. A part of the text appears in the answer
/// only where the notation says that it is something else; words in capitals stand for the others.
std::string answer_to_other_notation(std::string_view text);

/// The parts of a URL that another notation names. Empty parts are unknown.
struct server_place {
    std::string scheme;  ///< Empty: PostgreSQL or MariaDB.
    std::string user = {};
    bool has_password = false;
    std::vector<url::host> hosts = {};
    std::string database = {};
    std::vector<std::pair<std::string, std::string>> parameters = {};
};

/// The URL, with `***` for the password and words in capitals for missing parts.
std::string url_of(const server_place& place);
/// The URL of an SQLite file.
std::string url_of_file(std::string_view path);
/// With all characters percent-encoded but letters, digits, `-._~` and those in `also`.
std::string percent_encoded(std::string_view text, std::string_view also = {});
/// From `db` or `db:5432`; a port that is not a number is left out.
url::host host_of(std::string_view text);
/// The scheme of servers that usually listen on this port; empty for other ports.
std::string scheme_of_port(std::uint16_t port);

/// "this is …, not a URL; use …"
std::string answer(std::string_view notation, const std::string& use);

/// A letter, a digit, or one of `-._~`.
bool is_plain(char c);
/// Without the white space around it.
std::string_view trimmed(std::string_view text);
/// In lower case.
std::string lower(std::string_view text);
/// 0 if the text is not a port.
std::uint16_t port_of(std::string_view text);

/// Whether the text begins with `key=`, with a key of connection strings.
bool begins_with_pair(std::string_view text);
/// Sets the user, the password or a parameter that also our URLs have; ignores other keys.
void set_part(const std::string& key, const std::string& value, server_place& into);
/// The answer to pairs with `;` between them; `scheme` may be empty.
std::string answer_to_pairs(std::string_view text, std::string scheme, const char* notation);
/// The answer to pairs with spaces between them.
std::string answer_to_connection_string(std::string_view text);
/// The answer to the command lines of psql, mariadb, mysql, redis-cli and sqlite3.
std::string answer_to_command_line(std::string_view text);

}  // namespace cenote::connector_detail
