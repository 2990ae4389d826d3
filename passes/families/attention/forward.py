"""Reads calls of attention in the libraries' forms, and emits them as calls of Lamina's kernels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch_mlir import ir

from lamina.schedules.attention import Config, Forward, Specialized, Split
from lamina.schedules.attention_cost import MOST, AttentionWork

from ...ir.extern_calls import declared_strides, kernel_call
from .mask_meaning import Meaning
from .mask_operands import Masks
from .operands import made_of, unrepeated

FORWARD, SPLIT, JOIN = "lamina.attention_forward", "lamina.attention_split", "lamina.attention_join"
SPECIALIZED = "lamina.attention_specialized"
EXTRAS = ("mask", "bounds", "slopes", "blocks", "seed")
"""Optional operands of Lamina's kernels after query, key and value, in this order. `reads` of a call names those that it has."""
DROPPED = "lamina.dropped_attention.default"
"""Attention with dropout whose random numbers Lamina's kernels draw. Other forms of dropout stay calls of the library."""
FORMS = {
    "aten._scaled_dot_product_flash_attention.default": ("dropout", "causal", "debug"),
    "aten._scaled_dot_product_flash_attention_for_cpu.default": ("dropout", "causal"),
    "aten._scaled_dot_product_efficient_attention.default": ("mask", "sums", "dropout", "causal"),
    "aten._scaled_dot_product_cudnn_attention.default": ("mask", "sums", "dropout", "causal", "debug"),
    "aten.scaled_dot_product_attention.default": ("mask", "dropout", "causal"),
    DROPPED: ("mask", "seed", "dropout", "causal", "scale"),
}
"""Names of the arguments after query, key and value, by overload."""
LIBRARY_ATTENTION = tuple(FORMS)
_FROM_THE_FIRST = (
    "aten._scaled_dot_product_efficient_attention.default", "aten.scaled_dot_product_attention.default", DROPPED,
)  # fmt: skip
"""Overloads whose causal mask aligns the first query and key; the others align the last, or support only equal numbers."""
_TYPES = ("f16", "bf16")
_MASKS = ("i1", "f16", "bf16", "f32")


