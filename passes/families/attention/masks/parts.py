"""Follows the elements of attention masks, by batch, head, query and key, through groups, views and bodies, and evaluates them."""

from dataclasses import dataclass, field

import numpy as np
from torch_mlir import ir

from lamina.core.sizes import is_symbolic
from lamina.dialects.graph import CALLS

from ....ir.reading import producer, shape_of
from ....ir.views import groups, is_identity, is_view, walked_dims
from ....simplify.evaluate import NotEvaluable, array_of, evaluate_op
from ....simplify.evaluate.scalars import evaluate_scalar

_MOST = 1 << 26  # elements of an evaluated value at most
Axes = tuple[int | None, ...]


@dataclass(frozen=True)
class MaskPart:
    """A tensor, or a scalar in the body of an op, indexed by the scores' batch, head, query and key.

    axes  for each of these four: the dimension of the tensor, or loop of the op, that it indexes; None: broadcast
    """

    value: ir.Value
    axes: Axes

    @property
    def op(self) -> ir.Operation | None:
        """The op that produces the value; None for block arguments."""
        return producer(self.value)

    @property
    def is_tensor(self) -> bool:
        """Whether this is a tensor rather than a scalar in a body."""
        return isinstance(self.value.type, ir.RankedTensorType)

    def argument(self, i: int) -> "MaskPart":
        """Returns operand `i` of the scalar op that computes this."""
        assert self.op is not None and not self.is_tensor
        return MaskPart(self.op.operands[i], self.axes)


def whole(mask: ir.Value) -> MaskPart:
    """Returns a mask of four dimensions as a part."""
    return MaskPart(mask, tuple(d if n != 1 else None for d, n in enumerate(shape_of(mask))))


def seen_through(part: MaskPart) -> MaskPart:
    """Follows a part to where its elements come from: a scalar op in a body, an argument, or the result of an op that cannot be
    looked through."""
    while (nearer := _nearer(part)) is not None:
        part = nearer
    return part


def tensor_of(part: MaskPart) -> MaskPart | None:
    """Follows a part to the first tensor; None where it is computed in a body."""
    at: MaskPart | None = part
    while at is not None and not at.is_tensor:
        at = _nearer(at)
    return at


def _nearer(part: MaskPart) -> MaskPart | None:
    value = part.value
    if isinstance(value, ir.BlockArgument):
        op = value.owner.owner
        op = op.operation if hasattr(op, "operation") else op
        if op.name == "graph.group":
            return MaskPart(op.operands[value.arg_number], part.axes)
        if op.name == "linalg.generic" and value.arg_number < len(op.operands) - len(op.results):
            return _read(op, value.arg_number, part.axes)
        return None
    op = part.op
    if op is None or not part.is_tensor:
        return None
    if op.name == "graph.group":
        end = list(op.regions[0].blocks[0].operations)[-1].operation
        return MaskPart(end.operands[list(op.results).index(value)], part.axes)
    if op.name == "linalg.fill":
        return MaskPart(op.operands[0], (None,) * 4)
    if op.name in ("tensor.expand_shape", "tensor.collapse_shape"):
        return _reshaped(op, part.axes)
    if op.name == "tensor.extract_slice":
        return _unpadded(op, part.axes)
    if op.name == "tensor.cast":
        return MaskPart(op.operands[0], part.axes)
    if op.name in ("linalg.transpose", "linalg.broadcast") or (op.name == "linalg.generic" and is_view(op)):
        dims = walked_dims(op)
        return MaskPart(op.operands[0], tuple(None if a is None else dims[a] for a in part.axes))
    return _computed(op, part.axes)


def _computed(op: ir.Operation, axes: Axes) -> MaskPart | None:
    """Returns the scalar that an op's body yields for each element of its result."""
    if op.name != "linalg.generic" or len(op.results) != 1 or not is_identity(list(op.attributes["indexing_maps"])[-1].value):
        return None
    if any("parallel" not in str(kind) for kind in op.attributes["iterator_types"]):
        return None
    block = op.regions[0].blocks[0]
    return MaskPart(list(block.operations)[-1].operation.operands[0], axes)


def _read(op: ir.Operation, i: int, axes: Axes) -> MaskPart | None:
    """Returns operand `i` of a linalg.generic as a part. axes: loops of the op."""
    dims: dict[int, int] = {}
    for d, expr in enumerate(op.attributes["indexing_maps"][i].value.results):
        if isinstance(expr, ir.AffineDimExpr) and expr.position not in dims:
            dims[expr.position] = d
        elif not (isinstance(expr, ir.AffineConstantExpr) and expr.value == 0):
            return None
    return MaskPart(op.operands[i], tuple(None if a is None else dims.get(a) for a in axes))


def _reshaped(op: ir.Operation, axes: Axes) -> MaskPart | None:
    """Returns the source of a reshape that only adds or drops dimensions of size 1; None for others."""
    wide = op.operands[0] if op.name == "tensor.collapse_shape" else op.results[0]
    sizes, to = shape_of(wide), {}
    for narrow, group in enumerate(groups(op)):
        long = [d for d in group if sizes[d] != 1]
        if len(long) > 1:
            return None
        for d in long:
            one, other = (narrow, d) if op.name == "tensor.collapse_shape" else (d, narrow)
            to[one] = other
    return MaskPart(op.operands[0], tuple(None if a is None else to.get(a) for a in axes))


