"""Use-def chains of scalars across generics: finds the op that computes an element, whatever tensors it passes through."""

from dataclasses import dataclass

from torch_mlir import ir

from ..ir.reading import number_of
from ..ir.rewriting import ZERO, LoopGeneric, Map, Reader
from ..ir.sizes import sizes_of
from ..ir.views import walked_dims


@dataclass(frozen=True, slots=True)
class ScalarRef:
    """One scalar inside the loops of a root generic.

    value  a scalar of some generic's body (`index[i]` is the root loop, or ZERO, that its loop i runs at), a tensor
           (`index[j]` is its position along dimension j) or a scalar from outside all bodies (`index` is ())
    """

    value: ir.Value
    index: Map


@dataclass(frozen=True)
class ScalarNode:
    """The op that computes a scalar, and its operands in the same root loops."""

    op: ir.Operation
    name: str
    args: tuple[ScalarRef, ...]


class Scalars:
    """Follows scalars from a body through block arguments, views and parallel generics to the op that computes them."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.intervals: dict[ir.Value, tuple[int, int] | None] = {}  # constant integer tensors: cached value ranges
        self.twins: dict[ir.Value, ir.Value] = {}  # constant tensor -> its copy with narrower elements

    def step(self, ref: ScalarRef) -> ScalarRef | None:
        """Makes one hop towards the op that computes `ref`; None at a body's op, a constant, an input or a reduction."""
        value, owner = ref.value, ref.value.owner
        if isinstance(owner, ir.Block):
            op = owner.owner.operation
            return self._operand(self.reader.generic(op), value.arg_number, ref) if op.name == "linalg.generic" else None
        hop = _HOPS.get(owner.operation.name)
        return None if hop is None else hop(self, owner.operation, ref)

    def resolve(self, ref: ScalarRef) -> ScalarRef:
        """Follows `ref` as far as `step` goes."""
        while (further := self.step(ref)) is not None:
            ref = further
        return ref

    def node(self, ref: ScalarRef) -> ScalarNode | None:
        """Returns the body op that computes `ref`, through all hops; None for constants, inputs and reductions."""
        ref = self.resolve(ref)
        op = ref.value.owner
        if isinstance(op, ir.Block):
            return None
        op = op.operation
        if op.name == "linalg.index" or (op.name.startswith(("arith.", "math.")) and op.name != "arith.constant"):
            return ScalarNode(op, op.name, tuple(ScalarRef(v, ref.index) for v in op.operands))
        return None

    def number(self, ref: ScalarRef) -> float | int | None:
        """Returns the value of `ref` when it is a constant: a scalar, a splat or a fill."""
        return number_of(self.resolve(ref).value)

    def same(self, a: ScalarRef, b: ScalarRef) -> bool:
        """Returns whether two refs are the same scalar."""
        return a == b or self.resolve(a) == self.resolve(b)

    def _operand(self, generic: LoopGeneric, position: int, ref: ScalarRef) -> ScalarRef | None:
        n_in = len(generic.ins)
        if position >= len(generic.args):
            tensor, map_, _ = generic.added[position - len(generic.args)]
        else:
            if position >= n_in and not generic.parallel:
                return None  # the accumulator
            tensor, found = (generic.ins + generic.outs)[position], generic.maps[position]
            if found is None:
                return None
            map_ = found
        return ScalarRef(tensor, tuple(ZERO if d == ZERO else ref.index[d] for d in map_))


def _through_generic(scalars: Scalars, op: ir.Operation, ref: ScalarRef) -> ScalarRef | None:
    generic = scalars.reader.generic(op)
    if not generic.parallel:
        return None
    number = ref.value.result_number
    map_ = generic.maps[len(generic.ins) + number]
    loops: list[int | None] = [None] * len(generic.reduction)
    for d, loop in zip(map_ or (), ref.index, strict=False):
        if d != ZERO:
            loops[d] = loop
    if map_ is None or None in loops:
        return None
    return ScalarRef(generic.yielded[number], tuple(loop for loop in loops if loop is not None))


def _through_walk(scalars: Scalars, op: ir.Operation, ref: ScalarRef) -> ScalarRef:
    """Steps through linalg.transpose and linalg.broadcast."""
    places = {d: at for d, at in zip(walked_dims(op), ref.index, strict=True) if d is not None}
    return ScalarRef(op.operands[0], tuple(places[d] for d in range(len(places))))


def _through_reshape(scalars: Scalars, op: ir.Operation, ref: ScalarRef) -> ScalarRef | None:
    """Steps through expand_shape and collapse_shape that only add or drop dimensions of extent 1."""
    source, to = sizes_of(op.operands[0].type), sizes_of(op.results[0].type)
    if [n for n in source if n != 1] != [n for n in to if n != 1]:
        return None
    index, kept = [], [at for at, n in zip(ref.index, to, strict=True) if n != 1]
    for n in source:
        index.append(ZERO if n == 1 else kept.pop(0))
    return ScalarRef(op.operands[0], tuple(index))


def _through_fill(scalars: Scalars, op: ir.Operation, ref: ScalarRef) -> ScalarRef:
    return ScalarRef(op.operands[0], ())


def _at_constant(scalars: Scalars, op: ir.Operation, ref: ScalarRef) -> ScalarRef | None:
    return ScalarRef(ref.value, ()) if ref.index and not isinstance(ref.value.type, ir.RankedTensorType) else None


_HOPS = {
    "linalg.generic": _through_generic, "linalg.transpose": _through_walk, "linalg.broadcast": _through_walk,
    "tensor.expand_shape": _through_reshape, "tensor.collapse_shape": _through_reshape, "linalg.fill": _through_fill,
    "arith.constant": _at_constant,
}  # fmt: skip
