// Callbacks of C behind the interfaces of C++.
#include "c/callbacks.hpp"

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "c/failure.hpp"
#include "c/structs.hpp"
#include "vocabulary/texts.hpp"

namespace cenote::c {

namespace {

// The same numbers on both sides.
static_assert(static_cast<int>(event_kind::opened) == CENOTE_EVENT_OPENED);
static_assert(static_cast<int>(event_kind::open_failed) == CENOTE_EVENT_OPEN_FAILED);
static_assert(static_cast<int>(event_kind::acquired) == CENOTE_EVENT_ACQUIRED);
static_assert(static_cast<int>(event_kind::released) == CENOTE_EVENT_RELEASED);
static_assert(static_cast<int>(event_kind::discarded) == CENOTE_EVENT_DISCARDED);
static_assert(static_cast<int>(event_kind::detached) == CENOTE_EVENT_DETACHED);
static_assert(static_cast<int>(event_kind::retired) == CENOTE_EVENT_RETIRED);
static_assert(static_cast<int>(event_kind::probe_failed) == CENOTE_EVENT_PROBE_FAILED);
static_assert(static_cast<int>(event_kind::reset_failed) == CENOTE_EVENT_RESET_FAILED);
static_assert(static_cast<int>(event_kind::closed) == CENOTE_EVENT_CLOSED);
static_assert(static_cast<int>(event_kind::exhausted) == CENOTE_EVENT_EXHAUSTED);
static_assert(static_cast<int>(event_kind::loop_blocked) == CENOTE_EVENT_LOOP_BLOCKED);
static_assert(static_cast<int>(event_kind::nested_acquire) == CENOTE_EVENT_NESTED_ACQUIRE);
static_assert(static_cast<int>(event_kind::leak_suspected) == CENOTE_EVENT_LEAK_SUSPECTED);
static_assert(static_cast<int>(event_kind::breaker_changed) == CENOTE_EVENT_BREAKER_CHANGED);
static_assert(static_cast<int>(event_kind::paused) == CENOTE_EVENT_PAUSED);
static_assert(static_cast<int>(event_kind::resumed) == CENOTE_EVENT_RESUMED);
static_assert(static_cast<int>(event_kind::closing) == CENOTE_EVENT_CLOSING);
static_assert(static_cast<int>(event_kind::closed_pool) == CENOTE_EVENT_CLOSED_POOL);
static_assert(event_kind_count == CENOTE_EVENT_CLOSED_POOL + 1);

cenote_failure blank() noexcept {
    cenote_failure said{};
    said.size = sizeof said;
    return said;
}

verdict verdict_of(int said) noexcept {
    switch (said) {
        case CENOTE_KEEP: return verdict::keep;
        case CENOTE_RESET: return verdict::reset;
        case CENOTE_FINAL: return verdict::final;
        case CENOTE_SUSPECT: return verdict::suspect;
        case CENOTE_RESET_LATER: return verdict::reset_later;
        default: return verdict::discard;
    }
}

/// Calls back, and makes an exception of what C++ code throws there that is like that of C.
template <class Call>
void call_back(const told_connector& t, const char* who, Call&& call) {
    engaged here(t.at);
    cenote_failure said = blank();
    int answer = CENOTE_DISCARD;
    try {
        answer = call(said);
    } catch (const std::exception& e) {
        fill(&said, CENOTE_OK, e.what());
    } catch (...) {
        fill(&said, CENOTE_OK, "an exception that is not a std::exception");
    }
    if (answer != CENOTE_KEEP) throw callback_error(answer, said, who);
}

/// As the pool wants it. What a connector has is part of its type; hence one type for each choice.
template <bool Resets, bool LooksBeforeAcquire, bool LooksBeforeRelease>
class callback_connector {
public:
    explicit callback_connector(std::unique_ptr<told_connector> t) : t_(std::move(t)) {}

    item open() {
        void* resource = nullptr;
        call_back(*t_, "open", [&](cenote_failure& why) {
            return t_->told.open(t_->told.context, &resource, &why);
        });
        if (resource == nullptr) {
            cenote_failure nothing = blank();
            fill(&nothing, CENOTE_OK, "open said that it went well, but made no resource");
            throw callback_error(CENOTE_DISCARD, nothing, "open");
        }
        return keep(resource);
    }
    bool probe(item& i) { return ask("probe", t_->told.probe, i); }
    bool can_probe() const noexcept { return t_->told.probe != nullptr; }
    bool reset(item& i)
        requires Resets
    {
        return ask("reset", t_->told.reset, i);
    }
    void close(item& i) {
        if (t_->told.close == nullptr) return;
        engaged here(t_->at);
        t_->told.close(t_->told.context, i.resource);
    }
    bool before_acquire(item& i)
        requires LooksBeforeAcquire
    {
        engaged here(t_->at);
        return t_->told.before_acquire(t_->told.context, i.resource) == CENOTE_KEEP;
    }
    verdict before_release(item& i)
        requires LooksBeforeRelease
    {
        engaged here(t_->at);
        return verdict_of(t_->told.before_release(t_->told.context, i.resource));
    }
    void forsake(item& i) {
        if (t_->told.forsake == nullptr) return;
        engaged here(t_->at);
        t_->told.forsake(t_->told.context, i.resource);
    }
    verdict classify(const std::exception_ptr& error) const {
        try {
            std::rethrow_exception(error);
        } catch (const callback_error& e) {
            verdict said = verdict_of(e.verdict());
            return said == verdict::final ? said : verdict::discard;
        } catch (...) {
            return verdict::discard;
        }
    }

private:
    using verb = int (*)(void*, void*, cenote_failure*);

