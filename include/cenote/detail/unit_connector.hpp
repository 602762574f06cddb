// The part that blocking and asynchronous units of work have in common.
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <type_traits>
#include <utility>

#include "cenote/detail/connector_of.hpp"
#include "cenote/options.hpp"
#include "cenote/verdict.hpp"

namespace cenote {

template <class T, class Hook>
struct unit_hooks;

}  // namespace cenote

namespace cenote::detail {

/// The part that blocking and asynchronous units of work have in common.
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

}  // namespace cenote::detail
