"""Makes the reference: one Markdown page per public header, from its comments and declarations."""

import re

import headers

SECTION = re.compile(r"/\* -{4} (.*?) -* \*/")


def segments(lines):
    """[(kind, lines)] of a comment; kind is text, cpp or console."""
    found = []
    for line in lines:
        inside = found[-1][0] if found else ""
        kind = "cpp" if line.startswith("    ") and (inside == "cpp" or not found or
                                                     not found[-1][1][-1]) else \
            "console" if line.startswith("> ") else \
            "cpp" if inside == "cpp" and not line else "text"
        if kind != inside:
            found.append((kind, []))
        part = found[-1][1]
        # A list needs an empty line before it.
        if kind == "text" and line.startswith("- ") and part and part[-1] and \
                not part[-1].startswith(("- ", "  ")):
            part.append("")
        part.append(line)
    for _, part in found:
        while part and not part[-1]:
            part.pop()
    return [(kind, part) for kind, part in found if part]


class Index:
    """Where each public name stands: the page and the anchor of its comment."""

    def __init__(self, all_headers):
        self.places = {}
        self.files = {header.name for header in all_headers}
        for header in all_headers:
            self.add(header.name, header.declarations, "")

    def add(self, page, declarations, owner):
        for each in declarations:
            if each.kind != "remark" and not is_left_out(each, owner):
                self.places.setdefault(each.qualified, (page, anchor(each.qualified)))
                self.add(page, each.members, each.name)

    def link(self, text, scope, page):
        """The target of a name as a comment of `scope` spells it; None if it is not public."""
        name = re.sub(r"(<.*>)?(\(.*\))?$", "", text)
        if not re.fullmatch(r"~?\w+(::\w+)*", name):
            return None
        parts = scope.split("::") if scope else []
        while True:
            place = self.places.get("::".join(parts + [name]))
            if place:
                return ("" if place[0] == page else file_of(place[0])) + "#" + place[1]
            if not parts:
                return None
            parts.pop()


def anchor(qualified):
    name = re.sub(r"^cenote::", "", qualified).replace("::", ".")
    return re.sub(r"[^\w.]+", "-", name.replace("operator=", "operator-assign"))


def file_of(header):
    return re.sub(r"\W", "_", header) + ".md" if header.endswith(".h") else \
        header.replace(".hpp", ".md")


