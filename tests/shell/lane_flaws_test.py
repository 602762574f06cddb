#!/usr/bin/env python3
# A flaw that no longer applies to the lane must stop the build, and say which flaw it is.
"""usage: lane_flaws_test.py SHELF LANE"""

import subprocess
import sys
import tempfile
from pathlib import Path

GENERATOR = Path(__file__).with_name("lane_flaws.py")


def generate(folder, shelf, lane):
    """The generator's exit code, what it says, and whether it wrote the header."""
    paths = [folder / name for name in ("shelf.hpp", "lane.hpp", "flaws.hpp")]
    for path, text in zip(paths, (shelf, lane)):
        path.write_text(text, encoding="utf-8")
    paths[2].unlink(missing_ok=True)
    done = subprocess.run([sys.executable, "-B", GENERATOR, *paths], text=True, check=False,
                          capture_output=True)
    return done.returncode, done.stderr, paths[2].exists()


def main():
    shelf, lane = (Path(path).read_text(encoding="utf-8") for path in sys.argv[1:])
    counted = "recalled_ = pool_.leased();"
    swapped = "? nullptr : place.exchange(nullptr);"
    assert counted in lane and swapped in shelf
    cases = (
        ("as it is", shelf, lane, None),
        ("reformatted", shelf, lane.replace(counted, "recalled_ =\n  pool_.leased();"), None),
        ("gone", shelf, lane.replace(counted, "recalled_ = 1;"),
         "recall_forgets_those_out: 0 times"),
        ("twice", shelf, lane.replace(counted, 2 * counted), "recall_forgets_those_out: 2 times"),
        ("gone from the shelf", shelf.replace(swapped, "? nullptr : nullptr;"), lane,
         "put_does_not_look_again: 0 times"),
        ("no namespace", shelf, lane.replace("cenote::shell", "cenote::core"), "no namespace"),
    )
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, shelf_text, lane_text, complaint in cases:
            code, said, written = generate(Path(folder), shelf_text, lane_text)
            well = complaint is None
            if written != well or (code == 0) != well or (complaint or "") not in said:
                print(f"{name}: exit code {code}, header written: {written}: {said}")
                failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
