// A lambda that g++ 12 would destroy twice.
#include <memory>
#include <utility>

#include <cenote/database.hpp>

boost::asio::awaitable<void> misuse(cenote::database& db) {
    auto token = std::make_unique<int>(1);
#if CENOTE_MISTAKE == 1  // expect gcc within 9: destroys the captures of such a lambda twice
    co_await db.async_transaction(
        [token = std::move(token)](cenote::transaction&) -> boost::asio::awaitable<void> {
            static_cast<void>(token);
            co_return;
        });
#else
    auto work = [&token](cenote::transaction&) -> boost::asio::awaitable<void> {
        static_cast<void>(token);
        co_return;
    };
    co_await db.async_transaction(work);
#endif
}
