// Maps requests to orders and orders to responses. All writes run in transactions.
#include "examples/orders_service/api.hpp"

#include <boost/beast/http/field.hpp>
#include <boost/beast/http/verb.hpp>
#include <charconv>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "examples/orders_service/order_json.hpp"
#include "examples/orders_service/orders.hpp"

namespace orders_service {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using cenote::http_server::handler;
using cenote::http_server::request;
using cenote::http_server::response;
using cenote::http_server::to_response;

namespace {

constexpr std::int64_t list_max = 100;

cenote::answer json_answer(int status, std::string body) {
    return cenote::answer(status, std::move(body), "application/json");
}

cenote::answer_error refusal(int status, std::string_view why) {
    return cenote::answer_error(json_answer(status, error_to_json(why)));
}

/// A non-negative integer.
std::optional<std::int64_t> number_in(std::string_view text) {
    std::int64_t n = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc() || end != text.data() + text.size() || n < 0) return std::nullopt;
    return n;
}

/// A parsed path: /orders, /orders/7 or /orders/7/pay.
struct route {
    std::optional<std::int64_t> id;
    std::string_view action;
};

std::optional<route> route_of(std::string_view path) {
    constexpr std::string_view root = "/orders";
    if (!path.starts_with(root)) return std::nullopt;
    path.remove_prefix(root.size());
    if (path.empty()) return route{};
    if (!path.starts_with('/')) return std::nullopt;
    path.remove_prefix(1);
    std::size_t slash = path.find('/');
    route found{number_in(path.substr(0, slash)), {}};
    if (slash != std::string_view::npos) found.action = path.substr(slash + 1);
    bool known =
        slash == std::string_view::npos || found.action == "pay" || found.action == "cancel";
    if (!found.id || !known) return std::nullopt;
    return found;
}

/// The value of `name` in "after=3&limit=5". Throws if it is not a number.
std::int64_t parameter(std::string_view query, std::string_view name, std::int64_t otherwise) {
    while (!query.empty()) {
        std::string_view pair = query.substr(0, query.find('&'));
        query.remove_prefix(std::min(query.size(), pair.size() + 1));
        if (!pair.starts_with(name) || !pair.substr(name.size()).starts_with('=')) continue;
        auto value = number_in(pair.substr(name.size() + 1));
        if (!value) throw refusal(400, std::string(name) + " must be an integer");
        return *value;
    }
    return otherwise;
}

/// Validates the body before it starts a transaction.
asio::awaitable<response> create(cenote::database* db, request r) {
    order_content content = content_from_json(r.body());
    auto work = [&content](cenote::transaction& t) { return add_order(&t, &content); };
    std::int64_t id = co_await db->async_transaction(work);
    order created{id, "open", std::move(content)};
    response reply = to_response(json_answer(201, to_json(created)));
    reply.set(http::field::location, "/orders/" + std::to_string(id));
    co_return reply;
}

/// Throws refusals, so that the transaction is rolled back.
asio::awaitable<response> change(cenote::transaction* in, request r) {
    std::optional<route> to = route_of(cenote::http_server::path_of(r));
    bool pays = to->action == "pay";
    switch (co_await change_status(in, *to->id, pays ? "paid" : "canceled")) {
        case change_result::not_found: throw refusal(404, "there is no such order");
        case change_result::not_open: throw refusal(409, "the order is no longer open");
        case change_result::done: break;
    }
    std::optional<order> now = co_await find_order(in, *to->id);
    co_return to_response(json_answer(200, to_json(now.value())));
}

asio::awaitable<response> show(cenote::database* db, std::int64_t id) {
    std::optional<order> found = co_await find_order(db, id);
    if (!found) throw refusal(404, "there is no such order");
    co_return to_response(json_answer(200, to_json(*found)));
}

asio::awaitable<response> list(cenote::database* db, request r) {
    std::string_view query = cenote::http_server::query_of(r);
    std::int64_t after = parameter(query, "after", 0);
    std::int64_t limit = parameter(query, "limit", 20);
    if (limit < 1 || limit > list_max)
        throw refusal(400, "limit must be from 1 to " + std::to_string(list_max));
    std::vector<order> all = co_await list_orders(db, after, limit);
    co_return to_response(json_answer(200, to_json(all)));
}

asio::awaitable<response> now(response reply) { co_return reply; }

/// Maps a lost connection to the database to a status code.
asio::awaitable<response> with_lost_connections(asio::awaitable<response> work) {
    bool unknown = false;
    try {
        co_return co_await std::move(work);
    } catch (const cenote::transaction_lost& e) {
        unknown = e.maybe_committed();
    } catch (const cenote::connection_error&) {  // of a read-only statement
        unknown = false;
    }
    if (unknown)
        throw refusal(504, "connection to the database lost during the commit: check the order");
    cenote::answer again =
        json_answer(503, error_to_json("connection to the database lost: try again"));
    again.retry_after(std::chrono::seconds(1));
    throw cenote::answer_error(std::move(again));
}

class api {
public:
    api(cenote::database& db, const cenote::service& about)
        : db_(&db),
          about_(&about),
          change_(cenote::http_server::transactional(
              db, [](cenote::transaction& t, request r) { return change(&t, std::move(r)); },
              cenote::transaction_options{.retries = 3})) {}

    asio::awaitable<response> operator()(request r) const {
        std::string_view path = cenote::http_server::path_of(r);
        bool reads = r.method() == http::verb::get || r.method() == http::verb::head;
        if (auto answer = about_->answer_to(path)) {
            if (!reads) return wrong_method("GET, HEAD");
            return now(to_response(*answer));
        }
        std::optional<route> to = route_of(path);
        if (!to) throw refusal(404, "there is no such path");
        bool writes = r.method() == http::verb::post;
        return with_lost_connections(handle(*to, reads, writes, std::move(r)));
    }

private:
    asio::awaitable<response> handle(const route& to, bool reads, bool writes, request r) const {
        if (!to.action.empty()) return writes ? change_(std::move(r)) : wrong_method("POST");
        if (to.id) return reads ? show(db_, *to.id) : wrong_method("GET, HEAD");
        if (writes) return create(db_, std::move(r));
        return reads ? list(db_, std::move(r)) : wrong_method("GET, HEAD, POST");
    }

    static asio::awaitable<response> wrong_method(std::string_view allowed) {
        response reply = to_response(json_answer(405, error_to_json("method not allowed")));
        reply.set(http::field::allow, {allowed.data(), allowed.size()});
        return now(std::move(reply));
    }

    cenote::database* db_;
    const cenote::service* about_;
    handler change_;
};

}  // namespace

handler make_api(cenote::database& db, const cenote::service& about) {
    auto shared = std::make_shared<const api>(db, about);
    return [shared](request r) { return (*shared)(std::move(r)); };
}

}  // namespace orders_service
