"""Follows the elements of attention masks, by batch, head, query and key, through groups, views and bodies, and evaluates them."""

from dataclasses import dataclass, field

import numpy as np
from torch_mlir import ir

from lamina.core.sizes import is_symbolic
from lamina.core.walks import reachable
from lamina.dialects.graph import CALLS

from ....ir.reading import producer, shape_of, terminator
from ....ir.rewriting import ZERO, Reader
from ....simplify.evaluate import NotEvaluable, array_of, evaluate_op
from ....simplify.evaluate.scalars import evaluate_scalar
from ....simplify.scalars import ScalarRef, Scalars

_MOST = 1 << 26  # elements of an evaluated value at most


def mask_element(mask: ir.Value) -> ScalarRef:
    """Returns the element of a mask of four dimensions at a batch, head, query and key: these number the root loops of a
    `ScalarRef`."""
    return ScalarRef(mask, tuple(d if n != 1 else ZERO for d, n in enumerate(shape_of(mask))))


class MaskScalars(Scalars):
    """Follows scalars through groups, casts and slices that undo padding, too."""

    def step(self, ref: ScalarRef) -> ScalarRef | None:
        """Makes one hop towards the op that computes `ref`; None at a body's op, a constant, an input or a reduction."""
        further = super().step(ref)
        if further is not None:
            return further
        if (value := across_group(ref.value)) is not None:
            return ScalarRef(value, ref.index)
        op = producer(ref.value)
        if op is not None and op.name == "tensor.cast":
            return ScalarRef(op.operands[0], ref.index)
        return self._unpadded(op, ref) if op is not None and op.name == "tensor.extract_slice" else None

    def tensor_of(self, ref: ScalarRef) -> ScalarRef | None:
        """Follows a scalar to the first tensor that holds it; None if it is computed in a body."""
        at: ScalarRef | None = ref
        while at is not None and not is_tensor(at):
            at = self.step(at)
        return at

    def _unpadded(self, op: ir.Operation, ref: ScalarRef) -> ScalarRef | None:
        """Follows a slice that takes everything, or undoes padding at the end; None for others."""
        source, shape = op.operands[0], shape_of(op.results[0])
        if any(op.attributes["static_offsets"]) or any(n != 1 for n in op.attributes["static_strides"]):
            return None
        if shape_of(source) != shape:
            everything = tuple(range(len(shape_of(source))))
            at = self.resolve(ScalarRef(source, everything))
            pad = producer(at.value)
            if pad is None or pad.name != "tensor.pad" or any(pad.attributes["static_low"]) or at.index != everything:
                return None
            source = pad.operands[0]
        return ScalarRef(source, ref.index) if shape_of(source) == shape else None


