#!/usr/bin/env python3
"""Tests the switches of the build, and find_package(cenote). Configures; compiles nothing.

usage: parts.py SOURCE COMPILER WORK [TEST…]

SOURCE: the repository. COMPILER: a supported one. WORK: a folder for build trees, which is emptied.
"""

import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

SOURCE = COMPILER = WORK = None

ASIO = ["http_server", "dashboard", "sqlite", "postgres", "mariadb", "redis", "http", "database"]
SWITCHES = ["asio", *ASIO, "spdlog"]
# Package: its Debian package, and the parts that are not built without it.
PACKAGES = {
    "Boost": ("libboost1.81-dev", ["asio", *ASIO]),
    "spdlog": ("libspdlog-dev", ["spdlog"]),
    "SQLite3": ("libsqlite3-dev", ["sqlite"]),
    "PostgreSQL": ("libpq-dev", ["postgres"]),
    "CenoteMariaDB": ("libmariadb-dev", ["mariadb"]),
    "OpenSSL": ("libssl-dev", ["mariadb", "redis", "http"]),
}
WITHOUT_PROGRAMS = ["-DCENOTE_BUILD_TESTS=OFF", "-DCENOTE_BUILD_EXAMPLES=OFF",
                    "-DCENOTE_BUILD_TOOLS=OFF", "-DCENOTE_BUILD_C=OFF"]
