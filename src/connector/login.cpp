// Passwords from files and from the environment.
#include "connector/login.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <span>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "connector/socket.hpp"

namespace cenote {

namespace {

using connector_detail::text_of_file;

[[noreturn]] void fail(const std::string& what) {
    throw connection_error(error_kind::transient, "cenote: " + what);
}

std::string reason() { return std::generic_category().message(errno); }

std::string_view first_line(std::string_view text) {
    text = text.substr(0, text.find('\n'));
    if (text.ends_with('\r')) text.remove_suffix(1);
    return text;
}

}  // namespace

credentials_source password_from_file(std::string path) {
    return [path = std::move(path)] {
        constexpr std::size_t most = std::size_t{64} << 10U;
        const secret text = text_of_file(path, most, false);
        credentials found(secret(first_line(text.reveal())));
        if (found.password.empty()) fail("the password file " + path + " has no password");
        return found;
    };
}

credentials_source password_from_environment(std::string name) {
    return [name = std::move(name)] {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): as the header says
        const char* value = std::getenv(name.c_str());
        if (value == nullptr || *value == '\0')
            fail("the environment variable " + name + " has no password");
        return credentials(secret(value));
    };
}

namespace connector_detail {

namespace asio = boost::asio;

void check_credentials(const credentials& who) {
    bool has_zero = who.user.find('\0') != who.user.npos ||
                    who.password.reveal().find('\0') != std::string_view::npos;
    if (has_zero) fail("the user or the password has a zero byte");
}

// What a connector knows of its logins.

namespace {

bool same(const credentials& a, const credentials& b) {
    return a.user == b.user && a.password == b.password;
}

}  // namespace

void logins::check(const credentials& by) const {
    constexpr std::chrono::seconds quiet_time{1};
    std::lock_guard lock(mutex_);
    if (!refusal_ || !same(refusal_->by, by)) return;
    if (std::chrono::steady_clock::now() - refusal_->at >= quiet_time) return;
    const login_refused& why = refusal_->why;
    throw login_refused(why.what(), why.sqlstate(), why.code());
}

void logins::note_refused(const credentials& by, const login_refused& why) {
    std::lock_guard lock(mutex_);
    // A copy of the exception would share its text, which other threads may be reading.
    refusal_.emplace(refusal{.by = by,
                             .why = login_refused(why.what(), why.sqlstate(), why.code()),
                             .at = std::chrono::steady_clock::now()});
}

std::shared_ptr<const credentials> logins::shared(credentials by) const {
    std::shared_ptr<const credentials> known = latest();
    if (known != nullptr && same(*known, by)) return known;
    return std::make_shared<const credentials>(std::move(by));
}

void logins::note_accepted(std::shared_ptr<const credentials> by) {
    std::lock_guard lock(mutex_);
    if (refusal_ && same(refusal_->by, *by)) refusal_.reset();
    latest_ = std::move(by);
}

std::shared_ptr<const credentials> logins::latest() const {
    std::lock_guard lock(mutex_);
    return latest_;
}

namespace {

asio::awaitable<void> store(asio::awaitable<credentials> from, std::optional<credentials>* into) {
    credentials found = co_await std::move(from);
    into->emplace(std::move(found));
}

}  // namespace

credentials run_awaited_function(const std::function<asio::awaitable<credentials>()>& what,
                                 instant deadline) {
    std::optional<credentials> found;
    run_on_own_loop(store(what(), &found), deadline, "async_credentials");
    return std::move(*found);
}

namespace {

/// Wipes the bytes at its end.
class wiped {
public:
    explicit wiped(std::size_t size) : text_(size, '\0') {}
    ~wiped() { ::explicit_bzero(text_.data(), text_.size()); }
    wiped(const wiped&) = delete;
    wiped& operator=(const wiped&) = delete;

    std::span<char> bytes() { return text_; }

private:
    std::string text_;
};

}  // namespace

secret text_of_file(const std::string& path, std::size_t most, bool is_private) {
    // Without O_NONBLOCK the open of a pipe waits for its writer.
    socket file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) fail("cannot open the file " + path + ": " + reason());
    struct stat about{};
    if (::fstat(file.descriptor(), &about) != 0 || !S_ISREG(about.st_mode))
        fail(path + " is not a regular file");
    if (is_private && (about.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        fail("the file " + path + " must be accessible to its owner only");
    wiped buffer(most + 1);
    std::size_t size = 0;
    while (size <= most) {
        std::span<char> rest = buffer.bytes().subspan(size);
        ssize_t got = ::read(file.descriptor(), rest.data(), rest.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail("cannot read the file " + path + ": " + reason());
        if (got == 0) break;
        size += static_cast<std::size_t>(got);
    }
    if (size > most) fail("the file " + path + " is too long");
    return secret(std::string_view(buffer.bytes().data(), size));
}

namespace {

/// The rest of a line whose first field matches.
std::optional<std::string_view> after_match(std::string_view line, std::string_view wanted) {
    if (line.starts_with("*:")) return line.substr(2);
    std::size_t at = 0;
    for (char c : wanted) {
        if (at < line.size() && line[at] == '\\') ++at;
        if (at >= line.size() || line[at] != c) return std::nullopt;
        ++at;
    }
    if (at >= line.size() || line[at] != ':') return std::nullopt;
    return line.substr(at + 1);
}

/// A field up to its end, without its backslashes.
secret unescaped(std::string_view field) {
    wiped buffer(field.size());
    std::size_t size = 0;
    for (std::size_t i = 0; i < field.size() && field[i] != ':'; ++i) {
        if (field[i] == '\\' && i + 1 < field.size()) ++i;
        buffer.bytes()[size++] = field[i];
    }
    return secret(std::string_view(buffer.bytes().data(), size));
}

}  // namespace

std::optional<secret> find_in_passfile(std::string_view text, std::string_view host,
                                       std::string_view port, std::string_view database,
                                       std::string_view user) {
    while (!text.empty()) {
        std::string_view line = first_line(text);
        std::size_t end = text.find('\n');
        text.remove_prefix(end == text.npos ? text.size() : end + 1);
        if (line.starts_with('#') || line.find('\0') != line.npos) continue;
        std::optional<std::string_view> rest = line;
        for (std::string_view wanted : {host, port, database, user})
            if (rest) rest = after_match(*rest, wanted);
        if (rest) return unescaped(*rest);
    }
    return std::nullopt;
}

}  // namespace connector_detail

}  // namespace cenote
