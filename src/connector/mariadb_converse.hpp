// Exchanges of MariaDB connections that several operations share.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "connector/exchange.hpp"
#include "connector/mariadb_session.hpp"

namespace cenote::mariadb::detail {

using connector_detail::result_in;

/// One exchange. The connection survives an error of the statement; if the coroutine ends early,
/// the exchange breaks the connection.
template <class Mode>
result_in<Mode, void> converse(session* on, connector_detail::steps* what, instant deadline) {
    connector_detail::exchange guard(on->condition());
    try {
        co_await Mode::drive(*what, deadline);
    } catch (const statement_error&) {
        guard.complete();
        throw;
    }
    guard.complete();
}

/// Runs a text of the connector itself.
template <class Mode>
result_in<Mode, std::string> ask(session* on, std::string_view text) {
    querying one(*on, text);
    co_await converse<Mode>(on, &one, on->deadline());
    co_return one.value();
}

// Resets that cannot go with the next statement.

template <class Mode>
result_in<Mode, void> reset_if_pending(session* on) {
    if (!on->reset_pending()) co_return;
    setting_up again(*on, setting_up::start::pending_reset);
    co_await converse<Mode>(on, &again, on->deadline());
}

/// Before a text that uses FOUND_ROWS(), which a reset leaves as it was, and before a borrower gets
/// the handle.
template <class Mode>
result_in<Mode, void> clear_found_rows(session* on) {
    co_await reset_if_pending<Mode>(on);
    co_await ask<Mode>(on, "SELECT 1");  // every SELECT sets FOUND_ROWS()
    on->note_found_rows_cleared();
}

/// The setup of the lease, in a round trip of its own. A statement follows only if it succeeds.
template <class Mode>
result_in<Mode, void> set_up_if_pending(session* on) {
    if (!on->setup_pending()) co_return;
    co_await reset_if_pending<Mode>(on);
    on->note_setup_sent();
    querying set(*on, on->setup());
    try {
        co_await converse<Mode>(on, &set, on->deadline());
    } catch (const statement_error& e) {
        throw statement_error(
            std::string("cenote: MariaDB: the statement was not run, because the role or the "
                        "settings of its lease could not be set: ") +
                e.what(),
            e.sqlstate(), e.code());
    }
    on->note_setup_done();
}

/// The setup of the lease before a statement that will be prepared, which takes it along if it can.
template <class Mode>
result_in<Mode, void> set_up_with(session* on, std::string_view text) {
    if (on->setup_goes_ahead() && !on->must_clear_found_rows(text)) on->note_setup_sent();
    else co_await set_up_if_pending<Mode>(on);
}

/// Several statements that take effect together: a transaction, or a savepoint in the open one. If
/// it is neither committed nor undone, the connection is broken.
template <class Mode>
class together {
public:
    explicit together(session& on) : on_(on), within_(on.in_transaction()) {}
    ~together() {
        if (open_) on_.condition().note_broken();
    }
    together(const together&) = delete;
    together& operator=(const together&) = delete;

    result_in<Mode, void> begin() {
        co_await ask<Mode>(&on_, within_ ? "SAVEPOINT cenote_many" : "START TRANSACTION");
        open_ = true;
    }
    result_in<Mode, void> commit() {
        open_ = false;
        co_await ask<Mode>(&on_, within_ ? "RELEASE SAVEPOINT cenote_many" : "COMMIT");
    }
    /// An error of the server may have ended the transaction, and the savepoint with it.
    result_in<Mode, void> undo() {
        try {
            co_await ask<Mode>(&on_, within_ ? "ROLLBACK TO cenote_many" : "ROLLBACK");
            open_ = false;
        } catch (const statement_error&) {
            open_ = false;
        }
    }

private:
    session& on_;
    bool within_;
    bool open_ = false;
};

}  // namespace cenote::mariadb::detail
