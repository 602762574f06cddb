// Awaiting a lease with Boost.Asio: any completion token, cancellable, without a thread or a timer
// per wait.
#pragma once

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/append.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <source_location>
#include <system_error>
#include <type_traits>
#include <utility>

#include "cenote/asio_connector.hpp"
#include "cenote/detail/gate.hpp"
#include "cenote/detail/waiter.hpp"
#include "cenote/lease.hpp"
#include "cenote/pool.hpp"

namespace cenote::detail {

namespace asio = boost::asio;

/// How a wait ended. The pool may be gone; its gate is there while the handler is called.
struct acquire_answer {
    resource* got = nullptr;
    std::error_code error;
    std::chrono::steady_clock::time_point arrived{};
    std::size_t left = 0;
};

/// Room for an operation where somebody has it already: in a coroutine's frame.
struct operation_room {
    alignas(std::max_align_t) std::byte bytes[400];
};

/// One wait, as Asio wants it: completes through the handler's executor, keeps the executor busy,
/// uses the handler's allocator, and can be cancelled through the handler's slot.
///
/// It lives from start() until its completion has run, or until whatever was to run it is
/// destroyed.
template <class Handler>
class acquire_operation final : public waiter {
public:
    static void start(const awaited_wish& wish, Handler&& handler, operation_room* room) {
        place at(handler, room);
        auto* op = ::new (at.where) acquire_operation(wish, std::move(handler), room);
        at.where = nullptr;
        op->begin();
    }

private:
    using executor = asio::associated_executor_t<Handler>;
    using loop_executor = asio::io_context::executor_type;
    using allocator = typename std::allocator_traits<
        asio::associated_allocator_t<Handler>>::template rebind_alloc<acquire_operation>;

    /// Memory for one, given back unless it is used.
    struct place {
        place(const Handler& handler, operation_room* room)
            : from(asio::get_associated_allocator(handler)), in_room(room != nullptr) {
            static_assert(alignof(acquire_operation) <= alignof(std::max_align_t));
            if (in_room) where = room->bytes;
            else where = std::allocator_traits<allocator>::allocate(from, 1);
        }
        ~place() {
            if (where == nullptr || in_room) return;
            std::allocator_traits<allocator>::deallocate(from,
                                                         static_cast<acquire_operation*>(where), 1);
        }
        place(const place&) = delete;
        place& operator=(const place&) = delete;

        allocator from;
        bool in_room;
        void* where = nullptr;
    };

    /// Memory for what an io_context queues, which gives it back before it runs it: so there is
    /// room in the operation, and whoever ends a lease needs no memory.
    template <class Object>
    struct room_allocator {
        using value_type = Object;

        explicit room_allocator(std::byte* r) noexcept : room(r) {}
        template <class Other>
        room_allocator(const room_allocator<Other>& other) noexcept : room(other.room) {}

        Object* allocate(std::size_t) noexcept {
            static_assert(sizeof(Object) <= post_room && alignof(Object) <= alignof(void*));
            return reinterpret_cast<Object*>(room);
        }
        void deallocate(Object*, std::size_t) noexcept {}
        bool operator==(const room_allocator&) const = default;

        std::byte* room;
    };

    /// What the executor runs. If it is destroyed instead, so is the operation.
    struct completion {
        explicit completion(acquire_operation* o) noexcept : op(o) {}
        completion(completion&& other) noexcept : op(std::exchange(other.op, nullptr)) {}
        ~completion() {
            if (op != nullptr) op->drop();
        }
        void operator()() { std::exchange(op, nullptr)->complete(); }

        acquire_operation* op;
    };
    struct completion_in_room : completion {
        using allocator_type = room_allocator<void*>;

        using completion::completion;
        allocator_type get_allocator() const noexcept {
            return allocator_type(this->op->post_room_);
        }
    };
    struct completion_elsewhere : completion {
        using allocator_type = asio::associated_allocator_t<Handler>;

        using completion::completion;
        allocator_type get_allocator() const noexcept {
            return asio::get_associated_allocator(this->op->handler_);
        }
    };

    struct canceler {
        acquire_operation* op;
        void operator()(asio::cancellation_type) const noexcept { op->gate_->cancel(*op); }
    };

    acquire_operation(const awaited_wish& wish, Handler&& handler, operation_room* room)
        : gate_(wish.from), in_room_(room != nullptr), handler_(std::move(handler)) {
        // Whoever has room for it is a coroutine, which keeps its executor busy anyway.
        if (!in_room_) work_.emplace(asio::get_associated_executor(handler_));
        executor where = asio::get_associated_executor(handler_);
        if constexpr (std::is_same_v<executor, asio::any_io_executor>) {
            if (auto* loop = where.template target<loop_executor>()) loop_.emplace(*loop);
        } else if constexpr (std::is_same_v<executor, loop_executor>) {
            loop_.emplace(where);
        }
        asynchronous = true;
        what = wish.what;
        site = wish.site;
        timeout = wish.timeout;
        deadline = wish.deadline;
        wants = wish.how;
    }
    ~acquire_operation() override = default;

