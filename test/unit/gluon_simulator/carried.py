"""What Gluon's front end compiles into a kernel that hangs, and Python runs: a variable that a loop does not carry on.

A loop carries the names whose values are others after its first turn. `last = stage` inside, where `last = stage` stood before
the loop, too, changes nothing in the first turn: `last` keeps its first value in all of them.
"""

import ast
import functools
import inspect
import textwrap
from typing import Any

from .scheduler import Fault


@functools.cache
def check_loops(function: Any) -> None:
    """Raises Fault where a loop of a function in Python loses a variable."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    _Values(function).visit(tree)


class _Values(ast.NodeVisitor):
    """Tracks which names have the same value: a copied name has the value of its source, everything else a new value."""

    def __init__(self, function: Any) -> None:
        self.name, self.first = function.__name__, function.__code__.co_firstlineno
        self.of: dict[str, object] = {}
        self.copies: list[tuple[str, str, int]] = []

    def visit_Assign(self, node: ast.Assign) -> None:
        (target,) = node.targets
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=True))
        else:
            pairs = [(target, node.value)]
        made = [self.of.setdefault(value.id, object()) if isinstance(value, ast.Name) else object() for _, value in pairs]
        for (to, value), new in zip(pairs, made, strict=True):
            if isinstance(to, ast.Name) and isinstance(value, ast.Name):
                self.of[to.id] = new
                self.copies.append((to.id, value.id, node.lineno))
            else:
                self._bind(to)

    def visit_AugAssign(self, node: ast.AugAssign | ast.AnnAssign) -> None:
        self._bind(node.target)

    visit_AnnAssign = visit_AugAssign

    def visit_If(self, node: ast.If) -> None:
        before = dict(self.of)
        ends = []
        for branch in (node.body, node.orelse):
            self.of = dict(before)
            self._each(branch)
            ends.append(self.of)
        one, other = ends
        self.of = {name: one[name] if one.get(name) is other.get(name) else object() for name in one | other}

    def visit_For(self, node: ast.For) -> None:
        self._bind(node.target)
        self._loop(node.body, carries=not (isinstance(node.iter, ast.Call) and "static_range" in ast.unparse(node.iter.func)))

    def visit_While(self, node: ast.While) -> None:
        self._loop(node.body, carries=True)

    def _loop(self, body: list[ast.stmt], carries: bool) -> None:
        before, outer, self.copies = dict(self.of), self.copies, []
        self._each(body)
        for to, source, line in self.copies:
            old = before.get(to)
            if carries and old and self.of[to] is old and before.get(source) is old and self.of[source] is not old:
                raise Fault(
                    f"{self.name}, line {self.first + line - 1}: {to} is {source} before this loop, too, so that the front end does not see "
                    f"{to} change: compute it, or begin with {source} + 0"
                )
        self.of = {name: value if value is before.get(name) else object() for name, value in self.of.items()}
        self.copies = outer + self.copies

    def _each(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.visit(statement)

    def _bind(self, target: ast.AST) -> None:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self.of[node.id] = object()
