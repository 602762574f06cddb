#!/usr/bin/env python3
"""Counts the instructions of one acquire and release; fails if they are too many.

usage: instructions.py VALGRIND PROGRAM LIMIT

The program runs twice under callgrind with different numbers of cycles; the difference is the cost
of the cycles. Only the function make_cycles is counted: the work of the threads that open resources
depends on the load of the machine.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

FEW, MANY = 2_000, 22_000


def count(valgrind, program, cycles):
    """The instructions of one run."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        command = [valgrind, "--tool=callgrind", "--toggle-collect=make_cycles",
                   f"--callgrind-out-file={out}", program, str(cycles)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"{' '.join(command)}\nended with {run.returncode}:\n{run.stderr}")
        # One line per process; the program does not fork.
        totals = re.findall(r"^(?:totals|summary): (\d+)", out.read_text(), re.MULTILINE)
        if not totals:
            sys.exit(f"callgrind wrote no totals:\n{run.stderr}")
        return int(totals[-1])


def main():
    valgrind, program, limit = sys.argv[1], sys.argv[2], float(sys.argv[3])
    each = (count(valgrind, program, MANY) - count(valgrind, program, FEW)) / (MANY - FEW)
    print(f"{each:.1f} instructions per acquire and release, {limit:.0f} are allowed")
    return 1 if each > limit else 0


if __name__ == "__main__":
    sys.exit(main())
