"""The context of a rewrite rule: the body of one generic, with a view through its operands."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from torch_mlir import ir

from ..ir.rewriting import ZERO, LoopGeneric, Map, constant, trim
from ..ir.sizes import number_attribute
from .scalars import ScalarNode, ScalarRef, Scalars

_CHEAP = ("arith.", "linalg.index", "math.absf", "math.copysign")
_DEAR = ("arith.div", "arith.rem", "arith.floordiv", "arith.ceildiv")


@dataclass
class RewriteScope:
    """The body of `generic` while it is rewritten. Rules read `Ref`s and return values of this body."""

    scalars: Scalars
    generic: LoopGeneric
    fast_math: frozenset[str]
    present: set[str]  # names of ops in the module's bodies, to skip lookups of absent ones
    loops: Map = field(init=False)

    def __post_init__(self) -> None:
        self.loops = self.generic.loops
        self.context = self.generic.op.context

    def args(self, op: ir.Operation) -> list[ScalarRef]:
        """Returns the operands of a body op as refs."""
        return [ScalarRef(v, self.loops) for v in op.operands]

    def node(self, ref: ScalarRef, *names: str) -> ScalarNode | None:
        """Returns the op that computes `ref`, if it is one of `names` (default: any)."""
        if names and self.present.isdisjoint(names):
            return None
        found = self.scalars.node(ref)
        return found if found is not None and (not names or found.name in names) else None

    def number(self, ref: ScalarRef) -> float | int | None:
        """Returns the value of a constant. simplify._forward has moved constants into the bodies before any rule runs."""
        return None if isinstance(ref.value.owner, ir.Block) else self.scalars.number(ref)

    def same(self, a: ScalarRef, b: ScalarRef) -> bool:
        """Returns whether two refs are the same scalar."""
        return self.scalars.same(a, b)

    def use(self, ref: ScalarRef, before: ir.Operation, budget: int = 3) -> ir.Value | None:
        """Returns `ref` as a value in front of `before`: as it is, read from a tensor, or recomputed when that is cheap.

        None when it would take more than `budget` cheap ops.
        """
        owner = ref.value.owner
        if isinstance(owner, ir.Block):
            if owner == self.generic.block:
                return ref.value if ref.index == self.loops else self.read(self.scalars.step(ref))
            return self.read(self.scalars.step(ref) if owner.owner.operation.name == "linalg.generic" else ref)
        op = owner.operation
        if op.block == self.generic.block and ref.index == self.loops:
            return ref.value
        if (number := self.number(ref)) is not None and not isinstance(ref.value.type, ir.RankedTensorType):
            return self.constant(number, ref.value.type, before)
        if isinstance(ref.value.type, ir.RankedTensorType):
            return self.read(ref)
        if op.parent.name != "linalg.generic":
            return ref.value  # a scalar of the function
        stored = self.yielded(ref)
        return self.read(stored) if stored is not None else self._recompute(op, ref.index, before, budget)

    def yielded(self, ref: ScalarRef) -> ScalarRef | None:
        """Returns the tensor that holds `ref`, a value of a parallel generic's body, when the generic yields it."""
        for use in ref.value.uses:
            user = use.owner.operation
            if user.name == "linalg.yield":
                op = user.block.owner.operation
                if op.name != "linalg.generic" or op == self.generic.op:
                    continue
                generic = self.scalars.reader.generic(op)
                map_ = generic.maps[len(generic.ins) + use.operand_number]
                if generic.parallel and map_ is not None:
                    return ScalarRef(op.results[use.operand_number], tuple(ZERO if d == ZERO else ref.index[d] for d in map_))
        return None

    def _recompute(self, op: ir.Operation, index: Map, before: ir.Operation, budget: int) -> ir.Value | None:
        if budget == 0 or not op.name.startswith(_CHEAP) or op.name.startswith(_DEAR):
            return None
        if op.name == "linalg.index":
            loop = index[op.attributes["dim"].value]
            return self.constant(0, op.results[0].type, before) if loop < 0 else self.position(loop, before)
        values = [self.use(ScalarRef(v, index), before, budget - 1) for v in op.operands]
        if any(v is None for v in values):
            return None
        new = op.clone(ip=ir.InsertionPoint(before)).operation
        for i, value in enumerate(values):
            new.operands[i] = value
        return new.results[0]

    def position(self, loop: int, before: ir.Operation) -> ir.Value:
        """Emits a linalg.index."""
        index = ir.IndexType.get(self.context)
        dim = ir.IntegerAttr.get(ir.IntegerType.get_signless(64, self.context), loop)
        return self.build("linalg.index", index, [], before, dim=dim)

    def read(self, ref: ScalarRef | None) -> ir.Value | None:
        """Returns the block argument that reads a tensor at these loops, an existing one or a new input."""
        if ref is None:
            return None
        generic = self.generic
        for tensor, map_, arg in chain(zip(generic.ins, generic.maps, generic.args, strict=False), generic.added):
            if tensor == ref.value and map_ == ref.index:
                return arg
        arg = generic.block.add_argument(ref.value.type.element_type, generic.op.location)
        generic.added.append((ref.value, ref.index, arg))
        return arg

    def constant(self, number: float | int, type_: ir.Type, before: ir.Operation) -> ir.Value:
        """Emits a scalar constant in front of the generic, where canonical bodies keep them."""
        return constant(number_attribute(number, type_), ir.InsertionPoint(self.generic.op), before.location)

    def build(
        self, name: str, type_: ir.Type, operands: Sequence[ir.Value | None], before: ir.Operation, **attributes: ir.Attribute
    ) -> ir.Value | None:
        """Emits an op in front of `before`, with its source location; None when an operand is None."""
        if any(v is None for v in operands):
            return None
        self.present.add(name)
        ip = ir.InsertionPoint(before)
        return ir.Operation.create(name, [type_], list(operands), attributes, loc=before.location, ip=ip).results[0]

    def close(self, loc: ir.Location | None = None) -> ir.Operation:
        """Erases dead body ops, and rebuilds the generic when its inputs changed or `loc` is given."""
        return trim(self.scalars.reader, self.generic, loc=loc)
