"""The declaration of a rule of lamina-rewrite-patterns, and the list of the library's rules."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PATTERN = "graph.pattern"  # on a generic: the rule that made it
FAMILIES = ("gelu", "norms", "silu")
"""Names the files of `passes/simplify/patterns` with rules."""


@dataclass(frozen=True)
class Rule:
    """A pattern and its replacement, two Python functions of torch ops with the same parameters.

    Parameters are f32 tensors of two dimensions, rows and columns; one annotated `float` also matches numbers. Where
    nothing is reduced, the tensors may have any rank and broadcast; sums over the last dimension match sums over the last
    dimension, with any number of dimensions before it. A rule without a replacement only labels its matches.
    """

    pattern: Callable[..., Any]
    replacement: Callable[..., Any] | None
    name: str
