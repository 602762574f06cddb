// C++ interfaces implemented by callbacks of C.
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

// Enumerators have equal numbers in C and C++.
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
static_assert(static_cast<int>(event_kind::waited) == CENOTE_EVENT_WAITED);
static_assert(event_kind_count == CENOTE_EVENT_WAITED + 1);

cenote_failure empty_failure() noexcept {
    cenote_failure failure{};
    failure.size = sizeof failure;
    return failure;
}

verdict verdict_of(int number) noexcept {
    switch (number) {
        case CENOTE_KEEP: return verdict::keep;
        case CENOTE_RESET: return verdict::reset;
        case CENOTE_FINAL: return verdict::final;
        case CENOTE_SUSPECT: return verdict::suspect;
        case CENOTE_RESET_LATER: return verdict::reset_later;
        default: return verdict::discard;
    }
}

/// Calls a callback. Throws callback_error for any result but CENOTE_KEEP, and for an exception of
/// a callback written in C++.
template <class Call>
void invoke(const c_connector& c, const char* name, Call&& call) {
    callback_scope scope(c.entry);
    cenote_failure why = empty_failure();
    int result = CENOTE_DISCARD;
    try {
        result = call(why);
    } catch (const std::exception& e) {
        fill(&why, CENOTE_OK, e.what());
    } catch (...) {
        fill(&why, CENOTE_OK, "an exception that is not a std::exception");
    }
    if (result != CENOTE_KEEP) throw callback_error(result, why, name);
}

/// The connector that the pool sees. Its optional members depend on template parameters, because a
/// pool detects them in the type.
template <bool HasReset, bool HasBeforeAcquire, bool HasBeforeRelease>
class callback_connector {
public:
    explicit callback_connector(std::unique_ptr<c_connector> c)
        : c_(std::move(c)), callbacks_(c_->callbacks) {}

    item open() {
        void* resource = nullptr;
        invoke(*c_, "open", [&](cenote_failure& why) {
            return callbacks_.open(callbacks_.context, &resource, &why);
        });
        if (resource == nullptr) {
            cenote_failure why = empty_failure();
            fill(&why, CENOTE_OK, "open returned success without a resource");
            throw callback_error(CENOTE_DISCARD, why, "open");
        }
        return with_cell(resource);
    }
    bool probe(item& i) { return invoke_on("probe", callbacks_.probe, i); }
    bool can_probe() const noexcept { return callbacks_.probe != nullptr; }
    bool reset(item& i)
        requires HasReset
    {
        return invoke_on("reset", callbacks_.reset, i);
    }
    void close(item& i) {
        if (callbacks_.close == nullptr) return;
        callback_scope scope(c_->entry);
        callbacks_.close(callbacks_.context, i.resource);
    }
    bool before_acquire(item& i)
        requires HasBeforeAcquire
    {
        callback_scope scope(c_->entry);
        return callbacks_.before_acquire(callbacks_.context, i.resource) == CENOTE_KEEP;
    }
    verdict before_release(item& i)
        requires HasBeforeRelease
    {
        callback_scope scope(c_->entry);
        return verdict_of(callbacks_.before_release(callbacks_.context, i.resource));
    }
    void forsake(item& i) {
        if (callbacks_.forsake == nullptr) return;
        callback_scope scope(c_->entry);
        callbacks_.forsake(callbacks_.context, i.resource);
    }
    verdict classify(const std::exception_ptr& error) const {
        try {
            std::rethrow_exception(error);
        } catch (const callback_error& e) {
            verdict given = verdict_of(e.verdict());
            return given == verdict::final ? given : verdict::discard;
        } catch (...) {
            return verdict::discard;
        }
    }

private:
    using callback = int (*)(void*, void*, cenote_failure*);

    bool invoke_on(const char* name, callback f, item& i) {
        invoke(*c_, name,
               [&](cenote_failure& why) { return f(callbacks_.context, i.resource, &why); });
        return true;
    }

    /// Closes the resource if there is no memory for its cell.
    item with_cell(void* resource) {
        try {
            return {resource, cell::allocate(&c_->entry, resource)};
        } catch (...) {
            item unused{resource, nullptr};
            close(unused);
            throw;
        }
    }

