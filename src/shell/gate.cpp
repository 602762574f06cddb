// The door from the templates into the keeper: how it is made. Its slow ways are in acquire.cpp,
// await.cpp, release.cpp, control.cpp, breaking.cpp, end.cpp, look.cpp and explain.cpp.
#include "cenote/detail/gate.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "shell/keeper.hpp"
#include "shell/work_here.hpp"
#include "shell/work_thread.hpp"

namespace cenote::detail {

gate::gate(const options& settings, std::unique_ptr<any_connector> connector, std::uint32_t reasons)
    : shelf_(std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 256), reasons),
      connector_(connector.release()),
      acquire_timeout_(settings.acquire_timeout),
      name_(settings.name) {
    connector_abilities can = connector_->abilities();
    looks_before_acquire_ = can.before_acquire;
    sample_mask_ = looks_before_acquire_ ? 0 : sample - 1;
    looks_before_release_ = can.before_release;
    looks_elsewhere_ = can.before_acquire && !can.before_acquire_is_quick;
}

gate* gate::open(const options& settings, std::unique_ptr<blocking_connector> connector) {
    using workplace = std::unique_ptr<shell::workplace>;
    return shell::keeper::open(settings, std::move(connector),
                               [&](shell::keeper& home) -> workplace {
                                   if (settings.clock != nullptr)
                                       return std::make_unique<shell::work_here>(home);
                                   return std::make_unique<shell::work_thread>(home, settings);
                               });
}

}  // namespace cenote::detail
