// How a connector that blocks is called.
#include "shell/workplace.hpp"

#include <exception>
#include <memory>
#include <utility>

#include "shell/operations.hpp"

namespace cenote::shell {

namespace {

/// A connector call that this thread is in.
struct call_frame {
    const keeper* of = nullptr;
    const call_frame* outer = nullptr;
};
constinit thread_local const call_frame* innermost = nullptr;

}  // namespace

std::size_t work_blocking::calls_here() const {
    std::size_t count = 0;
    for (const call_frame* f = innermost; f != nullptr; f = f->outer) count += f->of == &home_;
    return count;
}

void work_blocking::call(const job& j) noexcept {
    auto& connector = static_cast<detail::blocking_connector&>(*j.by);
    bool well = true;
    std::exception_ptr error;
    std::unique_ptr<detail::resource> opened;
    const call_frame here{.of = &home_, .outer = innermost};
    innermost = &here;
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
    innermost = here.outer;
    finish(home_, j, well, error, std::move(opened));
}

}  // namespace cenote::shell
