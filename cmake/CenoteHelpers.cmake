# Functions that declare programs, examples and tests.

set(CENOTE_LEG "local" CACHE STRING "The name of this build tree, a prefix of its tests' names")

# `make build` builds `cenote_programs`, so these targets must not need a dependency of tests.
add_custom_target(cenote_programs ALL)
add_dependencies(cenote_programs cenote)

# Makes a target use a library's precompiled headers, which are compiled as position-independent
# code, like the library.
function(cenote_precompiled_by target library)
  target_precompile_headers(${target} REUSE_FROM ${library})
  target_compile_options(${target} PRIVATE -fPIC)
endfunction()

# cenote_add_program(NAME name SOURCES … [LIBS …]): LIBS replaces the default library,
# because a program that links the planted faults must not link the core without faults as well.
function(cenote_add_program)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;LIBS")
  if(NOT arg_LIBS)
    set(arg_LIBS cenote::cenote)
  endif()
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS})
  if(CENOTE_PRECOMPILE AND arg_LIBS MATCHES "cenote::(asio|database|http|postgres|redis)|orders")
    cenote_precompiled_by(${arg_NAME} cenote_asio)
  endif()
  add_dependencies(cenote_programs ${arg_NAME})
endfunction()

# cenote_add_example(NAME name SOURCES … [LIBS …]): built, and run as a test.
function(cenote_add_example)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;LIBS")
  cenote_add_program(NAME ${arg_NAME} SOURCES ${arg_SOURCES} LIBS ${arg_LIBS})
  set_target_properties(${arg_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
  if(CENOTE_BUILD_TESTS)
    cenote_add_check(NAME example_${arg_NAME} COMMAND ${arg_NAME} LABELS example)
  endif()
endfunction()

# cenote_add_test(NAME name SOURCES … [LIBS …] [ARGS …] [LABELS …] [TIMEOUT seconds]
# [PROCESSORS n] [OPTIMIZED]): one program with GoogleTest's main, one ctest entry. OPTIMIZED tests
# are compiled like users' programs: they compute much, or test optimized templates of the library.
# The others compile twice as fast without optimization.
function(cenote_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "OPTIMIZED" "NAME;TIMEOUT;PROCESSORS"
                        "SOURCES;LIBS;ARGS;LABELS")
  add_executable(${arg_NAME} ${arg_SOURCES})
  set(suffix _optimized)
  if(arg_OPTIMIZED)
    target_compile_options(${arg_NAME} PRIVATE ${CENOTE_CORE_FLAGS})
  else()
    target_compile_options(${arg_NAME} PRIVATE ${CENOTE_TEST_FLAGS})
    set(suffix "")
  endif()
  if(NOT arg_LIBS)
    set(arg_LIBS cenote::cenote)
  endif()
  if(arg_LIBS MATCHES "cenote::(asio|database|http|mariadb|postgres|redis|server|sqlite)|command")
    if(NOT arg_OPTIMIZED)
      target_precompile_headers(${arg_NAME} REUSE_FROM cenote_precompiled_asio)
    endif()
  elseif(NOT arg_LIBS MATCHES "GTest")
    target_precompile_headers(${arg_NAME} REUSE_FROM cenote_precompiled${suffix})
  endif()
  target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS} GTest::gmock_main cenote_test_clock)
  target_include_directories(${arg_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/src
                                                 ${PROJECT_SOURCE_DIR}/tests)
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  cenote_add_check(NAME ${arg_NAME} COMMAND ${arg_NAME} ${arg_ARGS}
                   LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT} PROCESSORS ${arg_PROCESSORS})
endfunction()

# cenote_add_check(NAME name COMMAND … [LABELS …] [TIMEOUT seconds] [PROCESSORS n]):
# runs any command as a test of this leg.
function(cenote_add_check)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;TIMEOUT;PROCESSORS" "COMMAND;LABELS")
  set(name ${CENOTE_LEG}.${arg_NAME})
  add_test(NAME ${name} COMMAND ${arg_COMMAND})

  # ctest starts costly tests first. Plain builds, which fail fastest and have the most readable
  # failures, get a higher cost than sanitizer builds.
  set(cost 1)
  if(NOT CENOTE_SANITIZE)
    set(cost 2)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 900)
  endif()
  if(NOT arg_PROCESSORS)
    set(arg_PROCESSORS 1)
  endif()
  set_tests_properties(${name} PROPERTIES
    COST ${cost}
    LABELS "${CENOTE_LEG};${arg_LABELS}"
    TIMEOUT ${arg_TIMEOUT}
    PROCESSORS ${arg_PROCESSORS}
    ENVIRONMENT "${CENOTE_SANITIZE_ENVIRONMENT}")
endfunction()

# Options that make the sanitizers strict; part of every test's environment.
set(CENOTE_SANITIZE_ENVIRONMENT "")
if(CENOTE_SANITIZE)
  # Debian adds a version to the name, which the sanitizers do not search for.
  find_program(CENOTE_SYMBOLIZER llvm-symbolizer PATHS /usr/lib/llvm-19/bin NO_DEFAULT_PATH)
  set(symbolizer "")
  if(CENOTE_SYMBOLIZER)
    set(symbolizer external_symbolizer_path=${CENOTE_SYMBOLIZER})
  endif()
  set(suppressions suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan_suppressions.txt)
  foreach(options
      "ASAN_OPTIONS=detect_leaks=1 detect_stack_use_after_return=1 strict_init_order=1"
      "UBSAN_OPTIONS=print_stacktrace=1"
      "TSAN_OPTIONS=halt_on_error=1 second_deadlock_stack=1 ${suppressions}")
    string(REPLACE " " ":" options "${options}:${symbolizer}")
    list(APPEND CENOTE_SANITIZE_ENVIRONMENT "${options}")
  endforeach()
endif()
