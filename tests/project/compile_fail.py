#!/usr/bin/env python3
"""Tests that the compiler refuses a file, and for the expected reason.

usage: compile_fail.py FILE COMPILER [FLAG...]

With CENOTE_CONTROL defined the file must compile, which excludes all other errors. Without
CENOTE_CONTROL it must not compile, and the compiler's output must match the regular expression in
the first line of the file, `// expect: <regex>`.
"""

import re
import subprocess
import sys


def compile_case(command, path, *more):
    # -c rather than -fsyntax-only: templates must be instantiated for their assertions to fire.
    run = subprocess.run([*command, *more, "-c", path, "-o", "/dev/null"],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return run.returncode == 0, run.stdout


def main(path, *command):
    with open(path, encoding="utf-8") as file:
        first = file.readline()
    expect = re.fullmatch(r"// expect: (.+)\n", first)
    if not expect:
        return f"{path}:1: the first line must be '// expect: <regex>'"

    compiled, output = compile_case(command, path, "-DCENOTE_CONTROL")
    if not compiled:
        return f"{output}\n{path}:1: must compile with CENOTE_CONTROL defined, and does not"

    compiled, output = compile_case(command, path)
    if compiled:
        return f"{path}:1: must not compile, and does"
    if not re.search(expect.group(1), output):
        return f"{output}\n{path}:1: refused, but nothing above matches: {expect.group(1)}"
    return None


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
