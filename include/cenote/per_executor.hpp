// One pool per event loop, for services that run one thread per core.
#pragma once
#include <algorithm>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ranges>
#include <source_location>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cenote/asio.hpp"
#include "cenote/asio_connector.hpp"
#include "cenote/detail/per_executor.hpp"
#include "cenote/lease.hpp"
#include "cenote/options.hpp"
#include "cenote/pool.hpp"
#include "cenote/stats.hpp"

namespace cenote {

/// What an acquire does if no resource is ready in the shard of its own loop.
enum class stealing : std::uint8_t {
    off,  ///< It waits for its own shard. Loops share nothing.
    on,  ///< It takes a resource that is ready in another shard. If there is none, it waits for its
         ///< own shard.
};

/// One pool per event loop, called its shard:
///
///     cenote::per_executor<session> sessions{contexts, connector, {.max = 64}};
///     auto s = co_await sessions.async_acquire(boost::asio::use_awaitable);
///
/// A resource is opened, lent, maintained and closed on one loop (except at the end of the pool,
/// and for leases that outlive it; see pool::~pool). Loops share nothing, so throughput grows with
/// their number. But a loop whose shard is exhausted waits, even if other shards have idle
/// resources. An acquire uses the shard of the loop that its handler's executor belongs to, and
/// throws std::invalid_argument if no shard belongs to it.
///
/// With `stealing::on` an acquire whose own shard has nothing ready takes a resource that is ready
/// in another shard; the resource returns there when the lease ends. For loops with uneven load.
/// Costs: coroutines of other loops use the resource, so its I/O objects wake up their own loop;
/// contexts whose concurrency hint switches their locks off must not be used. There is no order
/// between loops: an acquire that steals overtakes the waiters of its own loop. A waiter is served
/// by its own shard.
///
/// `max`, `min_size`, `min_idle` and `line_max` are totals and are split evenly among the shards;
/// the other options apply to each shard. The connector is copied into each shard; the calls of an
/// asynchronous connector run on the shard's loop. Each shard needs its own strategy for its
/// circuit breaker; see set_breakers().
template <class T>
class per_executor {
public:
    /// `loops`: executors or execution contexts, which must outlive the shards. Throws
    /// invalid_option if `max` is smaller than their number or if `breaker` is set,
    /// std::invalid_argument if a loop comes twice or there is none, and what pool's constructor
    /// throws.
    template <std::ranges::forward_range Loops, class C>
    per_executor(Loops&& loops, const C& connector, const options& settings = {},
                 stealing from_others = stealing::off)
        : min_size_(settings.min_size), min_idle_(settings.min_idle), stealing_(from_others) {
        auto count = static_cast<std::size_t>(std::ranges::distance(loops));
        if (count == 0) throw std::invalid_argument("cenote: per_executor without a loop");
        if (settings.max < count) throw too_few(settings.max);
        if (settings.breaker != nullptr)
            throw invalid_option("breaker", "set", "must be null here: use set_breakers()");
        for (auto&& loop : loops) {
            std::size_t number = shards_.size();
            for (const shard& s : shards_)
                if (s.context == detail::context_of(loop))
                    throw std::invalid_argument("cenote: per_executor with a loop twice");
            shards_.push_back({detail::context_of(loop),
                               make(loop, connector, share_of(settings, number, count))});
        }
    }

    /// The number of shards: the number of loops.
    std::size_t size() const noexcept { return shards_.size(); }

    /// The shard of an executor or execution context. It is a pool like any other: call it for what
    /// concerns one loop. Throws std::invalid_argument if no shard belongs to it.
    template <class Where>
    pool<T>& on(const Where& where) {
        const auto* context = detail::context_of(where);
        for (shard& s : shards_)
            if (s.context == context) return *s.resources;
        throw std::invalid_argument("cenote: no shard for this executor");
    }

