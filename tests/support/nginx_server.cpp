// Sets up a private nginx.
#include <filesystem>
#include <string>
#include <utility>

#include "support/real_server.hpp"

namespace support {

namespace {

// /chunked uses sub_filter, which makes the length of the response unknown.
constexpr const char* everything = R"(
daemon off;
worker_processes 1;
error_log stderr notice;
pid @folder@/pid;
events { worker_connections 1024; }
http {
  access_log off;
  default_type text/plain;
  client_body_temp_path @folder@/body;
  proxy_temp_path @folder@/proxy;
  fastcgi_temp_path @folder@/fastcgi;
  uwsgi_temp_path @folder@/uwsgi;
  scgi_temp_path @folder@/scgi;
  map $arg_rate $rate { '' 1024; default $arg_rate; }
  server {
    listen 127.0.0.1:@port@;
    listen 127.0.0.1:@tls_port@ ssl;
    server_name localhost;
    ssl_certificate @file@;
    ssl_certificate_key @key@;
    keepalive_requests @requests@;
    keepalive_timeout @timeout@;
    root @folder@/pages;
    location / { }
    location = /echo { return 200 $arg_nonce; }
    location = /connection { return 200 "$connection $connection_requests"; }
    location = /slow { alias @folder@/pages/large; limit_rate $rate; }
    location = /chunked {
      alias @folder@/pages/index.html;
      sub_filter_types *;
      sub_filter 'not in the page' '';
    }
    location = /close { keepalive_timeout 0; return 200 bye; }
    @locations@
  }
}
)";

std::string status_locations() {
    std::string made;
    auto add = [&](int status, const std::string& what) {
        std::string number = std::to_string(status);
        made += "location = /status/" + number + " { return " + number + what + "; }\n";
    };
    add(204, "");
    for (int moved : {301, 302, 307, 308}) add(moved, " /");
    for (int other :
         {200, 201, 400, 401, 403, 404, 408, 409, 410, 418, 429, 500, 501, 502, 503, 504})
        add(other, " " + std::to_string(other));
    return made;
}

}  // namespace

nginx_server::nginx_server(options chosen)
    : real_server("nginx", "www-data"), certificates_(folder_) {
    configure(chosen);
    control_by({.command = {program("nginx"), "-p", folder(), "-c", folder() / "nginx.conf"},
                .ready = "start worker process ",
                .shutdown = warded_process::order::terminate,
                .crash = warded_process::order::kill});
    start();
}

void nginx_server::configure(const options& chosen) {
    std::filesystem::create_directories(folder() / "pages");
    folder_.write("pages/index.html", "<p>cenote: a pool of clear water\n");
    std::string large;
    while (large.size() < large_size) large += "0123456789abcdef";
    folder_.write("pages/large", large);
    using identity = options::identity;
    certificate mine = chosen.certificate == identity::good      ? certificates_.good()
                       : chosen.certificate == identity::expired ? certificates_.expired()
                                                                 : certificates_.wrong_name();
    folder_.write("nginx.conf",
                  filled(everything, {{"folder", folder()},
                                      {"port", std::to_string(port())},
                                      {"tls_port", std::to_string(tls_port())},
                                      {"file", mine.file},
                                      {"key", mine.key},
                                      {"requests", std::to_string(chosen.keepalive_requests)},
                                      {"timeout", std::to_string(chosen.keepalive_timeout.count())},
                                      {"locations", status_locations() + chosen.locations}}));
    folder_.give_to_user();
}

}  // namespace support
