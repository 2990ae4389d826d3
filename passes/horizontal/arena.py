"""Packs the arena again for a program whose steps horizontal fusion has reordered."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from lamina.core.binding.arena import ALIGN, ArenaSlot, live_bytes, place_slots
from lamina.core.sizes import typical

from ..ir.sizes import i64, read_size
from .steps import PlannedSteps


@dataclass
class Packed:
    """A new placement of a program's buffers.

    slots  by buffer: its place in the arena
    bytes  size of the arena
    bound  the most bytes live at once: a lower bound on the size
    """

    program: ir.Operation
    slots: dict[ir.Value, ArenaSlot]
    bytes: int
    bound: int

    def apply(self) -> None:
        """Writes the offsets and sizes to the program's attributes."""
        for buffer, slot in self.slots.items():
            buffer.owner.attributes["offset"] = i64(slot.offset)
        self.program.attributes["arena_bytes"] = i64(self.bytes)
        self.program.attributes["lower_bound"] = i64(self.bound)


def pack(steps: PlannedSteps, bundles: Sequence[Sequence[int]]) -> Packed:
    """Places the buffers for bundles of steps that run in this order, at typical sizes. The steps of one bundle run at the same
    time."""
    homes: dict[ir.Value, ArenaSlot] = {}
    slots: dict[ir.Value, ArenaSlot] = {}
    for time, bundle in enumerate(bundles):
        used = [buffer for number in bundle for buffer in (*steps.all[number].reads, *steps.all[number].writes)]
        for buffer in used:
            slot = homes.setdefault(steps.home(buffer), ArenaSlot(time, time, 0))
            slot.last = time
            if buffer.owner.name == "plan.alloc":
                slots[buffer] = slot
                size = typical(read_size(buffer.owner.attributes["bytes"]))
                slot.bytes = max(slot.bytes, -(-size // ALIGN) * ALIGN)
    placed = list(dict.fromkeys(slots.values()))
    bound = live_bytes(placed)
    return Packed(steps.program, slots, place_slots(placed, bound), bound)
