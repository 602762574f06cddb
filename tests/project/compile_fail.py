#!/usr/bin/env python3
"""Tests that the compiler refuses a mistake, and that its first lines say why.

usage: compile_fail.py FILE COMPILER [FLAG...]

A file has one mistake or several. One mistake: the first line is an expectation, and the mistake is
compiled unless CENOTE_CONTROL is defined. Several: each is in its own

    #if CENOTE_MISTAKE == 1  // expect within 2: <regex>

and none is compiled if CENOTE_MISTAKE is 0. The file must compile without its mistakes, which
excludes all other errors. With a mistake it must not compile, and the regular expression must match
one of the first lines of the compiler's output (15 lines, unless the expectation says how many).
`expect clang` and `expect gcc` are for one compiler only; another one may accept the mistake.
"""

import re
import subprocess
import sys

EXPECTATION = r"// expect(?: (?P<only>clang|gcc))?(?: within (?P<lines>\d+))?: (?P<text>.+)"
MISTAKE = re.compile(r"CENOTE_MISTAKE == (?P<number>\d+)  " + EXPECTATION)
LINES = 15


def compile_case(command, path, *more):
    # -c rather than -fsyntax-only: templates must be instantiated for their assertions to fire.
    run = subprocess.run([*command, *more, "-c", path, "-o", "/dev/null"],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return run.returncode == 0, run.stdout


def cases_of(text):
    """What to define without a mistake, and (what to define, expectation) for each mistake."""
    mistakes = list(MISTAKE.finditer(text))
    if mistakes:
        define = "-DCENOTE_MISTAKE="
        return define + "0", [(define + each["number"], each) for each in mistakes]
    one = re.match(EXPECTATION, text)
    return "-DCENOTE_CONTROL", [("-DCENOTE_ERROR", one)] if one else []


def problem_of(compiled, output, expectation):
    """Why the compiler's answer to a mistake is not as expected; None if it is."""
    if compiled:
        return "must not compile, and does"
    lines = output.splitlines()
    said = [number for number, line in enumerate(lines, 1) if re.search(expectation["text"], line)]
    if not said:
        return f"refused, but nothing above matches: {expectation['text']}"
    limit = int(expectation["lines"] or LINES)
    if said[0] > limit:
        return f"said in line {said[0]} only, not in the first {limit}: {expectation['text']}"
    return None


def main(path, *command):
    with open(path, encoding="utf-8") as file:
        control, cases = cases_of(file.read())
    if not cases:
        return f"{path}:1: the first line must be '// expect: <regex>'"
    compiler = "clang" if "clang" in command[0] else "gcc"
    cases = [case for case in cases if case[1]["only"] in (None, compiler)]
    if not cases:
        return None
    compiled, output = compile_case(command, path, control)
    if not compiled:
        return f"{output}\n{path}:1: must compile with {control}, and does not"
    for define, expectation in cases:
        compiled, output = compile_case(command, path, define)
        problem = problem_of(compiled, output, expectation)
        if problem:
            return f"{output}\n{path}: {define}: {problem}"
    return None


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
