"""Turns attention that no kernel of Lamina took into calls of torch's fused kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from lamina.core.program import Call
from lamina.core.target import Target
from lamina.runtime.resolve import arguments_of

from ....ir.affine import in_order, order_of, row_major
from ....ir.extern_calls import declared_strides, encoded, extern_call
from ....ir.reading import element_type, shape_of
from ....ir.sizes import sizes_attribute, tensor_type
from ...surroundings import calls
from ..backward import Gradients
from ..forward import Attention
from .kernel import Case, TorchKernel, TorchKernelOperands
from .operands import dropout_placeholder, padded, repeat_heads, sliced, spread, with_one, without_one
from .registry import preferred

_SIDE_BY_SIDE = (0, 2, 1, 3)  # dimensions in memory: the heads of a position lie side by side
Result = tuple[ir.Type, Sequence[int]] | None
"""Type and strides of a result; None for one that is not needed."""


def hand_over(module: ir.Module, target: Target | None) -> None:
    """Replaces the calls of a module that are left by calls of the kernel that torch prefers, on operands in its form."""
    rows: dict[ir.Value, ir.Value] = {}
    for op in calls(module, symbolic=True):
        attention = Attention.read(op) or Gradients.read(op)
        if attention is None:
            continue
        kernel = _kernel(attention, target)
        if kernel is None:
            op.attributes["reason"] = ir.StringAttr.get("fallback", op.context)
            continue
        with op.location, ir.InsertionPoint(op):
            replacements = _Call(attention.attention, kernel, rows, isinstance(attention, Gradients)).emit(attention)
        for old, new in replacements.items():
            old.replace_all_uses_with(new)
        op.erase()


def has_dropout(call: Call) -> bool:
    """Returns whether a call of an attention kernel has dropout."""
    given = arguments_of(call)
    return bool(given.get("dropout_p", given.get("dropout")))


def _kernel(attention: Attention | Gradients, target: Target | None) -> TorchKernel | None:
    """Returns the kernel that computes a call; None without one."""
    forward, trains = attention.attention, len(attention.results) > 3
    size, values = shape_of(forward.query)[3], shape_of(forward.value)[3]
    backward = isinstance(attention, Gradients)
    case = Case(
        element_type(forward.query), forward.scores, size, values, forward.mask is not None, trains, forward.causal, backward
    )
    if forward.seed is not None or forward.cap or (forward.mask is not None and not _is_added(forward.mask, forward.scores)):
        return None
    return preferred(case, target.gpu.capability if target is not None and target.is_gpu else None, forward.allowed)


@dataclass(frozen=True)
class _Call:
    """The call of a vendor's kernel for an attention, or for its gradients. rows: masks with aligned rows, by mask."""

    attention: Attention
    kernel: TorchKernel
    rows: dict[ir.Value, ir.Value]
    backward: bool

    def emit(self, attention: Attention | Gradients) -> dict[ir.Value, ir.Value]:
        """Emits the call; returns the replacements of the results that have users."""
        return self._gradients(attention) if isinstance(attention, Gradients) else self._forward()

    def _forward(self) -> dict[ir.Value, ir.Value]:
        attention, kernel = self.attention, self.kernel
        query, key, value = (self._operand(v) for v in (attention.query, attention.key, attention.value))
        out = self._result(attention.result, (*shape_of(query)[:3], shape_of(value)[3]))
        operands = TorchKernelOperands(attention.causal, self._mask(), attention.sums is not None)
        args = [query, key, value, *kernel.arguments(operands)]
        results = self._call(args, kernel.named(operands), [out, self._sums(), *[None] * (kernel.results - 2)])
        found = {attention.result: sliced(results[0], shape_of(attention.result))}
        if attention.sums is not None:
            found[attention.sums] = sliced(
                without_one(results[1]) if kernel.sums_as_column else results[1], shape_of(attention.sums)
            )
        return found

    def _gradients(self, gradients: Gradients) -> dict[ir.Value, ir.Value]:
        attention, kernel, (queries, keys) = self.attention, self.kernel, self.attention.scores[2:]
        grad, query, key, value, out = (
            self._operand(v) for v in (gradients.grad, attention.query, attention.key, attention.value, attention.result)
        )
        tensors, seeds = [grad, query, key, value], [dropout_placeholder(shape) for shape in kernel.seeds]
        wanted = [
            None if v is None else self._result(v, shape_of(like)) for v, like in zip(gradients.results, tensors[1:], strict=False)
        ]
        sums = padded(gradients.sums, 2, -queries % kernel.sums_multiple, float("inf"))
        trained = gradients.results[3] if len(gradients.results) > 3 else None
        if kernel.expands_mask:
            rows = row_major((*attention.scores[:3], -(-keys // 16) * 16))
            wanted.append(None if trained is None else (trained.type, rows))
        sums = with_one(sums) if kernel.sums_as_column else sums
        operands = TorchKernelOperands(attention.causal, self._mask(), sums, out, seeds, (queries, keys), trained is not None)
        results = self._call([*tensors, *kernel.gradient_arguments(operands)], kernel.named(operands), wanted)
        if kernel.result_side_by_side:
            call, needed = results[0].owner, sizes_attribute(in_order(shape_of(out), _SIDE_BY_SIDE))
            call.attributes["needs"] = ir.ArrayAttr.get([needed if v == out else encoded(None) for v in call.operands])
        remaining = iter(results)
        return {v: sliced(next(remaining), shape_of(v)) for v in gradients.results if v is not None}

    def _sums(self) -> Result:
        """Returns type and strides of the log-sum-exps."""
        if self.attention.sums is None:
            return None
        batch, heads, queries, _ = self.attention.scores
        sums = (batch, heads, -(-queries // self.kernel.sums_multiple) * self.kernel.sums_multiple)
        strides: tuple[int, ...] = (heads * queries, 1, heads) if self.kernel.sums_heads_innermost else row_major(sums)
        last = (1,) if self.kernel.sums_as_column else ()
        return tensor_type([*sums, *last], ir.RankedTensorType(self.attention.sums.type).element_type), (*strides, *last)

    def _operand(self, value: ir.Value) -> ir.Value:
        """Returns an operand in the kernel's form: with longer heads, or more of them."""
        longer = padded(value, 3, -shape_of(value)[3] % self.kernel.head_multiple)
        return repeat_heads(longer, self.attention.scores[1]) if self.kernel.repeats_heads else longer

    def _mask(self) -> ir.Value | None:
        """Returns the mask in the kernel's form."""
        mask, scores = self.attention.mask, self.attention.scores
        if mask is None or not self.kernel.expands_mask:
            return mask
        if mask not in self.rows:
            width = ir.FloatType(ir.RankedTensorType(mask.type).element_type).width
            self.rows[mask] = padded(mask, 3, -scores[3] % (128 // width))
        return spread(sliced(self.rows[mask], shape_of(mask)), scores)

    def _result(self, value: ir.Value, shape: Sequence[int]) -> Result:
        """Returns type and strides of a result of this shape: in the declared order of dimensions, except where the kernel has its
        own."""
        order = _SIDE_BY_SIDE if self.kernel.heads_side_by_side[self.backward] else order_of(declared_strides(value))
        return tensor_type(shape, ir.RankedTensorType(value.type).element_type), in_order(shape, order)

    def _call(self, args: Sequence[Any], named: dict[str, Any], results: Sequence[Result]) -> list[ir.Value]:
        """Emits the graph.extern."""
        call = extern_call(self.kernel.overloads[self.backward], args, named | {"scale": self.attention.scale}, results)
        if self.kernel.like_query and not self.backward and results[0] is not None:  # a query in the declared order saves a copy
            wished = [in_order(shape_of(v), order_of(results[0][1])) for v in list(call.operands)[:3]]
            call.attributes["prefers"] = encoded(list(map(sizes_attribute, wished)))
        return list(call.results)


def _is_added(mask: ir.Value, scores: Sequence[int]) -> bool:
    """Returns whether a mask is added to scores, with an element for each key."""
    return element_type(mask) != "i1" and shape_of(mask)[3] == scores[3]
