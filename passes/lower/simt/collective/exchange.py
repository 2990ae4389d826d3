"""Exchanges values among threads: by shuffles in a warp, shared memory among warps, distributed shared memory in a cluster."""

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import arith, memref

from ....space.schedule import bits
from ..threads import IndexBuilder, Shape, barrier, emit_if
from ..vendor import Vendor

FOR_TEAMS = 24 << 10
"""Bytes of shared memory in which teams exchange values, of the 48 KB that a kernel may have; then buffers are used again."""


class Exchange:
    """Emits the exchanges of one program.

    shared    makes a workgroup buffer of so many elements
    thread    this thread's number in the CTA
    rank      the CTA's rank in its cluster; None without clusters
    met       whether the CTAs of the cluster have waited for each other's start
    depth     loops around the code: in one, buffers may still be read for the iteration before
    """

    def __init__(
        self,
        shape: Shape,
        index_ops: IndexBuilder,
        thread: ir.Value,
        rank: ir.Value | None,
        shared: Callable[[int, ir.Type], ir.Value],
        vendor: Vendor,
    ) -> None:
        self.shape, self.index_ops, self.thread, self.rank, self.shared, self.vendor = (
            shape,
            index_ops,
            thread,
            rank,
            shared,
            vendor,
        )
        self.met, self.depth = False, 0
        self._team_slots: dict[ir.Type, tuple[ir.Value, int]] = {}
        self._team_bytes = 0

    def among_lanes(self, value: ir.Value, join: Callable[[ir.Value, ir.Value], ir.Value], lanes: int, stride: int = 1) -> ir.Value:
        """Reduces the values of every `stride`-th of `lanes` neighboring threads of a warp by `join` (butterfly shuffles); all get
        the result."""
        step = lanes // 2
        while step >= stride:
            value = join(value, self.from_lane(value, step))
            step //= 2
        return value

    def among_warps(self, values: list[ir.Value]) -> list[ir.Value]:
        """Exchanges values that each warp's threads have in common: lane l gets those of warp l % warps. Teams have joined what
        they know: all have the same values."""
        index_ops, warps = self.index_ops, self.shape.threads // self.shape.warp
        lane, warp = index_ops.modulo(self.thread, self.shape.warp), index_ops.over(self.thread, self.shape.warp)
        first = index_ops.below(lane, 1)
        if self.shape.teams > 1:
            first = arith.andi(first, index_ops.below(warp, warps))
        stored = [_as_stored(v) for v in values]
        slots = [self.shared(warps, v.type) for v in stored]
        pairs = list(zip(slots, stored, strict=True))
        self.share(lambda: emit_if(first, lambda: [memref.store(v, s, [warp]) for s, v in pairs]))
        place = index_ops.modulo(lane, warps)
        return [_as_computed(memref.load(slot, [place]), v.type) for slot, v in zip(slots, values, strict=True)]

    def share(self, store: Callable[[], object], again: bool = False) -> None:
        """Emits stores to shared memory that all threads of the CTA may read from then on. again: threads read what was there."""
        if self.depth or again:
            barrier()
        store()
        barrier()

    def team_slots(self, each: int, count: int, element: ir.Type) -> tuple[ir.Value, int, bool]:
        """Returns a buffer through which teams exchange `count` values of each thread, a value having `each` slots; how many of
        them it has room for; and whether it has been used before. Where little of FOR_TEAMS is left, they take several rounds."""
        value_bytes = each * max(bits(str(element)) // 8, 1)
        left = (FOR_TEAMS - self._team_bytes) // value_bytes
        if count > left and element in self._team_slots:
            return *self._team_slots[element], True
        room = min(count, max(left, 1))
        self._team_bytes += room * value_bytes
        slots = self.shared(each * room, element)
        if room > self._team_slots.get(element, (slots, 0))[1]:
            self._team_slots[element] = slots, room
        return slots, room, False

    def meet(self) -> None:
        """Waits, once and outside of any loop, until the CTAs of a cluster have all started."""
        if self.rank is not None and not self.met:
            self.vendor.wait()
            self.met = True

    def among_ctas(self, values: list[ir.Value]) -> list[list[ir.Value]]:
        """Returns, for each value, a list of what each CTA of the cluster has, in the order of their ranks."""
        index_ops, ctas, rank = self.index_ops, self.shape.cluster, self.rank
        assert rank is not None
        self.meet()
        stored = [_as_stored(v) for v in values]
        slots = [self.shared(ctas, v.type) for v in stored]
        if self.depth:
            self.vendor.synchronize()

        def share() -> None:
            """Sends the values to the CTA of this rank."""
            for slot, v in zip(slots, stored, strict=True):
                self.vendor.send(v, slot, rank, self.thread, index_ops)

        emit_if(index_ops.below(self.thread, ctas), share)
        self.vendor.synchronize()
        return [
            [_as_computed(memref.load(slot, [index_ops.number(i)]), v.type) for i in range(ctas)]
            for slot, v in zip(slots, values, strict=True)
        ]

    def from_lane(self, value: ir.Value, step: int) -> ir.Value:
        """Returns the value of the lane whose number differs in bit `step` (xor shuffle). Shuffles move 32 bits."""
        type_ = value.type
        width = type_.width
        i32 = ir.IntegerType.get_signless(32)
        if width == 64:
            return self._from_lane_wide(value, step)
        if width < 32:
            as_integer = value if not isinstance(type_, ir.FloatType) else arith.bitcast(ir.IntegerType.get_signless(width), value)
            moved = arith.trunci(as_integer.type, self.from_lane(arith.extui(i32, as_integer), step))
            return moved if not isinstance(type_, ir.FloatType) else arith.bitcast(type_, moved)
        yes = ir.IntegerType.get_signless(1)
        return ir.Operation.create(
            "gpu.shuffle", results=[type_, yes], operands=[value, self.index_ops.i32(step), self.index_ops.i32(self.shape.warp)],
            attributes={"mode": ir.Attribute.parse("#gpu<shuffle_mode xor>")},
        ).results[0]  # fmt: skip

    def _from_lane_wide(self, value: ir.Value, step: int) -> ir.Value:
        i64, i32 = ir.IntegerType.get_signless(64), ir.IntegerType.get_signless(32)
        whole = value if value.type == i64 else arith.bitcast(i64, value)
        high = arith.trunci(i32, arith.shrui(whole, self.index_ops.number(32, i64)))
        low = arith.extui(i64, self.from_lane(arith.trunci(i32, whole), step))
        high = arith.shli(arith.extui(i64, self.from_lane(high, step)), self.index_ops.number(32, i64))
        both = arith.ori(high, low)
        return both if value.type == i64 else arith.bitcast(value.type, both)


def _as_stored(v: ir.Value) -> ir.Value:
    """Extends an i1 to a byte, as it is stored."""
    yes = ir.IntegerType.get_signless(1)
    return arith.extui(ir.IntegerType.get_signless(8), v) if v.type == yes else v


def _as_computed(v: ir.Value, type_: ir.Type) -> ir.Value:
    return arith.trunci(type_, v) if type_ != v.type else v
