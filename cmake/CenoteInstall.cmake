# Installs libraries, headers, the command, the license and the files for find_package(cenote) and
# pkg-config. The components are those of the packages: cenote_runtime (libcenote.so.0),
# cenote_development and cenote_command. A license of its own is not in the packages.
include(CMakePackageConfigHelpers)
option(CENOTE_PACKAGES "Make Debian packages of this build tree" OFF)
if(CENOTE_PACKAGES AND CMAKE_LIBRARY_ARCHITECTURE)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE})
endif()
include(GNUInstallDirs)
include(CenotePkgConfig)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/cenote)

# cenote_install_library(target export): with the targets file and the .pc file.
function(cenote_install_library target export)
  install(TARGETS ${target} EXPORT ${export}
    ARCHIVE COMPONENT cenote_development
    LIBRARY COMPONENT cenote_runtime NAMELINK_COMPONENT cenote_development)
  install(EXPORT ${export} NAMESPACE cenote:: DESTINATION ${package_dir}
    COMPONENT cenote_development)
  cenote_install_pc(${target})
  set_property(GLOBAL APPEND PROPERTY cenote_installed_targets ${target})
endfunction()

cenote_install_library(cenote cenoteTargets)
foreach(part IN LISTS cenote_built)
  cenote_install_library(cenote_${part} cenote_${part}Targets)
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/cenote DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT cenote_development PATTERN README.md EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR}
  COMPONENT cenote_license)

# For find_package(cenote COMPONENTS …), which says why a part is missing.
set(cenote_reasons "")
foreach(part IN LISTS cenote_parts ITEMS c)
  if(NOT part IN_LIST cenote_built)
    string(APPEND cenote_reasons
           "set(cenote_left_out_${part} \"${cenote_left_out_${part}}\")\n")
  endif()
endforeach()
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/cenoteConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/cenoteConfig.cmake
  INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may break its users, so the minor version must match.
write_basic_package_version_file(
  ${CMAKE_CURRENT_BINARY_DIR}/cenoteConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(
  FILES ${CMAKE_CURRENT_BINARY_DIR}/cenoteConfig.cmake
        ${CMAKE_CURRENT_BINARY_DIR}/cenoteConfigVersion.cmake
        ${PROJECT_SOURCE_DIR}/cmake/cenoteNeeds.cmake
        ${PROJECT_SOURCE_DIR}/cmake/FindCenoteMariaDB.cmake
  DESTINATION ${package_dir} COMPONENT cenote_development)

# The command, its manual pages and its shell completions.
if(TARGET cenote-command AND NOT CENOTE_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  install(TARGETS cenote-command RUNTIME COMPONENT cenote_command)
  set(files_dir ${PROJECT_BINARY_DIR}/command_files)
  set(files_script ${PROJECT_SOURCE_DIR}/cmake/CenoteCommandFiles.cmake)
  add_custom_command(OUTPUT ${files_dir}/man1/cenote.1
    COMMAND ${CMAKE_COMMAND} -DCOMMAND=$<TARGET_FILE:cenote-command> -DOUTPUT=${files_dir}
            -P ${files_script}
    DEPENDS cenote-command ${files_script} VERBATIM)
  add_custom_target(cenote_command_files ALL DEPENDS ${files_dir}/man1/cenote.1)
  install(DIRECTORY ${files_dir}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR}
    COMPONENT cenote_command)
  install(FILES ${files_dir}/completion/cenote
    DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions COMPONENT cenote_command)
  # Debian keeps site-functions for the administrator.
  set(zsh_dir site-functions)
  if(CENOTE_PACKAGES)
    set(zsh_dir vendor-completions)
  endif()
  install(FILES ${files_dir}/completion/_cenote
    DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/zsh/${zsh_dir} COMPONENT cenote_command)
  install(FILES ${files_dir}/completion/cenote.fish
    DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/fish/vendor_completions.d COMPONENT cenote_command)
endif()

include(CenotePackages)
