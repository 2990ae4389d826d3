"""Reads masks of symbolic sizes in captured graphs, which cannot be evaluated, by finding comparisons of the positions of queries
and keys.

The last two dimensions of a mask are those of queries and keys. A tensor is read as a number that is linear in the positions
(`torch.arange(n)[:, None]`), or as two numbers: one within a region of positions, one outside of it (`torch.ones(n, n).tril()`).
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from lamina.core.sizes import Size
from lamina.passes.families.attention.masks.positions import Linear, Region

from ..fx.aliases import storage
from ..fx.reading import arguments_by_name, is_in_place, name, shape, sizes, value
from ..fx.rewriter import written_memory
from .dimensions import SAME, order_of, parts_of, starts_of

_FILLED = {"ones": 1, "zeros": 0, "new_ones": 1, "new_zeros": 0, "ones_like": 1, "zeros_like": 0}
_COMPARISONS = {"le": "le", "lt": "lt", "ge": "ge", "gt": "gt", "eq": "eq", "ne": "ne", "less_equal": "le", "greater_equal": "ge"}
_CONJUNCTIONS = ("and", "and_", "bitwise_and", "logical_and")
_DISJUNCTIONS = ("or", "or_", "bitwise_or", "logical_or")
_NEGATIONS = ("invert", "bitwise_not", "logical_not")
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "rsub": lambda x, y: y - x,
}  # fmt: skip


@dataclass(frozen=True)
class TwoValued:
    """A tensor of two numbers: `inside` a region of positions, `outside` of it."""

    region: Region
    inside: float
    outside: float

    def mapped(self, change: Callable[[float], float]) -> "TwoValued":
        """Returns the tensor with both numbers changed."""
        return TwoValued(self.region, change(self.inside), change(self.outside))

    def where(self, wanted: Callable[[float], bool]) -> Region | None:
        """Returns where the number is one that is wanted; None if that is not a region."""
        inside, outside = wanted(self.inside), wanted(self.outside)
        if inside and (outside or not self.region.bounds):
            return Region()
        if inside:
            return self.region
        return self.region.outside() if outside and self.region.bounds else None


MaskForm = Linear | TwoValued
"""A tensor of positions as far as it can be read: a linear function of them, or two numbers."""


def read_positions(node: fx.Node, gm: fx.GraphModule) -> MaskForm | None:
    """Reads a tensor of a graph; None if it depends on more than positions, or memory of it is written to."""
    reader = _Reader({})
    form = reader.of(node)
    written = written_memory(gm.graph)
    unwritten = written is not None and written.isdisjoint(storage(v) for v in map(value, reader.seen) if v is not None)
    return form if unwritten else None


@dataclass(frozen=True)
class _Reader:
    """Reads nodes, each once."""

    seen: dict[fx.Node, MaskForm | None]

    def of(self, arg: object) -> MaskForm | None:
        """Returns the value of an argument: a node, a number or a symbolic size."""
        if isinstance(arg, bool | int | float):
            return _number(arg)
        if not isinstance(arg, fx.Node):
            return None
        val = arg.meta.get("example_value", arg.meta.get("val"))
        if isinstance(val, torch.SymInt):
            (size,) = sizes([val])
            return Linear(0, 0, size) if isinstance(size, Size | int) else None
        if arg not in self.seen:
            self.seen[arg] = None
            self.seen[arg] = None if is_in_place(arg) else self._read(arg)
        return self.seen[arg]

    def _read(self, node: fx.Node) -> MaskForm | None:
        kind, args = name(node), node.args
        kind = kind.strip("_") if kind.startswith("__") else kind  # `==` is a method's call before torch 2.13
        if kind == "arange":
            return self._range(node)
        if kind in ("full", "new_full", "full_like"):
            return self.of(args[-1] if kind != "new_full" else args[2]) if len(args) > 1 else self.of(node.kwargs.get("fill_value"))
        if kind in _FILLED:
            return _number(_FILLED[kind])
        if kind == "getitem" or kind in ("unsqueeze", "view", "reshape", "transpose", "T", "t", "mT", *SAME):
            return self._moved(node)
        if kind in ("tril", "triu"):
            return self._triangle(node, kind)
        if kind == "diff":
            return self._difference(node)
        if kind == "cumsum":
            operand = self.of(args[0])
            return _number(0) if isinstance(operand, TwoValued) and not operand.region.bounds and operand.inside == 0 else None
        if kind in _NEGATIONS:
            operand = self.of(args[0])
            return operand.mapped(lambda x: not x) if isinstance(operand, TwoValued) else None
        if kind in ("where", "masked_fill"):
            return self._chosen(node, kind)
        if len(args) == 2 and not node.kwargs:
            return _combined(kind, self.of(args[0]), self.of(args[1]))
        return None

    def _range(self, node: fx.Node) -> Linear | None:
        names = ("start", "end", "step") if len(node.args) > 1 else ("end",)
        asked = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        start, step = _linear(self.of(asked.get("start", 0))), asked.get("step", 1)
        if start is None or not isinstance(step, int):
            return None
        return start if shape(node) == (1,) else start + Linear(0, step, 0)

    def _triangle(self, node: fx.Node, kind: str) -> TwoValued | None:
        asked = arguments_by_name(node, "input", "diagonal")
        operand, diagonal = self.of(asked.get("input")), asked.get("diagonal", 0)
        if not isinstance(operand, TwoValued) or operand.region.bounds or not isinstance(diagonal, int):
            return None
        ahead = Linear(-1, 1, -diagonal)
        return TwoValued(Region((ahead if kind == "triu" else ahead.times(-1),)), operand.inside, 0)

    def _chosen(self, node: fx.Node, kind: str) -> TwoValued | None:
        names = ("condition", "input", "other") if kind == "where" else ("other", "condition", "input")
        asked = dict(zip(names, node.args, strict=False))
        where, chosen, left = (self.of(asked.get(key)) for key in ("condition", "input", "other"))
        if not (isinstance(where, TwoValued) and isinstance(chosen, TwoValued) and isinstance(left, TwoValued)):
            return None
        if chosen.region.bounds or left.region.bounds:
            return None
        return where.mapped(lambda x: chosen.inside if x else left.inside)

    def _difference(self, node: fx.Node) -> MaskForm | None:
        """Reads the differences of neighbors along the last dimension, where all are the same number."""
        asked = arguments_by_name(node, "input", "n", "dim", "prepend", "append")
        operand, before = _linear(self.of(asked.get("input"))), asked.get("prepend")
        rank = len(shape(node.args[0]))
        if (
            operand is None
            or asked.get("n", 1) != 1
            or asked.get("dim", -1) not in (-1, rank - 1)
            or asked.get("append") is not None
        ):
            return None
        if before is not None:
            first = _linear(self.of(before))
            if first is None or shape(before)[-1] != 1:
                return None
            step = replace(operand, key=0) + replace(first, key=0).times(-1)
            if step != Linear(0, 0, operand.key):
                return None
        return _number(operand.key)

    def _indexed(self, node: fx.Node) -> MaskForm | None:
        """Reads a tensor that is indexed by tensors of positions, one for each of its dimensions."""
        source, index = node.args[0], node.args[1]
        parts = parts_of(index)
        form, dtypes = self.of(source), [val.dtype for part in parts if (val := value(part)) is not None]
        if form is None or len(parts) != len(shape(source)) or len(dtypes) < len(parts) or torch.bool in dtypes:
            return None
        rows, columns = (_linear(self.of(part)) if part is not None else None for part in [None, *parts][-2:])

        def at(linear: Linear) -> Linear | None:
            """Returns a linear form with the index's own forms in place of its positions; None if they have no such form."""
            total = Linear(0, 0, linear.constant)
            for factor, position in ((linear.query, rows), (linear.key, columns)):
                if factor and (position is None or not position.is_natural):
                    return None
                total += position.times(factor) if factor and position is not None else Linear(0, 0, 0)
            return total

        return _mapped(form, at)

    def _moved(self, node: fx.Node) -> MaskForm | None:
        """Reads an op that moves, adds or drops dimensions of size 1, repeats a tensor along others, or takes a slice of it."""
        source = node.args[0]
        if name(node) == "getitem" and any(isinstance(part, fx.Node) for part in parts_of(node.args[1])):
            return self._indexed(node)
        form, order = self.of(source), order_of(node)
        if form is None or order is None:
            return None
        rank, old, starts = len(order), len(shape(source)), starts_of(node)

        def moved(linear: Linear) -> Linear | None:
            """Returns a linear form of the source's positions as one of the view's; None if a dimension is lost."""
            where, constant = {-2: 0, -1: 0}, linear.constant
            for last, factor in ((-2, linear.query), (-1, linear.key)):
                dim = old + last
                if not factor:
                    continue
                constant += factor * starts.get(dim, 0)
                if shape(source)[dim] == 1 or (dim in order and shape(node)[order.index(dim)] == 1):
                    continue  # there is one position, which may be repeated
                dim_now = order.index(dim) - rank if dim in order else None
                if dim_now not in where:
                    return None
                where[dim_now] = factor
            return Linear(where[-2], where[-1], constant)

        return _mapped(form, moved)


