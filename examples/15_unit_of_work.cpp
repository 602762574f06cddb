// 15: units of work: SOCI sessions with an identity map, cleared between users.
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <soci/soci.h>
#include <soci/sqlite3/soci-sqlite3.h>
#include <string>
#include <system_error>
#include <vector>

#include <cenote/pool.hpp>
#include <cenote/unit_of_work.hpp>

namespace {

/// Like the session of an ORM: a connection, and the objects that were read through it.
class unit {
public:
    explicit unit(const std::string& file)
        : sql_(std::make_unique<soci::session>(soci::sqlite3, file)) {}

    soci::session& sql() { return *sql_; }
    std::size_t known() const { return balances_.size(); }

    /// Reads each account once.
    int& balance(int id) {
        auto [account, is_new] = balances_.try_emplace(id);
        if (is_new)
            *sql_ << "SELECT balance FROM account WHERE id = :id", soci::use(id),
                soci::into(account->second);
        return account->second;
    }
    void write() {
        for (const auto& [id, balance] : balances_)
            *sql_ << "UPDATE account SET balance = :b WHERE id = :id", soci::use(balance),
                soci::use(id);
    }

    // The pool calls these three by name.

    /// SQLite rejects a rollback without a transaction, and ends some transactions by itself. So
    /// this begins one, which fails only if one is open.
    void rollback() {
        try {
            sql_->begin();
        } catch (const soci::soci_error&) {
            // a transaction is open, or there is no connection, and the rollback throws
        }
        sql_->rollback();
    }
    void clear() { balances_.clear(); }
    /// Fast with SQLite. With a server this sends a request, and belongs into a probe.
    bool broken() const { return !sql_->is_connected(); }

private:
    std::unique_ptr<soci::session> sql_;  // a pointer, because it cannot be moved
    std::map<int, int> balances_;
};

/// Records why units are retired.
struct watcher : cenote::observer {
    bool wants(cenote::event_kind kind) const override {
        return kind == cenote::event_kind::retired;
    }
    void on_event(const cenote::event& what) override {
        reasons.emplace_back(to_string(what.why));
        std::printf("a unit is retired: %s\n", to_string(what.why));
    }
    std::vector<std::string> reasons;
};

/// A file that the destructor removes.
struct temporary_file {
    std::string path = (std::filesystem::temp_directory_path() /
                        ("cenote-15-" + std::to_string(std::random_device{}()) + ".db"))
                           .string();

    temporary_file() = default;
    temporary_file(const temporary_file&) = delete;
    temporary_file& operator=(const temporary_file&) = delete;
    ~temporary_file() {
        std::error_code ignored;
        std::filesystem::remove(path, ignored);
    }
};

int wrong = 0;

void check(bool holds, const char* what) {
    std::printf("%s: %s\n", holds ? "yes" : "NO", what);
    if (!holds) ++wrong;
}

/// The pool has one unit; the comments count its uses.
void use(cenote::pool<unit>& units) {
    {
        auto ann = units.acquire();  // 1
        ann->sql().begin();
        ann->balance(7) = 0;
        ann->write();
    }  // without a commit

    {
        auto bob = units.acquire();  // 2
        check(bob->known() == 0, "bob knows nothing of ann's accounts");
        check(bob->balance(7) == 100, "ann's transaction was rolled back");
        bob->sql().begin();
        bob->balance(7) = 90;
        bob->write();
        bob->sql().commit();
    }

    try {
        units.with([](unit& cid) {  // 3: the unit reaches max_uses and is retired
            cid.sql() << "INSERT INTO account VALUES (7, 1)";
        });
        check(false, "an account id is unique");
    } catch (const soci::soci_error& e) {
        std::printf("%s\n", e.get_error_message().c_str());
    }

    {
        auto dan = units.acquire();  // 1, of the second unit
        check(dan->balance(7) == 90, "bob's transaction was committed");
        dan->sql().close();  // like a lost connection
    }

    auto eve = units.acquire();  // 1, of the third
    check(eve->sql().is_connected() && eve->balance(7) == 90, "eve has a session that works");
}

}  // namespace

int main() {
    temporary_file file;
    soci::session admin(soci::sqlite3, file.path);
    admin << "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)";
    admin << "INSERT INTO account VALUES (7, 100)";

    auto watch = std::make_shared<watcher>();
    {
        auto make = [&] { return unit(file.path); };
        cenote::pool<unit> units{cenote::unit_of_work<unit>{make},
                                 {.max = 1, .max_uses = 3, .observers = {watch}}};
        use(units);
    }  // all events were delivered

    check(watch->reasons == std::vector<std::string>{"uses", "rejected"}, "for these reasons");
    return wrong == 0 ? 0 : 1;
}
