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
constexpr Oid oid_timestamptz = 1184;

using sql::column_type;

struct known_type {
    Oid type;
    Oid array;
    column_type is;
    const char* name;
    const char* array_name;
};

constexpr std::array<known_type, 26> known_types{{
    {oid_bool, 1000, column_type::boolean, "boolean", "boolean[]"},
    {oid_bytea, 1001, column_type::bytes, "bytea", "bytea[]"},
    {18, 1002, column_type::text, "\"char\"", "\"char\"[]"},
    {19, 1003, column_type::text, "name", "name[]"},
    {oid_int8, 1016, column_type::integer, "bigint", "bigint[]"},
    {oid_int2, 1005, column_type::integer, "smallint", "smallint[]"},
    {oid_int4, 1007, column_type::integer, "integer", "integer[]"},
    {25, 1009, column_type::text, "text", "text[]"},
    {oid_oid, 1028, column_type::integer, "oid", "oid[]"},
    {114, 199, column_type::other, "json", "json[]"},
    {oid_float4, 1021, column_type::real, "real", "real[]"},
    {oid_float8, 1022, column_type::real, "double precision", "double precision[]"},
    {705, 0, column_type::text, "unknown", ""},
    {790, 791, column_type::other, "money", "money[]"},
    {869, 1041, column_type::other, "inet", "inet[]"},
    {1042, 1014, column_type::text, "character", "character[]"},
    {1043, 1015, column_type::text, "character varying", "character varying[]"},
    {1082, 1182, column_type::date, "date", "date[]"},
    {1083, 1183, column_type::time, "time", "time[]"},
    {1114, 1115, column_type::timestamp, "timestamp", "timestamp[]"},
    {oid_timestamptz, 1185, column_type::timestamp_tz, "timestamptz", "timestamptz[]"},
    {1186, 1187, column_type::other, "interval", "interval[]"},
    {1266, 1270, column_type::other, "timetz", "timetz[]"},
    {1700, 1231, column_type::decimal, "numeric", "numeric[]"},
    {2950, 2951, column_type::uuid, "uuid", "uuid[]"},
    {3802, 3807, column_type::other, "jsonb", "jsonb[]"},
}};

void describe(Oid type, sql::column_info& column) {
    column.type = column_type::other;
    column.type_name = "a type of its own";
    for (const known_type& known : known_types) {
        if (type == known.type) {
            column.type = known.is;
            column.type_name = known.name;
            return;
        }
        if (known.array != 0 && type == known.array) {
            column.type = column_type::array;
            column.element = known.is;
            column.type_name = known.array_name;
            return;
        }
    }
}

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
void decode_bytes(std::string_view text, sql::bytes& to) {
    to.clear();
    if (!text.starts_with("\\x")) {
        std::size_t size = 0;
        std::string copy(text);
        std::unique_ptr<unsigned char, decltype(&PQfreemem)> plain(
            PQunescapeBytea(reinterpret_cast<const unsigned char*>(copy.c_str()), &size),
            &PQfreemem);
        if (plain == nullptr) throw std::bad_alloc();
        auto all = std::as_bytes(std::span(plain.get(), size));
        to.assign(all.begin(), all.end());
        return;
    }
    text.remove_prefix(2);
    to.reserve(text.size() / 2);
    for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
        int high = digit_of(text[i]);
        int low = digit_of(text[i + 1]);
        if (high < 0 || low < 0) throw sql::bad_value("cenote: PostgreSQL sent malformed bytes");
        to.push_back(static_cast<std::byte>(high * 16 + low));
    }
}