    /// The forms of pool::async_acquire, in the shard of the handler's executor: with use_awaitable
    /// that is the executor of the coroutine. Throws std::invalid_argument if no shard belongs to
    /// that executor; with use_awaitable, when the result is awaited.
    template <class Token>
    auto async_acquire(Token&& token, std::source_location at = std::source_location::current()) {
        return acquire(first().gate_->request_of(at), std::forward<Token>(token));
    }
    template <class Token>
    auto async_acquire(const acquire_options& how, Token&& token,
                       std::source_location at = std::source_location::current()) {
        return acquire(first().gate_->request_of(how, at), std::forward<Token>(token));
    }
    template <class Token>
    auto async_acquire_for(std::chrono::nanoseconds timeout, Token&& token,
                           std::source_location at = std::source_location::current()) {
        return async_acquire({.timeout = timeout}, std::forward<Token>(token), at);
    }
    template <class Token>
    auto async_acquire_until(std::chrono::steady_clock::time_point deadline, Token&& token,
                             std::source_location at = std::source_location::current()) {
        return async_acquire({.deadline = deadline}, std::forward<Token>(token), at);
    }

    // For all shards together: the members of pool with the same name.

    /// The sum of consistent snapshots of the shards.
    cenote::stats stats() const {
        cenote::stats sum;
        for (const shard& s : shards_) sum += s.resources->stats();
        return sum;
    }

    /// pool::retire_all() in all shards, each at its own speed (`opening_max` applies to a shard).
    void retire_all() {
        for (shard& s : shards_) s.resources->retire_all();
    }

    /// pool::resize() in all shards: `max` is split evenly. Throws what pool::resize throws, also
    /// if `max` is smaller than the number of loops. An invalid value changes nothing; if memory
    /// runs out, some shards may have changed.
    void resize(std::size_t max) {
        std::size_t count = shards_.size();
        if (max < count) throw too_few(max);
        for (std::size_t i = 0; i < count; ++i)
            validate({.max = part(max, i, count),
                      .min_size = part(min_size_, i, count),
                      .min_idle = part(min_idle_, i, count)});
        for (std::size_t i = 0; i < count; ++i) shards_[i].resources->resize(part(max, i, count));
    }

    /// pool::set_breaker() in all shards. Calls `make()` for each shard, which must return a new
    /// strategy at each call: a strategy belongs to one pool. So the circuits of the shards open
    /// and close one by one.
    template <class Make>
    void set_breakers(Make&& make) {
        for (shard& s : shards_) s.resources->set_breaker(make());
    }

    /// pool::pause() and pool::resume() in all shards.
    void pause() {
        for (shard& s : shards_) s.resources->pause();
    }
    void resume() {
        for (shard& s : shards_) s.resources->resume();
    }

    /// The leases of all shards, longest-held first. For diagnosis, like pool::leases().
    std::vector<lease_info> leases() const {
        std::vector<lease_info> all;
        for (const shard& s : shards_) {
            std::vector<lease_info> some = s.resources->leases();
            all.insert(all.end(), some.begin(), some.end());
        }
        std::ranges::sort(all, std::greater{}, &lease_info::held);
        return all;
    }

    /// A handle for each shard, in the order of the loops, for dashboards and metrics.
    std::vector<pool_control> controls() const {
        std::vector<pool_control> all;
        all.reserve(shards_.size());
        for (const shard& s : shards_) all.push_back(s.resources->control());
        return all;
    }

    /// pool::suspect_all() in all shards.
    void suspect_all() noexcept {
        for (shard& s : shards_) s.resources->suspect_all();
    }

    /// pool::replace_connector() in all shards; each gets a copy. Throws before any shard has
    /// changed.
    template <class C>
    void replace_connector(const C& connector) {
        std::vector<std::unique_ptr<detail::any_connector>> copies;
        for (std::size_t i = 0; i < shards_.size(); ++i)
            copies.push_back(detail::connector_maker<T, C>::make(connector));
        for (std::size_t i = 0; i < shards_.size(); ++i)
            shards_[i].resources->gate_->replace_connector(std::move(copies[i]));
    }

    /// pool::close() in all shards.
    void close() noexcept {
        for (shard& s : shards_) s.resources->close();
    }

    /// Completes with (boost::system::error_code, number of leases that are left).
    template <class Token>
    auto async_close(std::chrono::nanoseconds timeout, Token&& token) {
        auto close_one = [timeout](pool<T>& p, auto handler) {
            p.async_close(timeout, std::move(handler));
        };
        return all_of<void(boost::system::error_code, std::size_t)>(close_one, token);
    }

