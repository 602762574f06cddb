// 17: a wait for a connection as a span of the request's trace. Prints OTLP/JSON, one line for each
// span, which the OpenTelemetry Collector reads from a file (receiver `otlpjsonfile`).
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>

#include <cenote/observer.hpp>
#include <cenote/pool.hpp>

using namespace std::chrono_literals;

namespace {

/// Stands for a connection.
struct session {
    std::string query(std::string_view text) { return "rows of " + std::string(text); }
};

std::array<std::uint8_t, 8> new_span_id() {
    thread_local std::mt19937_64 random{std::random_device{}()};
    std::array<std::uint8_t, 8> id{};
    for (auto& byte : id) byte = static_cast<std::uint8_t>(random());
    return id;
}

/// A span within another one of the same trace.
cenote::trace_context child_of(cenote::trace_context parent) {
    parent.span_id = new_span_id();
    return parent;
}

/// The pool's times are those of the steady clock; spans have the time of day.
std::string unix_nanoseconds(std::chrono::steady_clock::time_point at) {
    auto ago = std::chrono::steady_clock::now() - at;
    auto then = std::chrono::system_clock::now().time_since_epoch() - ago;
    return std::to_string(std::chrono::nanoseconds(then).count());
}

std::string attribute(std::string_view key, std::string_view value) {
    return R"({"key":")" + std::string(key) + R"(","value":{"stringValue":")" + std::string(value) +
           R"("}})";
}

/// `parent`: the traceparent of the span around it.
void print_span(const cenote::trace_context& span, const std::string& parent, std::string_view name,
                int kind, std::chrono::steady_clock::time_point begin,
                std::chrono::steady_clock::time_point end, const std::string& attributes) {
    std::string own = span.traceparent();
    std::printf(R"({"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%s","spanId":"%s",)"
                R"("parentSpanId":"%s","name":"%s","kind":%d,"startTimeUnixNano":"%s",)"
                R"("endTimeUnixNano":"%s","attributes":[%s]}]}]}]})"
                "\n",
                own.substr(3, 32).c_str(), own.substr(36, 16).c_str(),
                parent.substr(36, 16).c_str(), std::string(name).c_str(), kind,
                unix_nanoseconds(begin).c_str(), unix_nanoseconds(end).c_str(), attributes.c_str());
}

/// Makes a span of each acquire that had to wait, with the names of OpenTelemetry's conventions.
/// An acquire that found a connection ready makes none, and stays on the fast lane.
class wait_spans final : public cenote::observer {
public:
    bool wants(cenote::event_kind kind) const override {
        return kind == cenote::event_kind::waited || kind == cenote::event_kind::exhausted;
    }
    void on_event(const cenote::event& what) override {
        if (!what.trace || !what.trace.sampled()) return;
        std::string attributes = attribute("db.system.name", "postgresql") + ',' +
                                 attribute("server.address", "db.example.com") + ',' +
                                 attribute("db.client.connection.pool.name", what.pool);
        if (what.kind == cenote::event_kind::exhausted)
            attributes += ',' + attribute("error.type", make_error_code(what.error).message());
        constexpr int internal = 1;
        print_span(child_of(what.trace), what.trace.traceparent(),
                   what.opened_here ? "wait for a new connection" : "wait for a connection",
                   internal, what.at - what.took, what.at, attributes);
    }
};

/// A request of a service, with the header `traceparent` of its client.
void handle_request(cenote::pool<session>& pool, std::string_view header) {
    auto client = cenote::trace_context::parse(header).value_or(cenote::trace_context{});
    cenote::trace_context request = client ? child_of(client) : client;
    auto begin = std::chrono::steady_clock::now();
    auto connection = pool.acquire({.task = "orders", .trace = request});
    connection->query("orders");
    if (!request.sampled()) return;
    constexpr int of_server = 2;
    print_span(request, client.traceparent(), "GET /orders", of_server, begin,
               std::chrono::steady_clock::now(), attribute("http.route", "/orders"));
}

}  // namespace

int main() {
    cenote::pool<session> pool{
        [] {
            std::this_thread::sleep_for(10ms);  // a connect takes its time
            return session{};
        },
        {.name = "orders", .max = 1, .observers = {std::make_shared<wait_spans>()}}};

    // Waits for the connect: two spans.
    handle_request(pool, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    // Finds the connection ready: one span.
    handle_request(pool, "00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-01");
    // Not sampled, and malformed: none.
    handle_request(pool, "00-4bf92f3577b34da6a3ce929d0e0e4738-00f067aa0ba902b7-00");
    handle_request(pool, "not a traceparent");
}
