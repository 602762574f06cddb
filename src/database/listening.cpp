// Makes listeners, with a connection of the database's pool or of a pool beside it.
#include "database/listening.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "cenote/detail/pool_source.hpp"

namespace cenote::database_detail {

using listening_detail::listener;
using listening_detail::subject;

namespace {

/// Opens only what a listener needs, and tries for as long as that waits.
options for_listeners(options how) {
    constexpr std::string_view suffix = "-listen";
    constexpr std::size_t longest_name = 100;
    how.name.resize(std::min(how.name.size(), longest_name - suffix.size()));
    how.name += suffix;
    how.max = 1;
    how.min_size = 0;
    how.min_idle = 0;
    how.warm_up = warm_up::none;
    how.breaker = nullptr;
    how.shed = {};
    how.open_errors = open_errors::retry;
    return how;
}

/// Returns a place of the pool.
struct place_in {
    void operator()(listen_pool* of) const noexcept { of->remove(); }
};

class listener_source final : public listening_detail::pool_source<any_connection> {
public:
    /// `beside`: null for a connection within the database's pool, which `primary` is.
    listener_source(server_pool_ptr primary, std::shared_ptr<listen_pool> beside,
                    std::source_location at)
        : pool_source(beside == nullptr ? primary->pool : beside->connections(), at,
                      beside != nullptr),
          primary_(std::move(primary)),
          beside_(std::move(beside)) {
        if (beside_ == nullptr) return;
        beside_->add();
        place_.reset(beside_.get());
    }
    ~listener_source() override {
        end_.reset();  // waits for it if it is running
        release(nullptr);
    }
    listener_source(const listener_source&) = delete;
    listener_source& operator=(const listener_source&) = delete;

    void end_with(const std::stop_token& database, listener* what) {
        end_.emplace(database, ender{what});
    }

private:
    struct ender {
        void operator()() const noexcept { what->stop(); }
        listener* what;
    };

    std::unique_ptr<listening_detail::receiver> receiver_on(any_connection& c) override {
        return receiver_of(c);
    }

    server_pool_ptr primary_;
    std::shared_ptr<listen_pool> beside_;
    std::unique_ptr<listen_pool, place_in> place_;
    std::optional<std::stop_callback<ender>> end_;
};

}  // namespace

listen_pool::listen_pool(const server_pool& beside)
    : pool_(beside.server, for_listeners(beside.pool.settings())) {}

void listen_pool::add() {
    std::lock_guard lock(mutex_);
    pool_.pool.resize(listeners_ + 1);
    ++listeners_;
}

void listen_pool::remove() noexcept {
    std::lock_guard lock(mutex_);
    --listeners_;
    try {
        pool_.pool.resize(std::max<std::size_t>(listeners_, 1));
    } catch (...) {
        return;  // no memory: there is a place too many
    }
}

std::shared_ptr<listen_pool> listeners::beside(const server_pool& primary) {
    std::lock_guard lock(mutex_);
    if (beside_ == nullptr) {
        beside_ = std::make_shared<listen_pool>(primary);
        if (ending_.stop_requested()) beside_->connections().close();
    }
    return beside_;
}

std::shared_ptr<listener> listeners::make(const server_pool_ptr& primary,
                                          const channel_list& channels, const listen_options& how,
                                          std::source_location at) {
    if (primary->server.dialect() != dialect::postgres)
        throw std::invalid_argument(
            "cenote: listen() requires PostgreSQL: SQLite and MariaDB send no notifications");
    if (channels.names().empty())
        throw std::invalid_argument("cenote: listen() requires the name of a channel");
    subject to{.channels = channels.names(),
               .patterns = {},
               .probe_after = how.probe_after,
               .reply_timeout = how.reply_timeout,
               .task = how.task};
    auto from =
        std::make_unique<listener_source>(primary, how.within_max ? nullptr : beside(*primary), at);
    listener_source& connections = *from;
    auto made =
        std::make_shared<listener>(std::make_shared<const subject>(std::move(to)), std::move(from));
    connections.end_with(ending_.get_token(), made.get());
    return made;
}

void listeners::stop() noexcept {
    ending_.request_stop();
    std::lock_guard lock(mutex_);
    if (beside_ != nullptr) beside_->connections().close();
}

}  // namespace cenote::database_detail
