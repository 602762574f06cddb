// Finds the members of a connector, or of the object that a shared pointer to one points to.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace cenote::detail {

template <class C>
constexpr bool is_shared_pointer = false;
template <class I>
constexpr bool is_shared_pointer<std::shared_ptr<I>> = true;

/// The object whose members are called: the connector, or what it points to.
template <class C>
auto& verbs_in(C& c) {
    if constexpr (is_shared_pointer<std::remove_const_t<C>>) return *c;
    else return c;
}
template <class C>
using has_verbs = std::remove_reference_t<decltype(verbs_in(std::declval<C&>()))>;

}  // namespace cenote::detail
