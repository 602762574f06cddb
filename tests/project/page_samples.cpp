// The code of the guide's pages that is not quoted from an example, so that it compiles: what needs
// no server. documents.py compares it. The functions are compiled and never called.
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <list>
#include <memory>
#include <string>
#include <unistd.h>

#include "cenote/asio.hpp"
#include "cenote/asio_connector.hpp"
#include "cenote/asio_unit_of_work.hpp"
#include "cenote/breaker.hpp"
#include "cenote/connector.hpp"
#include "cenote/event.hpp"
#include "cenote/observer.hpp"
#include "cenote/per_executor.hpp"
#include "cenote/pool.hpp"
#include "cenote/unit_of_work.hpp"

using namespace std::chrono_literals;
namespace asio = boost::asio;

namespace samples {

struct session {
    int descriptor() const { return 0; }
    bool has_been_hung_up_on() const noexcept { return false; }
    bool was_used() const { return true; }
};
session connect();
struct configuration {};

// clang-format off

void breaker() {
    cenote::pool<session> pool{connect, {.breaker = std::make_shared<cenote::threshold_breaker>(
        cenote::threshold_breaker::settings{.failures = 5, .cool_down = 1s, .probes = 1})}};
}

std::shared_ptr<cenote::connector_interface<session>> choose(const configuration&);
void connectors(const configuration& config) {
    std::shared_ptr<cenote::connector_interface<session>> connect = choose(config);
    cenote::pool<session> pool{connect};
}

namespace of_executors {
struct connection {};
struct connector {
    std::string where;
    asio::awaitable<connection> open() const;
};
asio::awaitable<void> per_executor(std::list<asio::io_context>& contexts, std::string where) {
    cenote::per_executor<connection> pools{contexts, connector{where}, {.max = 64}};
    auto held = co_await pools.async_acquire(asio::use_awaitable);   // of this coroutine's loop
}
void stealing(std::list<asio::io_context>& contexts, std::string where) {
    cenote::per_executor<connection> pools{contexts, connector{where}, {.max = 64},
                                           cenote::stealing::on};
}
}  // namespace of_executors

struct connection_lost {};
struct read_only_server {};
struct sql_error {};
struct members {
    session open();
    void reset(session&);
    bool before_acquire(session& s) noexcept { return !s.has_been_hung_up_on(); }
    cenote::verdict before_release(session& s) {
        return s.was_used() ? cenote::verdict::reset_later : cenote::verdict::keep;
    }
    cenote::verdict classify(std::exception_ptr error) const {
        try {
            std::rethrow_exception(error);
        } catch (const connection_lost&) {
            return cenote::verdict::suspect;   // the others will be gone, too
        } catch (const read_only_server&) {
            return cenote::verdict::suspect;   // the primary was demoted: let probe ask who it is
        } catch (const sql_error&) {
            return cenote::verdict::keep;
        } catch (...) {
            return cenote::verdict::discard;
        }
    }
    void forsake(session& s) { ::close(s.descriptor()); }
};
static_assert(cenote::connector<members, session>);

struct watcher : cenote::observer {
    bool wants(cenote::event_kind kind) const override {
        return kind == cenote::event_kind::open_failed || kind == cenote::event_kind::discarded;
    }
    void on_event(const cenote::event& what) override {
        ++(what.kind == cenote::event_kind::discarded ? discarded : failed);
    }
    std::atomic<int> discarded{0}, failed{0};
};

void leaks(std::shared_ptr<watcher> log) {
    cenote::pool<session> pool{connect, {.leak_after = 5s, .observers = {log}}};
    auto quick = pool.acquire({.task = "checkout"});
    auto slow = pool.acquire({.task = "nightly report", .leak_after = 1h});

    for (const cenote::lease_info& l : pool.leases())
        std::printf("%s:%u %s\n", l.site.file_name(), l.site.line(), l.task ? l.task : "");
}

namespace orm {
struct session {
    void rollback();
    void forget();
};
}  // namespace orm

void units() {
    auto open_session = [] { return std::make_unique<orm::session>(); };

    using session = std::unique_ptr<orm::session>;  // one that cannot be moved

    cenote::pool units{
        cenote::unit_of_work{open_session, {.rollback = &orm::session::rollback,
                                            .clear = [](session& s) { s->forget(); }}},
        {.max = 8}};
}

namespace of_units {
struct session {
    asio::awaitable<void> rollback();
    void clear();
};
asio::awaitable<session> open_session();
void awaited(asio::io_context& io_context) {
    cenote::pool<session> units{
        io_context, cenote::async_unit_of_work<session>{open_session}, {.max = 8}};
}
}  // namespace of_units

// clang-format on

}  // namespace samples
