"""Binds a program with symbolic sizes to the sizes of one call: numbers in place of expressions, and the arena placed for them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np

from ..program import Buffer, Call, Constant, Launch, Program, Ref, When
from ..program_needs import SCRATCH
from .arena import ALIGN, ArenaSlot, live_bytes, place
from .template import Template

MOST_BYTES = 1 << 62
MOST_IN_32_BITS = 1 << 30
"""Elements or numbers that kernels with indices of 32 bits compute with; programs past the end exceed it a little."""


class Narrow(OverflowError):
    """Raised for sizes that are too large for kernels that count in 32 bits (Options.wide_sizes)."""


class ProgramBinding:
    """Binds one program to the sizes of a call, and of the next one."""

    def __init__(self, program: Program) -> None:
        self._constants = program.constants
        self._template = Template(replace(program, constants=()))

    def __call__(self, symbols: Mapping[str, int]) -> Program:
        """Returns the program for these values of its symbols. Raises OverflowError where memory would take 2**62 bytes or more,
        and Narrow for sizes that need wider kernels."""
        numbers = _chosen(self._template(symbols))
        constants, buffers = list(self._constants), list(numbers.buffers)
        for i, buffer in enumerate(buffers):
            if buffer.kind == "sizes":
                values = numbers.sizes[buffer.index]
                constants.append(_constant(values, buffer.bytes // len(values)))
                buffers[i] = Buffer("constant", len(constants) - 1, 0, buffer.bytes, buffer.last)
            elif buffer.bytes >= MOST_BYTES:
                raise OverflowError(f"a tensor of {buffer.bytes} bytes is larger than a program can hold")
        placed, peak, total, most = _placed(numbers, buffers)
        return replace(
            numbers,
            buffers=tuple(placed),
            constants=tuple(constants),
            sizes=(),
            arena_bytes=peak,
            sum_bytes=total,
            lower_bound=most,
        )


def bound(program: Program, symbols: Mapping[str, int]) -> Program:
    """Returns a program for these values of its symbols (see ProgramBinding)."""
    return ProgramBinding(program)(symbols)


def _chosen(program: Program) -> Program:
    """Returns a program of numbers without launches that are for other sizes."""

    def runs(when: When | None) -> bool:
        return when is None or (when.above < when.size and (when.most is None or when.size <= when.most))

    kept = [not isinstance(step, Launch) or runs(step.when) for step in program.steps]
    if all(kept):
        return program
    number = list(accumulate(kept, initial=0))  # of a step among those that are kept, and of the next one where it is not
    steps = tuple(
        replace(s, when=None) if isinstance(s, Launch) and s.when else s for s, k in zip(program.steps, kept, strict=True) if k
    )
    buffers = tuple(b if b.last < 0 else replace(b, last=number[b.last + 1] - 1) for b in program.buffers)
    return replace(program, steps=steps, buffers=buffers)


def _constant(values: Sequence[int], item: int) -> Constant:
    """Returns the values of sizes as integers of `item` bytes. Raises Narrow for one that is too large for kernels that count in
    32 bits."""
    if item == 4 and max(values) > MOST_IN_32_BITS:
        raise Narrow(f"a size of {max(values)} is larger than a kernel that counts in 32 bits can compute with")
    if max(values) >= MOST_BYTES:
        raise OverflowError(f"a size of {max(values)} is larger than a program can compute with")
    return Constant(f"i{8 * item}", (len(values),), np.array(values, f"<i{item}").tobytes())


def _placed(program: Program, buffers: list[Buffer]) -> tuple[list[Buffer], int, int, int]:
    """Places the buffers in the arena anew. Returns them, the arena's bytes, those of all buffers, and the most alive at once."""
    first: dict[int, int] = {}
    joined: dict[int, int] = {}
    for number, step in enumerate(program.steps):
        for ref in _refs(step):
            first.setdefault(ref.buffer, number)
        if not isinstance(step, Launch):
            continue
        for i, o in step.inplace:
            over, written = step.args[i].buffer, step.args[o].buffer
            if buffers[over].kind == buffers[written].kind == "arena":
                joined[written] = joined.get(over, over)
    slots: dict[int, ArenaSlot] = {}
    unit = SCRATCH if program.device == "cuda" else ALIGN
    arena = [i for i, buffer in enumerate(buffers) if buffer.kind == "arena" and i in first]
    for i in arena:
        slot = slots.setdefault(joined.get(i, i), ArenaSlot(first[i], buffers[i].last, 0))
        slot.first, slot.last = min(slot.first, first[i]), max(slot.last, buffers[i].last)
        slot.bytes = max(slot.bytes, -(-buffers[i].bytes // unit) * unit)
    found = list(slots.values())
    most = live_bytes(found)
    peak = place(found, most)
    offsets = {i: slots[joined.get(i, i)].offset for i in arena}
    placed = [replace(buffer, offset=offsets[i]) if i in offsets else buffer for i, buffer in enumerate(buffers)]
    return placed, peak, sum(buffers[i].bytes for i in arena), most


def _refs(value: Any) -> list[Ref]:
    """Returns the refs of a step, in any order."""
    if isinstance(value, Ref):
        return [value]
    if isinstance(value, Launch):
        return [*value.args, *value.scratch]
    if isinstance(value, Call):
        return _refs((value.args, tuple(v for _, v in value.kwargs), value.outs, value.owned))
    return [ref for part in value for ref in _refs(part)] if isinstance(value, tuple) else []
