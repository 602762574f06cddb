// Waits of Boost.Asio: an operation with a handler, and a coroutine that awaits a lease.
#pragma once

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/append.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <source_location>
#include <stop_token>
#include <system_error>
#include <type_traits>
#include <utility>

#include "cenote/coroutine.hpp"
#include "cenote/detail/gate.hpp"
#include "cenote/detail/waiter.hpp"
#include "cenote/lease.hpp"

namespace cenote {

template <class T>
class acquired;

}  // namespace cenote

namespace cenote::detail {

namespace asio = boost::asio;

/// How a wait ended. The pool may be gone; its gate lives until the handler has returned.
struct acquire_answer {
    resource* got = nullptr;
    std::error_code error;
    std::chrono::steady_clock::time_point arrived{};
    std::size_t left = 0;
};

/// The io_context of the handler's executor, or null. Posting to it directly needs no allocation.
template <class Handler>
asio::io_context* loop_of(const Handler& handler) {
    using executor = asio::associated_executor_t<Handler>;
    using of_loop = asio::io_context::executor_type;
    if constexpr (std::is_same_v<executor, of_loop>) {
        return &asio::query(asio::get_associated_executor(handler), asio::execution::context);
    } else if constexpr (std::is_same_v<executor, asio::any_io_executor>) {
        executor where = asio::get_associated_executor(handler);
        if (auto* it = where.template target<of_loop>())
            return &asio::query(*it, asio::execution::context);
    }
    return nullptr;
}

/// Memory for the entry that an io_context queues. The memory is part of the operation, so the
/// release that ends a wait does not allocate.
inline constexpr std::size_t post_room_size = 40;
template <class Object>
struct room_allocator {
    using value_type = Object;

    explicit room_allocator(std::byte* r) noexcept : room(r) {}
    template <class Other>
    room_allocator(const room_allocator<Other>& other) noexcept : room(other.room) {}

    Object* allocate(std::size_t) noexcept {
        static_assert(sizeof(Object) <= post_room_size && alignof(Object) <= alignof(void*));
        return reinterpret_cast<Object*>(room);
    }
    void deallocate(Object*, std::size_t) noexcept {}
    bool operator==(const room_allocator&) const = default;

    std::byte* room;
};

/// The function that an executor runs to complete an operation. If it is destroyed instead, it
/// drops the operation.
template <class Operation>
struct completion {
    explicit completion(Operation* o) noexcept : op(o) {}
    completion(completion&& other) noexcept : op(std::exchange(other.op, nullptr)) {}
    ~completion() {
        if (op != nullptr) op->drop();
    }
    void operator()() { std::exchange(op, nullptr)->complete(); }

    Operation* op;
};
template <class Operation>
struct completion_in_room : completion<Operation> {
    using allocator_type = room_allocator<void*>;

    using completion<Operation>::completion;
    allocator_type get_allocator() const noexcept { return allocator_type(this->op->post_room()); }
};
template <class Operation>
struct completion_elsewhere : completion<Operation> {
    using allocator_type = asio::associated_allocator_t<typename Operation::handler_type>;

    using completion<Operation>::completion;
    allocator_type get_allocator() const noexcept {
        return asio::get_associated_allocator(this->op->handler());
    }
};

/// Completes an operation on the handler's executor. The operation may be gone afterwards.
template <class Operation>
void post_completion(Operation* op, asio::io_context* loop) {
    if (loop != nullptr) asio::post(loop->get_executor(), completion_in_room<Operation>(op));
    else
        asio::post(asio::get_associated_executor(op->handler()),
                   completion_elsewhere<Operation>(op));
}

/// One wait with a handler. It completes on the handler's executor, keeps the executor busy, uses
/// the handler's allocator, and can be canceled through the handler's cancellation slot.
///
/// It lives from start() until its completion has run or was destroyed.
template <class Handler>
class acquire_operation final : public waiter {
public:
    using handler_type = Handler;

    static void start(const wait_request& request, Handler&& handler) {
        place at(handler);
        auto* op = ::new (at.where) acquire_operation(request, std::move(handler));
        at.where = nullptr;
        op->begin();
    }

    const Handler& handler() const noexcept { return handler_; }
    std::byte* post_room() noexcept { return post_room_; }