@dataclass(frozen=True)
class Attention:
    """softmax(scale * query @ key.T, masked) @ value, of tensors (batch, heads, length, size).

    callee   the library's overload
    mask     four dimensions, each that of the scores or 1; bool (true: visible) or a bias that is added to the scores
    scale    None: one over the square root of the size
    repeats  ops that repeat the heads of `key` and `value` for the call, which Lamina's kernels do not need
    masks    the analyzed masks of the module; None: a mask is read, whatever it means
    seed     seed of the random numbers that drop weights with probability `dropout`
    more     further results that have users, such as a backward graph: the rows' log-sum-exp (natural), and the state of the
             library's random numbers, which is meaningless without dropout
    """

    callee: str
    query: ir.Value
    key: ir.Value
    value: ir.Value
    mask: ir.Value | None
    causal: bool
    scale: float | None
    result: ir.Value
    repeats: tuple[ir.Operation, ...] = ()
    more: tuple[ir.Value, ...] = ()
    masks: Masks | None = None
    seed: ir.Value | None = None
    dropout: float = 0.0

    @staticmethod
    def read(op: ir.Operation, masks: Masks | None = None) -> "Attention | None":
        """Reads the attention that a graph.extern calls. None where Lamina's kernels cannot compute it: for other types and sizes,
        and for dropout by libraries."""
        callee = ir.StringAttr(op.attributes["callee"]).value if op.name == "graph.extern" else ""
        if callee not in FORMS:
            return None
        tensors = iter(op.operands)
        query, key, value, *rest = [value_of(a, tensors) for a in op.attributes["args"]]
        by_name = {named.name: value_of(named.attr, tensors) for named in op.attributes["kwargs"]}
        given: dict[str, Any] = {**dict(zip(FORMS[callee], rest, strict=False)), **by_name}
        mask = given.get("mask", given.get("attn_mask"))
        known = {*FORMS[callee], "scale", "attn_mask", "enable_gqa"}
        more = tuple(result for result in list(op.results)[1:] if any(True for _ in result.uses))
        seed, dropout = given.get("seed"), given.get("dropout") or 0.0
        if (dropout and seed is None) or given.get("debug") or not known.issuperset(given):
            return None
        causal, scale, repeats = bool(given.get("causal")), given.get("scale"), ()
        with op.context:
            one, other = unrepeated(key), unrepeated(value)
        if one is not None and other is not None:
            (key, before), (value, after) = one, other
            repeats = before if key == value else (*before, *after)
        found = Attention(callee, query, key, value, mask, causal, scale, op.results[0], repeats, more, masks, seed, dropout)
        return found if found.fits() else None

    def fits(self) -> bool:
        """Returns whether Lamina's kernels can compute it."""
        shapes = [_shape(v) for v in (self.query, self.key, self.value)]
        if any(len(s) != 4 or 0 in s for s in shapes) or len({_type(v) for v in (self.query, self.key, self.value)}) > 1:
            return False
        (batch, heads, queries, size), (batch_k, kv_heads, keys, size_k), (batch_v, heads_v, keys_v, values) = shapes
        if _type(self.query) not in _TYPES or _type(self.result) != _type(self.query) or max(size, values) > MOST:
            return False
        if (batch, batch) != (batch_k, batch_v) or heads % kv_heads or (kv_heads, keys, size) != (heads_v, keys_v, size_k):
            return False
        if self.causal and queries != keys and self.callee not in _FROM_THE_FIRST:
            return False
        if self.scale is not None and self.scale <= 0:
            return False
        scores = (batch, heads, queries, keys)
        return self.mask is None or suits_mask(self.mask, scores)

    @property
    def sums(self) -> ir.Value | None:
        """The rows' log-sum-exp, (batch, heads, queries or more) and maybe 1, if it has users."""
        return next((v for v in self.more if _type(v) == "f32"), None)

    @cached_property
    def meaning(self) -> Meaning:
        """The meaning of mask and causal flag: which scores are hidden, and what is added to them."""
        if self.masks is None:
            return Meaning(self.causal, rest=self.mask is not None)
        found = self.masks.meaning(self.mask, self.scores, self.causal)
        return Meaning(self.causal, rest=True) if found.moved and self.sums is not None else found

    @property
    def before(self) -> tuple[ir.Operation, ...]:
        """Ops that Lamina's kernels do not need, in order: those that make a mask that depends on no argument, and `repeats`."""
        known = self.mask is not None and not self.meaning.rest and self.meaning.keys is None
        return (*(made_of(self.mask) if known else ()), *self.repeats)

    @property
    def scores(self) -> tuple[int, ...]:
        """The shape of the scores: batch, heads, queries, keys."""
        return (*_shape(self.query)[:3], _shape(self.key)[2])

    @property
    def work(self) -> AttentionWork:
        """The cost model's problem."""
        batch, heads, queries, size = _shape(self.query)
        _, kv_heads, keys, values = _shape(self.value)
        of = self.meaning
        return AttentionWork(
            batch, heads, kv_heads, queries, keys, size, values, of.causal, of.reads, bool(self.more), of.window,
            slopes=of.slopes is not None, bounded=of.keys is not None or of.span is not None,
            by_head=of.by_head, known=self.mask is not None and not of.rest,
            hides=of.rest and of.hides, drops=self.dropout > 0,
        )  # fmt: skip

    @property
    def what(self) -> str:
        """Describes it: "attention 32x32x1x128 on 32x4x8192x128, causal", or "..., mask 2x1x40x40: causal, window 8, keys"."""
        sizes = " on ".join("x".join(map(str, _shape(v))) for v in (self.query, self.key))
        mask = "" if self.mask is None else f", mask {'x'.join(map(str, _shape(self.mask)))}"
        mask += self.meaning.what if self.mask is not None else ""
        drops = f", dropout {self.dropout:g}" if self.dropout else ""
        return f"attention {sizes}{', causal' if self.causal else ''}{mask}{drops}{', for training' if self.more else ''}"

    def emit(self, config: Config, strides: Mapping[ir.Value, Sequence[int]], masks: Masks) -> list[ir.Value]:
        """Emits the call of Lamina's kernels at the insertion point; returns the replacements of the result and of `more`.

        strides  of the results, unless their users want others
        masks    the operands that earlier calls made of masks
        """
        work = self.work
        said = {
            "of": ir.StringAttr.get(self.callee),
            "schedule": ir.StringAttr.get(str(config)),
            "scale": ir.FloatAttr.get_f64(work.size**-0.5 if self.scale is None else self.scale),
        }
        of = self.meaning
        read = {} if self.mask is None else masks.operands(self.mask, self.scores, of)
        if self.mask is not None and isinstance(config, Forward) and config.blocks:
            read["blocks"] = masks.blocks(self.mask, self.scores, of, config.m, config.n)
        if self.seed is not None:
            read["seed"] = self.seed
            said["dropout"] = ir.FloatAttr.get_f64(self.dropout)
        said["reads"] = ir.StringAttr.get(" ".join(name for name in EXTRAS if name in read))
        taken = [self.query, self.key, self.value, *(read[name] for name in EXTRAS if name in read)]
        if isinstance(config, Split):
            f32 = ir.F32Type.get()
            sizes = [work.batch, work.heads, work.queries, config.parts, work.values]
            parts = [ir.RankedTensorType.get(sizes, f32), ir.RankedTensorType.get(sizes[:-1], f32)]
            made = kernel_call(SPLIT, taken, parts, said)
            return [kernel_call(JOIN, list(made.results), [self.result.type], {"of": said["of"]}, [strides[self.result]]).result]
        number = ir.IntegerType.get_signless(64)
        said |= {name: ir.IntegerAttr.get(number, n) for name, n in (("offset", of.offset), ("window", of.window))}
        said |= {"causal": ir.BoolAttr.get(of.causal), "sums": ir.BoolAttr.get(self.sums is not None)}
        results = (self.result, *sorted(self.more, key=lambda v: v != self.sums))
        kernel = SPECIALIZED if isinstance(config, Specialized) else FORWARD
        made = kernel_call(kernel, taken, [v.type for v in results], said, [strides[v] for v in results])
        return [made.results[results.index(v)] for v in (self.result, *self.more)]


