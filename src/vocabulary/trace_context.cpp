// Reads and writes traceparents, as W3C Trace Context defines them.
#include "cenote/trace_context.hpp"

#include <cstddef>
#include <span>

namespace cenote {

namespace {

// "vv-" trace_id "-" span_id "-ff"
constexpr std::size_t trace_id_at = 3;
constexpr std::size_t span_id_at = trace_id_at + 32 + 1;
constexpr std::size_t flags_at = span_id_at + 16 + 1;
constexpr std::size_t length = flags_at + 2;

/// The value of a hexadecimal digit; -1 for other characters, also for upper case.
int value_of(char digit) noexcept {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    return -1;
}

/// Reads two digits for each byte. False: a character is not a digit.
bool read_hex(std::string_view digits, std::span<std::uint8_t> into) noexcept {
    for (std::size_t i = 0; i < into.size(); ++i) {
        int high = value_of(digits[2 * i]);
        int low = value_of(digits[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        into[i] = static_cast<std::uint8_t>(high * 16 + low);
    }
    return true;
}

void write_hex(std::span<const std::uint8_t> bytes, std::string& to) {
    constexpr std::string_view digits = "0123456789abcdef";
    for (std::uint8_t byte : bytes) {
        to += digits[byte >> 4U];
        to += digits[byte & 0xFU];
    }
}

}  // namespace

std::optional<trace_context> trace_context::parse(std::string_view text) noexcept {
    constexpr std::uint8_t invalid_version = 0xff;
    constexpr std::uint8_t sampled_flag = 1;
    if (text.size() < length) return std::nullopt;
    for (std::size_t dash : {trace_id_at - 1, span_id_at - 1, flags_at - 1})
        if (text[dash] != '-') return std::nullopt;
    trace_context it;
    std::uint8_t version = 0;
    bool well = read_hex(text, {&version, 1}) && read_hex(text.substr(trace_id_at), it.trace_id) &&
                read_hex(text.substr(span_id_at), it.span_id) &&
                read_hex(text.substr(flags_at), {&it.flags, 1});
    if (!well || version == invalid_version || !it) return std::nullopt;
    // Later versions may append fields after another dash.
    bool longer = text.size() > length;
    if (longer && (version == 0 || text[length] != '-')) return std::nullopt;
    if (version != 0) it.flags &= sampled_flag;
    return it;
}

std::string trace_context::traceparent() const {
    std::string text;
    if (!*this) return text;
    text.reserve(length);
    text += "00-";
    write_hex(trace_id, text);
    text += '-';
    write_hex(span_id, text);
    text += '-';
    write_hex({&flags, 1}, text);
    return text;
}

std::string trace_context::sql_comment() const {
    if (!*this) return {};
    return "/*traceparent='" + traceparent() + "'*/";
}

}  // namespace cenote
