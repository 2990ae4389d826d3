"""Reads calls of `lamina.attention_backward`, and emits them as calls of Lamina's two kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch_mlir import ir

from ...ir.affine import row_major
from ...ir.extern_calls import kernel_call
from ...ir.reading import shape_of
from ...ir.rewriting import is_used
from ...ir.sizes import tensor_type
from .cost import AttentionWork
from .forward import NAMES, Attention, arguments
from .masks.operands import Masks
from .schedules import Backward, Config

BACKWARD_QUERIES, BACKWARD_KEYS = "lamina.attention_backward_queries", "lamina.attention_backward_keys"
GRADIENTS = "lamina.attention_backward.default"
_NAMES = ("grad", *NAMES[:4], "out", "sums", *NAMES[4:-1], "trains_mask", NAMES[-1])


@dataclass(frozen=True)
class Gradients:
    """The gradients of query, key and value of an attention.

    attention  the call of the forward pass, with its result and sums
    grad       the gradient of its result
    results    gradients of query, key, value and, where it needs one, of the mask; None for those without users
    masks      the analyzed masks of the module; None: nothing is known of masks
    """

    attention: Attention
    grad: ir.Value
    sums: ir.Value
    results: tuple[ir.Value | None, ...]
    masks: Masks | None = None

    @staticmethod
    def read(op: ir.Operation, masks: Masks | None = None) -> "Gradients | None":
        """Reads the gradients that a graph.extern computes; None for other calls."""
        args = arguments(op, GRADIENTS, _NAMES)
        if args is None:
            return None
        grad, out, sums = (args.pop(name) for name in ("grad", "out", "sums"))
        args.pop("trains_mask")
        results = tuple(r if is_used(r) else None for r in op.results)
        return Gradients(Attention(**args, result=out), grad, sums, results, masks)

    def fits(self) -> bool:
        """Returns whether Lamina's kernels can compute them. They compute none of a mask."""
        return self.attention.fits() and all(result is None for result in self.results[3:])

    @property
    def work(self) -> AttentionWork:
        """The cost model's problem: that of attention that reads its mask."""
        work, mask = replace(self.attention.work, backward=True), self.attention.mask
        if mask is None or self.masks is None:
            return work
        return replace(work, only_hides=self.masks.meaning(mask, self.attention.scores, self.attention.causal).only_hides)

    @property
    def what(self) -> str:
        """A description for messages, such as "attention backward 4x12x512x64 on 4x12x512x64, causal"."""
        return self.attention.what.replace("attention", "attention backward", 1)

    def emit(self, config: Config, strides: Mapping[ir.Value, Sequence[int]], masks: Masks) -> dict[ir.Value, ir.Value]:
        """Emits the calls of Lamina's kernels at the insertion point; returns the replacement of each result that has users.

        strides  of the results, unless their users want others
        masks    the operands that earlier calls made of masks
        """
        assert isinstance(config, Backward)
        attention, (query, key, value) = self.attention, self.results[:3]
        by_query = attention.extras(masks)
        by_key = dict(by_query)
        if attention.mask is not None and config.blocks:
            by_query["blocks"] = masks.blocks(attention.mask, attention.scores, attention.meaning, config.m, config.n)
            by_key["blocks"] = masks.blocks(
                attention.mask, attention.scores, attention.meaning, config.queries, config.keys, by_keys=True
            )
        operands, arguments = attention.kernel_operands(config, by_query, GRADIENTS)
        arguments["causal"] = attention.causal
        deltas = tensor_type(attention.scores[:3], ir.F32Type.get())
        operands = [*operands, attention.result, self.sums, self.grad]
        layouts = [_strides(query, attention.query, strides), row_major(attention.scores[:3])]
        first = kernel_call(BACKWARD_QUERIES, operands, [attention.query.type, deltas], arguments, layouts)
        replacements = {} if query is None else {query: first.results[0]}
        if key is None and value is None:
            return replacements
        operands = [*attention.kernel_operands(config, by_key)[0], self.sums, self.grad, first.results[1]]
        layouts = [_strides(key, attention.key, strides), _strides(value, attention.value, strides)]
        second = kernel_call(BACKWARD_KEYS, operands, [attention.key.type, attention.value.type], arguments, layouts)
        return replacements | {v: new for v, new in zip((key, value), second.results, strict=True) if v is not None}


def _strides(result: ir.Value | None, like: ir.Value, strides: Mapping[ir.Value, Sequence[int]]) -> Sequence[int]:
    return row_major(tuple(shape_of(like))) if result is None else strides[result]
