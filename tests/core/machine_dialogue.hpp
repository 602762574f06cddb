// A machine to talk to: each call is an event, said() is what the machine answered with.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "core/machine.hpp"

namespace cenote::core {

using namespace std::chrono_literals;

class dialogue {
public:
    explicit dialogue(const options& settings, abilities can = {.probe = true, .reset = true},
                      bool reports = false, std::uint64_t seed = 1)
        : it(settings, can, reports, seed, instant{} + 1h), now(instant{} + 1h) {
        it.start(now, heard_);
        remember();
        it.check(now);
    }

    machine it;
    instant now;
    bool calls_begin = true;      // at once; otherwise when the test says so
    std::size_t check_every = 1;  // events; more for those that have many

    /// The answers to the last event, as words: "open 0, 7 gets 1".
    std::string said() const {
        std::string text;
        for (const action& a : heard_)
            if (a.what != action::kind::judge) text += (text.empty() ? "" : ", ") + words(a);
        return text.empty() ? "nothing" : text;
    }

    /// The actions of the last event, unchanged.
    const actions& heard() const { return heard_; }

    /// What the breaker's strategy is told after the last event.
    std::string judged() const {
        std::string text;
        for (const action& a : heard_)
            if (a.what == action::kind::judge) text += (text.empty() ? "" : ", ") + words(a);
        return text.empty() ? "nothing" : text;
    }

    // Requests. The cookie is the borrower's name.
    std::string ask(std::uint64_t who, duration timeout = forever, bool bypassable = true) {
        return ask({.deadline = after(now, timeout), .cookie = who, .bypassable = bypassable});
    }
    std::string ask(const request& r) {
        answer a{};
        event([&] { a = it.acquire(now, r, heard_); });
        ticket = a.ticket;
        if (a.what == answer::kind::refused) return "refused: " + word(a.error);
        if (a.what == answer::kind::granted) {
            holds_[r.cookie] = a.slot;
            return "got " + std::to_string(a.slot);
        }
        waiters_[r.cookie] = a.waiter;
        return "waits";
    }
    std::optional<slot_id> attempt() {
        std::optional<slot_id> got;
        event([&] { got = it.try_acquire(now, heard_); });
        return got;
    }
    bool cancel(std::uint64_t who) {
        return truth([&] { return it.cancel(now, waiters_.at(who), heard_); });
    }
    void release(slot_id id, condition how = condition::clean, std::uint64_t uses = 0,
                 std::uint64_t thread = 0) {
        event([&] { it.release(now, id, how, uses, 1ms, heard_, thread); });
    }
    void detach(slot_id id) {
        event([&] { it.detach(now, id, heard_); });
    }
    void retire_all() {
        event([&] { it.retire_all(now, heard_); });
    }
    void resize(std::size_t max) {
        event([&] {
            it.make_places(max, heard_);
            it.resize(now, max, heard_);
        });
    }
    void pause() {
        event([&] { it.pause(now, heard_); });
    }
    void resume() {
        event([&] { it.resume(now, heard_); });
    }
    void suspend_maintenance() {
        event([&] { it.suspend_maintenance(now, heard_); });
    }
    void resume_maintenance() {
        event([&] { it.resume_maintenance(now, heard_); });
    }
    void go(const breaker_move& where) {
        event([&] { it.go(now, where, heard_); });
    }
    bool follow(std::uint64_t moves, const breaker_move& where) {
        return truth([&] { return it.follow(now, moves, where, heard_); });
    }
    void tick() {
        event([&] { it.tick(now, heard_); });
    }
    void suspect_all() {
        event([&] { it.suspect_all(now, heard_); });
    }
    void close() {
        event([&] { it.close(now, heard_); });
    }
    void warm() {
        event([&] { it.warm(now, heard_); });
    }

    // Answers to the call in flight on a slot, or to an earlier one.
    bool opened(slot_id id, outcome how = outcome::ok) { return opened(id, call_of(id), how); }
    bool opened(slot_id id, std::uint64_t call, outcome how) {
        return truth([&] { return it.on_open(now, id, call, how, heard_); });
    }
    bool probed(slot_id id, outcome how = outcome::ok) { return probed(id, call_of(id), how); }
    bool probed(slot_id id, std::uint64_t call, outcome how) {
        return truth([&] { return it.on_probe(now, id, call, how, heard_); });
    }
    bool reset(slot_id id, outcome how = outcome::ok) { return reset(id, call_of(id), how); }
    bool reset(slot_id id, std::uint64_t call, outcome how) {
        return truth([&] { return it.on_reset(now, id, call, how, heard_); });
    }
    bool closed(slot_id id, outcome how = outcome::ok) { return closed(id, call_of(id), how); }
    bool closed(slot_id id, std::uint64_t call, outcome how) {
        return truth([&] { return it.on_close(now, id, call, how, heard_); });
    }
    std::uint64_t call_of(slot_id id) const { return it.look(id).call; }

