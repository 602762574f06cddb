# What each optional part of cenote needs: other parts, and packages. Read when cenote is
# configured, and again, from an installation, by find_package(cenote).

# Each part comes after the parts that it needs. `server` and `tls` have no switch: they are built
# if another part needs them.
set(cenote_parts asio http_server dashboard spdlog server sqlite postgres tls mariadb redis http
                 database)

set(cenote_needs_http_server asio)
set(cenote_needs_dashboard asio)
set(cenote_needs_server asio)
set(cenote_needs_sqlite server)
set(cenote_needs_postgres server)
set(cenote_needs_tls server)
set(cenote_needs_mariadb server)
set(cenote_needs_redis server tls)
set(cenote_needs_http server tls)
set(cenote_needs_database server)
# At least one of these. An installed cenote::database needs those that it was built with.
set(cenote_servers_of_database sqlite postgres mariadb)

set(cenote_packages_asio Boost)
set(cenote_packages_spdlog spdlog)
set(cenote_packages_sqlite SQLite3)
set(cenote_packages_postgres PostgreSQL)
set(cenote_packages_tls OpenSSL)
set(cenote_packages_mariadb CenoteMariaDB OpenSSL)

# cenote_package(name what debian [oldest version])
macro(cenote_package name what debian)
  set(cenote_what_${name} ${what})
  set(cenote_debian_${name} ${debian})
  set(cenote_oldest_${name} ${ARGN})
endmacro()
cenote_package(Boost "Boost.Asio" libboost1.81-dev 1.81)
cenote_package(spdlog "spdlog" libspdlog-dev 1.10)
cenote_package(SQLite3 "SQLite" libsqlite3-dev 3.40)
cenote_package(PostgreSQL "libpq" libpq-dev 14)
cenote_package(OpenSSL "OpenSSL" libssl-dev)
cenote_package(CenoteMariaDB "libmariadb" libmariadb-dev)

# Looks up the packages of a part. Sets `result` to a phrase about those that are missing; empty if
# none is.
function(cenote_find_packages part result)
  set(missing "")
  foreach(package IN LISTS cenote_packages_${part})
    find_package(${package} ${cenote_oldest_${package}} QUIET)
    if(NOT ${package}_FOUND)
      string(JOIN " " what ${cenote_what_${package}} ${cenote_oldest_${package}})
      list(APPEND missing "${what} is not found (Debian package ${cenote_debian_${package}})")
    endif()
  endforeach()
  list(JOIN missing ", and " missing)
  set(${result} ${missing} PARENT_SCOPE)
endfunction()
