// Pools of other languages: programs that measure themselves. peers/README.md has the protocol.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "report.hpp"

namespace cenote::bench {

/// A running program; starts with the first command.
class peer_process;

/// The available peer processes.
class peer_processes {
public:
    /// `folder` contains the programs; empty: none. Prints which ones are missing.
    explicit peer_processes(const std::string& folder);

    /// Adds a subject for each available peer in `names`, which runs this command with `seconds=`
    /// added.
    void add_subjects(workload& w, const std::vector<std::string>& names,
                      const std::string& command, double cores_needed = 0) const;

private:
    struct entry {
        std::string name;
        std::shared_ptr<peer_process> process;
    };
    std::vector<entry> all_;
};

// Names of the peers, in reports and goals.
inline constexpr const char* hikaricp = "HikariCP";
inline constexpr const char* commons_pool2 = "commons-pool2";
inline constexpr const char* puddle = "puddle";
inline constexpr const char* go_channel = "Go channel";
inline constexpr const char* pgxpool = "pgxpool";
inline constexpr const char* r2d2 = "r2d2";
inline constexpr const char* psycopg_pool = "psycopg_pool";

}  // namespace cenote::bench
