// URLs of Redis, its connections, and the two connectors: the same words, blocking and awaited.
#include "cenote/redis.hpp"

#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

#include "cenote/url.hpp"
#include "connector/redis_session.hpp"
#include "connector/socket.hpp"

namespace cenote::redis {

namespace asio = boost::asio;
using connector_detail::deadline_after;
using connector_detail::handshake;
using connector_detail::instant;
using connector_detail::transport;
using detail::greeting;
using detail::session;
using detail::settings;

// Options.

namespace {

[[noreturn]] void refuse(const char* why) {
    throw invalid_url(std::string("cenote: the URL ") + why);
}

int database_of(const std::string& path) {
    if (path.empty() || path == "/") return 0;
    int number = 0;
    const char* end = path.data() + path.size();
    auto [last, error] = std::from_chars(path.data() + 1, end, number);
    if (error != std::errc{} || last != end || number < 0)
        refuse("has a path that is no number of a database");
    return number;
}

void place(const url& u, options& o) {
    if (u.hosts.size() > 1) refuse("names more than one host");
    if (u.hosts.empty()) return;
    const url::host& only = u.hosts.front();
    o.host = only.name;
    bool is_path = only.name.starts_with('/');
    if (is_path && only.port != 0) refuse("has a port of a Unix socket");
    if (only.port != 0) o.port = only.port;
}

/// Whoever says "redis:" of another machine may not know what that means.
void protect(const url& u, url_parameters& from, options& o) {
    std::optional<bool> tls = from.take_bool("tls");
    bool secure = u.scheme == "rediss";
    if (secure && tls == false) refuse("says rediss and tls=off");
    bool on = secure || tls == true;
    if (!on && !tls && !is_loopback(o.host))
        refuse(
            "is redis: of another machine: whoever is on the way could read what is sent, the "
            "password included. Say rediss: for TLS, or tls=off");
    o.use_tls = on ? options::protection::on : options::protection::off;
    auto file = [&](const char* key, std::string& into) {
        auto value = from.take(key);
        if (!value) return;
        if (!on) refuse("has settings of TLS, which is off");
        into = std::move(*value);
    };
    file("tls_ca", o.tls.ca_file);
    file("tls_cert", o.tls.certificate_file);
    file("tls_key", o.tls.key_file);
    file("tls_server_name", o.tls.server_name);
    if (!o.tls.key_file.empty() && o.tls.certificate_file.empty())
        refuse("has a tls_key without a tls_cert");
}

}  // namespace

options options::from_url(std::string_view text) {
    url u = url::parse(text);
    if (u.scheme != "redis" && u.scheme != "rediss") refuse("is none of redis: or rediss:");
    if (!u.has_authority) refuse("has no // after its scheme");
    options o;
    place(u, o);
    o.user = u.user;
    o.password = std::move(u.password);
    o.database = database_of(u.path);
    url_parameters from(u);
    protect(u, from, o);
    if (auto name = from.take("client_name")) o.client_name = std::move(*name);
    for (char c : o.client_name)
        if (c <= ' ' || c >= 0x7f)
            refuse("has a parameter \"client_name\" with a character that no client's name has");
    if (auto time = from.take_milliseconds("connect_timeout"))
        o.connect_timeout = std::chrono::milliseconds(*time);
    if (auto time = from.take_milliseconds("operation_timeout"))
        o.operation_timeout = std::chrono::milliseconds(*time);
    if (auto most = from.take_number("max_reply", 1024, std::int64_t{1} << 40U))
        o.max_reply = static_cast<std::size_t>(*most);
    from.refuse_others();
    return o;
}

// Connection.

connection::connection(std::unique_ptr<session> s) noexcept : session_(std::move(s)) {}
connection::connection(connection&& other) noexcept = default;
connection& connection::operator=(connection&& other) noexcept = default;
connection::~connection() = default;

reply connection::only(const pipeline& one) { return session_->only(one); }

asio::awaitable<reply> connection::async_only(pipeline one) {
    return session::async_only(session_.get(), std::move(one));
}

std::vector<reply> connection::execute(const pipeline& commands) {
    return session_->execute(commands);
}

asio::awaitable<std::vector<reply>> connection::async_execute(pipeline commands) {
    return session::async_execute(session_.get(), std::move(commands));
}

std::optional<std::vector<reply>> connection::transaction(const pipeline& commands) {
    return session_->transaction(commands);
}

asio::awaitable<std::optional<std::vector<reply>>> connection::async_transaction(
    pipeline commands) {
    return session::async_transaction(session_.get(), std::move(commands));
}

void connection::set_timeout(std::chrono::milliseconds limit) noexcept {
    session_->set_timeout(limit);
}

bool connection::in_transaction() const noexcept { return session_->in_transaction(); }

int connection::native_handle() const noexcept { return session_->descriptor(); }

// What both connectors do at once.

namespace {

void refuse_incurable(const session& s) {
    if (s.left().incurable)
        throw connection_error(error_kind::connection,
                               "cenote: Redis: the session was changed in a way that cannot be "
                               "undone");
}

}  // namespace

// Connector.

connector::connector(const options& how) : settings_(std::make_shared<const settings>(how)) {}

connection connector::open() {
    const options& how = settings_->how();
    instant by = deadline_after(how.connect_timeout);
    std::vector<connector_detail::address> places = connector_detail::resolve(how.host, how.port);
    transport line(connector_detail::connect(places, by));
    if (settings_->protects()) {
        line.protect(how.tls, how.host);
        handshake hands(line);
        connector_detail::drive(hands, by);
    }
    auto s = std::make_unique<session>(settings_, std::move(line));
    s->greet(greeting(*settings_, greeting::purpose::open), by);
    return connection(std::move(s));
}

bool connector::probe(connection& c) {
    session& s = *c.session_;
    s.greet(greeting(*settings_, greeting::purpose::probe), s.deadline());
    return true;
}

void connector::reset(connection& c) {
    session& s = *c.session_;
    refuse_incurable(s);
    s.greet(greeting(*settings_, greeting::purpose::reset, s.left()), s.deadline());
    s.note_reset();
}

void connector::close(connection& c) noexcept { c.session_->line().close(); }
bool connector::before_acquire(connection& c) noexcept { return c.session_->fit(); }
verdict connector::before_release(connection& c) noexcept { return c.session_->judge(); }
void connector::forsake(connection& c) noexcept { c.session_->line().forsake(); }

// The same, awaited.

namespace {

asio::awaitable<connection> awaited_open(std::shared_ptr<const settings> of) {
    const options& how = of->how();
    instant by = deadline_after(how.connect_timeout);
    std::vector<connector_detail::address> places =
        co_await connector_detail::async_resolve(how.host, how.port);
    connector_detail::socket plain = co_await connector_detail::async_connect(places, by);
    transport line(std::move(plain));
    if (of->protects()) {
        line.protect(how.tls, how.host);
        handshake hands(line);
        co_await connector_detail::async_drive(hands, by);
    }
    auto s = std::make_unique<session>(of, std::move(line));
    greeting words(*of, greeting::purpose::open);
    co_await session::async_greet(s.get(), &words, by);
    co_return connection(std::move(s));
}

asio::awaitable<bool> awaited_probe(std::shared_ptr<const settings> of, session* s) {
    greeting words(*of, greeting::purpose::probe);
    co_await session::async_greet(s, &words, s->deadline());
    co_return true;
}

asio::awaitable<void> awaited_reset(std::shared_ptr<const settings> of, session* s) {
    refuse_incurable(*s);
    greeting words(*of, greeting::purpose::reset, s->left());
    co_await session::async_greet(s, &words, s->deadline());
    s->note_reset();
}

}  // namespace

async_connector::async_connector(const options& how)
    : settings_(std::make_shared<const settings>(how)) {}

asio::awaitable<connection> async_connector::open() { return awaited_open(settings_); }
asio::awaitable<bool> async_connector::probe(connection& c) {
    return awaited_probe(settings_, c.session_.get());
}
asio::awaitable<void> async_connector::reset(connection& c) {
    return awaited_reset(settings_, c.session_.get());
}
void async_connector::close(connection& c) noexcept { c.session_->line().close(); }
bool async_connector::before_acquire(connection& c) noexcept { return c.session_->fit(); }
verdict async_connector::before_release(connection& c) noexcept { return c.session_->judge(); }
void async_connector::forsake(connection& c) noexcept { c.session_->line().forsake(); }

}  // namespace cenote::redis
