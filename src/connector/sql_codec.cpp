// Texts of dates, times, UUIDs and arrays, read and written.
#include "cenote/sql_codec.hpp"

#include <charconv>

#include "cenote/sql.hpp"

namespace cenote::sql {

namespace chrono = std::chrono;

namespace {

constexpr const char* not_iso =
    "a date or time: it must have the form of ISO 8601 (with PostgreSQL: DateStyle ISO), be "
    "finite, and be after the year 0";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int digit_of(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/// Reads a date or time from left to right. Throws bad_value for what does not fit.
class time_text {
public:
    explicit time_text(const cell& of) : of_(of), rest_(of.text()) {}

    /// A number of at least this many digits, and at most that many.
    unsigned number(std::size_t least, std::size_t most) {
        unsigned n = 0;
        std::size_t count = 0;
        for (; count < most && count < rest_.size() && is_digit(rest_[count]); ++count)
            n = n * 10 + static_cast<unsigned>(rest_[count] - '0');
        if (count < least) refuse();
        rest_.remove_prefix(count);
        return n;
    }
    bool take(char c) {
        if (rest_.empty() || rest_.front() != c) return false;
        rest_.remove_prefix(1);
        return true;
    }
    void expect(char c) {
        if (!take(c)) refuse();
    }
    void expect_end() const {
        if (!rest_.empty()) refuse();
    }
    [[noreturn]] void refuse() const { of_.refuse(not_iso); }

    chrono::sys_days day() {
        unsigned year = number(4, 5);
        expect('-');
        unsigned month = number(2, 2);
        expect('-');
        unsigned day = number(2, 2);
        chrono::year_month_day all{chrono::year(static_cast<int>(year)), chrono::month(month),
                                   chrono::day(day)};
        if (year == 0 || year > 32767 || !all.ok()) refuse();
        return all;
    }
    /// `most_hours`: digits of the hours.
    chrono::microseconds time(std::size_t most_hours) {
        unsigned hours = number(2, most_hours);
        expect(':');
        unsigned minutes = number(2, 2);
        unsigned seconds = 0;
        unsigned micros = 0;
        if (take(':')) {
            seconds = number(2, 2);
            if (take('.')) micros = fraction();
        }
        if (minutes > 59 || seconds > 60) refuse();
        return chrono::hours(hours) + chrono::minutes(minutes) + chrono::seconds(seconds) +
               chrono::microseconds(micros);
    }
    void separator() {
        if (!take(' ')) expect('T');
    }
    /// Empty if there is none.
    std::optional<chrono::seconds> offset() {
        if (rest_.empty()) return std::nullopt;
        if (take('Z')) return chrono::seconds(0);
        bool behind = take('-');
        if (!behind) expect('+');
        chrono::seconds all = chrono::hours(number(2, 2));
        if (take(':') || !rest_.empty()) all += chrono::minutes(number(2, 2));
        if (take(':')) all += chrono::seconds(number(2, 2));
        return behind ? -all : all;
    }

private:
    unsigned fraction() {
        std::size_t before = rest_.size();
        unsigned n = number(1, 6);
        for (std::size_t digits = before - rest_.size(); digits < 6; ++digits) n *= 10;
        return n;
    }

    const cell& of_;
    std::string_view rest_;
};

chrono::sys_days day_of(const cell& c, const moment& m) {
    chrono::year_month_day day{chrono::year(m.year), chrono::month(m.month), chrono::day(m.day)};
    if (m.year < 1 || !day.ok()) c.refuse(not_iso);
    return day;
}

chrono::microseconds time_of(const moment& m) {
    auto all = chrono::hours(m.hour) + chrono::minutes(m.minute) + chrono::seconds(m.second) +
               chrono::microseconds(m.microsecond);
    return m.negative ? -all : all;
}

const char* name_of(cell_kind kind) {
    constexpr std::array<const char*, 8> names{"null",           "bool", "integer", "integer",
                                               "floating point", "text", "bytes",   "date or time"};
    return names.at(static_cast<std::size_t>(kind));
}

}  // namespace

void cell::refuse(const char* as) const {
    // An integer above the range of std::int64_t is a text as an sql::value.
    detail::refuse_conversion(name_of(kind_), as);
}

namespace {

/// Writes numbers with leading zeros into a buffer that has room for them.
template <std::size_t Size>
class digit_writer {
public:
    explicit digit_writer(std::array<char, Size>& to) : to_(to) {}

