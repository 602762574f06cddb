// What a connection keeps of statements that are run again and again: the latest so many.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace cenote::connector_detail {

/// Of each connection one. `Kept`: what its server has of a statement.
template <class Kept>
class statement_cache {
public:
    explicit statement_cache(std::size_t most) noexcept : most_(most) {}
    statement_cache(const statement_cache&) = delete;
    statement_cache& operator=(const statement_cache&) = delete;
    ~statement_cache() = default;

    /// Whether it keeps anything at all.
    bool on() const noexcept { return most_ > 0; }
    /// From now on it does not.
    void turn_off() noexcept {
        clear();
        most_ = 0;
    }
    std::size_t size() const noexcept { return all_.size(); }

    /// Null: not known. What is found is the latest then.
    Kept* find(std::string_view key) {
        auto found = by_key_.find(key);
        if (found == by_key_.end()) return nullptr;
        all_.splice(all_.begin(), all_, found->second);
        return &found->second->kept;
    }

    /// One that is not known yet. Returns what had to go for it.
    std::optional<Kept> add(std::string key, Kept kept) {
        std::optional<Kept> gone;
        if (all_.size() >= most_) {
            gone = std::move(all_.back().kept);
            by_key_.erase(all_.back().key);
            all_.pop_back();
        }
        all_.push_front({std::move(key), std::move(kept)});
        by_key_.emplace(all_.front().key, all_.begin());
        return gone;
    }

    /// It is of no use any more. Returns what was kept of it.
    std::optional<Kept> remove(std::string_view key) {
        auto found = by_key_.find(key);
        if (found == by_key_.end()) return std::nullopt;
        auto where = found->second;
        std::optional<Kept> gone = std::move(where->kept);
        by_key_.erase(found);
        all_.erase(where);
        return gone;
    }

    template <class Do>
    void for_each(Do what) {
        for (entry& e : all_) what(e.kept);
    }

    /// The server has forgotten them all.
    void clear() noexcept {
        by_key_.clear();
        all_.clear();
    }

private:
    struct entry {
        std::string key;
        Kept kept;
    };

    std::size_t most_;
    std::list<entry> all_;  // the latest first
    std::unordered_map<std::string_view, typename std::list<entry>::iterator> by_key_;
};

}  // namespace cenote::connector_detail
