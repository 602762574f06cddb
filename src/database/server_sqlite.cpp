// SQLite, for a database.
#include "cenote/sqlite.hpp"
#include "database/server.hpp"

namespace cenote::database_detail {

namespace {

class sqlite_server final : public server_by<sqlite::connection, sqlite::connector> {
public:
    using server_by::server_by;

    dialect speaks() const noexcept override { return dialect::sqlite; }

    /// Whoever will write says so at once: a transaction that has begun to read can only fail if
    /// somebody else has written meanwhile, however long it waits.
    std::vector<std::string> begin(const transaction_options& how) const override {
        if (how.read_only) return {"PRAGMA query_only = 1", "BEGIN"};
        return {"BEGIN IMMEDIATE"};
    }
    std::vector<std::string> afterwards(const transaction_options& how) const override {
        if (how.read_only) return {"PRAGMA query_only = 0"};
        return {};
    }
};

}  // namespace

std::shared_ptr<server> make_sqlite(std::string_view url) {
    return std::make_shared<sqlite_server>(url);
}

}  // namespace cenote::database_detail
