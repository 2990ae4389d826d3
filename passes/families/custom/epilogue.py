"""Fuses pointwise groups into the kernels in source whose results they read, where the kernels have a hook for that.

The group that first reads a kernel's result, directly or through reshapes, and the kernel become one graph.kernel. It also takes
the group's other operands, and returns the group's results, and the kernel's own result where others read that. The group must be
pointwise: each of its results has as many elements as the kernel's, and each element reads that of the kernel at the same place.
`epilogue` holds the computation as JSON: lines of scalar expressions (targets/kernel_calls/hooks.py).

    %0 = "graph.kernel"(%x) {callee = "lamina.kernel.default", kwargs = {hook = "epilogue operands", ...}, ...}
    %1 = "graph.group"(%0, %bias) ({ add ; relu })
 -> %1 = "graph.kernel"(%x, %bias) {callee = "lamina.kernel.default", kwargs = {epilogue = "...", fused = [...], ...}, ...}
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from typing import Any

from torch_mlir import ir

from lamina.core.dtypes import HALF
from lamina.core.layout import Layout

from ...ir.affine import Affine, Axis, SplitAxis, offset, row_major
from ...ir.expressions import Apply, Const, Expr, Load, unlisted
from ...ir.locations import fused, model_ops
from ...ir.reading import Untraceable, compute_type, element_type, shape_of, terminator
from ...ir.views import RESHAPES
from ...space.contraction import EPILOGUE, Unfit
from ...space.direct_convolution import WINDOW
from ...trace.trace import Tracer
from ..choice import CHOICE
from ..surroundings import kernels, strides_of

_STORED = ("f16", "bf16", "f32", "i1", "i8", "i16", "i32", "i64")
_SIGNED = range(6)  # comparisons of integers
_SPLITS = 8  # splits of axes that are tried at most


def fuse_epilogues(module: ir.Module, round_half: bool) -> None:
    """Fuses into each kernel with a hook, in place, the pointwise group that first reads its result.

    round_half  round values that eager would store in a half type to that type
    """
    for op in reversed(kernels(module)):  # the last kernel that a group reads takes it: all other results are there by then
        if (found := epilogue_of(op)) is not None:
            with suppress(Unfit, Untraceable):
                _fuse(op, *found, round_half)


def epilogue_of(op: ir.Operation) -> tuple[ir.Value, ir.Operation] | None:
    """Returns the first group that reads the result of a graph.kernel with a hook, and the value that it reads: the result, or its
    only user, a reshape; None without a hook, and where the kernel has an epilogue already."""
    given = {named.name: named.attr for named in op.attributes["kwargs"]}
    hooked = "hook" in given and given["hook"].value and "epilogue" not in given
    if not hooked or len(op.results) != 1 or "dtypes" in op.attributes:
        return None
    value = op.results[0]
    plain = _strides(op) == row_major(shape_of(value))
    while users := list(dict.fromkeys(use.owner.operation for use in value.uses)):
        user = min(users, key=_places(op.operation.block, users).__getitem__)
        if user.name == "graph.group":
            return None if CHOICE in user.attributes or WINDOW in user.attributes else (value, user)
        if len(users) > 1 or user.name not in RESHAPES or not plain:
            return None
        value = user.results[0]
    return None


def _places(block: ir.Block, ops: Sequence[ir.Operation]) -> dict[ir.Operation, int]:
    """Returns the position of each of these ops in the block; a single op needs no walk."""
    if len(ops) == 1:
        return {ops[0]: 0}
    return {op.operation: i for i, op in enumerate(block.operations) if op.operation in ops}


def _strides(op: ir.Operation) -> tuple[int, ...]:
    return tuple(ir.DenseI64ArrayAttr(op.attributes["strides"][0]))


def _fuse(op: ir.Operation, value: ir.Value, group: ir.Operation, round_half: bool) -> None:
    """Replaces call and group by one call. Raises Unfit or Untraceable, with nothing changed, where the kernel cannot."""
    shape = shape_of(group.results[0])
    reshaped = {shape, shape_of(value)} != {shape_of(op.results[0])}
    if reshaped and _strides(op) != row_major(shape_of(op.results[0])):
        raise Unfit("a reshape of what lies in another order")
    if prod(shape) != prod(shape_of(value)):
        raise Unfit("a part of the kernel's result")
    strides = row_major(shape) if reshaped else _strides(op)
    others = dict.fromkeys(v for v in group.operands if v != value and v not in op.operands)
    operands = [*op.operands, *others]
    needs = [*(tuple(ir.DenseI64ArrayAttr(a)) for a in op.attributes["needs"]), *map(_order_of, others)]
    needs_of = dict(reversed(list(zip(operands, needs, strict=True))))  # for operands that occur twice, the first place
    is_read_elsewhere = any(use.owner.operation != group for use in value.uses)
    text = _Epilogue(group, value, strides, needs_of, operands, round_half).text(is_read_elsewhere)
    results = [*group.results, *([value] if is_read_elsewhere else [])]
    orders = [strides] * len(group.results) + [row_major(shape_of(value)) if reshaped else strides]
    location = fused([op.location, group.location])
    kwargs = {named.name: named.attr for named in op.attributes["kwargs"]}
    with location, ir.InsertionPoint(group):
        kwargs["epilogue"] = ir.StringAttr.get(text)
        kwargs["fused"] = ir.ArrayAttr.get([ir.StringAttr.get(name) for name in model_ops(group.location)])
        attributes = {
            "callee": op.attributes["callee"],
            "kwargs": ir.DictAttr.get(kwargs),
            "needs": ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(list(n)) for n in needs]),
            "strides": ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(list(s)) for s in orders[: len(results)]]),
        }
        types = [result.type for result in results]
        kernel = ir.Operation.create("graph.kernel", results=types, operands=operands, attributes=attributes)
    for old, new in zip(group.results, kernel.results, strict=False):
        old.replace_all_uses_with(new)
    group.erase()
    if is_read_elsewhere:
        value.replace_all_uses_with(kernel.results[len(results) - 1])
    while value != op.results[0]:
        reshape = value.owner.operation
        value = reshape.operands[0]
        reshape.erase()
    op.erase()


def _order_of(v: ir.Value) -> tuple[int, ...]:
    """Returns the strides in which the call reads a value: its own, unless elements share memory."""
    strides = strides_of(v)
    return strides if Layout.of(shape_of(v), strides).is_injective else row_major(shape_of(v))


class _Epilogue:
    """Translates a group to scalar expressions of the kernel's element at the same place.

    value     the group's operand that is the kernel's result
    strides   of the results, in elements
    given     strides of the other operands
    operands  all operands of the call
    """

    def __init__(
        self,
        group: ir.Operation,
        value: ir.Value,
        strides: tuple[int, ...],
        strides_of: dict[ir.Value, tuple[int, ...]],
        operands: Sequence[ir.Value],
        round_half: bool,
    ) -> None:
        self.block = group.regions[0].blocks[0]
        self.results = list(terminator(self.block).operands)
        self.shape = shape_of(self.results[0])
        if any(shape_of(v) != self.shape for v in self.results) or 0 in self.shape:
            raise Unfit("results of different shapes")
        arguments = dict(zip(self.block.arguments, group.operands, strict=True))
        self.own = [a for a, v in arguments.items() if v == value]
        self.numbers = {a: operands.index(v) for a, v in arguments.items() if v != value}
        own = strides if shape_of(value) == self.shape else row_major(shape_of(value))
        self.places = {a: own if v == value else strides_of[v] for a, v in arguments.items()}
        self.axes = [(Axis(n), s) for n, s in zip(self.shape, strides, strict=True)]
        self.index = tuple(Affine.of(axis) for axis, _ in self.axes)
        self.strides, self.round_half = strides, round_half
        self.lines: list[list[Any]] = []
        self.known: dict[Expr, int] = {}

    def text(self, with_own: bool) -> str:
        """Returns the epilogue as JSON. with_own: the kernel's own result is the last result, too."""
        expressions = self._traced()
        self.axes = [(axis, stride) for axis, stride in self.axes if axis.extent > 1]
        stored = [element_type(v) for v in self.results]
        if unknown := [dtype for dtype in stored if dtype not in _STORED]:
            raise Unfit(f"a result of {unknown[0]}")
        results = [[self._line(e), dtype] for e, dtype in zip(expressions, stored, strict=True)]
        if with_own:
            results.append([self._own_line(), element_type(self.own[0])])
        dims = [[axis.extent, stride] for axis, stride in self.axes]
        return json.dumps({"dims": dims, "lines": self.lines, "results": results})

    def _traced(self) -> list[Expr]:
        """Traces the expression of each result; splits axes where reshapes within the group ask for it."""
        for _ in range(_SPLITS):
            tracer = Tracer(strides_of=self.places.__getitem__, round_half=self.round_half)
            try:
                return [tracer.element(v, self.index) for v in self.results]
            except SplitAxis as split:
                self._split(split.axis, split.inner)
        raise Unfit("reshapes that split axes again and again")

    def _split(self, axis: Axis, inner: int) -> None:
        outer, last = Axis(axis.extent // inner), Axis(inner)
        change = {axis: Affine.of(outer, inner) + Affine.of(last)}
        self.index = tuple(index.rename(change) for index in self.index)
        index = next(i for i, (a, _) in enumerate(self.axes) if a is axis)
        stride = self.axes[index][1]
        self.axes[index : index + 1] = [(outer, stride * inner), (last, stride)]

    def _line(self, e: Expr) -> int:
        """Returns the number of an expression's line, which comes after those of its operands."""
        for x in unlisted(e, self.known):
            self.known[x] = self._add(self._written(x))
        return self.known[e]

    def _own_line(self) -> int:
        number = next((i for i, line in enumerate(self.lines) if line[0] == "value"), None)
        return self._add(["value", compute_type(element_type(self.own[0]))]) if number is None else number

    def _add(self, line: list[Any]) -> int:
        self.lines.append(line)
        return len(self.lines) - 1

    def _written(self, e: Expr) -> list[Any]:
        """Returns an expression as data that the kernel's compiler prints. Raises Unfit if an epilogue cannot compute it."""
        if e.dtype not in _STORED or not isinstance(e, Const | Load | Apply):
            raise Unfit(f"{type(e).__name__} of {e.dtype}")
        if isinstance(e, Const):
            return ["const", e.value, e.dtype]
        if isinstance(e, Apply):
            if e.op not in EPILOGUE or (e.op == "arith.cmpi" and e.predicate not in _SIGNED):
                raise Unfit(e.op)
            return ["apply", e.op, [self.known[x] for x in e.operands], e.predicate, e.dtype]
        if e.guard or e.offset.opaque:
            raise Unfit("a read under bounds, or where other values say")
        if (stored := element_type(e.tensor)) not in _STORED:
            raise Unfit(f"an operand of {stored}")
        if e.tensor not in self.own:
            return [
                "load",
                self.numbers[e.tensor],
                e.offset.constant,
                [e.offset.coefficient(axis) for axis, _ in self.axes],
                e.dtype,
            ]
        if e.offset != offset(self.index, self.strides):
            raise Unfit("another element of the kernel's result")
        value, dtype = ["value", e.dtype], element_type(self.own[0])
        if not self.round_half or dtype not in HALF:
            return value
        rounded = self._add(["apply", "arith.truncf", [self._add(value)], None, dtype])
        return ["apply", "arith.extf", [rounded], None, e.dtype]
