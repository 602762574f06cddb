// The recipes of docs/guide/cookbook, by page. Each function runs the recipes of one page and
// throws if one of them does not do what the page says.
#pragma once

#include <string>

namespace cookbook {

/// Throws std::logic_error unless `holds`.
void expect(bool holds, const char* what);

void resources();
void requests();
void operating();
void loops();

// With a real server.
void on_postgres(const std::string& url);
void operating_on_postgres(const std::string& url);
void through_pgbouncer(const std::string& url);
void on_redis(const std::string& url);
void over_http(const std::string& url);

}  // namespace cookbook
