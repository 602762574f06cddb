// The door from the templates into the keeper.
#include "cenote/detail/gate.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "shell/keeper.hpp"
#include "shell/work_here.hpp"
#include "shell/work_thread.hpp"

namespace cenote::detail {

namespace {

shell::keeper& keeper_of(gate* g) { return *static_cast<shell::keeper*>(g); }

}  // namespace

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

void gate::leave() noexcept { keeper_of(this).end(); }

// Whoever acquires may allocate, so this is the place to prepare for the release.
resource* gate::acquire(const wish& w, errc& why) {
    register_this_thread();
    return keeper_of(this).acquire(w, why);
}
resource* gate::try_acquire(std::source_location site) {
    register_this_thread();
    return keeper_of(this).try_acquire(site);
}

void gate::check_count(std::size_t count) const {
    std::size_t max = static_cast<const shell::keeper*>(this)->max();
    if (count >= 1 && count <= max) return;
    throw std::invalid_argument("cenote: acquire_many(" + std::to_string(count) + ") of pool \"" +
                                name_ + "\": must be between 1 and max (" + std::to_string(max) +
                                ")");
}

bool gate::acquire_many(const wish& w, std::span<resource*> into, errc& why) {
    register_this_thread();
    return keeper_of(this).acquire_many(w, into, why);
}

bool gate::ask(waiter& who) {
    if (this_threads_mark == nullptr) register_this_thread();
    return keeper_of(this).ask(who);
}
void gate::cancel(waiter& who) noexcept { keeper_of(this).cancel(who); }
bool gate::withdraw(waiter& who) noexcept { return keeper_of(this).withdraw(who); }
bool gate::take_back(waiter& who) noexcept { return shell::keeper::take_back(who); }
void gate::refused(errc why) noexcept { keeper_of(this).refused(why); }
void gate::forget() noexcept { keeper_of(this).drop_ref(); }

std::unique_ptr<resource> gate::detach(resource* r) noexcept { return keeper_of(this).detach(r); }
resource* gate::hand_in_taken(resource* r) noexcept {
    keeper_of(this).hand_in(r);
    return nullptr;
}
void gate::hand_in_and_leave(resource* r, const gate* outer) noexcept {
    keeper_of(this).hand_in(r);
    this_threads_mark->leave(outer);
}
resource* gate::taken(resource* r) noexcept { return keeper_of(this).taken(r); }
void gate::release(resource* r) noexcept {
    if (this_threads_mark == nullptr) register_without_allocating();  // for the next time
    keeper_of(this).release(r);
}
void gate::discard(resource* r, const std::exception_ptr& cause) noexcept {
    if (this_threads_mark == nullptr) register_without_allocating();  // for the next time
    r->state = condition::broken;
    keeper_of(this).release(r, cause);
}
void gate::retire_all() { keeper_of(this).retire_all(); }
void gate::suspect_all() noexcept { keeper_of(this).suspect_all(); }
void gate::suspect(const resource* r) noexcept { keeper_of(this).suspect(r); }
void gate::replace_connector(std::unique_ptr<any_connector> next) {
    keeper_of(this).replace_connector(std::move(next));
}
void gate::resize(std::size_t max) { keeper_of(this).resize(max); }
void gate::pause() { keeper_of(this).pause(); }
void gate::resume() { keeper_of(this).resume(); }
void gate::suspend_maintenance() { keeper_of(this).suspend_maintenance(); }
void gate::resume_maintenance() { keeper_of(this).resume_maintenance(); }
void gate::go(const breaker_move& where) { keeper_of(this).go(where); }
void gate::set_breaker(std::shared_ptr<breaker> strategy) {
    keeper_of(this).set_breaker(std::move(strategy));
}
std::chrono::nanoseconds gate::retry_after() const {
    return static_cast<const shell::keeper*>(this)->retry_after();
}
void gate::close() noexcept { keeper_of(this).close(); }
std::size_t gate::close(std::chrono::nanoseconds timeout, std::source_location site) noexcept {
    return keeper_of(this).close(timeout, site);
}
bool gate::wait_ready(std::chrono::nanoseconds timeout, std::source_location site) {
    return keeper_of(this).wait_ready(timeout, site);
}
bool gate::closed() const noexcept { return static_cast<const shell::keeper*>(this)->closed(); }
std::exception_ptr gate::open_error() const {
    return static_cast<const shell::keeper*>(this)->open_error();
}
options gate::settings() const { return static_cast<const shell::keeper*>(this)->settings(); }
stats gate::read() const { return static_cast<const shell::keeper*>(this)->read(); }
std::vector<lease_info> gate::leases() const {
    return static_cast<const shell::keeper*>(this)->leases();
}
std::vector<slot_info> gate::slots() const {
    return static_cast<const shell::keeper*>(this)->slots();
}

void gate::fail(errc why, instant since, bool queues, std::size_t wanted) {
    std::exception_ptr cause;
    std::string text = keeper_of(this).explain(why, queues, wanted, since, cause);
    throw_pool_error(why, std::move(text), std::move(cause), retry_after(), name_,
                     std::make_shared<const stats>(read()));
}

instant gate::deadline_after(std::chrono::nanoseconds timeout) const noexcept {
    instant at = now();
    return timeout.count() < 0 ? at : core::after(at, timeout);
}

instant gate::now() const noexcept { return static_cast<const shell::keeper*>(this)->now(); }

}  // namespace cenote::detail
