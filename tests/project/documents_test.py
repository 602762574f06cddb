#!/usr/bin/env python3
"""Proves that each rule of documents.py fires, and that none fires on sound documents."""

import tempfile
import unittest
from pathlib import Path

import documents

SOUND = {
    "README.md": "# Start here\n\nSee [the guide](docs/guide.md#a-pool), [above](#start-here), "
                 "[the web](https://example.com) and `[no](link.md)`.\n\n"
                 "A connection pool for C++20, threads and\ncoroutines: thread-safe, with a queue, "
                 "validation (health check), circuit breaker, leak report.\n\n"
                 "| | cenote | [pgxpool](docs/guide.md) | other |\n|---|---|---|---|\n"
                 "| cost of a lease (ns) | 20.8 | 120 | not measured |\n"
                 "| contention: wait p99 (ms) | 1.62 | 0.0205 | not measured |\n"
                 "| contention: wait longest (ms) | 3.50 | 807 | not measured |\n"
                 "| contention: least/most | 0.992 | 0 | not measured |\n"
                 "| dashboard | yes | no | no |\n",
    "docs/benchmarks.md": "# Benchmarks\n\n### w1-one-thread\n\n| | cycle (ns) |\n|---|--:|\n"
                          "| cenote | 20.8 (20.7–21.1) |\n| puddle | 120 (119–125) |\n\n"
                          "### w3-32-asleep-100us\n\n"
                          "| | wait p99 (us) | wait longest (µs) | least/most |\n"
                          "|---|--:|--:|--:|\n"
                          "| cenote | 1\u202f624 (1\u202f567–2) | 3 496 (1 900–5) | 0.992 |\n"
                          "| puddle | 20.5 (1.05–2) | 807 287 (803–8) | 0 (0–0) |\n\n"
                          "### other\n",
    "docs/guide.md": "# The guide\n\n## A `pool`\n\n<!-- quoted from examples/one.cpp -->\n"
                     "```cpp\nauto a = pool.acquire();\nuse(a);\n```\n",
    "examples/CMakeLists.txt": "example(one SOURCES one.cpp)\n",
    "examples/one.cpp": "int main() {\n    auto a = pool.acquire();\n    use(a);\n}\n",
    "include/cenote/pool.hpp": "/// A pool:\n///\n///     pool p{1};\n///\n"
                               "///     p.go();    // goes\n///\n/// It goes.\n#define POOL 1\n",
    "include/cenote/options.hpp": "namespace cenote {\n\n/// Options.\nstruct options {\n"
                                  "    /// The name.\n    int name = 0;\n    /// The bounds.\n"
                                  "    int min = 0;\n    int max = 1;\n};\n\n}\n",
    "include/cenote/dashboard.hpp": "namespace cenote {\n\n/// Options of the page.\n"
                                    "struct dashboard_options {\n    /// The port.\n"
                                    "    int port = 0;\n    /// A limit.\n"
                                    "    static constexpr int most = 9;\n};\n\n}\n",
    "include/cenote/cenote.h": "/* Moves it. */\nCENOTE_API int cenote_start(int a);\n"
                               "CENOTE_API int cenote_stop(\n    int b);\n\n/* Its size,\n"
                               " * in bytes. */\nCENOTE_API int cenote_size(int c);\n",
    "docs/guide/README.md": "# Contents\n\n[Options](options.md), [page](dashboard.md)\n",
    "docs/guide/dashboard.md": "# Page\n\n| option |\n|---|\n| `port` |\n",
    "docs/guide/options.md": "# Options\n\n| option |\n|---|\n| `name` |\n| `min`, `max` |\n",
    "tests/project/header_samples.cpp": "void f() {\n    pool p{1};\n\n    p.go();  // goes\n}\n",
}


