// Finds the places of a statement, as far as one must read SQL for that: quotes and comments.
#include "database/phrase.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace cenote::database_detail {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_space(char c) { return std::string_view(" \t\n\r\f\v").find(c) != std::string_view::npos; }

/// What names are made of. Servers take every byte of a character beyond ASCII for a letter.
bool is_of_a_word(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
}

/// A place in a statement, or a doubled question mark.
struct place {
    std::size_t at = 0;
    std::size_t length = 0;
    std::size_t number = 0;  // of its value, from 1; 0: none was written
    bool numbered() const { return number != 0; }
    bool escape() const { return number == 0 && length == 2; }
};

/// Where something may begin that is no plain text, in whichever dialect. Everything else is passed
/// over without a further look.
constexpr std::array<bool, 256> special = [] {
    std::array<bool, 256> all{};
    for (char c : std::string_view("'\"`[$-/#?")) all[static_cast<unsigned char>(c)] = true;
    return all;
}();

/// Goes through a statement from place to place.
class reader {
public:
    reader(dialect of, std::string_view text) : of_(of), text_(text) {}

    /// False at the end.
    bool next(place& found) {
        while (pass_over_plain_text()) {
            bool skipped = skip_word() || skip_quoted() || skip_comment();
            bool is_place = !skipped && read_place(found);
            if (skipped || is_place) begin_ = at_;
            else ++at_;
            if (is_place) return true;
        }
        return false;
    }

private:
    bool pass_over_plain_text() {
        const char* end = text_.data() + text_.size();
        const char* now = text_.data() + at_;
        while (now != end && !special[static_cast<unsigned char>(*now)]) ++now;
        at_ = static_cast<std::size_t>(now - text_.data());
        return now != end;
    }

    char look(std::size_t ahead = 0) const {
        return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
    }
    /// What was passed over so far back, unless it belongs to something else.
    char look_back(std::size_t behind) const {
        return at_ >= begin_ + behind ? text_[at_ - behind] : '\0';
    }
    bool is(std::string_view what) const { return text_.substr(at_).starts_with(what); }

    void go_behind(std::string_view end) {
        std::size_t found = text_.find(end, at_);
        at_ = found == std::string_view::npos ? text_.size() : found + end.size();
    }

    /// A carriage return ends a line for PostgreSQL alone.
    void go_behind_line() {
        std::size_t found = text_.find_first_of(of_ == dialect::postgres ? "\r\n" : "\n", at_);
        at_ = std::min(found, text_.size() - 1) + 1;
    }

    void go_behind_quote(char quote, bool backslashes) {
        for (++at_; at_ < text_.size(); ++at_) {
            bool escaped = backslashes && look() == '\\';
            bool doubled = look() == quote && look(1) == quote;
            if (escaped || doubled) ++at_;
            else if (look() == quote) break;
        }
        at_ = std::min(at_ + 1, text_.size());
    }

    /// PostgreSQL takes a quote after a line break for the rest of the string before it, which has
    /// backslashes if that had.
    bool go_to_continuation() {
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
                go_behind_quote('\'', backslashes);
                while (of_ == dialect::postgres && backslashes && go_to_continuation())
                    go_behind_quote('\'', backslashes);
                return true;
            }
            case '"': go_behind_quote('"', mariadb); return true;
            case '`':
                if (of_ == dialect::postgres) return false;
                go_behind_quote('`', false);
                return true;
            case '[':
                if (of_ != dialect::sqlite) return false;
                go_behind("]");
                return true;
            case '$': return of_ == dialect::postgres && skip_dollar_quoted();
            default: return false;
        }
    }

    /// $$ … $$ or $tag$ … $tag$.
    bool skip_dollar_quoted() {
        std::size_t end = at_ + 1;
        while (end < text_.size() && is_of_a_word(text_[end])) ++end;
        if (end == text_.size() || text_[end] != '$' || is_digit(look(1))) return false;
        std::string_view tag = text_.substr(at_, end + 1 - at_);
        at_ += tag.size();
        go_behind(tag);
        return true;
    }

    bool skip_comment() {
        bool mariadb = of_ == dialect::mariadb;
        if (is("--") && (!mariadb || static_cast<unsigned char>(look(2)) <= ' ')) {
            go_behind_line();
            return true;
        }
        if (mariadb && look() == '#') {
            go_behind("\n");
            return true;
        }
        if (!is("/*")) return false;
        if (mariadb && (is("/*!") || is("/*M!"))) {
            at_ += 3;  // what is in it is meant
            return true;
        }
        at_ += 2;
        if (of_ == dialect::postgres) go_behind_nested();
        else go_behind("*/");
        return true;
    }

    void go_behind_nested() {
        for (int depth = 1; depth > 0 && at_ < text_.size();) {
            if (is("/*")) ++depth, at_ += 2;
            else if (is("*/")) --depth, at_ += 2;
            else ++at_;
        }
    }

    /// The rest of one that has a dollar sign in it.
    bool skip_word() {
        if (look() != '$' || !is_of_a_word(look_back(1))) return false;
        while (at_ < text_.size() && (is_of_a_word(text_[at_]) || text_[at_] == '$')) ++at_;
        return true;
    }

    /// A word of its own, which has PostgreSQL heed backslashes in what follows.
    bool is_after_e() const {
        bool e = look_back(1) == 'e' || look_back(1) == 'E';
        return of_ == dialect::postgres && e && !is_of_a_word(look_back(2));
    }

    bool read_place(place& found) {
        found = {.at = at_, .length = 1};
        if (look() == '?') {
            if (of_ == dialect::postgres && look(1) == '?') found.length = 2;
        } else if (look() == '$' && is_digit(look(1))) {
            for (; is_digit(look(found.length)); ++found.length) {
                constexpr std::size_t most = 100'000;  // more than any server takes
                std::size_t digit = static_cast<std::size_t>(look(found.length) - '0');
                found.number = std::min(found.number * 10 + digit, most);
            }
            if (found.number == 0)
                throw std::invalid_argument("cenote: places in a statement are counted from $1");
        } else {
            return false;
        }
        at_ += found.length;
        return true;
    }

    dialect of_;
    std::string_view text_;
    std::size_t at_ = 0;
    std::size_t begin_ = 0;  // of the plain text that it is in
};

