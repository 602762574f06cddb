// Receives the notifications of channels: LISTEN, and then what the server sends unasked.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cenote/listening.hpp"
#include "connector/drive.hpp"
#include "connector/exchange.hpp"
#include "connector/postgres_session.hpp"
#include "connector/receiving.hpp"

namespace cenote::postgres {

namespace asio = boost::asio;
using connector_detail::awaited;
using connector_detail::blocking;
using connector_detail::need;
using connector_detail::result_in;
using detail::result_ptr;
using detail::scripts;
using detail::session;
using listening_detail::subject;

namespace {

/// The server cuts longer names off, and would then use another channel than the caller.
constexpr std::size_t max_name = 63;

std::string quoted(const std::string& channel) {
    if (channel.empty() || channel.size() > max_name)
        throw std::invalid_argument(
            "cenote: PostgreSQL: the name of a channel must have 1 to 63 bytes");
    detail::refuse_zero_bytes(channel, "name of a channel");
    std::string name = "\"";
    for (char c : channel) name += c == '"' ? std::string("\"\"") : std::string(1, c);
    return name + "\"";
}

/// All in one message, and so in one transaction.
std::string listen_to(const subject& to) {
    std::string all;
    for (const std::string& each : to.channels) all += "listen " + quoted(each) + "; ";
    return all;
}

/// The exchange lasts as long as the receiver: nothing else runs on the connection, and messages
/// that no request has caused are expected.
class receiver final : public connector_detail::receiving {
public:
    explicit receiver(std::shared_ptr<session> on) : on_(std::move(on)) {}
    ~receiver() override {
        if (exchange_ && !probing()) exchange_->complete();
    }
    receiver(const receiver&) = delete;
    receiver& operator=(const receiver&) = delete;

    void subscribe(std::shared_ptr<const subject> to) override {
        subscribe_in<blocking>(this, std::move(to)).get();
    }
    asio::awaitable<void> async_subscribe(std::shared_ptr<const subject> to) override {
        return subscribe_in<awaited>(this, std::move(to));
    }

private:
    template <class Mode>
    static result_in<Mode, void> subscribe_in(receiver* by, std::shared_ptr<const subject> to) {
        std::string text = listen_to(*to);
        by->on_->note_listening();
        scripts request(by->on_, {text.c_str()});
        co_await Mode::drive(request, connector_detail::deadline_after(to->reply_timeout));
        by->exchange_.emplace(by->on_->condition());
        by->begin(PQsocket(by->handle()), *to);
        by->collect();  // what has come with the reply
    }

    PGconn* handle() const noexcept { return on_->handle(); }

    void collect() {
        while (PGnotify* one = PQnotifies(handle())) {
            std::unique_ptr<PGnotify, decltype(&PQfreemem)> owned(one, &PQfreemem);
            add({.channel = one->relname, .payload = one->extra});
            note_heard();
        }
    }

    need read() override {
        if (flushing_) {
            int left = PQflush(handle());
            if (left < 0) lose();
            flushing_ = left != 0;
        }
        bool lost = PQconsumeInput(handle()) == 0;
        collect();
        if (has_found()) return need::to_read;
        if (lost) lose();
        if (probing()) take_reply();
        collect();  // what the reply has come with
        return flushing_ ? need::to_do_either : need::to_read;
    }

    void probe() override {
        if (PQsendQuery(handle(), "") == 0) lose();
        flushing_ = true;
    }

    void take_reply() {
        while (PQisBusy(handle()) == 0) {
            result_ptr r(PQgetResult(handle()));
            if (PQstatus(handle()) != CONNECTION_OK) lose();
            if (r == nullptr) return note_probe_answered();
        }
    }

    [[noreturn]] void lose() { give_up(on_->loss()); }
    [[noreturn]] void give_up(const connection_error& why) override {
        on_->condition().note_broken(why.kind());
        if (const auto* late = dynamic_cast<const exchange_timeout*>(&why)) throw *late;
        throw why;
    }

    std::shared_ptr<session> on_;
    std::optional<connector_detail::exchange> exchange_;
    bool flushing_ = false;
};

}  // namespace

std::unique_ptr<listening_detail::receiver> connection::receiver() {
    own().opened().refuse("a receiver");
    return std::make_unique<postgres::receiver>(
        std::static_pointer_cast<session>(own().shared_from_this()));
}

}  // namespace cenote::postgres
