"""Turns attention that no kernel of Lamina took into calls of torch's fused kernels."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch_mlir import ir

from lamina.core.program import Call
from lamina.core.target import Target
from lamina.runtime.resolve import arguments_of

from ...ir.affine import in_order, order_of, row_major
from ...ir.extern_calls import declared_strides, encoded, extern_call
from ...ir.reading import element_type, shape_of
from ...ir.sizes import sizes_attribute, tensor_type
from ..surroundings import calls
from .backward import Gradients
from .forward import Attention
from .vendor_operands import padded, repeated, sliced, spread, unread, with_one, without_one
from .vendor_rules import CPU, CUDNN, EFFICIENT, FLASH, Case, on_cpu, on_gpu

_SIDE_BY_SIDE = (0, 2, 1, 3)  # dimensions in memory: the heads of a position lie side by side
_UNIT = 8  # elements that heads of flash attention are a multiple of
_ROWS = 32  # rows that the memory-efficient kernel's log-sum-exps are a multiple of
_RESULTS = {CPU: 2, FLASH: 9, EFFICIENT: 4, CUDNN: 9}
Result = tuple[ir.Type, Sequence[int]] | None
"""Type and strides of a result; None for one that is not needed."""


def hand_over(module: ir.Module, target: Target | None) -> None:
    """Replaces the calls of a module that are left by calls of the kernel that torch prefers (vendor_rules.py), on operands in its
    form: heads padded to a multiple of 8 for flash attention, heads of keys repeated for the memory-efficient kernel, masks in rows
    that begin at multiples of 16 bytes, log-sum-exps in the kernel's shape."""
    rows: dict[ir.Value, ir.Value] = {}
    for op in calls(module, symbolic=True):
        found = Attention.read(op) or Gradients.read(op)
        if found is None:
            continue
        vendor = _vendor(found, target)
        if vendor is None:
            op.attributes["reason"] = ir.StringAttr.get("fallback", op.context)
            continue
        with op.location, ir.InsertionPoint(op):
            if isinstance(found, Gradients):
                made = _Gradients(found.of, vendor, rows).emit(found)
            else:
                made = _Call(found, vendor, rows).emit()
        for old, new in made.items():
            old.replace_all_uses_with(new)
        op.erase()


def drops(call: Call) -> bool:
    """Returns whether a call of an attention kernel has dropout."""
    given = arguments_of(call)
    return bool(given.get("dropout_p", given.get("dropout")))


def _vendor(found: Attention | Gradients, target: Target | None) -> str | None:
    """Returns the kernel that computes a call; None without one."""
    of, trains = found.of, len(found.results) > 3
    size, values = shape_of(of.query)[3], shape_of(of.value)[3]
    backward = isinstance(found, Gradients)
    case = Case(element_type(of.query), of.scores, size, values, of.mask is not None, trains, of.causal, backward)
    if of.seed is not None or (of.mask is not None and not _is_added(of.mask, of.scores)):
        return None
    if target is None or not target.is_gpu:
        return on_cpu(case, of.allowed)
    return on_gpu(case, target.gpu.capability, of.allowed)


