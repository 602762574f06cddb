#!/usr/bin/env python3
"""The project's rules as a test: prints `file:line: message` for each finding, fails if any.

usage: tidy.py [ROOT]      (ROOT: the repository, by default the one this file lies in)

Rules that a reader needs and a compiler does not know: sizes, which room may include which (and
that the documents agree), what the pure rooms must not touch, that every file is listed where a
newcomer looks for it, plain words. Only the standard library, so that it runs anywhere.
tidy_test.py proves that each rule fires.
"""

import re
import sys
from pathlib import Path

COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 70

CPP_FOLDERS = ("include", "src", "tools", "tests", "bench", "examples")
OTHER_FOLDERS = ("cmake", "scripts", ".ci", "docs/site")
CPP_SUFFIXES = (".hpp", ".cpp")
TEXT_SUFFIXES = CPP_SUFFIXES + (".txt", ".cmake", ".in", ".py", ".json", "")

# Folders in which a README.md names every source file: that of the file's folder, or the next one
# above it. Tests mirror these folders, so they need none.
MAPPED_FOLDERS = ("include", "src", "tools", "bench", "examples")
ARCHITECTURE_LINES_MAX = 150

# Words that make a reader stumble: a person where a part is meant, metaphors, word-by-word
# translations, and British spellings. Say the caller, the waiter, the client, the thread; say what
# is done and by which part. Identifiers count, and so do words with a line break between them.
# Quoted code (`…`) passes, and so does what ALLOWED matches.
GAP = r"(?:_|\s+(?:(?://+[!<]?|\*|#)\s*)?)"
ALLOWED = ("there is none", "so (?:many|long|often) (?:that|as)")
HABITS = (
    "nobody", "whoever", "whomever", "somebody", "someone", "anybody", "everybody", "everyone",
    "no one(?!-)", "those who", "any more", "(?-i:is none)", "so (?:many|long|often)", "seldom",
    "by lot", "can be used on", "bears? (?:it|that)", "in its midst", "how it stands with",
    "guests?", "farewell", "welcome", "babbl(?:es?|ed|ing)", "umpires?", "errands?", "hush",
    "houses?", "doors?", "manners", "bury|buries|buried", "pens?", "wish(?:es)?", "chronicle",
    "(?:see|sees|seen|saw) off", "takes? leave", "pleased", "politely", "whatever", "crews?",
    "peace", "cannot go on", "cancell(?:ed|ing)",
    "(?:col|behavi|neighb|fav|hon|lab)our(?:s|ed|ing)?",
    "(?:recogn|organ|optim|initial|synchron|normal|minim|maxim|summar)is(?:es?|ed|ing|ations?)",
    "analys(?:e|ed|ing)", "(?:label|model|signal|travel)l(?:ed|ing)", "licences?", "centres?")
# A comment that begins with it leaves the reader to look for what it speaks of.
SAME = r"[ \t]+The same\b"
SLASHES, HASH = r"(?://[/!]?<?|/\*+)", "#"
COMMENT_MARKS = dict.fromkeys((*CPP_SUFFIXES, ".h", ".c", ".js", ".css"), SLASHES) | dict.fromkeys(
    (".py", ".txt", ".cmake", ""), HASH)
HABIT = re.compile(
    "(?<![a-z])(?:(?P<allowed>" + "|".join(ALLOWED).replace(" ", GAP) + ")|"
    + "|".join(HABITS).replace(" ", GAP) + ")(?![a-z])", re.IGNORECASE)
# Where people read, besides the files at the top: headers, messages, comments, tests and pages.
READ_FOLDERS = ("include", "src", "tools", "bench", "examples", "web", "docs", "tests", "cmake",
                "scripts")
READ_SUFFIXES = CPP_SUFFIXES + (".h", ".c", ".py", ".go", ".rs", ".java", ".js", ".html", ".css",
                                ".md", ".txt", ".cmake", ".in", "")

