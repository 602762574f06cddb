// Receives the messages of channels: SUBSCRIBE, and then what the server sends unasked.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cenote/detail/pool_source.hpp"
#include "cenote/redis_subscribe.hpp"
#include "connector/drive.hpp"
#include "connector/exchange.hpp"
#include "connector/receiving.hpp"
#include "connector/redis_session.hpp"

namespace cenote::redis {

namespace asio = boost::asio;
using connector_detail::awaited;
using connector_detail::blocking;
using connector_detail::result_in;
using listening_detail::listener;
using listening_detail::subject;

namespace detail {

namespace {

void append_words(std::string& wire, std::string_view name, std::span<const std::string> words) {
    auto append_word = [&wire](std::string_view word) {
        wire += "$" + std::to_string(word.size()) + "\r\n";
        wire.append(word).append("\r\n");
    };
    if (words.empty()) return;
    wire += "*" + std::to_string(1 + words.size()) + "\r\n";
    append_word(name);
    for (const std::string& each : words) append_word(each);
}

}  // namespace

/// Replaces the pairing of requests and replies on a connection for the rest of its lease.
class receiver final : public connector_detail::receiving {
public:
    explicit receiver(session& on) : on_(on) {}
    ~receiver() override = default;
    receiver(const receiver&) = delete;
    receiver& operator=(const receiver&) = delete;

    void subscribe(std::shared_ptr<const subject> to) override {
        subscribe_in<blocking>(this, std::move(to)).get();
    }
    asio::awaitable<void> async_subscribe(std::shared_ptr<const subject> to) override {
        return subscribe_in<awaited>(this, std::move(to));
    }

private:
    /// Until the server has confirmed each channel. Messages of the first ones may come before the
    /// last confirmation.
    class confirming final : public connector_detail::steps {
    public:
        explicit confirming(receiver& of) : of_(of) {}
        need step() override {
            need wanted = of_.converse();
            return of_.unconfirmed_ == 0 ? need::nothing : wanted;
        }
        int descriptor() const override { return of_.on_.descriptor(); }
        const char* expected() const override { return "the reply of Redis"; }

    private:
        receiver& of_;
    };

    template <class Mode>
    static result_in<Mode, void> subscribe_in(receiver* by, std::shared_ptr<const subject> to) {
        by->exchange_.emplace(by->on_.condition_);
        append_words(by->unsent_, "SUBSCRIBE", to->channels);
        append_words(by->unsent_, "PSUBSCRIBE", to->patterns);
        by->unconfirmed_ = to->channels.size() + to->patterns.size();
        confirming all(*by);
        co_await Mode::drive(all, connector_detail::deadline_after(to->reply_timeout));
        by->begin(by->on_.descriptor(), *to);
    }

    need converse() {
        need to_send = need::nothing;
        while (!unsent_.empty()) {
            std::size_t sent = on_.peer_.write_some(unsent_, to_send);
            if (sent == 0) break;
            unsent_.erase(0, sent);
        }
        need to_receive = take_replies();
        if (unsent_.empty() || to_send == need::to_read || to_receive == need::a_turn)
            return to_receive;
        return need::to_do_either;
    }

    need take_replies() {
        need wanted = need::nothing;
        for (std::size_t all = 0; all < connector_detail::max_bytes_per_step;) {
            std::size_t got = on_.peer_.read_some(on_.buffer_, wanted);
            if (got == 0) return wanted;
            all += got;
            note_heard();
            std::string_view left(on_.buffer_.data(), got);
            while (!left.empty()) {
                left.remove_prefix(on_.reader_.feed(left));
                if (on_.reader_.complete()) take(on_.reader_.take());
            }
        }
        return need::a_turn;
    }

    void take(reply got) {
        if (got.is_error()) refuse(got.error_text());
        if (!got.is_array()) refuse_reply();
        reply::array parts = std::move(got).elements();
        auto is = [&parts](std::string_view kind, std::size_t size) {
            return parts.size() == size && parts[0].is_text() && parts[0].text() == kind;
        };
        if (is("message", 3) && all_texts(parts)) {
            add({.channel = parts[1].text(), .payload = parts[2].text()});
        } else if (is("pmessage", 4) && all_texts(parts)) {
            add({.channel = parts[2].text(),
                 .payload = parts[3].text(),
                 .pattern = parts[1].text()});
        } else if (unconfirmed_ > 0 && (is("subscribe", 3) || is("psubscribe", 3))) {
            --unconfirmed_;
        } else if (probing() && is("pong", 2)) {
            note_probe_answered();
        } else {
            refuse_reply();
        }
    }

