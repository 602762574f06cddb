// How a connection is opened, and what it means if it is not (docs/decisions/0016).
#include <algorithm>
#include <array>
#include <locale.h>

#include "connector/postgres_session.hpp"

namespace cenote::postgres::detail {

namespace {

/// Makes this thread speak plain English for a while: so does libpq.
class plain_speech {
public:
    plain_speech() noexcept : before_(::uselocale(english())) {}
    ~plain_speech() { ::uselocale(before_); }
    plain_speech(const plain_speech&) = delete;
    plain_speech& operator=(const plain_speech&) = delete;

private:
    static locale_t english() noexcept {
        static locale_t c = ::newlocale(LC_ALL_MASK, "C", locale_t{});
        return c;
    }

    locale_t before_;
};

/// Far more than any login takes. libpq searches all parameters that the server has sent for each
/// one that comes, so the limit also keeps a step short.
constexpr std::uint64_t most_login_bytes = std::uint64_t{256} << 10U;

void hear_nothing(void* /*nobody*/, const PGresult* /*notice*/) {}

/// Nothing but these; the password is not copied.
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

/// Of what the server said before there was a session.
error_kind kind_at_open(std::string_view sqlstate) {
    constexpr std::array<std::string_view, 5> hopeless{"28", "3D", "42", "22", "0A"};
    bool final = std::ranges::find(hopeless, sqlstate.substr(0, 2)) != hopeless.end();
    return final ? error_kind::final : error_kind::transient;
}

/// Of what libpq found out by itself: whether somebody has to change something first.
error_kind kind_of_words(std::string_view text) {
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

/// `connection to server at "…", port … failed: `: we say that ourselves.
std::string_view without_place(std::string_view message) {
    constexpr std::string_view before = " failed: ";
    std::size_t at = message.find(before);
    bool there = message.starts_with("connection to server ") && at != message.npos;
    return there ? message.substr(at + before.size()) : message;
}

/// On one line, without where it is in the server's source.
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

/// The server's own words come as `FATAL:  28P01: password …`, the first of them in its language.
complaint understand(std::string_view message) {
    message = without_place(message);
    std::string_view first = message.substr(0, message.find('\n'));
    std::size_t gap = first.find(":  ");
    complaint c;
    if (gap != first.npos && is_sqlstate(first.substr(gap + 3, 5)) &&
        first.substr(gap + 8, 2) == ": ") {
        c.sqlstate = first.substr(gap + 3, 5);
        c.kind = kind_at_open(c.sqlstate);
        c.text = in_one_line(message.substr(gap + 10));
    } else {
        c.text = in_one_line(message);
        c.kind = kind_of_words(c.text);
    }
    return c;
}

opening::opening(std::shared_ptr<const options> settings, const attempt& where)
    : settings_(std::move(settings)),
      where_(where.host + (where.address.empty() ? "/.s.PGSQL." : ":") + where.port) {
    plain_speech english;
    handle_ = start(keywords_of(*settings_, where), password_of(*settings_));
    if (handle_ == nullptr) throw std::bad_alloc();
    PQsetNoticeReceiver(handle_.get(), &hear_nothing, nullptr);
    PQsetErrorVerbosity(handle_.get(), PQERRORS_VERBOSE);
    if (PQstatus(handle_.get()) == CONNECTION_BAD) fail();
}

need opening::step() {
    if (!std::exchange(begun_, true)) return need::to_write;  // as libpq wants it
    plain_speech english;
    const PostgresPollingStatusType status = PQconnectPoll(handle_.get());
    read_.note_read(PQsocket(handle_.get()));
    if (read_.bytes() > most_login_bytes)
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
    complaint why = understand(PQerrorMessage(handle_.get()));
    std::string_view password = settings_->password.reveal();
    if (!password.empty() && why.text.find(password) != std::string::npos)
        why.text = "the reason is not shown, since the password is in it";
    why.text = "cannot open a connection to " + where_ + ": " + why.text;
    why.raise();
}

}  // namespace cenote::postgres::detail
