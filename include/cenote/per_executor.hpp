// Thread per core: one pool per event loop, so that a resource never crosses from one to another.
#pragma once

#include <algorithm>
#include <boost/asio/append.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <concepts>
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
#include "cenote/lease.hpp"
#include "cenote/options.hpp"
#include "cenote/pool.hpp"
#include "cenote/stats.hpp"

namespace cenote {

/// What an acquire does if the shard of its own loop has nothing ready.
enum class stealing : std::uint8_t {
    off,  ///< It waits for its own shard. Loops share nothing.
    on,   ///< It takes what is ready in another shard, and waits for its own shard if nothing is.
};

template <class T>
class per_executor;

namespace detail {

/// The context something runs on: an executor's, or the context itself.
template <class Where>
const asio::execution_context* context_of(const Where& where) {
    if constexpr (std::derived_from<Where, asio::execution_context>) return &where;
    else return &asio::query(where, asio::execution::context);
}

/// Starts an acquire in the shard of the handler's executor.
template <class T>
struct start_acquire_at_home {
    template <class Handler>
    void operator()(Handler&& handler, awaited_wish wish) const {
        wish.from = from->gate_on(asio::get_associated_executor(handler));
        if (resource* r = from->steal_for(wish.from, wish.site))
            return asio::post(asio::append(std::forward<Handler>(handler),
                                           boost::system::error_code(), lease_maker::of<T>(r)));
        start_acquire<T>{}(std::forward<Handler>(handler), wish);
    }

    per_executor<T>* from;
};

template <class T, class Executor>
asio::awaitable<lease<T>, Executor> await_acquire_at_home(per_executor<T>* from,
                                                          awaited_wish wish) {
    Executor home = co_await asio::this_coro::executor;
    wish.from = from->gate_on(home);
    if (resource* r = from->steal_for(wish.from, wish.site)) co_return lease_maker::of<T>(r);
    lease<T> got = co_await await_acquire<T, Executor>(wish.from, wish.timeout, wish.deadline,
                                                       wish.site, wish.how);
    co_return got;
}

/// Several operations whose ends are awaited together. They end, and are cancelled, on a strand.
template <class Handler, class Signature>
class gathering : public std::enable_shared_from_this<gathering<Handler, Signature>> {
public:
    gathering(Handler handler, std::size_t count)
        : handler_(std::move(handler)),
          work_(asio::get_associated_executor(handler_)),
          strand_(asio::make_strand(asio::get_associated_executor(handler_))),
          stop_(count),
          missing_(count) {
        auto slot = asio::get_associated_cancellation_slot(handler_);
        if (slot.is_connected()) slot.template emplace<canceler>(canceler{this});
    }

    /// The handler of one of them.
    auto part(std::size_t number) {
        auto ended = [me = this->shared_from_this()](boost::system::error_code error,
                                                     std::size_t left = 0) {
            me->ended(error, left);
        };
        return asio::bind_cancellation_slot(stop_[number].slot(),
                                            asio::bind_executor(strand_, std::move(ended)));
    }

private:
    struct canceler {
        gathering* me;
        void operator()(asio::cancellation_type type) const {
            asio::dispatch(me->strand_, [all = me->shared_from_this(), type] {
                for (asio::cancellation_signal& s : all->stop_) s.emit(type);
            });
        }
    };

    void ended(boost::system::error_code error, std::size_t left) {
        if (!error_) error_ = error;
        left_ += left;
        if (--missing_ > 0) return;
        auto slot = asio::get_associated_cancellation_slot(handler_);
        if (slot.is_connected()) slot.clear();
        if constexpr (std::same_as<Signature, void(boost::system::error_code)>)
            asio::post(asio::append(std::move(handler_), error_));
        else asio::post(asio::append(std::move(handler_), error_, left_));
        work_.reset();
    }

    using executor = asio::associated_executor_t<Handler>;

