#!/usr/bin/env python3
"""Builds the site of the documents and checks it: prints a line for each finding, fails if any.

usage: site_check.py OUT      (OUT: a folder for the site)

mkdocs builds with --strict. Every link leads to a file and to an anchor that exist, also inside a
page. Nothing is loaded from another server. No Markdown is left in the text of a page: GitHub and
mkdocs read some of it differently. site_test.py proves that each rule fires.
"""

import html.parser
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]


class Page(html.parser.HTMLParser):
    """The links, anchors and words of one page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors, self.words = [], [], set(), []
        self.skipped = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors.update(values[name] for name in ("id", "name") if values.get(name))
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in ("script", "img", "iframe", "source") and "src" in values:
            self.loads.append(values["src"])
        if tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.loads.append(values["href"])
        if tag in ("code", "pre", "script", "style"):
            self.skipped.append(tag)

    def handle_endtag(self, tag):
        if self.skipped and self.skipped[-1] == tag:
            self.skipped.pop()

    def handle_data(self, data):
        if not self.skipped:
            self.words.append(data)


class Site:
    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.pages = {path: Page(path.read_text(encoding="utf-8"))
                      for path in sorted(self.folder.glob("**/*.html"))}
        self.findings = []

    def report(self, path, message):
        self.findings.append(f"{path.relative_to(self.folder)}: {message}")

    def check(self):
        for path, page in self.pages.items():
            for link in page.links:
                self.check_link(path, link)
            for link in page.loads:
                if urlsplit(link).netloc:
                    self.report(path, f"loads '{link}' from another server")
                else:
                    self.check_link(path, link)
            self.check_words(path, " ".join(page.words))
        for sheet in sorted(self.folder.glob("**/*.css")):
            if re.search(r"url\([\"']?(https?:)?//|@import", sheet.read_text(encoding="utf-8")):
                self.report(sheet, "loads something from another server")
        return self.findings

    def check_link(self, path, link):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or path.name == "404.html":
            return
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if target.is_dir():
            target /= "index.html"
        if not target.is_file():
            self.report(path, f"links to '{link}', which does not exist")
        elif parts.fragment and target in self.pages and \
                unquote(parts.fragment) not in self.pages[target].anchors:
            self.report(path, f"links to '{link}', which has no such anchor")

    def check_words(self, path, text):
        for pattern, what in ((r"\]\(\S", "a link"), (r"\|-{3}", "a table"), (r"```", "code"),
                              (r"\*\*\w", "bold text"), (r"^ *- \w", "a list"),
                              ("[\2\3]", "an escape")):
            found = re.search(pattern, text)
            if found:
                around = " ".join(text[max(0, found.start() - 40):found.end() + 40].split())
                self.report(path, f"{what} is not recognized: …{around}…")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    built = subprocess.run([ROOT / "scripts/docs", "--to", sys.argv[1]], check=False)
    if built.returncode:
        return built.returncode
    findings = Site(Path(sys.argv[1]) / "site").check()
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