/// The shortest text that is read as the same number.
std::string text_of_number(double d) {
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
    void operator()(double d) const { add_text(text_of_number(d)); }
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
    /// Of a declared type: a column without a time zone would ignore the offset.
    void operator()(sql::detail::sys_microseconds time) const {
        (*this)(text_of(time));
        to->types_.back() = oid_timestamptz;
    }
    void operator()(const sql::detail::array_view& array) const {
        std::string text;
        array.write(text);
        (*this)(std::string_view(text));
    }
    void operator()(const auto& date_or_id) const { (*this)(text_of(date_or_id)); }

private:
    std::string_view text_of(const auto& of) const { return sql::detail::text_of(of, to->buffer_); }
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
    sql::detail::refuse_named(from);
    for (const sql::parameter& p : from) std::visit(adder{this}, p.get());
    size_ = texts_.size();
    for (std::size_t i = 0; i < values_.size(); ++i) {
        if (formats_[i] == as_bytes) size_ += static_cast<std::size_t>(lengths_[i]);
        if (values_[i] == nullptr || formats_[i] == as_bytes) continue;
        values_[i] = texts_.data() + lengths_[i];
        lengths_[i] = 0;  // unused for text
    }
}

cell_reader::cell_reader(const PGresult* reply) {
    const int count = PQnfields(reply);
    columns_.resize(static_cast<std::size_t>(count));
    cells_.resize(columns_.size());
    for (int i = 0; i < count; ++i) {
        sql::column_info& column = columns_[static_cast<std::size_t>(i)];
        column.name = PQfname(reply, i);
        describe(PQftype(reply, i), column);
        if (column.type == column_type::bytes) decoded_.resize(columns_.size());
    }
}

std::span<const sql::cell> cell_reader::row(const PGresult* reply, int row) {
    memory_ = 0;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        const int column = static_cast<int>(i);
        const auto size = static_cast<std::size_t>(PQgetlength(reply, row, column));
        memory_ += size;
        if (size == 0 && PQgetisnull(reply, row, column) != 0) {
            cells_[i] = sql::cell();
            continue;
        }
        cells_[i] = cell_of(i, {PQgetvalue(reply, row, column), size});
    }
    return cells_;
}

sql::cell cell_reader::cell_of(std::size_t column, std::string_view text) {
    switch (columns_[column].type) {
        case column_type::boolean: return sql::cell(text == "t");
        case column_type::integer: return sql::cell(number_of<std::int64_t>(text));
        case column_type::real: return sql::cell(double_of(text));
        case column_type::bytes:
            decode_bytes(text, decoded_[column]);
            return sql::cell(std::span<const std::byte>(decoded_[column]));
        case column_type::array: return sql::cell::array(text, columns_[column].element);
        default: return sql::cell(text);
    }
}

std::vector<sql::value> row_of(const PGresult* r, int row) {
    return connector_detail::values_of(cell_reader(r).row(r, row));
}

void refuse_length(session& from) {
    from.condition().note_broken();
    throw connection_error(error_kind::connection,
                           "cenote: PostgreSQL: the reply is longer than max_reply_bytes");
}

conversion::conversion(session& from, const PGresult* reply, sql::row_sink& to)
    : from_(from), reply_(reply), to_(to), reader_(reply) {
    to_.begin(reader_.columns(), static_cast<std::size_t>(PQntuples(reply)));
}

/// Counts for each row towards max_bytes_per_step.
constexpr std::size_t min_row_work = 256;

need conversion::step() {
    const int rows = PQntuples(reply_);
    const std::size_t fixed = to_.bytes_per_row(reader_.columns().size());
    for (std::size_t done = 0; next_ < rows; ++next_) {
        if (done > connector_detail::max_bytes_per_step) return need::a_turn;
        std::span<const sql::cell> cells = reader_.row(reply_, next_);
        done += min_row_work + reader_.memory();
        memory_ += fixed + reader_.memory();
        if (memory_ > from_.settings().max_reply_bytes) refuse_length(from_);
        to_.row(cells);
    }
    note_affected();
    return need::nothing;
}

void conversion::note_affected() {
    auto* reply = const_cast<PGresult*>(reply_);
    std::string_view tag = PQcmdStatus(reply);
    std::string_view count = PQcmdTuples(reply);
    if (!count.empty() && !tag.starts_with("SELECT"))
        to_.note_affected(number_of<std::uint64_t>(count), 0);
}

}  // namespace cenote::postgres::detail
