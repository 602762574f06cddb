// A least-recently-used cache of the statements that a connection has prepared.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace cenote::connector_detail {

/// Whether a text ends with a comment that has a traceparent (trace_context::sql_comment). Each run
/// has another one, so the statement is not kept: it would displace those that come again.
inline bool has_trace_comment(std::string_view text) noexcept {
    if (!text.ends_with("*/")) return false;
    std::size_t comment = text.rfind("/*");
    return comment != text.npos && text.find("traceparent='", comment) != text.npos;
}

/// The cache of one connection. `Kept`: the server's state of one statement.
template <class Kept>
class statement_cache {
public:
    explicit statement_cache(std::size_t capacity) noexcept : capacity_(capacity) {}
    statement_cache(const statement_cache&) = delete;
    statement_cache& operator=(const statement_cache&) = delete;
    ~statement_cache() = default;

    bool on() const noexcept { return capacity_ > 0; }
    /// For good.
    void turn_off() noexcept {
        clear();
        capacity_ = 0;
    }
    std::size_t size() const noexcept { return all_.size(); }

    /// Null: unknown. Makes the statement the most recent one.
    Kept* find(std::string_view key) {
        auto found = by_key_.find(key);
        if (found == by_key_.end()) return nullptr;
        all_.splice(all_.begin(), all_, found->second);
        return &found->second->kept;
    }

    /// Requires that the key is unknown. Returns the statement that was evicted, if any.
    std::optional<Kept> add(std::string key, Kept kept) {
        std::optional<Kept> evicted;
        if (all_.size() >= capacity_) {
            evicted = std::move(all_.back().kept);
            by_key_.erase(all_.back().key);
            all_.pop_back();
        }
        all_.push_front({std::move(key), std::move(kept)});
        by_key_.emplace(all_.front().key, all_.begin());
        return evicted;
    }

    /// Returns the statement that was removed, if it was known.
    std::optional<Kept> remove(std::string_view key) {
        auto found = by_key_.find(key);
        if (found == by_key_.end()) return std::nullopt;
        auto where = found->second;
        std::optional<Kept> removed = std::move(where->kept);
        by_key_.erase(found);
        all_.erase(where);
        return removed;
    }

    template <class Do>
    void for_each(Do what) {
        for (entry& e : all_) what(e.kept);
    }

    void clear() noexcept {
        by_key_.clear();
        all_.clear();
    }

private:
    struct entry {
        std::string key;
        Kept kept;
    };

    std::size_t capacity_;
    std::list<entry> all_;  // the most recent first
    std::unordered_map<std::string_view, typename std::list<entry>::iterator> by_key_;
};

}  // namespace cenote::connector_detail
