"""Reads masks of symbolic sizes in captured graphs, which cannot be evaluated: where positions of queries and keys are compared.

The last two dimensions of a mask are those of queries and keys. A tensor is read as a number that is linear in the positions
(`torch.arange(n)[:, None]`), or as two numbers: one within a region of positions, one outside of it (`torch.ones(n, n).tril()`).
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import fx

from lamina.core.sizes import Size
from lamina.passes.families.attention.masks.positions import Linear, Region

from ..fx.aliases import storage
from ..fx.reading import given, is_in_place, name, shape, sizes, value
from ..fx.rewriter import written_memory

_SAME = (
    "to", "float", "half", "bfloat16", "double", "long", "int", "type", "contiguous", "clone", "alias", "_to_copy", "detach",
    "expand", "expand_as", "broadcast_to",
)  # fmt: skip
_FILLED = {"ones": 1, "zeros": 0, "new_ones": 1, "new_zeros": 0, "ones_like": 1, "zeros_like": 0}
_COMPARISONS = {"le": "le", "lt": "lt", "ge": "ge", "gt": "gt", "eq": "eq", "ne": "ne", "less_equal": "le", "greater_equal": "ge"}
_CONJUNCTIONS = ("and", "and_", "bitwise_and", "logical_and")
_DISJUNCTIONS = ("or", "or_", "bitwise_or", "logical_or")
_NEGATIONS = ("invert", "bitwise_not", "logical_not")
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "rsub": lambda x, y: y - x,
}  # fmt: skip


@dataclass(frozen=True)
class Two:
    """A tensor of two numbers: `inside` a region of positions, `outside` of it."""

    region: Region
    inside: float
    outside: float

    def mapped(self, change: Callable[[float], float]) -> "Two":
        """Returns the tensor with both numbers changed."""
        return Two(self.region, change(self.inside), change(self.outside))

    def where(self, wanted: Callable[[float], bool]) -> Region | None:
        """Returns where the number is one that is wanted; None where that is no region."""
        inside, outside = wanted(self.inside), wanted(self.outside)
        if inside and (outside or not self.region.bounds):
            return Region()
        if inside:
            return self.region
        return self.region.outside() if outside and self.region.bounds else None


Place = Linear | Two


def place(node: fx.Node, gm: fx.GraphModule) -> Place | None:
    """Reads a tensor of a graph; None where it depends on more than positions, or memory of it is written to."""
    reader = _Reader({})
    found = reader.of(node)
    written = written_memory(gm.graph)
    kept = written is not None and written.isdisjoint(storage(v) for v in map(value, reader.seen) if v is not None)
    return found if kept else None


@dataclass(frozen=True)
class _Reader:
    """Reads nodes, each once."""

    seen: dict[fx.Node, Place | None]

    def of(self, arg: object) -> Place | None:
        """Returns what an argument is: a node, a number or a symbolic size."""
        if isinstance(arg, bool | int | float):
            return _number(arg)
        if not isinstance(arg, fx.Node):
            return None
        told = arg.meta.get("example_value", arg.meta.get("val"))
        if isinstance(told, torch.SymInt):
            (size,) = sizes([told])
            return Linear(0, 0, size) if isinstance(size, Size | int) else None
        if arg not in self.seen:
            self.seen[arg] = None
            self.seen[arg] = None if is_in_place(arg) else self._read(arg)
        return self.seen[arg]

    def _read(self, node: fx.Node) -> Place | None:
        kind, args = name(node), node.args
        kind = kind.strip("_") if kind.startswith("__") else kind  # `==` is a method's call before torch 2.13
        if kind == "arange":
            return self._range(node)
        if kind in ("full", "new_full", "full_like"):
            return self.of(args[-1] if kind != "new_full" else args[2]) if len(args) > 1 else self.of(node.kwargs.get("fill_value"))
        if kind in _FILLED:
            return _number(_FILLED[kind])
        if kind == "getitem" or kind in ("unsqueeze", "view", "reshape", "transpose", "T", "t", "mT", *_SAME):
            return self._moved(node)
        if kind in ("tril", "triu"):
            return self._triangle(node, kind)
        if kind in _NEGATIONS:
            found = self.of(args[0])
            return found.mapped(lambda x: not x) if isinstance(found, Two) else None
        if kind in ("where", "masked_fill"):
            return self._chosen(node, kind)
        if len(args) == 2 and not node.kwargs:
            return _combined(kind, self.of(args[0]), self.of(args[1]))
        return None

    def _range(self, node: fx.Node) -> Linear | None:
        names = ("start", "end", "step") if len(node.args) > 1 else ("end",)
        asked = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        start, step = _linear(self.of(asked.get("start", 0))), asked.get("step", 1)
        return start + Linear(0, step, 0) if start is not None and isinstance(step, int) else None

    def _triangle(self, node: fx.Node, kind: str) -> Two | None:
        asked = given(node, "input", "diagonal")
        of, diagonal = self.of(asked.get("input")), asked.get("diagonal", 0)
        if not isinstance(of, Two) or of.region.bounds or not isinstance(diagonal, int):
            return None
        ahead = Linear(-1, 1, -diagonal)
        return Two(Region((ahead if kind == "triu" else ahead.times(-1),)), of.inside, 0)

    def _chosen(self, node: fx.Node, kind: str) -> Two | None:
        names = ("condition", "input", "other") if kind == "where" else ("other", "condition", "input")
        asked = dict(zip(names, node.args, strict=False))
        where, taken, left = (self.of(asked.get(key)) for key in ("condition", "input", "other"))
        if not (isinstance(where, Two) and isinstance(taken, Two) and isinstance(left, Two)):
            return None
        if taken.region.bounds or left.region.bounds:
            return None
        return where.mapped(lambda x: taken.inside if x else left.inside)

    def _moved(self, node: fx.Node) -> Place | None:
        """Reads an op that moves, adds or drops dimensions of size 1, or repeats a tensor along others."""
        source = node.args[0]
        found, order = self.of(source), _order(node)
        if found is None or order is None:
            return None
        rank, old = len(order), len(shape(source))
        to = {old + last: order.index(old + last) - rank if old + last in order else None for last in (-2, -1) if old + last >= 0}

        def moved(of: Linear) -> Linear | None:
            where = {-2: 0, -1: 0}
            for last, factor in ((-2, of.query), (-1, of.key)):
                if factor:
                    at = to.get(old + last)
                    if at not in where:
                        return None
                    where[at] = factor
            return Linear(where[-2], where[-1], of.constant)

        if isinstance(found, Linear):
            return moved(found)
        bounds = [moved(b) for b in found.region.bounds]
        kept = tuple(b for b in bounds if b is not None)
        return Two(Region(kept), found.inside, found.outside) if len(kept) == len(bounds) else None


def _number(x: float) -> Place:
    """Returns a number as a place: whole ones as numbers that are the same at all positions."""
    return Two(Region(), x, x)


def _linear(of: Place | None) -> Linear | None:
    if isinstance(of, Two):
        whole = not of.region.bounds and type(of.inside) is int
        return Linear(0, 0, of.inside) if whole else None  # type: ignore[arg-type]
    return of


def _combined(kind: str, one: Place | None, other: Place | None) -> Place | None:
    """Combines two operands elementwise."""
    if one is None or other is None:
        return None
    if isinstance(one, Two) and isinstance(other, Two):
        if kind in (*_CONJUNCTIONS, *_DISJUNCTIONS):
            union = kind in _DISJUNCTIONS
            parts = [two.where(partial(_is, not union)) for two in (one, other)]
            return None if None in parts else Two(parts[0] & parts[1], not union, union)  # type: ignore[operator]
        change = _ARITHMETIC.get(kind) or (getattr(operator, _COMPARISONS[kind]) if kind in _COMPARISONS else None)
        if change is None or (one.region.bounds and other.region.bounds):
            return None
        return (
            one.mapped(lambda x: change(x, other.inside))
            if not other.region.bounds
            else other.mapped(lambda x: change(one.inside, x))
        )
    first, second = _linear(one), _linear(other)
    if first is None or second is None:
        return None
    if kind in _COMPARISONS:
        region = first.compared(_COMPARISONS[kind], second)
        return None if region is None else Two(region, True, False)
    return {"add": first + second, "sub": first + second.times(-1)}.get(kind)


def _is(wanted: bool, x: float) -> bool:
    return bool(x) is wanted


def _order(node: fx.Node) -> Sequence[int | None] | None:
    """Returns for each dimension of a result the dimension of the first argument that it is, None for new ones; None where that is
    not known."""
    kind, source = name(node), node.args[0]
    rank = len(shape(source))
    if value(source) is None:
        return None
    if kind in _SAME:
        return [*[None] * (len(shape(node)) - rank), *range(rank)]
    if kind in ("T", "t", "mT", "transpose"):
        dims = [d % rank for d in node.args[1:] if isinstance(d, int)] if kind == "transpose" else [rank - 2, rank - 1]
        if rank < 2 or len(dims) != 2:
            return None
        order: list[int | None] = list(range(rank))
        order[dims[0]], order[dims[1]] = dims[1], dims[0]
        return order
    if kind == "unsqueeze":
        dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
        if not isinstance(dim, int):
            return None
        order = list(range(rank))
        order.insert(dim % (rank + 1), None)
        return order
    if kind == "getitem":
        return _indexed(node.args[1], rank)
    mine, other = shape(node), shape(source)  # a view or reshape
    long = [d for d, n in enumerate(other) if n != 1]
    if [n for n in mine if n != 1] != [other[d] for d in long]:
        return None
    left = iter(long)
    return [next(left) if n != 1 else None for n in mine]


def _indexed(index: object, rank: int) -> Sequence[int | None] | None:
    """Returns the order of dimensions of `x[index]`, where that takes all elements."""
    parts = index if isinstance(index, tuple) else (index,)
    whole = slice(None)
    if any(p is not None and p is not Ellipsis and not (isinstance(p, slice) and p == whole) for p in parts):
        return None
    named = sum(isinstance(p, slice) for p in parts)
    order: list[int | None] = []
    at = 0
    for part in parts:
        count = rank - named if part is Ellipsis else int(isinstance(part, slice))
        order += [None] if part is None else range(at, at + count)
        at += count
    return [*order, *range(at, rank)]
