#!/usr/bin/env python3
"""Proves that each rule of tidy.py fires, and that none fires on a tidy repository."""

import tempfile
import unittest
from pathlib import Path

import tidy

OPENING = "// Exists so that the rules have something to look at.\n"
HEADER = OPENING + "#pragma once\n"

ROOMS = """
| room | what it does | includes | third party |
|---|---|---|---|
| [`src/core`](src/core/README.md) | decides | vocabulary | – |
| [`src/sim`](src/sim/README.md) | simulates | core, vocabulary | – |
| [`src/shell`](src/shell/README.md) | locks | core, pool headers; its Asio files: asio | Linux |
| [`tools`](tools/README.md) | shows | examples, sim, service headers | CLI11 |
| [`bench`](bench/README.md) | measures | core, support and server headers | – |
| `tests` | mirrors | any | GoogleTest |
"""
GROUPS = """
| group | includes |
|---|---|
| vocabulary: `error.hpp` | no other room |
| pool: the others | vocabulary |
"""

TIDY_REPOSITORY = {
    "Makefile": "all:\n",
    "ARCHITECTURE.md": "The idea in six sentences.\n" + ROOMS,
    "include/cenote/README.md": "pool.hpp and error.hpp are public.\n" + GROUPS,
    "src/README.md": "`machine.{hpp,cpp}` decides, keeper.cpp locks.\n",
    "src/sim/README.md": "world.hpp simulates. May include: core, vocabulary; no clock.\n",
    "tools/README.md": "demo.cpp shows.\n",
    "bench/README.md": "bench.cpp measures.\n",
    "src/CMakeLists.txt": "add_library(cenote core/machine.cpp\n  shell/keeper.cpp)\n",
    "include/cenote/error.hpp": HEADER + "#include <system_error>\n",
    "include/cenote/pool.hpp": HEADER + "#include <cenote/error.hpp>\n",
    "src/core/machine.hpp": HEADER + "#include <cenote/error.hpp>\n",
    "src/core/machine.cpp": OPENING + '#include "core/machine.hpp"\n#include <vector>\n',
    "src/sim/world.hpp": HEADER + '#include "core/machine.hpp"\n',
    "src/shell/keeper.cpp": OPENING + '#include "core/machine.hpp"\n#include <sys/socket.h>\n'
                            "#include <cenote/pool.hpp>\n#include <mutex>\n",
    "tools/demo.cpp": OPENING + '#include "sim/world.hpp"\n#include <cenote/pool.hpp>\n',
    "bench/bench.cpp": OPENING + "#include <boost/asio/post.hpp>\n#include <cenote/pool.hpp>\n",
    "tests/core/machine_test.cpp": OPENING + '#include "core/machine.hpp"\n'
                                   "#include <gtest/gtest.h>\n",
}


def function_of(lines):
    """A member function that takes this many lines, signature and closing brace included."""
    return ("namespace a {\nclass b final : public c<d> {\npublic:\n    void f(int x) const {\n"
            + "        if (x > 1'000) { g('{', \"{\", R\"({)\"); }  // {\n" * (lines - 2)
            + "    }\n};\n}\n")


