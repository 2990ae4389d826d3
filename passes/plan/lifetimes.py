"""Computes the live range of each value, and which values share memory because a kernel writes in place: a slot of the arena, or
an argument with its new value."""

from collections.abc import Callable

from lamina.core.binding.arena import ALIGN, ArenaSlot
from lamina.core.sizes import typical

from .model import GroupStep, Model, Root

Pairs = Callable[[GroupStep], set[tuple[int, int]]]


def lifetimes(model: Model, pairs: Pairs) -> list[ArenaSlot]:
    """Sets first, last and slot of every root; returns the arena's slots. A step's inputs and outputs are live together, except
    where the step writes in place: `pairs` says which inputs each output may be written over."""
    roots = _uses(model)
    slots: list[ArenaSlot] = []
    written: dict[int, GroupStep] = {n: step for n, step in enumerate(model.steps) if isinstance(step, GroupStep)}
    for root in sorted((r for r in roots if r.kind == "arena"), key=lambda r: r.first):
        slot = _in_place(root, written[root.first], root.first, pairs) if root.first in written and root.bytes else None
        if slot is None:
            slot = ArenaSlot(root.first, root.last, -(-typical(root.bytes) // ALIGN) * ALIGN)
            slots.append(slot)
        slot.last = root.last
        root.slot = slot
    returned = {place.root for place in model.returned}
    for root in roots:
        step, over = written.get(root.first), root.updates
        if step is None or over is None or over in returned or not root.bytes:
            continue
        if _write_over(root, step, [i for i in _dying(root, step, root.first) if step.ins[i].root is over], pairs) is not None:
            root.over = over
    return slots


def _uses(model: Model) -> list[Root]:
    roots: dict[Root, None] = {}
    for number, step in enumerate(model.steps):
        for root in [place.root for place in step.ins] + step.outs:
            roots.setdefault(root)
            root.last = max(root.last, number)
    for root in reversed(list(roots)):
        for aliased in root.aliases:
            aliased.is_aliased, aliased.last = True, max(aliased.last, root.last)
    return list(roots)


def _in_place(root: Root, step: GroupStep, number: int, pairs: Pairs) -> ArenaSlot | None:
    """Returns the slot of a dying input that `root`, an output of the step, may be written over; None if there is none."""
    found = [i for i in _dying(root, step, number) if (slot := step.ins[i].root.slot) is not None and slot.last == number]
    over = _write_over(root, step, found, pairs)
    return None if over is None else over.slot


def _dying(root: Root, step: GroupStep, number: int) -> list[int]:
    """Returns the inputs of a step that nothing uses later, and whose memory has the layout of `root`, an output of it."""
    return [
        i
        for i, operand in enumerate(step.ins)
        if operand.root.last == number
        and not operand.root.is_aliased
        and operand.layout == operand.root.layout == root.layout
        and operand.root.dtype == root.dtype
        and sum(other.root is operand.root for other in step.ins) == 1
    ]


def _write_over(root: Root, step: GroupStep, candidates: list[int], pairs: Pairs) -> Root | None:
    """Has a step write `root` over the first of these inputs that it may be written over. Returns that input; None if there is
    none."""
    if not candidates or root not in step.outs:
        return None
    out, safe = step.outs.index(root), pairs(step)
    for i in candidates:
        if (i, out) in safe and all(i != used for used, _ in step.inplace):
            step.inplace.append((i, len(step.ins) + out))
            return step.ins[i].root
    return None
