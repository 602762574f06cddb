// Many requests to PostgreSQL in one flight, with libpq's pipeline mode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cenote/sql_many.hpp"
#include "connector/postgres_session.hpp"

namespace cenote::postgres::detail {

/// Requests that are sent until the server reads no more, while their replies are read: otherwise
/// both sides would wait for each other. One Sync at the end makes them all or nothing; in an open
/// transaction they are so in any case. With a Sync after each of them, each takes effect by
/// itself.
///
/// step() also ends after each chunk of replies: drive until ended(), each time with a new
/// deadline.
class flight : public exchanging {
public:
    need step() final;
    using exchanging::ended;

protected:
    /// `drops_replies`: they do not count towards max_reply_bytes together.
    flight(std::shared_ptr<session> with, const sql::many_options& how, bool drops_replies);
    ~flight() = default;

    /// Prepares the next request. False: there is none. What it throws is as an error of the
    /// server.
    virtual bool pull() = 0;
    /// Sends it. Returns its size, about; 0 if libpq fails.
    virtual std::size_t send() = 0;
    virtual void on_reply(result_ptr reply) = 0;

    /// Before the first request. `preamble`: how many requests without an index are sent directly
    /// afterwards.
    void begin_with(std::size_t preamble);
    bool is_atomic() const noexcept { return atomic_; }

private:
    void send_some();
    void send_sync();
    void refuse(std::exception_ptr why);
    void end_sending();
    bool awaits_reply() const noexcept {
        return resets() || answered_ < sent_ || syncs_answered_ < syncs_;
    }
    void read_some();
    void on_result(result_ptr r);
    std::optional<std::size_t> index_of_reply() noexcept;
    void note_failure(failure f);
    void end();

    bool atomic_;
    bool drops_replies_;
    std::size_t chunk_;
    std::size_t until_pause_;
    std::size_t preamble_ = 0;
    std::size_t sent_ = 0;
    std::size_t answered_ = 0;
    std::size_t syncs_ = 0;
    std::size_t syncs_answered_ = 0;
    bool fresh_ = true;
    bool flushing_ = false;
    bool yields_ = false;  // the rows were made slowly: a new time limit, and other handlers
    bool all_sent_ = false;
    bool sync_failed_ = false;  // its error has come, and a null will
    bool noted_ = false;        // changes of the session
    std::exception_ptr thrown_;
    std::optional<std::size_t> index_;
    std::vector<std::size_t> failed_;
};

/// One statement for many rows. Prepares it without a name.
class many_rows final : public flight {
public:
    /// Refers to the text and the rows.
    many_rows(std::shared_ptr<session> with, std::string_view text, sql::detail::value_source& rows,
              const sql::many_options& how);

    /// False: there are no rows, and nothing to do.
    bool begin();
    std::uint64_t affected() const noexcept { return affected_; }

private:
    bool pull() override;
    std::size_t send() override;
    void on_reply(result_ptr reply) override;

    std::string text_;
    sql::detail::value_source& rows_;
    std::vector<sql::parameter> values_;
    libpq_parameters next_;
    bool has_first_ = false;
    bool prepares_ = false;
    std::uint64_t affected_ = 0;
};

/// Different statements.
class statement_list final : public flight {
public:
    statement_list(std::shared_ptr<session> with, std::span<const sql::bound_statement> all,
                   const sql::many_options& how);

    void begin();
    const std::vector<result_ptr>& replies() const noexcept { return replies_; }

private:
    bool pull() override;
    std::size_t send() override;
    void on_reply(result_ptr reply) override { replies_.push_back(std::move(reply)); }

    std::span<const sql::bound_statement> left_;
    libpq_parameters next_;
    std::vector<result_ptr> replies_;
};

}  // namespace cenote::postgres::detail
