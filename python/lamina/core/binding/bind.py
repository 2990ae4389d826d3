"""Binds a program with symbolic sizes to the sizes of one call: replaces expressions by numbers, and lays out the arena for
them."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, islice

import numpy as np

from ..program import Buffer, Constant, Launch, Program, When, by_computation, refs_of
from ..program_needs import SCRATCH
from .arena import ALIGN, ArenaSlot, live_bytes, place_slots
from .template import Template

MOST_BYTES = 1 << 62
MOST_IN_32_BITS = 1 << 30
"""Elements or numbers that kernels with indices of 32 bits compute with; programs past the end exceed it a little."""


class Narrow(OverflowError):
    """Raised for sizes that are too large for kernels that count in 32 bits (Options.wide_sizes)."""


class ProgramBinding:
    """Binds one program to the sizes of a call, and of the next one."""

    def __init__(self, program: Program, kernels: Container[str] | None = None) -> None:
        """kernels: those that there is code for; None for all."""
        computations = by_computation(program.steps)
        several = [[s for s in steps if isinstance(s, Launch)] for steps in computations if len(steps) > 1]
        self._several = [[launch.kernel for launch in launches] for launches in several]
        self._whens = Template(tuple(tuple(launch.when for launch in launches) for launches in several))
        self._kernels = kernels
        kept = [kernels is None or not isinstance(s, Launch) or s.kernel in kernels for s in program.steps]
        numbers = iter(zip(kept, accumulate(kept, initial=0), strict=False))
        self._computations = [[i for k, i in islice(numbers, len(steps)) if k] for steps in computations]
        if not all(kept):
            program = _with_steps(program, kept)
        self._constants = program.constants
        self._template = Template(replace(program, constants=()))

    def __call__(self, symbols: Mapping[str, int]) -> Program:
        """Returns the program for these values of its symbols. Raises OverflowError if memory would take 2**62 bytes or more,
        Narrow for sizes that need wider kernels, and LookupError if it needs a kernel that there is no code for."""
        numbers = _chosen(self._template(symbols), self._computations)
        constants, buffers = list(self._constants), list(numbers.buffers)
        for i, buffer in enumerate(buffers):
            if buffer.kind == "sizes":
                values = numbers.sizes[buffer.index]
                constants.append(_constant(values, buffer.bytes // len(values)))
                buffers[i] = Buffer("constant", len(constants) - 1, 0, buffer.bytes, buffer.last)
            elif buffer.bytes >= MOST_BYTES:
                raise OverflowError(f"a tensor of {buffer.bytes} bytes is larger than a program can hold")
        for step in numbers.steps:
            if isinstance(step, Launch) and step.sizes:
                _check(step.sizes, step.size_bytes)
        placed, peak, total, lower_bound = _placed(numbers, buffers)
        return replace(
            numbers,
            buffers=tuple(placed),
            constants=tuple(constants),
            sizes=(),
            arena_bytes=peak,
            sum_bytes=total,
            lower_bound=lower_bound,
        )

    def missing(self, symbols: Mapping[str, int]) -> list[str]:
        """Returns the kernels for these sizes that there is no code for: others run in their place where they can."""
        return [names[0] for names in self._serving(symbols) if not self._has(names[0])]

    def needed(self, symbols: Mapping[str, int]) -> list[str]:
        """Returns kernels that there is no code for and without which the program cannot run at these sizes."""
        return [names[-1] for names in self._serving(symbols) if not any(map(self._has, names))]

    def general(self) -> list[str]:
        """Returns the kernels for any size that there is no code for."""
        return [names[-1] for names in self._several if not self._has(names[-1])]

    def _has(self, name: str) -> bool:
        return self._kernels is None or name in self._kernels

    def _serving(self, symbols: Mapping[str, int]) -> list[list[str]]:
        """Returns the kernels that serve these sizes, for each computation that has several."""
        whens = self._whens(symbols)
        return [
            [name for name, when in zip(names, conditions, strict=True) if _hold(when)]
            for names, conditions in zip(self._several, whens, strict=True)
        ]


def _hold(conditions: Sequence[When]) -> bool:
    return all(when.size <= when.limit for when in conditions)


def _chosen(program: Program, computations: Sequence[Sequence[int]]) -> Program:
    """Returns a program of numbers with one launch for each computation, by the kernel for its sizes. computations: the numbers of
    the steps of which one is made."""
    steps = program.steps
    runs_step = [False] * len(steps)
    for numbers in computations:
        runs = next((i for i in numbers if _hold(getattr(steps[i], "when", ()))), None)
        if runs is None:
            raise LookupError("there is no code of a kernel that these sizes need")
        runs_step[runs] = True
    if all(runs_step):
        return program
    one = _with_steps(program, runs_step)
    return replace(one, steps=tuple(replace(s, when=()) if isinstance(s, Launch) and s.when else s for s in one.steps))


def _with_steps(program: Program, selected: Sequence[bool]) -> Program:
    """Returns a program with some of its steps."""
    number = list(accumulate(selected, initial=0))  # of a step among those that are kept, and of the next one where it is not
    buffers = tuple(b if b.last < 0 else replace(b, last=number[b.last + 1] - 1) for b in program.buffers)
    return replace(program, steps=tuple(s for s, k in zip(program.steps, selected, strict=True) if k), buffers=buffers)


def bind_program(program: Program, symbols: Mapping[str, int]) -> Program:
    """Returns a program for these values of its symbols (see ProgramBinding)."""
    return ProgramBinding(program)(symbols)


def _constant(values: Sequence[int], item: int) -> Constant:
    """Returns the values of sizes as integers of `item` bytes. Raises as `_check` does."""
    _check(values, item)
    return Constant(f"i{8 * item}", (len(values),), np.array(values, f"<i{item}").tobytes())


def _check(values: Sequence[int], item: int) -> None:
    """Raises Narrow for a size that is too large for kernels that count in 32 bits, where a size has `item` = 4 bytes, and
    OverflowError for one that is too large for any."""
    if item == 4 and max(map(abs, values)) > MOST_IN_32_BITS:
        raise Narrow(f"a size of {max(values, key=abs)} is larger than a kernel that counts in 32 bits can compute with")
    if max(values) >= MOST_BYTES:
        raise OverflowError(f"a size of {max(values)} is larger than a program can compute with")


def _placed(program: Program, buffers: list[Buffer]) -> tuple[list[Buffer], int, int, int]:
    """Places the buffers in the arena again. Returns them, the arena's bytes, those of all buffers, and the most alive at once."""
    first: dict[int, int] = {}
    joined: dict[int, int] = {}
    for number, step in enumerate(program.steps):
        for ref in refs_of(step):
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
    peak = place_slots(found, most)
    offsets = {i: slots[joined.get(i, i)].offset for i in arena}
    placed = [replace(buffer, offset=offsets[i]) if i in offsets else buffer for i, buffer in enumerate(buffers)]
    return placed, peak, sum(buffers[i].bytes for i in arena), most
