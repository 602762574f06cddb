"""Reads the public headers: which names they declare, each with its comment and its declaration.

A small reader for headers as clang-format leaves them, and not for C++ in general. It knows:

- `///` before a declaration, and `///<` after one, are its comment. Declarations without a comment
  that follow without an empty line share the comment above them.
- The first `//` lines of a file are about the header. A `//` paragraph between empty lines inside
  a class is a remark on the members that follow.
- Namespaces `detail`, private and protected members, friends, forward declarations and definitions
  outside of their class are not public.
"""

import dataclasses
import re
import textwrap

KEYWORDS = r"(?:class|struct|union|enum class|enum)"


@dataclasses.dataclass
class Declaration:
    """One declaration, as it stands in the header."""
    kind: str  # class, enum, enumerator, function, concept, alias, variable, macro, remark
    name: str
    text: str = ""  # the declaration without its body
    doc: list = dataclasses.field(default_factory=list)  # the lines of its comment
    trailing: bool = False  # the comment stands behind it
    follows: bool = False  # has no comment, and no empty line before it
    line: int = 0
    scope: str = ""  # "cenote::pool"
    members: list = dataclasses.field(default_factory=list)

    @property
    def qualified(self):
        return f"{self.scope}::{self.name}" if self.scope else self.name


@dataclasses.dataclass
class Header:
    name: str  # "pool.hpp"
    intro: list
    declarations: list


def matching(text, start):
    """The index behind the bracket that closes the one at `start`."""
    depth, at = 0, start
    while at < len(text):
        at = skip_literal(text, at)
        if text[at] in "({[":
            depth += 1
        elif text[at] in ")}]":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    raise ValueError("a bracket is not closed")


def behind_angles(text, start):
    """The index behind the `>` that closes the `<` at `start`."""
    depth, at = 0, start
    while True:
        depth += {"<": 1, ">": -1}.get(text[at], 0)
        at += 1
        if depth == 0:
            return at


def skip_literal(text, at):
    """The index of the next character that is in no comment and in no literal."""
    while True:
        if text.startswith("//", at):
            at = text.index("\n", at)
        elif text.startswith("/*", at):
            at = text.index("*/", at) + 2
        elif text[at] == '"' or (text[at] == "'" and not text[at - 1].isalnum()):
            quote, at = text[at], at + 1
            while text[at] != quote:
                at += 2 if text[at] == "\\" else 1
            at += 1
        else:
            return at


def tidy(text):
    """A declaration without its indentation and without comments."""
    return textwrap.dedent(re.sub(r"[ \t]*//[^\n]*", "", text)).strip()


