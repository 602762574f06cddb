// 15: units of work: SOCI sessions, and what was read through them, cleared between users.
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

/// What the session of an ORM is: a connection, and the objects that were read through it.
class unit {
public:
    // A session of SOCI's cannot be moved, so this has a pointer.
    explicit unit(const std::string& file)
        : sql_(std::make_unique<soci::session>(soci::sqlite3, file)) {}

    soci::session& sql() { return *sql_; }
    std::size_t known() const { return balances_.size(); }

    /// Is read once, and kept for whoever asks again.
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

    // The pool finds these three by their names.

    /// SQLite refuses to roll back where nothing was begun, and ends some transactions by itself.
    /// So one is begun; that is refused only where one is open.
    void rollback() {
        try {
            sql_->begin();
        } catch (const soci::soci_error&) {
            // one is open, or there is no connection: then the rollback throws
        }
        sql_->rollback();
    }
    void clear() { balances_.clear(); }
    /// Quick with SQLite, where only a closed session is not connected. With a server this asks it,
    /// and belongs into a probe.
    bool broken() const { return !sql_->is_connected(); }

private:
    std::unique_ptr<soci::session> sql_;
    std::map<int, int> balances_;
};

/// Writes down why units end.
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

/// A file that goes with it.
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

/// The pool lends its one unit again and again; the comments count.
void use(cenote::pool<unit>& units) {
    {
        auto ann = units.acquire();  // 1
        ann->sql().begin();
        ann->balance(7) = 0;
        ann->write();
    }  // leaves without a commit

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
        units.with([](unit& cid) {  // 3: then the unit is made anew; not because of what is thrown
            cid.sql() << "INSERT INTO account VALUES (7, 1)";
        });
        check(false, "an account cannot be there twice");
    } catch (const soci::soci_error& e) {
        std::printf("%s\n", e.get_error_message().c_str());
    }

    {
        auto dan = units.acquire();  // 1, of the second unit
        check(dan->balance(7) == 90, "bob's transaction was committed");
        dan->sql().close();  // as good as lost
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
    }  // everything has been told

    check(watch->reasons == std::vector<std::string>{"uses", "rejected"}, "for these reasons");
    return wrong == 0 ? 0 : 1;
}
