// Recipes: pools of other things than database connections, and tests.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cookbook.hpp"
#include <cenote/http.hpp>
#include <cenote/pool.hpp>
#include <cenote/redis.hpp>
#include <cenote/testing.hpp>

using namespace std::chrono_literals;
using cookbook::expect;

namespace {

// Parsers.

struct grammar {
    std::string text;
};

/// Takes long to make, and serves one text at a time.
class parser {
public:
    explicit parser(grammar by) : grammar_(std::move(by)) {}
    std::size_t count_words(std::string_view text) {
        scratch_.assign(text);
        return static_cast<std::size_t>(std::ranges::count(scratch_, ' ')) + 1;
    }
    std::size_t memory() const { return scratch_.capacity(); }
    void shrink() { scratch_ = {}; }

private:
    grammar grammar_;
    std::string scratch_;
};

struct parser_connector {
    grammar rules;

    parser open() { return parser(rules); }
    bool before_release(parser& p) { return p.memory() < 1 << 20; }  // false: retire it
};

std::size_t pool_of_parsers() {
    cenote::pool<parser> parsers{
        parser_connector{{"word*"}},
        {.name = "parsers", .max = 4, .idle_timeout = 1min, .max_lifetime = cenote::forever}};

    std::size_t words = parsers.with([](parser& p) { return p.count_words("one two three"); });
    return words;
}

// GPU contexts.

/// The devices of this machine that no context uses.
class devices {
public:
    explicit devices(std::vector<int> all) : free_(std::move(all)) {}
    int take() {
        std::lock_guard lock(mutex_);
        if (free_.empty()) throw std::runtime_error("no device is free");
        int device = free_.back();
        free_.pop_back();
        return device;
    }
    void put(int device) {
        std::lock_guard lock(mutex_);
        free_.push_back(device);
    }
    std::size_t count() {
        std::lock_guard lock(mutex_);
        return free_.size();
    }

private:
    std::mutex mutex_;
    std::vector<int> free_;
};

struct gpu_context {
    int device;
    bool lost = false;
};

struct gpu_connector {
    std::shared_ptr<devices> here;

    gpu_context open() { return {.device = here->take()}; }
    bool probe(gpu_context& c) { return !c.lost; }
    void close(gpu_context& c) { here->put(c.device); }
};

int pool_of_gpus(const std::shared_ptr<devices>& here) {
    cenote::pool<gpu_context> gpus{gpu_connector{here},
                                   {.name = "gpu",
                                    .max = 2,  // devices
                                    .idle_timeout = cenote::forever,
                                    .max_lifetime = cenote::forever,
                                    .leak_after = 10min}};

    auto both = gpus.acquire_many(2);  // two devices or none
    int used = both[0]->device + both[1]->device;
    return used;
}

// A connector of one's own.

}  // namespace

namespace archive {

struct refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct wrong_password : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct shutting_down : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Stands for a client of some library.
class client {
public:
    client(const std::string& password, std::chrono::milliseconds) {
        if (password != "secret") throw wrong_password("wrong password");
    }
    bool ping() { return true; }
    void quit() {}
    const std::string& folder() const { return folder_; }
    void change_folder(std::string to) {
        if (to.empty()) throw refused("no such folder");
        folder_ = std::move(to);
    }
    void lose() { throw std::runtime_error("connection reset by peer"); }
    void stop() { throw shutting_down("the server is going down"); }

private:
    std::string folder_ = "/";
};

}  // namespace archive

namespace {

struct archive_connector {
    std::string password;

