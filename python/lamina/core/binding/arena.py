"""Assigns offsets in the arena: slots live at the same time must not overlap, and the arena should be small.

Finding the smallest arena is NP-hard. Greedy placement, largest first, each in the smallest gap that holds it, comes near the lower
bound on networks; a few orders are tried, until one reaches the bound.
"""

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass

ALIGN = 64
"""Every arena buffer starts at a multiple of this many bytes (a cache line, and a 512-bit vector)."""


@dataclass(eq=False)
class ArenaSlot:
    """A live range and a stretch of the arena, of one value, or of several that are written over each other in place."""

    first: int
    last: int
    bytes: int
    offset: int = 0


_ORDERS: tuple[Callable[[ArenaSlot], tuple[int, ...]], ...] = (
    lambda s: (-s.bytes, s.first),
    lambda s: (-s.bytes * (s.last - s.first + 1), s.first),
    lambda s: (-(s.last - s.first), -s.bytes),
    lambda s: (s.first, -s.bytes),
)


def live_bytes(slots: list[ArenaSlot]) -> int:
    """Returns the most bytes live at one step: a lower bound of the arena."""
    changes: dict[int, int] = {}
    for slot in slots:
        changes[slot.first] = changes.get(slot.first, 0) + slot.bytes
        changes[slot.last + 1] = changes.get(slot.last + 1, 0) - slot.bytes
    live = peak = 0
    for number in sorted(changes):
        live += changes[number]
        peak = max(peak, live)
    return peak


def place_slots(slots: list[ArenaSlot], bound: int) -> int:
    """Sets every slot's offset; returns the arena's bytes. `bound`: the most bytes live at once, where the search ends."""
    best: tuple[int, list[int]] | None = None
    for order in _ORDERS:
        peak = _greedy(sorted(slots, key=order))
        if best is None or peak < best[0]:
            best = (peak, [slot.offset for slot in slots])
        if peak == bound:
            break
    assert best is not None
    for slot, offset in zip(slots, best[1], strict=True):
        slot.offset = offset
    return best[0]


def _greedy(slots: list[ArenaSlot]) -> int:
    """Places slots in the order given; returns the bytes that they take."""
    placed: list[tuple[int, int, int, int]] = []  # (offset, end, first, last), sorted
    peak = 0
    for slot in slots:
        if not slot.bytes:
            slot.offset = 0
            continue
        slot.offset = _best_gap(slot, placed)
        end = slot.offset + slot.bytes
        insort(placed, (slot.offset, end, slot.first, slot.last))
        peak = max(peak, end)
    return peak


def _best_gap(slot: ArenaSlot, placed: list[tuple[int, int, int, int]]) -> int:
    """Returns the start of the smallest gap that holds the slot between those live at the same time, else the end of the last."""
    size, first, last = slot.bytes, slot.first, slot.last
    best, best_gap, top = -1, 0, 0
    for offset, end, begin, until in placed:
        if begin > last or until < first:
            continue
        gap = offset - top
        if gap >= size and (best < 0 or gap < best_gap):
            best, best_gap = top, gap
        if end > top:
            top = end
    return best if best >= 0 else top
