// Tables that are migrated while statements run: every value that was written is read back.
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/database.hpp"
#include "connector/awaiting.hpp"
#include "support/patient.hpp"

namespace cenote::migration {

/// What differs between servers.
struct server {
    std::string url;
    /// Statements that insert a row into `moving`, all with the same effect.
    std::vector<std::string> inserts;
    /// Types of the columns at, n, x.
    std::string narrow;
    std::string wide;
    /// Statements that change the types in place, without loss.
    std::string to_text;
    std::string to_types;
    /// Renames `moving` to the first name and the second one to `moving`, atomically.
    std::vector<std::string> (*swap)(const std::string& old, const std::string& next);
    /// The columns as text.
    std::string texts;
    /// How much is done, enough for a few seconds.
    int statements = 5000;
    int migrations = 50;
};

/// How many statements are run: the environment variable CENOTE_MIGRATION_STATEMENTS.
inline int statements_wanted(int otherwise) {
    const char* text = std::getenv("CENOTE_MIGRATION_STATEMENTS");
    return text == nullptr ? otherwise : std::max(100, std::atoi(text));
}

/// The values that belong to a number.
struct expected {
    explicit expected(std::int64_t id)
        : at("2024-05-06 07:" + std::to_string(10 + id % 50) + ":" + std::to_string(10 + id % 47)),
          n(id % 2 == 0 ? id : 5'000'000'000 + id),
          x(static_cast<double>(id) + 0.1) {}

    bool is_wide(const sql::row& r) const {
        return r.get<std::string>("at").starts_with(at) &&
               std::stoll(r.get<std::string>("n")) == n && std::stod(r.get<std::string>("x")) == x;
    }
    bool is_narrow(const sql::row& r) const {
        return r.get<std::string>("at") == at.substr(0, 10) &&
               std::stoll(r.get<std::string>("n")) == n &&
               std::abs(std::stod(r.get<std::string>("x")) / x - 1) < 1e-4;
    }

    std::string at;
    std::int64_t n;
    double x;
};

/// Several threads write and read, each with another form of call, while one migrates.
class traffic {
public:
    explicit traffic(const server& on) : on_(on) {
        migrator_.execute("DROP TABLE IF EXISTS moving");
    }
    ~traffic() { migrator_.execute("DROP TABLE IF EXISTS moving"); }
    traffic(const traffic&) = delete;
    traffic& operator=(const traffic&) = delete;

    void create(const std::string& name, const std::string& columns) {
        migrator_.execute("DROP TABLE IF EXISTS " + name);
        migrator_.execute("CREATE TABLE " + name + " (id BIGINT PRIMARY KEY, " + columns + ")");
    }

    /// `migrate`: from one schema to the next. `always_there`: a written row can be read at once.
    template <class Migrate>
    void run(Migrate migrate, bool always_there) {
        {
            std::vector<std::jthread> threads;
            for (int way = 0; way < ways; ++way)
                threads.emplace_back([this, way, always_there] { work(way, always_there); });
            int every = std::max(1, wanted_ / on_.migrations);
            for (int next = every; next < wanted_; next += every) {
                int now = done_.load();
                for (; now < next; now = done_.load()) done_.wait(now);
                migrate(migrator_);
                ++migrations_;
            }
            // The first schema may refuse values that threads still write: end with the other one.
            for (; migrations_ % 2 == 0; ++migrations_) migrate(migrator_);
        }
        EXPECT_EQ(wrong_, 0);
        EXPECT_EQ(problem_, "");
    }

    /// Expects the rows that were written to a table while it had these types.
    void check(const std::string& table, bool narrow) {
        sql::result rows = migrator_.query("SELECT id, " + on_.texts + " FROM " + table);
        for (const sql::row& r : rows) {
            auto id = r.get<std::int64_t>("id");
            expected e(id);
            bool right = narrow ? e.is_narrow(r) : e.is_wide(r);
            if (!right && ++wrong_ <= 5)
                ADD_FAILURE() << table << ": " << id << " " << r.get<std::string>("at") << " "
                              << r.get<std::string>("n") << " " << r.get<std::string>("x");
            ++found_[id];
        }
    }

    /// Requires that all tables were checked.
    void expect_all_once() {
        std::int64_t lost = 0;
        for (std::int64_t id = 0; id < last_id_; ++id) lost += found_[id] == 1 ? 0 : 1;
        EXPECT_EQ(lost, 0);
        EXPECT_EQ(found_.size(), static_cast<std::size_t>(last_id_));
        EXPECT_EQ(wrong_, 0);
        std::cout << "  " << done_ << " statements, " << last_id_ << " rows, " << migrations_
                  << " migrations; refused as too large " << refused_
                  << ", of these in transactions " << refused_transactions_ << "; wrong " << wrong_
                  << ", lost " << lost << "\n";
    }
    int refused_alone() const { return refused_ - refused_transactions_; }
    database& migrator() { return migrator_; }

private:
    static constexpr int ways = 4;
    static constexpr const char* too_large = "22003";

