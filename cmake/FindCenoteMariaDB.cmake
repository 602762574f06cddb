# Finds MariaDB's client library: CenoteMariaDB::client. CMake has no module for it, and the name
# leaves room for a FindMariaDB of the project that uses cenote.
find_path(CenoteMariaDB_INCLUDE_DIR mysql.h PATH_SUFFIXES mariadb)
find_library(CenoteMariaDB_LIBRARY mariadb)
mark_as_advanced(CenoteMariaDB_INCLUDE_DIR CenoteMariaDB_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CenoteMariaDB
  REQUIRED_VARS CenoteMariaDB_LIBRARY CenoteMariaDB_INCLUDE_DIR)

if(CenoteMariaDB_FOUND AND NOT TARGET CenoteMariaDB::client)
  add_library(CenoteMariaDB::client UNKNOWN IMPORTED)
  set_target_properties(CenoteMariaDB::client PROPERTIES
    IMPORTED_LOCATION ${CenoteMariaDB_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${CenoteMariaDB_INCLUDE_DIR})
endif()
