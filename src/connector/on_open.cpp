// What on_open has run.
#include "connector/on_open.hpp"

#include <stdexcept>
#include <variant>

namespace cenote::connector_detail {

namespace {

std::size_t size_of(const sql::parameter& p) {
    if (const auto* text = std::get_if<std::string_view>(&p.get())) return text->size();
    if (const auto* octets = std::get_if<std::span<const std::byte>>(&p.get()))
        return octets->size();
    return sizeof p;
}

}  // namespace

void refuse_in_on_open(const std::string& why) {
    throw std::logic_error("cenote: on_open: " + why);
}

void opening_record::refuse(const char* what) const {
    if (records_)
        refuse_in_on_open(std::string("a reset cannot repeat ") + what +
                          "; run single statements with execute");
}

void opening_record::add(std::string_view text, std::span<const sql::parameter> values) {
    constexpr std::size_t most = max_bytes_per_step;  // a reset sends all of it in one step
    constexpr std::size_t overhead = 64;
    bytes_ += overhead + text.size();
    for (const sql::parameter& each : values) bytes_ += size_of(each);
    if (bytes_ > most)
        throw std::length_error(
            "cenote: on_open: its statements take more than 64 KiB, and each reset repeats them");
    all_.emplace_back(text, values);
}

}  // namespace cenote::connector_detail
