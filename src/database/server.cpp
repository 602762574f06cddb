// Which server a URL means, and the words that differ between them.
#include "database/server.hpp"

#include <string>

#include "cenote/mariadb.hpp"
#include "cenote/postgres.hpp"
#include "cenote/sqlite.hpp"
#include "cenote/url.hpp"

namespace cenote::database_detail {

void server::note_only_reads(link& /*l*/, bool /*on*/) noexcept {}
std::vector<std::string> server::instead_of_begin(const transaction_options& /*how*/) const {
    return {};
}
std::vector<std::string> server::to_be_sure() const { return {}; }

std::string words_for(isolation level) {
    switch (level) {
        case isolation::server_default: break;
        case isolation::read_committed: return "ISOLATION LEVEL READ COMMITTED";
        case isolation::repeatable_read: return "ISOLATION LEVEL REPEATABLE READ";
        case isolation::serializable: return "ISOLATION LEVEL SERIALIZABLE";
    }
    return {};
}

std::shared_ptr<server> server_of(std::string_view url, const database_options& how, part which) {
    std::string scheme = url::parse(url).scheme;
    if (scheme == "sqlite") return make_sqlite(sqlite::options::from_url(url), how);
    if (scheme == "postgresql" || scheme == "postgres")
        return make_postgres(postgres::options::from_url(url), how, which);
    if (scheme == "mariadb" || scheme == "mysql")
        return make_mariadb(mariadb::options::from_url(url), how, which);
    throw invalid_url(
        "cenote: a database is named by a URL that begins with sqlite:, postgresql: or mariadb:");
}

}  // namespace cenote::database_detail