    Handler handler_;
    asio::executor_work_guard<executor> work_;
    asio::strand<executor> strand_;
    std::vector<asio::cancellation_signal> stop_;
    std::size_t missing_;
    boost::system::error_code error_;
    std::size_t left_ = 0;
};

template <class T, class Token>
struct acquire_at_home_with {
    static auto start(per_executor<T>* from, const awaited_wish& wish, Token token) {
        return asio::async_initiate<Token, void(boost::system::error_code, lease<T>)>(
            start_acquire_at_home<T>{from}, token, wish);
    }
};

template <class T, class Executor>
struct acquire_at_home_with<T, asio::use_awaitable_t<Executor>> {
    static auto start(per_executor<T>* from, const awaited_wish& wish,
                      const asio::use_awaitable_t<Executor>&) {
        return await_acquire_at_home<T, Executor>(from, wish);
    }
};

}  // namespace detail

/// One pool per event loop, a shard each, that look like one:
///
///     cenote::per_executor<session> sessions{contexts, connector, {.max = 64}};
///     auto s = co_await sessions.async_acquire(boost::asio::use_awaitable);
///
/// A resource is opened, lent, tended and closed on one loop (unless that has to be done at the end
/// of the pool or of a lease that outlived it: see pool::~pool). Nothing is shared between loops,
/// so nothing slows down with their number; but a loop whose shard is exhausted waits, whatever the
/// others have. An acquire gets a lease of the loop that its handler's executor belongs to, and
/// std::invalid_argument if that is none of them.
///
/// With `stealing::on` an acquire whose own shard has nothing ready takes what is ready in another
/// one. It goes back there when the lease ends. For loops whose load differs. The cost: a resource
/// is used by coroutines of other loops, so I/O objects that are bound to its loop wake that loop
/// up; contexts with a concurrency hint that switches their locks off must not be used. There is no
/// order between loops: an acquire that steals overtakes the waiters of its own loop. A waiter is
/// served by its own shard alone.
///
/// `max`, `min_size`, `min_idle` and `line_max` are for all together and are split evenly; the
/// other options are for each. The connector is copied into each shard; if it is asynchronous, its
/// calls run on the shard's loop. Each shard has a circuit breaker of its own, and needs its own
/// strategy: see set_breakers().
template <class T>
class per_executor {
public:
    /// `loops`: executors, or execution contexts. They must outlive the shards. Throws
    /// invalid_option if `max` is smaller than their number or `breaker` is set, and what pool's
    /// constructor throws.
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

    std::size_t size() const noexcept { return shards_.size(); }

    /// The shard of an executor or execution context.
    template <class Where>
    pool<T>& on(const Where& where) {
        const auto* context = detail::context_of(where);
        for (shard& s : shards_)
            if (s.context == context) return *s.resources;
        throw std::invalid_argument("cenote: no shard for this executor");
    }

    // As pool's, in the shard of the handler's executor.

    template <class Token>
    auto async_acquire(Token&& token, std::source_location at = std::source_location::current()) {
        return acquire({nullptr, lease_wanted, first().gate_->acquire_timeout(), {}, at},
                       std::forward<Token>(token));
    }
    template <class Token>
    auto async_acquire_for(std::chrono::nanoseconds timeout, Token&& token,
                           std::source_location at = std::source_location::current()) {
        auto at_least_zero = std::max(timeout, std::chrono::nanoseconds{0});
        return acquire({nullptr, lease_wanted, at_least_zero, {}, at}, std::forward<Token>(token));
    }
    template <class Token>
    auto async_acquire_until(std::chrono::steady_clock::time_point deadline, Token&& token,
                             std::source_location at = std::source_location::current()) {
        return acquire({nullptr, lease_wanted, std::chrono::nanoseconds{-1}, deadline, at},
                       std::forward<Token>(token));
    }

    // Of all shards together.

    /// The sum; of each shard a consistent look.
    cenote::stats stats() const {
        cenote::stats sum;
        for (const shard& s : shards_) sum += s.resources->stats();
        return sum;
    }

    void retire_all() {
        for (shard& s : shards_) s.resources->retire_all();
    }

    /// As pool's, divided like the options. Throws as there; if memory runs out, some shards may
    /// have changed.
    void resize(std::size_t max) {
        std::size_t count = shards_.size();
        if (max < count) throw too_few(max);
        for (std::size_t i = 0; i < count; ++i)
            validate({.max = part(max, i, count),
                      .min_size = part(min_size_, i, count),
                      .min_idle = part(min_idle_, i, count)});
        for (std::size_t i = 0; i < count; ++i) shards_[i].resources->resize(part(max, i, count));
    }

