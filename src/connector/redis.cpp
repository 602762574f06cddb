// Redis connections and connectors, each operation written once for both ways to wait; options.
#include "cenote/redis.hpp"

#include <charconv>
#include <functional>
#include <limits>
#include <system_error>
#include <utility>

#include "cenote/url.hpp"
#include "connector/endpoint.hpp"
#include "connector/redis_session.hpp"
#include "connector/transport.hpp"
#include "connector/url_options.hpp"

namespace cenote::redis {

namespace asio = boost::asio;
using connector_detail::awaited;
using connector_detail::blocking;
using connector_detail::deadline_after;
using connector_detail::instant;
using connector_detail::refuse_url;
using connector_detail::result_in;
using connector_detail::transport;
using detail::conversation;
using detail::session;
using detail::settings;
using detail::setup;

// Options.

namespace {

int database_of(const std::string& path) {
    if (path.empty() || path == "/") return 0;
    int number = 0;
    const char* end = path.data() + path.size();
    auto [last, error] = std::from_chars(path.data() + 1, end, number);
    if (error != std::errc{} || last != end || number < 0)
        refuse_url("has a path that is not the number of a database");
    return number;
}

void take_place(const url& u, options& o) {
    if (u.hosts.size() > 1) refuse_url("has more than one host");
    if (u.hosts.empty()) return;
    const url::host& only = u.hosts.front();
    o.host = only.name;
    bool is_path = only.name.starts_with('/');
    if (is_path && only.port != 0) refuse_url("has a port, but its host is a Unix socket");
    if (only.port != 0) o.port = only.port;
}

/// "redis:" with a remote host needs an explicit tls=off: its author may not know the risk.
void take_tls(const url& u, url_parameters& from, options& o) {
    std::optional<bool> tls = from.take_bool("tls");
    bool secure = u.scheme == "rediss";
    if (secure && tls == false) refuse_url("has both rediss: and tls=off");
    bool on = secure || tls == true;
    if (!on && !tls && !is_loopback(o.host))
        refuse_url(
            "would send everything to another machine in clear text, the password included; use "
            "rediss: for TLS, or tls=off to allow that");
    o.use_tls = on ? options::protection::on : options::protection::off;
    connector_detail::take_tls_files(from, on, o.tls);
}

}  // namespace

options options::from_url(std::string_view text) {
    url u = url::parse(text);
    if (u.scheme != "redis" && u.scheme != "rediss")
        refuse_url("must begin with redis:// or rediss://");
    if (!u.has_authority) refuse_url("has no // after its scheme");
    options o;
    take_place(u, o);
    o.user = u.user;
    o.password = std::move(u.password);
    o.database = database_of(u.path);
    url_parameters from(u);
    take_tls(u, from, o);
    connector_detail::take_text(from, "client_name", o.client_name);
    for (char c : o.client_name)
        if (c <= ' ' || c >= 0x7f)
            url_parameters::refuse("client_name", "has characters that are not allowed");
    connector_detail::take_timeouts(from, o);
    connector_detail::take_reply_limit(from, "max_reply", 1024, o.max_reply);
    from.refuse_others();
    return o;
}

// Exchanges. The commands are a pipeline that the coroutine owns, or a reference to one.

namespace {

template <class Mode, class Commands>
result_in<Mode, std::vector<reply>> execute(session* s, Commands given) {
    const pipeline& commands = given;
    if (commands.empty()) co_return std::vector<reply>();
    conversation c(*s, commands.wire(), commands.size());
    s->note_sent(commands);
    co_await Mode::drive(c, s->deadline());
    c.complete();
    s->note_replies(commands.marks(), c.replies());
    co_return std::move(c.replies());
}

template <class Mode, class Commands>
result_in<Mode, reply> execute_one(session* s, Commands given) {
    const pipeline& one = given;
    std::vector<reply> replies = co_await execute<Mode>(s, std::cref(one));
    co_return detail::unless_error(one, std::move(replies.front()));
}

template <class Mode, class Commands>
result_in<Mode, std::optional<std::vector<reply>>> transact(session* s, Commands given) {
    pipeline all = s->in_multi(given);
    std::vector<reply> replies = co_await execute<Mode>(s, std::cref(all));
    co_return s->outcome(std::move(replies));
}

template <class Mode>
result_in<Mode, void> set_up(session* s, const setup* commands, instant by) {
    conversation c(*s, commands->wire(), commands->size());
    co_await Mode::drive(c, by);
    commands->check(c.replies());
    c.complete();
}

}  // namespace

// Connection.

connection::connection(std::unique_ptr<session> s) noexcept : session_(std::move(s)) {}
connection::connection(connection&& other) noexcept = default;
connection& connection::operator=(connection&& other) noexcept = default;
connection::~connection() = default;

reply connection::only(const pipeline& one) {
    return execute_one<blocking>(session_.get(), std::cref(one)).get();
}

asio::awaitable<reply> connection::async_only(pipeline one) {
    return execute_one<awaited>(session_.get(), std::move(one));
}

std::vector<reply> connection::execute(const pipeline& commands) {
    return redis::execute<blocking>(session_.get(), std::cref(commands)).get();
}

asio::awaitable<std::vector<reply>> connection::async_execute(pipeline commands) {
    return redis::execute<awaited>(session_.get(), std::move(commands));
}

std::optional<std::vector<reply>> connection::transaction(const pipeline& commands) {
    return transact<blocking>(session_.get(), std::cref(commands)).get();
}

asio::awaitable<std::optional<std::vector<reply>>> connection::async_transaction(
    pipeline commands) {
    return transact<awaited>(session_.get(), std::move(commands));
}

void connection::set_timeout(std::chrono::milliseconds limit) noexcept {
    session_->set_timeout(limit);
}

bool connection::in_transaction() const noexcept { return session_->in_transaction(); }

int connection::native_handle() const noexcept { return session_->descriptor(); }

// Connectors.

namespace {

template <class Mode>
result_in<Mode, connection> open(std::shared_ptr<const settings> of) {
    const options& o = of->chosen();
    instant by = deadline_after(o.connect_timeout);
    const tls_options* tls = of->uses_tls() ? &o.tls : nullptr;
    transport peer = co_await connector_detail::open_transport<Mode>(&o.host, o.port, tls, by);
    auto s = std::make_unique<session>(of, std::move(peer));
    setup commands(*of, setup::purpose::open);
    co_await set_up<Mode>(s.get(), &commands, by);
    co_return connection(std::move(s));
}

template <class Mode>
result_in<Mode, bool> probe(std::shared_ptr<const settings> of, session* s) {
    setup commands(*of, setup::purpose::probe);
    co_await set_up<Mode>(s, &commands, s->deadline());
    co_return true;
}

template <class Mode>
result_in<Mode, void> reset(std::shared_ptr<const settings> of, session* s) {
    s->refuse_irreversible();
    setup commands(*of, setup::purpose::reset, s->left());
    co_await set_up<Mode>(s, &commands, s->deadline());
    s->note_reset();
}

}  // namespace

std::string connector::endpoint() const {
    const options& chosen = settings_->chosen();
    return "redis://" + connector_detail::endpoint_of(chosen.host, chosen.port) + '/' +
           std::to_string(chosen.database);
}

connector::connector(const options& chosen) : settings_(std::make_shared<const settings>(chosen)) {}

connection connector::open() { return redis::open<blocking>(settings_).get(); }
bool connector::probe(connection& c) {
    return redis::probe<blocking>(settings_, c.session_.get()).get();
}
void connector::reset(connection& c) { redis::reset<blocking>(settings_, c.session_.get()).get(); }
void connector::close(connection& c) noexcept { c.session_->peer().close(); }
bool connector::before_acquire(connection& c) noexcept { return c.session_->usable(); }
verdict connector::before_release(connection& c) noexcept { return c.session_->end_lease(); }
void connector::forsake(connection& c) noexcept { c.session_->peer().forsake(); }

asio::awaitable<connection> async_connector::open() {
    return redis::open<awaited>(blocking_.settings_);
}
asio::awaitable<bool> async_connector::probe(connection& c) {
    return redis::probe<awaited>(blocking_.settings_, c.session_.get());
}
asio::awaitable<void> async_connector::reset(connection& c) {
    return redis::reset<awaited>(blocking_.settings_, c.session_.get());
}

}  // namespace cenote::redis
