// What is sent after a reset, in front of the next request: what on_open has run, and the setup of
// the lease with its role and settings (docs/decisions/0040 and 0044).
#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "connector/postgres_session.hpp"

namespace cenote::postgres::detail {

namespace {

void must(bool holds, const std::string& what) {
    if (!holds) throw std::invalid_argument("cenote: PostgreSQL: " + what);
}

void check_setting_of_lease(const std::string& lower, const std::string& value) {
    check_syntax_of_setting(lower, value);
    must(lower != "role" && lower != "session_authorization",
         "the role of a lease is not one of its settings");
    must(lower != "client_encoding" && lower != "standard_conforming_strings",
         lower + " cannot be changed for one lease");
    must(!lower.starts_with("transaction_"),
         lower + " ends with its transaction: set default_" + lower + " instead");
}

/// Whether texts are parsed and planned as before. Others may change the meaning of a text.
bool keeps_parsing(const std::string& lower) {
    constexpr std::array<std::string_view, 6> keeping{
        "application_name",  "idle_in_transaction_session_timeout",
        "lock_timeout",      "log_min_duration_statement",
        "statement_timeout", "work_mem"};
    return lower.find('.') != lower.npos || std::ranges::find(keeping, lower) != keeping.end();
}

/// In the server's milliseconds. 0 is no limit to the server.
std::string milliseconds_of(std::chrono::nanoseconds time) {
    using std::chrono::milliseconds;
    constexpr milliseconds most{2'147'483'647};
    must(time.count() > 0, "statement_timeout must be positive");
    if (time > most) return "0";
    return std::to_string(std::chrono::ceil<milliseconds>(time).count());
}

constexpr const char* needs_direct = "cenote.needs_a_direct_connection";

constexpr const char* refusal =
    "the statement was not run: a role or settings of a lease need a direct connection to the "
    "server, because a pooler would give the session to other clients, too";

[[noreturn]] void refuse_pooler() {
    failure f;
    f.kind = error_kind::statement;
    f.text = refusal;
    f.raise();
}

}  // namespace

bool session::send(const char* text, const libpq_parameters& with) noexcept {
    return PQsendQueryParams(handle(), text, with.count(), with.types(), with.values(),
                             with.lengths(), with.formats(), 0) != 0;
}

// What on_open has run.

void session::note_opened(std::string_view text, std::span<const sql::parameter> parameters,
                          const PGresult* reply) {
    constexpr std::array<std::string_view, 8> in_transactions{
        "BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "PREPARE", "LISTEN"};
    if (PQresultStatus(reply) == PGRES_EMPTY_QUERY) return;
    const std::string_view tag = PQcmdStatus(const_cast<PGresult*>(reply));
    const std::string_view first = tag.substr(0, tag.find(' '));
    if (std::ranges::find(in_transactions, first) != in_transactions.end())
        connector_detail::refuse_in_on_open("a reset cannot repeat " + std::string(tag));
    opened_.add(text, parameters);
}

/// In a transaction of its own, as the setup of a lease.
std::size_t session::send_on_open() {
    const libpq_parameters none;
    bool sent = send(begin_own, none);
    for (const sql::bound_statement& each : opened_.statements())
        sent = sent && send(each.text().c_str(), libpq_parameters(each.parameters()));
    sent = sent && send("commit", none);
    return sent ? opened_.statements().size() + 2 : 0;
}

bool session::starts_read_only() const {
    const char* value = PQparameterStatus(handle(), "default_transaction_read_only");
    return value != nullptr && std::string_view(value) == "on";
}

void session::note_on_open_begins(instant until) {
    opened_read_only_ = !starts_read_only();
    opened_.begin(until);
}

void session::note_on_open_ended() {
    opened_read_only_ = opened_read_only_ && starts_read_only();
    note_parse_settings();
    opened_.end();
}

// The setup of a lease.

void session::use(std::shared_ptr<const sql::lease_setup> setup) {
    opened_.refuse("the setup of a lease");
    if (setup_ != nullptr) throw std::logic_error("cenote: a lease can be set up only once");
    bool changes_parsing = false;
    for (const auto& [name, value] : setup->settings) {
        std::string lower = in_lower_case(name);
        check_setting_of_lease(lower, value);
        changes_parsing = changes_parsing || !keeps_parsing(lower);
    }
    must(setup->role.find('\0') == std::string::npos, "a role must not have a zero byte");
    must(setup->role != "none", "\"none\" is not the name of a role");
    if (setup->statement_timeout) {
        static_cast<void>(milliseconds_of(*setup->statement_timeout));
        // The server's error must come before this side gives up the connection.
        constexpr std::chrono::seconds margin{1};
        constexpr auto most = std::chrono::nanoseconds::max();
        auto limit = *setup->statement_timeout;
        set_timeout(std::max(timeout_, limit > most - margin ? most : limit + margin));
    }
    setup_changes_parsing_ = changes_parsing;
    setup_done_ = false;
    setup_ = std::move(setup);
}

void session::check_setup() const {
    if (in_transaction())
        throw std::logic_error("cenote: a lease cannot be set up in a transaction");
    if (direct_ && !*direct_) refuse_pooler();
}

/// In a transaction of its own: the end of the borrower's transaction must not undo it, and the
/// server refuses some statements in a transaction. Its level is named because the session's
/// default may be one that waits. The role comes last: it may not be allowed to set the others.
std::size_t session::send_setup() {
    std::string texts = "select ";
    std::vector<std::string> made;
    std::vector<const char*> values;
    made.reserve(2);
    auto set = [&](const char* name, const char* value) {
        if (!values.empty()) texts += ", ";
        values.insert(values.end(), {name, value});
        texts += "pg_catalog.set_config($" + std::to_string(values.size() - 1) + ", $" +
                 std::to_string(values.size()) + ", false)";
    };
    // Resets with the next request were tried: only a direct connection passes.
    if (mode_ != reset_mode::with_next && !direct_) {
        made.push_back(std::to_string(PQbackendPID(handle())));
        values.push_back(made.back().c_str());
        texts +=
            "case when pg_catalog.pg_backend_pid()::pg_catalog.text operator(pg_catalog.=) $1 "
            "then '' else "
            "pg_catalog.current_setting('cenote.needs_a_direct_connection') end";
    }
    for (const auto& [name, value] : setup_->settings) set(name.c_str(), value.c_str());
    if (setup_->statement_timeout) {
        made.push_back(milliseconds_of(*setup_->statement_timeout));
        set("statement_timeout", made.back().c_str());
    }
    if (!setup_->role.empty()) set("role", setup_->role.c_str());
    const libpq_parameters none;
    auto send_settings = [&] {
        return PQsendQueryParams(handle(), texts.c_str(), static_cast<int>(values.size()), nullptr,
                                 values.data(), nullptr, nullptr, 0) != 0;
    };
    // In the modes that trust the borrower's statements, too.
    if (mode_ == reset_mode::with_next) used_ = true;
    else condition_.note_changed();
    bool sent = send(begin_own, none) && send_settings() && send("commit", none);
    return sent ? 3 : 0;
}

void session::note_setup_done() noexcept {
    setup_done_ = true;
    direct_ = true;
    if (setup_changes_parsing_) note_own_settings();
}

failure session::meaning_of_setup_failure(failure f) {
    f.unrun = true;
    f.stale = false;
    f.in_function = false;
    if (f.text.find(needs_direct) != f.text.npos) {
        direct_ = false;
        kept_.turn_off();
        f.text = refusal;
    } else {
        f.text =
            "the statement was not run, because the role or the settings of its lease could "
            "not be set: " +
            f.text;
    }
    return f;
}

}  // namespace cenote::postgres::detail
