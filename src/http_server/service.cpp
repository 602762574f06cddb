// HTTP answers for pool errors, and the health of pools derived from their stats.
#include "cenote/service.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>

#include "cenote/breaker.hpp"
#include "cenote/error.hpp"

namespace cenote {

namespace {

constexpr std::chrono::seconds retry_min{1};
constexpr std::chrono::seconds retry_max{60};

/// How long a failed open makes a pool unhealthy. Limited because an unhealthy service gets no
/// requests, and without requests no open that could succeed.
constexpr std::chrono::seconds failure_lifetime{30};

using clock = std::chrono::steady_clock;

std::uint64_t open_in(const stats& s) noexcept {
    return s.leased + s.idle + s.probing + s.resetting;
}

}  // namespace

answer::answer(int status, std::string text, std::string content_type)
    : status_(status), body_(std::move(text)), content_type_(std::move(content_type)) {
    auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
    if (std::ranges::any_of(content_type_, is_control))
        throw std::invalid_argument("cenote: answer: the content type contains control characters");
}

answer& answer::retry_after(std::chrono::nanoseconds in) noexcept {
    retry_after_ = std::clamp(std::chrono::ceil<std::chrono::seconds>(in), retry_min, retry_max);
    return *this;
}

std::optional<answer> answer_to(const std::exception_ptr& error) {
    if (error == nullptr) return std::nullopt;
    try {
        std::rethrow_exception(error);
    } catch (const answer_error& e) {
        return e.get();
    } catch (const pool_error& e) {
        if (e.code() != errc::timed_out && e.code() != errc::line_full && e.code() != errc::shed &&
            e.code() != errc::unavailable)
            return std::nullopt;
        answer busy(503, "too busy, try again later\n");
        busy.retry_after(e.retry_after());
        return busy;
    } catch (...) {
        return std::nullopt;
    }
}

namespace {

/// A pool, and its last known opens.
class watched_pool {
public:
    watched_pool(std::function<stats()> read, const watch_options& how)
        : read_(std::move(read)), how_(how) {}

    /// The pool's part of a report. Sets `down` if the pool is vital and down.
    std::string report(bool for_readiness, bool& down) {
        stats now = read_();
        update_failing(now);
        const char* why = reason(now, for_readiness);
        down = down || (how_.vital && why != nullptr);
        std::string text = R"({"status":")";
        text += why == nullptr ? "ok" : "down";
        if (why != nullptr) text += std::string(R"(","reason":")") + why;
        text += R"(","breaker":")" + std::string(to_string(now.breaker));
        text += R"(","open":)" + std::to_string(open_in(now));
        text += R"(,"minimum":)" + std::to_string(how_.minimum);
        if (!how_.vital) text += R"(,"vital":false)";
        text += R"(,"leased":)" + std::to_string(now.leased);
        text += R"(,"waiting":)" + std::to_string(now.waiting) + "}";
        return text;
    }

private:
    void update_failing(const stats& now) {
        if (now.opened != opened_) failing_until_ = {};
        else if (now.open_failed != open_failed_) failing_until_ = clock::now() + failure_lifetime;
        opened_ = now.opened;
        open_failed_ = now.open_failed;
    }

    /// Why the pool is down, or null.
    const char* reason(const stats& now, bool for_readiness) const {
        if (now.state == pool_state::paused) return "paused";
        if (now.state == pool_state::closed) return "closed";
        if (now.breaker == breaker_state::inactive) return "circuit breaker inactive";
        if (open_in(now) == 0 && clock::now() < failing_until_) return "opens fail";
        if (for_readiness && open_in(now) < how_.minimum) return "minimum not open yet";
        return nullptr;
    }

    std::function<stats()> read_;
    watch_options how_;
    std::uint64_t opened_ = 0;
    std::uint64_t open_failed_ = 0;
    clock::time_point failing_until_{};
};

}  // namespace

struct service::list {
    std::mutex mutex;  // held during reads, so that a pool may end when its entry has left
    std::map<std::string, watched_pool, std::less<>> pools;
};

struct service::entry::registration {
    ~registration() {
        decltype(in->pools) removed;  // destroyed after the unlock, with functions of the user
        std::lock_guard lock(in->mutex);
        for (const cenote::metrics::entry& each : parts)
            removed.insert(in->pools.extract(each.name()));
    }

    std::shared_ptr<list> in;
    std::vector<cenote::metrics::entry> parts;  // one per pool
};

service::service() : list_(std::make_shared<list>()) {}

void service::add(entry& to, const std::string& name, std::function<stats()> read,
                  const watch_options& how) {
    if (to.registration_ == nullptr) {
        to.registration_ = std::make_shared<entry::registration>();
        to.registration_->in = list_;
    }
    // Checks the arguments, and numbers equal names.
    auto& parts = to.registration_->parts;
    parts.push_back(metrics_.add(name, read));
    std::lock_guard lock(list_->mutex);
    list_->pools.emplace(parts.back().name(), watched_pool(std::move(read), how));
}

service::entry service::watch(const std::string& name, std::function<stats()> read,
                              const watch_options& how) {
    entry made;
    add(made, name, std::move(read), how);
    return made;
}

service::entry service::watch_each(const std::string& name, const std::vector<pool_control>& pools,
                                   const watch_options& how) {
    entry all;
    for (std::size_t i = 0; i < pools.size(); ++i) {
        const std::string shown = i == 0 ? name : name + "-replica-" + std::to_string(i);
        const watch_options options = i == 0 ? how : watch_options{.minimum = 0, .vital = false};
        add(all, shown, [pool = pools[i]] { return pool.stats(); }, options);
    }
    return all;
}

answer service::report(bool for_readiness) const {
    bool down = for_readiness && ending_;
    std::string pools;
    {
        std::lock_guard lock(list_->mutex);
        for (auto& [name, pool] : list_->pools) {
            if (!pools.empty()) pools += ",";
            pools += "\"" + name + "\":" + pool.report(for_readiness, down);
        }
    }
    std::string text = R"({"status":")";
    text += down ? "down" : "ok";
    text += R"(","draining":)";
    text += ending_ ? "true" : "false";
    text += R"(,"pools":{)" + pools + "}}\n";
    return answer(down ? 503 : 200, std::move(text), "application/json");
}

answer service::health() const { return report(false); }
answer service::ready() const { return report(true); }

answer service::metrics_text() const {
    return answer(200, metrics_.prometheus(), std::string(cenote::metrics::content_type));
}

std::optional<answer> service::answer_to(std::string_view path) const {
    if (path == "/health") return health();
    if (path == "/ready") return ready();
    if (path == "/metrics") return metrics_text();
    return std::nullopt;
}

}  // namespace cenote