    /// Time passes; the machine is ticked whenever it asked to be, and at the end.
    void pass(duration d) {
        heard_.clear();
        for (instant end = now + d; now < end;) {
            now = std::min(end, it.wake_at());
            it.tick(now, heard_);
            remember();
            it.check(now);
        }
    }

    /// Every call in flight ends well, and so do those that follow.
    void finish_calls() {
        for (bool more = true; more;) {
            more = false;
            for (slot_id id = 0; id < it.places(); ++id) more = finish_call(id) || more;
        }
    }

    /// Makes `count` resources idle, all of them used once; 0 was used longest ago.
    void fill(std::uint64_t count) {
        constexpr std::uint64_t first = 1'000'000;  // borrowers that no test uses
        for (std::uint64_t i = 0; i < count; ++i) ask(first + i, forever, false);
        finish_calls();
        for (std::uint64_t i = 0; i < count; ++i) release(slot_of(first + i));
        finish_calls();
        ASSERT_GE(idle(), count);
    }

    slot_id slot_of(std::uint64_t who) const { return holds_.at(who); }
    bool holds(std::uint64_t who) const { return holds_.contains(who); }
    std::size_t idle() const { return it.count(slot_state::idle); }
    std::size_t leased() const { return it.count(slot_state::leased); }
    std::size_t opening() const { return it.count(slot_state::opening); }
    stats look() const {
        stats s;
        it.read(s);
        it.read_histograms(s);
        return s;
    }
    std::size_t in_flight(verb which) const {
        constexpr std::array states = {slot_state::opening, slot_state::probing,
                                       slot_state::resetting, slot_state::closing};
        return it.count(states[static_cast<std::size_t>(which)]);
    }

    std::uint64_t ticket = 0;  // of the last one who asked
    actions unread;            // for calls that a test makes itself

private:
    template <class Event>
    void event(Event happens) {
        heard_.clear();
        happens();
        remember();
        if (++events_ % check_every == 0) it.check(now);
    }
    template <class Event>
    bool truth(Event happens) {
        bool result = false;
        event([&] { result = happens(); });
        return result;
    }
    void remember() {
        for (const action& a : heard_) {
            if (a.what == action::kind::grant) holds_[a.cookie] = a.slot;
            if (a.what == action::kind::call && calls_begin) it.begun(now, a.slot, a.call);
        }
    }
    bool finish_call(slot_id id) {
        switch (it.look(id).state) {
            case slot_state::opening: return opened(id);
            case slot_state::probing: return probed(id);
            case slot_state::resetting: return reset(id);
            case slot_state::closing: return closed(id);
            default: return false;
        }
    }

    static std::string word(errc e) {
        constexpr std::array names = {"timed_out", "closed",   "unavailable", "line_full",
                                      "shed",      "canceled", "open_failed", "deadlock"};
        return names.at(static_cast<std::size_t>(e) - 1);
    }
    static std::string words(const action& a) {
        constexpr std::array verbs = {"open ", "probe ", "reset ", "close "};
        std::string slot = std::to_string(a.slot);
        std::string who = std::to_string(a.cookie);
        switch (a.what) {
            case action::kind::call: return verbs.at(static_cast<std::size_t>(a.which)) + slot;
            case action::kind::abandon: return "abandon " + slot;
            case action::kind::make_way: return slot + " makes way";
            case action::kind::grant: return who + " gets " + slot;
            case action::kind::refuse: return who + " refused: " + word(a.error);
            case action::kind::report: break;
            case action::kind::judge: {
                std::string sum = std::to_string(a.successes);
                if (a.news == circuit_news::succeeded) return "succeeded: " + sum;
                if (a.news == circuit_news::cooled_down) return "cooled down";
                return a.successes == 0 ? "failed" : "failed, after " + sum + " succeeded";
            }
        }
        std::string event = to_string(a.event);
        return a.event == event_kind::retired ? event + ": " + to_string(a.why) : event;
    }

    actions heard_;
    std::size_t events_ = 0;
    std::map<std::uint64_t, waiter_id> waiters_;
    std::map<std::uint64_t, slot_id> holds_;
};

/// A borrower asks for several at once.
inline std::string ask(dialogue& d, std::uint64_t who, std::uint32_t count,
                       duration timeout = forever) {
    return d.ask({.deadline = after(d.now, timeout), .cookie = who, .count = count});
}

}  // namespace cenote::core
