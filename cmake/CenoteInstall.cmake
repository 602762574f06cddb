# Installs libraries, headers, the license and the files for find_package(cenote).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/cenote)

install(TARGETS cenote EXPORT cenoteTargets)
foreach(part IN LISTS cenote_built)
  install(TARGETS cenote_${part} EXPORT cenote_${part}Targets)
  install(EXPORT cenote_${part}Targets NAMESPACE cenote:: DESTINATION ${package_dir})
endforeach()
if("c" IN_LIST cenote_built)
  # Relative to the .pc file, so that an installation can be moved.
  file(RELATIVE_PATH cenote_prefix_from_pc
       ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/cenote.pc.in ${CMAKE_CURRENT_BINARY_DIR}/cenote.pc
                 @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cenote.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/cenote DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT cenoteTargets NAMESPACE cenote:: DESTINATION ${package_dir})

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
  DESTINATION ${package_dir})
