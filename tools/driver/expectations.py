"""`--verify-diagnostics`: compares what was said with what comments in the input expect, with mlir-opt's syntax.

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
    """A diagnostic of `severity` on line `line` (0: at no place in the file) whose message contains `text`."""

    severity: str
    line: int
    text: str
    is_pattern: bool
    written: int

    def matches(self, said: Diagnostic, line: int) -> bool:
        if said.severity != self.severity or line != self.line:
            return False
        if not self.is_pattern:
            return self.text in said.message
        parts = re.split(r"\{\{(.*?)\}\}", self.text)
        pattern = "".join(f"(?:{p})" if i % 2 else re.escape(p) for i, p in enumerate(parts))
        return re.search(pattern, said.message) is not None


def expectations(lines: list[str], first: int = 1) -> list[Expectation]:
    """The expectations in `lines`, the first of which has number `first`."""
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


def compare(wanted: list[Expectation], said: list[Diagnostic], file: str) -> list[str]:
    """What differs, one line each; empty when all that was expected was said, and nothing else but notes of it."""
    left, wrong = list(wanted), []
    for diagnostic in [*said, *(note for d in said for note in d.notes)]:
        line = diagnostic.line if diagnostic.file in ("-", file) else 0
        hit = next((w for w in left if w.matches(diagnostic, line)), None)
        if hit:
            left.remove(hit)
        elif diagnostic.severity != "note":
            wrong.append(f"{file}:{max(line, 1)}:1: error: unexpected {diagnostic.severity}: {diagnostic.message}")
    return wrong + [f'{file}:{w.written}:1: error: expected {w.severity} "{w.text}" was not produced' for w in left]
