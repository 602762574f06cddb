// 12: a pool of SOCI sessions, for any database that SOCI supports.
#include <cstdio>
#include <exception>
#include <memory>
#include <soci/soci.h>
#include <soci/sqlite3/soci-sqlite3.h>
#include <string>

#include <cenote/pool.hpp>

namespace {

/// A pointer, because a SOCI session cannot be moved.
using session = std::unique_ptr<soci::session>;

struct soci_connector {
    std::string where;

    session open() { return std::make_unique<soci::session>(soci::sqlite3, where); }
    bool probe(session& s) { return s->is_connected(); }
    void reset(session& s) { s->rollback(); }
    void close(session& s) { s->close(); }
    cenote::verdict classify(const std::exception_ptr& error) const {
        try {
            std::rethrow_exception(error);
        } catch (const soci::soci_error& e) {
            bool lost = e.get_error_category() == soci::soci_error::connection_error;
            return lost ? cenote::verdict::discard : cenote::verdict::keep;
        } catch (...) {
            return cenote::verdict::keep;
        }
    }
};

}  // namespace

int main() {
    cenote::pool<session> pool{soci_connector{":memory:"}, {.max = 1}};
    int sum = pool.with([](session& s) {
        int both = 0, a = 20, b = 22;
        *s << "SELECT :a + :b", soci::into(both), soci::use(a), soci::use(b);
        return both;
    });
    std::printf("20 and 22 are %d\n", sum);
    return sum == 42 ? 0 : 1;
}
