# Finds what can be mutated in C++ sources: operators, constants, conditions, statements, returns.
"""The sources must be formatted as clang-format does it here: binary operators stand between
spaces, brackets of templates do not. A mutation that does not compile is dropped later
(scripts/mutate).
"""

import re
from dataclasses import dataclass

TOKEN = re.compile(
    r"(?P<comment>//[^\n]*|^[ \t]*#[^\n]*)"
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<character>'(?:\\.|[^'\\\n])')"
    r"|(?P<number>\d(?:'?[\w.])*)"
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<op><=>|<<=|>>=|->|\+\+|--|&&|\|\||<=|>=|==|!=|[-+*/%&|^]=|::|(?<=\s)(?:<<|>>)(?=\s)|\S)",
    re.MULTILINE)
OPENING, CLOSING = "([{<", ")]}>"

# How tightly binary operators bind: a smaller number binds tighter.
BINDING = {**dict.fromkeys("*/%", 5), **dict.fromkeys("+-", 6), "<<": 7, ">>": 7, "<=>": 8,
           **dict.fromkeys(("<", "<=", ">", ">="), 9), "==": 10, "!=": 10, "&": 11, "^": 12,
           "|": 13, "&&": 14, "||": 15,
           **dict.fromkeys(("=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^="), 16)}
OPERATORS = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"),
             "==": ("!=",), "!=": ("==",), "+": ("-",), "-": ("+",), "*": ("/",), "/": ("*",),
             "%": ("*",), "&&": ("||",), "||": ("&&",), "+=": ("-=",), "-=": ("+=",),
             "&": ("|",), "|": ("&",)}
BOUNDARIES = {";", ",", "?", ":", "return", "throw", "else", "case"}
NO_EXPRESSION = {"using", "typedef", "static", "constexpr", "const", "auto", "goto", "throw",
                 "friend", "template", "static_assert", "delete", "new"}


@dataclass(frozen=True)
class Mutation:
    """Replaces text[begin:end], which may be statements, by `new`."""
    begin: int
    end: int
    new: str
    is_statement: bool = False


@dataclass
class Token:
    """A token, and the index of the bracket that matches it."""
    kind: str
    text: str
    begin: int
    end: int
    match: int = -1


def tokens_of(text):
    """The tokens of a source, with brackets matched."""
    found = []
    for match in TOKEN.finditer(text):
        if match.lastgroup != "comment":
            found.append(Token(match.lastgroup, match[0], *match.span()))
    stack = []
    for index, token in enumerate(found):
        if token.kind != "op" or is_spaced(text, token) and token.text in "<>":
            continue
        if token.text in OPENING:
            stack.append(index)
        elif token.text in CLOSING:
            if token.text == ">" and found[stack[-1]].text != "<":
                continue
            token.match, found[stack[-1]].match = stack[-1], index
            stack.pop()
    return found


def is_spaced(text, token):
    """Whether there is white space on both sides, as around binary operators."""
    return text[token.begin - 1].isspace() and text[token.end:token.end + 1].isspace()