    /// On the handler's executor.
    void complete() {
        auto slot = asio::get_associated_cancellation_slot(handler_);
        if (slot.is_connected()) slot.clear();
        stop_.reset();  // before the keeper may be gone
        acquire_answer answer{got, failure_ ? failure_ : refusal(), arrived, left};
        if (what == wait_target::lease && got == nullptr && !failure_) gate_->report_refusal(*this);
        auto work = std::move(work_);
        struct forgets {
            gate* kept;
            ~forgets() {
                if (kept != nullptr) kept->drop_reference();
            }
        };
        [[maybe_unused]] forgets at_the_end{keeps_keeper ? gate_ : nullptr};
        Handler handler = free();
        std::move(handler)(answer);
    }

    /// The executor was destroyed before it ran the completion.
    void drop() noexcept {
        stop_.reset();  // before the keeper may be gone
        if (got != nullptr) gate_->put_unused(got);
        if (keeps_keeper) gate_->drop_reference();
        free();
    }

private:
    using executor = asio::associated_executor_t<Handler>;
    using allocator = typename std::allocator_traits<
        asio::associated_allocator_t<Handler>>::template rebind_alloc<acquire_operation>;

    /// Memory for one operation, freed unless it is used.
    struct place {
        explicit place(const Handler& handler)
            : from(asio::get_associated_allocator(handler)),
              where(std::allocator_traits<allocator>::allocate(from, 1)) {}
        ~place() {
            if (where != nullptr) std::allocator_traits<allocator>::deallocate(from, where, 1);
        }
        place(const place&) = delete;
        place& operator=(const place&) = delete;

        allocator from;
        acquire_operation* where;
    };

    struct canceler {
        acquire_operation* op;
        void operator()(asio::cancellation_type) const noexcept { op->gate_->cancel(*op); }
        void operator()() const noexcept { op->gate_->cancel(*op); }
    };
    struct stopping {
        explicit stopping(std::stop_token t) noexcept : token(std::move(t)) {}

        std::stop_token token;
        std::optional<std::stop_callback<canceler>> called;
    };

    acquire_operation(const wait_request& request, Handler&& handler)
        : gate_(request.from),
          handler_(std::move(handler)),
          work_(asio::get_associated_executor(handler_)),
          loop_(loop_of(handler_)) {
        asynchronous = true;
        what = request.what;
        site = request.site;
        timeout = request.timeout;
        deadline = request.deadline;
        wants = request.terms;
        trace = kept_trace_.keep(request.trace);
        if (request.stop) stop_.emplace(request.stop.token());
    }
    ~acquire_operation() override = default;

    void begin() noexcept {
        try {
            auto slot = asio::get_associated_cancellation_slot(handler_);
            if (slot.is_connected()) slot.template emplace<canceler>(canceler{this});
            if (stop_) stop_->called.emplace(stop_->token, canceler{this});
            if (gate_->begin_wait(*this)) return;  // *this may be gone
        } catch (const std::bad_alloc&) {
            failed(std::make_error_code(std::errc::not_enough_memory));
        } catch (const std::system_error& e) {
            failed(e.code());
        }
        notify();
    }

    void failed(std::error_code why) noexcept {
        failure_ = why;
        stop_.reset();  // nothing keeps the keeper
    }

    // NOLINTNEXTLINE(bugprone-exception-escape): a handler that cannot be posted cannot be dropped
    void notify() noexcept override { post_completion(this, loop_); }

    /// Frees the memory before the handler runs, which may start the next operation.
    Handler free() noexcept {
        allocator from(asio::get_associated_allocator(handler_));
        Handler handler(std::move(handler_));
        this->~acquire_operation();
        std::allocator_traits<allocator>::deallocate(from, this, 1);
        return handler;
    }

    std::error_code refusal() const {
        return error == errc{} || got != nullptr ? std::error_code() : error;
    }

    gate* gate_;
    std::error_code failure_;
    std::optional<stopping> stop_;
    Handler handler_;
    asio::executor_work_guard<executor> work_;
    asio::io_context* loop_;
    kept_trace kept_trace_;
    alignas(void*) std::byte post_room_[post_room_size];
};

/// Adapts the user's handler: `Tell` translates the answer into the handler's arguments.
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
        std::forward<Handler>(handler)(boost::system::error_code(answer.error),
                                       lease_maker::of<T>(answer.got));
    }
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

/// Starts a wait whose handler takes the arguments that `Tell` makes.
template <class Tell>
struct start_telling {
    template <class Handler>
    void operator()(Handler&& handler, wait_request request) const {
        using translated = translated_handler<Tell, std::decay_t<Handler>>;
        acquire_operation<translated>::start(request,
                                             translated{tell, std::forward<Handler>(handler)});
    }

    Tell tell;
};

/// The trace of a request that may be stored and run later, when it refers to it no longer.
inline trace_context trace_in(const wait_request& request) noexcept {
    return request.trace == nullptr ? trace_context{} : *request.trace;
}