def _mapped(form: MaskForm, change: Callable[[Linear], Linear | None]) -> MaskForm | None:
    """Returns a form whose linear functions of positions are changed; None if one cannot be."""
    if isinstance(form, Linear):
        return change(form)
    bounds = [change(b) for b in form.region.bounds]
    changed = tuple(b for b in bounds if b is not None)
    return TwoValued(Region(changed), form.inside, form.outside) if len(changed) == len(bounds) else None


def _number(x: float) -> MaskForm:
    """Returns the form of a number that is the same at all positions."""
    return TwoValued(Region(), x, x)


def _linear(form: MaskForm | None) -> Linear | None:
    """Returns a form as a linear function of positions; None for two different numbers, and for one that is no integer."""
    if isinstance(form, TwoValued):
        whole = not form.region.bounds and type(form.inside) is int
        return Linear(0, 0, form.inside) if whole else None  # type: ignore[arg-type]
    return form


def _combined(kind: str, one: MaskForm | None, other: MaskForm | None) -> MaskForm | None:
    """Combines two operands elementwise."""
    if one is None or other is None:
        return None
    if isinstance(one, TwoValued) and isinstance(other, TwoValued):
        if kind in (*_CONJUNCTIONS, *_DISJUNCTIONS):
            union = kind in _DISJUNCTIONS
            parts = [two.where(lambda x: bool(x) is not union) for two in (one, other)]
            return None if None in parts else TwoValued(parts[0] & parts[1], not union, union)  # type: ignore[operator]
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
        apart = first + second.times(-1)
        if (apart.query, apart.key) == (0, 0) and isinstance(apart.constant, int):
            return _number(getattr(operator, _COMPARISONS[kind])(apart.constant, 0))
        region = first.compared(_COMPARISONS[kind], second)
        return None if region is None else TwoValued(region, True, False)
    if kind == "mul":
        by, factor = (first, second) if isinstance(one, TwoValued) else (second, first)
        return factor.times(by.constant) if (by.query, by.key) == (0, 0) and isinstance(by.constant, int) else None
    return {"add": first + second, "sub": first + second.times(-1)}.get(kind)
