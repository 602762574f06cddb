// The dashboard as its users see it: what its options must not say, and what belongs to whom.
#include "cenote/dashboard.hpp"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/system/error_code.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "watch/dashboard_server.hpp"
#include "watch/dashboard_state.hpp"

namespace cenote {

namespace {

[[noreturn]] void complain(const std::string& about) {
    throw std::invalid_argument("cenote: dashboard_options::" + about);
}

void check_token(std::string_view name, const secret& token) {
    std::string_view text = token.reveal();
    if (text.empty()) return;
    if (text.size() < dashboard_options::token_min)
        complain(std::string(name) + " needs at least " +
                 std::to_string(dashboard_options::token_min) + " characters");
    // It has to fit into a header, as it is.
    if (!std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; }))
        complain(std::string(name) + " may have visible characters of ASCII alone");
}

void check_address(const dashboard_options& settings) {
    boost::system::error_code error;
    auto address = boost::asio::ip::make_address(settings.address, error);
    if (error) complain("address must be one in numbers, not \"" + settings.address + '"');
    if (address.is_loopback()) return;
    if (!settings.allow_public)
        complain("address " + settings.address + " can be reached by others: set allow_public");
    if (settings.read_token.empty())
        complain("address " + settings.address + " can be reached by others: set a read_token");
    if (address.is_unspecified() && settings.names.empty())
        complain("names must say how browsers reach it, as " + settings.address +
                 " does not say so");
}

void check(const dashboard_options& settings) {
    check_address(settings);
    check_token("read_token", settings.read_token);
    check_token("control_token", settings.control_token);
    if (!settings.read_token.empty() && settings.read_token == settings.control_token)
        complain(
            "control_token must not be the read_token: looking and controlling are two things");
    for (const std::string& each : settings.names)
        if (each.empty() || each.find_first_of("/@ \t\r\n") != std::string::npos)
            complain("names has \"" + each + "\", which is no name, nor name:port");
    if (settings.max_connections == 0) complain("max_connections must be at least 1");
    if (settings.request_timeout.count() <= 0) complain("request_timeout must be positive");
    if (settings.idle_timeout.count() <= 0) complain("idle_timeout must be positive");
}

}  // namespace

dashboard::entry& dashboard::entry::operator=(entry&& other) noexcept {
    if (this != &other) {
        leave();
        in_ = std::move(other.in_);
        of_ = std::move(other.of_);
    }
    return *this;
}

dashboard::entry::~entry() { leave(); }

void dashboard::entry::leave() noexcept {
    if (of_ != nullptr && in_->ours()) in_->remove(of_);
    of_ = nullptr;
}

dashboard::dashboard(const dashboard_options& settings)
    : board_(std::make_shared<detail::board>()) {
    check(settings);
    server_ = std::make_unique<detail::dashboard_server>(settings, board_);
}

dashboard::~dashboard() {
    // In the child of a fork there is no thread to end, and the connections are the parent's.
    if (board_->ours()) return;
    [[maybe_unused]] auto* left = server_.release();
}

dashboard::entry dashboard::watch(pool_control pool) {
    if (!board_->ours()) return {};
    return {board_, board_->add(pool)};
}

std::shared_ptr<observer> dashboard::observer() const { return board_->told(); }

std::uint16_t dashboard::port() const noexcept { return server_->port(); }

std::string dashboard::url() const { return "http://" + server_->authority() + '/'; }

}  // namespace cenote
