// Pooling of ORM sessions: objects that own a connection and are cleared between users.
#pragma once
#include <concepts>
#include <exception>
#include <functional>
#include <type_traits>
#include <utility>

#include "cenote/detail/connector_of.hpp"
#include "cenote/detail/unit_connector.hpp"
#include "cenote/verdict.hpp"

namespace cenote {

/// A function of a unit: a callable that takes a T& and returns bool or nothing, or a pointer to a
/// member of T or of the type that T points to. False or an exception means failure.
template <class T>
class unit_hook {
public:
    /// Whether a hook may return this type.
    template <class Answer>
    static constexpr bool understands = detail::bool_or_nothing<Answer>;

    /// No function.
    unit_hook() = default;

    /// Calls `call`.
    template <class F>
        requires(!std::same_as<F, unit_hook> && std::invocable<F&, T&>)
    unit_hook(F call) {  // not explicit: for designated initializers
        using answer = std::invoke_result_t<F&, T&>;
        static_assert(understands<answer>,
                      "cenote: a hook of unit_of_work must return bool or nothing");
        std::function<answer(T&)> hook(std::move(call));
        if (hook == nullptr) return;
        call_ = [hook = std::move(hook)](T& unit) {
            return detail::says_yes([&]() -> decltype(auto) { return hook(unit); });
        };
    }

    /// Whether there is a function.
    explicit operator bool() const noexcept { return call_ != nullptr; }

    /// True if there is no function.
    bool operator()(T& unit) const { return call_ == nullptr || call_(unit); }

private:
    std::function<bool(T&)> call_;
};

/// The functions that unit_of_work calls: an aggregate for designated initializers. For `rollback`,
/// `clear`, `broken` and `probe` the default is T's member of that name, if there is one.
template <class T, class Hook = unit_hook<T>>
struct unit_hooks {
    /// Ends a transaction that the last user left open. It is also called without a transaction,
    /// and must succeed then. May block.
    Hook rollback = {};

    /// Drops everything that belongs to the last user: objects that were read, changes that were
    /// not written, the identity of the user. Called after rollback. May block.
    Hook clear = {};

    /// Whether the unit is unusable. Must be quick: it is called on the thread that ends the lease,
    /// and on a thread of the pool after each rollback and clear. A null unit counts as broken.
    std::function<bool(T&)> broken = {};

    /// Whether the unit works: the connector's probe. May block. It must leave nothing behind,
    /// because no rollback follows.
    Hook probe = {};

    /// Default: a unit with `broken` is kept unless it is broken, and a unit without it is
    /// discarded. What an exception of pool::with or of `make` means. A unit that is kept is
    /// cleared in any case.
    std::function<verdict(const std::exception_ptr&)> classify = {};

    /// Default `classify`. What an exception of `make` means (see connector.hpp).
    std::function<verdict(const std::exception_ptr&)> classify_open = {};
};

/// A connector for units of work: objects, like the session of an ORM, that own a connection and
/// collect what their user has read and changed.
///
///     cenote::pool<session> units{cenote::unit_of_work<session>{[] { return session{"db"}; }},
///                                 {.max = 8, .max_uses = 1000}};
///
/// A user finds nothing that an earlier user left behind. At the end of each lease:
///
/// 1. A broken unit is retired (reason `rejected`).
/// 2. Other units are rolled back and cleared before their next use, on a thread of the pool and
///    within options::reset_timeout. The last user does not wait for it.
/// 3. If rollback or clear fails, throws or takes too long, or if the unit is broken afterwards,
/// the
///    unit is retired (`reset_failed` with the exception, then `retired`).
///
/// A unit that is retired, also by its age or uses (options::max_lifetime, max_uses), is destroyed
/// as its user left it. T's destructor must therefore end an open transaction.
///
/// Thread safety: `make` and the hooks are called from several threads at once, each time for
/// another unit.
template <class T>
class unit_of_work : public detail::unit_connector<T, T, unit_hook<T>> {
    using base = detail::unit_connector<T, T, unit_hook<T>>;

public:
    /// `make` returns a new unit; an exception of it is a failed open.
    ///
    /// Throws invalid_option if `make` is null, if there is neither a rollback nor a clear, or if
    /// T's member of one of the names returns another type than bool or void (broken: bool) and no
    /// hook replaces it.
    explicit unit_of_work(std::function<T()> make, unit_hooks<T> hooks = {})
        : base(std::move(make), std::move(hooks)) {}

    /// The members of a connector, for the pool.
    T open() const { return this->make_(); }
    /// Rolls back, then clears. False if that fails or the unit is broken.
    bool reset(T& unit) const {
        return this->hooks_.rollback(unit) && this->hooks_.clear(unit) && !this->is_broken(unit);
    }
    /// What the hook `probe` answers.
    bool probe(T& unit) const { return this->hooks_.probe(unit); }
};

template <class Make>
unit_of_work(Make) -> unit_of_work<std::invoke_result_t<Make&>>;
template <class Make>
unit_of_work(Make, unit_hooks<std::invoke_result_t<Make&>>)
    -> unit_of_work<std::invoke_result_t<Make&>>;

}  // namespace cenote