@dataclass(frozen=True)
class _Call:
    """The call of one vendor's kernel for an attention. rows: masks with aligned rows, by mask."""

    of: Attention
    vendor: str
    rows: dict[ir.Value, ir.Value] = field(default_factory=dict)
    backward: ClassVar[str] = ""

    def emit(self) -> dict[ir.Value, ir.Value]:
        """Emits the call; returns the replacements of the results that have users."""
        of = self.of
        query, key, value = (self.operand(v) for v in (of.query, of.key, of.value))
        batch, heads, queries, _ = of.scores
        logs: Result = None
        if of.sums is not None:
            sums = (batch, heads, -(-queries // _ROWS) * _ROWS if self.vendor == EFFICIENT else queries)
            strides: tuple[int, ...] = (heads * queries, 1, heads) if self.vendor == CPU else row_major(sums)
            last = (1,) if self.vendor == CUDNN else ()
            logs = tensor_type([*sums, *last], ir.RankedTensorType(of.sums.type).element_type), (*strides, *last)
        more = [] if self.vendor in (CPU, FLASH) else [self.mask(), logs is not None]
        debug = [False] if self.vendor in (FLASH, CUDNN) else []
        out = self.result(of.result, (*shape_of(query)[:3], shape_of(value)[3]))
        args = [query, key, value, *more, 0.0, of.causal, *debug]
        made = self.call(args, [out, logs, *[None] * (_RESULTS[self.vendor] - 2)])
        found = {of.result: sliced(made[0], shape_of(of.result))}
        if of.sums is not None:
            found[of.sums] = without_one(made[1]) if self.vendor == CUDNN else sliced(made[1], shape_of(of.sums))
        return found

    def operand(self, value: ir.Value) -> ir.Value:
        """Returns an operand in the kernel's form: with longer heads, or more of them."""
        if self.vendor == FLASH:
            return padded(value, 3, -shape_of(value)[3] % _UNIT)
        return repeated(value, self.of.scores[1]) if self.vendor == EFFICIENT else value

    def mask(self) -> ir.Value | None:
        """Returns the mask in the kernel's form: the memory-efficient one needs all dimensions, and rows that begin at multiples of
        16 bytes."""
        mask, scores = self.of.mask, self.of.scores
        if mask is None or self.vendor != EFFICIENT:
            return mask
        if mask not in self.rows:
            width = ir.FloatType(ir.RankedTensorType(mask.type).element_type).width
            self.rows[mask] = padded(mask, 3, -scores[3] % (128 // width))
        return spread(sliced(self.rows[mask], shape_of(mask)), scores)

    def result(self, value: ir.Value, shape: Sequence[int]) -> Result:
        """Returns type and strides of a result of this shape: in the declared order of dimensions, except where the kernel has its
        own."""
        own = self.vendor == EFFICIENT or (self.vendor == CPU and self.backward)
        order = _SIDE_BY_SIDE if own else order_of(declared_strides(value))
        return tensor_type(shape, ir.RankedTensorType(value.type).element_type), in_order(shape, order)

    def call(self, args: Sequence[Any], results: Sequence[Result]) -> list[ir.Value]:
        """Emits the graph.extern."""
        kind = "flash_attention_for_cpu" if self.vendor == CPU else f"{self.vendor}_attention"
        named = {"attn_mask": self.of.mask} if self.vendor == CPU and self.of.mask is not None else {}
        callee = f"aten._scaled_dot_product_{kind}{self.backward}.default"
        made = extern_call(callee, args, named | {"scale": self.of.scale}, results)
        if self.vendor == CUDNN and not self.backward and results[0] is not None:
            # its result has the query's order of dimensions: a query in the declared order saves a copy
            wished = [in_order(shape_of(v), order_of(results[0][1])) for v in list(made.operands)[:3]]
            made.attributes["prefers"] = encoded(list(map(sizes_attribute, wished)))
        return list(made.results)


@dataclass(frozen=True)
class _Gradients(_Call):
    """The same for the gradients of an attention."""

    backward: ClassVar[str] = "_backward"

    def emit(self, found: Gradients) -> dict[ir.Value, ir.Value]:  # type: ignore[override]
        """Emits the call; returns the replacements of the results that have users."""
        of, (queries, keys) = self.of, self.of.scores[2:]
        grad, query, key, value, out = (self.operand(v) for v in (found.grad, of.query, of.key, of.value, of.result))
        given = [grad, query, key, value]
        sums, seeds = found.sums, [unread([2] if self.vendor == FLASH else []), unread([])]
        wanted = [None if v is None else self.result(v, shape_of(like)) for v, like in zip(found.results, given[1:], strict=False)]
        match self.vendor:
            case "cpu":
                args = [*given, out, sums, 0.0, of.causal]
            case "flash":
                args = [*given, out, sums, None, None, queries, keys, 0.0, of.causal, *seeds]
            case "cudnn":
                args = [*given, out, with_one(sums), *seeds, self.mask(), None, None, queries, keys, 0.0, of.causal]
            case _:
                trained = found.results[3] if len(found.results) > 3 else None
                sums = padded(sums, 2, -queries % _ROWS, float("inf"))
                args = [*given, self.mask(), out, sums, *seeds, 0.0, [True, True, True, trained is not None], of.causal]
                rows = row_major((*of.scores[:3], -(-keys // 16) * 16))
                wanted.append(None if trained is None else (trained.type, rows))
        made = iter(self.call(args, wanted))
        return {v: sliced(next(made), shape_of(v)) for v in found.results if v is not None}


def _is_added(mask: ir.Value, scores: Sequence[int]) -> bool:
    """Returns whether a mask is added to scores, with an element for each key."""
    return element_type(mask) != "i1" and shape_of(mask)[3] == scores[3]