class Finder:
    """Collects the mutations of one source."""

    def __init__(self, text):
        self.text = text
        self.tokens = tokens_of(text)
        self.words = [token.text for token in self.tokens]
        self.found = {}
        self.excluded = set()  # tokens that are not mutated

    def run(self):
        """The mutations, in the order of the source, none of which cuts another in two."""
        self.scope(0, len(self.tokens))
        chosen, open_ends = [], []
        for each in sorted(self.found, key=lambda m: (m.begin, -m.end)):
            while open_ends and open_ends[-1] <= each.begin:
                open_ends.pop()
            if not open_ends or each.end <= open_ends[-1]:
                chosen.append(each)
                open_ends.append(each.end)
        return chosen

    def add(self, first, last, new, is_statement=False):
        """Notes a mutation of the tokens from `first` to `last`."""
        if any(index in self.excluded for index in range(first, last + 1)):
            return
        begin, end = self.tokens[first].begin, self.tokens[last].end
        if " ".join(self.text[begin:end].split()) != new:
            self.found[Mutation(begin, end, new, is_statement)] = True

    def code(self, first, last):
        """The text of the tokens from `first` to `last`."""
        return self.text[self.tokens[first].begin:self.tokens[last].end] if first <= last else ""

    def scope(self, at, end):
        """A namespace or a class: looks for functions, and for values of members."""
        head = at
        while at < end:
            word = self.words[at]
            close = self.tokens[at].match
            if word in "([<" and close > at:
                at = close
            elif word == "{":
                kind = self.kind_of_scope(head, at)
                if kind == "scope":
                    self.scope(at + 1, close)
                elif kind == "function":
                    self.function(head, at, close)
                at = close
                head = at + 1
            elif word == ";":
                self.member(head, at)
                head = at + 1
            elif word == ":" and self.words[at - 1] in ("public", "private", "protected"):
                head = at + 1
            at += 1

    def kind_of_scope(self, head, brace):
        """What a brace opens in a namespace or a class."""
        words, at = [], head
        while at < brace:
            words.append(self.words[at])
            bracket = self.words[at] in OPENING and self.tokens[at].match > at
            at = self.tokens[at].match if bracket else at + 1
        if {"namespace", "class", "struct", "extern"} & set(words):
            return "scope"
        if "enum" in words or "(" not in words or words[-1] == "=":
            return "table"
        return "function"

    def member(self, head, end):
        """A member with a value: `int n = 0;`."""
        if "static" in self.words[head:end] or "constexpr" in self.words[head:end]:
            return
        if self.words[end - 2] == "=":
            self.literal(end - 1)

    def function(self, head, brace, close):
        """A function, unless it is a check."""
        parenthesis = self.words.index("(", head)
        name = self.words[parenthesis - 1]
        if name.startswith("check"):
            return
        returns = self.words[head:parenthesis - 1]
        result = "bool" if "bool" in returns else "void" if "void" in returns else "other"
        self.exclude(brace, close)
        self.block(brace + 1, close, result)
        for at in range(brace + 1, close):
            self.operator(at)
            self.literal(at)

    def exclude(self, begin, end):
        """Marks assertions, constants, attributes and the arguments of templates."""
        for at in range(begin, end):
            token = self.tokens[at]
            if token.text in ("ensure", "static_assert") and self.words[at + 1] == "(":
                self.excluded.update(range(at, self.tokens[at + 1].match + 2))
            elif token.text == "constexpr":
                self.excluded.update(range(at, self.words.index(";", at)))
            elif token.text == "<" and token.match > at:
                self.excluded.update(range(at + 1, token.match))
            elif token.text == "[" and self.words[at + 1] == "[":
                self.excluded.update(range(at, token.match + 1))
            elif token.text == "case":
                self.excluded.update(range(at, self.words.index(":", at) + 1))

    # Statements.

    def block(self, at, end, result):
        """The statements between two braces."""
        while at < end:
            at = self.statement(at, result)

    def statement(self, at, result):
        """One statement; returns where the next one begins."""
        word = self.words[at]
        if word == "{":
            self.block(at + 1, self.tokens[at].match, result)
            return self.tokens[at].match + 1
        if word in ("if", "while", "for", "switch"):
            return self.compound(at, result)
        if word == "do":
            return self.statement(at + 1, result)
        if word in ("else", "default", ":"):
            return at + 1
        if word == "case":
            return self.words.index(":", at) + 1
        if word == "[" and self.words[at + 1] == "[":
            return self.tokens[at].match + 1
        end = at
        while self.words[end] != ";":
            if self.words[end] in OPENING and self.tokens[end].match > end:
                self.look_for_lambda(end)
                end = self.tokens[end].match
            end += 1
        self.simple(at, end, result)
        return end + 1

    def compound(self, at, result):
        """if, while, for and switch, and what they govern."""
        is_constant = self.words[at + 1] == "constexpr"
        opening = at + 1 + is_constant
        close = self.tokens[opening].match
        first, last = opening + 1, close - 1
        semicolons = [i for i in range(first, close) if self.words[i] == ";"]
        if self.words[at] == "for" and semicolons:
            first, last = semicolons[0] + 1, semicolons[1] - 1
        elif semicolons:
            first = semicolons[-1] + 1
        declares = self.is_declaration(first) or self.words[at] == "switch"
        ranges = self.words[at] == "for" and not semicolons
        if not (is_constant or declares or ranges) and first <= last:
            self.add(first, last, "false")
            if self.words[at] == "if":
                self.add(first, last, "true")
        for inner in range(opening, close):
            self.look_for_lambda(inner)
        after = self.statement(close + 1, result)
        if self.words[at] == "if" and self.words[after] == "else":
            return self.statement(after + 1, result)
        return after

    def look_for_lambda(self, at):
        """The body of a lambda has statements, too."""
        end = self.tokens[at].match
        for brace in range(at, end):
            if self.words[brace] != "{" or self.words[brace - 1] not in ")]":
                continue
            before = self.tokens[brace - 1].match
            if self.words[brace - 1] == "]" or self.words[before - 1] == "]":
                self.block(brace + 1, self.tokens[brace].match, "lambda")

    def is_declaration(self, at):
        """Whether a name of a type is followed by another name."""
        if self.tokens[at].kind != "word":
            return False
        if self.words[at] in NO_EXPRESSION:
            return True
        at += 1
        while self.words[at] in ("::", "<") and (self.words[at] == "::" or
                                                  self.tokens[at].match > at):
            at = at + 2 if self.words[at] == "::" else self.tokens[at].match + 1
        while self.words[at] in "&*" and not is_spaced(self.text, self.tokens[at]):
            at += 1
        return self.tokens[at].kind == "word"

    def simple(self, at, semicolon, result):
        """A statement without others in it."""
        word = self.words[at]
        governed = self.words[at - 1] == ")" and self.words[semicolon + 1] != "else"
        if word == "return":
            self.returned(at, semicolon, result)
        elif word in ("break", "continue"):
            if not governed:
                self.add(at, semicolon, "", True)
        elif not self.is_declaration(at) and not governed:
            self.add(at, semicolon, "", True)

    def returned(self, at, semicolon, result):
        """Another value is returned, or none."""
        first, last = at + 1, semicolon - 1
        if first > last or result == "void":
            if self.words[at - 1] != ")":
                self.add(at, semicolon, "", True)
            if first <= last:
                self.add(at, semicolon, "return;", True)
        elif result == "bool" and first < last:
            self.add(first, last, "true")
            self.add(first, last, "false")
        elif result == "other" and self.code(first, last) != "{}":
            self.add(at, semicolon, "return {};", True)

    # Expressions.

    def operator(self, at):
        """Binary operators, conditions of ?:, negations, increments."""
        token = self.tokens[at]
        if token.kind != "op" or token.match >= 0:
            return
        if token.text in OPERATORS and is_spaced(self.text, token):
            first, last = self.left(at, BINDING[token.text]), self.right(at, BINDING[token.text])
            for new in OPERATORS[token.text]:
                self.add(first, last, f"{self.code(first, at - 1)} {new} "
                                      f"{self.code(at + 1, last)}")
        elif token.text == "?":
            first = self.left(at, 15.5)
            self.add(first, at - 1, "true")
            self.add(first, at - 1, "false")
        elif token.text in ("!", "++", "--"):
            last = self.operand(at + 1)
            if last > at:
                new = {"!": "!!", "++": "--", "--": "++"}[token.text]
                self.add(at, last, new + self.code(at + 1, last))

    def literal(self, at):
        """Whole numbers, true and false."""
        token = self.tokens[at]
        if token.text in ("true", "false"):
            self.add(at, at, "false" if token.text == "true" else "true")
        elif token.kind == "number" and re.fullmatch(r"[\d']+[uUlL]*|0x[\da-fA-F]+[uUlL]*",
                                                     token.text):
            if token.text.rstrip("uUlL") == "1":
                self.add(at, at, "0" + token.text[1:])
            self.add(at, at, f"{token.text} + 1")

    def left(self, at, binding):
        """Where the left operand begins."""
        at -= 1
        while at >= 0:
            token = self.tokens[at]
            if token.text in BOUNDARIES or token.match > at:
                break
            if token.text == ")" and self.tokens[at + 1].kind == "word":
                break  # of an if, a while or a for
            if token.match >= 0:
                at = token.match
            elif BINDING.get(token.text, 0) > binding and (
                    token.text == "=" or is_spaced(self.text, token)):
                break
            at -= 1
        return at + 1

    def right(self, at, binding):
        """Where the right operand ends."""
        at += 1
        while True:
            token = self.tokens[at]
            if token.text in BOUNDARIES or 0 <= token.match < at:
                break
            if token.match > at:
                at = token.match
            elif BINDING.get(token.text, 0) >= binding and is_spaced(self.text, token):
                break
            at += 1
        return at - 1

    def operand(self, at):
        """Where the operand of a unary operator ends."""
        if self.tokens[at].match > at:
            at = self.tokens[at].match
        elif self.tokens[at].kind != "word":
            return -1
        while True:
            following = self.tokens[at + 1]
            if following.text in ("::", ".", "->"):
                at += 2
            elif following.text in ("(", "[", "{", "<") and following.match > at and (
                    following.begin == self.tokens[at].end):
                at = following.match
            else:
                return at


def find(text):
    """All mutations of a source."""
    return Finder(text).run()
