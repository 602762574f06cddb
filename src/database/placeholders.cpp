// Finds the placeholders of a statement. Reads as much SQL as that takes: quotes and comments.
#include "database/placeholders.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace cenote::database_detail {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_space(char c) { return std::string_view(" \t\n\r\f\v").find(c) != std::string_view::npos; }

/// Whether names contain this byte. Servers treat every byte beyond ASCII as a letter.
bool is_name_char(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
}

/// A placeholder, or a doubled question mark.
struct placeholder {
    std::size_t at = 0;
    std::size_t length = 0;
    std::size_t number = 0;      // of $1, from 1; 0: a question mark
    std::string_view name = {};  // of :name; otherwise empty
    bool numbered() const { return number != 0; }
    bool escape() const { return number == 0 && length == 2; }
};

/// Characters that may begin a placeholder, a quotation or a comment in some dialect. The scanner
/// skips all others without a further look.
constexpr std::array<bool, 256> special = [] {
    std::array<bool, 256> all{};
    for (char c : std::string_view("'\"`[$-/#?:")) all[static_cast<unsigned char>(c)] = true;
    return all;
}();

/// Finds one placeholder after the other.
class scanner {
public:
    /// `named`: finds :name, too.
    scanner(dialect of, std::string_view text, bool named = false)
        : of_(of), text_(text), named_(named) {}

    /// False at the end.
    bool next(placeholder& found) {
        while (skip_plain_text()) {
            bool skipped = skip_name() || skip_quoted() || skip_comment() || skip_colons();
            bool is_placeholder = !skipped && read_placeholder(found);
            if (skipped || is_placeholder) begin_ = at_;
            else ++at_;
            if (is_placeholder) return true;
        }
        return false;
    }

private:
    bool skip_plain_text() {
        const char* end = text_.data() + text_.size();
        const char* now = text_.data() + at_;
        while (now != end && !special[static_cast<unsigned char>(*now)]) ++now;
        at_ = static_cast<std::size_t>(now - text_.data());
        return now != end;
    }

    char look(std::size_t ahead = 0) const {
        return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
    }
    /// The character `behind` places back, if it belongs to the same run of plain text.
    char look_back(std::size_t behind) const {
        return at_ >= begin_ + behind ? text_[at_ - behind] : '\0';
    }
    bool is(std::string_view what) const { return text_.substr(at_).starts_with(what); }

    void skip_past(std::string_view end) {
        std::size_t found = text_.find(end, at_);
        at_ = found == std::string_view::npos ? text_.size() : found + end.size();
    }

    /// Only PostgreSQL ends a line at a carriage return.
    void skip_line() {
        std::size_t found = text_.find_first_of(of_ == dialect::postgres ? "\r\n" : "\n", at_);
        at_ = std::min(found, text_.size() - 1) + 1;
    }

    void skip_quotation(char quote, bool backslashes) {
        for (++at_; at_ < text_.size(); ++at_) {
            bool escaped = backslashes && look() == '\\';
            bool doubled = look() == quote && look(1) == quote;
            if (escaped || doubled) ++at_;
            else if (look() == quote) break;
        }
        at_ = std::min(at_ + 1, text_.size());
    }

    /// PostgreSQL continues a string at a quote after a line break. The continuation has backslash
    /// escapes if the string has.
    bool find_continuation() {
        std::size_t next = at_;
        bool broken = false;
        for (; next < text_.size(); ++next) {
            if (text_.substr(next).starts_with("--")) next = text_.find_first_of("\r\n", next);
            if (next >= text_.size() || !is_space(text_[next])) break;
            broken = broken || text_[next] == '\n' || text_[next] == '\r';
        }
        if (!broken || next >= text_.size() || text_[next] != '\'') return false;
        at_ = next;
        return true;
    }

    bool skip_quoted() {
        bool mariadb = of_ == dialect::mariadb;
        switch (look()) {
            case '\'': {
                bool backslashes = mariadb || is_after_e();
                skip_quotation('\'', backslashes);
                while (of_ == dialect::postgres && backslashes && find_continuation())
                    skip_quotation('\'', backslashes);
                return true;
            }
            case '"': skip_quotation('"', mariadb); return true;
            case '`':
                if (of_ == dialect::postgres) return false;
                skip_quotation('`', false);
                return true;
            case '[':
                if (of_ != dialect::sqlite) return false;
                skip_past("]");
                return true;
            case '$': return of_ == dialect::postgres && skip_dollar_quoted();
            default: return false;
        }
    }

