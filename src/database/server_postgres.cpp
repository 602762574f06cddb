// PostgreSQL, for a database.
#include "cenote/postgres.hpp"
#include "database/server.hpp"

namespace cenote::database_detail {

namespace {

class postgres_server final : public server_by<postgres::connection, postgres::connector> {
public:
    explicit postgres_server(const postgres::options& where)
        : server_by(where), trusts_(where.reset == postgres::reset_mode::by_tag) {}

    bool resets_in_full() const noexcept override { return !trusts_; }
    dialect speaks() const noexcept override { return dialect::postgres; }

    void only_read(link& l) override { of(l).only_read(); }
    asio::awaitable<void> async_only_read(link& l) override { return of(l).async_only_read(); }

    std::vector<std::string> begin(const transaction_options& how) const override {
        std::string said = "BEGIN";
        if (std::string level = words_for(how.isolation); !level.empty()) said += " " + level;
        if (how.read_only) said += " READ ONLY";
        return {said};
    }

private:
    bool trusts_;
};

}  // namespace

std::shared_ptr<server> make_postgres(postgres::options where, const database_options& how,
                                      part which) {
    if (where.statement_cache == 0) where.statement_cache = how.statement_cache;
    if (how.trust_statements && where.reset == postgres::reset_mode::with_next)
        where.reset = postgres::reset_mode::by_tag;
    if (where.role_of_server == postgres::server_role::any) {
        if (which == part::primary) where.role_of_server = postgres::server_role::read_write;
        if (which == part::replica) where.role_of_server = postgres::server_role::prefer_standby;
    }
    return std::make_shared<postgres_server>(where);
}

}  // namespace cenote::database_detail
