// Opening a connection, and the meaning of a failed open (docs/decisions/0016).
#include <algorithm>
#include <array>
#include <cstdlib>
#include <locale.h>
#include <pwd.h>
#include <unistd.h>

#include "connector/login.hpp"
#include "connector/postgres_session.hpp"

namespace cenote::postgres::detail {

namespace {

/// Gives this thread the C locale for a while, so that libpq's messages are in English.
class c_locale {
public:
    c_locale() noexcept : before_(::uselocale(c())) {}
    ~c_locale() { ::uselocale(before_); }
    c_locale(const c_locale&) = delete;
    c_locale& operator=(const c_locale&) = delete;

private:
    static locale_t c() noexcept {
        static locale_t made = ::newlocale(LC_ALL_MASK, "C", locale_t{});
        return made;
    }

    locale_t before_;
};

/// Far more than any login needs. libpq searches all parameters of the server for each new one, so
/// the limit also keeps a step short.
constexpr std::uint64_t max_login_bytes = std::uint64_t{256} << 10U;

void ignore_notice(void* /*unused*/, const PGresult* /*notice*/) {}

/// Only with these settings. Does not copy the password.
handle_ptr start(const std::vector<std::pair<const char*, std::string>>& keywords,
                 const char* password) {
    std::vector<const char*> names{"password"};
    std::vector<const char*> values{password};
    for (const auto& [name, value] : keywords) {
        names.push_back(name);
        values.push_back(value.c_str());
    }
    names.push_back(nullptr);
    values.push_back(nullptr);
    return handle_ptr(PQconnectStartParams(names.data(), values.data(), 0));
}

bool is_sqlstate(std::string_view text) {
    return text.size() == 5 && std::ranges::all_of(text, [](char c) {
               return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
           });
}

/// Of an error of the server before there is a session.
error_kind kind_at_open(std::string_view sqlstate) {
    constexpr std::array<std::string_view, 5> hopeless{"28", "3D", "42", "22", "0A"};
    bool final = std::ranges::find(hopeless, sqlstate.substr(0, 2)) != hopeless.end();
    return final ? error_kind::final : error_kind::transient;
}

/// Of a message of libpq itself: final if a setting has to be changed first.
error_kind kind_of_message(std::string_view text) {
    constexpr std::array<std::string_view, 10> hopeless{"certificate",
                                                        "private key",
                                                        "channel binding",
                                                        "server does not support SSL",
                                                        "no password supplied",
                                                        "authentication method",
                                                        "incorrect server signature",
                                                        "alert unknown ca",
                                                        "alert protocol version",
                                                        "unsupported protocol"};
    bool final = std::ranges::any_of(
        hopeless, [&](std::string_view words) { return text.find(words) != text.npos; });
    return final ? error_kind::final : error_kind::transient;
}

/// Whether other credentials may mend the failure.
bool is_about_login(const failure& f) {
    return f.sqlstate.starts_with("28") || f.text.find("no password supplied") != f.text.npos;
}

bool may_change(const options& o) {
    return connector_detail::has_credentials_source(o) || !o.passfile.empty();
}

/// Removes `connection to server at "…", port … failed: `, which fail() says itself.
std::string_view without_place(std::string_view message) {
    constexpr std::string_view before = " failed: ";
    std::size_t at = message.find(before);
    bool there = message.starts_with("connection to server ") && at != message.npos;
    return there ? message.substr(at + before.size()) : message;
}

/// One line, without the location in the server's source.
std::string in_one_line(std::string_view text) {
    std::string line;
    while (!text.empty()) {
        std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view one = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (one.starts_with("LOCATION:  ") || one.starts_with('\t') || one.empty()) continue;
        line += line.empty() ? "" : "; ";
        line += one;
    }
    return line;
}

}  // namespace

/// A message of the server has the form `FATAL:  28P01: password …`; its first word is in the
/// server's language.
failure failure_of_open(std::string_view message) {
    message = without_place(message);
    std::string_view first = message.substr(0, message.find('\n'));
    std::size_t gap = first.find(":  ");
    failure f;
    if (gap != first.npos && is_sqlstate(first.substr(gap + 3, 5)) &&
        first.substr(gap + 8, 2) == ": ") {
        f.sqlstate = first.substr(gap + 3, 5);
        f.kind = kind_at_open(f.sqlstate);
        f.text = in_one_line(message.substr(gap + 10));
    } else {
        f.text = in_one_line(message);
        f.kind = kind_of_message(f.text);
    }
    return f;
}

namespace {

/// Of the environment; empty if it is not set.
std::string variable(const char* name) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): not more than libpq
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

/// The home folder as libpq finds it.
std::string home() {
    if (std::string chosen = variable("HOME"); !chosen.empty()) return chosen;
    std::array<char, 16'384> memory{};
    passwd entry{};
    passwd* found = nullptr;
    int failed = ::getpwuid_r(::geteuid(), &entry, memory.data(), memory.size(), &found);
    return failed == 0 && found != nullptr ? found->pw_dir : "";
}

}  // namespace