# Cache entries of an earlier configuration.
FORGOTTEN = ["CENOTE_[A-Z]*", "CMAKE_DISABLE*", "CMAKE_PREFIX*", "cenote_*", "OPENSSL_*",
             "boost_*", *[f"{package}_*" for package in PACKAGES]]
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES CXX)
"""


def run(*command):
    """(whether it succeeded, its output with each piece of white space as one space)"""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode == 0, " ".join(done.stdout.split())


def configure(tree, *arguments, source=None):
    """Configures a tree as if it were new, except for what is known about the compiler."""
    return run("cmake", "-G", "Ninja", "-S", source or SOURCE, "-B", WORK / tree, "-Wno-dev",
               *[f"-U{pattern}" for pattern in FORGOTTEN], f"-DCMAKE_CXX_COMPILER={COMPILER}",
               *arguments)


def looked_up(tree):
    """The packages that the latest configuration has searched, by what they left in the cache."""
    cache = (WORK / tree / "CMakeCache.txt").read_text(encoding="utf-8").lower()
    return sorted(name for name in PACKAGES if f"\n{name.lower()}_" in cache)


def switches(value, parts=None):
    return [f"-DCENOTE_{part.upper()}={value}" for part in parts or SWITCHES]


class PartsTest(unittest.TestCase):
    maxDiff = None

    def build(self, *arguments):
        """(part: "built…" or "not built: …") of a build tree that was configured."""
        done, output = configure("parts", *WITHOUT_PROGRAMS, *arguments)
        self.assertTrue(done, output)
        summary = re.search(r"its optional parts (.*?) -- Configuring done", output)
        self.assertIsNotNone(summary, output)
        rows = re.findall(r"-- (\w+) ((?:not )?built.*?)(?= -- |$)", summary[1])
        self.assertEqual(sorted(part for part, _ in rows), sorted([*SWITCHES, "c"]))
        return dict(rows)

    def targets(self):
        return (WORK / "parts" / "build.ninja").read_text(encoding="utf-8")

    def refusal(self, *arguments, **more):
        done, output = configure("parts", *WITHOUT_PROGRAMS, *arguments, **more)
        self.assertFalse(done, output)
        return output

    def test_auto_builds_what_is_found(self):
        built = self.build()
        for part in SWITCHES:
            self.assertTrue(built[part].startswith("built"), built)
            self.assertIn(f"libcenote_{part}.a", self.targets())
        self.assertEqual(built["database"], "built, for sqlite, postgres, mariadb")
        self.assertEqual(built["c"], "not built: CENOTE_BUILD_C is OFF")
        self.assertEqual(looked_up("parts"), sorted(PACKAGES))

    def test_auto_leaves_out_what_is_not_found(self):
        for package, (debian, parts) in PACKAGES.items():
            built = self.build(f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON")
            for part in SWITCHES:
                if part in parts:
                    self.assertRegex(built[part], "not built: .* is not found")
                    self.assertIn(f"(Debian package {debian})", built[part])
                    self.assertNotIn(f"libcenote_{part}.a", self.targets())
                else:
                    self.assertTrue(built[part].startswith("built"), (package, part, built))

    def test_off_looks_nothing_up(self):
        built = self.build(*switches("OFF"))
        for part in SWITCHES:
            self.assertEqual(built[part], f"not built: CENOTE_{part.upper()} is OFF")
            self.assertNotIn(f"libcenote_{part}.a", self.targets())
        self.assertEqual(looked_up("parts"), [])

    def test_off_for_one_part(self):
        built = self.build(*switches("OFF", ["redis", "dashboard"]))
        for part in SWITCHES:
            self.assertEqual(built[part].startswith("built"), part not in ("redis", "dashboard"))

    def test_server_and_tls_are_built_for_others_only(self):
        self.build(*switches("OFF", ["redis", "http", "mariadb"]))
        self.assertIn("libcenote_server.a", self.targets())
        self.assertNotIn("libcenote_tls.a", self.targets())
        self.build(*switches("OFF", ["redis", "http", "mariadb", "postgres", "sqlite"]))
        self.assertNotIn("libcenote_server.a", self.targets())

    def test_on_names_the_missing_package(self):
        for package, (debian, parts) in PACKAGES.items():
            part = parts[0]
            refusal = self.refusal(*switches("ON", [part]),
                                   f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON")
            self.assertRegex(refusal, rf"cenote: CENOTE_{part.upper()} is ON, but .* is not found "
                                      rf"\(Debian package {re.escape(debian)}\)")

    def test_on_refuses_a_part_that_is_off_below(self):
        self.assertIn("CENOTE_HTTP is ON, but CENOTE_ASIO is OFF",
                      self.refusal("-DCENOTE_HTTP=ON", "-DCENOTE_ASIO=OFF"))
        refusal = self.refusal("-DCENOTE_DATABASE=ON",
                               *switches("OFF", ["sqlite", "postgres", "mariadb"]))
        self.assertIn("CENOTE_DATABASE is ON, but none of its servers is built (sqlite: "
                      "CENOTE_SQLITE is OFF, postgres: CENOTE_POSTGRES is OFF, mariadb: "
                      "CENOTE_MARIADB is OFF)", refusal)

    def test_on_builds(self):
        built = self.build(*switches("ON"))
        for part in SWITCHES:
            self.assertTrue(built[part].startswith("built"), built)

    def test_other_values(self):
        self.assertIn("CENOTE_REDIS is \"perhaps\"; it must be AUTO, ON or OFF",
                      self.refusal("-DCENOTE_REDIS=perhaps"))
        self.assertEqual(self.build("-DCENOTE_REDIS=0")["redis"], "not built: CENOTE_REDIS is OFF")
        self.assertEqual(self.build("-DCENOTE_REDIS=auto",
                                    "-DCMAKE_DISABLE_FIND_PACKAGE_OpenSSL=ON")["redis"],
                         "not built: OpenSSL is not found (Debian package libssl-dev)")

    def test_database_of_some_servers(self):
        servers = ["sqlite", "postgres", "mariadb"]
        for chosen in [["sqlite"], ["postgres"], ["mariadb"], ["sqlite", "mariadb"]]:
            built = self.build(*switches("OFF", [s for s in servers if s not in chosen]))
            self.assertEqual(built["database"], "built, for " + ", ".join(chosen))
            kinds = ",".join(f"{server}_kind" for server in chosen)
            self.assertRegex(self.targets(), rf"CENOTE_DATABASE_KINDS=\W*{kinds}\b(?!,)")

    def test_tests_need_every_part(self):
        done, output = configure("parts", *WITHOUT_PROGRAMS, "-DCENOTE_BUILD_TESTS=ON",
                                 "-DCENOTE_REDIS=OFF")
        self.assertFalse(done)
        self.assertIn("the tests need cenote::redis, which is not built: CENOTE_REDIS is OFF",
                      output)


class CompilerTest(unittest.TestCase):
    def refusal(self, name, *definitions):
        """The output for a compiler that claims to be another one."""
        shutil.rmtree(WORK / name, ignore_errors=True)
        compiler = WORK / name / "compiler"
        compiler.parent.mkdir(parents=True)
        compiler.write_text(f'#!/bin/sh\nexec {COMPILER} {" ".join(definitions)} "$@"\n',
                            encoding="utf-8")
        compiler.chmod(0o755)
        done, output = run("cmake", "-G", "Ninja", "-S", SOURCE, "-B", WORK / name / "tree",
                           f"-DCMAKE_CXX_COMPILER={compiler}", "-DCMAKE_CXX_COMPILER_LAUNCHER=",
                           *WITHOUT_PROGRAMS)
        self.assertFalse(done, output)
        return output

    def assert_refused(self, claim, *definitions):
        self.assertIn("cenote needs g++ 12.2 or newer, or clang 16 or newer, with libstdc++ 12 or "
                      f"newer; this compiler is {claim} ",
                      self.refusal(claim.replace(" ", "_"), *definitions))

    def test_old_gcc_is_refused(self):
        version = ["__GNUC__=12", "__GNUC_MINOR__=1", "__GNUC_PATCHLEVEL__=0"]
        self.assert_refused("GNU 12.1.0", "-U__clang__",
                            *[f"-U{each.split('=')[0]} -D{each}" for each in version])

    def test_old_clang_is_refused(self):
        self.assert_refused("Clang 15.0.7", "-U__clang__ -D__clang__=1", *[
            f"-U{each.split('=')[0]} -D{each}"
            for each in ("__clang_major__=15", "__clang_minor__=0", "__clang_patchlevel__=7")])

    def test_other_compilers_are_refused(self):
        self.assert_refused("IntelLLVM 2023.0.0", "-D__clang__=1 -D__INTEL_LLVM_COMPILER=20230000")

    def test_other_standard_libraries_are_refused(self):
        self.assertRegex(self.refusal("other_library", "-nostdinc++"),
                         "cenote needs .* libstdc.* uses another standard library")


class FindTest(unittest.TestCase):
    """find_package in a project that uses an installed cenote."""

    @classmethod
    def setUpClass(cls):
        cls.prefixes = {"whole": cls.install("whole"),
                        "small": cls.install("small", "-DCENOTE_REDIS=OFF", "-DCENOTE_SQLITE=OFF",
                                             "-DCMAKE_DISABLE_FIND_PACKAGE_CenoteMariaDB=ON")}
        (WORK / "user").mkdir()
        (WORK / "user" / "CMakeLists.txt").write_text(PROJECT + """
