# Refuses compilers, standard libraries and systems that cenote does not support, so that the error
# is one sentence.
set(supported "cenote needs g++ 12.2 or newer, or clang 16 or newer, with libstdc++ 12 or newer")
set(compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} (${CMAKE_CXX_COMPILER})")
set(oldest_GNU 12.2)
set(oldest_Clang 16)
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
  message(FATAL_ERROR "cenote needs Linux; this system is ${CMAKE_SYSTEM_NAME}")
endif()
if(NOT DEFINED oldest_${CMAKE_CXX_COMPILER_ID}
   OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS oldest_${CMAKE_CXX_COMPILER_ID})
  message(FATAL_ERROR "${supported}; this compiler is ${compiler}")
endif()

include(CheckCXXSourceCompiles)
check_cxx_source_compiles("
#include <cstddef>
#if !defined(_GLIBCXX_RELEASE) || _GLIBCXX_RELEASE < 12
#error \"not libstdc++ 12\"
#endif
int main() {}
" CENOTE_HAS_LIBSTDCXX)
if(NOT CENOTE_HAS_LIBSTDCXX)
  # So that the next attempt looks again.
  unset(CENOTE_HAS_LIBSTDCXX CACHE)
  message(FATAL_ERROR "${supported}; ${compiler} uses another standard library, or an older one")
endif()
