#!/usr/bin/env python3
"""Proves that each rule of site_check.py fires, and how pages.py converts Markdown."""

import sys
import tempfile
import unittest
from pathlib import Path

import site_check
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs/site"))
import pages  # noqa: E402

SOUND = {
    "index.html": '<h1 id="top">A</h1><p>Read <a href="guide/one.html#b">on</a>, '
                  '<a href="#top">up</a>, <a href="https://example.com">out</a>.</p>'
                  '<script src="site.js"></script><pre>| a |---| ** ](</pre>',
    "guide/one.html": '<h2 id="b">B</h2><a href="..">back</a>',
    "site.js": "",
    "site.css": "a { background: url(data:x) }",
}


class SiteTest(unittest.TestCase):
    def findings(self, changes):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (SOUND | changes).items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return site_check.Site(folder).check()

    def assert_fires(self, changes, message):
        findings = self.findings(changes)
        self.assertEqual(len(findings), 1, findings)
        self.assertIn(message, findings[0])

    def test_is_silent_on_a_sound_site(self):
        self.assertEqual(self.findings({}), [])

    def test_links(self):
        self.assert_fires({"guide/one.html": '<h2 id="c">C</h2>'}, "no such anchor")
        self.assert_fires({"a.html": '<a href="gone.html">x</a>'}, "does not exist")
        self.assert_fires({"a.html": '<p><a href="#gone">x</a>'}, "no such anchor")

    def test_loads_nothing(self):
        self.assert_fires({"a.html": '<script src="https://example.com/x.js"></script>'},
                          "another server")
        self.assert_fires({"a.html": '<link rel="stylesheet" href="//example.com/x.css">'},
                          "another server")
        self.assert_fires({"site.css": "a { background: url(https://example.com/x) }"},
                          "another server")

    def test_words(self):
        self.assert_fires({"a.html": "<p>see [this](that.md)</p>"}, "a link is not recognized")
        self.assert_fires({"a.html": "<p>a\x0242\x03b</p>"}, "an escape is not recognized")
        self.assert_fires({"a.html": "<p>|---|---|</p>"}, "a table is not recognized")


class PagesTest(unittest.TestCase):
    def test_lists(self):
        self.assertEqual(pages.for_mkdocs("Text:\n- one\n  more\n  - two\n\n  ```\n  code\n"
                                          "    in\n  ```\n\nEnd."),
                         "Text:\n\n- one\n    more\n    - two\n\n    ```\n    code\n"
                         "      in\n    ```\n\nEnd.")

    def test_text_stays(self):
        text = "# A\n\nText\nmore - text\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n    code\n"
        self.assertEqual(pages.for_mkdocs(text), text)


if __name__ == "__main__":
    unittest.main()
