// Error codes: their names, their texts, and an exception class for each.
#include "cenote/error.hpp"

#include <array>
#include <utility>

#include "cenote/stats.hpp"

namespace cenote {

namespace {

class category final : public std::error_category {
public:
    const char* name() const noexcept override { return "cenote"; }

    std::string message(int code) const override {
        switch (static_cast<errc>(code)) {
            case errc::timed_out: return "timed out waiting for a lease";
            case errc::closed: return "the pool is closed";
            case errc::unavailable: return "the circuit breaker is open";
            case errc::line_full: return "the line is full";
            case errc::shed:
                return "refused early, because waiters have been served late for too long";
            case errc::canceled: return "the acquire was canceled";
            case errc::open_failed: return "no resource could be opened";
            case errc::deadlock: return "the wait can never end";
        }
        return "unknown error";
    }

    std::error_condition default_error_condition(int code) const noexcept override {
        switch (static_cast<errc>(code)) {
            case errc::timed_out: return std::errc::timed_out;
            case errc::canceled: return std::errc::operation_canceled;
            case errc::deadlock: return std::errc::resource_deadlock_would_occur;
            default: return {code, *this};
        }
    }
};

struct arguments {
    std::string text;
    std::exception_ptr cause;
    std::chrono::nanoseconds retry_after;
    std::string pool;
    std::shared_ptr<const stats> seen;
};

template <errc Code>
[[noreturn]] void throw_one(arguments& what) {
    throw pool_error_of<Code>(std::move(what.text), std::move(what.cause), what.retry_after,
                              std::move(what.pool), std::move(what.seen));
}

}  // namespace

const char* to_string(errc code) noexcept {
    constexpr std::array<const char*, errc_count> names = {"timed_out",   "closed",  "unavailable",
                                                           "line_full",   "shed",    "canceled",
                                                           "open_failed", "deadlock"};
    auto index = static_cast<std::size_t>(code) - 1;
    return index < names.size() ? names[index] : "unknown";
}

const std::error_category& pool_category() noexcept {
    static const category instance;
    return instance;
}

pool_error::pool_error(errc code, std::string text, std::exception_ptr cause,
                       std::chrono::nanoseconds retry_after, std::string pool,
                       std::shared_ptr<const cenote::stats> seen)
    : std::system_error(make_error_code(code)),
      cause_(std::move(cause)),
      retry_after_(retry_after) {
    if (seen == nullptr) seen = std::make_shared<const cenote::stats>();
    about_ =
        std::make_shared<const details>(details{std::move(text), std::move(pool), std::move(seen)});
}

void throw_pool_error(errc code, std::string text, std::exception_ptr cause,
                      std::chrono::nanoseconds retry_after, std::string pool,
                      std::shared_ptr<const stats> seen) {
    arguments what{std::move(text), std::move(cause), retry_after, std::move(pool),
                   std::move(seen)};
    switch (code) {
        case errc::timed_out: throw_one<errc::timed_out>(what);
        case errc::closed: throw_one<errc::closed>(what);
        case errc::unavailable: throw_one<errc::unavailable>(what);
        case errc::line_full: throw_one<errc::line_full>(what);
        case errc::shed: throw_one<errc::shed>(what);
        case errc::canceled: throw_one<errc::canceled>(what);
        case errc::open_failed: throw_one<errc::open_failed>(what);
        case errc::deadlock: break;
    }
    throw_one<errc::deadlock>(what);
}

}  // namespace cenote
