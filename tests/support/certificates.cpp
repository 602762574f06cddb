// Creates certificates with the program openssl.
#include "support/certificates.hpp"

#include <string>
#include <vector>

#include "support/patience.hpp"

namespace support {

namespace {

constexpr const char* an_ancient_date = "20200101000000Z";
constexpr const char* an_old_date = "20200201000000Z";
constexpr const char* a_distant_date = "20990101000000Z";

// For `openssl ca`, the only command that can sign with dates in the past.
constexpr const char* office = R"(
[ ca ]
default_ca = office
[ office ]
default_md = sha256
policy = any_subject
x509_extensions = server
unique_subject = no
rand_serial = yes
[ any_subject ]
commonName = supplied
[ server ]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = serverAuth, clientAuth
subjectAltName = )";

std::vector<std::string> new_key(const certificate& made, const std::string& owner) {
    return {program("openssl"),
            "req",
            "-nodes",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-config",
            "/dev/null",
            "-subj",
            "/CN=" + owner,
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
    std::vector<std::string> command = new_key(made, "cenote tests " + name);
    add(command, {"-x509", "-sha256", "-days", "2", "-addext", "basicConstraints=critical,CA:TRUE",
                  "-addext", "keyUsage=critical,keyCertSign,cRLSign"});
    run("-", command, folder_, plenty);
    folder_.give_to_user();
    return made;
}

certificate certificates::sign(const std::string& name, const std::string& host,
                               const std::string& from, const std::string& until) const {
    certificate request{.file = folder_.path() / (name + ".request"),
                        .key = folder_.path() / (name + ".key")};
    run("-", new_key(request, host), folder_, plenty);
    std::string names = "DNS:" + host + (host == "localhost" ? ",IP:127.0.0.1" : "");
    std::string book = folder_.write(name + ".book", "");
    std::string rules =
        folder_.write(name + ".rules", office + names + "\n[ office ]\ndatabase = " + book +
                                           "\nnew_certs_dir = " + folder_.path().string() + "\n");
    certificate made{.file = folder_.path() / (name + ".pem"), .key = request.key};
    run("-",
        {program("openssl"), "ca", "-batch", "-notext", "-config", rules, "-cert", authority_.file,
         "-keyfile", authority_.key, "-startdate", from, "-enddate", until, "-in", request.file,
         "-out", made.file},
        folder_, plenty);
    folder_.give_to_user();
    return made;
}

certificate certificates::good() const {
    return sign("good", "localhost", an_ancient_date, a_distant_date);
}

certificate certificates::wrong_name() const {
    return sign("wrong_name", "elsewhere.example", an_ancient_date, a_distant_date);
}

certificate certificates::expired() const {
    return sign("expired", "localhost", an_ancient_date, an_old_date);
}

certificate certificates::client(const std::string& user) const {
    return sign("client_" + user, user, an_ancient_date, a_distant_date);
}

}  // namespace support
