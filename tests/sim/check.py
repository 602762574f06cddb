#!/usr/bin/env python3
"""Runs the simulator and judges what it printed.

usage: check.py many PROGRAM SEEDS_MIN STEPS_MIN [OPTION...]   enough steps, and no finding
       check.py plants PROGRAM FAULTS_MIN [OPTION...]          every planted fault was found
       check.py same PROGRAM PROGRAM [OPTION...]               both print the same hash
       check.py express FAULTY PERCENT [OPTION...]             this share of the grants went by
                                                               express, and without express the
                                                               trace is the same
       check.py replay PROGRAM FAULTY FOLDER                   no recorded run fails, and each
                                                               still finds its fault

A failure ends with the command that repeats it.
"""

import re
import subprocess
import sys
from pathlib import Path


def run(program, *options):
    """Runs the simulator; returns its exit code and what it printed."""
    done = subprocess.run([program, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    print(f"$ {program} {' '.join(options)}\n{done.stdout}", flush=True)
    return done.returncode, done.stdout


def fail(message, printed=""):
    print(f"FAILED: {message}")
    for command in re.findall(r"replay: (.+)", printed):
        print(f"repeat: {command}")
    return 1


def count(pattern, printed):
    match = re.search(pattern, printed)
    return int(match[1]) if match else 0


def many(program, seeds_min, steps_min, *options):
    code, printed = run(program, *options)
    if code != 0:
        return fail(f"{program} ended with {code}", printed)
    seeds = count(r"^(\d+) seeds,", printed)
    steps = count(r"(\d+) checked steps", printed)
    if seeds < int(seeds_min) or steps < int(steps_min):
        return fail(f"{seeds} seeds and {steps} steps, expected {seeds_min} and {steps_min}")
    return 0


def plants(program, faults_min, *options):
    code, printed = run(program, "--plants", *options)
    found = count(r"(\d+) of \d+ planted faults found", printed)
    if code != 0 or found < int(faults_min):
        missed = ", ".join(re.findall(r"SURVIVED (\w+)", printed)) or "none"
        return fail(f"found {found}, expected {faults_min}; survived: {missed}")
    return 0


def same(first, second, *options):
    if not Path(first).is_file():
        return fail(f"there is no {first}: build the release preset first")
    results = [run(program, *options) for program in (first, second)]
    for code, printed in results:
        if code != 0:
            return fail(f"ended with {code}", printed)
    hashes = [printed.split()[-1] for _, printed in results]
    if hashes[0] != hashes[1]:
        return fail(f"hashes differ: {hashes[0]} and {hashes[1]}; compare the two with --seed N")
    return 0


def express(faulty, percent_min, *options):
    (code, printed), (code_without, without) = [
        run(faulty, *options, *extra) for extra in ([], ["--without-express"])]
    if code != 0 or code_without != 0:
        return fail(f"{faulty} ended with {code} and {code_without}", printed + without)
    grants = count(r"(\d+) grants", printed)
    for kind in ("passed on", "lent"):
        went = count(rf"(\d+) {kind}", printed)
        if 100 * went < int(percent_min) * grants:
            return fail(f"{went} of {grants} grants were {kind} by express")
        if count(rf"(\d+) {kind}", without) != 0:
            return fail("express is not off")
    if printed.split()[-1] != without.split()[-1]:
        return fail("express leaves a trace: compare the two with --seed N")
    return 0


def replay(program, faulty, folder):
    files = sorted(Path(folder).glob("*.txt"))
    if not files:
        return fail(f"no recorded runs in {folder}")
    plants = run(faulty, "--list-plants")[1].split()
    for file in files:
        if run(program, "--replay", str(file))[0] != 0:
            return fail("a recorded run fails", f"replay: {program} --replay {file}")
        if file.stem in plants and run(faulty, "--plant", file.stem, "--replay", str(file))[0] != 1:
            return fail(f"{file} no longer finds the fault it is named after")
    return 0


def main():
    checks = {"many": many, "plants": plants, "same": same, "express": express, "replay": replay}
    if len(sys.argv) < 3 or sys.argv[1] not in checks:
        print(__doc__)
        return 2
    return checks[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
