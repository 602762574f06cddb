// The recipes of docs/guide/cookbook, run one after the other.
//
// Usage: cookbook [URL]…   With the URL of a server (postgresql:, redis:, http:) also the recipes
// for it; with pgbouncer: those behind PgBouncer.
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "cookbook.hpp"

namespace cookbook {

void expect(bool holds, const char* what) {
    std::printf("%s: %s\n", what, holds ? "true" : "FALSE");
    if (!holds) throw std::logic_error(what);
}

}  // namespace cookbook

namespace {

void run_on(const std::string& url) {
    constexpr std::string_view pgbouncer = "pgbouncer:";
    if (url.starts_with("postgresql:")) return cookbook::on_postgres(url);
    if (url.starts_with(pgbouncer))
        return cookbook::through_pgbouncer("postgresql:" + url.substr(pgbouncer.size()));
    if (url.starts_with("redis:")) return cookbook::on_redis(url);
    if (url.starts_with("http:")) return cookbook::over_http(url);
    throw std::invalid_argument("no recipe for this kind of URL");
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc == 1) {
            cookbook::resources();
            cookbook::requests();
            cookbook::operating();
            cookbook::loops();
        }
        for (int i = 1; i < argc; ++i) run_on(argv[i]);
        return 0;
    } catch (const std::exception& e) {
        std::printf("failed: %s\n", e.what());
        return 1;
    }
}