[[noreturn]] void refuse_count(std::size_t places, std::size_t values) {
    throw std::invalid_argument("cenote: the statement has places for " + std::to_string(places) +
                                " values, and " + std::to_string(values) + " were given");
}

/// SQLite's own way to number them has a question mark, too, which is then followed by a digit.
bool is_native(dialect to, std::string_view text) {
    return text.find(to == dialect::postgres ? '?' : '$') == std::string_view::npos;
}

}  // namespace

/// Puts a text together from pieces of another.
class phrase::translation {
public:
    explicit translation(std::string_view from) : from_(from) { made_.reserve(from.size() + 16); }

    void replace(const place& p, std::string_view by) {
        made_ += from_.substr(done_, p.at - done_);
        made_ += by;
        done_ = p.at + p.length;
    }
    void append(std::string_view more) { made_ += more; }
    std::string take() {
        made_ += from_.substr(done_);
        return std::move(made_);
    }

private:
    std::string_view from_;
    std::size_t done_ = 0;
    std::string made_;
};

phrase::phrase(dialect to, std::string_view text, std::span<const sql::parameter> values)
    : text_(text), values_(values) {
    // Nobody who gives no values has written places; and most write what the server understands.
    if (values.empty() || is_native(to, text)) return;
    reader in(to, text);
    bool marks = false;
    bool numbers = false;
    for (place p; in.next(p);) (p.numbered() ? numbers : marks) = true;
    if (to == dialect::postgres) {
        if (marks && !numbers) number_places(to);  // beside numbers, question marks are operators
        return;
    }
    if (numbers && marks)
        throw std::invalid_argument("cenote: a statement has both ? and $1; write one of them");
    if (numbers && to == dialect::sqlite) name_places(to);
    if (numbers && to == dialect::mariadb) one_after_the_other(to);
}

/// ? to $1.
void phrase::number_places(dialect to) {
    translation made(text_);
    std::size_t count = 0;
    reader in(to, text_);
    for (place p; in.next(p);) made.replace(p, p.escape() ? "?" : "$" + std::to_string(++count));
    if (count != values_.size()) refuse_count(count, values_.size());
    text_ = translated_ = made.take();
}

/// $1 to ?1.
void phrase::name_places(dialect to) {
    translation made(text_);
    std::size_t most = 0;
    reader in(to, text_);
    for (place p; in.next(p);) {
        made.replace(p, "?");
        made.append(text_.substr(p.at + 1, p.length - 1));
        most = std::max(most, p.number);
    }
    if (most != values_.size()) refuse_count(most, values_.size());
    text_ = translated_ = made.take();
}

/// $1 to ?, and the values in the order in which they are called for.
void phrase::one_after_the_other(dialect to) {
    translation made(text_);
    std::size_t most = 0;
    reader in(to, text_);
    for (place p; in.next(p);) {
        made.replace(p, "?");
        most = std::max(most, p.number);
        if (p.number <= values_.size()) arranged_.push_back(values_[p.number - 1]);
    }
    if (most != values_.size()) refuse_count(most, values_.size());
    text_ = translated_ = made.take();
    values_ = arranged_;
}

}  // namespace cenote::database_detail
