#!/usr/bin/env python3
"""Collects the pages of the site, for mkdocs: scripts/docs calls it.

usage: pages.py OUT      writes OUT/pages and OUT/mkdocs.yml

The pages lie as in the repository, so that their links stay true. Pages come from three places:

- the Markdown files of the repository: those at the top, docs/, and all others that are linked to;
- the public headers (reference.py);
- other files that a page links to: each becomes a page that shows its text.

The navigation follows docs/guide/README.md: its tables are the sections, its rows the pages.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import reference

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
LANGUAGES = {".cpp": "cpp", ".hpp": "cpp", ".h": "c", ".c": "c", ".py": "python", ".js": "js",
             ".cmake": "cmake", ".sh": "sh", ".css": "css", ".html": "html", ".json": "json"}


def parts(text):
    """(is code, text) of each part of a page: fenced blocks are code."""
    at = 0
    for match in re.finditer(r"^ *```.*?^ *```[^\n]*\n", text, re.MULTILINE | re.DOTALL):
        yield False, text[at:match.start()]
        yield True, match[0]
        at = match.end()
    yield False, text[at:]


def for_mkdocs(text):
    """GitHub's Markdown as Python-Markdown reads it: lists are indented by four, and begin after
    an empty line."""
    out, items, fenced, blank = [], [], False, True
    for line in text.split("\n"):
        bare = line.lstrip(" ")
        indent = len(line) - len(bare)
        marker = None if fenced else re.match(r"([-*+]|\d+[.)])( +)\S", bare)
        if bare and not fenced and (marker or blank):
            while items and indent < items[-1][1]:
                items.pop()
        if marker:
            if not items and not blank:
                out.append("")
            out.append("    " * len(items) + bare)
            items.append((indent, indent + marker.end() - 1))
        elif not bare:
            out.append("")
        else:
            extra = max(0, indent - items[-1][1]) if items else indent
            out.append("    " * len(items) + " " * extra + bare)
        if bare.startswith("```"):
            fenced = not fenced
        blank = not bare
        if not items and not fenced and re.match(r"[-*+] ", out[-1].lstrip()):
            blank = False
    return "\n".join(out)


class Site:
    def __init__(self, out):
        self.out = out / "pages"
        self.written = {}  # path in the repository: path of its page
        self.waiting = []
        self.reference, self.reference_nav = reference.make(ROOT)

    def make(self):
        for name, text in self.reference.items():
            self.write(f"reference/{name}", text)
        for page in TOP:
            self.want(ROOT / page)
        for page in sorted((ROOT / "docs").glob("**/*.md")):
            self.want(page)
        while self.waiting:
            self.convert(self.waiting.pop())

    def write(self, name, text):
        target = self.out / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def want(self, path):
        """The page of a file or folder, relative to the top of the pages; None if there is none."""
        name = path.relative_to(ROOT).as_posix()
        if name in self.written:
            return self.written[name]
        header = re.fullmatch(r"include/cenote/(\w+\.hp?p?)", name)
        if path.is_dir() and (path / "README.md").is_file():
            return self.want(path / "README.md")
        if header and reference.file_of(header[1]) in self.reference:
            page = f"reference/{reference.file_of(header[1])}"
        elif path.is_dir():
            page = f"{name}/index.md"
            self.waiting.append(path)
        elif path.suffix in (".png", ".svg"):
            page = name
            (self.out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, self.out / name)
        elif path.is_file():
            page = name if path.suffix == ".md" else f"{name}.md"
            self.waiting.append(path)
        else:
            return None
        self.written[name] = page
        return page

    def convert(self, path):
        name = path.relative_to(ROOT).as_posix()
        page = self.written[name]
        if path.is_dir():
            text = self.listing(path)
        elif path.suffix == ".md":
            text = self.markdown(path)
        else:
            text = f"# {name}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n" \
                   f"{path.read_text(encoding='utf-8').rstrip()}\n````\n"
        self.write(page, text)

    def listing(self, folder):
        """The page of a folder that has no README.md."""
        rows = [f"# {folder.relative_to(ROOT).as_posix()}", ""]
        for each in sorted(folder.iterdir()):
            if each.suffix == ".md":
                rows.append(f"- [{title_of(each)}]({each.name})")
                self.want(each)
        return "\n".join(rows) + "\n"

    def markdown(self, path):
        folder = path.parent
        text = path.read_text(encoding="utf-8")
        # What is quoted from a file says so, with a link to it.
        quote = re.compile(r"<!-- quoted from (\S+) -->\n(```.*?\n```\n)", re.DOTALL)
        text = quote.sub(lambda m: f"{m[2]}\nFrom [{m[1]}]({os.path.relpath(ROOT / m[1], folder)})"
                                   "\n{ .quoted }\n", text)
        out = [part if code else self.linked(part, folder) for code, part in parts(text)]
        # The first page has no neighbors in the navigation.
        alone = "---\nhide:\n  - navigation\n---\n" if path == ROOT / "README.md" else ""
        return alone + for_mkdocs("".join(out))

    def linked(self, text, folder):
        def link(match):
            if re.match(r"[a-z]+:", match[2]):
                return match[0]
            page = self.want((folder / match[2]).resolve())
            if page is None:
                return match[0]
            return match[1] + self.relative(page, folder) + (match[3] or "") + match[4]

        def header(match):
            name = reference.file_of(match[1])
            if name not in self.reference:
                return match[0]
            return f"[{match[0]}]({self.relative('reference/' + name, folder)})"

        def decision(match):
            found = sorted((ROOT / "docs/decisions").glob(f"{match[1]}-*.md"))
            if not found:
                return match[0]
            return f"[{match[0]}]({self.relative(self.want(found[0]), folder)})"

        text = LINK.sub(link, text)
        text = re.sub(r"(?<!\[)\bdecision (\d{4})\b(?!\])", decision, text)
        return re.sub(r"(?<!\[)`<?(?:include/)?cenote/(\w+\.hp?p?)>?`", header, text)

    @staticmethod
    def relative(page, folder):
        return os.path.relpath(page, folder.relative_to(ROOT))

    # ---- Navigation -------------------------------------------------------------------------

    def navigation(self):
        guide, listed = sections(ROOT / "docs/guide/README.md")
        rest = sorted(page for page in (ROOT / "docs/guide").glob("**/*.md")
                      if page not in listed and page.name != "README.md")
        if rest:
            guide.append({"More": [self.entry(page) for page in rest]})
        guide.insert(0, {"Contents": "docs/guide/README.md"})
        headers = [{group: [{name: f"reference/{file}"} for name, file in each]}
                   for group, each in self.reference_nav]
        inside = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/internals.md", "docs/simulator.md",
                  "docs/benchmarks.md"]
        others = sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").glob("*.md"))
        inside += [page for page in others if page not in inside]
        decisions = sorted((ROOT / "docs/decisions").glob("*.md"))
        return [{"Start": "README.md"}, {"Guide": guide},
                {"Reference": [{"Contents": "reference/index.md"}, *headers]},
                {"Internals": [self.entry(ROOT / page) for page in inside] +
                              [{"Decisions": [self.entry(page) for page in decisions]}]},
                {"Changes": ["CHANGELOG.md", "SECURITY.md"]}]

    @staticmethod
    def entry(page):
        return {title_of(page): page.relative_to(ROOT).as_posix()}


def sections(contents):
    """The tables of a page of contents as navigation, and the pages that they list."""
    text = contents.read_text(encoding="utf-8")
    found, listed = [], set()
    for table in re.finditer(r"^\| (.*?) \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE):
        pages = []
        for row in table[2].splitlines():
            for title, target in re.findall(r"\[([^\]]+)\]\(([^)#]+\.md)\)", row):
                path = (contents.parent / target).resolve()
                if path not in listed and path.is_file():
                    pages.append({title: path.relative_to(ROOT).as_posix()})
                    listed.add(path)
        found.append({table[1][0].upper() + table[1][1:]: pages})
    return found, listed


def title_of(page):
    title = re.search(r"^# (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return title[1].replace("`", "") if title else page.stem


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1]).resolve()
    shutil.rmtree(out / "pages", ignore_errors=True)
    site = Site(out)
    site.make()
    for asset in sorted((HERE / "assets").iterdir()):
        (site.out / "assets").mkdir(exist_ok=True)
        shutil.copyfile(asset, site.out / "assets" / asset.name)
    config = {"INHERIT": str(HERE / "mkdocs.yml"), "hooks": [str(HERE / "hooks.py")],
              "theme": {"custom_dir": str(HERE / "theme")}, "docs_dir": str(site.out),
              "site_dir": str(out / "site"), "nav": site.navigation()}
    (out / "mkdocs.yml").write_text(json.dumps(config, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