    /// $$ … $$ or $tag$ … $tag$.
    bool skip_dollar_quoted() {
        std::size_t end = at_ + 1;
        while (end < text_.size() && is_name_char(text_[end])) ++end;
        if (end == text_.size() || text_[end] != '$' || is_digit(look(1))) return false;
        std::string_view tag = text_.substr(at_, end + 1 - at_);
        at_ += tag.size();
        skip_past(tag);
        return true;
    }

    bool skip_comment() {
        bool mariadb = of_ == dialect::mariadb;
        if (is("--") && (!mariadb || static_cast<unsigned char>(look(2)) <= ' ')) {
            skip_line();
            return true;
        }
        if (mariadb && look() == '#') {
            skip_past("\n");
            return true;
        }
        if (!is("/*")) return false;
        if (mariadb && (is("/*!") || is("/*M!"))) {
            at_ += 3;  // the server executes the content of such a comment
            return true;
        }
        at_ += 2;
        if (of_ == dialect::postgres) skip_nested_comment();
        else skip_past("*/");
        return true;
    }

    void skip_nested_comment() {
        for (int depth = 1; depth > 0 && at_ < text_.size();) {
            if (is("/*")) ++depth, at_ += 2;
            else if (is("*/")) --depth, at_ += 2;
            else ++at_;
        }
    }

    /// The rest of a name that contains a dollar sign.
    bool skip_name() {
        if (look() != '$' || !is_name_char(look_back(1))) return false;
        while (at_ < text_.size() && (is_name_char(text_[at_]) || text_[at_] == '$')) ++at_;
        return true;
    }

    /// A cast of PostgreSQL or an assignment.
    bool skip_colons() {
        if (!named_ || !(is("::") || is(":="))) return false;
        at_ += 2;
        return true;
    }

    /// The length of the name after a colon; 0 if it begins none. A colon between two expressions
    /// is a slice of an array, and one after a name ends a label.
    std::size_t length_of_name() const {
        if (!named_ || look() != ':' || is_digit(look(1))) return 0;
        char before = look_back(1);
        if (is_name_char(before) || before == ')' || before == ']') return 0;
        std::size_t length = 0;
        while (is_name_char(look(length + 1))) ++length;
        return length;
    }

    /// After E, a string of PostgreSQL has backslash escapes.
    bool is_after_e() const {
        bool e = look_back(1) == 'e' || look_back(1) == 'E';
        return of_ == dialect::postgres && e && !is_name_char(look_back(2));
    }

    bool read_placeholder(placeholder& found) {
        found = {.at = at_, .length = 1};
        if (std::size_t length = length_of_name(); length > 0) {
            found.name = text_.substr(at_ + 1, length);
            found.length = length + 1;
        } else if (look() == '?') {
            if (of_ == dialect::postgres && look(1) == '?') found.length = 2;
        } else if (look() == '$' && is_digit(look(1))) {
            for (; is_digit(look(found.length)); ++found.length) {
                constexpr std::size_t most = 100'000;  // more than any server accepts
                std::size_t digit = static_cast<std::size_t>(look(found.length) - '0');
                found.number = std::min(found.number * 10 + digit, most);
            }
            if (found.number == 0)
                throw std::invalid_argument("cenote: numbered placeholders start with $1");
        } else {
            return false;
        }
        at_ += found.length;
        return true;
    }

    dialect of_;
    std::string_view text_;
    bool named_;
    std::size_t at_ = 0;
    std::size_t begin_ = 0;  // of the present run of plain text
};

[[noreturn]] void refuse_count(std::size_t expected, std::size_t given) {
    throw std::invalid_argument("cenote: the statement has placeholders for " +
                                std::to_string(expected) + " values, but " + std::to_string(given) +
                                " were given");
}

bool has_name(const sql::parameter& value) { return !value.name().empty(); }

std::string quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }

/// Throws std::invalid_argument unless each value has a name of its own.
void check_names(std::span<const sql::parameter> values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (!has_name(values[i]))
            throw std::invalid_argument(
                "cenote: either all values of a statement have names or none has");
        for (std::size_t other = 0; other < i; ++other)
            if (values[other].name() == values[i].name())
                throw std::invalid_argument("cenote: two values are named " +
                                            quoted(values[i].name()));
    }
}