def strides_of_results(op: ir.Operation) -> dict[ir.Value, list[int]]:
    """Returns the declared strides of each result of a graph.extern, in elements."""
    return {v: list(declared_strides(v)) for v in op.results}


def suits_mask(mask: ir.Value, scores: tuple[int, ...]) -> bool:
    """Returns whether Lamina's kernels support the type and shape of a mask of scores (batch, heads, queries, keys)."""
    return (
        _type(mask) in _MASKS
        and len(_shape(mask)) == len(scores)
        and all(n in (1, whole) for n, whole in zip(_shape(mask), scores, strict=True))
    )


def value_of(attribute: ir.Attribute, tensors: Iterator[ir.Value]) -> Any:
    """Decodes an argument of a graph.extern: a tensor, number, list of these, or None. tensors: the remaining tensor operands."""
    if isinstance(attribute, ir.UnitAttr):
        return next(tensors)
    if isinstance(attribute, ir.ArrayAttr):
        return [value_of(a, tensors) for a in attribute]
    return None if isinstance(attribute, ir.TypeAttr) else attribute.value  # type: ignore[attr-defined]


def _shape(v: ir.Value) -> tuple[int, ...]:
    return tuple(ir.RankedTensorType(v.type).shape)


def _type(v: ir.Value) -> str:
    return str(ir.RankedTensorType(v.type).element_type)
