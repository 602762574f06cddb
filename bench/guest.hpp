// A pool of another language: a program that measures itself when it is told to. What is said is
// written down in peers/README.md.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "report.hpp"

namespace cenote::bench {

/// One such program, which runs from the first command on until nobody needs it any more.
class guest;

/// Those that are there.
class guests {
public:
    /// `folder` holds a program for each; empty: there are none. Says who is missing.
    explicit guests(const std::string& folder);

    /// Adds a subject for each of `names` that is there, which answers to this command with
    /// `seconds=` of a run added.
    void join(workload& w, const std::vector<std::string>& names, const std::string& command,
              double cores_needed = 0) const;

private:
    struct entry {
        std::string name;
        std::shared_ptr<guest> who;
    };
    std::vector<entry> all_;
};

// Who they are, for people and in goals.
inline constexpr const char* hikaricp = "HikariCP";
inline constexpr const char* commons_pool2 = "commons-pool2";
inline constexpr const char* puddle = "puddle";
inline constexpr const char* go_channel = "Go channel";
inline constexpr const char* pgxpool = "pgxpool";
inline constexpr const char* r2d2 = "r2d2";
inline constexpr const char* psycopg_pool = "psycopg_pool";

}  // namespace cenote::bench
