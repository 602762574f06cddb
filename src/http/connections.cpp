// Who may come in, and who goes: never somebody whose request has come.
#include "http/connections.hpp"

#include <boost/asio/post.hpp>
#include <boost/system/error_code.hpp>
#include <iterator>
#include <utility>

namespace cenote::http_server {

namespace {

using clock = std::chrono::steady_clock;

/// Whoever waits for less may be about to ask.
constexpr std::chrono::seconds patience_with_waiting{1};

}  // namespace

connections::list& connections::list_of(const connection& who) {
    switch (who.is) {
        case connection::condition::busy: return busy_;
        case connection::condition::leaving: return leaving_;
        case connection::condition::absent:
        case connection::condition::waiting: break;
    }
    return waiting_;
}

void connections::move_to(connection& who, connection::condition next) {
    list& from = list_of(who);
    who.is = next;
    list& to = list_of(who);
    to.splice(to.end(), from, who.where);
    if (next == connection::condition::waiting) who.waits_since = clock::now();
}

bool connections::enter(const std::shared_ptr<connection>& who) {
    std::lock_guard lock(mutex_);
    ++counts_.accepted;
    if (waiting_.size() + busy_.size() >= max_) {
        bool somebody_can_go = !waiting_.empty() && clock::now() - waiting_.front()->waits_since >=
                                                        patience_with_waiting;
        if (!somebody_can_go) {
            ++counts_.refused;
            return false;
        }
        ++counts_.dropped;
        send_away(waiting_.front());
    }
    waiting_.push_back(who);
    who->is = connection::condition::waiting;
    who->where = std::prev(waiting_.end());
    who->waits_since = clock::now();
    return true;
}

void connections::becomes_busy(connection& who) {
    std::lock_guard lock(mutex_);
    move_to(who, connection::condition::busy);
}

void connections::has_been_answered(connection& who) {
    std::lock_guard lock(mutex_);
    ++counts_.answered;
    move_to(who, connection::condition::waiting);
}

void connections::count_malformed() {
    std::lock_guard lock(mutex_);
    ++counts_.answered;
}

void connections::leave(connection& who) {
    std::shared_ptr<connection> kept;  // ends outside the lock
    std::lock_guard lock(mutex_);
    if (who.is == connection::condition::absent) return;
    kept = std::move(*who.where);
    list_of(who).erase(who.where);
    who.is = connection::condition::absent;
}

void connections::send_away(const std::shared_ptr<connection>& who) {
    std::shared_ptr<connection> kept = who;
    move_to(*kept, connection::condition::leaving);
    boost::asio::post(kept->stream.get_executor(), [me = shared_from_this(), kept] {
        std::lock_guard lock(me->mutex_);
        if (kept->is != connection::condition::leaving) return;
        // Not closed: perhaps a request has been read already, by an operation of whose end nobody
        // has been told yet. This way it is answered, and otherwise the end is read.
        boost::system::error_code ignored;
        kept->stream.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_receive, ignored);
    });
}

void connections::drop_longest_waiting() {
    std::lock_guard lock(mutex_);
    if (waiting_.empty()) return;
    ++counts_.dropped;
    send_away(waiting_.front());
}

void connections::drop_waiting() {
    std::lock_guard lock(mutex_);
    while (!waiting_.empty()) send_away(waiting_.front());
}

void connections::drop_all() {
    std::lock_guard lock(mutex_);
    for (const list* all : {&waiting_, &busy_, &leaving_})
        for (const std::shared_ptr<connection>& each : *all)
            boost::asio::post(each->stream.get_executor(), [each] { each->stream.close(); });
}

bool connections::is_occupied() const {
    std::lock_guard lock(mutex_);
    return !waiting_.empty() || !busy_.empty() || !leaving_.empty();
}

server_stats connections::stats() const {
    std::lock_guard lock(mutex_);
    server_stats now = counts_;
    now.connections = waiting_.size() + busy_.size();
    now.requests = busy_.size();
    return now;
}

}  // namespace cenote::http_server
