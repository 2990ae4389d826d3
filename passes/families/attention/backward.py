"""Reads calls of attention's backward pass in the libraries' forms, and emits them as calls of Lamina's two kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch_mlir import ir

from lamina.schedules.attention import Backward
from lamina.schedules.attention_cost import AttentionWork

from ...ir.affine import row_major
from ...ir.extern_calls import kernel_call
from ...ir.reading import shape_of
from .forward import EXTRAS, Attention, value_of
from .mask_operands import Masks

BACKWARD_QUERIES, BACKWARD_KEYS = "lamina.attention_backward_queries", "lamina.attention_backward_keys"
DROPPED_BACKWARD = "lamina.dropped_attention_backward.default"
_TENSORS = ("grad", "query", "key", "value")
_LONGEST = ("starts_q", "starts_k", "longest_q", "longest_k")
_SEEDS = ("seed", "seed_offset")
FORMS = {
    "aten._scaled_dot_product_flash_attention_backward.default": (
        *_TENSORS, "out", "sums", *_LONGEST, "dropout", "causal", *_SEEDS,
    ),
    "aten._scaled_dot_product_efficient_attention_backward.default": (
        *_TENSORS, "mask", "out", "sums", *_SEEDS, "dropout", "wanted", "causal",
    ),
    "aten._scaled_dot_product_cudnn_attention_backward.default": (
        *_TENSORS, "out", "sums", *_SEEDS, "mask", *_LONGEST, "dropout", "causal",
    ),
    DROPPED_BACKWARD: (*_TENSORS, "mask", "out", "sums", "seed", "dropout", "causal", "scale"),
}  # fmt: skip
"""Names of the arguments of each overload, in order."""
LIBRARY_BACKWARD = tuple(FORMS)


@dataclass(frozen=True)
class Gradients:
    """The gradients of query, key and value of an attention.

    callee   the library's overload
    of       the attention; its result is the operand that the forward pass computed
    grad     the gradient of its result
    sums     the rows' log-sum-exp (natural), f32, of shape (batch, heads, queries or more), maybe with a last dimension of 1
    results  gradients of query, key and value; None for those without users
    masks    the analyzed masks of the module; None: nothing is known of masks
    """

    callee: str
    of: Attention
    grad: ir.Value
    sums: ir.Value
    results: tuple[ir.Value | None, ir.Value | None, ir.Value | None]
    masks: Masks | None = None

    @staticmethod
    def read(op: ir.Operation, masks: Masks | None = None) -> "Gradients | None":
        """Reads the gradients that a graph.extern computes. None where Lamina's kernels cannot compute them: for attention that
        they cannot compute either, and for the gradient of a mask."""
        callee = ir.StringAttr(op.attributes["callee"]).value if op.name == "graph.extern" else ""
        if callee not in FORMS:
            return None
        tensors = iter(op.operands)
        positional = [value_of(a, tensors) for a in op.attributes["args"]]
        by_name = {named.name: value_of(named.attr, tensors) for named in op.attributes["kwargs"]}
        given: dict[str, Any] = {**dict(zip(FORMS[callee], positional, strict=False)), **by_name}
        known = {*FORMS[callee], "scale"}
        seed, dropout = given.get("seed") if callee == DROPPED_BACKWARD else None, given.get("dropout") or 0.0
        if (dropout and seed is None) or given.get("starts_q") is not None or not known.issuperset(given):
            return None
        if not all(isinstance(s, ir.DenseI64ArrayAttr) for s in list(op.attributes["strides"])[:3]):
            return None
        *made, d_mask = (*(r if any(True for _ in r.uses) else None for r in op.results), None)[:4]
        if len(made) != 3 or d_mask is not None:
            return None
        forward = callee.replace("_backward", "")
        query, key, value, mask = (given.get(name) for name in ("query", "key", "value", "mask"))
        causal, scale = bool(given.get("causal")), given.get("scale")
        of = Attention(forward, query, key, value, mask, causal, scale, given["out"], seed=seed, dropout=dropout)
        found = Gradients(callee, of, given["grad"], given["sums"], (made[0], made[1], made[2]), masks)
        return found if found._fits() else None

    def _fits(self) -> bool:
        if not self.of.fits() or self.grad.type != self.of.result.type:
            return False
        operands = (self.of.query, self.of.key, self.of.value)
        if any(found is not None and found.type != v.type for found, v in zip(self.results, operands, strict=True)):
            return False  # with shared KV heads, the library gives one gradient per query head
        batch, heads, queries, _ = shape_of(self.of.query)
        sums = ir.RankedTensorType(self.sums.type)
        long = sums.shape[2] if len(sums.shape) in (3, 4) else 0
        shape = [batch, heads, long, *[1] * (len(sums.shape) - 3)]
        return str(sums.element_type) == "f32" and list(sums.shape) == shape and long >= queries

    @property
    def work(self) -> AttentionWork:
        """The cost model's problem: that of attention that reads its mask."""
        work, mask = self.of.work, self.of.mask
        if mask is None or self.masks is None:
            return work
        return replace(work, hides=self.masks.meaning(mask, self.of.scores, self.of.causal).hides)

    @property
    def what(self) -> str:
        """A description for messages, such as "attention backward 4x12x512x64 on 4x12x512x64, causal"."""
        return self.of.what.replace("attention", "attention backward", 1)

    @property
    def read_results(self) -> list[ir.Value]:
        """The gradients that have users."""
        return [v for v in self.results if v is not None]

    def emit(self, config: Backward, strides: Mapping[ir.Value, Sequence[int]], masks: Masks) -> dict[ir.Value, ir.Value]:
        """Emits the calls of Lamina's kernels at the insertion point; returns the replacement of each result that has users.

        strides  of the results, unless their users want others
        masks    the operands that earlier calls made of masks
        """
        of, (query, key, value) = self.of, self.results
        read = {} if of.mask is None else masks.operands(of.mask, of.scores, of.meaning)
        by_query, by_key = dict(read), dict(read)
        if of.mask is not None and config.blocks:
            by_query["blocks"] = masks.blocks(of.mask, of.scores, of.meaning, config.m, config.n)
            by_key["blocks"] = masks.blocks(of.mask, of.scores, of.meaning, config.queries, config.keys, turned=True)
        if of.seed is not None:
            by_query["seed"] = by_key["seed"] = of.seed
        said = {
            "of": ir.StringAttr.get(self.callee),
            "schedule": ir.StringAttr.get(str(config)),
            "scale": ir.FloatAttr.get_f64(self.work.size**-0.5 if of.scale is None else of.scale),
            "reads": ir.StringAttr.get(" ".join(name for name in EXTRAS if name in by_query)),
            "causal": ir.BoolAttr.get(of.causal),
            **({} if of.seed is None else {"dropout": ir.FloatAttr.get_f64(of.dropout)}),
        }
        taken = of.query, of.key, of.value
        deltas = ir.RankedTensorType.get([self.work.batch, self.work.heads, self.work.queries], ir.F32Type.get())
        first = kernel_call(
            BACKWARD_QUERIES,
            [*taken, *(by_query[name] for name in EXTRAS if name in by_query), of.result, self.sums, self.grad],
            [of.query.type, deltas],
            said,
            [_strides(query, of.query, strides), row_major(tuple(deltas.shape))],
        )
        made = {} if query is None else {query: first.results[0]}
        if key is None and value is None:
            return made
        second = kernel_call(
            BACKWARD_KEYS,
            [*taken, *(by_key[name] for name in EXTRAS if name in by_key), self.sums, self.grad, first.results[1]],
            [of.key.type, of.value.type],
            said,
            [_strides(key, of.key, strides), _strides(value, of.value, strides)],
        )
        return made | {v: new for v, new in zip((key, value), second.results, strict=True) if v is not None}


def _strides(result: ir.Value | None, like: ir.Value, strides: Mapping[ir.Value, Sequence[int]]) -> Sequence[int]:
    return row_major(tuple(shape_of(like))) if result is None else strides[result]