class DocumentsTest(unittest.TestCase):
    def findings(self, changes):
        """What is found in sound documents after these changes."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (SOUND | changes).items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return documents.Documents(folder).run()

    def assert_fires(self, changes, place, message):
        findings = self.findings(changes)
        self.assertEqual(len(findings), 1, findings)
        self.assertTrue(findings[0].startswith(place + ": "), findings[0])
        self.assertIn(message, findings[0])

    def test_is_silent_on_sound_documents(self):
        self.assertEqual(self.findings({}), [])

    def test_links(self):
        self.assert_fires({"docs/new.md": "# New\n\n[gone](gone.md)\n"}, "docs/new.md:3",
                          "does not exist")
        self.assert_fires({"docs/new.md": "[gone](guide.md#a-pond)\n"}, "docs/new.md:1",
                          "no such heading")

    def test_quotes(self):
        self.assert_fires({"examples/one.cpp": "auto a = pool.acquire();\nuse(b);\n"},
                          "docs/guide.md:5", "does not stand in examples/one.cpp")
        self.assert_fires({"docs/guide.md": SOUND["docs/guide.md"].replace("one.cpp", "two.cpp")},
                          "docs/guide.md:5", "does not exist")
        self.assert_fires({"examples/CMakeLists.txt": ""}, "docs/guide.md:5",
                          "no CMakeLists.txt names")

    def test_code(self):
        page = SOUND["docs/guide.md"].replace("<!-- quoted from examples/one.cpp -->\n", "")
        self.assert_fires({"docs/guide.md": page}, "docs/guide.md:5", "neither quoted nor in")
        self.assertEqual(self.findings({"docs/guide.md": page, "tests/project/page_samples.cpp":
                                        "void f() {\n auto a = pool.acquire();\n use(a);\n}"}), [])
        excused = page.replace("```cpp", "<!-- not compiled: another library -->\n```cpp")
        self.assertEqual(self.findings({"docs/guide.md": excused}), [])

    def test_samples(self):
        self.assert_fires({"tests/project/header_samples.cpp": "pool p{1};\np.went();  // goes\n"},
                          "include/cenote/pool.hpp:3", "does not stand")
        # Less indented text is prose, and so is quoted output.
        self.assertEqual(self.findings({"include/cenote/error.hpp":
                                        "/// Prose.\n///   - a list\n/// > some output\n"
                                        "#define A 1\n"}), [])

    def test_comments(self):
        header = SOUND["include/cenote/options.hpp"]
        self.assert_fires({"include/cenote/options.hpp": header.replace("/// Options.", "")},
                          "include/cenote/options.hpp:4", "'cenote::options' has no comment")
        apart = header.replace("    int max", "\n    int max")
        self.assert_fires({"include/cenote/options.hpp": apart},
                          "include/cenote/options.hpp:10", "'cenote::options::max' has no comment")

        self.assert_fires({"include/cenote/empty.hpp": "// Nothing.\n"},
                          "include/cenote/empty.hpp:1", "finds no declaration in it")

    def test_comments_of_c(self):
        header = SOUND["include/cenote/cenote.h"]
        self.assert_fires({"include/cenote/cenote.h": header.replace("/* Its size,\n"
                                                                     " * in bytes. */\n", "")},
                          "include/cenote/cenote.h:6", "'cenote_size' has no comment")
        self.assert_fires({"include/cenote/cenote.h": header.replace("a);\n", "a);\n\n")},
                          "include/cenote/cenote.h:4", "'cenote_stop' has no comment")

    def test_contents(self):
        self.assert_fires({"docs/guide/new.md": "# New\n"}, "docs/guide/new.md:1",
                          "does not list this page")

    def test_options(self):
        page = SOUND["docs/guide/options.md"]
        self.assert_fires({"docs/guide/options.md": page.replace("`min`, `max`", "`max`, `min`")},
                          "docs/guide/options.md:1", "'min' of options is missing, or not in")
        self.assert_fires({"docs/guide/options.md": page.replace(", `max`", "")},
                          "docs/guide/options.md:1", "'max' of options is missing, or not in")
        self.assert_fires({"docs/guide/dashboard.md": "# Page\n\nOptions: `port`\n"},
                          "docs/guide/dashboard.md:1", "'port' of dashboard_options is missing")
        header = SOUND["include/cenote/dashboard.hpp"]
        self.assert_fires({"include/cenote/dashboard.hpp": header.replace("_options", "_settings")},
                          "docs/guide/dashboard.md:1", "which dashboard.hpp does not declare")

    def test_readme(self):
        page = SOUND["README.md"]
        self.assert_fires({"README.md": page + "\n" * 150}, "README.md:164", "150 are allowed")
        self.assert_fires({"README.md": page.replace("(health check)", "(`health check`)")},
                          "README.md:1", "lacks 'health check'")
        self.assert_fires({"README.md": page.replace("| 20.8 ", "| 20.9 ")}, "README.md:10",
                          "'cost of a lease' of cenote is '20.9'; according to docs/benchmarks.md "
                          "it is '20.8'")
        self.assert_fires({"README.md": page.replace("| 0.0205 ", "| 20.5 ")}, "README.md:11",
                          "of pgxpool is '20.5'")
        self.assert_fires({"README.md": page.replace("807 | not measured", "807 | 1")},
                          "README.md:12", "of other is '1'")
        self.assert_fires({"README.md": page.replace("| contention: least", "| least")},
                          "README.md:1", "no row 'contention: least/most'")


if __name__ == "__main__":
    unittest.main()
