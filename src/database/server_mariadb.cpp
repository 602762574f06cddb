// MariaDB and MySQL, for a database.
#include "cenote/mariadb.hpp"
#include "database/server.hpp"

namespace cenote::database_detail {

namespace {

class mariadb_server final : public server_by<mariadb::connection, mariadb::connector> {
public:
    explicit mariadb_server(const mariadb::options& where)
        : server_by(where), trusts_(where.reset == mariadb::reset_mode::by_tracking) {}

    bool resets_in_full() const noexcept override { return !trusts_; }
    dialect speaks() const noexcept override { return dialect::mariadb; }

    void only_read(link& l) override { of(l).execute(read_only); }
    asio::awaitable<void> async_only_read(link& l) override { return async_say(&of(l)); }

    /// The level is for the next transaction only.
    std::vector<std::string> begin(const transaction_options& how) const override {
        std::vector<std::string> said;
        if (std::string level = words_for(how.isolation); !level.empty())
            said.push_back("SET TRANSACTION " + level);
        said.emplace_back(how.read_only ? "START TRANSACTION READ ONLY" : "START TRANSACTION");
        return said;
    }

    /// The level still waits for its transaction.
    std::vector<std::string> instead_of_begin(const transaction_options& how) const override {
        if (how.isolation == isolation::server_default) return {};
        return {"START TRANSACTION", "ROLLBACK"};
    }

    /// The server says with each reply whether there is a transaction, but not with an error: and a
    /// deadlock ends one.
    std::vector<std::string> to_be_sure() const override { return {"DO 0"}; }

private:
    static constexpr const char* read_only = "SET SESSION TRANSACTION READ ONLY";

    static asio::awaitable<void> async_say(sql::connection* to) {
        co_await to->async_execute(read_only);
    }

    bool trusts_;
};

}  // namespace

std::shared_ptr<server> make_mariadb(mariadb::options where, const database_options& how,
                                     part which) {
    if (where.statement_cache == 0) where.statement_cache = how.statement_cache;
    if (how.trust_statements && where.reset == mariadb::reset_mode::with_next)
        where.reset = mariadb::reset_mode::by_tracking;
    if (where.role_of_server == mariadb::server_role::any) {
        if (which == part::primary) where.role_of_server = mariadb::server_role::read_write;
        if (which == part::replica) where.role_of_server = mariadb::server_role::read_only;
    }
    return std::make_shared<mariadb_server>(where);
}

}  // namespace cenote::database_detail
