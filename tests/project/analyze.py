#!/usr/bin/env python3
"""Runs clang-analyzer over one source, and prints what it reports in this project.

Reports in headers of others are dropped: the analyzer does not know how a coroutine's promise is
made, and takes the pointers in Asio's for uninitialised.

usage: analyze.py BUILD_FOLDER SOURCE
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REPORT = re.compile(r"^(?P<file>/[^:]+):\d+:\d+: (?:warning|error): .*\[(?P<check>[^\],]+)")
# A third of the usual effort for each function: twice as fast. What it then misses lies deep in
# functions longer than any here.
EFFORT = "max-nodes=75000"


def reports(text):
    """The reports in what clang-tidy printed, each with its lines of explanation."""
    found = []
    for line in text.splitlines(keepends=True):
        begins = REPORT.match(line)
        if begins:
            found.append((begins["file"], begins["check"], [line]))
        elif found:
            found[-1][2].append(line)
    return found


def is_ours(file, check):
    """Whatever is no finding of the analyzer means that the source does not compile."""
    return file.startswith(ROOT + os.sep) or not check.startswith("clang-analyzer")


def main(tree, source):
    words = ["-Xclang", "-analyzer-config", "-Xclang", EFFORT]
    run = subprocess.run(
        ["clang-tidy-19", "--quiet", "-p", tree,
         "--checks=-*,clang-analyzer-*,-clang-analyzer-optin.performance.Padding",
         *(f"--extra-arg={word}" for word in words), source],
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