    /// Gives each shard the strategy that `make` returns for it: a new one at each call.
    template <class Make>
    void set_breakers(Make&& make) {
        for (shard& s : shards_) s.resources->set_breaker(make());
    }

    void pause() {
        for (shard& s : shards_) s.resources->pause();
    }
    void resume() {
        for (shard& s : shards_) s.resources->resume();
    }

    /// As pool's: oldest first.
    std::vector<lease_info> leases() const {
        std::vector<lease_info> all;
        for (const shard& s : shards_) {
            std::vector<lease_info> some = s.resources->leases();
            all.insert(all.end(), some.begin(), some.end());
        }
        std::ranges::sort(all, std::greater{}, &lease_info::held);
        return all;
    }

    /// Of each shard's pool, in the order of the loops.
    std::vector<pool_control> controls() const {
        std::vector<pool_control> all;
        all.reserve(shards_.size());
        for (const shard& s : shards_) all.push_back(s.resources->control());
        return all;
    }

    void suspect_all() noexcept {
        for (shard& s : shards_) s.resources->suspect_all();
    }

    /// As pool's, with a copy for each shard. Throws as there, before any shard has changed.
    template <class C>
    void replace_connector(const C& connector) {
        std::vector<std::unique_ptr<detail::any_connector>> copies;
        for (std::size_t i = 0; i < shards_.size(); ++i)
            copies.push_back(detail::connector_maker<T, C>::make(connector));
        for (std::size_t i = 0; i < shards_.size(); ++i)
            shards_[i].resources->gate_->replace_connector(std::move(copies[i]));
    }

    void close() noexcept {
        for (shard& s : shards_) s.resources->close();
    }

    /// Completes with (boost::system::error_code, leases still out).
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
        per_executor<U>*, detail::awaited_wish);

    static constexpr auto lease_wanted = detail::awaited_thing::lease;

    struct shard {
        const boost::asio::execution_context* context;
        std::unique_ptr<pool<T>> resources;
    };

    static invalid_option too_few(std::size_t max) {
        return {"max", std::to_string(max), "must be at least the number of loops"};
    }

    /// What falls to shard `number` of `count` when something is divided.
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

    /// Starts the same operation in every shard and completes when all have ended.
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
    auto acquire(const detail::awaited_wish& wish, Token&& token) {
        return detail::acquire_at_home_with<T, std::decay_t<Token>>::start(
            this, wish, std::forward<Token>(token));
    }

    template <class Executor>
    detail::gate* gate_on(const Executor& where) {
        return on(where).gate_;
    }

    /// What is ready in another shard, if `home` has nothing. Null: the acquire goes on at home.
    detail::resource* steal_for(detail::gate* home, std::source_location site) {
        // What has to be looked at elsewhere cannot be taken here and now.
        if (stealing_ == stealing::off || home->looks_elsewhere()) return nullptr;
        if (detail::resource* r = ready_in(home, site)) return r;
        std::size_t count = shards_.size();
        std::size_t at = 0;
        while (shards_[at].resources->gate_ != home) ++at;
        for (std::size_t i = 1; i < count; ++i) {
            detail::gate* other = shards_[(at + i) % count].resources->gate_;
            if (detail::resource* r = ready_in(other, site)) return r;
        }
        return nullptr;
    }
    /// A crowded shard costs a load: its lock is left to its own loop.
    static detail::resource* ready_in(detail::gate* shard, std::source_location site) {
        constexpr std::uint64_t coroutine = 0;
        if (shard->has_waiters()) return nullptr;
        if (detail::resource* r = shard->take(site, coroutine)) return r;
        return shard->may_have_ready() ? shard->try_acquire(site, coroutine) : nullptr;
    }

    pool<T>& first() { return *shards_.front().resources; }

    std::vector<shard> shards_;
    std::size_t min_size_;
    std::size_t min_idle_;
    stealing stealing_;
};

}  // namespace cenote
