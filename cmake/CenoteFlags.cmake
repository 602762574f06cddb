# Compiler flags of our own builds. They apply to this directory tree only, so a project that adds
# cenote with add_subdirectory keeps its own flags. Strict checks are off unless a preset sets them.

# Off in a project that adds cenote, whose flags may differ between targets, and in the tree that
# clang-tidy reads, where each source must include what it uses.
option(CENOTE_PRECOMPILE "Compile the headers that most sources include only once"
       ${PROJECT_IS_TOP_LEVEL})
option(CENOTE_WERROR "Treat warnings as errors" OFF)
option(CENOTE_HARDEN "Add run-time checks of the standard library and the stack" OFF)
set(CENOTE_SANITIZE "" CACHE STRING "Sanitizers, as a list for -fsanitize=")
set(CENOTE_CORE_FLAGS "" CACHE STRING
    "Additional compiler flags of the pool, the simulator and optimized tests")
set(CENOTE_TEST_FLAGS "" CACHE STRING "Additional compiler flags of tests, not of the tested code")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
# For tests of the C API, the only C code.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)

add_compile_options(
  -Wall
  -Wextra
  -Wpedantic
  -Wcast-align
  -Wconversion
  -Wdouble-promotion
  -Wformat=2
  -Wimplicit-fallthrough
  -Wshadow
  -Wsign-conversion
  -Wundef
  "$<$<COMPILE_LANGUAGE:CXX>:-Wextra-semi;-Wnon-virtual-dtor;-Wold-style-cast>"
  "$<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual;-Wsuggest-override>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wduplicated-branches -Wduplicated-cond -Wlogical-op)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # False positives for string concatenation: https://gcc.gnu.org/PR105651
    add_compile_options(-Wno-restrict)
    # False positives in Asio's coroutine frames if only one of new and delete is inlined.
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-mismatched-new-delete>")
    message(STATUS
      "cenote: g++ before 13 destroys some temporaries twice inside co_await expressions "
      "(lambdas with captures, aggregates with non-trivial members). Name them first.")
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Wthread-safety)  # src/shell/lock.hpp has the annotations of each lock
endif()
if(CENOTE_WERROR)
  add_compile_options(-Werror)
endif()

if(CENOTE_HARDEN)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  if(NOT CENOTE_SANITIZE)
    # Sanitizers replace the functions that fortification checks. Debug builds do not optimize, and
    # glibc fortifies only optimized code.
    add_compile_options(
      -fstack-protector-strong
      "$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
  endif()
endif()

if(CENOTE_SANITIZE)
  # The first finding ends the program: a test that continues could still pass.
  set(sanitize -fsanitize=${CENOTE_SANITIZE} -fno-sanitize-recover=all)
  add_compile_options(${sanitize} -fno-omit-frame-pointer)
  add_link_options(${sanitize})
  if(CENOTE_SANITIZE MATCHES "thread")
    # Asio's reference counts use a fence, which ThreadSanitizer does not support: it reports the
    # destruction of an executor as a race. Without std::atomic, Asio uses acquire and release.
    add_compile_definitions(BOOST_ASIO_DISABLE_STD_ATOMIC)
  endif()
endif()

# Headers that most sources include, and headers that most sources on top of Boost.Asio include.
set(CENOTE_STANDARD_HEADERS
  <algorithm> <atomic> <chrono> <condition_variable> <cstdint> <functional> <memory> <mutex>
  <optional> <span> <stdexcept> <string> <string_view> <system_error> <thread> <utility> <vector>)
set(CENOTE_ASIO_HEADERS
  ${CENOTE_STANDARD_HEADERS}
  <boost/asio/any_io_executor.hpp> <boost/asio/awaitable.hpp> <boost/asio/co_spawn.hpp>
  <boost/asio/io_context.hpp> <boost/asio/ip/tcp.hpp> <boost/asio/redirect_error.hpp>
  <boost/asio/steady_timer.hpp> <boost/asio/strand.hpp> <boost/asio/use_awaitable.hpp>)
