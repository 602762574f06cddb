# Finds texts in C++ sources and makes changes to them, for good or switched at run time.
"""A text is found if it occurs exactly once. White space and comments do not count, so a
reformatted line is still found. «part» marks the part that is to be replaced, the rest says where
it is; «» is a place between two tokens. Without a mark the whole text is the part.
"""

import re
from dataclasses import dataclass

TOKEN = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|\w+|\S')
IS_ON = "cenote::faults::is_on"


class Misfit(Exception):
    """A change that does not fit the source."""


@dataclass(frozen=True)
class Change:
    """Replaces source[begin:end] by `new` while `number` is switched on."""
    begin: int
    end: int
    number: int
    new: str
    is_statement: bool


def tokens(source):
    """The tokens of a source, each as (text, begin, end); comments are left out."""
    return [(m[0], *m.span()) for m in TOKEN.finditer(source) if not m[0].startswith("//")]


class Source:
    """A text in which other texts are found."""

    def __init__(self, text):
        self.text = text
        self.tokens = tokens(text)
        self.words = [word for word, _, _ in self.tokens]

    def find(self, wanted):
        """(begin, end) of the marked part of `wanted`. Raises Misfit."""
        words = [word for word, _, _ in tokens(wanted)]
        first, last = (words.index(mark) if mark in words else None for mark in "«»")
        words = [word for word in words if word not in "«»"]
        first, last = (0, len(words)) if first is None else (first, last - 1)
        starts = [at for at in range(len(self.words))
                  if self.words[at:at + len(words)] == words]
        if len(starts) != 1:
            raise Misfit(f"{len(starts)} times, not once: {wanted}")
        part = self.tokens[starts[0] + first:starts[0] + last]
        if part:
            return part[0][1], part[-1][2]
        before = self.tokens[starts[0] + first - 1]
        return before[2], before[2]

    def change(self, wanted, number, new):
        """A change of the part: of statements if there is a semicolon in it, or nothing at all."""
        begin, end = self.find(wanted)
        return Change(begin, end, number, new, begin == end or ";" in self.text[begin:end])

    def replace(self, wanted, new):
        """A source in which the part is replaced."""
        begin, end = self.find(wanted)
        return Source(self.text[:begin] + new + self.text[end:])


def switched(text, changes):
    """The text with every change switched at run time, on as many lines as before.

    Parts may lie within each other: then the inner change is in the original of the outer one.
    """
    def inner(outer, other):
        """Whether the other part lies within the outer, and is not the same."""
        same = (outer.begin, outer.end) == (other.begin, other.end)
        within = outer.begin <= other.begin and other.end <= outer.end
        empty = other.begin == other.end and other.begin in (outer.begin, outer.end)
        return within and not same and not empty

    def write(begin, end, todo):
        out, at = [], begin
        while todo:
            first = todo[0]
            nested = [c for c in todo if inner(first, c)]
            same = [c for c in todo if (c.begin, c.end) == (first.begin, first.end)]
            todo = [c for c in todo if c not in nested and c not in same]
            if any(c.begin < first.end for c in todo):
                raise Misfit(f"two changes overlap: {text[first.begin:first.end]}")
            code = write(first.begin, first.end, nested)
            for c in same:
                code = switch(c, code)
            out += [text[at:first.begin], code]
            at = first.end
        return "".join(out) + text[at:end]

    return write(0, len(text), sorted(changes, key=lambda c: (c.begin, c.end > c.begin, -c.end)))


def switch(change, old):
    """Code that is the new one if the change is on, else the old one."""
    new = " ".join(change.new.split())
    if change.is_statement:
        return f" {{ if ({IS_ON}({change.number})) {{ {new} }} else {{ {old} }} }}"
    if new in ("true", "false"):
        old = f"bool(({old}))"
    return f"({IS_ON}({change.number}) ? ({new}) : ({old}))"
