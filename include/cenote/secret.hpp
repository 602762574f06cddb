// A text that must not be seen: passwords and the like.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

namespace cenote {

/// Holds a secret: cannot be printed, becomes no string by accident, and leaves no trace in memory
/// when it ends. Whoever needs the text says so: reveal().
class secret {
public:
    secret() noexcept = default;
    explicit secret(std::string_view text);
    secret(const secret& other);
    secret(secret&& other) noexcept;
    secret& operator=(const secret& other);
    secret& operator=(secret&& other) noexcept;
    ~secret();

    bool empty() const noexcept { return size_ == 0; }
    /// The text itself. Keep it no longer than needed.
    std::string_view reveal() const noexcept { return {c_str(), size_}; }
    /// The same with a zero behind it, for C.
    const char* c_str() const noexcept { return text_ == nullptr ? "" : text_.get(); }

    /// Takes as long for a wrong one that is nearly right as for any other of its length.
    friend bool operator==(const secret& a, const secret& b) noexcept;

    template <class Stream>
    friend Stream& operator<<(Stream&, const secret&) = delete;

private:
    void wipe() noexcept;

    std::unique_ptr<char[]> text_;
    std::size_t size_ = 0;
};

}  // namespace cenote
