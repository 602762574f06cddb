// cenote doctor for SQLite files.
#include <filesystem>
#include <sys/statfs.h>
#include <unistd.h>

#include "command.hpp"
#include "doctor_servers.hpp"
#include <cenote/sqlite.hpp>

namespace doctor {

namespace sqlite = cenote::sqlite;
namespace fs = std::filesystem;

namespace {

/// Checking larger files would take too long.
constexpr std::uintmax_t check_max_bytes = 64 << 20;

void trip(sqlite::connection& c) { c.execute("SELECT 1 FROM sqlite_schema LIMIT 1"); }

std::string network_of(const fs::path& file) {
    struct statfs s{};
    if (::statfs(file.c_str(), &s) != 0) return "";
    switch (static_cast<unsigned long>(s.f_type)) {
        case 0x6969: return "a network file system (NFS)";
        case 0xFF534D42:
        case 0xFE534D42:
        case 0x517B: return "a network file system (SMB)";
        case 0x01021997: return "a file system of another machine (9p)";
        case 0x5346414F: return "a network file system (AFS)";
        case 0x00C36400: return "a network file system (Ceph)";
        default: return "";
    }
}

void inspect_file(const fs::path& file, sqlite_facts& into) {
    into.file_system = network_of(file);
    fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
    into.writable = ::access(file.c_str(), W_OK) == 0 && ::access(folder.c_str(), W_OK) == 0;
    std::error_code ignored;
    fs::space_info space = fs::space(folder, ignored);
    if (!ignored) into.free_bytes = space.available;
}

void read_settings(sqlite::connection& c, const sqlite::options& o, facts& into) {
    into.version = "SQLite " + c.execute("SELECT sqlite_version()").scalar<std::string>();
    sqlite_facts file;
    file.journal_mode = c.execute("PRAGMA journal_mode").scalar<std::string>();
    if (o.mode != sqlite::open_mode::memory) {
        inspect_file(o.path, file);
        std::error_code ignored;
        if (fs::file_size(o.path, ignored) <= check_max_bytes) {
            auto result = c.execute("PRAGMA quick_check(1)")[0].get<std::string>(0);
            if (result != "ok") file.damage = result;
        }
    }
    into.file = file;
}

}  // namespace

void examine_sqlite(const examination& how, facts& into) {
    sqlite::options o = sqlite::options::from_url(how.url);
    into.host = o.path;
    into.local = true;
    into.may_be_read_only = o.mode == sqlite::open_mode::read_only;
    o.operation_timeout = std::chrono::ceil<std::chrono::milliseconds>(how.timeout);
    // The doctor must not change anything: no new file, no other journal mode.
    if (o.mode == sqlite::open_mode::create) o.mode = sqlite::open_mode::read_write;
    if (o.mode == sqlite::open_mode::read_write && ::access(o.path.c_str(), W_OK) != 0)
        o.mode = sqlite::open_mode::read_only;
    o.journal_mode.clear();
    if (o.mode != sqlite::open_mode::memory && ::access(o.path.c_str(), F_OK) != 0) {
        into.error = connect_error::no_database;
        into.error_text = "There is no file " + o.path + ".";
        return;
    }
    sqlite::connector connector(o);
    try {
        sqlite::connection c = connector.open();
        trip(c);
        attempt<cenote::server_error>("the contents of the file", into,
                                      [&] { read_settings(c, o, into); });
        connector.close(c);
    } catch (const cenote::server_error& e) {
        into.error = connect_error::other;
        into.error_text = command::without_prefix(e.what());
        return;
    }
    measure(how, connector, trip, true, into);
    check_idleness(how, connector, trip, into);
}

}  // namespace doctor