find_package(cenote 0.1 ${HOW})
foreach(part asio c dashboard database http http_server mariadb postgres redis spdlog sqlite)
  if(TARGET cenote::${part})
    string(APPEND targets " ${part}")
  endif()
endforeach()
message(STATUS "found: ${cenote_FOUND}; targets:${targets}.")
""", encoding="utf-8")

    @staticmethod
    def install(name, *arguments):
        """Installs empty files for the libraries, since nothing here links them."""
        tree, prefix = WORK / "installed", WORK / f"prefix_{name}"
        done, output = configure("installed", *WITHOUT_PROGRAMS, *arguments)
        assert done, output
        for library in re.findall(r"src/libcenote[\w+]*\.a",
                                  (tree / "cmake_install.cmake").read_text(encoding="utf-8")):
            (tree / library).touch()
        done, output = run("cmake", "--install", tree, "--prefix", prefix)
        assert done, output
        return prefix

    def find(self, prefix, how, *arguments):
        return configure("found", f"-DCMAKE_PREFIX_PATH={self.prefixes[prefix]}", f"-DHOW={how}",
                         *arguments, source=WORK / "user")

    def assert_finds(self, prefix, how, targets, *arguments):
        done, output = self.find(prefix, how, *arguments)
        self.assertTrue(done, output)
        self.assertIn(f"found: {1 if targets else 0}; targets: {targets}.", output)
        return output

    def assert_misses(self, prefix, how, reason, *arguments):
        done, output = self.find(prefix, how, *arguments)
        self.assertFalse(done, output)
        self.assertIn(reason, output)

    def test_without_components_it_finds_what_is_there(self):
        self.assert_finds("small", "REQUIRED",
                          "asio dashboard database http http_server postgres spdlog")
        self.assert_finds("whole", "REQUIRED",
                          "asio dashboard http http_server mariadb redis sqlite",
                          "-DCMAKE_DISABLE_FIND_PACKAGE_spdlog=ON",
                          "-DCMAKE_DISABLE_FIND_PACKAGE_PostgreSQL=ON")

    def test_components_bring_what_they_need_and_look_nothing_else_up(self):
        self.assert_finds("whole", "REQUIRED;COMPONENTS;sqlite", "asio sqlite")
        self.assertEqual(looked_up("found"), ["Boost", "SQLite3"])
        self.assert_finds("small", "REQUIRED;COMPONENTS;database", "asio database postgres")
        self.assert_finds("whole", "REQUIRED;COMPONENTS;mariadb;spdlog", "asio mariadb spdlog")

    def test_component_that_was_not_built(self):
        self.assert_misses("small", "REQUIRED;COMPONENTS;redis",
                           "cenote::redis was not built when cenote was installed: CENOTE_REDIS is "
                           "OFF")
        self.assert_misses("small", "REQUIRED;COMPONENTS;asio;mariadb",
                           "cenote::mariadb was not built when cenote was installed: libmariadb is "
                           "not found (Debian package libmariadb-dev)")
        self.assert_misses("small", "REQUIRED;COMPONENTS;c",
                           "cenote::c was not built when cenote was installed: CENOTE_BUILD_C is "
                           "OFF")

    def test_component_whose_package_is_missing(self):
        self.assert_misses("whole", "REQUIRED;COMPONENTS;postgres",
                           "cenote::postgres needs a package: libpq 14 is not found (Debian "
                           "package libpq-dev)", "-DCMAKE_DISABLE_FIND_PACKAGE_PostgreSQL=ON")
        self.assert_misses("whole", "REQUIRED;COMPONENTS;database",
                           "cenote::database needs cenote::mariadb, which needs a package: "
                           "libmariadb is not found (Debian package libmariadb-dev)",
                           "-DCMAKE_DISABLE_FIND_PACKAGE_CenoteMariaDB=ON")

    def test_component_that_is_not_installed(self):
        targets = list(self.prefixes["whole"].rglob("cenote_http_serverTargets.cmake"))
        self.assertEqual(len(targets), 1)
        targets[0].rename(targets[0].with_suffix(".gone"))
        self.addCleanup(targets[0].with_suffix(".gone").rename, targets[0])
        self.assert_misses("whole", "REQUIRED;COMPONENTS;http_server",
                           f"cenote::http_server is not installed: there is no {targets[0]}")

    def test_component_that_is_unknown(self):
        self.assert_misses("whole", "REQUIRED;COMPONENTS;postgresql",
                           "cenote::postgresql is unknown: the parts are c, asio, ")

    def test_optional_components(self):
        output = self.assert_finds("small", "REQUIRED;COMPONENTS;http;OPTIONAL_COMPONENTS;redis",
                                   "asio http")
        self.assertIn("-- cenote::redis was not built when cenote was installed", output)
        output = self.assert_finds("whole", "REQUIRED;OPTIONAL_COMPONENTS;redis", "asio redis")
        self.assertNotIn("cenote::redis", output)

    def test_without_required_the_project_goes_on(self):
        done, output = self.find("small", "QUIET;COMPONENTS;redis")
        self.assertTrue(done, output)
        self.assertIn("found: 0;", output)
        self.assertNotIn("cenote::redis", output)


class EmbeddedTest(unittest.TestCase):
    """A project that adds the sources."""

    def installs(self, *lines):
        """What the project would install of cenote."""
        user = WORK / "embedding"
        user.mkdir(exist_ok=True)
        text = "\n".join([PROJECT, "set(CENOTE_ASIO OFF)", *lines,
                          f"add_subdirectory({SOURCE} cenote)", "add_library(used INTERFACE)",
                          "target_link_libraries(used INTERFACE cenote::cenote)"])
        (user / "CMakeLists.txt").write_text(text, encoding="utf-8")
        done, output = configure("embedded", source=user)
        self.assertTrue(done, output)
        self.assertRegex(output, "redis not built: CENOTE_ASIO is OFF")
        script = WORK / "embedded" / "cenote" / "cmake_install.cmake"
        return "cenoteConfig.cmake" in script.read_text(encoding="utf-8")

    def test_cenote_is_installed_on_demand_only(self):
        self.assertFalse(self.installs())
        self.assertTrue(self.installs("set(CENOTE_INSTALL ON)"))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    SOURCE, COMPILER, WORK = Path(sys.argv[1]).resolve(), sys.argv[2], Path(sys.argv[3]).resolve()
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
