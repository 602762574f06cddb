// A text that must not be shown: passwords and the like.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

namespace cenote {

/// Holds a secret. It cannot be printed, does not convert to a string implicitly, and wipes its
/// memory when it is destroyed or assigned to. Code that needs the text calls reveal().
///
/// Thread safety: const members may be called from several threads at once.
class secret {
public:
    secret() noexcept = default;
    /// Copies the text. The original is yours to wipe. Throws std::bad_alloc.
    explicit secret(std::string_view text);
    secret(const secret& other);
    secret(secret&& other) noexcept;
    secret& operator=(const secret& other);
    secret& operator=(secret&& other) noexcept;
    ~secret();

    /// Whether there is no text.
    bool empty() const noexcept { return size_ == 0; }
    /// The text, valid as long as this object is unchanged. A copy of it is not wiped.
    std::string_view reveal() const noexcept { return {c_str(), size_}; }
    /// The text with a zero at its end.
    const char* c_str() const noexcept { return text_ == nullptr ? "" : text_.get(); }

    /// Takes the same time for all texts of one length, so that the time tells nothing about how
    /// much of a guess is right.
    friend bool operator==(const secret& a, const secret& b) noexcept;

    template <class Stream>
    friend Stream& operator<<(Stream&, const secret&) = delete;

private:
    void wipe() noexcept;

    std::unique_ptr<char[]> text_;
    std::size_t size_ = 0;
};

}  // namespace cenote
