// Makes certificates by the program that everybody has.
#include "support/certificates.hpp"

#include <string>
#include <vector>

#include "support/patience.hpp"

namespace support {

namespace {

std::vector<std::string> request(const certificate& made, const std::string& host,
                                 const std::string& days) {
    return {program("openssl"),
            "req",
            "-x509",
            "-nodes",
            "-sha256",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-config",
            "/dev/null",
            "-subj",
            "/CN=" + host,
            "-days",
            days,
            "-keyout",
            made.key,
            "-out",
            made.file};
}

void add(std::vector<std::string>& command, const std::vector<std::string>& more) {
    command.insert(command.end(), more.begin(), more.end());
}

}  // namespace

certificates::certificates(const temporary_folder& folder)
    : folder_(folder), authority_(make_authority("authority")) {}

certificate certificates::make_authority(const std::string& name) const {
    certificate made{.file = folder_.path() / (name + ".pem"),
                     .key = folder_.path() / (name + ".key")};
    std::vector<std::string> command = request(made, "cenote tests " + name, "2");
    add(command, {"-addext", "basicConstraints=critical,CA:TRUE", "-addext",
                  "keyUsage=critical,keyCertSign,cRLSign"});
    run("-", command, folder_, plenty);
    folder_.hand_over();
    return made;
}

certificate certificates::sign(const std::string& name, const std::string& host,
                               const std::string& names, const std::string& days) const {
    certificate made{.file = folder_.path() / (name + ".pem"),
                     .key = folder_.path() / (name + ".key")};
    std::vector<std::string> command = request(made, host, days);
    add(command, {"-CA", authority_.file, "-CAkey", authority_.key, "-addext",
                  "subjectAltName=" + names, "-addext", "basicConstraints=critical,CA:FALSE",
                  "-addext", "extendedKeyUsage=serverAuth"});
    run("-", command, folder_, plenty);
    folder_.hand_over();
    return made;
}

certificate certificates::good() const {
    return sign("good", "localhost", "DNS:localhost,IP:127.0.0.1", "2");
}

certificate certificates::wrong_name() const {
    return sign("wrong_name", "elsewhere.example", "DNS:elsewhere.example", "2");
}

certificate certificates::expired() const {
    return sign("expired", "localhost", "DNS:localhost,IP:127.0.0.1", "-1");
}

}  // namespace support
