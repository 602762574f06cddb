#!/usr/bin/env python3
"""Searches the log of the current ctest run for the canary password of the test servers.

usage: canary.py BUILD_FOLDER      (the folder whose legs are built in it)

Runs as the last test. Also fails if there is no log, or no output of a test in the log.
"""

import sys
from pathlib import Path

# In pieces, since a log may quote this file.
CANARY = b"c4n4ry" b"-Zx9-pw"


def main():
    logs = sorted(Path(sys.argv[1]).glob("*/Testing/Temporary/LastTest.log.tmp"),
                  key=lambda log: log.stat().st_mtime)
    if not logs:
        print("no ctest run is writing a log")
        return 1
    text = logs[-1].read_bytes()
    if b"_test" not in text:
        print(f"{logs[-1]} has no output of a test")
        return 1
    found = [line for line in text.splitlines() if CANARY in line]
    for line in found[:10]:
        where = line.replace(CANARY, b"<password>").decode(errors="replace")
        print("a password was printed:", where)
    if not found:
        print(f"{len(text)} bytes, no password")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
