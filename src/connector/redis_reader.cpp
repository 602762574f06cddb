// The parser's states: byte by byte for the protocol, in blocks for text.
#include "connector/redis_reader.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "cenote/server_error.hpp"

namespace cenote::redis::detail {

namespace {

/// "-9223372036854775808"
constexpr std::size_t max_number = 20;

}  // namespace

void reply_reader::refuse(const char* what) {
    throw connection_error(error_kind::connection,
                           std::string("cenote: Redis: the server sent ") + what);
}

void reply_reader::charge(std::size_t room) {
    if (room > limit_ - charged_) refuse("a reply that takes more memory than max_reply");
    charged_ += room;
}

std::size_t reply_reader::feed(std::string_view some) {
    if (state_ == state::broken) refuse("more bytes after a malformed reply");
    std::size_t taken = 0;
    try {
        while (!complete_ && taken < some.size()) taken += step(some.substr(taken));
    } catch (...) {
        state_ = state::broken;
        open_.clear();
        text_ = {};
        throw;
    }
    return taken;
}

reply reply_reader::take() {
    complete_ = false;
    charged_ = 0;
    return std::exchange(whole_, reply());
}

/// Takes one byte or more.
std::size_t reply_reader::step(std::string_view some) {
    switch (state_) {
        case state::line: return take_line(some);
        case state::bulk: return take_bulk(some);
        case state::type: take_type(some.front()); return 1;
        case state::line_end:
        case state::bulk_end: take_end(some.front()); return 1;
        case state::broken: break;
    }
    refuse("more bytes after a malformed reply");
}

void reply_reader::take_type(char c) {
    if (std::string_view("+-:$*").find(c) == std::string_view::npos)
        refuse("a malformed reply: it begins with none of + - : $ *");
    if (open_.empty()) charge(sizeof(reply));  // elements were charged with their array
    type_ = c;
    text_.clear();
    state_ = state::line;
}

std::size_t reply_reader::take_line(std::string_view some) {
    std::size_t end = std::min(some.find_first_of("\r\n"), some.size());
    bool is_text = type_ == '+' || type_ == '-';
    if (end > (is_text ? max_line : max_number) - text_.size())
        refuse(is_text ? "a line that is too long" : "a number that is too long");
    if (is_text) charge(end);
    text_.append(some.substr(0, end));
    if (end == some.size()) return end;
    if (some[end] == '\n') refuse("a line that ends without \\r");
    state_ = state::line_end;
    return end + 1;
}

std::size_t reply_reader::take_bulk(std::string_view some) {
    std::size_t now = std::min(missing_, some.size());
    text_.append(some.substr(0, now));
    missing_ -= now;
    if (missing_ == 0) state_ = state::bulk_end;
    return now;
}

/// "\n" after a line, "\r\n" after a text of a given length.
void reply_reader::take_end(char c) {
    if (state_ == state::bulk_end && !end_begun_) {
        if (c != '\r') refuse("a text that is longer than announced");
        end_begun_ = true;
        return;
    }
    if (c != '\n') refuse("a line with \\r in the middle");
    if (state_ == state::line_end) return end_line();
    end_begun_ = false;
    add(reply(std::move(text_)));
}

void reply_reader::end_line() {
    switch (type_) {
        case '+': return add(reply(std::move(text_)));
        case '-': return add(reply(reply::error{std::move(text_)}));
        case ':': return add(reply(number()));
        case '$': return begin_bulk();
        default: return begin_array();
    }
}

/// As the server writes them: no plus, no leading zeros.
std::int64_t reply_reader::number() const {
    std::int64_t value = 0;
    const char* end = text_.data() + text_.size();
    auto [last, error] = std::from_chars(text_.data(), end, value);
    bool padded = text_.size() > 1 && (text_.starts_with('0') || text_.starts_with("-0"));
    if (error != std::errc{} || last != end || padded) refuse("a malformed number");
    return value;
}

/// The announced length.
std::size_t reply_reader::count() const {
    std::int64_t value = number();
    if (value < 0) refuse("a negative length");
    return static_cast<std::size_t>(value);
}

void reply_reader::begin_bulk() {
    if (text_ == "-1") return add(reply());
    missing_ = count();
    charge(missing_);
    text_.clear();
    text_.reserve(missing_);  // within the limit
    state_ = missing_ == 0 ? state::bulk_end : state::bulk;
}

void reply_reader::begin_array() {
    if (text_ == "-1") return add(reply());
    std::size_t expected = count();
    if (expected == 0) return add(reply(reply::array()));
    if (open_.size() == max_depth) refuse("arrays that are nested too deeply");
    if (expected > limit_ / sizeof(reply))
        refuse("an array with more elements than max_reply allows");
    charge(expected * sizeof(reply));
    open_.push_back({.elements = {}, .expected = expected});
    open_.back().elements.reserve(expected);
    state_ = state::type;
}

/// Completes a reply, or an element and the arrays that it completes.
void reply_reader::add(reply made) {
    state_ = state::type;
    text_ = {};
    while (!open_.empty()) {
        level& innermost = open_.back();
        innermost.elements.push_back(std::move(made));
        if (innermost.elements.size() < innermost.expected) return;
        made = reply(std::move(innermost.elements));
        open_.pop_back();
    }
    whole_ = std::move(made);
    complete_ = true;
}

}  // namespace cenote::redis::detail
