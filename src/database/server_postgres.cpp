// PostgreSQL, for a database.
#include "cenote/postgres.hpp"
#include "database/server.hpp"

namespace cenote::database_detail {

namespace {

class postgres_server final : public server_by<postgres::connection, postgres::connector> {
public:
    using server_by::server_by;

    dialect speaks() const noexcept override { return dialect::postgres; }

    std::vector<std::string> begin(const transaction_options& how) const override {
        std::string said = "BEGIN";
        if (std::string level = words_for(how.isolation); !level.empty()) said += " " + level;
        if (how.read_only) said += " READ ONLY";
        return {said};
    }
};

}  // namespace

std::shared_ptr<server> make_postgres(const postgres::options& where) {
    return std::make_shared<postgres_server>(where);
}

}  // namespace cenote::database_detail
