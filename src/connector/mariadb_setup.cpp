// What a session of MariaDB is set up with after a reset: what on_open has run, and the role and
// the settings of a lease (docs/decisions/0040 and 0044).
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <variant>

#include "connector/mariadb_session.hpp"

namespace cenote::mariadb::detail {

// Texts.

std::string as_bytes(std::string_view text) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string literal = "x'";
    for (char c : text) {
        auto byte = static_cast<unsigned char>(c);
        literal += digits[byte / 16];
        literal += digits[byte % 16];
    }
    return literal + "'";
}

std::string quoted(std::string_view name) {
    std::string text = "`";
    for (char c : name) text.append(c == '`' ? 2 : 1, c);
    return text + "`";
}

namespace {

bool is_number(std::string_view text) {
    if (text.starts_with('-')) text.remove_prefix(1);
    const bool digits = text.find_first_not_of("0123456789.") == text.npos;
    return digits && !text.empty() && text.front() != '.' && text.back() != '.' &&
           std::ranges::count(text, '.') <= 1;
}

/// A text in bytes means the same in every mode, unlike one in quotes.
std::string text_literal(std::string_view text, const std::string& charset) {
    return "CONVERT(" + as_bytes(text) + " USING " + charset + ")";
}

}  // namespace

std::string literal_of(const std::string& name, const std::string& value) {
    const bool number = !name.starts_with('@') && is_number(value);
    return number ? value : text_literal(value, "utf8mb4");
}

// What on_open has run.

namespace {

struct literal {
    const std::string& charset;

    std::string operator()(std::monostate) const { return "NULL"; }
    std::string operator()(bool b) const { return b ? "1" : "0"; }
    std::string operator()(std::int64_t i) const { return std::to_string(i); }
    std::string operator()(double d) const {
        if (!std::isfinite(d))
            connector_detail::refuse_in_on_open("MariaDB has no such floating point value");
        std::array<char, 32> digits{};
        auto end = std::to_chars(digits.data(), digits.data() + digits.size(), d,
                                 std::chars_format::scientific);
        return {digits.data(), end.ptr};
    }
    std::string operator()(std::string_view text) const { return text_literal(text, charset); }
    std::string operator()(std::span<const std::byte> octets) const {
        return as_bytes({reinterpret_cast<const char*>(octets.data()), octets.size()});
    }
    std::string operator()(const sql::detail::array_view&) const { return "NULL"; }  // refused
    std::string operator()(sql::detail::sys_microseconds instant) const {
        return (*this)(sql::detail::local_microseconds(instant.time_since_epoch()));
    }
    std::string operator()(const auto& date_or_id) const {
        sql::detail::text_buffer buffer{};
        return text_literal(sql::detail::text_of(date_or_id, buffer), charset);
    }
};

}  // namespace

void session::check_opened(std::string_view text) const {
    if (opened_.is_open() && mentions(text, "session_track"))
        connector_detail::refuse_in_on_open(
            "the connector relies on session tracking, which must stay as it is");
}

void session::note_opened(std::string_view text, std::span<const sql::parameter> parameters,
                          rows_of_statement rows) {
    const bool automatic = (handle_->server_status & SERVER_STATUS_AUTOCOMMIT) != 0;
    if (in_transaction() || !automatic)
        connector_detail::refuse_in_on_open(
            "a statement leaves a transaction open, or turns autocommit off");
    const bool only_reads = rows == rows_of_statement::some && !changed_by_latest_;
    if (rows != rows_of_statement::none && !only_reads)
        connector_detail::refuse_in_on_open(
            "a reset cannot repeat a statement that returns rows; use SET or DO to change the "
            "session");
    if (only_reads) return;
    opened_.add(text, parameters);
    repeated_.push_back(repetition_of(text, parameters));
    reset_packets_ += query_packet(repeated_.back());
}

/// Without values it is the text itself.
std::string session::repetition_of(std::string_view text,
                                   std::span<const sql::parameter> parameters) const {
    if (parameters.empty()) return std::string(text);
    constexpr unsigned long first_with_immediate = 100'203;
    if (mariadb_connection(handle_) == 0 ||
        mysql_get_server_version(handle_) < first_with_immediate)
        connector_detail::refuse_in_on_open(
            "this server cannot repeat a statement with values: write them into its text");
    const std::string& charset = settings_->charset;
    std::string all = "EXECUTE IMMEDIATE " + text_literal(text, charset) + " USING ";
    for (const sql::parameter& each : parameters) {
        if (&each != parameters.data()) all += ", ";
        all += std::visit(literal{charset}, each.get());
    }
    return all;
}

// The setup of a lease.

/// The role comes last: it may not be allowed to make the other settings.
void session::use(std::shared_ptr<const sql::lease_setup> setup) {
    opened_.refuse("the setup of a lease");
    if (!setup_.empty()) throw std::logic_error("cenote: a lease can be set up only once");
    std::string text;
    auto add = [&text](const std::string& part) { text += (text.empty() ? "SET " : ", ") + part; };
    for (const auto& [name, value] : setup->settings) {
        validate_setting(name, value);
        add((name.starts_with('@') ? "" : "SESSION ") + name + " = " + literal_of(name, value));
    }
    if (auto limit = setup->statement_timeout) {
        if (limit->count() <= 0)
            throw std::invalid_argument("cenote: statement_timeout must be positive");
        constexpr std::chrono::nanoseconds most = std::chrono::hours(24 * 365);  // the server's
        const auto us =
            std::chrono::ceil<std::chrono::microseconds>(std::min(*limit, most)).count();
        std::string fraction = std::to_string(us % 1'000'000);
        fraction.insert(0, 6 - fraction.size(), '0');
        add("SESSION max_statement_time = " + std::to_string(us / 1'000'000) + "." + fraction);
        // The server's error must come before this side gives up the connection.
        set_timeout(std::max(timeout_, std::min(*limit, most) + std::chrono::seconds(1)));
    }
    if (!setup->role.empty()) {
        constexpr std::string_view none = "none";
        if (setup->role.find('\0') != std::string::npos ||
            (setup->role.size() == none.size() && mentions(setup->role, none)))
            throw std::invalid_argument("cenote: MariaDB: this is not the name of a role");
        add("ROLE " + quoted(setup->role));
    }
    setup_ = std::move(text);
}

/// The pending reset, and what goes with it.
void session::begin_preface() {
    preface_has_setup_ = setup_goes_ahead();
    const std::size_t of_reset =
        reset_pending_ ? 1 + basic_setup_.statements.size() + repeated_.size() : 0;
    if (!preface_has_setup_) return reads_.ahead().begin(reset_packets_, of_reset);
    preface_ = reset_pending_ ? reset_packets_ : "";
    preface_ += query_packet(setup_);
    reads_.ahead().begin(preface_, of_reset + 1, true);
}

}  // namespace cenote::mariadb::detail
