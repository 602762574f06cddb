#!/usr/bin/env python3
# Faults that no longer fit the sources must stop the build by name; changes must be switched right.
"""usage: faults_test.py"""

import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import schema  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CLOSE = "refuse(line_.head(), errc::closed, out)"


class Generator(unittest.TestCase):
    """The whole list, planted in a copy of the sources."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        for part in ("src/core", "src/sim", "tests/sim"):
            shutil.copytree(ROOT / part, self.root / part)
        self.control = self.root / "src/core/machine_control.cpp"

    def generate(self, old=CLOSE, new=CLOSE):
        """The exit code, what was said, and the folder with the result, after one edit."""
        text = self.control.read_text(encoding="utf-8")
        self.assertEqual(text.count(old), 1)
        self.control.write_text(text.replace(old, new), encoding="utf-8")
        script = Path(__file__).with_name("faults.py")
        done = subprocess.run([sys.executable, "-B", script, self.root, self.root / "out"],
                              text=True, check=False, capture_output=True)
        return done.returncode, done.stderr, self.root / "out"

    def test_copies_every_source_with_as_many_lines(self):
        code, said, out = self.generate()
        self.assertEqual((code, said), (0, ""))
        for room in ("core", "sim"):
            for path in (self.root / "src" / room).iterdir():
                copy = out / room / path.name
                self.assertEqual(len(copy.read_text(encoding="utf-8").splitlines()),
                                 len(path.read_text(encoding="utf-8").splitlines()), path)
        self.assertIn("is_on(", (out / "small_world.cpp").read_text(encoding="utf-8"))

    def test_leaves_unchanged_copies_alone(self):
        _, _, out = self.generate()
        before = (out / "core/line.cpp").stat().st_mtime_ns
        self.generate()
        self.assertEqual((out / "core/line.cpp").stat().st_mtime_ns, before)

    def test_finds_what_was_reformatted(self):
        code, said, _ = self.generate(new="refuse(line_.head(),\n  // why\n  errc::closed, out)")
        self.assertEqual((code, said), (0, ""))

    def test_names_a_fault_whose_text_is_gone(self):
        code, said, out = self.generate(new="refuse(line_.head(), errc::shed, out)")
        self.assertEqual(code, 1)
        self.assertIn("close_counts_waiters_as_timed_out: 0 times", said)
        self.assertFalse(out.exists())

    def test_names_a_fault_whose_text_is_there_twice(self):
        code, said, _ = self.generate(new=f"{CLOSE}, {CLOSE}")
        self.assertEqual(code, 1)
        self.assertIn("close_counts_waiters_as_timed_out: 2 times", said)


class Schema(unittest.TestCase):
    """Texts that are found and switched."""

    @staticmethod
    def switched(text, *changes):
        """The text with changes (wanted, new), numbered from 1."""
        source = schema.Source(text)
        code = schema.switched(text, [source.change(wanted, number, new)
                                      for number, (wanted, new) in enumerate(changes, 1)])
        return code.replace(schema.IS_ON, "on")

    def test_switches_an_expression(self):
        self.assertEqual(self.switched("if (a < b) c();", ("if («a < b»)", "a <= b")),
                         "if ((on(1) ? (a <= b) : (a < b))) c();")

    def test_switches_a_statement(self):
        self.assertEqual(self.switched("a(); b();", ("«b();»", "")),
                         "a();  { if (on(1)) {  } else { b(); } }")

    def test_inserts(self):
        self.assertEqual(self.switched("a(); b();", ("a();«»", "c();")),
                         "a(); { if (on(1)) { c(); } else {  } } b();")

    def test_nests(self):
        self.assertEqual(self.switched("x(a || b)", ("«a || b»", "a"), ("a || «b»", "c")),
                         "x((on(1) ? (a) : (a || (on(2) ? (c) : (b)))))")

    def test_takes_several_for_one_part(self):
        self.assertEqual(self.switched("x(a)", ("x(«a»)", "b"), ("x(«a»)", "c")),
                         "x((on(2) ? (c) : ((on(1) ? (b) : (a)))))")

    def test_refuses_an_overlap(self):
        with self.assertRaises(schema.Misfit):
            self.switched("x(a + b + c)", ("a + b", "1"), ("b + c", "2"))

    def test_finds_no_part_of_a_word(self):
        with self.assertRaises(schema.Misfit):
            schema.Source("settle(now)").find("set")


if __name__ == "__main__":
    unittest.main()
