"""From what every thread holds of a block to one number that all of them know.

In registers first, then by shuffles among the threads of a warp, then through shared memory among warps. The order depends on the
shape alone, so that results are the same in every run. Reductions that stand together share one barrier.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from .cluster import send, synchronize, wait
from .threads import WARP, Indices, Shape, barrier
from .values import Spread, elements

COMBINE = {
    "add": ("arith.addf", "arith.addi"), "mul": ("arith.mulf", "arith.muli"), "minimumf": ("arith.minimumf", ""),
    "maximumf": ("arith.maximumf", ""), "minnumf": ("arith.minnumf", ""), "maxnumf": ("arith.maxnumf", ""),
    "minsi": ("", "arith.minsi"), "maxsi": ("", "arith.maxsi"), "minui": ("", "arith.minui"), "maxui": ("", "arith.maxui"),
    "and": ("", "arith.andi"), "or": ("", "arith.ori"), "xor": ("", "arith.xori"),
}  # fmt: skip


@dataclass(frozen=True)
class Reduction:
    block: Spread
    kind: str

    def combine(self, a: ir.Value, b: ir.Value) -> ir.Value:
        element = ir.VectorType(a.type).element_type if isinstance(a.type, ir.VectorType) else a.type
        name = COMBINE[self.kind][0 if isinstance(element, ir.FloatType) else 1]
        return ir.Operation.create(name, results=[a.type], operands=[a, b]).results[0]


class Reducer:
    """shared: makes a workgroup buffer of so many elements; thread: this thread's number in the CTA; rank: the CTA's in its
    cluster; met: whether the CTAs of a cluster have waited for each other's start."""

    def __init__(
        self, shape: Shape, at: Indices, thread: ir.Value, rank: ir.Value | None, shared: Callable[[int, ir.Type], ir.Value]
    ) -> None:
        self.shape, self.at, self.thread, self.rank, self.shared = shape, at, thread, rank, shared
        self.met = False

    def reduce(self, wanted: list[Reduction], in_loop: bool) -> list[ir.Value]:
        """The totals, known to every thread of the program."""
        values = [self._among_lanes(r, self._own(r), min(self.shape.threads, WARP)) for r in wanted]
        if self.shape.threads > WARP:
            values = self._among_warps(wanted, values, in_loop)
        if self.rank is not None:
            values = self._among_ctas(wanted, values, in_loop)
        return values

    def _own(self, r: Reduction) -> ir.Value:
        parts = list(r.block.parts)
        while len(parts) > 1:
            half = [r.combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
            parts = half + parts[len(half) * 2 :]
        scalars = elements(parts[0])
        while len(scalars) > 1:
            scalars = [r.combine(a, b) for a, b in zip(scalars[::2], scalars[1::2], strict=True)]
        return scalars[0]

    def _among_lanes(self, r: Reduction, value: ir.Value, lanes: int) -> ir.Value:
        step = lanes // 2
        while step:
            value = r.combine(value, self._exchange(value, step))
            step //= 2
        return value

    def _exchange(self, value: ir.Value, step: int) -> ir.Value:
        """The value of the lane whose number differs in bit `step`. Shuffles move 32 bits."""
        type_ = value.type
        width = type_.width
        i32 = ir.IntegerType.get_signless(32)
        if width == 64:
            return self._exchange_wide(value, step)
        if width < 32:
            as_integer = value if not isinstance(type_, ir.FloatType) else arith.bitcast(ir.IntegerType.get_signless(width), value)
            moved = arith.trunci(as_integer.type, self._exchange(arith.extui(i32, as_integer), step))
            return moved if not isinstance(type_, ir.FloatType) else arith.bitcast(type_, moved)
        yes = ir.IntegerType.get_signless(1)
        return ir.Operation.create(
            "gpu.shuffle", results=[type_, yes], operands=[value, self.at.i32(step), self.at.i32(WARP)],
            attributes={"mode": ir.Attribute.parse("#gpu<shuffle_mode xor>")},
        ).results[0]  # fmt: skip

    def _exchange_wide(self, value: ir.Value, step: int) -> ir.Value:
        i64, i32 = ir.IntegerType.get_signless(64), ir.IntegerType.get_signless(32)
        whole = value if value.type == i64 else arith.bitcast(i64, value)
        high = arith.trunci(i32, arith.shrui(whole, self.at.number(32, i64)))
        low = arith.extui(i64, self._exchange(arith.trunci(i32, whole), step))
        high = arith.shli(arith.extui(i64, self._exchange(high, step)), self.at.number(32, i64))
        both = arith.ori(high, low)
        return both if value.type == i64 else arith.bitcast(value.type, both)

    def _among_warps(self, wanted: list[Reduction], values: list[ir.Value], in_loop: bool) -> list[ir.Value]:
        """Every warp leaves its values in shared memory, and every warp reads them all."""
        at, warps = self.at, self.shape.threads // WARP
        lane, warp = at.modulo(self.thread, WARP), at.over(self.thread, WARP)
        stored = [_as_stored(v) for v in values]
        slots = [self.shared(warps, v.type) for v in stored]
        if in_loop:
            barrier()  # the slots may still be read for the iteration before
        first = arith.cmpi(arith.CmpIPredicate.eq, lane, at.number(0))
        branch = ir.Operation.create("scf.if", operands=[first], regions=2)
        with ir.InsertionPoint(branch.regions[0].blocks.append()):
            for slot, v in zip(slots, stored, strict=True):
                memref.store(v, slot, [warp])
            ir.Operation.create("scf.yield")
        barrier()
        place = at.modulo(lane, warps)
        out = []
        for r, slot, v in zip(wanted, slots, values, strict=True):
            seen = _as_computed(memref.load(slot, [place]), v.type)
            out.append(self._among_lanes(r, seen, warps))
        return out

    def _among_ctas(self, wanted: list[Reduction], values: list[ir.Value], in_loop: bool) -> list[ir.Value]:
        """Every CTA of the cluster sends its values to all of them, itself too, and each combines them in the same order."""
        at, ctas = self.at, self.shape.cluster
        assert self.rank is not None
        if not self.met:
            wait()
            self.met = True
        stored = [_as_stored(v) for v in values]
        slots = [self.shared(ctas, v.type) for v in stored]
        if in_loop:
            synchronize()
        branch = ir.Operation.create("scf.if", operands=[at.below(self.thread, ctas)], regions=2)
        with ir.InsertionPoint(branch.regions[0].blocks.append()):
            for slot, v in zip(slots, stored, strict=True):
                send(v, slot, self.rank, self.thread, at)
            ir.Operation.create("scf.yield")
        synchronize()
        out = []
        for r, slot, v in zip(wanted, slots, values, strict=True):
            seen = [_as_computed(memref.load(slot, [at.number(i)]), v.type) for i in range(ctas)]
            while len(seen) > 1:
                seen = [r.combine(a, b) for a, b in zip(seen[::2], seen[1::2], strict=True)]
            out.append(seen[0])
        return out


def _as_stored(v: ir.Value) -> ir.Value:
    """A truth value takes a byte of memory."""
    yes = ir.IntegerType.get_signless(1)
    return arith.extui(ir.IntegerType.get_signless(8), v) if v.type == yes else v


def _as_computed(v: ir.Value, type_: ir.Type) -> ir.Value:
    return arith.trunci(type_, v) if type_ != v.type else v