class Page:
    """The Markdown of one header."""

    def __init__(self, header, index):
        self.header = header
        self.index = index
        self.anchors = set()
        self.out = []

    def markdown(self):
        name = self.header.name
        self.out = [f"# {name}", ""]
        self.out += self.prose(self.header.intro, "cenote")
        self.out += ["```cpp", f"#include <cenote/{name}>", "```", ""]
        own = [each for each in self.header.declarations if each.kind != "remark"]
        if len({each.name for each in own}) > 2:
            names = dict.fromkeys((each.name, anchor(each.qualified)) for each in own)
            self.out += [", ".join(f"[`{n}`](#{a})" for n, a in names), ""]
        self.entries(self.header.declarations, 2, "")
        return "\n".join(self.out) + "\n"

    # ---- Prose ------------------------------------------------------------------------------

    def prose(self, lines, scope):
        """The lines of a comment as Markdown: text, code (indented) and output (after `>`)."""
        out = []
        for kind, part in segments(lines):
            if kind == "text":
                out += self.inline("\n".join(part), scope).split("\n")
            else:
                cut = 4 if kind == "cpp" else 2
                out += [f"```{kind}", *(line[cut:] for line in part), "```"]
            out.append("")
        return out

    def inline(self, text, scope):
        pieces = re.split(r"(`[^`]*`)", text)
        for at, piece in enumerate(pieces):
            pieces[at] = self.code(piece[1:-1], scope) if at % 2 else self.words(piece, scope)
        return "".join(pieces)

    def code(self, text, scope):
        target = self.index.link(text, scope, self.header.name)
        return f"[`{text}`]({target})" if target else f"`{text}`"

    def words(self, text, scope):
        """Plain text: names become code and links, and nothing else is markup."""
        pattern = re.compile(
            r"(?P<file><?(?:cenote/)?\w+\.hpp>?)|(?P<page>docs/[\w/-]+\.md)"
            r"|(?P<name>~?\b\w+(?:::\w+)+(?:<\w+>)?(?:\([\w, ]*\))?|\b\w+\(\w*\)"
            r"|\b[A-Za-z]\w*_\w+\b(?:<\w+>|\.\w+)?|\b\w+<\w+>)")
        out, at = [], 0
        for match in pattern.finditer(text):
            out.append(self.escaped(text[at:match.start()]))
            out.append(self.named(match, scope))
            at = match.end()
        return "".join(out + [self.escaped(text[at:])])

    def named(self, match, scope):
        if match["page"]:
            return f"[{match['page']}](../{match['page']})"
        if match["file"]:
            name = match["file"].strip("<>").removeprefix("cenote/")
            if name not in self.index.files:
                return f"`{match['file']}`"
            return f"[`{match['file']}`]({file_of(name)})"
        return self.code(match["name"], scope)

    @staticmethod
    def escaped(text):
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") \
            .replace("[", "\\[").replace("_", "\\_")

    # ---- Declarations -----------------------------------------------------------------------

    def entries(self, declarations, level, owner):
        """All members of a scope, with one heading for all overloads of a name."""
        table, last = [], None
        for group in grouped(declarations, owner):
            first = group[0]
            if is_row(first):
                table += group
                last = None
                continue
            self.table(table)
            table = []
            if first.kind == "remark":
                self.out += self.prose(first.doc, first.scope)
                last = None
                continue
            if (first.kind, first.name) != last or first.kind != "function":
                self.heading(group, level)
            last = (first.kind, first.name)
            self.entry(group, level)
        self.table(table)

    def heading(self, group, level):
        first = group[0]
        ids = [one for one in dict.fromkeys(anchor(each.qualified) for each in group)
               if one not in self.anchors]
        self.anchors.update(ids)
        word = {"enum": "enum ", "concept": "concept "}.get(first.kind, "")
        if first.kind == "class":
            word = re.findall(r"\b(class|struct|union)\b", first.text)[-1] + " "
        names = dict.fromkeys(title(each) for each in group)
        mark = f" {{ #{ids[0]} }}" if ids else ""
        self.out += [f"{'#' * min(level, 6)} {word}{', '.join(names)}{mark}", ""]
        if ids[1:]:
            self.out += ["".join(f'<span id="{one}"></span>' for one in ids[1:]), ""]

    def entry(self, group, level):
        first = group[0]
        code = "\n".join(each.text if each.kind == "macro" else each.text.rstrip(";") + ";"
                         for each in group)
        self.out += ["```cpp", code, "```", ""]
        self.out += self.prose(first.doc, first.qualified if first.members else first.scope)
        if first.kind == "class":
            facts = copying(first)
            self.out += [facts, ""] if facts else []
            self.entries(first.members, level + 1, first.name)
        elif first.kind == "enum":
            self.table(first.members)

    def table(self, rows):
        if not rows:
            return
        self.out += ["| | |", "|---|---|"]
        for each in rows:
            one = anchor(each.qualified)
            code = " ".join(each.text.rstrip(";").split()).replace("|", "\\|")
            cell = self.inline("\n".join(each.doc), each.scope)
            cell = re.sub(r"\n\n+", "<br><br>", cell.strip()).replace("\n", " ")
            cell = cell.replace("|", "\\|")
            self.out.append(f'| <span id="{one}"></span>`{code}` | {cell} |')
            self.anchors.add(one)
        self.out.append("")


def title(declaration):
    name = declaration.name.replace("<", "&lt;").replace(">", "&gt;").replace("*", "&#42;")
    return f"{name}()" if declaration.kind == "function" and "operator" not in name else name


def is_row(declaration):
    """Whether a row of a table is enough: a variable with a short comment behind it."""
    return declaration.kind == "enumerator" or (
        declaration.kind == "variable" and (declaration.trailing or not declaration.doc))


def is_left_out(declaration, owner):
    """Copying, moving and the like, unless there is something to say about it."""
    return headers.is_special(declaration, owner) and not declaration.doc


def grouped(declarations, owner):
    """Declarations with those that share their comment."""
    groups = []
    for each in declarations:
        if each.kind != "remark" and is_left_out(each, owner):
            continue
        if each.follows and groups and groups[-1][0].kind not in ("remark", "class", "enum") and \
                not is_row(groups[-1][0]):
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def copying(declaration):
    """A sentence on whether objects of a class can be copied and moved, if it says so."""
    flat = [" ".join(each.text.split()) for each in declaration.members
            if each.kind == "function" and each.name == declaration.name]
    name = declaration.name
    moves = any(re.search(rf"\({name}(<\w+>)?&&", each) for each in flat)
    copies = [each for each in flat if re.search(rf"\(const {name}(<\w+>)?&", each)]
    if moves and not [each for each in copies if "= delete" not in each]:
        return "Can be moved, but not copied."
    if copies and all("= delete" in each for each in copies):
        return "Cannot be copied or moved."
    return ""


def c_page(path, index):
    """The page of the C header, whose comments stand inside of structures, too: block by block."""
    text = path.read_text(encoding="utf-8")
    page = Page(headers.Header(path.name, [], []), index)
    body = text[:text.rindex("#ifdef __cplusplus")]
    intro, _, body = body.partition("#ifndef CENOTE_CENOTE_H")
    page.out = [f"# {path.name}", ""] + page.prose(c_comment(intro), "")
    page.out += ["```c", f"#include <cenote/{path.name}>", "```", ""]
    body = body[re.search(r"^#define CENOTE_API.*\n\n", body, re.MULTILINE).end():]
    level = 2
    for block in re.split(r"\n\n(?=\S)", body):
        section = SECTION.match(block.strip())
        if section:
            page.out += [f"## {section[1]}", ""]
            level = 3
            continue
        comment = re.match(r"/\*.*?\*/\n", block, re.DOTALL)
        code = block[comment.end():] if comment else block
        names = c_names(code)
        if names:
            page.out += [f"{'#' * level} {', '.join(names)}", ""]
        page.out += page.prose(c_comment(comment[0]), "") if comment else []
        page.out += ["```c", code.strip("\n"), "```", ""] if code.strip() else []
    return "\n".join(page.out) + "\n"


def c_comment(text):
    text = re.sub(r"^/\* ?| ?\*/\s*$", "", text.strip())
    return [re.sub(r"^ \* ?", "", line) for line in text.split("\n")]


def c_names(code):
    """The functions and types that a block declares."""
    code = re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL)
    names = re.findall(r"^CENOTE_API [^;(]*?(\w+)\(", code, re.MULTILINE)
    names += re.findall(r"^(?:\} |typedef [\w ]+? )(\w+);", code, re.MULTILINE)
    names += re.findall(r"^typedef \w+ \(\*(\w+)\)", code, re.MULTILINE)
    return names or re.findall(r"^#define (\w+)", code, re.MULTILINE)[:1]


def groups_of(readme):
    """(title, library, [header]) of each table in include/cenote/README.md."""
    found = []
    for part in re.split(r"^\*\*(?=[A-Z])", readme, flags=re.MULTILINE)[1:]:
        names = [name for row in re.findall(r"^\| (`.*?) \|", part, re.MULTILINE)
                 for name in re.findall(r"`([\w.]+\.h(?:pp)?)`", row)]
        head = re.match(r"(.*?)\*\* ?\((.*?)\)\n", part)
        found.append((head[1], head[2], names))
    return found


def make(root):
    """{file name: Markdown} of all pages, and [(group, [(title, file name)])] to navigate."""
    folder = root / "include/cenote"
    all_headers = [headers.read(path) for path in sorted(folder.glob("*.hpp"))]
    index = Index(all_headers)
    pages = {file_of(one.name): Page(one, index).markdown() for one in all_headers}
    pages["cenote_h.md"] = c_page(folder / "cenote.h", index)
    intros = {one.name: one.intro for one in all_headers}
    intros["cenote.h"] = ["The C API: pools for C and for any language that can call C."]
    nav, listed = [], set()
    out = ["# Reference", "", "Every public class, function and option, with its declaration and "
           "its comment, from the headers themselves.", ""]
    for group, library, names in groups_of((folder / "README.md").read_text(encoding="utf-8")):
        out += [f"## {group}", "", library[0].upper() + library[1:] + ".", "", "| | |", "|---|---|"]
        helper = Page(headers.Header("", [], []), index)
        for name in names:
            first = re.split(r"(?<=[.])\s", " ".join(" ".join(intros[name]).split()))[0]
            out.append(f"| [`{name}`]({file_of(name)}) | {helper.inline(first, 'cenote')} |")
        out.append("")
        nav.append((group, [(name, file_of(name)) for name in names]))
        listed.update(names)
    missing = set(intros) - listed
    if missing:
        names = ", ".join(sorted(missing))
        raise SystemExit(f"docs: include/cenote/README.md does not list {names}")
    pages["index.md"] = "\n".join(out)
    return pages, nav
