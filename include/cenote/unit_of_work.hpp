// Pooled objects that own a connection for as long as they live, and are cleared between users.
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <type_traits>
#include <utility>

#include "cenote/connector.hpp"
#include "cenote/options.hpp"

namespace cenote {

/// What is done to a unit: anything that can be called with a T& and returns bool or nothing, also
/// a pointer to a member of T, or of what T points to. False or an exception: it did not work.
template <class T>
class unit_hook {
public:
    /// Whether a hook may return this.
    template <class Answer>
    static constexpr bool understands = detail::bool_or_nothing<Answer>;

    unit_hook() = default;

    template <class F>
        requires(!std::same_as<F, unit_hook> && std::invocable<F&, T&>)
    unit_hook(F call) {  // not explicit: for designated initialisers
        using answer = std::invoke_result_t<F&, T&>;
        static_assert(understands<answer>,
                      "cenote: a hook of unit_of_work must return bool or nothing");
        std::function<answer(T&)> hook(std::move(call));
        if (hook == nullptr) return;
        call_ = [hook = std::move(hook)](T& unit) {
            return detail::says_yes([&]() -> decltype(auto) { return hook(unit); });
        };
    }

    explicit operator bool() const noexcept { return call_ != nullptr; }

    /// Where nothing is to be done, it has worked.
    bool operator()(T& unit) const { return call_ == nullptr || call_(unit); }

private:
    std::function<bool(T&)> call_;
};

/// What unit_of_work does with its units; an aggregate for designated initialisers. For each of the
/// first four that is not given, T's member of this name is called, if it has one.
template <class T, class Hook = unit_hook<T>>
struct unit_hooks {
    /// Ends the transaction that a user has left open. It is also called if none was begun, which
    /// must not be an error then. May block.
    Hook rollback = {};

    /// Forgets what belongs to a user: objects that were read, changes that were not written, who
    /// it was. Comes after rollback. May block.
    Hook clear = {};

    /// Whether the unit is of no use any more. Must be quick: it is asked on the thread that gives
    /// the unit back, and on one of the pool's own after each rollback and clear. A unit that is
    /// null is broken without being asked.
    std::function<bool(T&)> broken = {};

    /// Whether the unit still works, as a connector's probe. May block. It must leave nothing
    /// behind: nothing is undone after it.
    Hook probe = {};

    /// What an exception means, from `make` or from a function given to pool::with. Without it, a
    /// unit that can say whether it is broken is asked when it comes back, and one that cannot is
    /// discarded. Whatever this says, what is kept is cleared.
    std::function<verdict(const std::exception_ptr&)> classify = {};

    /// What an exception of `make` means (see connector.hpp). Without it, `classify` is asked.
    std::function<verdict(const std::exception_ptr&)> classify_open = {};
};

namespace detail {

/// What units of work have in common, whether their hooks block or are awaited.
template <class T, class Make, class Hook>
class unit_connector {
public:
    verdict before_release(T& unit) const {
        return is_broken(unit) ? verdict::discard : verdict::reset;
    }

    bool can_probe() const noexcept { return static_cast<bool>(hooks_.probe); }

    verdict classify(const std::exception_ptr& error) const {
        if (hooks_.classify != nullptr) return hooks_.classify(error);
        return hooks_.broken != nullptr ? verdict::keep : verdict::discard;
    }
    verdict classify_open(const std::exception_ptr& error) const {
        return hooks_.classify_open != nullptr ? hooks_.classify_open(error) : classify(error);
    }

protected:
    unit_connector(std::function<Make()> make, unit_hooks<T, Hook> hooks)
        : make_(std::move(make)), hooks_(std::move(hooks)) {
        if (make_ == nullptr) throw invalid_option("make", "null", "must return a unit");
        ask_the_unit();
        if (!hooks_.rollback && !hooks_.clear)
            throw invalid_option("clear", "null",
                                 "a unit without rollback() and clear() needs a hook for one");
    }

