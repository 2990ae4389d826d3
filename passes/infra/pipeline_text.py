"""Parses pipeline text into a tree: `builtin.module(lamina-simplify,func.func(canonicalize,cse),lamina-tile{target=cpu})`.

    pipeline := anchor "(" items ")" | items          (bare items stand inside builtin.module)
    items    := item ("," item)*
    item     := anchor "(" items ")" | name [ "{" options "}" ]
    options  := (key ["=" value])*                    values may be quoted or in braces, lists have commas

The tree does not interpret the names. `str` of a tree is its canonical text and parses to an equal tree.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from lamina.core.errors import CompileError

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_SPACE = re.compile(r"\s*")
_DEEPEST = 100  # maximum nesting depth
_CLOSERS = {"{": "}", "(": ")", "[": "]"}


@dataclass(frozen=True)
class PassCall:
    """A pass and its options as written: (key, value) pairs, where a bare flag has the value None. `column` counts from 1."""

    name: str
    options: tuple[tuple[str, str | None], ...] = ()
    column: int = field(default=1, compare=False, repr=False)

    def __str__(self) -> str:
        options = " ".join(key if value is None else f"{key}={value}" for key, value in self.options)
        return f"{self.name}{{{options}}}" if options else self.name


@dataclass(frozen=True)
class PipelineNest:
    """Passes to run on every op named `anchor` inside the op of the enclosing nest."""

    anchor: str
    items: "tuple[PassCall | PipelineNest, ...]"
    column: int = field(default=1, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.anchor}({','.join(map(str, self.items))})"

    def calls(self, anchors: "tuple[PipelineNest, ...]" = ()) -> "Iterator[tuple[tuple[PipelineNest, ...], PassCall]]":
        """Yields every pass in order with its enclosing nests, outermost (this one) first."""
        here = (*anchors, self)
        for item in self.items:
            if isinstance(item, PipelineNest):
                yield from item.calls(here)
            else:
                yield here, item


def parse(text: str) -> PipelineNest:
    """Parses a pipeline; the root is always builtin.module. Raises a CompileError that points at the column of the mistake."""
    parser = _Parser(text)
    items = parser.items(end="")
    if len(items) == 1 and isinstance(items[0], PipelineNest) and items[0].anchor == "builtin.module":
        return items[0]
    return PipelineNest("builtin.module", items)


def options_of(text: str) -> tuple[tuple[str, str | None], ...]:
    """Parses option text without the braces. Raises CompileError."""
    parser = _Parser(f"{{{text}}}")
    options = parser.options()
    if parser.peek():
        raise parser.fail("a '}' too many")
    return options


def error_at(column: int, message: str, remedy: str = "") -> CompileError:
    """Makes a CompileError that points at a column of the pipeline text."""
    return CompileError(message, where=f"<pipeline>:1:{column}", remedy=remedy)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def peek(self) -> str:
        """Skips blanks and returns the next character, "" at the end."""
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]  # matches the empty string
        return self.text[self.at : self.at + 1]

    def fail(self, message: str) -> CompileError:
        """Returns the error of what stands here, to be raised."""
        return error_at(self.at + 1, message)

    def items(self, end: str) -> tuple[PassCall | PipelineNest, ...]:
        """Parses items up to `end`, which is not consumed. There may be none: an empty pipeline."""
        items: list[PassCall | PipelineNest] = []
        if self.peek() == end:
            return ()
        while True:
            items.append(self.item())
            token = self.peek()
            if token == end:
                return tuple(items)
            if token != ",":
                expected = f"',' or {end!r}" if end else "',' or the end"
                raise self.fail(f"expected {expected}, not {token!r}" if token else "the text ends inside '(...)'")
            self.at += 1

    def item(self) -> PassCall | PipelineNest:
        """Parses a pass with its options, or a nest."""
        token = self.peek()
        column, name = self.at + 1, _NAME.match(self.text, self.at)
        if not name:
            raise self.fail(f"expected the name of a pass, not {token!r}" if token else "expected the name of a pass")
        self.at = name.end()
        token = self.peek()
        if token == "(":
            if self.depth == _DEEPEST:
                raise self.fail(f"more than {_DEEPEST} nests inside one another")
            self.at += 1
            self.depth += 1
            items = self.items(end=")")
            self.depth -= 1
            self.at += 1
            return PipelineNest(name[0], items, column)
        return PassCall(name[0], self.options() if token == "{" else (), column)

    def options(self) -> tuple[tuple[str, str | None], ...]:
        """Parses options in braces, starting at the opening brace."""
        self.at += 1
        options: list[tuple[str, str | None]] = []
        while self.peek() != "}":
            key = _NAME.match(self.text, self.at)
            if not key:
                raise self.fail("expected the name of an option" if self.peek() else "the text ends inside '{...}'")
            self.at = key.end()
            value = None
            if self.text[self.at : self.at + 1] == "=":
                self.at += 1
                value = self.value()
            options.append((key[0], value))
        self.at += 1
        return tuple(options)

    def value(self) -> str:
        """Returns the raw text of a value: up to a space or the closing brace, except inside quotes and brackets."""
        begin, open_ = self.at, list[str]()
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in "'\"":
                close = self.text.find(char, self.at + 1)
                if close < 0:
                    raise self.fail(f"the quote {char} is not closed")
                self.at = close
            elif char in _CLOSERS:
                open_.append(_CLOSERS[char])
            elif open_ and char == open_[-1]:
                open_.pop()
            elif not open_ and (char.isspace() or char == "}"):
                break
            self.at += 1
        return self.text[begin : self.at]