    void put(char c) { to_.at(at_++) = c; }
    void put(std::string_view text) {
        for (char c : text) put(c);
    }
    /// At least this many digits.
    void put(std::uint64_t n, std::size_t digits) {
        std::array<char, 20> reversed{};
        std::size_t count = 0;
        for (; n > 0 || count < digits; n /= 10)
            reversed.at(count++) = static_cast<char>('0' + n % 10);
        while (count > 0) put(reversed.at(--count));
    }
    void put_day(int year, unsigned month, unsigned day) {
        put(static_cast<std::uint64_t>(year), 4);
        put('-');
        put(month, 2);
        put('-');
        put(day, 2);
    }
    void put_time(std::uint64_t hour, std::uint64_t minute, std::uint64_t second) {
        put(hour, 2);
        put(':');
        put(minute, 2);
        put(':');
        put(second, 2);
    }
    void put_fraction(std::uint64_t microseconds, std::size_t digits) {
        put('.');
        put(microseconds, 6);
        at_ -= 6 - digits;
    }
    std::string_view text() const { return {to_.data(), at_}; }

private:
    std::array<char, Size>& to_;
    std::size_t at_ = 0;
};

}  // namespace

std::string_view moment::text() const {
    digit_writer to(buffer);
    if (negative) to.put('-');
    if (is != column_type::time) to.put_day(year, month, day);
    if (is == column_type::date) return to.text();
    if (is != column_type::time) to.put(' ');
    to.put_time(hour, minute, second);
    if (digits >= 1 && digits <= 6) to.put_fraction(microsecond % 1'000'000, digits);
    return to.text();
}

// UUIDs.

uuid uuid::from_text(std::string_view text) {
    uuid made;
    std::size_t digits = 0;
    for (char c : text) {
        if (c == '-') continue;
        int digit = digit_of(c);
        if (digit < 0 || digits == 32)
            throw bad_value("cenote: a UUID must have 32 hexadecimal digits");
        std::byte& octet = made.octets[digits / 2];
        octet = (octet << 4U) | static_cast<std::byte>(digit);
        ++digits;
    }
    if (digits != 32) throw bad_value("cenote: a UUID must have 32 hexadecimal digits");
    return made;
}

std::string uuid::text() const {
    detail::text_buffer buffer{};
    return std::string(detail::text_of(*this, buffer));
}

namespace detail {

// From cells.

chrono::sys_days day_of(const cell& c) {
    if (c.kind() == cell_kind::moment) {
        if (c.moment().is != column_type::date) c.refuse("a day");
        return sql::day_of(c, c.moment());
    }
    time_text text(c);
    chrono::sys_days day = text.day();
    text.expect_end();
    return day;
}

chrono::microseconds time_of(const cell& c) {
    if (c.kind() == cell_kind::moment) {
        if (c.moment().is != column_type::time) c.refuse("a time");
        return sql::time_of(c.moment());
    }
    time_text text(c);
    bool negative = text.take('-');
    chrono::microseconds time = text.time(3);
    text.expect_end();
    return negative ? -time : time;
}

local_microseconds local_time_of(const cell& c) {
    if (c.kind() == cell_kind::moment) {
        if (c.moment().is != column_type::timestamp) c.refuse("a time without a zone");
        auto day = sql::day_of(c, c.moment()).time_since_epoch();
        return local_microseconds(day + sql::time_of(c.moment()));
    }
    time_text text(c);
    auto day = text.day().time_since_epoch();
    text.separator();
    chrono::microseconds time = text.time(2);
    if (text.offset()) c.refuse("a local time: it has a time zone; read it as a sys_time");
    return local_microseconds(day + time);
}

sys_microseconds sys_time_of(const cell& c) {
    if (c.kind() == cell_kind::moment) {
        if (c.moment().is != column_type::timestamp_tz)
            c.refuse("an instant: it has no time zone; read it as a local_time");
        return sql::day_of(c, c.moment()) + sql::time_of(c.moment());
    }
    time_text text(c);
    chrono::sys_days day = text.day();
    text.separator();
    chrono::microseconds time = text.time(2);
    std::optional<chrono::seconds> offset = text.offset();
    if (!offset) c.refuse("an instant: it has no time zone; read it as a local_time");
    text.expect_end();
    return day + time - *offset;
}

uuid uuid_of(const cell& c) {
    if (c.kind() != cell_kind::bytes) return uuid::from_text(c.text());
    if (c.octets().size() != 16) c.refuse("a UUID: it has not 16 bytes");
    uuid made;
    std::ranges::copy(c.octets(), made.octets.begin());
    return made;
}

// Texts.

namespace {

using buffer_writer = digit_writer<std::tuple_size_v<text_buffer>>;

void put(buffer_writer& to, chrono::sys_days day) {
    chrono::year_month_day all(day);
    to.put_day(static_cast<int>(all.year()), static_cast<unsigned>(all.month()),
               static_cast<unsigned>(all.day()));
}

void put(buffer_writer& to, chrono::microseconds time) {
    chrono::hh_mm_ss<chrono::microseconds> all(time);
    auto count = [](auto part) { return static_cast<std::uint64_t>(part.count()); };
    if (all.is_negative()) to.put('-');
    to.put_time(count(all.hours()), count(all.minutes()), count(all.seconds()));
    if (all.subseconds().count() != 0) to.put_fraction(count(all.subseconds()), 6);
}

template <class Time>
void put_both(buffer_writer& to, Time time) {
    auto day = chrono::floor<chrono::days>(time);
    put(to, chrono::sys_days(day.time_since_epoch()));
    to.put(' ');
    put(to, time - day);
}

}  // namespace

std::string_view text_of(chrono::sys_days day, text_buffer& buffer) {
    buffer_writer to(buffer);
    put(to, day);
    return to.text();
}

std::string_view text_of(local_microseconds time, text_buffer& buffer) {
    buffer_writer to(buffer);
    put_both(to, time);
    return to.text();
}

std::string_view text_of(sys_microseconds time, text_buffer& buffer) {
    buffer_writer to(buffer);
    put_both(to, time);
    to.put("+00:00");
    return to.text();
}

std::string_view text_of(chrono::microseconds time, text_buffer& buffer) {
    buffer_writer to(buffer);
    put(to, time);
    return to.text();
}

std::string_view text_of(const uuid& id, text_buffer& buffer) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::size_t at = 0;
    for (std::size_t i = 0; i < id.octets.size(); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) buffer.at(at++) = '-';
        auto octet = static_cast<unsigned>(id.octets[i]);
        buffer.at(at++) = digits[octet >> 4U];
        buffer.at(at++) = digits[octet & 15U];
    }
    return {buffer.data(), at};
}

// Arrays.

namespace {

[[noreturn]] void refuse_array(const char* why) {
    throw bad_value(std::string("cenote: a value cannot be read as an array: ") + why);
}

}  // namespace

array_reader::array_reader(std::string_view text) : rest_(text) {
    // `[2:4]={…}`: the lower bound is not 1.
    if (rest_.starts_with('[')) {
        std::size_t equals = rest_.find('=');
        if (equals == rest_.npos) refuse_array("it is no array of PostgreSQL");
        if (rest_.substr(0, equals).find("][") != rest_.npos)
            refuse_array("it has more than one dimension");
        rest_.remove_prefix(equals + 1);
    }
    if (rest_.size() < 2 || rest_.front() != '{' || rest_.back() != '}')
        refuse_array("it is no array of PostgreSQL");
    rest_ = rest_.substr(1, rest_.size() - 2);
    if (rest_.starts_with('{')) refuse_array("it has more than one dimension");
}

bool array_reader::next() {
    if (rest_.empty()) return false;
    if (!std::exchange(first_, false)) {
        if (rest_.front() != ',') refuse_array("its text is malformed");
        rest_.remove_prefix(1);
    }
    if (rest_.starts_with('{')) refuse_array("it has more than one dimension");
    null_ = false;
    if (rest_.starts_with('"')) {
        read_quoted();
        return true;
    }
    element_ = rest_.substr(0, rest_.find(','));
    rest_.remove_prefix(element_.size());
    null_ = element_ == "NULL";
    return true;
}

void array_reader::read_quoted() {
    unescaped_.clear();
    std::size_t at = 1;
    for (; at < rest_.size() && rest_[at] != '"'; ++at) {
        if (rest_[at] == '\\') ++at;
        if (at < rest_.size()) unescaped_ += rest_[at];
    }
    if (at >= rest_.size()) refuse_array("its text is malformed");
    rest_.remove_prefix(at + 1);
    element_ = unescaped_;
}

cell array_reader::element(column_type type) {
    if (null_) return {};
    auto number = [this](auto n) {
        auto [end, error] = std::from_chars(element_.data(), element_.data() + element_.size(), n);
        if (error != std::errc{} || end != element_.data() + element_.size())
            refuse_array("an element is no number in the range of the type");
        return cell(n);
    };
    switch (type) {
        case column_type::boolean:
            if (element_ != "t" && element_ != "f") refuse_array("an element is no bool");
            return cell(element_ == "t");
        case column_type::integer: return number(std::int64_t{});
        case column_type::real: return number(double{});
        case column_type::bytes: {
            if (!element_.starts_with("\\x") || element_.size() % 2 != 0)
                refuse_array("an element is no bytes");
            decoded_.clear();
            for (std::size_t i = 2; i + 1 < element_.size(); i += 2) {
                int high = digit_of(element_[i]);
                int low = digit_of(element_[i + 1]);
                if (high < 0 || low < 0) refuse_array("an element is no bytes");
                decoded_.push_back(static_cast<std::byte>(high * 16 + low));
            }
            return cell(std::span<const std::byte>(decoded_));
        }
        default: return cell(element_);
    }
}

namespace {

void write_quoted(std::string& to, std::string_view text) {
    to += '"';
    for (char c : text) {
        if (c == '"' || c == '\\') to += '\\';
        to += c;
    }
    to += '"';
}

struct element_writer {
    std::string& to;

