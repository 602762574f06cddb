// Statements that are on their own: each takes a link, runs, and gives it back.
#include "database/store.hpp"

#include <utility>

#include "cenote/asio.hpp"
#include "database/held.hpp"

namespace cenote::database_detail {

namespace {

/// The server's verbs, for links that the pool knows by pointer.
struct linker {
    using pointer = std::unique_ptr<link>;

    std::shared_ptr<server> to;

    pointer open() const { return to->open(); }
    bool probe(pointer& l) const { return to->probe(*l); }
    void reset(pointer& l) const { to->reset(*l); }
    void close(pointer& l) const { to->close(*l); }
    bool before_acquire(pointer& l) const noexcept { return to->before_acquire(*l); }
    verdict before_release(pointer& l) const noexcept { return to->before_release(*l); }
    verdict classify(const std::exception_ptr& error) const { return verdict_of(error); }
    void forsake(pointer& l) const noexcept { to->forsake(*l); }
};

asio::awaitable<sql::result> async_run(std::shared_ptr<store> in, sql::bound_statement what,
                                       caller by) {
    sql::bound_statement said = in->translated(std::move(what));
    for (int left = tries_if_not_run;;) {
        try {
            borrowed l = co_await in->async_acquire(by);
            sql::bound_statement once(said.text(), said.parameters());
            co_return co_await (*l)->connection().async_execute_bound(std::move(once));
        } catch (const statement_not_run&) {
            if (--left == 0) throw;
        }
    }
}

}  // namespace

store::store(std::shared_ptr<server> at, const options& of_pool)
    : server_(std::move(at)),
      acquire_timeout_(of_pool.acquire_timeout),
      pool_(linker{server_}, server_->suited(of_pool)) {}

asio::awaitable<borrowed> store::async_acquire(const caller& by) {
    return pool_.async_acquire(by.how, asio::use_awaitable, by.at);
}

bool store::has_links() const {
    cenote::stats now = pool_.stats();
    return now.leased + now.idle + now.probing + now.resetting > 0;
}

sql::bound_statement store::translated(sql::bound_statement what) const {
    placeholders said(server_->speaks(), what.text(), what.parameters());
    return sql::bound_statement(said.text(), said.values());
}

sql::result store::execute(std::string_view text, std::span<const sql::parameter> values,
                           const caller& by) {
    placeholders said(server_->speaks(), text, values);
    for (int left = tries_if_not_run;;) {
        try {
            borrowed l = acquire(by);
            return (*l)->connection().execute_bound(said.text(), said.values());
        } catch (const statement_not_run&) {
            if (--left == 0) throw;
        }
    }
}

asio::awaitable<sql::result> store::async_execute(sql::bound_statement what, caller by) {
    return async_run(shared_from_this(), std::move(what), by);
}

sql::cursor store::stream(std::string_view text, std::span<const sql::parameter> values,
                          const caller& by) {
    return std::make_shared<held>(shared_from_this(), held::use::statements, by)
        ->stream(text, values, by);
}

asio::awaitable<sql::cursor> store::async_stream(sql::bound_statement what, caller by) {
    return std::make_shared<held>(shared_from_this(), held::use::statements, by)
        ->async_stream(std::move(what), by);
}

}  // namespace cenote::database_detail
