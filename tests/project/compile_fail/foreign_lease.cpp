// expect: no matching|could not convert|no viable
#include <string>
#include <utility>

#include <cenote/pool.hpp>

cenote::lease<std::string> a_lease_of_another_type(cenote::lease<std::string> text,
                                                   cenote::lease<int> number) {
#ifdef CENOTE_CONTROL
    (void)number;
    return text;
#else
    (void)text;
    return cenote::lease<std::string>(std::move(number));
#endif
}
