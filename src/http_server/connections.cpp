// Admits and drops connections. A busy connection is never dropped for another one.
#include "http_server/connections.hpp"

#include <boost/asio/post.hpp>
#include <boost/system/error_code.hpp>
#include <iterator>
#include <tuple>
#include <utility>

namespace cenote::http_server {

namespace {

using clock = std::chrono::steady_clock;

// A connection may be dropped for another one after this time. A younger idle connection may be
// about to send a request.
constexpr std::chrono::seconds droppable_after_idle{1};
constexpr std::chrono::seconds droppable_after_receiving{2};

}  // namespace

connections::list& connections::list_of(const connection& c) {
    switch (c.phase_) {
        case connection::phase::receiving: return receiving_;
        case connection::phase::busy: return busy_;
        case connection::phase::dropped: return dropped_;
        case connection::phase::removed:
        case connection::phase::idle: break;
    }
    return idle_;
}

void connections::move_to(connection& c, connection::phase next) {
    list& from = list_of(c);
    c.phase_ = next;
    list& to = list_of(c);
    to.splice(to.end(), from, c.place_);
    c.since_ = clock::now();
}

const std::shared_ptr<connection>* connections::droppable() const {
    auto now = clock::now();
    auto is_older_than = [now](const list& l, std::chrono::seconds age) {
        return !l.empty() && now - l.front()->since_ >= age;
    };
    if (is_older_than(idle_, droppable_after_idle)) return &idle_.front();
    if (is_older_than(receiving_, droppable_after_receiving)) return &receiving_.front();
    return nullptr;
}

connections::admission connections::add(const std::shared_ptr<connection>& c) {
    std::lock_guard lock(mutex_);
    if (over_) return admission::over;
    ++counts_.accepted;
    if (idle_.size() + receiving_.size() + busy_.size() >= max_) {
        const std::shared_ptr<connection>* other = droppable();
        if (other == nullptr) {
            ++counts_.refused;
            return admission::full;
        }
        ++counts_.dropped;
        drop(*other);
    }
    idle_.push_back(c);
    c->phase_ = connection::phase::idle;
    c->place_ = std::prev(idle_.end());
    c->since_ = clock::now();
    return admission::accepted;
}

void connections::set_receiving(connection& c) {
    std::lock_guard lock(mutex_);
    move_to(c, connection::phase::receiving);
}

bool connections::set_busy(connection& c) {
    std::lock_guard lock(mutex_);
    if (over_) return false;
    move_to(c, connection::phase::busy);
    return true;
}

void connections::set_idle(connection& c, bool sent, bool more) {
    std::lock_guard lock(mutex_);
    if (sent) ++counts_.answered;
    c.last_response_ = !more;
    move_to(c, connection::phase::idle);
}

void connections::remove(connection& c) {
    std::shared_ptr<connection> kept;  // destroyed after the unlock
    std::lock_guard lock(mutex_);
    if (c.phase_ == connection::phase::removed) return;
    kept = std::move(*c.place_);
    list_of(c).erase(c.place_);
    c.phase_ = connection::phase::removed;
}

void connections::drop(const std::shared_ptr<connection>& c) {
    move_to(*c, connection::phase::dropped);
    boost::asio::post(c->stream.get_executor(), [me = shared_from_this(), kept = c] {
        std::lock_guard lock(me->mutex_);
        if (kept->phase_ != connection::phase::dropped) return;
        // Shut down for reading instead of closed: a completed read whose handler has not run yet
        // may hold a request, which is then still answered.
        boost::system::error_code ignored;
        std::ignore =
            kept->stream.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_receive, ignored);
    });
}

void connections::drop_longest_idle() {
    std::lock_guard lock(mutex_);
    const std::shared_ptr<connection>* c = idle_.empty() ? droppable() : &idle_.front();
    if (c == nullptr) return;
    ++counts_.dropped;
    drop(*c);
}

void connections::drop_idle() {
    std::lock_guard lock(mutex_);
    for (auto next = idle_.begin(); next != idle_.end();) {
        auto each = next++;
        if (!(*each)->last_response_) drop(*each);
    }
}

std::size_t connections::drop_all() {
    std::lock_guard lock(mutex_);
    over_ = true;
    for (const list* all : {&idle_, &receiving_, &busy_, &dropped_})
        for (const std::shared_ptr<connection>& each : *all)
            boost::asio::post(each->stream.get_executor(), [each] { each->stream.close(); });
    return receiving_.size() + busy_.size();
}

bool connections::empty() const {
    std::lock_guard lock(mutex_);
    return idle_.empty() && receiving_.empty() && busy_.empty() && dropped_.empty();
}

server_stats connections::stats() const {
    std::lock_guard lock(mutex_);
    server_stats now = counts_;
    now.requests = receiving_.size() + busy_.size();
    now.connections = idle_.size() + now.requests;
    return now;
}

}  // namespace cenote::http_server