/// The index of the value with this name.
std::size_t find_name(std::span<const sql::parameter> values, std::string_view name) {
    for (std::size_t i = 0; i < values.size(); ++i)
        if (values[i].name() == name) return i;
    throw std::invalid_argument("cenote: the statement has a placeholder :" + std::string(name) +
                                ", but no value is named " + quoted(name));
}

/// Whether the server understands the text as it is. (SQLite numbers its own placeholders `?1`.)
bool is_native(dialect to, std::string_view text) {
    return text.find(to == dialect::postgres ? '?' : '$') == std::string_view::npos;
}

}  // namespace

placeholders::placeholders(dialect to, std::string_view text,
                           std::span<const sql::parameter> values)
    : text_(text), values_(values) {
    if (std::ranges::any_of(values, has_name)) {
        translate_names(to);
        return;
    }
    // The common cases need no scan: no values, or placeholders of the server's own kind.
    if (values.empty() || is_native(to, text)) return;
    scanner in(to, text);
    bool marks = false;
    bool numbers = false;
    for (placeholder p; in.next(p);) (p.numbered() ? numbers : marks) = true;
    bool is_postgres = to == dialect::postgres;
    // Beside $1, question marks are operators of PostgreSQL.
    if (numbers && marks && !is_postgres)
        throw std::invalid_argument("cenote: a statement has both ? and $1; use one kind only");
    if (is_postgres ? marks && !numbers : numbers) translate(to);
}

/// For PostgreSQL from ? to $1. From $1 for SQLite to ?1, for MariaDB to ?, with the values in the
/// order of the placeholders.
void placeholders::translate(dialect to) {
    translated_.reserve(text_.size() + 16);
    std::size_t done = 0;   // how much of the text is translated
    std::size_t count = 0;  // of values
    scanner in(to, text_);
    for (placeholder p; in.next(p);) {
        translated_ += text_.substr(done, p.at - done);
        done = p.at + p.length;
        if (p.escape()) {
            translated_ += '?';
        } else if (to == dialect::postgres) {
            translated_ += '$' + std::to_string(++count);
        } else {
            translated_ += '?';
            count = std::max(count, p.number);
            if (to == dialect::sqlite) translated_ += text_.substr(p.at + 1, p.length - 1);
            else if (p.number <= values_.size()) reordered_.push_back(values_[p.number - 1]);
        }
    }
    if (count != values_.size()) refuse_count(count, values_.size());
    translated_ += text_.substr(done);
    text_ = translated_;
    if (to == dialect::mariadb) values_ = reordered_;
}

/// For PostgreSQL to $1, for SQLite to ?1, in the order of the values; for MariaDB to ?, with the
/// values in the order of the placeholders.
void placeholders::translate_names(dialect to) {
    check_names(values_);
    std::vector<bool> used(values_.size());
    translated_.reserve(text_.size() + 16);
    std::size_t done = 0;  // how much of the text is translated
    scanner in(to, text_, true);
    for (placeholder p; in.next(p);) {
        if (p.name.empty()) {
            if (!p.numbered() && to == dialect::postgres) continue;  // an operator
            throw std::invalid_argument(
                "cenote: a statement has both named placeholders and ? or $1; use one kind only");
        }
        const std::size_t index = find_name(values_, p.name);
        used[index] = true;
        translated_ += text_.substr(done, p.at - done);
        done = p.at + p.length;
        translated_ += to == dialect::postgres ? '$' : '?';
        if (to != dialect::mariadb) translated_ += std::to_string(index + 1);
        else reordered_.push_back(values_[index].without_name());
    }
    for (std::size_t i = 0; i < values_.size(); ++i)
        if (!used[i])
            throw std::invalid_argument(
                "cenote: the statement has no placeholder :" + std::string(values_[i].name()) +
                " for the value " + quoted(values_[i].name()));
    translated_ += text_.substr(done);
    text_ = translated_;
    if (to != dialect::mariadb)
        for (const sql::parameter& p : values_) reordered_.push_back(p.without_name());
    values_ = reordered_;
}

}  // namespace cenote::database_detail