@dataclass
class Values:
    """Evaluates scalars and tensors that depend on no argument, each once; None for those that are not known."""

    scalars: MaskScalars = field(default_factory=lambda: MaskScalars(Reader()))
    parts: dict[ScalarRef, np.ndarray | None] = field(default_factory=dict)
    tensors: dict[ir.Value, np.ndarray | None] = field(default_factory=dict)

    def of(self, part: ScalarRef) -> np.ndarray | None:
        """Returns the values of a scalar by batch, head, query and key, of size 1 where broadcast."""
        resolved = self.scalars.resolve(part)
        if resolved not in self.parts:
            self.parts[resolved] = None
            self.parts[resolved] = self._tensor(resolved) if is_tensor(resolved) else self._number(resolved)
        return self.parts[resolved]

    def depends_on(self, part: ScalarRef) -> set[int]:
        """Returns along which of batch, head, query and key the elements may differ."""
        dims = set[int]()

        def computed_from(ref: ScalarRef) -> list[ScalarRef]:
            """Returns the values that a scalar is computed from, and notes the dimensions that tensors are read along."""
            resolved, op = self.scalars.resolve(ref), producer(self.scalars.resolve(ref).value)
            if is_tensor(resolved) or op is None:
                sizes = shape_of(resolved.value) if is_tensor(resolved) else [2] * len(resolved.index)
                dims.update(d for d, n in zip(resolved.index, sizes, strict=True) if d != ZERO and n != 1)
                return []
            if op.name == "linalg.index":
                dims.update({resolved.index[op.attributes["dim"].value]} - {ZERO})
            first = 1 if op.name == "tensor.extract" else 0
            return [ScalarRef(v, resolved.index) for v in list(op.operands)[first:]]

        for _ in reachable([part], computed_from):
            pass
        return dims

    def _tensor(self, ref: ScalarRef) -> np.ndarray | None:
        array, walked = self.whole(ref.value), [d for d in ref.index if d != ZERO]
        if array is None or len(set(walked)) < len(walked):
            return None
        array = array[tuple(0 if d == ZERO else slice(None) for d in ref.index)]
        sizes = dict(zip(walked, array.shape, strict=True))
        return np.transpose(array, np.argsort(walked)).reshape([sizes.get(d, 1) for d in range(4)])

    def _number(self, ref: ScalarRef) -> np.ndarray | None:
        op = producer(ref.value)
        if op is None:
            return None
        if op.name == "arith.constant":
            array = array_of(op.attributes["value"])
            return None if array is None else np.reshape(array, (1, 1, 1, 1))
        if op.name == "linalg.index":
            loop = op.attributes["dim"].value
            size = self.scalars.reader.generic(op.block.owner.operation).extents.get(loop) if ref.index[loop] != ZERO else 1
            count = size if isinstance(size, int) else 0
            return np.arange(count).reshape([count if d == ref.index[loop] else 1 for d in range(4)]) if count else None
        operands = [self.of(ScalarRef(v, ref.index)) for v in list(op.operands)[1 if op.name == "tensor.extract" else 0 :]]
        known = [x for x in operands if x is not None]
        if not operands:
            return None
        if len(known) < len(operands) or np.prod(np.broadcast_shapes(*(x.shape for x in known)), dtype=np.int64) > _MOST:
            return None
        return self._extracted(op, known) if op.name == "tensor.extract" else evaluate_scalar(op, known)

    def _extracted(self, op: ir.Operation, index: list[np.ndarray]) -> np.ndarray | None:
        tensor = self.whole(op.operands[0])
        if tensor is None or any(np.any((i < 0) | (i >= n)) for i, n in zip(index, tensor.shape, strict=True)):
            return None
        return tensor[tuple(index)]

    def whole(self, value: ir.Value) -> np.ndarray | None:
        """Returns the value of a tensor."""
        if value not in self.tensors:
            self.tensors[value] = None
            self.tensors[value] = self._evaluated(value)
        return self.tensors[value]

    def _evaluated(self, value: ir.Value) -> np.ndarray | None:
        if (other := across_group(value)) is not None:
            return self.whole(other)
        op = producer(value)
        if op is None or op.name in CALLS or is_symbolic(shape_of(value)) or np.prod(shape_of(value), dtype=np.int64) > _MOST:
            return None
        arrays = {v: self.whole(v) for v in op.operands if isinstance(v.type, ir.RankedTensorType)}
        if any(x is None and not _is_empty(v) for v, x in arrays.items()):
            return None
        try:
            results = evaluate_op(op, [arrays[v] if v in arrays else self._scalar(v) for v in op.operands], self._scalar)
        except NotEvaluable:
            return None
        return results[list(op.results).index(value)]

    def _scalar(self, value: ir.Value) -> np.ndarray | None:
        if isinstance(value.type, ir.RankedTensorType):
            return self.whole(value)
        op = producer(value)
        return array_of(op.attributes["value"]) if op is not None and op.name == "arith.constant" else None


def is_tensor(ref: ScalarRef) -> bool:
    """Returns whether this is an element of a tensor rather than a scalar in a body."""
    return isinstance(ref.value.type, ir.RankedTensorType)


def across_group(value: ir.Value) -> ir.Value | None:
    """Returns the operand that an argument of a group's block stands for, or what a group yields as its result; None for other
    values."""
    group = value.owner.owner.operation if isinstance(value, ir.BlockArgument) else value.owner.operation
    if group.name != "graph.group":
        return None
    inside = isinstance(value, ir.BlockArgument)
    return group.operands[value.arg_number] if inside else terminator(group.regions[0].blocks[0]).operands[value.result_number]


def _is_empty(value: ir.Value) -> bool:
    op = producer(value)
    return op is not None and op.name == "tensor.empty"
