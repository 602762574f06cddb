#!/usr/bin/env python3
"""Tests that scripts/abi notices a change of each kind. Needs a built libcenote.so."""

import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "include" / "cenote" / "cenote.h"
REFERENCE = ROOT / "src" / "c" / "cenote.abi"


class AbiTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def changed(self, path, old, new):
        """A copy of a file with one change."""
        text = path.read_text(encoding="utf-8")
        self.assertIn(old, text)
        copy = self.folder / path.name
        copy.write_text(text.replace(old, new, 1), encoding="utf-8")
        return copy

    def compare(self, header=HEADER, reference=REFERENCE):
        done = subprocess.run([ROOT / "scripts" / "abi", header, reference], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout

    def assert_differs(self, expected, **files):
        code, output = self.compare(**files)
        self.assertEqual(code, 1, output)
        self.assertIn(expected, output)
        self.assertIn("scripts/abi --accept", output)

    def test_the_same_is_the_same(self):
        self.assertEqual(self.compare(), (0, ""))

    def test_a_new_member(self):
        self.assert_differs("'int64_t more'", header=self.changed(
            HEADER, "} cenote_acquire_options;", "    int64_t more;\n} cenote_acquire_options;"))

    def test_a_member_of_another_type(self):
        self.assert_differs("cenote_threshold", header=self.changed(
            HEADER, "typedef struct cenote_threshold {\n    size_t size;",
            "typedef struct cenote_threshold {\n    unsigned size;"))

    def test_a_parameter_of_another_type(self):
        self.assert_differs("cenote_close", header=self.changed(
            HEADER, "cenote_close(cenote_pool pool, int64_t timeout",
            "cenote_close(cenote_pool pool, int32_t timeout"))

    def test_another_value_of_an_enumerator(self):
        self.assert_differs("CENOTE_FIFO", header=self.changed(
            HEADER, "CENOTE_FIFO = 1", "CENOTE_FIFO = 2"))

    def test_a_new_enumerator(self):
        self.assert_differs("CENOTE_RANDOM", header=self.changed(
            HEADER, "CENOTE_FIFO = 1", "CENOTE_FIFO = 1, CENOTE_RANDOM = 2"))

    def test_a_symbol_that_the_reference_lacks(self):
        lines = REFERENCE.read_text(encoding="utf-8").splitlines(keepends=True)
        copy = self.folder / REFERENCE.name
        copy.write_text("".join(line for line in lines if "_cenote_detach'" not in line),
                        encoding="utf-8")
        self.assert_differs("cenote_detach", reference=copy)

    def test_a_symbol_that_moved_to_another_version(self):
        text = REFERENCE.read_text(encoding="utf-8")
        copy = self.folder / REFERENCE.name
        copy.write_text(text.replace("CENOTE_0_1_cenote_pause", "CENOTE_0_0_cenote_pause"),
                        encoding="utf-8")
        self.assert_differs("CENOTE_0_1_cenote_pause", reference=copy)


if __name__ == "__main__":
    unittest.main()