    /// Completes with (boost::system::error_code); see pool::async_wait_ready().
    template <class Token>
    auto async_wait_ready(std::chrono::nanoseconds timeout, Token&& token) {
        auto await_one = [timeout](pool<T>& p, auto handler) {
            p.async_wait_ready(timeout, std::move(handler));
        };
        return all_of<void(boost::system::error_code)>(await_one, token);
    }
    template <class Token>
    auto async_wait_ready(Token&& token) {
        return async_wait_ready(forever, std::forward<Token>(token));
    }

private:
    friend struct detail::start_acquire_at_home<T>;
    template <class U, class Executor>
    friend boost::asio::awaitable<lease<U>, Executor> detail::await_acquire_at_home(
        per_executor<U>*, detail::wait_request, trace_context);

    struct shard {
        const boost::asio::execution_context* context;
        std::unique_ptr<pool<T>> resources;
    };

    static invalid_option too_few(std::size_t max) {
        return {"max", std::to_string(max), "must be at least the number of loops"};
    }

    /// The share of shard `number` of `count`.
    static std::size_t part(std::size_t whole, std::size_t number, std::size_t count) {
        return whole / count + (number < whole % count ? 1 : 0);
    }

    static options share_of(options settings, std::size_t number, std::size_t count) {
        settings.name += "/" + std::to_string(number);
        settings.max = part(settings.max, number, count);
        settings.min_size = part(settings.min_size, number, count);
        settings.min_idle = part(settings.min_idle, number, count);
        settings.line_max = (settings.line_max + count - 1) / count;
        return settings;
    }

    template <class Loop, class C>
    static std::unique_ptr<pool<T>> make(Loop& loop, const C& connector, const options& settings) {
        if constexpr (asynchronous_connector<C, T>)
            return std::make_unique<pool<T>>(loop, connector, settings);
        else return std::make_unique<pool<T>>(connector, settings);
    }

    /// Starts an operation in every shard and completes when all have ended.
    template <class Signature, class Start, class Token>
    auto all_of(Start start, Token& token) {
        auto initiate = [this, start](auto handler) {
            using gathering = detail::gathering<decltype(handler), Signature>;
            auto all = std::make_shared<gathering>(std::move(handler), shards_.size());
            for (std::size_t i = 0; i < shards_.size(); ++i)
                start(*shards_[i].resources, all->part(i));
        };
        return boost::asio::async_initiate<Token, Signature>(std::move(initiate), token);
    }

    template <class Token>
    auto acquire(const detail::wait_request& request, Token&& token) {
        return detail::acquire_at_home_with<T, std::decay_t<Token>>::start(
            this, request, std::forward<Token>(token));
    }

    template <class Executor>
    detail::gate* gate_on(const Executor& where) {
        return on(where).gate_;
    }

    /// What is ready in the shard of `request` or, if that has nothing, in another shard. Null if
    /// nothing is: the acquire goes on in its own shard.
    detail::resource* steal_for(const detail::wait_request& request) {
        // A resource that has to be looked at elsewhere cannot be taken here and now.
        if (stealing_ == stealing::off || request.from->before_acquire_may_block()) return nullptr;
        if (detail::resource* r = ready_in(request.from, request)) return r;
        std::size_t count = shards_.size();
        std::size_t at = 0;
        while (shards_[at].resources->gate_ != request.from) ++at;
        for (std::size_t i = 1; i < count; ++i) {
            detail::gate* other = shards_[(at + i) % count].resources->gate_;
            if (detail::resource* r = ready_in(other, request)) return r;
        }
        return nullptr;
    }
    /// A crowded shard costs one load: its lock is left to its own loop.
    static detail::resource* ready_in(detail::gate* shard, const detail::wait_request& request) {
        constexpr std::uint64_t coroutine = 0;
        if (shard->has_waiters()) return nullptr;
        if (detail::resource* r = shard->take(request.site, request.terms, coroutine)) return r;
        return shard->may_have_ready() ? shard->try_acquire(request.site, request.terms, coroutine)
                                       : nullptr;
    }

    pool<T>& first() { return *shards_.front().resources; }

    std::vector<shard> shards_;
    std::size_t min_size_;
    std::size_t min_idle_;
    stealing stealing_;
};

}  // namespace cenote