    archive::client open() { return {password, 2s}; }  // with a timeout of its own
    bool probe(archive::client& c) { return c.ping(); }
    void reset(archive::client& c) { c.change_folder("/"); }
    void close(archive::client& c) { c.quit(); }
    cenote::verdict before_release(archive::client& c) {
        return c.folder() == "/" ? cenote::verdict::keep : cenote::verdict::reset;
    }
    cenote::verdict classify(const std::exception_ptr& error) const {
        try {
            std::rethrow_exception(error);
        } catch (const archive::refused&) {
            return cenote::verdict::keep;  // the request was wrong, the session is fine
        } catch (const archive::wrong_password&) {
            return cenote::verdict::final;  // the next open would fail, too
        } catch (const archive::shutting_down&) {
            return cenote::verdict::suspect;  // the other sessions are affected, too
        } catch (...) {
            return cenote::verdict::discard;
        }
    }
};

template <class F>
void throws(F&& work) {
    try {
        work();
    } catch (const std::exception&) {
        return;
    }
    throw std::logic_error("did not throw");
}

void own_connector() {
    cenote::pool<archive::client> archives{archive_connector{"secret"}, {.max = 2}};
    throws([&] { archives.with([](archive::client& c) { c.change_folder(""); }); });
    expect(archives.stats().discarded == 0, "a refused request costs no session");

    archives.with([](archive::client& c) { c.change_folder("/tmp"); });
    expect(archives.acquire()->folder() == "/", "the next user begins in the first folder");

    throws([&] { archives.with([](archive::client& c) { c.lose(); }); });
    expect(archives.stats().discarded == 1, "a lost session is closed");
    throws([&] { archives.with([](archive::client& c) { c.stop(); }); });
    expect(archives.stats().discarded == 2, "and so is one of a server that goes down");

    cenote::pool<archive::client> wrong{archive_connector{"guess"}};
    std::error_code why;
    auto none = wrong.acquire({}, why);
    expect(why == cenote::errc::open_failed, "a wrong password refuses the caller at once");
}

// A test with a manual clock.

struct session {
    int number;
};

void test_without_sleep() {
    auto clock = std::make_shared<cenote::manual_clock>();
    cenote::pool<session> pool{[] { return session{1}; },
                               {.max = 1, .leak_after = 30s, .clock = clock}};
    auto forgotten = pool.acquire();

    auto begin = clock->now();
    std::error_code why;
    auto none = pool.acquire({.timeout = 2s}, why);  // returns at once
    expect(why == cenote::errc::timed_out, "an exhausted pool refuses");
    expect(clock->now() - begin == 2s, "after two seconds of its clock");

    clock->advance(30s);
    expect(pool.stats().leaks == 1, "the forgotten lease is reported as a leak");
}

// Redis.

std::int64_t count_visit(cenote::pool<cenote::redis::connection>& pool, std::string_view page) {
    cenote::redis::pipeline visit;
    visit.add("INCR", page).add("EXPIRE", page, 3600).add("GET", "greeting");

    auto redis = pool.acquire({.timeout = 200ms, .task = "visit"});
    std::vector<cenote::redis::reply> replies = redis->execute(visit);  // one round trip
    auto greeting = replies[2].as<std::optional<std::string>>();        // nil becomes nullopt
    return replies[0].integer();  // throws command_error if the server refused the INCR
}

// HTTP.

cenote::http::response fetch(cenote::pool<cenote::http::connection>& pool,
                             const cenote::http::request& request) {
    for (int tries = 3;; --tries) {
        auto connection = pool.acquire({.timeout = 1s});
        connection->set_timeout(2s);
        try {
            return connection->send(request);
        } catch (const cenote::http::not_sent&) {  // the server had closed the idle connection
            if (tries == 1) throw;
        }
    }
}

}  // namespace

void cookbook::resources() {
    expect(pool_of_parsers() == 3, "a parser counts words");
    auto here = std::make_shared<devices>(std::vector{0, 1});
    expect(pool_of_gpus(here) == 1, "two devices at once");
    expect(here->count() == 2, "both devices are free again");
    own_connector();
    test_without_sleep();
}

void cookbook::on_redis(const std::string& url) {
    cenote::pool<cenote::redis::connection> pool{cenote::redis::connector{url}, {.max = 2}};
    pool.acquire()->command("PING");  // so that no open takes of the time of a visit
    expect(count_visit(pool, "page") == 1, "the first visit");
    expect(count_visit(pool, "page") == 2, "the second visit");
    expect(pool.stats().opened == 1, "both on one connection");
}

void cookbook::over_http(const std::string& url) {
    cenote::pool<cenote::http::connection> pool{
        cenote::http::connector{url},
        {.name = "api", .max = 8, .idle_timeout = 20s}};  // less than the server's keep-alive

    pool.acquire().give_back();  // so that no open takes of the time of a request
    auto answer = fetch(pool, cenote::http::get("/").with("Accept", "text/html"));
    expect(answer.status > 0, "a response of any status");
    fetch(pool, cenote::http::get("/"));
    expect(pool.stats().opened == 1, "both requests used one connection");
}
