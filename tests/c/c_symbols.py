#!/usr/bin/env python3
"""Checks that libcenote.so exports what its header declares and src/c/cenote.map lists, no more.

usage: c_symbols.py ROOT LIBRARY
"""

import re
import subprocess
import sys
from pathlib import Path


def in_header(root):
    text = (root / "include/cenote/cenote.h").read_text()
    return set(re.findall(r"CENOTE_API[^;]*?\b(cenote_[a-z_]+)\(", text))


def in_map(root):
    """Names and the version each came with."""
    found = {}
    version = None
    for line in (root / "src/c/cenote.map").read_text().splitlines():
        if begin := re.match(r"(CENOTE_[0-9.]+) \{", line):
            version = begin[1]
        elif name := re.match(r"\s+(cenote_[a-z_]+);", line):
            found[name[1]] = version
    return found


def in_library(library):
    told = subprocess.run(["nm", "--dynamic", "--defined-only", "--with-symbol-versions", library],
                          check=True, capture_output=True, text=True).stdout
    names = (line.split()[-1] for line in told.splitlines())
    # Skips the symbols of the versions.
    return dict(name.split("@@") for name in names if not name.startswith("CENOTE_"))


def main():
    root, library = Path(sys.argv[1]), sys.argv[2]
    header, listed, shown = in_header(root), in_map(root), in_library(library)
    problems = []
    for what, one, other in (("declared, but not in cenote.map", header, listed),
                             ("in cenote.map, but not declared", listed, header),
                             ("exported by the library, but not in cenote.map", shown, listed),
                             ("in cenote.map, but not exported by the library", listed, shown)):
        problems += [f"{name}: {what}" for name in sorted(set(one) - set(other))]
    problems += [f"{name}: {shown[name]} in the library, {listed[name]} in cenote.map"
                 for name in sorted(set(shown) & set(listed)) if shown[name] != listed[name]]
    print("\n".join(problems) or f"{len(listed)} symbols, as listed")
    return 1 if problems or not listed else 0


if __name__ == "__main__":
    sys.exit(main())
