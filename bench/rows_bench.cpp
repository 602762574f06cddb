// W7: a million rows as structs, compared with code written by hand on the driver of each server.
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <libpq-fe.h>
#include <memory>
#include <mysql.h>
#include <optional>
#include <span>
#include <sqlite3.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include "cenote/database.hpp"
#include "cenote/mariadb.hpp"
#include "cenote/postgres.hpp"
#include "cenote/sqlite.hpp"
#include "cenote/url.hpp"
#include "stopwatch.hpp"
#include "support/real_server.hpp"
#include "workloads.hpp"

namespace cenote::bench {

namespace {

constexpr std::int64_t row_count = 1'000'000;
constexpr const char* question = "SELECT id, owner, city, price, number FROM purchase";

struct purchase {
    std::int64_t id = 0;
    std::string owner;
    std::optional<std::string> city;
    double price = 0;
    int number = 0;
};

/// The first rows are inserted one by one, the rest are copies.
void fill(database& db) {
    db.execute(
        "CREATE TABLE purchase (id BIGINT, owner VARCHAR(40), city VARCHAR(40), "
        "price DOUBLE PRECISION, number INTEGER)");
    db.transaction([](transaction& t) {
        std::int64_t have = 15'625;
        for (int i = 0; i < have; ++i)
            t.execute("INSERT INTO purchase VALUES (?, ?, ?, ?, ?)", i * 1'000'003LL,
                      "owner number " + std::to_string(i),
                      i % 3 == 0 ? std::nullopt : std::optional("City " + std::to_string(i)),
                      i * 1.25 + 0.01, i);
        for (; have < row_count; have *= 2)
            t.execute("INSERT INTO purchase SELECT * FROM purchase");
    });
}

/// Reads all rows, again and again.
template <class Read>
subject reading(std::string name, Read read) {
    return {std::move(name), [=](double seconds) {
                std::uint64_t count = 0;
                stopwatch watch;
                do {
                    std::vector<purchase> all = read();
                    if (all.size() != row_count || !all.back().owner.starts_with("owner"))
                        throw std::runtime_error("wrong result");
                    ++count;
                } while (watch.seconds() < seconds);
                const double each = watch.seconds() * 1e3 / static_cast<double>(count);
                const double cores = watch.cores();
                return measured{
                    .metrics = {{"all rows", each, "ms"}, {"processor", each * cores, "ms"}},
                    .cores = cores};
            }};
}

template <class Number>
Number number_in(const char* text, int size) {
    Number n{};
    std::from_chars(text, text + size, n);
    return n;
}

/// libpq, as fast as it can be written: numbers without a locale, memory for all rows at once.
subject postgres_by_hand(const std::string& url) {
    auto own = std::shared_ptr<PGconn>(PQconnectdb(url.c_str()), &PQfinish);
    if (PQstatus(own.get()) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(own.get()));
    return reading("by hand", [own] {
        std::unique_ptr<PGresult, void (*)(PGresult*)> reply(
            PQexecParams(own.get(), question, 0, nullptr, nullptr, nullptr, nullptr, 0), &PQclear);
        const PGresult* r = reply.get();
        const int rows = PQntuples(r);
        std::vector<purchase> all;
        all.reserve(static_cast<std::size_t>(rows));
        auto text = [&](int row, int column) {
            return std::string(PQgetvalue(r, row, column),
                               static_cast<std::size_t>(PQgetlength(r, row, column)));
        };
        for (int i = 0; i < rows; ++i) {
            purchase p;
            p.id = number_in<std::int64_t>(PQgetvalue(r, i, 0), PQgetlength(r, i, 0));
            p.owner = text(i, 1);
            if (PQgetisnull(r, i, 2) == 0) p.city = text(i, 2);
            p.price = number_in<double>(PQgetvalue(r, i, 3), PQgetlength(r, i, 3));
            p.number = number_in<int>(PQgetvalue(r, i, 4), PQgetlength(r, i, 4));
            all.push_back(std::move(p));
        }
        return all;
    });
}

/// A temporary file in memory.
struct sqlite_file {
    std::filesystem::path path =
        std::filesystem::path("/dev/shm") / ("cenote-bench-rows-" + std::to_string(::getpid()));
    ~sqlite_file() {
        std::error_code ignored;
        for (const char* more : {"", "-wal", "-shm"})
            std::filesystem::remove(path.string() + more, ignored);
    }
};

subject sqlite_by_hand(const std::string& path) {
    sqlite3* raw = nullptr;
    sqlite3_open(path.c_str(), &raw);
    auto own = std::shared_ptr<sqlite3>(raw, &sqlite3_close_v2);
    return reading("by hand", [own] {
        sqlite3_stmt* s = nullptr;
        if (sqlite3_prepare_v2(own.get(), question, -1, &s, nullptr) != SQLITE_OK)
            throw std::runtime_error(sqlite3_errmsg(own.get()));
        std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> kept(s, &sqlite3_finalize);
        auto text = [&](int column) {
            const auto* from = reinterpret_cast<const char*>(sqlite3_column_text(s, column));
            return std::string(from, static_cast<std::size_t>(sqlite3_column_bytes(s, column)));
        };
        std::vector<purchase> all;
        while (sqlite3_step(s) == SQLITE_ROW) {
            purchase p;
            p.id = sqlite3_column_int64(s, 0);
            p.owner = text(1);
            if (sqlite3_column_type(s, 2) != SQLITE_NULL) p.city = text(2);
            p.price = sqlite3_column_double(s, 3);
            p.number = sqlite3_column_int(s, 4);
            all.push_back(std::move(p));
        }
        return all;
    });
}

/// A prepared statement of libmariadb with buffers for its columns.
class mariadb_reader {
public:
    explicit mariadb_reader(const url& where) : own_(mysql_init(nullptr), &mysql_close) {
        const url::host& at = where.hosts.front();
        if (mysql_real_connect(own_.get(), at.name.c_str(), where.user.c_str(),
                               std::string(where.password.reveal()).c_str(),
                               where.path.substr(1).c_str(), at.port, nullptr, 0) == nullptr)
            throw std::runtime_error(mysql_error(own_.get()));
        statement_.reset(mysql_stmt_init(own_.get()));
        std::string_view text = question;
        if (mysql_stmt_prepare(statement_.get(), text.data(), text.size()) != 0)
            throw std::runtime_error(mysql_stmt_error(statement_.get()));
    }