class Reader:
    def __init__(self, text):
        self.text = text
        self.at = 0

    def read(self, name):
        intro = re.match(r"(?://(?!/)[^\n]*\n)*", self.text)[0]
        lines = [re.sub(r"^// ?", "", line) for line in intro.splitlines()]
        self.at = len(intro)
        return Header(name, lines, self.scope("", "public", len(self.text)))

    def scope(self, inside, access, end):
        """The public declarations up to `end`; `inside` is the name of the scope."""
        found, doc, remark, gap = [], [], [], True
        while self.at < end:
            line_end = self.text.find("\n", self.at)
            line_end = end if line_end < 0 else min(line_end, end)
            line = self.text[self.at:line_end].strip()
            if line.startswith("///") and not line.startswith("///<"):
                doc.append(re.sub(r"^/// ?", "", line))
                self.at = line_end + 1
            elif line.startswith("///<"):
                if found and access == "public":
                    self.trailing(found[-1], line)
                self.at = line_end + 1
            elif line.startswith("//"):
                remark.append(re.sub(r"^// ?", "", line))
                self.at = line_end + 1
            elif line.startswith("#define "):
                macro = self.macro(line_end)
                macro.doc, macro.follows = doc, not doc and not gap
                found.append(macro)
                doc, remark, gap = [], [], False
            elif line.startswith("#") or not line:
                if not line and remark and access == "public" and inside and gap:
                    found.append(Declaration("remark", "", doc=remark, scope=inside))
                if not line:
                    gap = True
                remark = []
                self.at = line_end + 1
            elif re.match(r"(public|protected|private):", line):
                access, gap = line.split(":")[0], True
                self.at = line_end + 1
            else:
                remark = []
                each = self.declaration(inside, access, end)
                if each is not None:
                    for one in each if each and each[0].scope == inside else []:
                        one.doc = doc + one.doc
                        one.follows = not one.doc and not gap
                    found.extend(each)
                    gap = False
                doc = []
        return found

    def macro(self, line_end):
        """The macro on this line and on those that it continues."""
        begin = self.at
        while self.text[line_end - 1] == "\\":
            line_end = self.text.index("\n", line_end + 1)
        self.at = line_end + 1
        text = self.text[begin:line_end].strip()
        return Declaration("macro", re.match(r"#define (\w+)", text)[1], text,
                           line=self.text.count("\n", 0, begin) + 1)

    def trailing(self, declaration, line):
        declaration.doc = declaration.doc + [re.sub(r"^///< ?", "", line)]
        declaration.trailing = True

    def declaration(self, inside, access, end):
        """The declarations at this place: none if it is not public, several for a namespace."""
        begin = self.at
        stop, body = self.find_end(end)
        head = self.text[begin:body if body else stop]
        flat = " ".join(tidy(head).split())
        line = self.text.count("\n", 0, begin) + 1
        self.at = stop
        namespace = re.match(r"(?:inline )?namespace ([\w:]+)$", flat)
        if namespace:
            if "detail" in namespace[1]:
                self.behind_line(None)
                return None
            self.at = body + 1
            full = f"{inside}::{namespace[1]}" if inside else namespace[1]
            found = self.scope(full, "public", stop - 1)
            self.at = stop
            self.behind_line(None)
            return found
        public = access == "public" and inside
        found = self.named(flat, head, body, inside, line) if public else None
        if found is not None and found.kind in ("class", "enum") and body:
            self.at = body + 1
            if found.kind == "enum":
                found.members = self.enumerators(found.qualified, stop)
            else:
                first = "private" if re.search(r"\bclass\b", self.type_head(flat)) else "public"
                found.members = self.scope(found.qualified, first, self.body_end)
        self.at = stop
        self.behind_line(found)
        return [found] if found is not None else None

    def behind_line(self, found):
        """Reads what follows a declaration on its line: nothing, or a comment."""
        rest = re.match(r"[ \t]*(//[^\n]*)?\n", self.text[self.at:])
        if rest:
            self.at += rest.end()
            if rest[1] and rest[1].startswith("///<") and found is not None:
                self.trailing(found, rest[1])

    @staticmethod
    def type_head(flat):
        """Without `template <…>` and `requires …` in front."""
        while flat.startswith("template"):
            flat = flat[behind_angles(flat, flat.index("<")):].strip()
        while re.match(r"requires\b|&& |\|\| ", flat):
            flat = re.sub(r"^((requires|&&|\|\|)\s*)+", "", flat)
            behind = matching(flat, 0) if flat[0] == "(" else 0
            if behind and flat[behind:behind + 2] == " {":  # requires requires (…) {…}
                flat = flat[matching(flat, behind + 1):].strip()
                continue
            at = matching(flat, 0) if flat[0] == "(" else re.match(r"[\w:]+", flat).end()
            flat = flat[behind_angles(flat, at) if flat[at] == "<" else at:].strip()
        return re.sub(r"^(\[\[[^\]]*\]\]\s*)+", "", flat)

    def find_end(self, end):
        """(index behind the declaration, index of the `{` of its body or 0)."""
        at, initialized, parameters, members = self.at, False, False, False
        while template := re.match(r"\s*template ", self.text[at:at + 200]):
            at = behind_angles(self.text, at + template.end())
        while at < end:
            at = skip_literal(self.text, at)
            c = self.text[at]
            before = self.text[:at].rstrip()
            if c == ";":
                return at + 1, 0
            if c in "([":
                parameters = parameters or c == "("
                at = matching(self.text, at)
                continue
            if c == "=" and not re.search(r"operator[=!<>+\-*/]*$", self.text[self.at:at]):
                initialized = initialized or self.text[at + 1] != "="
            if c == ":" and parameters and ":" not in (self.text[at + 1], self.text[at - 1]):
                members = True
            if c == "{":
                close = matching(self.text, at)
                if not (initialized or self.is_initializer(at, parameters, members)):
                    self.body_end = close - 1
                    rest = re.match(r"\s*;", self.text[close:])
                    keep = re.search(r"\b" + KEYWORDS + r"\b", before[self.at:])
                    return close + (rest.end() if rest and keep else 0), at
                at = close
                continue
            at += 1
        return end, 0

    def is_initializer(self, at, parameters, members):
        """Whether the `{` at this place begins no body."""
        before = self.text[at - 100:at].rstrip()
        return bool(re.search(r"\brequires(\([^()]*\))?$", before) or
                    (members and self.text[at - 1] not in " \n") or
                    (not parameters and re.search(r"[\w>\]]$", self.text[at - 1])))

    def named(self, flat, head, body, inside, line):
        """What this declares; None if that is not a public name."""
        plain = self.type_head(flat)
        made = lambda kind, name, text: Declaration(kind, name, text, line=line, scope=inside)
        if re.match(r"(friend|static_assert|extern|using namespace)\b", plain) or plain == ";":
            return None
        match = re.match(rf"({KEYWORDS}) (?:\[\[[^\]]*\]\] )*([\w:]+)(<[^;{{]*>)?", plain)
        if match and (body or re.match(rf"{KEYWORDS} [\w: \[\]]+;?$", plain)) and "(" not in \
                plain[:match.end()]:
            if not body or "::" in match[2] or plain[match.end():].startswith("::"):
                return None
            kind = "enum" if match[1].startswith("enum") else "class"
            return made(kind, match[2], tidy(head))
        if re.match(r"concept ", plain):
            return made("concept", re.match(r"concept (\w+)", plain)[1], tidy(head))
        alias = re.match(r"using (\w+)(?: \[\[[^\]]*\]\])? = ", plain)
        if alias:
            return made("alias", alias[1], tidy(head))
        if plain.startswith("using "):
            return None
        return self.function_or_variable(without_arguments(plain), head, made, inside)

    @staticmethod
    def function_or_variable(plain, head, made, inside):
        operator = re.search(r"(?:^|[\s&*])(operator\s*(?:\(\)|\[\]|[^\s(]+|[\w:<>, *&]+))\s*\(",
                             plain)
        if operator:
            return made("function", " ".join(operator[1].split()), without_initializers(head))
        function = re.search(r"((?:[\w<>]+::)*~?[\w]+)\(", re.sub(
            r"^(explicit\([^)]*\)|alignas\([^)]*\)|noexcept\([^)]*\)|decltype\([^)]*\)) ?",
            "", plain))
        assigned = re.search(r"(?<![=!<>])=(?!=)", plain)
        if function and (not assigned or assigned.start() > plain.index(function[0])):
            name = function[1]
            guide = re.match(rf"(?:explicit )?{re.escape(name)}\(.*\) -> {re.escape(name)}", plain)
            if "::" in name or guide:
                return None
            return made("function", name, without_initializers(head))
        variable = re.search(r"(\w+)(?:\[[^\]]*\])?\s*(?:=|\{|;|$)", plain)
        if "::" in plain[:variable.start(1)][-2:]:
            return None
        return made("variable", variable[1], tidy(head))

    def enumerators(self, inside, end):
        found, doc = [], []
        body = self.text[self.at:self.body_end]
        first = self.text.count("\n", 0, self.at)
        for number, line in enumerate(body.splitlines(), first + 1):
            line = line.strip()
            if line.startswith("///<"):
                self.trailing(found[-1], line)
            elif line.startswith("///"):
                doc.append(re.sub(r"^/// ?", "", line))
            elif re.match(r"\w+", line):
                code, _, behind = line.partition("///<")
                for each in re.findall(r"(\w+)(?:\s*=\s*[^,]+)?,?", re.sub(r"//.*", "", code)):
                    one = Declaration("enumerator", each, each, doc, line=number, scope=inside)
                    found.append(one)
                if behind:
                    found[-1].doc, found[-1].trailing = [behind.strip()], True
                doc = []
        return found


