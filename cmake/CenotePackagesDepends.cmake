# Read by cpack. Sets the dependencies of the shared library: CPack's own search for them would also
# generate scripts that call ldconfig, which a trigger does since Debian 9.
if(CPACK_GENERATOR STREQUAL "DEB")
  set(directory ${CPACK_TOPLEVEL_DIRECTORY}/shlibdeps)
  file(WRITE ${directory}/debian/control
    "Source: cenote\n\nPackage: libcenote\nArchitecture: any\n")
  execute_process(COMMAND dpkg-shlibdeps -O ${CPACK_CENOTE_LIBRARY}
    WORKING_DIRECTORY ${directory} OUTPUT_VARIABLE depends ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "shlibs:Depends=([^\n]+)" depends "${depends}")
  if(NOT CMAKE_MATCH_1)
    message(FATAL_ERROR "dpkg-shlibdeps found no dependencies of ${CPACK_CENOTE_LIBRARY}")
  endif()
  set(CPACK_DEBIAN_CENOTE_RUNTIME_PACKAGE_DEPENDS "${CMAKE_MATCH_1}")
endif()
