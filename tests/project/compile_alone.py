#!/usr/bin/env python3
"""Compiles one source with the flags of a build tree, without output, to find missing includes.

usage: compile_alone.py BUILD_FOLDER SOURCE
"""

import json
import os
import shlex
import subprocess
import sys


def main(tree, source):
    with open(os.path.join(tree, "compile_commands.json"), encoding="utf-8") as file:
        known = json.load(file)
    for each in known:
        if os.path.realpath(each["file"]) == os.path.realpath(source):
            command = [part for part in shlex.split(each["command"]) if part != "-c"]
            command[command.index("-o"):command.index("-o") + 2] = ["-fsyntax-only"]
            return subprocess.run(command, cwd=each["directory"], check=False).returncode
    print(f"{source}: not built here")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
