// Starts and stops real servers.
#include "support/real_server.hpp"

#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/patience.hpp"

namespace support {

namespace {

/// A busy machine may need long to start a server.
constexpr auto startup_limit = 4 * plenty;

}  // namespace

real_server::real_server(const std::string& kind, const std::string& user)
    : user_(user_for(user)), folder_(kind, user_) {}

void real_server::start() {
    if (running()) return;
    std::error_code none_yet;
    auto size = std::filesystem::file_size(log(), none_yet);
    process_.emplace(folder_, user_, control_.command, "log");
    paused_ = false;
    wait_until_ready(none_yet ? 0 : static_cast<std::size_t>(size));
}

void real_server::wait_until_ready(std::size_t log_before) {
    auto ready = [&] {
        return content_of(log()).find(control_.ready, log_before) != std::string::npos;
    };
    bool in_time = eventually([&] { return !process_->running() || ready(); }, startup_limit);
    if (in_time && process_->running()) return;
    std::string problem = in_time ? " ended with " + std::to_string(process_->status())
                                  : std::string(" is not ready in time");
    process_.reset();
    throw std::runtime_error(control_.command[0] + problem + "; its log:\n" + log_tail());
}

void real_server::stop(ending how) {
    if (!running()) return;
    resume();
    process_->tell(how == ending::fast ? control_.shutdown : control_.crash);
    bool in_time = process_->ends_within(startup_limit);
    process_.reset();
    if (!in_time)
        throw std::runtime_error(control_.command[0] + " had to be killed; its log:\n" +
                                 log_tail());
}

void real_server::restart(ending how) {
    stop(how);
    start();
}

void real_server::pause() {
    process_.value().tell(warded_process::order::pause);
    paused_ = true;
}

void real_server::resume() {
    if (std::exchange(paused_, false)) process_.value().tell(warded_process::order::resume);
}

std::string real_server::log_tail(std::size_t lines) const {
    std::string text = content_of(log());
    std::size_t begin = text.size();
    while (begin > 0 && (text[begin - 1] != '\n' || begin == text.size() || lines-- > 1)) --begin;
    return text.substr(begin);
}

std::string real_server::filled(std::string text, const replacements& with) {
    for (const auto& [name, value] : with) {
        std::string place = "@" + name + "@";
        for (std::size_t at = 0; (at = text.find(place, at)) != std::string::npos;
             at += value.size())
            text.replace(at, place.size(), value);
    }
    return text;
}

std::string real_server::run_program(const std::vector<std::string>& command) const {
    return run(user_, command, folder_, startup_limit);
}

}  // namespace support