    void work(int way, bool always_there) {
        try {
            boost::asio::io_context loop;
            while (done_ < wanted_) {
                std::int64_t id = last_id_++;
                while (!write(way, id, loop)) count();
                count();
                read(way, id, loop, always_there);
                count();
            }
        } catch (const std::exception& e) {
            std::scoped_lock lock(mutex_);
            problem_ = e.what();
            done_ = wanted_;  // for waiting threads
            done_.notify_all();
        }
    }
    void count() {
        ++done_;
        done_.notify_all();
    }

    /// False: a number was too large for the present table, and nothing was written.
    bool write(int way, std::int64_t id, boost::asio::io_context& loop) {
        const std::string& text = on_.inserts[static_cast<std::size_t>(id) % on_.inserts.size()];
        expected e(id);
        try {
            if (way == 1) {
                transaction t = shop_.begin();
                t.execute(text, id, e.at, e.n, e.x);
                t.commit();
            } else if (way % 2 == 0) {
                shop_.execute(text, id, e.at, e.n, e.x);
            } else {
                support::await_on(loop, shop_.async_execute(text, id, e.at, e.n, e.x));
            }
            return true;
        } catch (const statement_error& refusal) {
            if (refusal.sqlstate() != too_large) throw;
            ++refused_;
            if (way == 1) ++refused_transactions_;
            return false;
        }
    }

    void read(int way, std::int64_t id, boost::asio::io_context& loop, bool always_there) {
        const std::string by_key = "SELECT id, " + on_.texts + " FROM moving WHERE id = ?";
        sql::result rows = way % 2 == 0 ? shop_.query(by_key, id)
                                        : support::await_on(loop, shop_.async_query(by_key, id));
        bool right = rows.empty() ? !always_there
                                  : expected(id).is_wide(rows[0]) ||
                                        (!always_there && expected(id).is_narrow(rows[0]));
        // All columns have other types after a migration.
        const std::string all = "SELECT * FROM moving WHERE id = ?";
        bool there = !shop_.query(all, id).empty();
        if (!right || (always_there && !there)) ++wrong_;
        count();
        touch(id, always_there);
    }

    /// All values are integers here, so the kept statement has inferred types.
    void touch(std::int64_t id, bool always_there) {
        try {
            shop_.execute("UPDATE moving SET n = ? WHERE id = ?", expected(id).n, id);
        } catch (const statement_error& e) {
            // The narrow table refuses the number, although it has no such row.
            if (always_there || e.sqlstate() != too_large) throw;
        }
        count();
    }

    const server& on_;
    int wanted_ = statements_wanted(on_.statements);
    database shop_{on_.url, {.pool = support::patient(ways)}};
    database migrator_{on_.url, {.pool = support::patient(1), .statement_cache = 0}};
    std::atomic<int> done_ = 0;
    std::atomic<std::int64_t> last_id_ = 0;
    std::atomic<int> refused_ = 0;
    std::atomic<int> refused_transactions_ = 0;
    std::atomic<int> wrong_ = 0;
    int migrations_ = 0;
    std::mutex mutex_;
    std::string problem_;
    std::map<std::int64_t, int> found_;
};

/// Columns change their types in place and back again, without loss.
inline int migrate_in_place(const server& on) {
    traffic t(on);
    t.create("moving", on.wide);
    bool typed = true;
    t.run(
        [&](database& by) {
            by.execute(typed ? on.to_text : on.to_types);
            typed = !typed;
        },
        true);
    t.check("moving", false);
    t.expect_all_once();
    return t.refused_alone();
}

/// Another table takes the name. Its types keep less or more of each value.
inline void migrate_by_renaming(const server& on) {
    traffic t(on);
    t.create("moving", on.narrow);
    int parts = 0;
    auto old_name = [](int part) { return "moving_" + std::to_string(part); };
    auto is_narrow = [](int part) { return part % 2 == 0; };
    t.run(
        [&](database& by) {
            t.create("moving_next", is_narrow(parts + 1) ? on.narrow : on.wide);
            by.execute("DROP TABLE IF EXISTS " + old_name(parts));
            auto s = by.scope();
            for (const std::string& one : on.swap(old_name(parts), "moving_next")) s.execute(one);
            ++parts;
        },
        false);
    for (int part = 0; part < parts; ++part) {
        t.check(old_name(part), is_narrow(part));
        t.migrator().execute("DROP TABLE " + old_name(part));
    }
    t.check("moving", is_narrow(parts));
    t.expect_all_once();
}

}  // namespace cenote::migration
