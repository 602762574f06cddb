// Conversions of replies, and the texts of errors.
#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "cenote/redis.hpp"

namespace cenote::redis {

namespace {

/// A server's text for logs: bounded, without line ends and control characters.
std::string printable(std::string_view text) {
    constexpr std::size_t max_length = 512;
    std::string shown(text.substr(0, max_length));
    std::ranges::replace_if(shown, [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; }, '?');
    return text.size() > max_length ? shown + "..." : shown;
}

/// The first word of the server's text, if it consists of capital letters.
std::string word_of(std::string_view text) {
    std::string_view word = text.substr(0, std::min(text.find(' '), text.size()));
    bool fits = !word.empty() && word.size() <= 24 &&
                std::ranges::all_of(word, [](char c) { return c >= 'A' && c <= 'Z'; });
    return std::string(fits ? word : "ERR");
}

const char* name_of(const reply::data& data) {
    constexpr std::array<const char*, std::variant_size_v<reply::data>> names{
        "nil", "a whole number", "text", "an array", "an error"};
    return names[data.index()];
}

}  // namespace

command_error::command_error(std::string_view text, bool only_its_word)
    : statement_error("cenote: Redis: " + (only_its_word ? word_of(text) : printable(text))),
      word_(word_of(text)) {}

void reply::refuse(const char* wanted) const {
    if (const error* failed = std::get_if<error>(&data_)) throw command_error(failed->text);
    throw bad_reply(std::string("cenote: Redis: the reply is ") + name_of(data_) +
                    ", but was read as " + wanted);
}

std::int64_t reply::integer() const {
    if (const auto* number = std::get_if<std::int64_t>(&data_)) return *number;
    refuse("a whole number");
}

const std::string& reply::text() const {
    if (const auto* got = std::get_if<std::string>(&data_)) return *got;
    refuse("text");
}

const reply::array& reply::elements() const& {
    if (const auto* got = std::get_if<array>(&data_)) return *got;
    refuse("an array");
}

reply::array reply::elements() && {
    if (auto* got = std::get_if<array>(&data_)) return std::move(*got);
    refuse("an array");
}

const reply& reply::operator[](std::size_t index) const {
    const array& all = elements();
    if (index < all.size()) return all[index];
    throw std::out_of_range("cenote: Redis: the reply has " + std::to_string(all.size()) +
                            " elements, but element " + std::to_string(index) + " was read");
}

const std::string& reply::error_text() const {
    if (const auto* got = std::get_if<error>(&data_)) return got->text;
    refuse("an error");
}

bool reply::as_bool() const {
    std::int64_t number = integer();
    if (number != 0 && number != 1) refuse("a bool");
    return number == 1;
}

namespace {

/// Empty unless the whole text is a number.
template <class Number>
std::optional<Number> number_in(const std::string& text) {
    Number value{};
    const char* end = text.data() + text.size();
    auto [last, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || last != end) return std::nullopt;
    return value;
}

}  // namespace

std::int64_t reply::as_integer() const {
    if (is_text())
        if (auto value = number_in<std::int64_t>(text())) return *value;
    return integer();
}

double reply::as_double() const {
    if (is_integer()) return static_cast<double>(integer());
    if (is_text())
        if (auto value = number_in<double>(text())) return *value;
    refuse("floating point");
}

}  // namespace cenote::redis
