// 3: a custom connector: open, probe, reset, close, the meaning of exceptions, and its replacement.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>

#include <cenote/pool.hpp>

namespace {

/// A simulated server. A restart starts a new life and kills all sessions of the old one.
struct server {
    std::atomic<int> life{1};
    std::atomic<int> sessions{0};
};

struct session {
    int life;
    std::string user = "none";
};

struct connector {
    server& there;
    std::string password;

    session open() {
        if (password != "secret") throw std::invalid_argument("wrong password");
        ++there.sessions;
        return {.life = there.life};
    }
    bool probe(session& s) { return s.life == there.life; }
    void reset(session& s) { s.user = "none"; }
    void close(session&) { --there.sessions; }

    cenote::verdict classify(std::exception_ptr error) const {
        try {
            std::rethrow_exception(error);
        } catch (const std::domain_error&) {
            return cenote::verdict::keep;  // an invalid request, but the session is fine
        } catch (const std::invalid_argument&) {
            return cenote::verdict::final;  // opening again would fail again
        } catch (...) {
            return cenote::verdict::discard;
        }
    }
};

}  // namespace

int main() {
    server there;
    cenote::options careful{.name = "sessions", .probe_after_idle = std::chrono::seconds{0}};
    {
        cenote::pool<session> pool{connector{there, "secret"}, careful};
        auto lease = pool.acquire();
        lease->user = "alice";
        lease.mark_dirty();  // the session is reset before the next lease
        lease.give_back();
        std::printf("the next user is %s\n", pool.acquire()->user.c_str());
        try {
            pool.with([](session&) { throw std::domain_error("invalid request"); });
        } catch (const std::domain_error& e) {
            std::printf("%s; sessions open: %d\n", e.what(), there.sessions.load());
        }
        ++there.life;  // a restart; the next acquire probes and gets a new session
        std::printf("a session of life %d\n", pool.acquire()->life);
    }
    std::printf("sessions left: %d\n", there.sessions.load());
    {
        cenote::pool<session> pool{connector{there, "guess"}, careful};
        std::error_code error;
        auto none = pool.acquire({}, error);  // fails at once, not after acquire_timeout
        std::printf("with a wrong password: %s\n", error.message().c_str());
        pool.replace_connector(connector{there, "secret"});  // possible while the pool is in use
        std::printf("with the right password: a session of life %d\n", pool.acquire()->life);
    }
    return there.sessions;
}