    bool ask(const char* who, verb what, item& i) {
        call_back(*t_, who,
                  [&](cenote_failure& why) { return what(t_->told.context, i.resource, &why); });
        return true;
    }

    /// If there is no cell for it, nobody would close it.
    item keep(void* resource) {
        try {
            return {resource, cell::take(&t_->at, resource)};
        } catch (...) {
            item orphan{resource, nullptr};
            close(orphan);
            throw;
        }
    }

    std::unique_ptr<told_connector> t_;
};

template <bool... Has>
std::unique_ptr<host::resource_pool> make(std::unique_ptr<told_connector> t,
                                          const options& settings) {
    return std::make_unique<host::resource_pool>(callback_connector<Has...>(std::move(t)),
                                                 settings);
}

/// Adds to the type what there is, one after the other.
template <bool... Has, class... More>
std::unique_ptr<host::resource_pool> make(std::unique_ptr<told_connector> t,
                                          const options& settings, bool has, More... more) {
    if (has) return make<Has..., true>(std::move(t), settings, more...);
    return make<Has..., false>(std::move(t), settings, more...);
}

class told_observer final : public observer {
public:
    told_observer(const cenote_observer& told, const host& at) : told_(told), at_(at) {}

    void on_event(const event& what) override {
        std::string pool(what.pool);
        std::string text = what.cause == nullptr ? std::string() : vocabulary::text_of(what.cause);
        cenote_event e{};
        e.size = sizeof e;
        e.kind = static_cast<cenote_event_kind>(what.kind);
        e.reason = static_cast<cenote_retire_reason>(what.why);
        e.code = code_of(what.error);
        e.breaker = static_cast<cenote_breaker_state>(what.breaker);
        e.pool = pool.c_str();
        e.resource = what.resource;
        e.took = what.took.count();
        e.cause = cause_of(what.cause);
        e.text = text.c_str();
        e.task = what.task;
        engaged here(at_);
        told_.on_event(told_.context, &e);
    }
    bool wants(event_kind kind) const override {
        return (told_.wants & CENOTE_WANTS(static_cast<int>(kind))) != 0;
    }

private:
    const cenote_observer told_;
    const host& at_;
};

class told_breaker final : public breaker {
public:
    told_breaker(const cenote_breaker& told, const host& at) : told_(told), at_(at) {}

    std::optional<breaker_move> succeeded(const breaker_report& what) override {
        return ask(told_.succeeded, what);
    }
    std::optional<breaker_move> failed(const breaker_report& what) override {
        return ask(told_.failed, what);
    }
    std::optional<breaker_move> cooled_down(const breaker_report& what) override {
        if (told_.cooled_down == nullptr) return breaker::cooled_down(what);
        return ask(told_.cooled_down, what);
    }

private:
    /// Where it says, unless there is no such place.
    template <class Call>
    std::optional<breaker_move> ask(Call call, const breaker_report& what) {
        const std::string pool(what.pool);
        const std::string text = what.error == nullptr ? "" : vocabulary::text_of(what.error);
        cenote_breaker_report told{};
        told.size = sizeof told;
        told.pool = pool.c_str();
        told.state = static_cast<cenote_breaker_state>(what.state);
        told.count = what.count;
        told.at = what.at.time_since_epoch() / std::chrono::nanoseconds{1};
        told.text = what.error == nullptr ? nullptr : text.c_str();
        breaker_move usual;
        cenote_breaker_move go{};
        go.size = sizeof go;
        go.cool_down = usual.cool_down.count();
        go.probes = usual.probes;
        engaged here(at_);
        if (call(told_.context, &told, &go) == 0) return std::nullopt;
        if (go.to < CENOTE_ACTIVE || go.to > CENOTE_RECOVERING) return std::nullopt;
        return breaker_move{.to = static_cast<breaker_state>(go.to),
                            .cool_down = std::chrono::nanoseconds{go.cool_down},
                            .probes = static_cast<std::size_t>(go.probes)};
    }

    const cenote_breaker told_;
    const host& at_;
};

}  // namespace

std::unique_ptr<host::resource_pool> make_pool(std::unique_ptr<told_connector> by,
                                               const options& settings) {
    const cenote_connector& told = by->told;
    bool resets = told.reset != nullptr;
    bool looks_before_acquire = told.before_acquire != nullptr;
    bool looks_before_release = told.before_release != nullptr;
    return make<>(std::move(by), settings, resets, looks_before_acquire, looks_before_release);
}

std::shared_ptr<observer> make_observer(const cenote_observer& told, const host& at) {
    return std::make_shared<told_observer>(told, at);
}

std::shared_ptr<breaker> make_breaker(const cenote_breaker& told, const host& at) {
    return std::make_shared<told_breaker>(told, at);
}

}  // namespace cenote::c