    std::vector<purchase> read() {
        MYSQL_STMT* s = statement_.get();
        std::array<MYSQL_BIND, 5> places{};
        std::array<my_bool, 5> null{};
        std::array<unsigned long, 5> length{};
        std::int64_t id = 0;
        std::array<char, 161> owner{};
        std::array<char, 161> city{};
        double price = 0;
        int number = 0;
        auto bind = [&](std::size_t i, enum_field_types type, void* to, std::size_t size) {
            places.at(i).buffer_type = type;
            places.at(i).buffer = to;
            places.at(i).buffer_length = size;
            places.at(i).is_null = &null.at(i);
            places.at(i).length = &length.at(i);
        };
        bind(0, MYSQL_TYPE_LONGLONG, &id, sizeof id);
        bind(1, MYSQL_TYPE_STRING, owner.data(), owner.size());
        bind(2, MYSQL_TYPE_STRING, city.data(), city.size());
        bind(3, MYSQL_TYPE_DOUBLE, &price, sizeof price);
        bind(4, MYSQL_TYPE_LONG, &number, sizeof number);
        if (mysql_stmt_execute(s) != 0 || mysql_stmt_bind_result(s, places.data()) != 0 ||
            mysql_stmt_store_result(s) != 0)
            throw std::runtime_error(mysql_stmt_error(s));
        std::vector<purchase> all;
        all.reserve(mysql_stmt_num_rows(s));
        while (mysql_stmt_fetch(s) == 0) {
            purchase p;
            p.id = id;
            p.owner.assign(owner.data(), length[1]);
            if (null[2] == 0) p.city.emplace(city.data(), length[2]);
            p.price = price;
            p.number = number;
            all.push_back(std::move(p));
        }
        mysql_stmt_free_result(s);
        return all;
    }

private:
    struct close {
        void operator()(MYSQL_STMT* s) const noexcept { mysql_stmt_close(s); }
    };
    std::unique_ptr<MYSQL, void (*)(MYSQL*)> own_;
    std::unique_ptr<MYSQL_STMT, close> statement_;
};

subject mariadb_by_hand(const std::string& where) {
    auto own = std::make_shared<mariadb_reader>(url::parse(where));
    return reading("by hand", [own] { return own->read(); });
}

/// `by_hand`: its subject. `plain_url`: for a database.
template <class ByHand>
workload as_structs(const std::string& plain_url, ByHand by_hand) {
    std::string where = plain_url + (plain_url.find('?') == plain_url.npos ? "?" : "&") +
                        "max_reply_bytes=2000000000&operation_timeout=600s";
    auto db = std::make_shared<database>(where);
    fill(*db);
    return {.about = "a million rows as structs",
            .seconds = 0.5,
            .subjects = {by_hand(),
                         reading("query_as", [db] { return db->query_as<purchase>(question); }),
                         reading("rows of a result",
                                 [db] {
                                     std::vector<purchase> all;
                                     for (const sql::row& r : db->query(question))
                                         all.push_back(
                                             {.id = r.get<std::int64_t>(0),
                                              .owner = r.get<std::string>(1),
                                              .city = r.get<std::optional<std::string>>(2),
                                              .price = r.get<double>(3),
                                              .number = r.get<int>(4)});
                                     return all;
                                 })},
            .goals = {{"query_as / by hand", goal::bound::at_most, 1.15,
                       ratio("query_as", "by hand", "all rows")}}};
}

}  // namespace

void run_rows(report& into) {
    sqlite_file file;
    into.run("rows-sqlite", [&] {
        return as_structs("sqlite:" + file.path.string(),
                          [&] { return sqlite_by_hand(file.path.string()); });
    });
    std::optional<support::postgres_server> postgres;
    into.run("rows-postgres", [&] {
        postgres.emplace();
        std::string where = support::app_url("postgresql", postgres->port());
        return as_structs(where, [&] { return postgres_by_hand(where); });
    });
    postgres.reset();
    std::optional<support::mariadb_server> mariadb;
    into.run("rows-mariadb", [&] {
        mariadb.emplace();
        std::string where = support::app_url("mariadb", mariadb->port());
        return as_structs(where, [&] { return mariadb_by_hand(where); });
    });
}

}  // namespace cenote::bench
