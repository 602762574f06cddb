// Secrets in memory of their own, which is wiped at the end.
#include "cenote/secret.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace cenote {

secret::secret(std::string_view text)
    : text_(std::make_unique<char[]>(text.size() + 1)), size_(text.size()) {
    std::ranges::copy(text, text_.get());
}

secret::secret(const secret& other) : secret(other.reveal()) {}

secret::secret(secret&& other) noexcept
    : text_(std::move(other.text_)), size_(std::exchange(other.size_, 0)) {}

secret& secret::operator=(const secret& other) {
    if (this != &other) *this = secret(other);
    return *this;
}

secret& secret::operator=(secret&& other) noexcept {
    if (this == &other) return *this;
    wipe();
    text_ = std::move(other.text_);
    size_ = std::exchange(other.size_, 0);
    return *this;
}

secret::~secret() { wipe(); }

void secret::wipe() noexcept {
    if (text_ != nullptr) explicit_bzero(text_.get(), size_);
}

bool operator==(const secret& a, const secret& b) noexcept {
    if (a.size_ != b.size_) return false;
    unsigned difference = 0;
    for (std::size_t i = 0; i < a.size_; ++i)
        difference |= static_cast<unsigned char>(a.text_[i] ^ b.text_[i]);
    return difference == 0;
}

}  // namespace cenote
