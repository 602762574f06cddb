// Requests in the protocol's form, requests that are refused before anything is sent, and URLs.
#include "connector/http_request.hpp"

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/url.hpp"

namespace {

using namespace cenote::http;
using namespace std::chrono_literals;
using cenote::connection_error;
using cenote::error_kind;
using cenote::invalid_url;
using cenote::secret;
using cenote::http::detail::request_text;
using cenote::http::detail::settings;
using testing::HasSubstr;
using testing::Not;

constexpr const char* canary = "c4n4ry-Zx9-pw";

std::string text_of(const request& asked, const options& by = {}) {
    settings made(by);
    request_text text(asked, made);
    return std::string(text.head()) + std::string(text.body());
}

TEST(http_request, is_a_line_fields_and_a_body) {
    EXPECT_EQ(text_of(get("/a?b=c")),
              "GET /a?b=c HTTP/1.1\r\nHost: localhost\r\nUser-Agent: cenote\r\n\r\n");
    EXPECT_EQ(text_of(post("/", "hello").with("X-A", "1").with("x-a", "2")),
              "POST / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: cenote\r\nX-A: 1\r\nx-a: 2\r\n"
              "Content-Length: 5\r\n\r\nhello");
    EXPECT_THAT(text_of(put("/", "")), HasSubstr("Content-Length: 0\r\n"));
    EXPECT_THAT(text_of(get("/")), Not(HasSubstr("Content-Length")));
    EXPECT_THAT(text_of(request("OPTIONS", "*")), HasSubstr("OPTIONS * HTTP/1.1\r\n"));
}

TEST(http_request, sends_a_long_body_after_the_head) {
    request asked = post("/", std::string(100'000, 'x'));
    settings made{options{}};
    request_text text(asked, made);
    EXPECT_LT(text.head().size(), 1000U);
    EXPECT_EQ(text.body().data(), asked.body.data());
    EXPECT_EQ(text.body().size(), 100'000U);
}

TEST(http_request, names_the_host_of_the_url) {
    auto host = [](const char* url) {
        std::string text = text_of(get("/"), options::from_url(url));
        std::size_t from = text.find("Host: ") + 6;
        return text.substr(from, text.find('\r', from) - from);
    };
    EXPECT_EQ(host("http://example.org"), "example.org");
    EXPECT_EQ(host("http://example.org:80"), "example.org");
    EXPECT_EQ(host("http://example.org:8080"), "example.org:8080");
    EXPECT_EQ(host("https://example.org:443"), "example.org");
    EXPECT_EQ(host("https://example.org:80"), "example.org:80");
    EXPECT_EQ(host("http://[::1]:81"), "[::1]:81");
    EXPECT_EQ(host("http://%2Frun%2Fsocket"), "localhost");
}

TEST(http_request, authorizes_unless_the_request_does) {
    options by = options::from_url("http://Aladdin:open%20sesame@localhost");
    EXPECT_THAT(text_of(get("/"), by),
                HasSubstr("Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"));
    std::string own = text_of(get("/").with("authorization", "Bearer x"), by);
    EXPECT_THAT(own, HasSubstr("authorization: Bearer x\r\n"));
    EXPECT_THAT(own, Not(HasSubstr("Basic")));
    EXPECT_THAT(text_of(get("/")), Not(HasSubstr("Authorization")));
}

TEST(http_request, has_the_user_agent_that_was_chosen) {
    options by;
    by.user_agent = "robot/7";
    EXPECT_THAT(text_of(get("/"), by), HasSubstr("User-Agent: robot/7\r\n"));
    EXPECT_THAT(text_of(get("/").with("user-agent", "mine"), by), Not(HasSubstr("robot")));
    by.user_agent = "";
    EXPECT_THAT(text_of(get("/"), by), Not(HasSubstr("User-Agent")));
}

TEST(http_request, refuses_what_would_end_a_line) {
    for (std::string bad : {std::string("a\rb"), std::string("a\nb"), std::string("a\r\nX: y"),
                            std::string("a\0b", 3), std::string("a\x7f")}) {
        EXPECT_THROW(text_of(get("/" + bad)), std::invalid_argument);
        EXPECT_THROW(text_of(get("/").with(bad, "x")), std::invalid_argument);
        EXPECT_THROW(text_of(get("/").with("X", bad)), std::invalid_argument);
        EXPECT_THROW(text_of(request(bad, "/")), std::invalid_argument);
    }
    for (const char* bad : {"", "no slash", "http://other/", "/a b", "/a#b", "/\xc3\xa4"})
        EXPECT_THROW(text_of(get(bad)), std::invalid_argument) << bad;
    for (const char* bad : {"", "a b", "a:", "\xc3\xa4"})
        EXPECT_THROW(text_of(get("/").with(bad, "x")), std::invalid_argument) << bad;
    EXPECT_THROW(text_of(request("", "/")), std::invalid_argument);
    EXPECT_THROW(text_of(request("CONNECT", "/")), std::invalid_argument);
    EXPECT_NO_THROW(text_of(get("/").with("X", "tab\tand \xc3\xa4")));
}

TEST(http_request, refuses_fields_that_are_the_connection_s_own) {
    for (const char* own : {"Content-Length", "transfer-encoding", "HOST", "Connection",
                            "Keep-Alive", "TE", "Trailer", "Upgrade", "Proxy-Connection"})
        EXPECT_THROW(text_of(get("/").with(own, "1")), std::invalid_argument) << own;
}

TEST(http_headers, are_found_without_regard_to_case) {
    headers h;
    h.add("Set-Cookie", "a");
    h.add("X", "y");
    h.add("set-cookie", "b");
    EXPECT_EQ(h.find("SET-COOKIE"), "a");
    EXPECT_THAT(h.all("Set-cookie"), testing::ElementsAre("a", "b"));
    h.set("Set-Cookie", "c");
    EXPECT_THAT(h.all("set-cookie"), testing::ElementsAre("c"));
    EXPECT_EQ(h.size(), 2U);
    EXPECT_TRUE(h.all("none").empty());
}

TEST(http_url, says_everything) {
    options o = options::from_url(
        "https://me:pass@example.org:8443/?tls_ca=/ca&tls_cert=/cert&tls_key=/key"
        "&tls_server_name=other.example&connect_timeout=250ms&operation_timeout=2min"
        "&max_header=2048&max_body=10&user_agent=robot&probe_target=/health%3Ffull");
    EXPECT_TRUE(o.secure);
    EXPECT_EQ(o.host, "example.org");
    EXPECT_EQ(o.port, 8443);
    EXPECT_EQ(o.user, "me");
    EXPECT_EQ(o.password, secret("pass"));
    EXPECT_EQ(o.tls.ca_file, "/ca");
    EXPECT_EQ(o.tls.certificate_file, "/cert");
    EXPECT_EQ(o.tls.key_file, "/key");
    EXPECT_EQ(o.tls.server_name, "other.example");
    EXPECT_EQ(o.connect_timeout, 250ms);
    EXPECT_EQ(o.operation_timeout, 2min);
    EXPECT_EQ(o.max_header, 2048U);
    EXPECT_EQ(o.max_body, 10U);
    EXPECT_EQ(o.user_agent, "robot");
    EXPECT_EQ(o.probe_target, "/health?full");

    options plain = options::from_url("http://example.org");
    EXPECT_FALSE(plain.secure);
    EXPECT_EQ(plain.max_header, 65536U);
    EXPECT_EQ(plain.max_body, 67108864U);
    EXPECT_EQ(plain.operation_timeout, 30s);
}

std::string why(const std::string& url) {
    try {
        options::from_url(url);
    } catch (const invalid_url& e) {
        return e.what();
    }
    return "accepted";
}

TEST(http_url, refuses_what_it_does_not_understand) {
    EXPECT_THAT(why("ftp://example.org"), HasSubstr("must begin with http:// or https://"));
    EXPECT_THAT(why("http:"), HasSubstr("no host"));
    EXPECT_THAT(why("http://a,b"), HasSubstr("more than one host"));
    EXPECT_THAT(why("http://a/path"), HasSubstr("has a path"));
    EXPECT_THAT(why("http://a?color=red"), HasSubstr("\"color\" is not supported"));
    EXPECT_THAT(why("http://a?max_body=1&max_body=2"), HasSubstr("\"max_body\" appears twice"));
    EXPECT_THAT(why("http://a?max_body=red"), HasSubstr("\"max_body\" must be a number"));
    EXPECT_THAT(why("http://a?max_header=12"), HasSubstr("\"max_header\" must be a number"));
    EXPECT_THAT(why("http://a?operation_timeout=red"), HasSubstr("\"operation_timeout\""));
    EXPECT_THAT(why("http://a?tls_ca=/x"), HasSubstr("\"tls_ca\" has no effect without TLS"));
    EXPECT_THAT(why("https://a?tls_key=/x"), HasSubstr("\"tls_key\" needs \"tls_cert\""));
    EXPECT_THAT(why("http://a?user_agent=a%0ab"), HasSubstr("\"user_agent\""));
    EXPECT_THAT(why("http://a?probe_target=x"), HasSubstr("\"probe_target\""));
    EXPECT_THAT(why("http://me%3Ayou:x@a"), HasSubstr("user with a ':'"));
}

TEST(http_url, never_quotes_a_password) {
    for (std::string bad :
         {"http://u:" + std::string(canary) + "@a,b", "http://u:" + std::string(canary) + "@a/p?q",
          "http://u:" + std::string(canary) + "%zz@a",
          "http://u:" + std::string(canary) + "@a?max_body=" + canary})
        EXPECT_THAT(why(bad), Not(HasSubstr(canary))) << bad;
}

TEST(http_options, are_checked_by_the_connector) {
    auto refused = [](auto change) {
        options o;
        change(o);
        try {
            connector made(o);
        } catch (const std::invalid_argument&) {
            return true;
        }
        return false;
    };
    EXPECT_FALSE(refused([](options&) {}));
    EXPECT_TRUE(refused([](options& o) { o.host = ""; }));
    EXPECT_TRUE(refused([](options& o) { o.host = "a\r\nb"; }));
    EXPECT_TRUE(refused([](options& o) { o.user = "a:b"; }));
    EXPECT_TRUE(refused([](options& o) { o.password = secret("x"); }));
    EXPECT_TRUE(refused([](options& o) { o.user_agent = "a\nb"; }));
    EXPECT_TRUE(refused([](options& o) { o.max_header = 10; }));
    EXPECT_TRUE(refused([](options& o) { o.probe_target = "health"; }));
}

TEST(http_options, say_at_once_that_a_file_for_tls_cannot_be_read) {
    for (const char* url : {"https://a?tls_ca=/nowhere", "https://a?tls_cert=/nowhere"}) {
        try {
            connector made{std::string_view(url)};
            ADD_FAILURE() << url;
        } catch (const connection_error& e) {
            EXPECT_EQ(e.kind(), error_kind::final);
        }
    }
}

}  // namespace
