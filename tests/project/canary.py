#!/usr/bin/env python3
"""No password in what the tests printed: the servers' canary password is looked for in the log of
the ctest run that this is a part of.

usage: canary.py BUILD_FOLDER      (the folder whose legs are built in it)

The last test of a run. Fails as well if there is no log, or nothing in it that could have leaked.
"""

import sys
from pathlib import Path

# In pieces: this file may be quoted in a log, too.
CANARY = b"c4n4ry" b"-Zx9-pw"


def main():
    logs = sorted(Path(sys.argv[1]).glob("*/Testing/Temporary/LastTest.log.tmp"),
                  key=lambda log: log.stat().st_mtime)
    if not logs:
        print("no ctest run is writing a log")
        return 1
    text = logs[-1].read_bytes()
    if b"_test" not in text:
        print(f"{logs[-1]} tells of no test")
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
