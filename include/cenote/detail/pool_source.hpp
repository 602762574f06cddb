// Connections for a listener from a pool of any type.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <memory>
#include <source_location>
#include <utility>

#include "cenote/asio.hpp"
#include "cenote/detail/listening.hpp"
#include "cenote/lease.hpp"
#include "cenote/pool.hpp"
#include "cenote/verdict.hpp"

namespace cenote::listening_detail {

template <class T>
class pool_source : public source {
public:
    /// The pool must outlive this object. `at`: for leak reports and the like. `closes`: whether
    /// the pool closes connections that are returned.
    pool_source(pool<T>& from, std::source_location at, bool closes) noexcept
        : from_(from), at_(at), closes_(closes) {}
    ~pool_source() override { pool_source::release(nullptr); }

    void connect(std::shared_ptr<const subject> to, const acquire_options& how) override {
        lease<T> taken = from_.acquire(how, at_);
        std::unique_ptr<listening_detail::receiver> hears = receiver_on(*taken);
        hears->subscribe(std::move(to));
        keep(std::move(taken), std::move(hears));
    }

    asio::awaitable<void> async_connect(std::shared_ptr<const subject> to,
                                        acquire_options how) override {
        lease<T> taken = co_await from_.async_acquire(how, asio::use_awaitable, at_);
        std::unique_ptr<listening_detail::receiver> hears = receiver_on(*taken);
        co_await hears->async_subscribe(std::move(to));
        keep(std::move(taken), std::move(hears));
    }

    listening_detail::receiver* receiver() noexcept override { return receiver_.get(); }

    void release(const std::exception_ptr& why) noexcept override {
        receiver_.reset();
        if (why != nullptr) lease_.give_back(why, verdict::discard);
        else lease_.give_back();
    }

    pool_control control() const override { return from_.control(); }

protected:
    virtual std::unique_ptr<listening_detail::receiver> receiver_on(T& connection) = 0;

private:
    void keep(lease<T> taken, std::unique_ptr<listening_detail::receiver> hears) noexcept {
        lease_ = std::move(taken);
        if (closes_) lease_.discard_at_end();
        receiver_ = std::move(hears);
    }

    pool<T>& from_;
    std::source_location at_;
    bool closes_;
    lease<T> lease_;
    std::unique_ptr<listening_detail::receiver> receiver_;
};

}  // namespace cenote::listening_detail
