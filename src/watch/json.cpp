// JSON: parsing is strict; writing accepts any bytes, since texts come from pools and their users.
#include "watch/json.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <system_error>

namespace cenote::detail {

namespace {

/// The size of the first character of `text`; zero if it is not valid UTF-8.
std::size_t character_size(std::string_view text) {
    auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    unsigned first = at(0);
    if (first < 0x80) return 1;
    std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || text.size() < size) return 0;
    for (std::size_t i = 1; i < size; ++i)
        if ((at(i) & 0xC0) != 0x80) return 0;
    // Overlong, a surrogate, beyond U+10FFFF.
    if (first == 0xE0 && at(1) < 0xA0) return 0;
    if (first == 0xED && at(1) >= 0xA0) return 0;
    if (first == 0xF0 && at(1) < 0x90) return 0;
    if (first == 0xF4 && at(1) >= 0x90) return 0;
    return size;
}

void append_escaped(std::string& to, char c) {
    constexpr std::string_view digits = "0123456789abcdef";
    auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') (to += '\\') += c;
    else if (c == '\n') to += "\\n";
    else if (code >= 0x20 && code != 0x7F) to += c;
    else ((to += "\\u00") += digits[code / 16]) += digits[code % 16];
}

void append_utf8(std::string& to, std::uint32_t code) {
    auto byte = [&](std::uint32_t value) { to += static_cast<char>(value); };
    if (code < 0x80) return byte(code);
    if (code < 0x800) {
        byte(0xC0 | (code >> 6));
    } else if (code < 0x10000) {
        byte(0xE0 | (code >> 12));
        byte(0x80 | ((code >> 6) & 0x3F));
    } else {
        byte(0xF0 | (code >> 18));
        byte(0x80 | ((code >> 12) & 0x3F));
        byte(0x80 | ((code >> 6) & 0x3F));
    }
    byte(0x80 | (code & 0x3F));
}

/// Parses from the front of a text. Each function returns whether the text begins with its subject.
class parser {
public:
    explicit parser(std::string_view text) : rest_(text) {}

    bool end() {
        skip_space();
        return rest_.empty();
    }
    bool punctuation(char expected) {
        skip_space();
        return exactly(expected);
    }
    bool number(std::uint64_t& value) {
        skip_space();
        auto [stopped, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
        auto size = static_cast<std::size_t>(stopped - rest_.data());
        bool padded = size > 1 && rest_[0] == '0';
        if (error != std::errc{} || padded) return false;
        rest_.remove_prefix(size);
        return true;
    }
    bool text(std::string& value) {
        if (!punctuation('"')) return false;
        while (!rest_.empty() && rest_[0] != '"') {
            if (rest_[0] == '\\' ? !escape(value) : !character(value)) return false;
        }
        return exactly('"');
    }

private:
    void skip_space() {
        rest_.remove_prefix(std::min(rest_.size(), rest_.find_first_not_of(" \t\r\n")));
    }
    bool exactly(char expected) {
        if (!rest_.starts_with(expected)) return false;
        rest_.remove_prefix(1);
        return true;
    }
    bool character(std::string& value) {
        std::size_t size = character_size(rest_);
        if (size == 0 || static_cast<unsigned char>(rest_[0]) < 0x20) return false;
        value += rest_.substr(0, size);
        rest_.remove_prefix(size);
        return true;
    }
    bool escape(std::string& value) {
        constexpr std::string_view letters = "\"\\/bfnrt";
        constexpr std::string_view characters = "\"\\/\b\f\n\r\t";
        if (rest_.size() < 2) return false;
        if (rest_[1] == 'u') return escaped_code(value);
        std::size_t which = letters.find(rest_[1]);
        if (which == std::string_view::npos) return false;
        value += characters[which];
        rest_.remove_prefix(2);
        return true;
    }
    bool escaped_code(std::string& value) {
        std::uint32_t code = 0;
        if (!unit(code) || (code >= 0xDC00 && code < 0xE000)) return false;
        if (code >= 0xD800 && code < 0xDC00) {
            std::uint32_t low = 0;
            if (!unit(low) || low < 0xDC00 || low >= 0xE000) return false;
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        }
        append_utf8(value, code);
        return true;
    }
    /// \uXXXX
    bool unit(std::uint32_t& code) {
        if (rest_.size() < 6 || rest_[0] != '\\' || rest_[1] != 'u') return false;
        const char* last = rest_.data() + 6;
        auto [stopped, error] = std::from_chars(rest_.data() + 2, last, code, 16);
        if (error != std::errc{} || stopped != last) return false;
        rest_.remove_prefix(6);
        return true;
    }

    std::string_view rest_;
};

bool parse_member(parser& from, json_member& one) {
    if (!from.text(one.name) || !from.punctuation(':')) return false;
    std::uint64_t number = 0;
    if (from.number(number)) {
        one.number = number;
        return true;
    }
    return from.text(one.text);
}

}  // namespace

std::string json_text(std::string_view text) {
    std::string all = "\"";
    while (!text.empty()) {
        std::size_t size = character_size(text);
        if (size == 0) all += "\xEF\xBF\xBD";
        else if (size == 1) append_escaped(all, text[0]);
        else all += text.substr(0, size);
        text.remove_prefix(std::max<std::size_t>(size, 1));
    }
    return all += '"';
}

std::string number_text(std::uint64_t value) { return std::to_string(value); }

std::string number_text(double value) {
    if (!std::isfinite(value)) return "null";
    std::array<char, 32> text{};
    auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    return {text.data(), end};
}

json_object& json_object::add(std::string_view name, std::string_view value) {
    text_ += text_.size() == 1 ? "\"" : ",\"";
    text_.append(name).append("\":").append(value);
    return *this;
}

std::string json_object::take() {
    text_ += '}';
    return std::move(text_);
}

json_array& json_array::add(std::string_view value) {
    if (text_.size() > 1) text_ += ',';
    text_ += value;
    return *this;
}

std::string json_array::take() {
    text_ += ']';
    return std::move(text_);
}

std::optional<std::vector<json_member>> parse_flat_object(std::string_view json) {
    constexpr std::size_t members_max = 16;
    parser from(json);
    std::vector<json_member> all;
    if (!from.punctuation('{')) return std::nullopt;
    bool last = from.punctuation('}');
    while (!last) {
        json_member one;
        if (all.size() == members_max || !parse_member(from, one)) return std::nullopt;
        auto same = [&](const json_member& other) { return other.name == one.name; };
        if (std::ranges::any_of(all, same)) return std::nullopt;
        all.push_back(std::move(one));
        last = from.punctuation('}');
        if (!last && !from.punctuation(',')) return std::nullopt;
    }
    if (!from.end()) return std::nullopt;
    return all;
}

}  // namespace cenote::detail