/// Starts an acquire whose handler takes (error_code, lease<T>).
template <class T>
struct start_acquire {
    template <class Handler>
    void operator()(Handler&& handler, wait_request request) const {
        request.trace = trace ? &trace : nullptr;
        if (!request.from->before_acquire_may_block()) {
            if (resource* r = request.from->take(request.site, request.terms, 0)) {
                return asio::post(asio::append(std::forward<Handler>(handler),
                                               boost::system::error_code(), lease_maker::of<T>(r)));
            }
        }
        start_telling<tell_lease<T>>{}(std::forward<Handler>(handler), request);
    }

    trace_context trace;
};

/// Whether Asio made this handler for a coroutine that awaits an operation with this signature:
/// only then the signature is part of the handler's type.
template <class Handler, class Signature>
inline constexpr bool is_of_coroutine = false;
template <template <class...> class Handler, class Signature, class... Rest>
inline constexpr bool is_of_coroutine<Handler<Signature, Rest...>, Signature> = true;

/// A coroutine that is resumed within its own suspension, because its lease was ready. If it awaits
/// the same object again, the loop that resumed it does so again: a loop of acquires needs no more
/// stack than one acquire.
class resuming {
public:
    /// At this depth a lease that is ready goes through the executor's queue.
    static constexpr unsigned deepest = 16;

    explicit resuming(const void* who) noexcept
        : who_(who),
          outer_(std::exchange(here, this)),
          depth_(outer_ == nullptr ? 1 : outer_->depth_ + 1) {}
    ~resuming() { here = outer_; }
    resuming(const resuming&) = delete;
    resuming& operator=(const resuming&) = delete;

    /// True: the loop further up on this stack will resume it.
    static bool again(const void* who) noexcept {
        if (here == nullptr || here->who_ != who) return false;
        return here->again_ = true;
    }
    static bool too_deep() noexcept { return here != nullptr && here->depth_ >= deepest; }
    bool once_more() noexcept { return std::exchange(again_, false); }

private:
    static inline constinit thread_local resuming* here = nullptr;

    const void* who_;  // the awaited object in its frame
    resuming* outer_;
    unsigned depth_;
    bool again_ = false;
};

/// Resumes a coroutine of Asio through the handler that Asio made for it. The handler lies in the
/// waiter's room during the wait. The coroutine itself keeps its executor busy.
template <class T, class Handler>
class asio_wait {
public:
    using handler_type = Handler;

    /// Called by Asio when the coroutine is suspended, on its executor.
    static void start(awaited<T>& who, Handler&& handler) {
        static_assert(sizeof(asio_wait) <= awaited<T>::room_size);
        auto* me = ::new (who.room_) asio_wait(who, std::move(handler));
        who.way_ = &way;
        if (!who.await_ready() && me->ask()) return;  // *me may be gone
        // A refusal goes through the queue, so a coroutine that retries does not block its loop.
        if (who.got != nullptr && resume(who)) return;
        me->loop_ = loop_of(me->handler_);
        go_on(who);
    }

    const Handler& handler() const noexcept { return handler_; }
    std::byte* post_room() noexcept { return post_room_; }

    /// On the coroutine's executor.
    void complete() {
        awaited<T>& who = who_;
        let_go()(acquired<T>(who));
    }
    /// The executor was destroyed, and the coroutine with it.
    void drop() noexcept {
        who_.abandon();
        failure_ = nullptr;
        [[maybe_unused]] Handler last = let_go();
    }

private:
    struct canceler {
        awaited<T>* who;
        void operator()(asio::cancellation_type) const noexcept { who->gate_->cancel(*who); }
    };

    asio_wait(awaited<T>& who, Handler&& handler) : who_(who), handler_(std::move(handler)) {}

    /// False: it has to go through the queue.
    static bool resume(awaited<T>& who) {
        if (resuming::again(&who)) return true;
        if (resuming::too_deep()) return false;
        resuming turn(&who);
        do in(who.room_).complete();
        while (turn.once_more());
        return true;
    }

    /// True: it waits.
    bool ask() noexcept {
        try {
            auto slot = asio::get_associated_cancellation_slot(handler_);
            has_slot_ = slot.is_connected();
            if (has_slot_) slot.template emplace<canceler>(canceler{&who_});
            who_.listen();
            loop_ = loop_of(handler_);
            return who_.gate_->begin_wait(who_);
        } catch (...) {
            failure_ = std::current_exception();
            return false;
        }
    }

