#!/usr/bin/env python3
"""Checks the documents: prints `file:line: message` for each finding, fails if there is one.

usage: documents.py [ROOT]      (ROOT: the repository, by default the one this file lies in)

Links lead to files and headings that exist. Each piece of C++ or C on a page is compiled by the
tests: it is quoted from a file that a CMakeLists.txt names (`<!-- quoted from FILE -->` stands
before it), or it stands in tests/project/page_samples*, or `<!-- not compiled: REASON -->` stands
before it. Samples in the comments of public headers stand in tests/project/header_samples*.cpp.
Each public name has a comment. The guide's contents list its pages, and its tables of options
follow the declarations. The README is short, has the words that people search for, and the numbers
of its comparison are those of docs/benchmarks.md.
documents_test.py proves that each rule fires.
"""

import math
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs/site"))
import headers  # noqa: E402

SAMPLES = "tests/project/header_samples*.cpp"
PAGE_SAMPLES = "tests/project/page_samples*"
# The structs whose options a page of the guide lists, in rows of tables: page, header, struct.
OPTIONS = (("options.md", "options.hpp", "options"),
           ("acquire.md", "options.hpp", "acquire_options"),
           ("database.md", "database.hpp", "database_options"),
           ("database.md", "database.hpp", "transaction_options"),
           ("listening.md", "listening.hpp", "listen_options"),
           ("dashboard.md", "dashboard.hpp", "dashboard_options"))

README_LINES_MAX = 150
SEARCHED = ("connection pool for C++20, threads and coroutines", "queue", "validation",
            "health check", "circuit breaker", "thread-safe", "leak")
# The measured rows of the README's comparison: workload and metric in docs/benchmarks.md.
MEASURED = {"cost of a lease": ("w1-one-thread", "cycle"),
            "contention: wait p99": ("w3-32-asleep-100us", "wait p99"),
            "contention: wait longest": ("w3-32-asleep-100us", "wait longest"),
            "contention: least/most": ("w3-32-asleep-100us", "least/most")}
# Columns of the comparison that docs/benchmarks.md calls otherwise: puddle is the pool in pgxpool.
MEASURED_AS = {"pgxpool": "puddle"}
NOT_MEASURED = "not measured"
UNITS = {"": 1, "ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3}


def heading_anchor(heading):
    """The anchor that GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def without_code(text):
    """The same lines, with nothing in code blocks and code spans."""
    text = re.sub(r"```.*?```", lambda m: re.sub(r"[^\n]", "", m[0]), text, flags=re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page):
    return {heading_anchor(re.sub(r"`", "", match[1])) for match in re.finditer(
        r"^#+ (.*)$", re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL),
        re.MULTILINE)}


def code_lines(text):
    """What counts of a piece of code: its lines without indentation and alignment."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def contains(whole, part):
    return any(whole[i:i + len(part)] == part for i in range(len(whole) - len(part) + 1))


def samples(text):
    """(line, lines of code) of each sample in doc comments: `///` and at least five spaces."""
    begin, found = None, []
    for number, line in enumerate(text.splitlines() + [""], 1):
        match = re.match(r"\s*///( {5,}(.*))?$", line)
        if match and match[2] is not None:
            begin = begin or number
            found.append(match[2])
        elif not match and found:
            yield begin, code_lines("\n".join(found))
            begin, found = None, []
        elif match is None or not found:
            continue
        elif match[1] is None:
            found.append("")


def cells(row):
    """The texts of a table's row; of a link, its words."""
    return [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell).strip()
            for cell in row.strip().strip("|").split("|")]


def name_and_unit(text):
    match = re.fullmatch(r"(.*?)(?: \((\w+)\))?", text)
    return match[1], UNITS.get(match[2] or "", 1)