# Who may include whom; ARCHITECTURE.md and the README.md of each room must agree. A room is the
# folder below src, or the folder at the top. The public headers are six groups: the vocabulary of
# all rooms, what needs Boost.Asio, what needs spdlog, what is about servers, what is for services,
# and the rest, which is about the pool.
VOCABULARY = ("breaker.hpp", "options.hpp", "error.hpp", "stats.hpp", "event.hpp", "secret.hpp",
              "trace_context.hpp")
ASIO = ("asio.hpp", "asio_connector.hpp", "asio_unit_of_work.hpp", "per_executor.hpp",
        "detail/asio_wait.hpp", "detail/async_connector.hpp", "detail/per_executor.hpp")
SPDLOG = ("spdlog.hpp",)
# The files of src/shell that use Boost.Asio. The rest of that room must not include them.
SHELL_ASIO = ("asio_call.cpp", "asio_call.hpp", "asio_context.cpp", "asio_context.hpp",
              "compiled_asio.cpp", "work_asio.cpp", "work_asio.hpp")
SERVICE = ("asio_request_scope.hpp", "http_server.hpp", "request_scope.hpp", "service.hpp")
SERVER = ("credentials.hpp", "database.hpp", "detail/codecs.hpp", "detail/complete_with.hpp",
          "detail/database.hpp", "detail/fields.hpp", "detail/listening.hpp",
          "detail/pool_source.hpp", "http.hpp", "keepalive.hpp", "listening.hpp", "mariadb.hpp",
          "postgres.hpp", "redis.hpp", "redis_subscribe.hpp", "server_error.hpp", "sql.hpp",
          "sql_codec.hpp", "sql_connection.hpp", "sql_many.hpp", "sql_rows.hpp", "sqlite.hpp",
          "tls.hpp", "url.hpp")
MAY_INCLUDE = {
    "vocabulary": {"vocabulary"},
    "pool": {"pool", "vocabulary"},
    "asio": {"asio", "pool", "vocabulary"},
    "spdlog": {"spdlog", "pool", "vocabulary"},
    "watch": {"watch", "service", "server", "asio", "spdlog", "pool", "vocabulary"},
    "server": {"server", "asio", "pool", "vocabulary"},
    "connector": {"connector", "server", "asio", "pool", "vocabulary"},
    "database": {"database", "server", "asio", "pool", "vocabulary"},
    "service": {"service", "server", "asio", "pool", "vocabulary"},
    "http_server": {"http_server", "service", "server", "asio", "pool", "vocabulary"},
    "core": {"core", "vocabulary"},
    "sim": {"sim", "core", "vocabulary"},
    "shell": {"shell", "core", "vocabulary", "pool"},
    "shell_asio": {"shell_asio", "shell", "core", "vocabulary", "pool", "asio"},
    "c": {"c", "pool", "vocabulary"},
    "examples": {"examples", "service", "server", "asio", "spdlog", "pool", "vocabulary"},
    "bench": {"bench", "core", "server", "asio", "pool", "vocabulary", "support"},
    "tools": {"tools", "examples", "service", "sim", "server", "asio", "pool", "vocabulary"},
}
# A third party is named in as few rooms as possible; so is the operating system.
THIRD_PARTY = {
    "asio": ("boost/asio/", "boost/system/"),
    "shell_asio": ("boost/asio/", "boost/beast/", "boost/system/"),
    "spdlog": ("spdlog/",),
    "server": ("boost/asio/", "boost/system/", "boost/beast/"),
    "connector": ("boost/asio/", "boost/system/", "boost/beast/", "openssl/", "libpq-fe.h",
                  "mysql.h", "errmsg.h", "mysqld_error.h", "sqlite3.h"),
    "database": ("boost/asio/", "boost/system/"),
    "service": ("boost/asio/", "boost/system/", "boost/beast/"),
    "http_server": ("boost/asio/", "boost/system/", "boost/beast/", "sys/socket.h", "unistd.h"),
    "watch": ("boost/asio/", "boost/system/", "boost/beast/", "spdlog/"),
    "bench": ("boost/asio/",),
    "examples": ("boost/asio/", "boost/asio.hpp", "boost/beast/", "boost/json", "spdlog/", "pqxx/",
                 "soci/", "curl/", "CLI/"),
    "tools": ("CLI/", "boost/asio/", "boost/json", "boost/system/", "openssl/", "libpq-fe.h"),
}
# In the documents a group of headers stands for all that its headers may include.
HEADER_GROUPS = {"vocabulary", "pool", "asio", "spdlog", "server", "service"}
INCLUDE_TABLES = ("ARCHITECTURE.md", "include/cenote/README.md")
PLATFORM_ROOMS = {"shell", "connector", "watch", "c", "tools", "bench"}