def _unpadded(op: ir.Operation, axes: Axes) -> MaskPart | None:
    """Returns the source of a slice that takes everything, or undoes padding at the end; None for others."""
    source, shape = op.operands[0], shape_of(op.results[0])
    if any(op.attributes["static_offsets"]) or any(n != 1 for n in op.attributes["static_strides"]):
        return None
    if shape_of(source) == shape:
        return MaskPart(source, axes)
    at = seen_through(MaskPart(source, (0, 1, 2, 3) if len(shape) == 4 else axes))
    pad = at.op
    if len(shape) != 4 or pad is None or pad.name != "tensor.pad" or any(pad.attributes["static_low"]) or at.axes != (0, 1, 2, 3):
        return None
    inner = pad.operands[0]
    return MaskPart(inner, axes) if shape_of(inner) == shape else None


@dataclass
class Values:
    """Evaluates parts and tensors that depend on no argument, each once; None for those that are not known."""

    parts: dict[MaskPart, np.ndarray | None] = field(default_factory=dict)
    tensors: dict[ir.Value, np.ndarray | None] = field(default_factory=dict)

    def of(self, part: MaskPart) -> np.ndarray | None:
        """Returns the values of a part in four dimensions, of size 1 where broadcast."""
        at = seen_through(part)
        if at not in self.parts:
            self.parts[at] = None
            self.parts[at] = self._tensor(at) if at.is_tensor else self._number(at)
        return self.parts[at]

    def _tensor(self, at: MaskPart) -> np.ndarray | None:
        found = self.whole(at.value)
        if found is None:
            return None
        walked = [a for a in at.axes if a is not None]
        found = found[tuple(slice(None) if d in walked else 0 for d in range(found.ndim))]
        found = np.transpose(found, np.argsort(np.argsort(walked))) if walked else found
        sizes = iter(found.shape)
        return found.reshape([1 if a is None else next(sizes) for a in at.axes])

    def _number(self, at: MaskPart) -> np.ndarray | None:
        op = at.op
        if op is None:
            return None
        if op.name == "arith.constant":
            found = array_of(op.attributes["value"])
            return None if found is None else np.reshape(found, (1, 1, 1, 1))
        if op.name == "linalg.index":
            loop = op.attributes["dim"].value
            if loop not in at.axes:
                return np.zeros((1, 1, 1, 1), np.int64)
            size = _extent(op, loop)
            if is_symbolic(size):
                return None
            shape = [size if a == loop else 1 for a in at.axes]
            return np.arange(size).reshape(shape)
        if op.name == "tensor.extract":
            return self._extracted(at)
        given = [self.of(at.argument(i)) for i in range(len(op.operands))]
        known = [x for x in given if x is not None]
        if not given:
            return None
        if len(known) < len(given) or np.prod(np.broadcast_shapes(*(x.shape for x in known)), dtype=np.int64) > _MOST:
            return None
        return evaluate_scalar(op, known)

    def _extracted(self, at: MaskPart) -> np.ndarray | None:
        assert at.op is not None
        tensor, index = self.whole(at.op.operands[0]), [self.of(at.argument(i)) for i in range(1, len(at.op.operands))]
        known = [x for x in index if x is not None]
        if tensor is None or len(known) < len(index):
            return None
        if any(np.any((i < 0) | (i >= n)) for i, n in zip(known, tensor.shape, strict=True)):
            return None
        return tensor[tuple(known)]

    def whole(self, value: ir.Value) -> np.ndarray | None:
        """Returns the value of a tensor."""
        if value not in self.tensors:
            self.tensors[value] = None
            self.tensors[value] = self._whole(value)
        return self.tensors[value]

    def _whole(self, value: ir.Value) -> np.ndarray | None:
        if isinstance(value, ir.BlockArgument):
            nearer = _nearer(MaskPart(value, (None,) * 4))
            return None if nearer is None or nearer.value == value else self.whole(nearer.value)
        op = producer(value)
        if op is None or is_symbolic(shape_of(value)) or np.prod(shape_of(value), dtype=np.int64) > _MOST:
            return None
        if op.name == "graph.group":
            nearer = _nearer(MaskPart(value, (None,) * 4))
            return None if nearer is None else self.whole(nearer.value)
        if op.name in CALLS:
            return None
        operands = [v for v in op.operands if isinstance(v.type, ir.RankedTensorType)]
        given = {v: self.whole(v) for v in operands}
        if any(x is None and not _is_empty(v) for v, x in given.items()):
            return None
        try:
            found = evaluate_op(op, [given[v] if v in given else self._scalar(v) for v in op.operands], self._scalar)
        except NotEvaluable:
            return None
        return found[list(op.results).index(value)]

    def _scalar(self, value: ir.Value) -> np.ndarray | None:
        if isinstance(value.type, ir.RankedTensorType):
            return self.whole(value)
        op = producer(value)
        return array_of(op.attributes["value"]) if op is not None and op.name == "arith.constant" else None


def depends_on(part: MaskPart) -> set[int]:
    """Returns along which of batch, head, query and key the elements may differ."""
    found, seen, stack = set[int](), set[MaskPart](), [part]
    while stack:
        at = seen_through(stack.pop())
        if at in seen:
            continue
        seen.add(at)
        op = at.op
        if at.is_tensor or op is None:
            sizes = shape_of(at.value) if at.is_tensor else ()
            found |= {d for d, a in enumerate(at.axes) if a is not None and (not sizes or sizes[a] != 1)}
        elif op.name == "linalg.index":
            found |= {d for d, a in enumerate(at.axes) if a == op.attributes["dim"].value}
        elif op.name != "arith.constant":
            first = 1 if op.name == "tensor.extract" else 0
            stack += [at.argument(i) for i in range(first, len(op.operands))]
    return found


def _extent(index: ir.Operation, loop: int) -> int:
    generic = index.parent
    generic = generic.operation if hasattr(generic, "operation") else generic
    return shape_of(generic.results[0])[loop]


def _is_empty(value: ir.Value) -> bool:
    op = producer(value)
    return op is not None and op.name == "tensor.empty"
