#!/usr/bin/env python3
"""Tests what the site reads from headers (docs/site/headers.py) and makes of it (reference.py)."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs/site"))
import headers  # noqa: E402
import reference  # noqa: E402

HEADER = """// What it is for.
#pragma once

/// A macro.
#define CENOTE_ONE \\
    (1 + \\
     2)

namespace cenote {

namespace detail {
struct hidden {};
}  // namespace detail

/// A kind.
enum class kind : int {
    one = 1,  ///< The first,
              ///< indeed.
    /// Another.
    two,
};

/// A pool, see kind::one and acquire_for():
///
///     pool p{1};
///
/// - a list
template <class T, class U = std::vector<T>>
    requires(sizeof(T) > 0)
class pool : public base<T> {
public:
    /// Makes it; `a < b` counts.
    explicit pool(std::function<void(int)> f = {}) : f_{std::move(f)}, g_(1) {}
    pool(const pool&) = delete;
    pool& operator=(const pool&) = delete;
    ~pool() { if (f_) f_(0); }

    /// Waits.
    [[nodiscard]] lease<T> acquire_for(int timeout = {}) const noexcept {
        return {timeout, '}', "}"};
    }
    lease<T> acquire_until(int deadline);

    // A remark.

    template <class F>
        requires requires(F f) {
            { f() } -> std::same_as<int>;
        }
    void undocumented(F f) {}
    bool operator==(const pool&) const = default;
    int what() const override;

    std::array<int, 3> counts{};  ///< Of each.
    int plain = 3;

private:
    std::function<void(int)> f_;
};

template <class T>
pool(T) -> pool<T, int>;

template <class T, class U>
lease<T> pool<T, U>::acquire_until(int deadline) {
    return {};
}

/// Whether C connects.
template <class C>
concept connector = requires(C& c) {
    { c.open() };
} || true;

using many = std::vector<pool<int>>;

}  // namespace cenote

template <>
struct std::hash<cenote::kind> {};
"""


def read(text=HEADER):
    return headers.Reader(text).read("pool.hpp")


class HeadersTest(unittest.TestCase):
    def test_finds_public_names_only(self):
        names = [each.qualified for each in headers.all_of(read().declarations)]
        self.assertEqual(names, [
            "CENOTE_ONE", "cenote::kind", "cenote::kind::one", "cenote::kind::two", "cenote::pool",
            "cenote::pool::pool", "cenote::pool::pool", "cenote::pool::operator=",
            "cenote::pool::~pool", "cenote::pool::acquire_for", "cenote::pool::acquire_until",
            "cenote::pool::undocumented", "cenote::pool::operator==", "cenote::pool::what",
            "cenote::pool::counts", "cenote::pool::plain", "cenote::connector", "cenote::many"])

    def test_reads_declarations_without_bodies(self):
        text = {each.name: each.text for each in headers.all_of(read().declarations)}
        self.assertEqual(text["acquire_for"],
                         "[[nodiscard]] lease<T> acquire_for(int timeout = {}) const noexcept")
        constructor = read().declarations[2].members[0].text
        self.assertEqual(constructor, "explicit pool(std::function<void(int)> f = {})")

    def test_reads_comments(self):
        found = {each.name: each for each in headers.all_of(read().declarations)}
        self.assertEqual(found["one"].doc, ["The first,", "indeed."])
        self.assertEqual(found["two"].doc, ["Another."])
        self.assertEqual(found["counts"].doc, ["Of each."])
        self.assertTrue(found["acquire_until"].follows)

    def test_finds_names_without_comment(self):
        self.assertEqual([each.name for each in headers.undocumented(read())],
                         ["undocumented", "many"])


class ReferenceTest(unittest.TestCase):
    def setUp(self):
        header = read()
        self.page = reference.Page(header, reference.Index([header])).markdown()

    def test_links_names_in_comments(self):
        self.assertIn("see [`kind::one`](#kind.one) and [`acquire_for()`](#pool.acquire_for):",
                      self.page)

    def test_shows_samples_as_code(self):
        self.assertIn("```cpp\npool p{1};\n```", self.page)

    def test_puts_declarations_that_share_a_comment_under_one_heading(self):
        self.assertIn("### acquire_for(), acquire_until() { #pool.acquire_for }", self.page)
        self.assertIn('<span id="pool.acquire_until"></span>', self.page)

    def test_shows_enumerators_as_a_table(self):
        self.assertIn('| <span id="kind.one"></span>`one` | The first, indeed. |', self.page)

    def test_tells_what_can_be_copied(self):
        self.assertIn("Cannot be copied or moved.", self.page)


if __name__ == "__main__":
    unittest.main()