    void operator()(std::monostate) const { to += "NULL"; }
    void operator()(bool b) const { to += b ? 't' : 'f'; }
    void operator()(std::int64_t i) const { to += std::to_string(i); }
    void operator()(double d) const {
        std::array<char, 32> digits{};
        auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), d);
        to.append(digits.data(), end);  // also nan and inf, which PostgreSQL understands
    }
    void operator()(std::string_view text) const { write_quoted(to, text); }
    void operator()(std::span<const std::byte> octets) const {
        constexpr std::string_view digits = "0123456789abcdef";
        to += "\"\\\\x";
        for (std::byte b : octets) {
            to += digits[static_cast<unsigned>(b) >> 4U];
            to += digits[static_cast<unsigned>(b) & 15U];
        }
        to += '"';
    }
    void operator()(const array_view&) const {
        throw std::invalid_argument("cenote: an array of arrays cannot be a parameter");
    }
    void operator()(const auto& date_or_id) const {
        text_buffer buffer{};
        write_quoted(to, text_of(date_or_id, buffer));
    }
};

}  // namespace

void write_element(std::string& to, const parameter& element) {
    std::visit(element_writer{to}, element.get());
}

void array_view::copy(const void* of, std::string& to) { to += static_cast<const char*>(of); }

}  // namespace detail

}  // namespace cenote::sql