    /// Moves the handler out; what is left needs no destructor.
    Handler let_go() noexcept {
        if (has_slot_) asio::get_associated_cancellation_slot(handler_).clear();
        return std::move(handler_);
    }

    static asio_wait& in(void* room) noexcept {
        return *std::launder(static_cast<asio_wait*>(room));
    }
    // NOLINTNEXTLINE(bugprone-exception-escape): a handler that cannot be posted cannot be dropped
    static void go_on(coroutine_waiter& who) noexcept {
        asio_wait& me = in(static_cast<awaited<T>&>(who).room_);
        fetch_frame(&who);
        post_completion(&me, me.loop_);
    }
    /// Prefetches the frame: the coroutine runs soon, and its frame is cold after a long wait.
    static void fetch_frame(const void* who) noexcept {
        const auto* here = static_cast<const std::byte*>(who);
        for (std::ptrdiff_t offset : {-128, -64, 256}) __builtin_prefetch(here + offset);
    }
    static void rethrow(void* room) {
        if (std::exception_ptr why = std::exchange(in(room).failure_, nullptr))
            std::rethrow_exception(why);
    }
    static constexpr resume_way way = {.go_on = &go_on, .retract = nullptr, .rethrow = &rethrow};

    awaited<T>& who_;
    Handler handler_;
    asio::io_context* loop_ = nullptr;
    std::exception_ptr failure_;
    bool has_slot_ = false;
    alignas(void*) std::byte post_room_[post_room_size];
};

/// Makes awaited<T> an operation that a coroutine of Asio can await.
template <class T, class Token>
struct asio_start {};
template <class T, class Token>
    requires asio::completion_token_for<Token, void(acquired<T>)>
struct asio_start<T, Token> {
    struct initiation {
        template <class Handler>
        void operator()(Handler&& handler, awaited<T>* who) const {
            using type = std::decay_t<Handler>;
            static_assert(is_of_coroutine<type, void(acquired<T>)>,
                          "cenote: co_acquire is for co_await; completion tokens are for "
                          "async_acquire");
            asio_wait<T, type>::start(*who, std::forward<Handler>(handler));
        }
    };

    static auto with(Token&& token, awaited<T>& who) {
        return asio::async_initiate<Token, void(acquired<T>)>(initiation{}, token, &who);
    }
    using result = decltype(with(std::declval<Token>(), std::declval<awaited<T>&>()));
};

/// async_acquire(use_awaitable). A lease that is ready needs no second suspension.
///
/// The request comes in pieces: a struct would be copied in larger pieces than it was written in,
/// and processors stall on that.
template <class T, class Executor>
asio::awaitable<lease<T>, Executor> await_acquire(gate* from, std::chrono::nanoseconds timeout,
                                                  std::chrono::steady_clock::time_point deadline,
                                                  std::source_location site, lease_terms terms,
                                                  stop_reference stop) {
    if (!from->before_acquire_may_block() && !from->lane_is_shut()) {
        if (resource* r = from->take(site, terms, 0)) co_return lease_maker::of<T>(r);
    }
    wait_request request{from, wait_target::lease, timeout, deadline, site, terms, stop};
    co_return co_await awaited<T>(request);
}

template <class T, class Executor>
asio::awaitable<lease<T>, Executor> await_acquire_in(trace_context trace, wait_request request) {
    request.trace = &trace;
    co_return co_await awaited<T>(request);
}

template <class T, class Token>
struct acquire_with {
    static auto start(const wait_request& request, Token token) {
        return asio::async_initiate<Token, void(boost::system::error_code, lease<T>)>(
            start_acquire<T>{trace_in(request)}, token, request);
    }
};

template <class T, class Executor>
struct acquire_with<T, asio::use_awaitable_t<Executor>> {
    static auto start(const wait_request& request, const asio::use_awaitable_t<Executor>&) {
        if (request.trace != nullptr) [[unlikely]]
            return await_acquire_in<T, Executor>(*request.trace, request);
        return await_acquire<T, Executor>(request.from, request.timeout, request.deadline,
                                          request.site, request.terms, request.stop);
    }
};

template <class T, class Token>
auto async_acquire(const wait_request& request, Token&& token) {
    constexpr bool fits =
        asio::completion_token_for<Token, void(boost::system::error_code, lease<T>)>;
    static_assert(fits,
                  "cenote: the handler of async_acquire must accept (boost::system::error_code, "
                  "cenote::lease<T>), or be a completion token of Boost.Asio");
    if constexpr (fits)
        return acquire_with<T, std::decay_t<Token>>::start(request, std::forward<Token>(token));
}

}  // namespace cenote::detail
