// One link for everything that a scope asks, and how far its transaction has got.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cenote/database.hpp"
#include "database/places.hpp"
#include "database/store.hpp"

namespace cenote::database_detail {

/// Takes a link when it is first asked for something. Scopes, their transactions and their cursors
/// share one, and the link goes back with the last of them.
///
/// Transactions have levels: 1 is the connection's, those above are savepoints. Each ends by
/// commit() or rollback(), which say so to the server, or by abandon(), which does not: then the
/// server hears of it before whatever comes next, or as the link is reset.
class held final : public asked, public std::enable_shared_from_this<held> {
public:
    /// What it is for: a statement or transaction on its own; whatever a session can do; or the
    /// same for a user who relies on nothing in the session, so that a lost link can be replaced.
    enum class use : std::uint8_t { statements, session, any_session };

    /// `by`: the user of the link, whichever statement takes it.
    held(std::shared_ptr<store> from, use how, const caller& by) noexcept
        : from_(std::move(from)), use_(how), by_(by) {}
    /// Of one that only reads, wherever that is done best.
    held(std::shared_ptr<places> among, use how, const caller& by) noexcept
        : from_(among->primary()), readers_(std::move(among)), use_(how), by_(by) {}
    ~held() override { let_go(); }

    sql::result execute(std::string_view text, std::span<const sql::parameter> values,
                        const caller& by) override;
    asio::awaitable<sql::result> async_execute(sql::bound_statement what, caller by) override;
    sql::cursor stream(std::string_view text, std::span<const sql::parameter> values,
                       const caller& by) override;
    asio::awaitable<sql::cursor> async_stream(sql::bound_statement what, caller by) override;

    bool has_link() const noexcept { return static_cast<bool>(link_); }
    void discard_at_end() noexcept { discards_ = true; }

    transaction begin(const transaction_options& how);
    static asio::awaitable<transaction> async_begin(std::shared_ptr<held> on,
                                                    transaction_options how);
    /// One level up from this one.
    transaction begin_in(transaction_id outer);
    static asio::awaitable<transaction> async_begin_in(std::shared_ptr<held> on,
                                                       transaction_id outer);
    void commit(transaction_id which);
    static asio::awaitable<void> async_commit(std::shared_ptr<held> on, transaction_id which);
    void rollback(transaction_id which);
    static asio::awaitable<void> async_rollback(std::shared_ptr<held> on, transaction_id which);
    void abandon(transaction_id which) noexcept;
    /// Throws std::logic_error if it is not the innermost one that is open: what is asked of
    /// another would become part of the wrong one.
    void check_innermost(transaction_id which) const;

    /// Rows are being read, and have come to their end.
    void note_rows() noexcept { ++open_rows_; }
    void note_rows_ended(bool well) noexcept;
    /// A statement has failed, and the link is still good.
    void note_failed() noexcept;

    /// The link is lost. Throws `e`, or what that means for the transaction.
    [[noreturn]] void lose(const connection_error& e, bool committing = false);

private:
    using words = std::vector<std::string>;

    /// Who has ended a transaction that its user has not.
    enum class ended_by : std::uint8_t { nobody, loss, error, statement };

    static asio::awaitable<sql::result> async_run(std::shared_ptr<held> on,
                                                  sql::bound_statement what);
    static asio::awaitable<sql::cursor> async_begin_rows(std::shared_ptr<held> on,
                                                         sql::bound_statement what);

    sql::connection& link() const noexcept { return (*link_)->connection(); }
    void let_go() noexcept;
    void look_at_link();

    bool is_for_reading() const noexcept { return readers_ != nullptr; }
    void take();
    static asio::awaitable<void> async_take(std::shared_ptr<held> on);
    /// Whatever is asked in it.
    bool session_only_reads() const noexcept { return is_for_reading() && is_session(); }
    bool is_session() const noexcept { return use_ != use::statements; }
    /// The link is gone, and the session with it.
    void note_loss() noexcept;
    void go_elsewhere(int& tries_left);
    /// The link is there, and what is due has been said.
    sql::connection& ready();
    static asio::awaitable<void> async_ready(std::shared_ptr<held> on);
    void check_state() const;
    void refuse_open_rows() const;
    words due() const;

    void say(const words& all);
    static asio::awaitable<void> async_say(std::shared_ptr<held> on, words all);

    void note_done() noexcept;
    bool transaction_is_gone() const noexcept;
    void be_sure();
    static asio::awaitable<void> async_be_sure(std::shared_ptr<held> on);
    bool is_over() const noexcept;

    std::size_t level() const noexcept { return open_.size(); }
    void check_begin() const;
    void check_plain() const;
    /// What a commit comes down to. Throws if it cannot be.
    words to_commit() const;
    words to_undo(std::size_t from) const;
    words to_begin(const transaction_options& how);
    transaction note_first_begun();
    transaction note_begun();
    void note_committed() noexcept;
    /// There is no transaction, and nothing is due.
    void note_none() noexcept;

    std::shared_ptr<store> from_;  // where the link is from; without one, the primary will do
    std::shared_ptr<places> readers_;
    use use_;
    caller by_;
    borrowed link_;
    bool discards_ = false;
    bool session_lost_ = false;  // for good
    int open_rows_ = 0;          // cursors that have not come to their end

    std::vector<transaction_id> open_;  // transactions, each within the one before it
    transaction_id last_ = 0;
    transaction_options how_;
    ended_by ended_ = ended_by::nobody;
    bool doubtful_ = false;    // a statement has failed, and perhaps that was the end
    std::size_t due_ = 0;      // the lowest level that was abandoned, until it is undone; 0: none
    bool half_begun_ = false;  // not all was said that begins one, or it is not known
};

}  // namespace cenote::database_detail
