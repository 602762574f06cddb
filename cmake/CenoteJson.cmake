# cenote_boost_json: Boost.JSON, compiled once and shared by the command and the example that it
# runs.
if(NOT TARGET cenote_boost_json)
  find_package(Boost 1.81 REQUIRED)
  set(source ${CMAKE_BINARY_DIR}/cenote_boost_json.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include <boost/json/src.hpp>\n")
  add_library(cenote_boost_json STATIC EXCLUDE_FROM_ALL ${source})
  target_compile_features(cenote_boost_json PUBLIC cxx_std_20)
  target_link_libraries(cenote_boost_json PUBLIC Boost::headers)
  # Third-party code: no warnings, no lint.
  target_compile_options(cenote_boost_json PRIVATE -w)
  set_target_properties(cenote_boost_json PROPERTIES EXPORT_COMPILE_COMMANDS OFF)
endif()