    void begin() noexcept {
        try {
            auto slot = asio::get_associated_cancellation_slot(handler_);
            if (slot.is_connected()) slot.template emplace<canceler>(canceler{this});
            if (gate_->ask(*this)) return;  // from here on it may be gone
        } catch (const std::bad_alloc&) {
            failure_ = std::make_error_code(std::errc::not_enough_memory);
        } catch (const std::system_error& e) {
            failure_ = e.code();
        }
        notify();
    }

    // NOLINTNEXTLINE(bugprone-exception-escape): who cannot be told cannot be left waiting either
    void notify() noexcept override {
        if (auto loop = loop_)
            asio::post(*loop, completion_in_room(this));  // a copy: it may be gone
        else asio::post(asio::get_associated_executor(handler_), completion_elsewhere(this));
    }

    /// On the handler's executor.
    void complete() {
        auto slot = asio::get_associated_cancellation_slot(handler_);
        if (slot.is_connected()) slot.clear();
        acquire_answer answer{got, failure_ ? failure_ : refusal(), arrived, left};
        auto work = std::move(work_);
        struct forgets {
            gate* kept;
            ~forgets() {
                if (kept != nullptr) kept->forget();
            }
        };
        [[maybe_unused]] forgets at_the_end{keeps_keeper ? gate_ : nullptr};
        Handler handler = free();
        std::move(handler)(answer);
    }

    /// Nobody will ever run it.
    void drop() noexcept {
        if (got != nullptr) gate_->put_unused(got);
        if (keeps_keeper) gate_->forget();
        free();
    }

    /// Gives the memory back before the handler runs, which may start the next one.
    Handler free() noexcept {
        allocator from(asio::get_associated_allocator(handler_));
        bool in_room = in_room_;
        Handler handler(std::move(handler_));
        this->~acquire_operation();
        if (!in_room) std::allocator_traits<allocator>::deallocate(from, this, 1);
        return handler;
    }

    std::error_code refusal() const {
        return error == errc{} || got != nullptr ? std::error_code() : error;
    }

    gate* gate_;
    std::error_code failure_;
    bool in_room_;
    Handler handler_;
    std::optional<asio::executor_work_guard<executor>> work_;
    /// The handler's executor, if that is an io_context's: asked by its own name it needs no
    /// memory, and is not looked for in frames that are cold by then.
    std::optional<loop_executor> loop_;
    static constexpr std::size_t post_room = 64;
    alignas(void*) std::byte post_room_[post_room];
};

/// Starts a wait whose handler takes an acquire_answer.
struct start_waiting {
    template <class Handler>
    void operator()(Handler&& handler, const awaited_wish* wish, operation_room* room) const {
        using operation = acquire_operation<std::decay_t<Handler>>;
        if (sizeof(operation) > sizeof(operation_room)) room = nullptr;
        operation::start(*wish, std::decay_t<Handler>(std::forward<Handler>(handler)), room);
    }
};

/// The user's handler, which wants other words; `Tell` knows them.
template <class Tell, class Handler>
struct translated_handler {
    using executor_type = asio::associated_executor_t<Handler>;
    using allocator_type = asio::associated_allocator_t<Handler>;
    using cancellation_slot_type = asio::associated_cancellation_slot_t<Handler>;

    executor_type get_executor() const noexcept { return asio::get_associated_executor(handler); }
    allocator_type get_allocator() const noexcept {
        return asio::get_associated_allocator(handler);
    }
    cancellation_slot_type get_cancellation_slot() const noexcept {
        return asio::get_associated_cancellation_slot(handler);
    }

    void operator()(acquire_answer answer) { tell(std::move(handler), answer); }

    Tell tell;
    Handler handler;
};

/// (error_code, lease<T>).
template <class T>
struct tell_lease {
    template <class Handler>
    void operator()(Handler&& handler, acquire_answer& answer) const {
        if (answer.error.category() == pool_category())
            from->refused(static_cast<errc>(answer.error.value()));
        std::forward<Handler>(handler)(boost::system::error_code(answer.error),
                                       lease_maker::of<T>(answer.got));
    }

    gate* from;
};

/// (error_code, leases still out).
struct tell_left {
    template <class Handler>
    void operator()(Handler&& handler, acquire_answer& answer) const {
        std::forward<Handler>(handler)(boost::system::error_code(answer.error), answer.left);
    }
};

/// (error_code).
struct tell_error {
    template <class Handler>
    void operator()(Handler&& handler, acquire_answer& answer) const {
        std::forward<Handler>(handler)(boost::system::error_code(answer.error));
    }
};

/// Starts a wait whose handler takes what `Tell` says.
template <class Tell>
struct start_telling {
    template <class Handler>
    void operator()(Handler&& handler, awaited_wish wish) const {
        using translated = translated_handler<Tell, std::decay_t<Handler>>;
        acquire_operation<translated>::start(wish, translated{tell, std::forward<Handler>(handler)},
                                             nullptr);
    }

