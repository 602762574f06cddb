#!/usr/bin/env python3
# scripts/mutate finds its mutants, its sources and its explanations after every change of a folder.
"""usage: mutate_test.py"""

import importlib.machinery
import importlib.util
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def load():
    """scripts/mutate as a module."""
    loader = importlib.machinery.SourceFileLoader("mutate", str(ROOT / "scripts" / "mutate"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
    sys.modules["mutate"] = module
    loader.exec_module(module)
    return module


mutate = load()
MUTANTS = mutate.all_mutants()


class Mutate(unittest.TestCase):
    """What the script reads of the repository, without a compiler."""

    def test_lists_mutants_of_every_source(self):
        done = subprocess.run([sys.executable, "-B", ROOT / "scripts" / "mutate", "--list"],
                              text=True, check=True, capture_output=True)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), len(MUTANTS))
        self.assertGreater(len(lines), 3000)
        files = {line.split(":")[0] for line in lines}
        expected = {path.relative_to(ROOT).as_posix() for path in mutate.core_sources()}
        self.assertEqual(files, expected | {mutate.SHELF, mutate.LANE})

    def test_switches_every_mutant(self):
        by_file = {}
        for mutant in MUTANTS:
            by_file.setdefault(mutant.file, []).append(mutant)
        for file, mutants in by_file.items():
            changes = [mutate.schema.Change(m.what.begin, m.what.end, m.number, m.what.new,
                                            m.what.is_statement) for m in mutants]
            text = mutate.schema.switched((ROOT / file).read_text(encoding="utf-8"), changes)
            for mutant in mutants:
                self.assertIn(f"{mutate.schema.IS_ON}({mutant.number})", text, mutant.name)

    def test_compiles_sources_of_each_folder(self):
        for program, sources in mutate.sources_of_programs().items():
            folders = {path.parent for path in sources if path.exists()}
            self.assertIn(ROOT / "src/vocabulary", folders, program)
            missing = [path for path in sources
                       if not path.exists() and mutate.COPY not in path.parents]
            self.assertEqual(missing, [], program)

    def test_explains_mutants_that_exist_and_says_why(self):
        names = {mutant.name for mutant in MUTANTS}
        self.assertEqual(sorted(mutate.explained() - names), [])
        reason_expected = False
        for line in mutate.EXPLAINED.read_text(encoding="utf-8").splitlines():
            if not line.strip() or line.startswith("#"):
                self.assertFalse(reason_expected, f"no reason before: {line}")
            reason_expected = bool(line.strip()) and line[0] not in " #"


if __name__ == "__main__":
    unittest.main()
