#!/usr/bin/env python3
"""Runs clang-analyzer over one source, and prints what it reports in this project.

Reports in third-party headers are dropped: the analyzer does not know how a coroutine's promise is
constructed, and reports the pointers in Asio's promises as uninitialized.

usage: analyze.py BUILD_FOLDER SOURCE
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REPORT = re.compile(r"^(?P<file>/[^:]+):\d+:\d+: (?:warning|error): .*\[(?P<check>[^\],]+)")
# A third of the default effort for each function: twice as fast. The missed reports would be deep
# in functions longer than any here.
EFFORT = "max-nodes=75000"


def reports(text):
    """The reports in clang-tidy's output, each with its lines of explanation."""
    found = []
    for line in text.splitlines(keepends=True):
        begins = REPORT.match(line)
        if begins:
            found.append((begins["file"], begins["check"], [line]))
        elif found:
            found[-1][2].append(line)
    return found


def is_ours(file, check):
    """Reports of other checks mean that the source does not compile, and count everywhere."""
    return file.startswith(ROOT + os.sep) or not check.startswith("clang-analyzer")


def main(tree, source):
    flags = ["-Xclang", "-analyzer-config", "-Xclang", EFFORT]
    run = subprocess.run(
        ["clang-tidy-19", "--quiet", "-p", tree,
         "--checks=-*,clang-analyzer-*,-clang-analyzer-optin.performance.Padding",
         *(f"--extra-arg={flag}" for flag in flags), source],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    found = reports(run.stdout)
    ours = [lines for file, check, lines in found if is_ours(file, check)]
    sys.stdout.writelines(line for lines in ours for line in lines)
    if run.returncode != 0 and not found:
        print(f"{source}: clang-tidy failed\n{run.stdout}{run.stderr}")
        return 1
    return 1 if ours else 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
