"""Reads calls of `lamina.attention`, and emits them as calls of Lamina's kernels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch_mlir import ir

from lamina.core.dtypes import HALF
from lamina.core.sizes import is_symbolic, typical

from ...ir.extern_calls import declared_strides, kernel_call
from ...ir.reading import callee_of, element_type, shape_of
from ...ir.rewriting import is_used
from ...ir.sizes import tensor_type
from .cost import MOST, AttentionWork
from .masks.dropped import defining_ops
from .masks.meaning import MaskMeaning
from .masks.operands import Masks
from .schedules import Config, Forward, Specialized, Split

FORWARD, SPLIT, JOIN = "lamina.attention_forward", "lamina.attention_split", "lamina.attention_join"
SPECIALIZED = "lamina.attention_specialized"
EXTRAS = ("mask", "bounds", "slopes", "blocks", "seed")
"""Optional operands of Lamina's kernels after query, key and value, in this order. `reads` of a call names those that it has."""
ATTENTION = "lamina.attention.default"
NAMES = ("query", "key", "value", "mask", "seed", "dropout", "causal", "scale", "allowed", "cap")
"""Arguments of the op (frontend/attention/op.py); calls leave out the last where it is 0."""
_MASKS = ("i1", "f16", "bf16", "f32")


@dataclass(frozen=True)
class Attention:
    """softmax(scale * query @ key.T, masked) @ value, of tensors (batch, heads, length, size).

    mask     four dimensions, each that of the scores or 1; bool (true: visible) or a bias that is added to the scores
    seed     of the random numbers that drop weights with probability `dropout`; None without dropout
    causal   query i sees keys 0 to i
    allowed  torch's fused kernels that its settings allow
    sums     the rows' log-sum-exp (natural), (batch, heads, queries), if it has users
    masks    the analyzed masks of the module; None: a mask is read, whatever it means
    cap      soft cap: scaled scores become cap * tanh(score / cap) before the mask; 0: they stay
    """

    query: ir.Value
    key: ir.Value
    value: ir.Value
    mask: ir.Value | None
    seed: ir.Value | None
    dropout: float
    causal: bool
    scale: float
    allowed: str
    result: ir.Value
    sums: ir.Value | None = None
    masks: Masks | None = None
    cap: float = 0.0

    @staticmethod
    def read(op: ir.Operation, masks: Masks | None = None) -> "Attention | None":
        """Reads the attention that a graph.extern calls; None for other calls."""
        args = arguments(op, ATTENTION, NAMES)
        if args is None:
            return None
        result, sums = op.results
        return Attention(**args, result=result, sums=sums if is_used(sums) else None, masks=masks)

    @property
    def attention(self) -> "Attention":
        """Returns itself, as Gradients.attention returns the attention whose gradients they are."""
        return self

    @property
    def results(self) -> tuple[ir.Value | None, ...]:
        """The result, and the log-sum-exp if it has users."""
        return self.result, self.sums

    def fits(self) -> bool:
        """Returns whether Lamina's kernels can compute it."""
        return (
            element_type(self.query) in HALF
            and not is_symbolic((shape_of(self.query)[3], shape_of(self.value)[3]))
            and max(shape_of(self.query)[3], shape_of(self.value)[3]) <= MOST
            and self.scale > 0
            and (self.mask is None or element_type(self.mask) in _MASKS)
        )

    @property
    def is_symbolic(self) -> bool:
        """Whether some size is symbolic."""
        return is_symbolic((*self.scores, shape_of(self.value)[1]))

    @cached_property
    def meaning(self) -> MaskMeaning:
        """The meaning of mask and causal flag: which scores are hidden, and what is added to them."""
        if self.masks is None:
            return MaskMeaning(self.causal, needs_mask=self.mask is not None)
        found = self.masks.meaning(self.mask, self.scores, self.causal)
        return MaskMeaning(self.causal, needs_mask=True) if found.shifts_rows and self.sums is not None else found

    @property
    def before(self) -> tuple[ir.Operation, ...]:
        """Ops that Lamina's kernels do not need, in order: those that make a mask that depends on no argument."""
        known = self.mask is not None and not self.meaning.needs_mask and self.meaning.keys is None
        return defining_ops(self.mask) if known else ()

    @property
    def scores(self) -> tuple[int, int, int, int]:
        """The shape of the scores: batch, heads, queries, keys."""
        batch, heads, queries, _ = shape_of(self.query)
        return batch, heads, queries, shape_of(self.key)[2]

    @property
    def work(self) -> AttentionWork:
        """The cost model's problem, at typical sizes."""
        batch, heads, queries, size = map(typical, shape_of(self.query))
        _, kv_heads, keys, values = map(typical, shape_of(self.value))
        meaning = self.meaning
        return AttentionWork(
            batch, heads, kv_heads, queries, keys, size, values, meaning.causal, meaning.reads, self.sums is not None,
            meaning.window, slopes=meaning.slopes is not None,
            by_head=meaning.by_head, has_known_mask=self.mask is not None and not meaning.needs_mask,
            only_hides=meaning.needs_mask and meaning.only_hides, has_dropout=self.dropout > 0, without_library=not self.allowed,
            has_cap=self.cap > 0, symbolic=self.is_symbolic, many_queries=is_symbolic(shape_of(self.query)[1:3]),
            symbolic_lengths=is_symbolic(self.scores[2:]),
        )  # fmt: skip

    @property
    def what(self) -> str:
        """Describes it: "attention 32x32x1x128 on 32x4x8192x128, causal", or "..., mask 2x1x40x40: causal, window 8, keys"."""
        sizes = " on ".join("x".join(map(str, shape_of(v))) for v in (self.query, self.key))
        mask = "" if self.mask is None else f", mask {'x'.join(map(str, shape_of(self.mask)))}"
        mask += self.meaning.what if self.mask is not None else ""
        drops = f", dropout {self.dropout:g}" if self.dropout else ""
        trains = ", for training" if self.sums is not None else ""
        cap = f", cap {self.cap:g}" if self.cap else ""
        return f"attention {sizes}{', causal' if self.causal else ''}{mask}{cap}{drops}{trains}"

    def emit(self, config: Config, strides: Mapping[ir.Value, Sequence[int]], masks: Masks) -> dict[ir.Value, ir.Value]:
        """Emits the call of Lamina's kernels at the insertion point; returns the replacements of the result and of `sums`.

        strides  of the results, unless their users want others
        masks    the operands that earlier calls made of masks
        """
        meaning, scores = self.meaning, self.scores
        read = self.extras(masks)
        if self.mask is not None and isinstance(config, Forward) and config.blocks:
            read["blocks"] = masks.blocks(self.mask, scores, meaning, config.m, config.n)
        operands, arguments = self.kernel_operands(config, read)
        if isinstance(config, Split):
            f32, values = ir.F32Type.get(), shape_of(self.value)[3]
            sizes = [*scores[:3], config.parts, values]
            parts = [tensor_type(sizes, f32), tensor_type(sizes[:-1], f32)]
            partial = kernel_call(SPLIT, operands, parts, arguments)
            joined = kernel_call(JOIN, list(partial.results), [self.result.type], {"of": arguments["of"]}, [strides[self.result]])
            return {self.result: joined.result}
        arguments |= {"offset": meaning.offset, "window": meaning.window, "causal": meaning.causal, "sums": self.sums is not None}
        results = [v for v in self.results if v is not None]
        kernel = SPECIALIZED if isinstance(config, Specialized) else FORWARD
        call = kernel_call(kernel, operands, [v.type for v in results], arguments, [strides[v] for v in results])
        return dict(zip(results, call.results, strict=True))

    def extras(self, masks: Masks) -> dict[str, ir.Value]:
        """Returns the optional operands that kernels read, by name: what replaces the mask, and the seed."""
        read = {} if self.mask is None else dict(masks.operands(self.mask, self.scores, self.meaning))
        return read if self.seed is None else {**read, "seed": self.seed}

    def kernel_operands(
        self, config: Config, read: Mapping[str, ir.Value], callee: str = ATTENTION
    ) -> tuple[list[ir.Value], dict[str, Any]]:
        """Returns the first operands of the kernels' calls, and the arguments that all of them have."""
        names = [name for name in EXTRAS if name in read]
        arguments: dict[str, Any] = {"of": callee, "schedule": str(config), "scale": self.scale, "reads": " ".join(names)}
        if self.seed is not None:
            arguments["dropout"] = self.dropout
        if self.cap:
            arguments["cap"] = self.cap
        return [self.query, self.key, self.value, *(read[name] for name in names)], arguments


def strides_of_results(op: ir.Operation) -> dict[ir.Value, list[int]]:
    """Returns the declared strides of each result of a graph.extern, in elements."""
    return {v: list(declared_strides(v)) for v in op.results}


def arguments(op: ir.Operation, callee: str, names: Sequence[str]) -> dict[str, Any] | None:
    """Returns the arguments of a graph.extern that calls `callee`, by name: tensors, numbers, text or None; None for other ops."""
    if op.name != "graph.extern" or callee_of(op) != callee:
        return None
    tensors = iter(op.operands)
    return dict(zip(names, (_value_of(a, tensors) for a in op.attributes["args"]), strict=False))


def _value_of(attribute: ir.Attribute, tensors: Iterator[ir.Value]) -> Any:
    """Decodes an argument: a tensor, number, text or None. tensors: the remaining tensor operands."""
    if isinstance(attribute, ir.UnitAttr):
        return next(tensors)
    return None if isinstance(attribute, ir.TypeAttr) else attribute.value  # type: ignore[attr-defined]
