// The orders service as a program: an HTTP API on a database, until SIGTERM or SIGINT.
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

/// A folder for a database that nobody asked to keep.
class temporary_folder {
public:
    temporary_folder() {
        std::string name = (std::filesystem::temp_directory_path() / "orders-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
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

struct manner {
    orders_service::settings how;
    std::optional<std::uint16_t> dashboard;  // its port; nothing: there is none
    std::chrono::nanoseconds drain = std::chrono::seconds(10);
    std::chrono::nanoseconds notice{0};
};

int serve(manner m) {
    // Before there is any other thread: none of them shall be killed by the signal.
    boost::asio::io_context signals;
    boost::asio::signal_set wanted(signals, SIGTERM, SIGINT);
    std::optional<cenote::dashboard> board;
    if (m.dashboard) {
        cenote::dashboard_options where{.port = *m.dashboard};
        if (const char* token = std::getenv("ORDERS_CONTROL_TOKEN"))
            where.control_token = cenote::secret(token);
        board.emplace(where);
        m.how.observers.push_back(board->observer());
    }
    orders_service::running service(m.how);
    std::vector<cenote::dashboard::entry> shown;  // after the service: it goes before it
    if (board) {
        for (const cenote::pool_control& pool : service.database().controls())
            shown.push_back(board->watch(pool));
        std::printf("orders: dashboard on %s\n", board->url().c_str());
    }
    std::printf("orders: listening on http://%s:%d\n", m.how.listen.c_str(), service.port());
    std::fflush(stdout);

    wanted.async_wait([](const auto&, int) {});
    signals.run();
    wanted.clear();  // the next one ends it at once

    auto since = std::chrono::steady_clock::now();
    service.announce_end();
    std::this_thread::sleep_for(m.notice);
    std::size_t lost = service.stop(m.drain);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - since;
    std::printf("orders: drained in %.3f s, %zu requests lost, %llu answered\n", took.count(), lost,
                static_cast<unsigned long long>(service.stats().answered));
    return lost == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    manner m;
    double drain = 10;
    double notice = 0;
    double wait = 1;
    CLI::App app("An HTTP API for orders, on any database.");
    app.option_defaults()->always_capture_default();
    app.add_option("--listen", m.how.listen, "address to listen on");
    app.add_option("--port", m.how.port, "port to listen on; 0: any, which is printed");
    app.add_option("--database", m.how.database,
                   "sqlite:FILE, postgresql://… or mariadb://…; default: a temporary file");
    app.add_option("--max", m.how.max, "connections to the database at most")
        ->check(CLI::Range(1, 1000));
    app.add_option("--threads", m.how.threads, "threads that serve")->check(CLI::Range(1, 64));
    app.add_option("--connections", m.how.limits.connections, "clients at a time")
        ->check(CLI::Range(1, 100'000));
    app.add_option("--wait", wait, "seconds that a request waits for a connection at most")
        ->check(CLI::Range(0.001, 3600.0));
    app.add_option("--dashboard", m.dashboard,
                   "port of a page that shows the pool, on this machine only; 0: any, which is "
                   "printed. Control needs a token, in the environment: ORDERS_CONTROL_TOKEN");
    app.add_option("--drain", drain, "seconds to finish what has begun, when it is told to end")
        ->check(CLI::Range(0.0, 3600.0));
    app.add_option("--notice", notice, "seconds between /ready saying no and the end of listening")
        ->check(CLI::Range(0.0, 3600.0));
    CLI11_PARSE(app, argc, argv);
    m.drain = std::chrono::nanoseconds(static_cast<std::int64_t>(drain * 1e9));
    m.how.wait = std::chrono::milliseconds(static_cast<std::int64_t>(wait * 1e3));
    m.notice = std::chrono::nanoseconds(static_cast<std::int64_t>(notice * 1e9));

    try {
        if (!m.how.database.empty()) return serve(m);
        temporary_folder folder;
        m.how.database = folder.url();
        return serve(m);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "orders: %s\n", e.what());
        return 2;
    }
}
