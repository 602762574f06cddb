// The public dashboard class: validates options, owns the state and the server.
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

[[noreturn]] void refuse(const std::string& about) {
    throw std::invalid_argument("cenote: dashboard_options::" + about);
}

void check_token(std::string_view name, const secret& token) {
    std::string_view text = token.reveal();
    if (text.empty()) return;
    if (text.size() < dashboard_options::token_min)
        refuse(std::string(name) + " must have at least " +
               std::to_string(dashboard_options::token_min) + " characters");
    // The token is sent in a header field as it is.
    if (!std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; }))
        refuse(std::string(name) + " must consist of visible ASCII characters");
}

void check_address(const dashboard_options& settings) {
    boost::system::error_code error;
    auto address = boost::asio::ip::make_address(settings.address, error);
    if (error) refuse("address must be a numeric IP address, not \"" + settings.address + '"');
    if (address.is_loopback()) return;
    if (!settings.allow_public)
        refuse("address " + settings.address + " is not a loopback address: set allow_public");
    if (settings.read_token.empty())
        refuse("address " + settings.address + " is not a loopback address: set a read_token");
    if (address.is_unspecified() && settings.names.empty())
        refuse("names must not be empty for address " + settings.address +
               ": list the host names that browsers use");
}

void check(const dashboard_options& settings) {
    check_address(settings);
    check_token("read_token", settings.read_token);
    check_token("control_token", settings.control_token);
    if (!settings.read_token.empty() && settings.read_token == settings.control_token)
        refuse("control_token must differ from read_token");
    for (const std::string& each : settings.names)
        if (each.empty() || each.find_first_of("/@ \t\r\n") != std::string::npos)
            refuse("names contains \"" + each + "\", which is neither NAME nor NAME:PORT");
    if (settings.max_connections == 0) refuse("max_connections must be at least 1");
    if (settings.request_timeout.count() <= 0) refuse("request_timeout must be positive");
    if (settings.idle_timeout.count() <= 0) refuse("idle_timeout must be positive");
}

}  // namespace

struct dashboard::entry::registration {
    ~registration() {
        if (pool != nullptr && state->in_own_process()) state->remove(pool);
    }

    std::shared_ptr<detail::dashboard_state> state;
    std::shared_ptr<detail::watched_pool> pool = nullptr;
};

dashboard::dashboard(const dashboard_options& settings)
    : state_(std::make_shared<detail::dashboard_state>()) {
    check(settings);
    server_ = std::make_unique<detail::dashboard_server>(settings, state_);
}

dashboard::~dashboard() {
    // The child of a fork has no thread to join, and the connections belong to the parent.
    if (state_->in_own_process()) return;
    [[maybe_unused]] auto* leaked = server_.release();
}

dashboard::entry dashboard::watch(pool_control pool) {
    entry added;
    if (!state_->in_own_process()) return added;
    added.registration_ = std::make_shared<entry::registration>();
    added.registration_->state = state_;
    added.registration_->pool = state_->add(pool);
    return added;
}

std::shared_ptr<observer> dashboard::observer() const { return state_->events(); }

std::uint16_t dashboard::port() const noexcept { return server_->port(); }

std::string dashboard::url() const { return "http://" + server_->authority() + '/'; }

}  // namespace cenote