# Rooms where the same calls must always give the same answers: a replay needs that.
PURE_ROOMS = {"core", "sim"}
IMPURE = {
    r"::now\(": "reads a clock: `now` is passed in",
    r"\brandom_device\b": "draws from outside: the generator is passed in",
    r"\bstd::unordered_": "has an order that no standard promises",
    r"\bthis_thread\b": "knows about threads",
    r"#\s*include\s*<(thread|mutex|shared_mutex|condition_variable|stop_token)>":
        "knows about threads",
}

LEFTOVER = re.compile(r"\b(" + "|".join(("TO" "DO", "FIX" "ME", "X" "XX", "HA" "CK")) + r")\b")
FENCE = re.compile(r"\batomic_" r"thread_fence\b")
VAGUE_NAMES = {"util", "utils", "common", "helper", "helpers"}

STANDARD_HEADERS = set("""
    algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono
    cinttypes climits clocale cmath compare complex concepts condition_variable coroutine csetjmp
    csignal cstdarg cstddef cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype deque
    exception execution expected filesystem format forward_list fstream functional future
    initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map
    memory memory_resource mutex new numbers numeric optional ostream print queue random ranges
    ratio regex scoped_allocator semaphore set shared_mutex source_location span sstream stack
    stacktrace stdexcept stop_token streambuf string string_view strstream syncstream system_error
    thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant
    vector version
""".split())


def blank(text):
    """The same lines, with nothing on them."""
    return re.sub(r"[^\n]", " ", text)


# One pattern for everything that can hide a brace or a quote. Numbers are in it for their digit
# separators, which would pass for the start of a character.
TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|/\*.*?\*/)"
    r'|(?P<raw>\bR"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)")'
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<number>\b\d(?:'?[\w.])*)"
    r"|(?P<character>'(?:\\.|[^'\\\n])+')",
    re.DOTALL)


def without_comments(text):
    return TOKEN.sub(lambda m: blank(m[0]) if m["comment"] else m[0], text)


def without_literals(text):
    """Without comments, strings, characters and preprocessor lines: braces are braces."""
    text = TOKEN.sub(lambda m: m[0] if m["number"] else blank(m[0]), text)
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", lambda m: blank(m[0]), text, flags=re.MULTILINE)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def opens_scope(head):
    """Whether the text before a brace opens a namespace or a type: functions may be inside."""
    while (shorter := re.sub(r"<[^<>]*>|\([^()]*\)", " ", head)) != head:
        head = shorter
    return re.search(r"\b(namespace|class|struct|union|enum|extern)\b", head) is not None


def opens_table(head):
    """Whether it opens an initializer: a long table is no long function."""
    head = head.strip()
    return head.endswith("=") or bool(re.fullmatch(r"\w[^()]*", head))


def functions(text):
    """(first line, number of lines) of each function body that is not inside another one.

    Good enough for formatted code: a brace directly within namespaces and types opens a function,
    unless what stands before it says otherwise.
    """
    code = without_literals(text)
    scopes = []  # for each open brace: is it a namespace or a type?
    head_start = 0
    begin = None  # of the function we are in: (first position, depth outside of it)
    for match in re.finditer(r"[{};]|\b(?:public|protected|private)\s*:", code):
        at, symbol = match.start(), match[0]
        if symbol == "{":
            head = code[head_start:at]
            scope = begin is None and opens_scope(head)
            if begin is None and not scope:
                first = head_start + len(head) - len(head.lstrip())
                begin = (first, len(scopes), opens_table(head))
            scopes.append(scope)
        elif symbol == "}" and scopes:
            scopes.pop()
            if begin and len(scopes) == begin[1]:
                first, _, table = begin
                if not table:
                    yield line_of(code, first), line_of(code, at) - line_of(code, first) + 1
                begin = None
        if begin is None:
            head_start = match.end()


