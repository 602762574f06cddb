// How a connector that blocks is called.
#include "shell/work_blocking.hpp"

#include <exception>
#include <memory>
#include <utility>

#include "shell/keeper.hpp"

namespace cenote::shell {

namespace {

/// Whose connector this thread is calling.
constinit thread_local const keeper* calling_for = nullptr;

}  // namespace

std::size_t work_blocking::calls_here() const { return calling_for == &home_ ? 1 : 0; }

void work_blocking::call(const job& j) noexcept {
    auto& connector = static_cast<detail::blocking_connector&>(*j.by);
    bool well = true;
    std::exception_ptr error;
    std::unique_ptr<detail::resource> opened;
    const keeper* outer = std::exchange(calling_for, &home_);
    try {
        switch (j.which) {
            case core::verb::open: opened = connector.open(); break;
            case core::verb::probe: well = connector.probe(*j.on); break;
            case core::verb::reset: well = connector.reset(*j.on); break;
            case core::verb::close: connector.close(*j.on); break;
        }
    } catch (...) {
        well = false;
        error = std::current_exception();
    }
    calling_for = outer;
    home_.finish(j, well, error, std::move(opened));
}

}  // namespace cenote::shell