class TidyTest(unittest.TestCase):
    def findings(self, changes):
        """What tidy says about a tidy repository after these changes (None removes a file)."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (TIDY_REPOSITORY | changes).items():
                if text is not None:
                    path = Path(folder) / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text, encoding="utf-8")
            return tidy.Tidy(folder).run()

    def assert_fires(self, changes, place, message):
        findings = self.findings(changes)
        self.assertEqual(len(findings), 1, findings)
        self.assertTrue(findings[0].startswith(place + ": "), findings[0])
        self.assertIn(message, findings[0])

    def assert_core_may_not(self, line, message):
        for name in ("src/core/machine.hpp", "src/sim/world.hpp"):
            self.assert_fires({name: HEADER + line + "\n"}, f"{name}:3", message)

    def assert_includes_not(self, name, include, message):
        opening = HEADER if name.endswith(".hpp") else OPENING
        place = f"{name}:{3 if name.endswith('.hpp') else 2}"
        self.assert_fires({name: opening + f"#include {include}\n"}, place, message)

    def test_is_silent_on_a_tidy_repository(self):
        self.assertEqual(self.findings({}), [])

    def test_long_lines(self):
        self.assert_fires({"Makefile": "#" * 101}, "Makefile:1", "101 columns")
        self.assertEqual(self.findings({"Makefile": "#" * 100}), [])

    def test_leftovers(self):
        for word in ("TO" "DO", "FIX" "ME", "X" "XX", "HA" "CK"):
            self.assert_fires({"tests/core/machine_test.cpp": OPENING + f"// {word}: later\n"},
                              "tests/core/machine_test.cpp:2", "left behind")

    def test_vague_names(self):
        self.assert_fires({"tests/common/a_test.cpp": OPENING}, "tests/common/a_test.cpp:1",
                          "says nothing")
        self.assert_fires({"tests/core/util.hpp": HEADER}, "tests/core/util.hpp:1", "says nothing")

    def test_first_line(self):
        self.assert_fires({"src/core/machine.cpp": "#include <vector>\n"}, "src/core/machine.cpp:1",
                          "why does this file exist")

    def test_pragma_once(self):
        self.assert_fires({"src/core/machine.hpp": OPENING}, "src/core/machine.hpp:1",
                          "#pragma once")

    def test_long_functions(self):
        name = "src/core/machine.cpp"
        self.assertEqual(self.findings({name: OPENING + function_of(70)}), [])
        self.assert_fires({name: OPENING + function_of(71)}, f"{name}:5", "function of 71 lines")

    def test_long_functions_of_many_shapes(self):
        body = "    g();\n" * 70 + "}\n"
        for head in ("template <class T>\nauto f(T t) -> std::vector<T> {\n",
                     "b::b(int x) : x_{x}, y_(x) {\n", "TEST(machine, grants) {\n",
                     "bool operator==(const b&) const noexcept {\n",
                     "const auto f = [](struct b& x) {\n"):
            text = OPENING + "namespace a {\n" + head + body + "}\n"
            findings = self.findings({"src/core/machine.cpp": text})
            self.assertEqual(len(findings), 1, head)
            self.assertIn("function of 7", findings[0])

    def test_long_tables_and_types_are_no_functions(self):
        rows = "    {1, 2},\n" * 100
        text = (f"constexpr row table[] = {{\n{rows}}};\nstd::array<row, 100> more{{{{\n{rows}}}}};"
                "\nenum class e {\n" + "    a,\n" * 100 + "};\n")
        self.assertEqual(self.findings({"src/core/machine.cpp": OPENING + text}), [])

    def test_fences(self):
        self.assert_fires({"src/shell/keeper.cpp": OPENING + "std::atomic_" "thread_fence(o);\n"},
                          "src/shell/keeper.cpp:2", "thread sanitizer")

    def test_clock_and_chance_in_pure_rooms(self):
        self.assert_core_may_not("auto t = clock::now();", "reads a clock")
        self.assert_core_may_not("std::random_device d;", "draws from outside")
        self.assert_core_may_not("std::unordered_map<int, int> m;", "order")
        self.assertEqual(self.findings({"src/core/machine.hpp": HEADER + "// not clock::now()\n"}),
                         [])

    def test_threads_in_pure_rooms(self):
        self.assert_core_may_not("using std::this_thread::yield;", "threads")
        for header in ("thread", "mutex", "condition_variable"):
            self.assert_core_may_not(f"#include <{header}>", "threads")

    def test_include_levels(self):
        for name, include in (
                ("include/cenote/error.hpp", "<cenote/pool.hpp>"),
                ("include/cenote/pool.hpp", '"../../src/core/machine.hpp"'),
                ("src/core/machine.cpp", '"cenote/pool.hpp"'),
                ("src/core/machine.cpp", '"sim/world.hpp"'),
                ("src/sim/world.hpp", "<cenote/pool.hpp>"),
                ("src/shell/keeper.cpp", '"sim/world.hpp"'),
                ("tools/demo.cpp", '"core/machine.hpp"'),
                ("bench/bench.cpp", '"sim/world.hpp"')):
            self.assert_includes_not(name, include, "may not include")

    def test_foreign_headers(self):
        self.assert_includes_not("include/cenote/pool.hpp", "<boost/asio.hpp>", "third party")
        self.assert_includes_not("tools/demo.cpp", "<boost/asio.hpp>", "third party")
        self.assert_includes_not("include/cenote/pool.hpp", "<spdlog/fwd.h>", "system")
        self.assert_includes_not("src/shell/keeper.cpp", "<spdlog/sinks/sink.hpp>", "third party")
        self.assert_includes_not("include/cenote/pool.hpp", "<unistd.h>", "system")
        self.assert_includes_not("src/core/machine.cpp", '"gone.hpp"', "there is no")
        self.assert_includes_not("src/core/machine.cpp", "<cenote/gone.hpp>", "there is no")

    def test_rooms_without_a_description(self):
        self.assert_fires({"src/attic/keeper.hpp": HEADER,
                           "src/README.md": TIDY_REPOSITORY["src/README.md"] + " keeper.hpp"},
                          "src/attic/keeper.hpp:1", "the room 'attic'")

    def test_sources_cmake_does_not_know(self):
        self.assert_fires({"src/CMakeLists.txt": "add_library(cenote core/machine.cpp)\n"},
                          "src/shell/keeper.cpp:1", "src/CMakeLists.txt")

    def test_architecture_is_short(self):
        self.assertIn("ARCHITECTURE.md:1: missing: it is where a newcomer begins",
                      self.findings({"ARCHITECTURE.md": None}))
        fill = 150 - ROOMS.count("\n")
        self.assert_fires({"ARCHITECTURE.md": "a line\n" * (fill + 1) + ROOMS},
                          "ARCHITECTURE.md:151", "151 lines")
        self.assertEqual(self.findings({"ARCHITECTURE.md": "a line\n" * fill + ROOMS}), [])

    def test_documents_say_who_may_include_whom(self):
        for name, text, right, wrong in (
                ("ARCHITECTURE.md", ROOMS, "| core, vocabulary |", "| core |"),
                ("ARCHITECTURE.md", ROOMS, "| core, pool headers;", "| core, asio headers;"),
                ("include/cenote/README.md", TIDY_REPOSITORY["include/cenote/README.md"],
                 "others | vocabulary", "others | vocabulary, asio"),
                ("src/sim/README.md", TIDY_REPOSITORY["src/sim/README.md"],
                 "core, vocabulary;", "core, shell;")):
            findings = self.findings({name: text.replace(right, wrong)})
            self.assertEqual(len(findings), 1, findings)
            self.assertIn("by tidy.py", findings[0])
        row = next(line for line in ROOMS.splitlines() if "simulates" in line)
        self.assert_fires({"ARCHITECTURE.md": ROOMS.replace(row + "\n", "")}, "ARCHITECTURE.md:1",
                          "no row for the room 'sim'")

    def test_maps_name_every_file(self):
        page = TIDY_REPOSITORY["src/README.md"]
        self.assert_fires({"src/README.md": page.replace("keeper.cpp", "it")},
                          "src/shell/keeper.cpp:1", "not named in src/README.md")
        self.assert_fires({"src/README.md": page + "`gone.hpp` left."}, "src/README.md:2",
                          "does not exist")
        self.assert_fires({"bench/README.md": None}, "bench/bench.cpp:1", "no README.md")
        # The nearest map counts.
        self.assert_fires({"src/core/README.md": "machine.hpp\n"}, "src/core/machine.cpp:1",
                          "not named in src/core/README.md")

    def assert_habit(self, name, text, line=1):
        self.assert_fires({name: text}, f"{name}:{line}", "name the part")

    def test_habits(self):
        for words in ("No" "body", "who" "ever", "some" "one", "no " "one", "those " "who",
                      "any " "more", "is " "none", "so " "many", "sel" "dom", "by " "lot",
                      "gu" "ests", "wel" "come", "bur" "ied", "a p" "en", "bab" "bles",
                      "see " "off", "wi" "shes", "in its " "midst", "how it " "stands with",
                      "bears " "that", "the ho" "use", "do" "ors", "what" "ever", "a cr" "ew",
                      "in pe" "ace", "cannot " "go on", "cancel" "led", "the col" "our",
                      "behavi" "ours", "recogn" "ises", "anal" "ysed", "model" "ling"):
            self.assert_habit("src/core/machine.hpp", HEADER + f"// {words} waits\n", 3)

    def test_habits_in_every_folder(self):
        opening = OPENING + "// Who" "ever\n"
        for name in ("tests/core/machine_test.cpp", "include/cenote/cenote.h", "tools/demo.cpp"):
            self.assert_habit(name, opening, 2)
        self.assert_habit("bench/bench.cpp", opening, 2)
        for name in ("README.md", "CHANGELOG.md", "CMakeLists.txt", "docs/internals.md",
                     "docs/decisions/0001.md", "docs/site/hooks.py", "cmake/tests.cmake",
                     "scripts/setup", "tests/CMakeLists.txt", "tests/browser/page.py",
                     "examples/README.md", "web/page.js"):
            self.assert_habit(name, "who" "ever\n")

    def test_habits_in_identifiers(self):
        for name in ("some" "body_", "waits_for_no" "body", "NO_" "ONE_WAITS", "those_" "who_wait",
                     "any_" "more_"):
            self.assert_habit("src/core/machine.hpp", HEADER + f"int {name};\n", 3)

    def test_habits_across_a_line_break(self):
        for break_, name in (("\n    /// ", "src/core/machine.hpp"), ("\n# ", "scripts/setup"),
                             ("\n", "README.md"), ("\n * ", "include/cenote/cenote.h")):
            opening = HEADER if name.endswith(".hpp") else ""
            self.assert_habit(name, f"{opening}/// those{break_}who wait\n",
                              3 if opening else 1)

    def test_comments_that_open_with_same(self):
        for name, mark in (("src/core/machine.hpp", "///"), ("src/core/machine.hpp", "//"),
                           ("scripts/setup", "#")):
            opening = HEADER if name.endswith(".hpp") else ""
            for comment in (f"{mark} The " "same, later.\n", f"a b; {mark} The " "same, later.\n"):
                self.assert_fires({name: opening + comment}, f"{name}:{3 if opening else 1}",
                                  "opens a comment")
            for comment in (f"{mark} It is later.\n{mark} The " "same call is made.\n",
                            f"{mark} At the " "same time.\n"):
                self.assertEqual(self.findings({name: opening + comment}), [], comment)
        self.assertEqual(self.findings({"README.md": "# The " "same\n"}), [])

    def test_words_that_resemble_habits(self):
        for text in ("there is " "none", "there is\n/// none", "so " "long that", "so " "many as",
                     "wareho" "uses", "op" "en", "`who" "ever`", "many " "more", "indo" "ors",
                     "no one-" "line", "the col" "or", "hours", "pre" "cise", "cancel" "ation",
                     "four", "aria-label" "ledby"):
            self.assertEqual(self.findings({"src/core/machine.hpp": HEADER + f"/// {text}\n"}), [],
                             text)
        self.assertEqual(self.findings({"scripts/setup": "if it is " "None: pass\n"}), [])
        self.assertEqual(self.findings({"tests/project/tidy.py": "# who" "ever\n"}), [])


if __name__ == "__main__":
    unittest.main()