secret text_of_passfile(const options& settings) {
    constexpr std::size_t most = std::size_t{1} << 20U;
    std::string path = settings.passfile;
    if (path == "default") {
        path = variable("PGPASSFILE");
        if (path.empty()) path = home() + "/.pgpass";
    }
    return connector_detail::text_of_file(path, most, true);
}

secret password_for(const options& settings, const attempt& where, const login& by) {
    if (settings.passfile.empty()) return by.who.password;
    const std::string& database = settings.database.empty() ? settings.user : settings.database;
    std::string_view text = by.passfile.reveal();
    auto find = [&](std::string_view host) {
        return connector_detail::find_in_passfile(text, host, where.port, database, by.who.user);
    };
    std::optional<secret> found = find(where.host);
    if (!found && where.address.empty()) found = find("localhost");  // as libpq
    if (found) return std::move(*found);
    throw connection_error(error_kind::transient,
                           "cenote: PostgreSQL: the passfile has no password for " + where.host +
                               ":" + where.port);
}

opening::opening(std::shared_ptr<const options> settings, const attempt& where, const login& by)
    : settings_(std::move(settings)),
      where_(where.host + (where.address.empty() ? "/.s.PGSQL." : ":") + where.port),
      password_(password_for(*settings_, where, by)) {
    c_locale english;
    handle_ = start(keywords_of(*settings_, where, by.who.user), password_of(password_));
    if (handle_ == nullptr) throw std::bad_alloc();
    PQsetNoticeReceiver(handle_.get(), &ignore_notice, nullptr);
    PQsetErrorVerbosity(handle_.get(), PQERRORS_VERBOSE);
    if (PQstatus(handle_.get()) == CONNECTION_BAD) fail();
}

need opening::step() {
    if (!std::exchange(begun_, true)) return need::to_write;  // libpq requires it
    c_locale english;
    const PostgresPollingStatusType status = PQconnectPoll(handle_.get());
    read_.note_read(PQsocket(handle_.get()));
    if (read_.bytes() > max_login_bytes)
        throw connection_error(error_kind::transient,
                               "cenote: PostgreSQL: cannot open a connection to " + where_ +
                                   ": the server sends too much before the login is over");
    switch (status) {
        case PGRES_POLLING_READING: return need::to_read;
        case PGRES_POLLING_WRITING: return need::to_write;
        case PGRES_POLLING_OK: return need::nothing;
        default: fail();
    }
}

std::shared_ptr<session> opening::take() {
    return std::make_shared<session>(settings_, std::move(handle_));
}

void opening::fail() const {
    failure why = failure_of_open(PQerrorMessage(handle_.get()));
    std::string_view password = password_.reveal();
    if (!password.empty() && why.text.find(password) != std::string::npos)
        why.text = "the reason is hidden, because it contains the password";
    why.text = "cannot open a connection to " + where_ + ": " + why.text;
    if (is_about_login(why) && may_change(*settings_))
        throw connector_detail::login_refused(why.message(), why.sqlstate);
    why.raise();
}

}  // namespace cenote::postgres::detail
