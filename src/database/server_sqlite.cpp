// SQLite, for a database.
#include <algorithm>

#include "cenote/sqlite.hpp"
#include "database/server.hpp"

namespace cenote::database_detail {

namespace {

class sqlite_server final : public server_by<sqlite::connection, sqlite::connector> {
public:
    explicit sqlite_server(const sqlite::options& where)
        : server_by(where), in_memory_(where.mode == sqlite::open_mode::memory) {}

    dialect speaks() const noexcept override { return dialect::sqlite; }
    bool resets_in_full() const noexcept override { return true; }

    /// What is in memory goes with the last connection to it.
    options suited(options chosen) const override {
        if (in_memory_) chosen.min_size = std::max<std::size_t>(chosen.min_size, 1);
        return chosen;
    }

    void only_read(link& l) override { of(l).only_read(); }
    asio::awaitable<void> async_only_read(link& l) override {
        of(l).only_read();
        return nothing();
    }
    void note_only_reads(link& l, bool on) noexcept override { of(l).only_read(on); }

    /// Whoever will write says so at once: a transaction that has begun to read can only fail if
    /// somebody else has written meanwhile, however long it waits.
    std::vector<std::string> begin(const transaction_options& how) const override {
        return {how.read_only ? "BEGIN" : "BEGIN IMMEDIATE"};
    }

private:
    static asio::awaitable<void> nothing() { co_return; }

    bool in_memory_;
};

}  // namespace

std::shared_ptr<server> make_sqlite(sqlite::options where, const database_options& how) {
    if (where.statement_cache == 0) where.statement_cache = how.statement_cache;
    return std::make_shared<sqlite_server>(where);
}

}  // namespace cenote::database_detail
