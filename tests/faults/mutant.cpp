// Switches a mutant on before any test begins: CENOTE_MUTANT is its number (scripts/mutate).
#include <cstdlib>

#include "faults/switch.hpp"

namespace {

const bool switched = [] {
    const char* number = std::getenv("CENOTE_MUTANT");
    if (number != nullptr)
        cenote::faults::switched_on = static_cast<unsigned>(std::strtoul(number, nullptr, 10));
    return true;
}();

}  // namespace
