#!/usr/bin/env python3
"""Tests the site of the documents in a browser: no page is wider than a desk's or a phone's screen.

usage: site_browser.py SITE SCREENSHOTS

SITE is the folder that `make docs` writes; screenshots are written to the folder SCREENSHOTS.
"""

import sys
import tempfile
import unittest
from pathlib import Path

import chromium

# The start page, one of the guide and of the reference, and those with the widest tables.
PAGES = {"start": "index.html", "options": "docs/guide/options.html",
         "pool": "reference/pool.html", "hikaricp": "docs/guide/coming_from/hikaricp.html",
         "benchmarks": "docs/benchmarks.html"}
WIDTHS = (1200, 400)
SCHEMES = ("light", "dark")

# Lists what is wrong on the page: what is beyond its edges or scrolls sideways. Only code may
# scroll, in its own block.
FAULTS = """
const faults = [], edge = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth > edge)
  faults.push("the page is " + document.documentElement.scrollWidth + " wide");
const scrolls = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
for (const each of document.querySelectorAll(".md-content *")) {
  const box = each.getBoundingClientRect();
  if (box.width === 0 || each.closest("pre code")) continue;
  const name = each.tagName + " " + each.textContent.trim().slice(0, 30);
  if (box.left < -0.5 || box.right > edge + 0.5) faults.push(name + " is beyond the edge");
  if (scrolls(each) && each.scrollWidth > each.clientWidth + 1) faults.push(name + " scrolls");
}
return faults;
"""


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(profile.cleanup)
        cls.browser = chromium.start(profile.name)
        cls.addClassCleanup(cls.browser.quit)

    def open(self, page, width, scheme):
        chromium.look_at(self.browser, width, scheme=scheme)
        self.browser.get((SITE / page).as_uri())
        # The theme keeps the scheme of the first visit.
        self.browser.execute_script("localStorage.clear()")
        self.browser.refresh()

    def test_no_page_is_too_wide(self):
        for name, page in PAGES.items():
            for width in WIDTHS:
                with self.subTest(page=page, width=width):
                    self.open(page, width, "light")
                    chromium.picture(self.browser, SCREENSHOTS / f"site-{name}-{width}.png")
                    self.assertEqual(self.browser.execute_script(FAULTS), [])

    def test_the_schemes_have_their_own_colors(self):
        grounds = set()
        for scheme in SCHEMES:
            self.open("index.html", 1200, scheme)
            chromium.picture(self.browser, SCREENSHOTS / f"site-start-1200-{scheme}.png")
            grounds.add(self.browser.execute_script(
                "return getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(grounds), 2)

    def test_a_phone_shows_the_comparison_as_a_list(self):
        self.open("index.html", 400, "light")
        rows = self.browser.execute_script("""
            const cells = [...document.querySelectorAll(".md-content table td:nth-child(2)")];
            return cells.map((e) => getComputedStyle(e, "::before").content);""")
        self.assertEqual(set(rows), {'"cenote: "'})


if __name__ == "__main__":
    SITE, SCREENSHOTS = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