    static bool all_texts(const reply::array& parts) {
        return std::ranges::all_of(parts, [](const reply& each) { return each.is_text(); });
    }

    [[noreturn]] void refuse(const std::string& text) const {
        error_kind kind = kind_in_use(text);
        if (unconfirmed_ > 0 && kind == error_kind::statement) throw command_error(text);
        throw connection_error(
            kind == error_kind::statement ? error_kind::connection : kind,
            std::string("cenote: Redis: an error among the messages of a listener: ") + text);
    }
    [[noreturn]] static void refuse_reply() {
        throw connection_error(error_kind::connection,
                               "cenote: Redis: a listener got an unexpected reply");
    }

    need read() override {
        if (lost_) give_up(*lost_);
        try {
            return converse();
        } catch (const connection_error& e) {
            if (!has_found()) give_up(e);
            lost_.emplace(e);
            return need::to_read;
        }
    }

    void probe() override { append_words(unsent_, "PING", std::vector<std::string>{""}); }

    [[noreturn]] void give_up(const connection_error& why) override {
        on_.condition_.note_broken(why.kind());
        if (const auto* late = dynamic_cast<const exchange_timeout*>(&why)) throw *late;
        throw why;
    }

    session& on_;
    std::optional<connector_detail::exchange> exchange_;  // never completed: the connection ends
    std::string unsent_;
    std::size_t unconfirmed_ = 0;
    std::optional<connection_error> lost_;  // to be thrown after what was found
};

}  // namespace detail

std::unique_ptr<listening_detail::receiver> connection::receiver() {
    return std::make_unique<detail::receiver>(*session_);
}

namespace {

cenote::options for_one(cenote::options settings) {
    settings.max = 1;
    settings.min_size = 0;
    settings.min_idle = 0;
    settings.warm_up = warm_up::none;
    return settings;
}

}  // namespace

subscription_source::subscription_source(const connector& beside, cenote::options settings)
    : own_(std::make_shared<pool<connection>>(beside, for_one(std::move(settings)))),
      pool_(own_.get()) {}

/// The connections of a stream.
class subscription final : public listening_detail::pool_source<connection> {
public:
    subscription(const subscription_source& from, std::source_location at)
        : pool_source(*from.pool_, at, true), own_(from.own_) {}

private:
    std::unique_ptr<listening_detail::receiver> receiver_on(connection& c) override {
        return c.receiver();
    }

    std::shared_ptr<pool<connection>> own_;
};

namespace {

enum class names : std::uint8_t { channels, patterns };

std::shared_ptr<listener> make_listener(const subscription_source& from, const channel_list& list,
                                        names are, const subscribe_options& how,
                                        std::source_location at) {
    if (list.names().empty())
        throw std::invalid_argument("cenote: Redis: a subscription needs a channel");
    subject to{.channels = {},
               .patterns = {},
               .probe_after = how.probe_after,
               .reply_timeout = how.reply_timeout,
               .task = how.task};
    (are == names::channels ? to.channels : to.patterns) = list.names();
    return std::make_shared<listener>(std::make_shared<const subject>(std::move(to)),
                                      std::make_unique<subscription>(from, at));
}

notifications opened(std::shared_ptr<listener> one) {
    listener::open(one);
    return notifications(std::move(one));
}

asio::awaitable<notifications> async_opened(std::shared_ptr<listener> one) {
    co_await listener::async_open(one);
    co_return notifications(std::move(one));
}

}  // namespace

notifications subscribe(const subscription_source& from, const channel_list& channels,
                        const subscribe_options& how, std::source_location at) {
    return opened(make_listener(from, channels, names::channels, how, at));
}

notifications psubscribe(const subscription_source& from, const channel_list& patterns,
                         const subscribe_options& how, std::source_location at) {
    return opened(make_listener(from, patterns, names::patterns, how, at));
}

asio::awaitable<notifications> async_subscribe(const subscription_source& from,
                                               const channel_list& channels, subscribe_options how,
                                               std::source_location at) {
    return async_opened(make_listener(from, channels, names::channels, how, at));
}

asio::awaitable<notifications> async_psubscribe(const subscription_source& from,
                                                const channel_list& patterns, subscribe_options how,
                                                std::source_location at) {
    return async_opened(make_listener(from, patterns, names::patterns, how, at));
}

}  // namespace cenote::redis
