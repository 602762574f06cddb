// 11: a pool of libpqxx connections, with a connector of twenty lines.
#include <cstdio>
#include <exception>
#include <memory>
#include <pqxx/pqxx>
#include <string>

#include <cenote/pool.hpp>

namespace {

/// A pointer, because a connection of libpqxx 6 cannot be moved.
using connection = std::unique_ptr<pqxx::connection>;

struct pqxx_connector {
    std::string where;

    connection open() { return std::make_unique<pqxx::connection>(where); }
    void probe(connection& c) { pqxx::nontransaction(*c).exec1("SELECT 1"); }
    void reset(connection& c) { pqxx::nontransaction(*c).exec0("DISCARD ALL"); }
    bool before_acquire(connection& c) { return c->is_open(); }
    cenote::verdict classify(const std::exception_ptr& error) const {
        try {
            std::rethrow_exception(error);
        } catch (const pqxx::broken_connection&) {
            return cenote::verdict::discard;
        } catch (...) {
            return cenote::verdict::reset;  // the state of the session is unknown
        }
    }
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return std::puts("usage: 11_pqxx postgresql://user:password@host/database"), 0;
    cenote::pool<connection> pool{pqxx_connector{argv[1]}, {.max = 8}};
    auto version = pool.with([](connection& c) {
        return pqxx::work(*c).exec1("SELECT version()")[0].as<std::string>();
    });
    std::printf("%s\n", version.c_str());
}
