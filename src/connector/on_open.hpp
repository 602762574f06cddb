// The function of the user that sets up each new session (options::on_open), and what each reset
// repeats of it (docs/decisions/0044).
#pragma once

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cenote/sql.hpp"
#include "connector/drive.hpp"
#include "connector/work.hpp"

namespace cenote::connector_detail {

/// The statements that on_open has run on a session.
class opening_record {
public:
    /// on_open begins, and has time until then.
    void begin(instant until) noexcept {
        records_ = true;
        until_ = until;
    }
    void end() noexcept { records_ = false; }
    /// Whether on_open is running.
    bool is_open() const noexcept { return records_; }
    /// Throws std::logic_error while on_open is running: `what` cannot be repeated.
    void refuse(const char* what) const;
    /// Throws std::length_error if on_open runs too much.
    void add(std::string_view text, std::span<const sql::parameter> values);

    const std::vector<sql::bound_statement>& statements() const noexcept { return all_; }
    /// Of an operation that could take until `deadline`.
    instant limit(instant deadline) const noexcept {
        return records_ ? std::min(deadline, until_) : deadline;
    }

private:
    bool records_ = false;
    instant until_ = instant::max();
    std::size_t bytes_ = 0;
    std::vector<sql::bound_statement> all_;
};

/// Throws std::logic_error about a statement of on_open.
[[noreturn]] void refuse_in_on_open(const std::string& why);

template <class Options>
bool has_on_open(const Options& o) {
    return o.on_open != nullptr || o.async_on_open != nullptr;
}

/// Calls on_open, or async_on_open. One that may block runs on a thread for it if the open is
/// awaited. Throws what the function throws.
template <class Mode, class Options, class Connection>
result_in<Mode, void> call_on_open(std::shared_ptr<const Options> o, std::shared_ptr<Connection> on,
                                   std::shared_ptr<user_threads> threads, instant until) {
    if constexpr (std::is_same_v<Mode, awaited>) {
        if (o->async_on_open != nullptr) {
            co_await o->async_on_open(*on);
        } else {
            auto call = [o, on] { return o->on_open(*on), true; };
            co_await async_run_user_function(std::move(threads), std::move(call));
        }
    } else {
        if (o->on_open != nullptr) o->on_open(*on);
        else run_on_own_loop(o->async_on_open(*on), until, "async_on_open");
    }
    co_return;
}

}  // namespace cenote::connector_detail
