// A server of whatever kind, as a database sees it: opens links, tends them, and has its words.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cenote/connector.hpp"
#include "cenote/database.hpp"
#include "cenote/sql_connection.hpp"
#include "database/placeholders.hpp"

namespace cenote::database_detail {

/// One connection to it, pooled.
class link {
public:
    link() = default;
    link(const link&) = delete;
    link& operator=(const link&) = delete;
    virtual ~link() = default;

    virtual sql::connection& connection() noexcept = 0;
};

class server {
public:
    server() = default;
    server(const server&) = delete;
    server& operator=(const server&) = delete;
    virtual ~server() = default;

    // The verbs of a connector.
    virtual std::unique_ptr<link> open() = 0;
    virtual bool probe(link& l) = 0;
    virtual void reset(link& l) = 0;
    virtual void close(link& l) = 0;
    virtual bool before_acquire(link& l) noexcept = 0;
    virtual verdict before_release(link& l) noexcept = 0;
    virtual void forsake(link& l) noexcept = 0;

    virtual dialect speaks() const noexcept = 0;
    /// Whether its connector resets whatever a session may carry, without being told to.
    virtual bool resets_in_full() const noexcept = 0;
    /// The options of a pool of its links.
    virtual options suited(options chosen) const { return chosen; }
    /// Nothing can be written in this session, until it is reset.
    virtual void only_read(link& l) = 0;
    virtual asio::awaitable<void> async_only_read(link& l) = 0;
    /// Where that need not be said to anybody: nothing can be written from now on, or again.
    virtual void note_only_reads(link& l, bool on) noexcept;
    /// What is said to begin a transaction, one after the other.
    virtual std::vector<std::string> begin(const transaction_options& how) const = 0;
    /// What is said if it came to a part of that only, and to no transaction.
    virtual std::vector<std::string> instead_of_begin(const transaction_options& how) const;
    /// What is said after a statement has failed, to learn whether that was the end of the
    /// transaction; nothing where one knows.
    virtual std::vector<std::string> to_be_sure() const;
};

/// What a server is to its database: all there is, or one of several.
enum class part : std::uint8_t {
    alone,
    primary,  ///< It must take writes.
    replica,  ///< It is read from, and need not.
};

/// By the scheme of the URL. Throws invalid_url.
std::shared_ptr<server> server_of(std::string_view url, const database_options& how,
                                  part which = part::alone);

std::shared_ptr<server> make_sqlite(sqlite::options where, const database_options& how);
std::shared_ptr<server> make_postgres(postgres::options where, const database_options& how,
                                      part which = part::alone);
std::shared_ptr<server> make_mariadb(mariadb::options where, const database_options& how,
                                     part which = part::alone);

/// "ISOLATION LEVEL …", empty for the server's own.
std::string words_for(isolation level);

/// What all of them have in common.
template <class Connection, class Connector>
class server_by : public server {
public:
    template <class Options>
    explicit server_by(const Options& where) : connector_(where) {}

    std::unique_ptr<link> open() override { return std::make_unique<one>(connector_.open()); }
    bool probe(link& l) override { return connector_.probe(of(l)); }
    void reset(link& l) override { connector_.reset(of(l)); }
    void close(link& l) override { connector_.close(of(l)); }
    bool before_acquire(link& l) noexcept override {
        if constexpr (requires { connector_.before_acquire(of(l)); })
            return connector_.before_acquire(of(l));
        else return true;
    }
    verdict before_release(link& l) noexcept override { return connector_.before_release(of(l)); }
    void forsake(link& l) noexcept override { connector_.forsake(of(l)); }

protected:
    class one final : public link {
    public:
        explicit one(Connection c) : it(std::move(c)) {}
        sql::connection& connection() noexcept override { return it; }
        Connection it;
    };
    static Connection& of(link& l) noexcept { return static_cast<one&>(l).it; }

private:
    Connector connector_;
};

}  // namespace cenote::database_detail
