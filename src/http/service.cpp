// Refusals as answers.
#include "cenote/service.hpp"

#include <algorithm>

#include "cenote/error.hpp"

namespace cenote {

namespace {

constexpr std::chrono::seconds retry_min{1};
constexpr std::chrono::seconds retry_max{60};

}  // namespace

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

}  // namespace cenote
