"""Implements `--verify-diagnostics`: compares diagnostics with those that comments in the input expect, in mlir-opt's syntax.

    // expected-error @+1 {{does not verify}}           the next line; @-1, @above, @below, @unknown (no place in this file)
    // expected-warning-re {{took {{[0-9]+}} steps}}    a regular expression in inner braces

Notes may be expected but need not be.
"""

import re
from dataclasses import dataclass

from lamina.passes.infra.diagnostics import Diagnostic

_EXPECTED = re.compile(r"expected-(error|warning|remark|note)(-re)?\s*(?:@([+-]\d+|above|below|unknown))?\s*\{\{(.*)\}\}\s*$")


@dataclass(frozen=True)
class Expectation:
    """A diagnostic that a comment expects.

    severity    error, warning, remark or note
    line        the line it is at; 0 for no place in the file
    text        what its message contains
    is_pattern  whether inner braces in `text` hold regular expressions
    written     the comment's line
    """

    severity: str
    line: int
    text: str
    is_pattern: bool
    written: int

    def matches(self, diagnostic: Diagnostic, line: int) -> bool:
        """Returns whether the diagnostic, which is at `line`, meets the expectation."""
        if diagnostic.severity != self.severity or line != self.line:
            return False
        if not self.is_pattern:
            return self.text in diagnostic.message
        parts = re.split(r"\{\{(.*?)\}\}", self.text)
        pattern = "".join(f"(?:{p})" if i % 2 else re.escape(p) for i, p in enumerate(parts))
        return re.search(pattern, diagnostic.message) is not None


def expectations(lines: list[str], first: int) -> list[Expectation]:
    """Parses the expectations in `lines`, the first of which has number `first`."""
    found = []
    marked = [bool(_EXPECTED.search(line)) for line in lines]
    for i, line in enumerate(lines):
        if not (match := _EXPECTED.search(line)):
            continue
        severity, pattern, at, text = match.groups()
        target = first + i
        if at == "unknown":
            target = 0
        elif at == "above":
            target = first + next((j for j in range(i - 1, -1, -1) if not marked[j]), -1)
        elif at == "below":
            target = first + next((j for j in range(i + 1, len(lines)) if not marked[j]), len(lines))
        elif at:
            target += int(at)
        found.append(Expectation(severity, target, text, bool(pattern), first + i))
    return found


def compare(wanted: list[Expectation], diagnostics: list[Diagnostic], file: str) -> list[str]:
    """Returns an error line for each unexpected diagnostic, notes excepted, and for each expectation that was not met."""
    left, wrong = list(wanted), []
    for diagnostic in [*diagnostics, *(note for d in diagnostics for note in d.notes)]:
        line = diagnostic.line if diagnostic.file in ("-", file) else 0
        hit = next((w for w in left if w.matches(diagnostic, line)), None)
        if hit:
            left.remove(hit)
        elif diagnostic.severity != "note":
            wrong.append(f"{file}:{max(line, 1)}:1: error: unexpected {diagnostic.severity}: {diagnostic.message}")
    return wrong + [f'{file}:{w.written}:1: error: expected {w.severity} "{w.text}" was not produced' for w in left]
