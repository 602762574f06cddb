#!/usr/bin/env python3
"""Tests the page of `cenote bench --html` in a browser: nothing is clipped, on a desk or a phone.

usage: bench_report_browser.py CENOTE SCREENSHOTS

CENOTE is the command; screenshots are written to the folder SCREENSHOTS.
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import chromium

WIDTHS = (1200, 1000, 600, 400, 320)

# Lists what is wrong on the page: elements beyond its edges, cells and texts that are cut off.
FAULTS = """
const faults = [];
const edge = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth > edge)
  faults.push("the page is " + document.documentElement.scrollWidth + " wide");
const name = (e) => e.tagName + " " + (e.textContent || "").trim().slice(0, 30);
for (const each of document.body.querySelectorAll("*")) {
  const box = each.getBoundingClientRect();
  if (box.width === 0) continue;
  if (box.left < -0.5 || box.right > edge + 0.5) faults.push(name(each) + " is beyond the edge");
  if (!(each instanceof SVGElement) && each.scrollWidth > each.clientWidth + 1 &&
      getComputedStyle(each).display !== "inline")
    faults.push(name(each) + " is clipped");
}
for (const chart of document.querySelectorAll("svg")) {
  const around = chart.getBoundingClientRect();
  if (around.width === 0) continue;
  const texts = [...chart.querySelectorAll("text")].map((e) => [e, e.getBoundingClientRect()]);
  for (const [text, box] of texts) {
    if (box.left < around.left - 0.5 || box.right > around.right + 0.5)
      faults.push("chart text " + name(text) + " is cut off");
    if (box.height < 11) faults.push("chart text " + name(text) + " is tiny");
    for (const [other, its] of texts)
      if (other !== text && box.left < its.right && its.left < box.right && box.top + 2 < its.bottom
          && its.top + 2 < box.bottom)
        faults.push("chart text " + name(text) + " is on " + name(other));
  }
}
return faults;
"""


class BenchReport(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(folder.cleanup)
        cls.page = Path(folder.name) / "bench.html"
        # Seven sizes give a long legend; the refusals a warning.
        subprocess.run([CENOTE, "bench", "--max", "1,2,4,8,16,32,64", "--duration", "200ms",
                        "--warm-up", "0", "--hold", "12ms", "--concurrency", "70",
                        "--acquire-timeout", "30ms", "--html", str(cls.page)],
                       check=False, stdout=subprocess.DEVNULL)
        cls.browser = chromium.start(folder.name + "/profile")
        cls.addClassCleanup(cls.browser.quit)
        cls.browser.get(cls.page.as_uri())

    def look_at(self, width, scheme):
        chromium.look_at(self.browser, width, scheme=scheme)

    def picture(self, name):
        chromium.picture(self.browser, SCREENSHOTS / f"{name}.png", captureBeyondViewport=True)

    def test_nothing_is_clipped_at_any_width(self):
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                with self.subTest(width=width, scheme=scheme):
                    self.look_at(width, scheme)
                    self.picture(f"bench-{width}-{scheme}")
                    self.assertEqual(self.browser.execute_script(FAULTS), [])

    def test_every_number_has_a_title_at_any_width(self):
        for width in WIDTHS:
            self.look_at(width, "light")
            titles, untitled = self.browser.execute_script("""
                const head = getComputedStyle(document.querySelector("thead")).display !== "none";
                const cells = [...document.querySelectorAll("tbody td")];
                const before = (e) => getComputedStyle(e, "::before").content;
                return [head, cells.filter((e) => !head && before(e) === "none").length];""")
            self.assertEqual(untitled, 0)
            self.assertEqual(titles, width > 1100)

    def test_times_have_units(self):
        cells, axis = self.browser.execute_script("""
            const texts = (s) => [...document.querySelectorAll(s)].map((e) => e.textContent);
            return [texts("tbody tr td:nth-child(9)"), texts("svg text[text-anchor=end]")];""")
        self.assertTrue(cells)
        for cell in cells:
            self.assertRegex(cell, r"^[\d.]+ (µs|ms|s)$")
        self.assertIn("100 ms", axis)
        self.assertNotIn(" us", "".join(cells + axis))

    def test_the_schemes_have_their_own_colors(self):
        grounds = set()
        for scheme in ("light", "dark"):
            self.look_at(1200, scheme)
            grounds.add(self.browser.execute_script(
                "return getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(grounds), 2)


if __name__ == "__main__":
    CENOTE, SCREENSHOTS = sys.argv[1], Path(sys.argv[2])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