    bool is_broken(T& unit) const {
        // A user may have moved away what a unit points to; no hook expects that.
        constexpr bool points = requires {
            *unit;
            static_cast<bool>(unit);
        };
        if constexpr (points)
            if (!unit) return true;
        return hooks_.broken != nullptr && hooks_.broken(unit);
    }

    std::function<Make()> make_;
    unit_hooks<T, Hook> hooks_;

private:
    void ask_the_unit() {
        fall_back(hooks_.rollback, "rollback",
                  [](auto& unit) -> decltype(unit.rollback()) { return unit.rollback(); });
        fall_back(hooks_.clear, "clear",
                  [](auto& unit) -> decltype(unit.clear()) { return unit.clear(); });
        fall_back(hooks_.broken, "broken",
                  [](auto& unit) -> decltype(unit.broken()) { return unit.broken(); });
        fall_back(hooks_.probe, "probe",
                  [](auto& unit) -> decltype(unit.probe()) { return unit.probe(); });
    }

    template <class Any, class Member>
    static void fall_back(Any& hook, const char* name, Member member) {
        if constexpr (std::invocable<Member&, T&>) {
            if (hook) return;
            if constexpr (is_understood<Any, std::invoke_result_t<Member&, T&>>()) hook = member;
            else throw invalid_option(name, "null", "what the unit's own returns is not known");
        }
    }
    template <class Any, class Answer>
    static constexpr bool is_understood() {
        if constexpr (std::same_as<Any, Hook>) return Hook::template understands<Answer>;
        else return bool_or_nothing<Answer> && !std::is_void_v<Answer>;
    }
};

}  // namespace detail

/// A connector for units of work: objects like the session of an ORM, which own a connection for
/// their whole life and gather what their user has read and changed.
///
///     cenote::pool<session> units{cenote::unit_of_work<session>{[] { return session{"db"}; }},
///                                 {.max = 8, .max_uses = 1000}};
///
/// A user finds nothing of the user before. When a unit comes back:
///
/// 1. A broken one is not kept (`retired`, for the reason `rejected`).
/// 2. All others are rolled back, and then cleared, before anybody else gets them: on a thread of
///    the pool's own, within options::reset_timeout, while the last user goes on.
/// 3. If either of these says no, throws, or takes too long, or if the unit is broken now, it is
///    not kept (`reset_failed` with what was thrown, then `retired` for that reason).
///
/// A unit that is not kept is destroyed as its user left it, also one whose time is over or whose
/// uses are (options::max_lifetime, max_uses). So T's destructor must end an open transaction, as
/// the end of a connection does.
///
/// Thread safety: like any connector's, `make` and the hooks are called from several threads at
/// once, each time for another unit.
template <class T>
class unit_of_work : public detail::unit_connector<T, T, unit_hook<T>> {
    using base = detail::unit_connector<T, T, unit_hook<T>>;

public:
    /// `make` returns a new unit; what it throws is an open that failed.
    ///
    /// Throws invalid_option if there is no `make`; if there is neither a rollback nor a clear, so
    /// that nothing would be undone; and if T's member of one of these names returns something
    /// else than bool (or nothing, except for broken), and there is no hook to say what that means.
    explicit unit_of_work(std::function<T()> make, unit_hooks<T> hooks = {})
        : base(std::move(make), std::move(hooks)) {}

    T open() const { return this->make_(); }
    bool reset(T& unit) const {
        return this->hooks_.rollback(unit) && this->hooks_.clear(unit) && !this->is_broken(unit);
    }
    bool probe(T& unit) const { return this->hooks_.probe(unit); }
};

template <class Make>
unit_of_work(Make) -> unit_of_work<std::invoke_result_t<Make&>>;
template <class Make>
unit_of_work(Make, unit_hooks<std::invoke_result_t<Make&>>)
    -> unit_of_work<std::invoke_result_t<Make&>>;

}  // namespace cenote