    Tell tell;
};

/// Starts an acquire whose handler takes (error_code, lease<T>).
template <class T>
struct start_acquire {
    template <class Handler>
    void operator()(Handler&& handler, awaited_wish wish) const {
        if (!wish.from->looks_elsewhere()) {
            if (resource* r = wish.from->take(wish.site, wish.how, 0)) {
                return asio::post(asio::append(std::forward<Handler>(handler),
                                               boost::system::error_code(), lease_maker::of<T>(r)));
            }
        }
        start_telling<tell_lease<T>>{{wish.from}}(std::forward<Handler>(handler), wish);
    }
};

/// For coroutines of Asio's own kind: what is ready is taken without a detour through the queue,
/// and the wait lives in this frame.
///
/// What it is given comes one by one: a struct would be copied in larger pieces than it was written
/// in, and processors wait then.
template <class T, class Executor>
asio::awaitable<lease<T>, Executor> await_acquire(gate* from, std::chrono::nanoseconds timeout,
                                                  std::chrono::steady_clock::time_point deadline,
                                                  std::source_location site, manner how = {}) {
    if (!from->looks_elsewhere() && !from->lane_is_shut()) {
        if (resource* r = from->take(site, how, 0)) co_return lease_maker::of<T>(r);
    }
    awaited_wish wish{from, awaited_thing::lease, timeout, deadline, site, how};
    operation_room room;
    acquire_answer answer =
        co_await asio::async_initiate<const asio::deferred_t&, void(acquire_answer)>(
            start_waiting{}, asio::deferred, &wish, &room);
    if (answer.got != nullptr) co_return lease_maker::of<T>(answer.got);
    if (answer.error.category() != pool_category()) throw std::system_error(answer.error);
    auto why = static_cast<errc>(answer.error.value());
    from->refused(why);
    from->fail(why, answer.arrived, how.queues);
}

template <class T, class Token>
struct acquire_with {
    static auto start(const awaited_wish& wish, Token token) {
        return asio::async_initiate<Token, void(boost::system::error_code, lease<T>)>(
            start_acquire<T>{}, token, wish);
    }
};

template <class T, class Executor>
struct acquire_with<T, asio::use_awaitable_t<Executor>> {
    static auto start(const awaited_wish& wish, const asio::use_awaitable_t<Executor>&) {
        return await_acquire<T, Executor>(wish.from, wish.timeout, wish.deadline, wish.site,
                                          wish.how);
    }
};

template <class T, class Token>
auto async_acquire(const awaited_wish& wish, Token&& token) {
    return acquire_with<T, std::decay_t<Token>>::start(wish, std::forward<Token>(token));
}

}  // namespace cenote::detail

namespace cenote {

template <class T>
template <class Token>
auto pool<T>::async_acquire(Token&& token, std::source_location at) {
    return detail::async_acquire<T>(
        {gate_, detail::awaited_thing::lease, gate_->acquire_timeout(), {}, at},
        std::forward<Token>(token));
}

template <class T>
template <class Token>
auto pool<T>::async_acquire(const acquire_options& how, Token&& token, std::source_location at) {
    auto timeout =
        std::max(how.timeout.value_or(gate_->acquire_timeout()), std::chrono::nanoseconds{0});
    return detail::async_acquire<T>(
        {gate_, detail::awaited_thing::lease, timeout, {}, at, gate_->manner_of(how)},
        std::forward<Token>(token));
}

template <class T>
template <class Token>
auto pool<T>::async_acquire_for(std::chrono::nanoseconds timeout, Token&& token,
                                std::source_location at) {
    return detail::async_acquire<T>({gate_,
                                     detail::awaited_thing::lease,
                                     std::max(timeout, std::chrono::nanoseconds{0}),
                                     {},
                                     at},
                                    std::forward<Token>(token));
}

template <class T>
template <class Token>
auto pool<T>::async_acquire_until(std::chrono::steady_clock::time_point deadline, Token&& token,
                                  std::source_location at) {
    return detail::async_acquire<T>(
        {gate_, detail::awaited_thing::lease, std::chrono::nanoseconds{-1}, deadline, at},
        std::forward<Token>(token));
}

template <class T>
template <class Token>
auto pool<T>::async_close(std::chrono::nanoseconds timeout, Token&& token) {
    auto at_most = std::max(timeout, std::chrono::nanoseconds{0});
    return boost::asio::async_initiate<Token, void(boost::system::error_code, std::size_t)>(
        detail::start_telling<detail::tell_left>{}, token,
        detail::awaited_wish{gate_, detail::awaited_thing::drained, at_most, {}, {}});
}

template <class T>
template <class Token>
auto pool<T>::async_wait_ready(std::chrono::nanoseconds timeout, Token&& token) {
    auto at_most = std::max(timeout, std::chrono::nanoseconds{0});
    return boost::asio::async_initiate<Token, void(boost::system::error_code)>(
        detail::start_telling<detail::tell_error>{}, token,
        detail::awaited_wish{gate_, detail::awaited_thing::ready, at_most, {}, {}});
}

template <class T>
template <class Token>
auto pool<T>::async_wait_ready(Token&& token) {
    return async_wait_ready(forever, std::forward<Token>(token));
}

}  // namespace cenote
