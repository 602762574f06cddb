# Debian packages of this build tree, made by `make packages` or the target cenote_packages:
# libcenote0 (libcenote.so.0), libcenote-dev (headers, static C++ libraries, files for CMake and
# pkg-config) and cenote (the command).
if(NOT CENOTE_PACKAGES)
  return()
endif()
if(BUILD_SHARED_LIBS OR NOT TARGET cenote_c OR NOT TARGET cenote-command)
  message(FATAL_ERROR "cenote: CENOTE_PACKAGES needs static libraries, CENOTE_BUILD_C and "
                      "CENOTE_BUILD_TOOLS with SQLite")
endif()
set(CENOTE_MAINTAINER "cenote maintainers <maintainers@cenote.example>" CACHE STRING
    "Name and address of the builder of the packages")
set(debian_version ${PROJECT_VERSION}-1)
set(debian_soname ${PROJECT_VERSION_MAJOR})
set(debian_dir ${PROJECT_BINARY_DIR}/debian)

# cenote_debian_package(component package SECTION section ABOUT text SHLIBDEPS ON|OFF [DEPENDS list]
# [RECOMMENDS list] [CONTROL file …]): ABOUT begins with the line that lists of packages show.
function(cenote_debian_package component package)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "ABOUT;SECTION;DEPENDS;RECOMMENDS;SHLIBDEPS"
                        "CONTROL")
  string(TOUPPER ${component} name)
  set(prefix CPACK_DEBIAN_${name}_PACKAGE)
  set(CPACK_COMPONENT_${name}_DESCRIPTION "${arg_ABOUT}" PARENT_SCOPE)
  set(${prefix}_NAME ${package} PARENT_SCOPE)
  set(${prefix}_SECTION ${arg_SECTION} PARENT_SCOPE)
  set(${prefix}_DEPENDS "${arg_DEPENDS}" PARENT_SCOPE)
  set(${prefix}_RECOMMENDS "${arg_RECOMMENDS}" PARENT_SCOPE)
  set(${prefix}_SHLIBDEPS ${arg_SHLIBDEPS} PARENT_SCOPE)
  set(${prefix}_CONTROL_EXTRA "${arg_CONTROL}" PARENT_SCOPE)

  # What a package contains beyond an installation.
  set(doc_dir ${CMAKE_INSTALL_DATAROOTDIR}/doc/${package})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/debian/changelog.in ${debian_dir}/changelog @ONLY)
  install(FILES ${debian_dir}/changelog RENAME changelog.Debian
    DESTINATION ${doc_dir} COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES ${PROJECT_SOURCE_DIR}/CHANGELOG.md RENAME changelog
    DESTINATION ${doc_dir} COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/debian/copyright
    DESTINATION ${doc_dir} COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/debian/overrides RENAME ${package}
    DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/lintian/overrides
    COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

# The symbols of the library, each with the version that first had it: CENOTE_0.1 is 0.1.0.
set(symbols "libcenote.so.${debian_soname} libcenote${debian_soname} #MINVER#\n")
file(STRINGS ${PROJECT_SOURCE_DIR}/src/c/cenote.map map)
foreach(line IN LISTS map)
  if(line MATCHES "^(CENOTE_([0-9.]+)) ")
    set(node ${CMAKE_MATCH_1})
    set(since ${CMAKE_MATCH_2}.0)
    string(APPEND symbols " ${node}@${node} ${since}\n")
  elseif(line MATCHES "^ +(cenote_[a-z_]+);$")
    string(APPEND symbols " ${CMAKE_MATCH_1}@${node} ${since}\n")
  endif()
endforeach()
file(CONFIGURE OUTPUT ${debian_dir}/symbols CONTENT "${symbols}" @ONLY)
file(CONFIGURE OUTPUT ${debian_dir}/shlibs @ONLY CONTENT
  "libcenote ${debian_soname} libcenote${debian_soname} (>= ${PROJECT_VERSION})\n")
file(CONFIGURE OUTPUT ${debian_dir}/triggers CONTENT "activate-noawait ldconfig\n")

cenote_debian_package(cenote_runtime libcenote${debian_soname} SECTION libs
  SHLIBDEPS OFF  # computed in CenotePackagesDepends.cmake
  CONTROL ${debian_dir}/symbols ${debian_dir}/shlibs ${debian_dir}/triggers
  ABOUT "pool of reusable resources, C library
cenote lends connections, sessions and other resources that are costly to make
and serve one user at a time. The pool opens, checks, resets, retires and
closes them.
.
This package contains the shared library with the C interface, which other
languages can call.")

# Without a package that is only recommended, find_package(cenote) lacks the part that needs it.
cenote_debian_package(cenote_development libcenote-dev SECTION libdevel SHLIBDEPS OFF
  DEPENDS "libcenote${debian_soname} (= ${debian_version})"
  RECOMMENDS "libboost1.81-dev | libboost-dev (>= 1.81), libmariadb-dev, libpq-dev, libspdlog-dev, \
libsqlite3-dev, libssl-dev"
  ABOUT "pool of reusable resources, development files
cenote lends connections, sessions and other resources that are costly to make
and serve one user at a time. The pool opens, checks, resets, retires and
closes them.
.
This package contains the headers for C and C++, the static libraries for
C++20 (pool, Boost.Asio, SQLite, PostgreSQL, MariaDB, Redis, HTTP, database,
dashboard, spdlog), and files for CMake and pkg-config. The recommended
packages are needed by the parts of the same name.")

cenote_debian_package(cenote_command cenote SECTION database SHLIBDEPS ON
  ABOUT "tools for pools of connections
The command cenote checks a server before production and reports what would
fail there, puts load on a server through a pool, recommends the size of a
pool, and shows step by step how a pool decides.
.
It connects to PostgreSQL, MariaDB, SQLite, Redis and web servers.")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME cenote)
set(CPACK_DEBIAN_PACKAGE_SOURCE cenote)
set(CPACK_PACKAGE_CONTACT "${CENOTE_MAINTAINER}")
# The first line of each description is the summary.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
set(CPACK_COMPONENTS_ALL cenote_runtime cenote_development cenote_command)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/CenotePackagesDepends.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/CenotePackagesStrip.cmake)
set(CPACK_CENOTE_LIBRARY ${PROJECT_BINARY_DIR}/src/libcenote.so.${debian_soname})
set(CPACK_VERBATIM_VARIABLES ON)
if(NOT DEFINED CPACK_PACKAGE_DIRECTORY)
  set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
endif()
include(CPack)

# Call sites contain the names of source files: without the directory of this build.
foreach(target cenote_command_base cenote_command cenote_command_demo cenote-command orders_service)
  if(TARGET ${target})
    target_compile_options(${target} PRIVATE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
  endif()
endforeach()

add_custom_target(cenote_packages
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${CPACK_PACKAGE_DIRECTORY}
  COMMAND ${CMAKE_CPACK_COMMAND} --config ${PROJECT_BINARY_DIR}/CPackConfig.cmake
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${CPACK_PACKAGE_DIRECTORY}/_CPack_Packages
  VERBATIM USES_TERMINAL)
get_property(installed GLOBAL PROPERTY cenote_installed_targets)
add_dependencies(cenote_packages ${installed} cenote_command_files)