def measurements(page, workload):
    """{(subject, metric): value in seconds or as it stands} of a workload in the benchmarks."""
    section = page.partition(f"\n### {workload}\n")[2].partition("\n### ")[0]
    rows = [cells(line) for line in section.splitlines() if line.startswith("|")]
    found = {}
    for row in rows[2:]:
        for head, cell in zip(rows[0][1:], row[1:]):
            metric, unit = name_and_unit(head)
            number = re.match(r"[\d.\s]+", cell)
            if number:
                found[row[0], metric] = float(re.sub(r"\s", "", number[0])) * unit
    return found


def three_digits(value):
    """A number as the README writes it: 3.50, 41.7, 807."""
    if value == 0:
        return "0"
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"


class Documents:
    """One look at a repository; `findings` is what is wrong with it."""

    def __init__(self, root):
        self.root = Path(root)
        self.findings = []
        self.built = {name for script in self.root.glob("**/CMakeLists.txt")
                      for name in re.findall(r"[\w.]+", script.read_text(encoding="utf-8"))}

    def report(self, path, line, message):
        self.findings.append(f"{path.relative_to(self.root)}:{line}: {message}")

    def run(self):
        pages = sorted(path for path in self.root.glob("**/*.md")
                       if path.relative_to(self.root).parts[0] != "build")
        for page in pages:
            self.check_links(page)
            self.check_quotes(page)
            self.check_code(page)
        self.check_readme(self.root / "README.md")
        self.check_samples()
        self.check_comments()
        self.check_contents()
        for page, header, struct in OPTIONS:
            self.check_options(self.root / "docs/guide" / page,
                               self.root / "include/cenote" / header, struct)
        return self.findings

    def check_links(self, page):
        text = without_code(page.read_text(encoding="utf-8"))
        for match in re.finditer(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", match[1]):
                continue
            line = text.count("\n", 0, match.start()) + 1
            name, _, anchor = match[1].partition("#")
            target = (page.parent / name).resolve() if name else page
            if not target.exists():
                self.report(page, line, f"links to '{match[1]}', which does not exist")
            elif anchor and target.suffix == ".md" and anchor not in anchors(target):
                self.report(page, line, f"links to '{match[1]}', which has no such heading")

    def check_quotes(self, page):
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(r"<!-- quoted from (\S+) -->\n```\w*\n(.*?)```", text, re.DOTALL):
            line = text.count("\n", 0, match.start()) + 1
            source = self.root / match[1]
            if not source.is_file():
                self.report(page, line, f"quotes '{match[1]}', which does not exist")
            elif not {source.name, source.stem} & self.built:
                self.report(page, line, f"quotes '{match[1]}', which no CMakeLists.txt names")
            elif not contains(code_lines(source.read_text(encoding="utf-8")),
                              code_lines(match[2])):
                self.report(page, line, f"its code does not stand in {match[1]}")

    def check_code(self, page):
        """Every piece of code is compiled somewhere. What it includes stands elsewhere there."""
        compiled = [line for each in sorted(self.root.glob(PAGE_SAMPLES))
                    for line in code_lines(each.read_text(encoding="utf-8"))]
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(r"(<!-- (?:quoted from|not compiled:) [^\n]* -->\n)?"
                                 r"^ *```(?:cpp|c|c\+\+)\n(.*?)^ *```",
                                 text, re.MULTILINE | re.DOTALL):
            code = [each for each in code_lines(match[2]) if not each.startswith("#include")]
            if not match[1] and not contains(compiled, code):
                line = text.count("\n", 0, match.start()) + 1
                self.report(page, line, f"this code is neither quoted nor in {PAGE_SAMPLES}")

    def check_comments(self):
        for path in sorted(self.root.glob("include/cenote/*.hpp")):
            header = headers.read(path)
            if not header.declarations:
                self.report(path, 1, "docs/site/headers.py finds no declaration in it")
            for each in headers.undocumented(header):
                self.report(path, each.line, f"'{each.qualified}' has no comment")
        self.check_c_comments(self.root / "include/cenote/cenote.h")

    def check_c_comments(self, path):
        """Each function of the C API has a comment, above it or above those that it follows
        without an empty line."""
        if not path.is_file():
            return
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r"^CENOTE_API [^;(]*?(\w+)\(", text, re.MULTILINE):
            above = text[:match.start()].rpartition("\n\n")[2]
            above = re.sub(r"^CENOTE_API [^;]*;\n", "", above, flags=re.MULTILINE)
            if not above.endswith("*/\n"):
                line = text.count("\n", 0, match.start()) + 1
                self.report(path, line, f"'{match[1]}' has no comment")

    def check_contents(self):
        """The contents of the guide list its pages; the navigation of the site follows them."""
        contents = self.root / "docs/guide/README.md"
        if not contents.is_file():
            return
        text = contents.read_text(encoding="utf-8")
        for page in sorted(contents.parent.glob("**/*.md")):
            name = page.relative_to(contents.parent).as_posix()
            if page != contents and f"({name})" not in text:
                self.report(page, 1, "docs/guide/README.md does not list this page")

    def check_options(self, page, header, struct):
        """The tables of a page name the members of a struct, in the order of declaration."""
        if not page.is_file():
            return
        members = [member.name for each in headers.read(header).declarations
                   if each.name == struct and each.members
                   for member in each.members
                   if member.kind == "variable" and not member.text.startswith("static ")]
        if not members:
            self.report(page, 1, f"lists options of {struct}, which {header.name} does not declare")
        rows = re.findall(r"^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \|",
                          page.read_text(encoding="utf-8"), re.MULTILINE)
        listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
        listed = [name for name in listed if name in members]
        if listed != members:
            at = next(i for i, pair in enumerate(zip(members, listed + [None] * len(members)))
                      if pair[0] != pair[1])
            self.report(page, 1, f"'{members[at]}' of {struct} is missing, or not in its order")

    def check_readme(self, page):
        text = page.read_text(encoding="utf-8")
        lines = text.splitlines()
        if len(lines) > README_LINES_MAX:
            self.report(page, len(lines), f"{len(lines)} lines, {README_LINES_MAX} are allowed: "
                                          "the details belong into the guide")
        plain = " ".join(without_code(text).split()).lower()
        for word in SEARCHED:
            if word.lower() not in plain:
                self.report(page, 1, f"lacks '{word}', which people search for")
        self.check_comparison(page, lines)

    def check_comparison(self, page, lines):
        """The numbers of the README's comparison are those of the benchmarks."""
        benchmarks = self.root / "docs/benchmarks.md"
        known = benchmarks.read_text(encoding="utf-8") if benchmarks.is_file() else ""
        pools, missing = [], dict(MEASURED)
        for number, line in enumerate(lines, 1):
            row = cells(line) if line.startswith("| ") else []
            if row[1:2] == ["cenote"]:
                pools = row[1:]
            label, unit = name_and_unit(row[0]) if row else ("", 1)
            workload, metric = missing.pop(label, (None, None))
            if workload is None:
                continue
            measured = measurements(known, workload)
            for pool, cell in zip(pools, row[1:]):
                value = measured.get((MEASURED_AS.get(pool, pool), metric))
                expected = NOT_MEASURED if value is None else three_digits(value / unit)
                if cell != expected:
                    self.report(page, number, f"'{label}' of {pool} is '{cell}'; according to "
                                              f"docs/benchmarks.md it is '{expected}'")
        for label in missing:
            self.report(page, 1, f"its comparison has no row '{label}'")

    def check_samples(self):
        compiled = [line for page in sorted(self.root.glob(SAMPLES))
                    for line in code_lines(page.read_text(encoding="utf-8"))]
        for header in sorted(self.root.glob("include/cenote/*.hpp")):
            for line, sample in samples(header.read_text(encoding="utf-8")):
                if not contains(compiled, sample):
                    self.report(header, line, f"this sample does not stand in {SAMPLES}")


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    findings = Documents(root).run()
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
