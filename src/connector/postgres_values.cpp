// Parameters and results between C++ and libpq: as text, except for bytes, which may contain zeros.
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "connector/postgres_session.hpp"

namespace cenote::postgres::detail {

namespace {

// From pg_type.
constexpr Oid oid_bool = 16;
constexpr Oid oid_bytea = 17;
constexpr Oid oid_oid = 26;
constexpr Oid oid_float4 = 700;
constexpr Oid oid_float8 = 701;

constexpr int as_text = 0;
constexpr int as_bytes = 1;

template <class Number>
Number number_of(std::string_view text) {
    Number n{};
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc{} || end != text.data() + text.size())
        throw sql::bad_value("cenote: PostgreSQL sent a malformed number");
    return n;
}

double double_of(std::string_view text) {
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
    if (text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
    return number_of<double>(text);
}

int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

/// `\x00ff`, or the format before 9.0, if the session has chosen it (bytea_output).
sql::bytes bytes_of(std::string_view text) {
    sql::bytes got;
    if (!text.starts_with("\\x")) {
        std::size_t size = 0;
        std::string copy(text);
        std::unique_ptr<unsigned char, decltype(&PQfreemem)> plain(
            PQunescapeBytea(reinterpret_cast<const unsigned char*>(copy.c_str()), &size),
            &PQfreemem);
        if (plain == nullptr) throw std::bad_alloc();
        auto all = std::as_bytes(std::span(plain.get(), size));
        got.assign(all.begin(), all.end());
        return got;
    }
    text.remove_prefix(2);
    got.reserve(text.size() / 2);
    for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
        int high = digit_of(text[i]);
        int low = digit_of(text[i + 1]);
        if (high < 0 || low < 0) throw sql::bad_value("cenote: PostgreSQL sent malformed bytes");
        got.push_back(static_cast<std::byte>(high * 16 + low));
    }
    return got;
}

sql::value::data value_of(Oid type, std::string_view text) {
    switch (type) {
        case oid_bool: return text == "t";
        case oid_int2:
        case oid_int4:
        case oid_int8:
        case oid_oid: return number_of<std::int64_t>(text);
        case oid_float4:
        case oid_float8: return double_of(text);
        case oid_bytea: return bytes_of(text);
        default: return std::string(text);
    }
}

/// The shortest text that is read as the same number.
std::string text_of(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d > 0 ? "Infinity" : "-Infinity";
    std::array<char, 32> digits{};
    auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), d);
    return {digits.data(), end};
}

}  // namespace

void refuse_zero_bytes(std::string_view text, const char* what) {
    if (text.find('\0') != text.npos)
        throw std::invalid_argument(
            std::string("cenote: a ") + what +
            " has a zero byte, which PostgreSQL does not accept in text; bind "
            "bytes instead");
}

/// Lays texts one behind the other, each with its zero. Until the last one is there, lengths_ holds
/// the offset of each text: the buffer may still move.
struct libpq_parameters::adder {
    libpq_parameters* to;

    void operator()(std::monostate) const { add(nullptr, 0, as_text, 0); }
    void operator()(bool b) const { add_text(b ? "t" : "f"); }
    void operator()(std::int64_t i) const { add_text(std::to_string(i)); }
    void operator()(double d) const { add_text(text_of(d)); }
    void operator()(std::string_view text) const {
        refuse_zero_bytes(text, "parameter");
        add_text(text);
    }
    void operator()(std::span<const std::byte> octets) const {
        if (octets.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
            throw std::invalid_argument("cenote: a parameter is larger than 2 GiB");
        const void* first = octets.empty() ? "" : static_cast<const void*>(octets.data());
        add(static_cast<const char*>(first), static_cast<int>(octets.size()), as_bytes, oid_bytea);
    }

private:
    void add(const char* value, int length, int format, Oid type) const {
        to->values_.push_back(value);
        to->lengths_.push_back(length);
        to->formats_.push_back(format);
        to->types_.push_back(type);
    }
    void add_text(std::string_view text) const {
        add("", static_cast<int>(to->texts_.size()), as_text, 0);
        to->texts_.append(text).push_back('\0');
        if (to->texts_.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
            throw std::invalid_argument("cenote: the parameters are larger than 2 GiB");
    }
};

void libpq_parameters::assign(std::span<const sql::parameter> from) {
    constexpr std::size_t max_parameters = 65535;
    if (from.size() > max_parameters)
        throw std::invalid_argument("cenote: PostgreSQL takes at most 65535 parameters");
    texts_.clear();
    types_.clear();
    values_.clear();
    lengths_.clear();
    formats_.clear();
    for (const sql::parameter& p : from) std::visit(adder{this}, p.get());
    size_ = texts_.size();
    for (std::size_t i = 0; i < values_.size(); ++i) {
        if (formats_[i] == as_bytes) size_ += static_cast<std::size_t>(lengths_[i]);
        if (values_[i] == nullptr || formats_[i] == as_bytes) continue;
        values_[i] = texts_.data() + lengths_[i];
        lengths_[i] = 0;  // unused for text
    }
}

std::shared_ptr<const sql::column_names> columns_of(const PGresult* r) {
    auto names = std::make_shared<sql::column_names>();
    int count = PQnfields(r);
    names->reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) names->emplace_back(PQfname(r, i));
    return names;
}

std::vector<sql::value> row_of(const PGresult* r, int row) {
    std::vector<sql::value> values;
    int count = PQnfields(r);
    values.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
        if (PQgetisnull(r, row, i) != 0) {
            values.emplace_back();
            continue;
        }
        auto size = static_cast<std::size_t>(PQgetlength(r, row, i));
        values.emplace_back(value_of(PQftype(r, i), {PQgetvalue(r, row, i), size}));
    }
    return values;
}

void refuse_length(session& from) {
    from.condition().note_broken();
    throw connection_error(error_kind::connection,
                           "cenote: PostgreSQL: the reply is longer than max_reply_bytes");
}

conversion::conversion(session& from, const PGresult* reply)
    : from_(from), reply_(reply), result_(columns_of(reply)) {}

need conversion::step() {
    const int rows = PQntuples(reply_);
    const int columns = PQnfields(reply_);
    const std::size_t fixed =
        sizeof(sql::row) + static_cast<std::size_t>(columns) * sizeof(sql::value);
    for (std::size_t done = 0; next_ < rows; ++next_) {
        if (done > connector_detail::max_bytes_per_step) return need::a_turn;
        std::size_t memory = fixed;
        for (int i = 0; i < columns; ++i)
            memory += static_cast<std::size_t>(PQgetlength(reply_, next_, i));
        done += memory;
        memory_ += memory;
        if (memory_ > from_.settings().max_reply_bytes) refuse_length(from_);
        result_.add(row_of(reply_, next_));
    }
    return need::nothing;
}

sql::result conversion::take() {
    auto* reply = const_cast<PGresult*>(reply_);
    std::string_view tag = PQcmdStatus(reply);
    std::string_view count = PQcmdTuples(reply);
    if (!count.empty() && !tag.starts_with("SELECT"))
        result_.note_affected(number_of<std::uint64_t>(count));
    return std::move(result_);
}

}  // namespace cenote::postgres::detail