    std::unique_ptr<c_connector> c_;
    const cenote_connector& callbacks_;
};

template <bool... Has>
std::unique_ptr<pool_entry::pool_type> make(std::unique_ptr<c_connector> c,
                                            const options& settings) {
    return std::make_unique<pool_entry::pool_type>(callback_connector<Has...>(std::move(c)),
                                                   settings);
}

/// Converts the remaining arguments to template arguments, one per call.
template <bool... Has, class... More>
std::unique_ptr<pool_entry::pool_type> make(std::unique_ptr<c_connector> c, const options& settings,
                                            bool has, More... more) {
    if (has) return make<Has..., true>(std::move(c), settings, more...);
    return make<Has..., false>(std::move(c), settings, more...);
}

class c_observer final : public observer {
public:
    c_observer(const cenote_observer& callbacks, const pool_entry& entry)
        : callbacks_(callbacks), entry_(entry) {}

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
        callback_scope scope(entry_);
        callbacks_.on_event(callbacks_.context, &e);
    }
    bool wants(event_kind kind) const override {
        return (callbacks_.wants & CENOTE_WANTS(static_cast<int>(kind))) != 0;
    }

private:
    const cenote_observer callbacks_;
    const pool_entry& entry_;
};

class c_breaker final : public breaker {
public:
    c_breaker(const cenote_breaker& callbacks, const pool_entry& entry)
        : callbacks_(callbacks), entry_(entry) {}

    std::optional<breaker_move> succeeded(const breaker_report& what) override {
        return invoke(callbacks_.succeeded, what);
    }
    std::optional<breaker_move> failed(const breaker_report& what) override {
        return invoke(callbacks_.failed, what);
    }
    std::optional<breaker_move> cooled_down(const breaker_report& what) override {
        if (callbacks_.cooled_down == nullptr) return breaker::cooled_down(what);
        return invoke(callbacks_.cooled_down, what);
    }

private:
    /// The move that the callback returns. A move to an unknown state is ignored.
    template <class Call>
    std::optional<breaker_move> invoke(Call call, const breaker_report& what) {
        const std::string pool(what.pool);
        const std::string text = what.error == nullptr ? "" : vocabulary::text_of(what.error);
        cenote_breaker_report report{};
        report.size = sizeof report;
        report.pool = pool.c_str();
        report.state = static_cast<cenote_breaker_state>(what.state);
        report.count = what.count;
        report.at = what.at.time_since_epoch() / std::chrono::nanoseconds{1};
        report.text = what.error == nullptr ? nullptr : text.c_str();
        const breaker_move defaults;
        cenote_breaker_move go{};
        go.size = sizeof go;
        go.cool_down = defaults.cool_down.count();
        go.probes = defaults.probes;
        callback_scope scope(entry_);
        if (call(callbacks_.context, &report, &go) == 0) return std::nullopt;
        if (go.to < CENOTE_ACTIVE || go.to > CENOTE_RECOVERING) return std::nullopt;
        return breaker_move{.to = static_cast<breaker_state>(go.to),
                            .cool_down = std::chrono::nanoseconds{go.cool_down},
                            .probes = static_cast<std::size_t>(go.probes)};
    }

    const cenote_breaker callbacks_;
    const pool_entry& entry_;
};

}  // namespace

std::unique_ptr<pool_entry::pool_type> make_pool(std::unique_ptr<c_connector> by,
                                                 const options& settings) {
    const cenote_connector& callbacks = by->callbacks;
    bool has_reset = callbacks.reset != nullptr;
    bool has_before_acquire = callbacks.before_acquire != nullptr;
    bool has_before_release = callbacks.before_release != nullptr;
    return make<>(std::move(by), settings, has_reset, has_before_acquire, has_before_release);
}

std::shared_ptr<observer> make_observer(const cenote_observer& callbacks, const pool_entry& entry) {
    return std::make_shared<c_observer>(callbacks, entry);
}

std::shared_ptr<breaker> make_breaker(const cenote_breaker& callbacks, const pool_entry& entry) {
    return std::make_shared<c_breaker>(callbacks, entry);
}

}  // namespace cenote::c
