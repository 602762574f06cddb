// Who may come in, and who goes: never somebody whose whole request has come.
#include "http/connections.hpp"

#include <boost/asio/post.hpp>
#include <boost/system/error_code.hpp>
#include <iterator>
#include <tuple>
#include <utility>

namespace cenote::http_server {

namespace {

using clock = std::chrono::steady_clock;

/// Whoever waits for less may be about to ask.
constexpr std::chrono::seconds patience_with_waiting{1};
/// So long the rest of a request may take while others want in.
constexpr std::chrono::seconds patience_with_sending{2};

}  // namespace

connections::list& connections::list_of(const connection& who) {
    switch (who.is_) {
        case connection::condition::sending: return sending_;
        case connection::condition::busy: return busy_;
        case connection::condition::leaving: return leaving_;
        case connection::condition::absent:
        case connection::condition::waiting: break;
    }
    return waiting_;
}

void connections::move_to(connection& who, connection::condition next) {
    list& from = list_of(who);
    who.is_ = next;
    list& to = list_of(who);
    to.splice(to.end(), from, who.where_);
    who.since_ = clock::now();
}

const std::shared_ptr<connection>* connections::dispensable() const {
    auto now = clock::now();
    auto is_there_for = [now](const list& l, std::chrono::seconds patience) {
        return !l.empty() && now - l.front()->since_ >= patience;
    };
    if (is_there_for(waiting_, patience_with_waiting)) return &waiting_.front();
    if (is_there_for(sending_, patience_with_sending)) return &sending_.front();
    return nullptr;
}

connections::entrance connections::enter(const std::shared_ptr<connection>& who) {
    std::lock_guard lock(mutex_);
    if (dropped_) return entrance::over;
    ++counts_.accepted;
    if (waiting_.size() + sending_.size() + busy_.size() >= max_) {
        const std::shared_ptr<connection>* goes = dispensable();
        if (goes == nullptr) {
            ++counts_.refused;
            return entrance::full;
        }
        ++counts_.dropped;
        send_away(*goes);
    }
    waiting_.push_back(who);
    who->is_ = connection::condition::waiting;
    who->where_ = std::prev(waiting_.end());
    who->since_ = clock::now();
    return entrance::open;
}

void connections::begins_to_send(connection& who) {
    std::lock_guard lock(mutex_);
    move_to(who, connection::condition::sending);
}

bool connections::becomes_busy(connection& who) {
    std::lock_guard lock(mutex_);
    if (dropped_) return false;
    move_to(who, connection::condition::busy);
    return true;
}

void connections::has_been_answered(connection& who, bool sent, bool more) {
    std::lock_guard lock(mutex_);
    if (sent) ++counts_.answered;
    who.parting_ = !more;
    move_to(who, connection::condition::waiting);
}

void connections::leave(connection& who) {
    std::shared_ptr<connection> kept;  // ends outside the lock
    std::lock_guard lock(mutex_);
    if (who.is_ == connection::condition::absent) return;
    kept = std::move(*who.where_);
    list_of(who).erase(who.where_);
    who.is_ = connection::condition::absent;
}

void connections::send_away(const std::shared_ptr<connection>& who) {
    move_to(*who, connection::condition::leaving);
    boost::asio::post(who->stream.get_executor(), [me = shared_from_this(), kept = who] {
        std::lock_guard lock(me->mutex_);
        if (kept->is_ != connection::condition::leaving) return;
        // Not closed: perhaps a request has been read already, by an operation of whose end nobody
        // has been told yet. This way it is answered, and otherwise the end is read.
        boost::system::error_code ignored;
        std::ignore =
            kept->stream.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_receive, ignored);
    });
}

void connections::drop_longest_waiting() {
    std::lock_guard lock(mutex_);
    const std::shared_ptr<connection>* goes = waiting_.empty() ? dispensable() : &waiting_.front();
    if (goes == nullptr) return;
    ++counts_.dropped;
    send_away(*goes);
}

void connections::drop_waiting() {
    std::lock_guard lock(mutex_);
    for (auto next = waiting_.begin(); next != waiting_.end();) {
        auto each = next++;
        if (!(*each)->parting_) send_away(*each);
    }
}

std::size_t connections::drop_all() {
    std::lock_guard lock(mutex_);
    dropped_ = true;
    for (const list* all : {&waiting_, &sending_, &busy_, &leaving_})
        for (const std::shared_ptr<connection>& each : *all)
            boost::asio::post(each->stream.get_executor(), [each] { each->stream.close(); });
    return sending_.size() + busy_.size();
}

bool connections::is_occupied() const {
    std::lock_guard lock(mutex_);
    return !waiting_.empty() || !sending_.empty() || !busy_.empty() || !leaving_.empty();
}

server_stats connections::stats() const {
    std::lock_guard lock(mutex_);
    server_stats now = counts_;
    now.requests = sending_.size() + busy_.size();
    now.connections = waiting_.size() + now.requests;
    return now;
}

}  // namespace cenote::http_server
