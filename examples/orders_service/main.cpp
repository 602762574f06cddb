// The orders service as a program: an HTTP API on a database, until SIGTERM or Ctrl-C.
//
//     orders_service --port 8080 --database postgresql://app:secret@db/orders
//     curl localhost:8080/orders
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "examples/orders_service/running.hpp"
#include <cenote/dashboard.hpp>

namespace {

/// A folder for a temporary database.
class temporary_folder {
public:
    temporary_folder() {
        std::string name = (std::filesystem::temp_directory_path() / "orders-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr)
            throw std::runtime_error("cannot create a temporary folder");
        path_ = name;
    }
    temporary_folder(const temporary_folder&) = delete;
    temporary_folder& operator=(const temporary_folder&) = delete;
    ~temporary_folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    std::string url() const { return "sqlite:" + path_ + "/orders.db?synchronous=normal"; }

private:
    std::string path_;
};

struct arguments {
    orders_service::settings how;
    std::optional<std::uint16_t> dashboard;  // its port; unset: no dashboard
    std::chrono::nanoseconds drain = std::chrono::seconds(10);
    std::chrono::nanoseconds notice{0};
};

int serve(arguments a) {
    // Before any other thread, so that no thread handles the signals in the default way.
    boost::asio::io_context io;
    boost::asio::signal_set signals(io, SIGTERM, SIGINT);
    std::optional<cenote::dashboard> board;
    if (a.dashboard) {
        cenote::dashboard_options where{.port = *a.dashboard};
        if (const char* token = std::getenv("ORDERS_CONTROL_TOKEN"))
            where.control_token = cenote::secret(token);
        board.emplace(where);
        a.how.observers.push_back(board->observer());
    }
    orders_service::running service(a.how);
    std::vector<cenote::dashboard::entry> shown;  // destroyed before the service
    if (board) {
        for (const cenote::pool_control& pool : service.database().controls())
            shown.push_back(board->watch(pool));
        std::printf("orders: dashboard on %s\n", board->url().c_str());
    }
    std::printf("orders: listening on http://%s:%d\n", a.how.listen.c_str(), service.port());
    std::fflush(stdout);

    signals.async_wait([](const auto&, int) {});
    io.run();
    signals.clear();  // a second signal ends the program immediately

    auto since = std::chrono::steady_clock::now();
    service.announce_end();
    std::this_thread::sleep_for(a.notice);
    std::size_t lost = service.stop(a.drain);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - since;
    std::printf("orders: drained in %.3f s, %zu requests lost, %llu answered\n", took.count(), lost,
                static_cast<unsigned long long>(service.stats().answered));
    return lost == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    arguments a;
    double drain = 10;
    double notice = 0;
    double wait = 1;
    CLI::App app("An HTTP API for orders, on any database.");
    app.option_defaults()->always_capture_default();
    app.add_option("--listen", a.how.listen, "address to listen on");
    app.add_option("--port", a.how.port, "port to listen on; 0: any free port, which is printed");
    app.add_option("--database", a.how.database,
                   "sqlite:FILE, postgresql://… or mariadb://…; default: a temporary file");
    app.add_option("--max", a.how.max, "max connections to the database")
        ->check(CLI::Range(1, 1000));
    app.add_option("--threads", a.how.threads, "number of threads")->check(CLI::Range(1, 64));
    app.add_option("--connections", a.how.limits.connections, "max connections of clients")
        ->check(CLI::Range(1, 100'000));
    app.add_option("--wait", wait, "seconds that a request waits for a connection")
        ->check(CLI::Range(0.001, 3600.0));
    app.add_option("--dashboard", a.dashboard,
                   "port of the dashboard, on this machine only; 0: any free port, which is "
                   "printed. The environment variable ORDERS_CONTROL_TOKEN enables its controls");
    app.add_option("--drain", drain, "seconds to finish running requests at shutdown")
        ->check(CLI::Range(0.0, 3600.0));
    app.add_option("--notice", notice, "seconds between failing /ready and closing the port")
        ->check(CLI::Range(0.0, 3600.0));
    CLI11_PARSE(app, argc, argv);
    a.drain = std::chrono::nanoseconds(static_cast<std::int64_t>(drain * 1e9));
    a.how.wait = std::chrono::milliseconds(static_cast<std::int64_t>(wait * 1e3));
    a.notice = std::chrono::nanoseconds(static_cast<std::int64_t>(notice * 1e9));

    try {
        if (!a.how.database.empty()) return serve(a);
        temporary_folder folder;
        a.how.database = folder.url();
        return serve(a);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "orders: %s\n", e.what());
        return 2;
    }
}