class Tidy:
    """One look at a repository; `findings` is what is wrong with it."""

    def __init__(self, root):
        self.root = Path(root)
        self.findings = []

    def report(self, path, line, message):
        self.findings.append(f"{path.relative_to(self.root)}:{line}: {message}")

    def run(self):
        for path in self.files():
            text = path.read_text(encoding="utf-8")
            self.check_text(path, text)
            self.check_name(path)
            if path.suffix in CPP_SUFFIXES:
                self.check_opening(path, text)
                self.check_functions(path, text)
                self.check_purity(path, text)
                self.check_includes(path, text)
        self.check_cmake_lists_sources()
        self.check_architecture()
        self.check_include_documents()
        self.check_maps()
        self.check_habits()
        return self.findings

    def files(self):
        for path in sorted(self.root.iterdir()):
            if path.is_file() and path.name in ("Makefile", "CMakeLists.txt", "CMakePresets.json"):
                yield path
        for folder in CPP_FOLDERS + OTHER_FOLDERS:
            for path in sorted(self.root.glob(f"{folder}/**/*")):
                if path.is_file() and path.suffix in TEXT_SUFFIXES:
                    yield path

    def sources(self, folders):
        for folder in folders:
            for path in sorted(self.root.glob(f"{folder}/**/*")):
                if path.suffix in CPP_SUFFIXES:
                    yield path

    def room(self, path):
        """The room a file belongs to, or None where no rule of inclusion holds (tests)."""
        parts = path.relative_to(self.root).parts
        if parts[0] == "include":
            header = "/".join(parts[2:])
            for room, headers in (("asio", ASIO), ("server", SERVER), ("spdlog", SPDLOG),
                                  ("service", SERVICE), ("vocabulary", VOCABULARY)):
                if header in headers:
                    return room
            return "pool"
        if parts[:2] == ("src", "shell") and parts[2:] in [(name,) for name in SHELL_ASIO]:
            return "shell_asio"
        room = parts[1] if parts[0] == "src" else parts[0]
        return None if parts[0] == "tests" else room

    def check_text(self, path, text):
        for number, line in enumerate(text.splitlines(), 1):
            # survivors.txt quotes a line of code together with its change.
            if len(line) > COLUMNS_MAX and path.name != "survivors.txt":
                self.report(path, number, f"{len(line)} columns, {COLUMNS_MAX} are allowed")
            if leftover := LEFTOVER.search(line):
                self.report(path, number, f"left behind: {leftover[0]}")

    def check_name(self, path):
        for part in path.relative_to(self.root).parts:
            if part.split(".")[0].lower() in VAGUE_NAMES:
                self.report(path, 1, f"'{part}' says nothing: a helper lives with its only user")

    def check_opening(self, path, text):
        first = text.split("\n", 1)[0]
        if not re.match(r"// \S.{9,}", first):
            self.report(path, 1, "the first line must be a // comment: why does this file exist?")
        if path.suffix == ".hpp" and not re.search(r"^#pragma once$", text, re.MULTILINE):
            self.report(path, 1, "a header needs #pragma once")

    def check_functions(self, path, text):
        for line, length in functions(text):
            if length > FUNCTION_LINES_MAX:
                self.report(path, line, f"function of {length} lines, "
                                        f"{FUNCTION_LINES_MAX} are allowed")

    def check_purity(self, path, text):
        code = without_comments(text)
        for match in FENCE.finditer(code):
            self.report(path, line_of(code, match.start()),
                        "fences are invisible to the thread sanitizer: order by exchange")
        if self.room(path) in PURE_ROOMS:
            for pattern, reason in IMPURE.items():
                for match in re.finditer(pattern, code):
                    self.report(path, line_of(code, match.start()),
                                f"'{match[0]}' {reason}")

    def check_includes(self, path, text):
        room = self.room(path)
        if room is None:
            return
        if room not in MAY_INCLUDE:
            self.report(path, 1, f"the room '{room}' is not in the table of tidy.py")
            return
        code = without_comments(text)
        for match in re.finditer(r'^[ \t]*#\s*include\s*([<"])([^>"\n]+)[>"]', code, re.MULTILINE):
            problem = self.include_problem(path, room, match[1], match[2])
            if problem:
                self.report(path, line_of(code, match.start(1)), problem)

    def include_problem(self, path, room, quote, name):
        """What is wrong with this include, or None."""
        target = self.resolve(path, quote, name)
        if target:
            there = self.room(target)
            if target.is_relative_to(self.root / "tests" / "support"):
                there = "support"
            if there not in MAY_INCLUDE[room]:
                return f"'{room}' may not include '{name}': it is of '{there or 'tests'}'"
            return None
        if quote == '"' or name.startswith("cenote/"):
            return f"there is no '{name}'"
        if name in STANDARD_HEADERS:
            return None
        if name.endswith(".h") and not name.startswith(THIRD_PARTY.get(room, ("//",))):
            return None if room in PLATFORM_ROOMS else f"'{room}' may not include system '<{name}>'"
        if not name.startswith(THIRD_PARTY.get(room, ("//",))):
            return f"'{room}' may not include third party '<{name}>'"
        return None

    def resolve(self, path, quote, name):
        """The file of this project that an include means, or None if it is of another one."""
        places = [self.root / "include", self.root / "src", self.root / "tests", self.root]
        if quote == '"':
            places.insert(0, path.parent)
        for place in places:
            target = (place / name).resolve()
            if target.is_file() and target.is_relative_to(self.root.resolve()):
                return self.root / target.relative_to(self.root.resolve())
        return None

    def check_include_documents(self):
        """Tables with a column `includes`, and `May include:` on a page, agree with MAY_INCLUDE."""
        described = {"shell_asio"}  # in the row of the shell
        for page in [self.root / name for name in INCLUDE_TABLES]:
            column = None
            for number, line in enumerate(page.read_text(encoding="utf-8").splitlines()
                                          if page.is_file() else [], 1):
                cells = [cell.strip() for cell in line.split("|")[1:-1]]
                if column is None and "includes" in cells:
                    column = cells.index("includes")
                elif not cells:
                    column = None
                elif column is not None and (room := self.room_named(cells[0])):
                    described.add(room)
                    self.check_described(page, number, room, cells[column])
        for room in {self.room(path) for path in self.sources(CPP_FOLDERS)}:
            if room in MAY_INCLUDE and room not in described:
                self.report(self.root / "ARCHITECTURE.md", 1, f"no row for the room '{room}'")
        pages = [path for folder in MAPPED_FOLDERS
                 for path in sorted(self.root.glob(f"{folder}/**/README.md"))]
        for page in pages:
            text = page.read_text(encoding="utf-8")
            parts = page.relative_to(self.root).parts
            room = parts[1] if parts[0] == "src" else parts[0]
            if room in MAY_INCLUDE and (match := re.search(r"May include:([^;.]*)", text)):
                self.check_described(page, line_of(text, match.start()), room, match[1])

    @staticmethod
    def room_named(cell):
        """The room whose row begins with this cell, or None."""
        name = re.match(r"\[?`?(?:src/)?([a-z_]+)", cell)
        return name[1] if name and name[1] in MAY_INCLUDE else None

    def check_described(self, page, line, room, text):
        included = set(re.findall(r"[a-z_]+", text.split(";")[0].replace("no other room", "")))
        included -= {"headers", "and"}
        for group in included & HEADER_GROUPS:
            included |= MAY_INCLUDE[group]
        right = MAY_INCLUDE[room] - {room}
        if included - {room} != right:
            self.report(page, line, f"'{room}' may include {', '.join(sorted(right)) or 'nothing'} "
                                    "by tidy.py")

    def check_cmake_lists_sources(self):
        lists = self.root / "src" / "CMakeLists.txt"
        listed = set(lists.read_text(encoding="utf-8").replace(")", " ").split())
        for path in self.sources(["src"]):
            name = path.relative_to(lists.parent).as_posix()
            if path.suffix == ".cpp" and name not in listed:
                self.report(path, 1, "not listed in src/CMakeLists.txt")

    def check_architecture(self):
        page = self.root / "ARCHITECTURE.md"
        if not page.is_file():
            self.report(page, 1, "missing: it is where a newcomer begins")
            return
        lines = len(page.read_text(encoding="utf-8").splitlines())
        if lines > ARCHITECTURE_LINES_MAX:
            self.report(page, lines, f"{lines} lines, {ARCHITECTURE_LINES_MAX} are allowed: the "
                                     "details belong into the README.md of a room")

    def map_of(self, path):
        """The README.md that names a file, or None."""
        for folder in path.parents:
            if folder == self.root:
                return None
            if (folder / "README.md").is_file():
                return folder / "README.md"
        return None

    def check_maps(self):
        """Every file is named in a map, and a map names no file that is gone."""
        present = {path.name for path in self.sources(MAPPED_FOLDERS + ("tests",))}
        names_in, stems_in = {}, {}
        for folder in MAPPED_FOLDERS:
            for page in sorted(self.root.glob(f"{folder}/**/README.md")):
                names_in[page] = self.names_on(page)
                stems_in[page] = set(re.findall(r"`(?:[\w-]+/)*([\w-]+)`",
                                                page.read_text(encoding="utf-8")))
        for path in self.sources(MAPPED_FOLDERS):
            page = self.map_of(path)
            if page is None:
                self.report(path, 1, "no README.md in its folder or above names it")
            elif path.name not in names_in[page] and path.stem not in stems_in[page]:
                self.report(path, 1, f"not named in {page.relative_to(self.root)}")
        for page, names in names_in.items():
            for name, line in names.items():
                if name not in present:
                    self.report(page, line, f"names '{name}', which does not exist")

    @staticmethod
    def names_on(page):
        """The files that a page names, each with its line. `line.{hpp,cpp}` names two files."""
        text = page.read_text(encoding="utf-8")
        text = re.sub(r"([\w./-]+)\.\{(\w+),\s*(\w+)\}", r"\1.\2 \1.\3", text)
        return {match[0]: line_of(text, match.start())
                for match in re.finditer(r"[\w-]+\.(?:hpp|cpp)\b", text)}

    def check_habits(self):
        pages = [path for path in sorted(self.root.iterdir())
                 if path.suffix == ".md" or path.name in ("Makefile", "CMakeLists.txt")]
        for folder in READ_FOLDERS:
            pages += [path for path in sorted(self.root.glob(f"{folder}/**/*"))
                      if path.is_file() and path.suffix in READ_SUFFIXES]
        for path in pages:
            if path == self.root / "tests/project/tidy.py":
                continue  # it lists the words
            text = path.read_text(encoding="utf-8", errors="replace")
            text = re.sub(r"`[^`\n]*`", lambda m: blank(m[0]), text)
            for match in HABIT.finditer(text):
                if not match["allowed"]:
                    habit = " ".join(match[0].split())
                    self.report(path, line_of(text, match.start()),
                                f"'{habit}': name the part and what it does")
            if mark := COMMENT_MARKS.get(path.suffix):
                self.check_comment_openings(path, text, mark)

    def check_comment_openings(self, path, text, mark):
        inside = False  # whether the line before is a comment, which this one goes on with
        for number, line in enumerate(text.splitlines(), 1):
            first = rf"^\s*{mark}" if not inside else r"^$"
            if re.search(rf"(?:{first}|\S\s+{mark}){SAME}", line):
                self.report(path, number, "'The same' opens a comment: name what it is")
            inside = re.match(rf"\s*{mark}", line) is not None


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    findings = Tidy(root).run()
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
