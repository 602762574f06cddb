# Embeds files in a library: writes OUTPUT, which defines the function of watch/dashboard_files.hpp,
# from the files in FOLDER. Runs as a script at build time:
#   cmake -DFOLDER=web -DOUTPUT=files.cpp -P EmbedFiles.cmake
set(bodies "")
set(table "")
# For each file its path in URLs, its name and its media type.
set(files
  "/|index.html|text/html; charset=utf-8"
  "/dashboard.css|dashboard.css|text/css; charset=utf-8"
  "/dashboard.js|dashboard.js|text/javascript; charset=utf-8"
  "/card.js|card.js|text/javascript; charset=utf-8"
  "/chart.js|chart.js|text/javascript; charset=utf-8"
  "/overview.js|overview.js|text/javascript; charset=utf-8"
  "/problems.js|problems.js|text/javascript; charset=utf-8"
  "/text.js|text.js|text/javascript; charset=utf-8")
string(REPLACE "; charset" "@ charset" files "${files}")
set(number 0)
foreach(file IN LISTS files)
  string(REPLACE "@ charset" "; charset" file "${file}")
  string(REGEX MATCH "^([^|]*)[|]([^|]*)[|](.*)$" found "${file}")
  set(path "${CMAKE_MATCH_1}")
  set(name "${CMAKE_MATCH_2}")
  set(type "${CMAKE_MATCH_3}")
  file(READ ${FOLDER}/${name} hex HEX)
  file(SHA256 ${FOLDER}/${name} hash)
  string(SUBSTRING ${hash} 0 32 hash)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND bodies "constexpr unsigned char body_${number}[] = {${bytes}};\n")
  string(APPEND table "    {\"${path}\", \"${type}\", \"\\\"${hash}\\\"\",\n"
                      "     {reinterpret_cast<const char*>(body_${number}), "
                      "sizeof body_${number}}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUTPUT}
"// Generated from the files in web; see cmake/EmbedFiles.cmake.
#include \"watch/dashboard_files.hpp\"

namespace cenote::detail {

namespace {

${bodies}
const embedded_file files[] = {
${table}};

}  // namespace

std::span<const embedded_file> dashboard_files() noexcept { return files; }

}  // namespace cenote::detail
")