def without_arguments(plain):
    """A declaration without template arguments, which could contain parentheses."""
    if "operator" in plain:
        return plain
    before = None
    while before != plain:
        before, plain = plain, re.sub(r"(?<=\w)<[^<>]*>", "", plain)
    return plain


def without_initializers(head):
    """A declaration of a function without the initializers of a constructor."""
    depth = 0
    for at, c in enumerate(head):
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == ":" and depth == 0 and ":" not in head[at - 1] + head[at + 1:at + 2] \
                and ")" in head[:at]:
            return tidy(head[:at])
    return tidy(head)


def read(path):
    # Overloads that only explain a mistake are no part of the reference. Lines keep their numbers.
    text = re.sub(r"CENOTE_REFUSE\((?:[^;]|;(?!\n))*;\n|CENOTE_LIFETIMEBOUND",
                  lambda found: "\n" * found[0].count("\n"), path.read_text(encoding="utf-8"))
    return Reader(text).read(path.name)


def is_special(declaration, owner):
    """Members that need no comment: every reader of C++ knows what they do."""
    name, flat = declaration.name, " ".join(declaration.text.split())
    if re.search(r"\boverride\b", flat):
        return True  # the comment of the base applies
    if name.startswith("~") or flat.endswith(("= delete;", "= delete")):
        return True
    if name in ("operator==", "operator<=>") and "= default" in flat:
        return True
    inside = flat[flat.find("(") + 1:flat.rfind(")")]
    own = re.fullmatch(rf"(const )?{owner}(<[^>]*>)? ?(&&|&) ?\w*", inside)
    return bool((name in (owner, "operator=") and own) or
                (name == owner and not inside and "= default" in flat))


def all_of(declarations):
    for each in declarations:
        if each.kind != "remark":
            yield each
        yield from all_of(each.members)


def undocumented(header):
    """The public names of a header that have no comment, neither their own nor a shared one."""
    def walk(declarations, owner):
        shared = False
        for each in declarations:
            if each.kind == "remark":
                continue
            shared = bool(each.doc) or (each.follows and shared)
            if not shared and not is_special(each, owner):
                yield each
            if is_special(each, owner) and not each.doc:
                shared = True  # the next one has to have its own all the same
                shared = False if not each.follows else shared
            yield from walk(each.members, each.name)
    return list(walk(header.declarations, ""))
