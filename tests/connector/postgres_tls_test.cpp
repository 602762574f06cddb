// PostgreSQL over TLS: which servers are accepted, and which are refused.
#include <string>

#include <gmock/gmock.h>

#include "cenote/pool.hpp"
#include "connector/awaiting.hpp"
#include "connector/postgres_place.hpp"
#include "support/certificates.hpp"
#include "support/gate.hpp"

namespace cenote::postgres {
namespace {

using support::await;
using support::canary_password;
using support::postgres_server;
using testing::HasSubstr;
using testing::Not;

postgres_server& with_tls() {
    static postgres_server one({.tls = true});
    return one;
}

options to_server(const postgres_server& s, tls_mode mode) {
    options o;
    o.hosts = {{.name = "localhost", .port = s.port()}};
    o.user = "app";
    o.password = secret(canary_password);
    o.database = "orders";
    o.tls = mode;
    return o;
}

error_kind kind_of_refusal(const options& o) {
    try {
        connector{o}.open();
    } catch (const connection_error& e) {
        EXPECT_THAT(e.what(), Not(HasSubstr(canary_password)));
        return e.kind();
    }
    ADD_FAILURE() << "it went well";
    return error_kind::statement;
}

bool is_encrypted(connection& c) {
    return c.execute("select ssl from pg_stat_ssl where pid = pg_backend_pid()").scalar<bool>();
}

TEST(postgres_tls, the_right_server_is_recognized) {
    options o = to_server(with_tls(), tls_mode::verify_full);
    o.ca_file = with_tls().authority();
    o.channel_binding = channel_binding::require;
    connection c = connector{o}.open();
    EXPECT_TRUE(is_encrypted(c));
    connector to(o);
    EXPECT_TRUE(to.before_acquire(c));
    connection d = await(async_connector{o}.open());
    EXPECT_EQ(await(d.async_execute("select repeat('x', 3000000)")).scalar<std::string>().size(),
              3'000'000u);
    std::string large(3'000'000, 'y');
    EXPECT_EQ(await(d.async_execute("select length($1)", large)).scalar<int>(), 3'000'000);
    to.reset(d);
    EXPECT_TRUE(to.before_acquire(d));
    EXPECT_EQ(to.before_release(d), verdict::keep);
    o.hosts.front().name = "127.0.0.1";  // is in the certificate, too
    connection e = connector{o}.open();
    EXPECT_TRUE(is_encrypted(e));
}

TEST(postgres_tls, off_is_off_and_require_asks_nothing) {
    connection plain = connector{to_server(with_tls(), tls_mode::off)}.open();
    EXPECT_FALSE(is_encrypted(plain));
    connection encrypted = connector{to_server(with_tls(), tls_mode::require)}.open();
    EXPECT_TRUE(is_encrypted(encrypted));
}

TEST(postgres_tls, a_strange_authority_is_not_trusted) {
    options o = to_server(with_tls(), tls_mode::verify_full);
    EXPECT_EQ(kind_of_refusal(o), error_kind::final);  // the system does not trust it
    o.ca_file = "/nowhere/ca.crt";
    EXPECT_EQ(kind_of_refusal(o), error_kind::final);
    o.tls = tls_mode::verify_ca;
    EXPECT_EQ(kind_of_refusal(o), error_kind::final);
}

TEST(postgres_tls, another_name_is_another_server) {
    support::temporary_folder folder("postgres-tls", "postgres");
    support::certificates made(folder);
    support::certificate wrong = made.wrong_name();
    folder.give_to_user();
    postgres_server other({.settings = "ssl = on\nssl_cert_file = '" + wrong.file.string() +
                                       "'\nssl_key_file = '" + wrong.key.string() + "'\n"});
    options o = to_server(other, tls_mode::verify_full);
    o.ca_file = made.authority();
    EXPECT_EQ(kind_of_refusal(o), error_kind::final);
    o.tls = tls_mode::verify_ca;
    connection c = connector{o}.open();
    EXPECT_TRUE(is_encrypted(c));
}

TEST(postgres_tls, a_server_that_sends_too_early_or_wrongly_is_refused) {
    support::gate gate(with_tls().port());
    options o = to_server(with_tls(), tls_mode::verify_full);
    o.ca_file = with_tls().authority();
    o.hosts.front().port = gate.port();
    for (std::size_t nth : {7u, 60u, 300u, 1000u}) {
        gate.pass();
        gate.corrupt(nth);
        EXPECT_THROW(connector{o}.open(), connection_error) << nth;
    }
    gate.pass();
    for (std::size_t cut : {0u, 1u, 5u, 100u, 700u, 1500u}) {
        gate.pass();
        gate.cut_after(cut);
        EXPECT_EQ(kind_of_refusal(o), error_kind::transient) << cut;
    }
    gate.pass();
    connection c = connector{o}.open();
    gate.corrupt(20);
    EXPECT_THROW(c.execute("select 1"), connection_error);
}

/// A server that accepts only clients with a certificate for their user.
struct server_with_client_certificates {
    support::temporary_folder folder{"postgres-clients", "postgres"};
    support::certificates made{folder};
    support::certificate mine = made.good();
    std::string rules =
        folder.write("hba", "local all postgres trust\nhostssl all all 127.0.0.1/32 cert\n");
    support::certificate app = made.client("app");  // the last file: gives all to the server
    postgres_server server{{.settings = "ssl = on\nssl_cert_file = '" + mine.file.string() +
                                        "'\nssl_key_file = '" + mine.key.string() +
                                        "'\nssl_ca_file = '" + made.authority().string() +
                                        "'\nhba_file = '" + rules + "'\n"}};

    /// `with`: further parameters.
    std::string url(const std::string& with) const {
        return "postgresql://app@127.0.0.1:" + std::to_string(server.port()) + "/orders" +
               support::patiently("sslmode=verify-full&sslrootcert=" + made.authority().string()) +
               with;
    }
    static std::string files(const support::certificate& of) {
        return "&sslcert=" + of.file.string() + "&sslkey=" + of.key.string();
    }
};

TEST(postgres_tls, the_client_shows_its_certificate) {
    server_with_client_certificates there;
    const std::string url = there.url(there.files(there.app));
    connection c = connector{url}.open();
    EXPECT_TRUE(is_encrypted(c));
    connection d = await(async_connector{url}.open());
    EXPECT_EQ(d.execute("select current_user").scalar<std::string>(), "app");
    EXPECT_EQ(kind_of_refusal(options::from_url(there.url(""))), error_kind::final);
    // Of another user, and of an authority that the server does not know.
    const std::string other = there.url(there.files(there.made.client("clerk")));
    EXPECT_EQ(kind_of_refusal(options::from_url(other)), error_kind::final);
    const std::string strange = there.url(there.files(there.made.stranger()));
    EXPECT_THROW(connector{strange}.open(), connection_error);
}

TEST(postgres_tls, channel_binding_needs_tls) {
    options o = to_server(with_tls(), tls_mode::off);
    o.channel_binding = channel_binding::require;
    EXPECT_EQ(kind_of_refusal(o), error_kind::final);
}

}  // namespace
}  // namespace cenote::postgres
