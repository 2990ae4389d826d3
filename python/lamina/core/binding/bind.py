"""Binds a program with symbolic sizes to the sizes of one call: replaces expressions by numbers, and lays out the arena for
them."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, islice

import numpy as np

from ..program import Buffer, Constant, Launch, Program, Step, by_computation, refs_of
from ..program_needs import SCRATCH
from ..sizes import SizeLike
from .arena import ALIGN, ArenaSlot, live_bytes, place_slots
from .template import Template

MOST_BYTES = 1 << 62
MOST_IN_32_BITS = 1 << 30
"""Elements or numbers that kernels with indices of 32 bits compute with; programs past the end exceed it a little."""


class Narrow(OverflowError):
    """Raised for sizes that are too large for kernels that count in 32 bits (Options.wide_sizes)."""


class ProgramBinding:
    """Binds one program to the sizes of a call, and of the next one. Only what a call runs is evaluated: most of the kernels for
    ranges of sizes are for others."""

    def __init__(self, program: Program, kernels: Container[str] | None = None) -> None:
        """kernels: those that there is code for; None for all."""
        self._kernels = kernels
        self._steps = [replace(s, when=()) if isinstance(s, Launch) and s.when else s for s in program.steps]
        self._templates: dict[int, Template[Step]] = {}
        self._constants = program.constants
        self._rest = Template(replace(program, constants=(), steps=()))
        numbers = iter(range(len(program.steps)))
        self._computations = [list(islice(numbers, len(steps))) for steps in by_computation(program.steps)]
        whens = [s.when if isinstance(s, Launch) else () for s in program.steps]
        sizes: dict[SizeLike, int] = {}
        self._whens = [[(sizes.setdefault(when.size, len(sizes)), when.limit) for when in of_step] for of_step in whens]
        self._sizes = Template(tuple(sizes))

    def __call__(self, symbols: Mapping[str, int]) -> Program:
        """Returns the program for these values of its symbols. Raises OverflowError if memory would take 2**62 bytes or more,
        Narrow for sizes that need wider kernels, and LookupError if it needs a kernel that there is no code for."""
        numbers = self._chosen(symbols)
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
        serving = (next(names) for names in self._serving(symbols))
        return [name for name in serving if not self._has(name)]

    def needed(self, symbols: Mapping[str, int]) -> list[str]:
        """Returns kernels that there is no code for and without which the program cannot run at these sizes."""
        without = ([*names] for names in self._serving(symbols))
        return [names[-1] for names in without if not any(map(self._has, names))]

    def general(self) -> list[str]:
        """Returns the kernels for any size that there is no code for."""
        last = (self._steps[steps[-1]] for steps in self._computations if len(steps) > 1)
        return [step.kernel for step in last if isinstance(step, Launch) and not self._has(step.kernel)]

    def _has(self, name: str) -> bool:
        return self._kernels is None or name in self._kernels

    def _serving(self, symbols: Mapping[str, int]) -> Iterator[Iterator[str]]:
        """Yields the kernels that serve these sizes, for each computation that has several, the one to prefer first."""
        values = self._sizes(symbols)
        for steps in self._computations:
            if len(steps) > 1:
                yield (self._steps[i].kernel for i in steps if self._hold(i, values))  # type: ignore[union-attr]

    def _hold(self, step: int, values: Sequence[int]) -> bool:
        """Returns whether the conditions of a step hold. values: those of all sizes in conditions."""
        return all(values[size] <= limit for size, limit in self._whens[step])

    def _chosen(self, symbols: Mapping[str, int]) -> Program:
        """Returns the program of numbers with one step for each computation: the first whose conditions hold and whose kernel there
        is."""
        values, runs_step = self._sizes(symbols), [False] * len(self._steps)
        for steps in self._computations:
            runs = next((i for i in steps if self._is_ready(i) and self._hold(i, values)), None)
            if runs is None:
                raise LookupError("there is no code of a kernel that these sizes need")
            runs_step[runs] = True
        rest = self._rest(symbols)
        number = [*accumulate(runs_step, initial=0)]  # of a step among those that run, and of the next one where it does not
        ends = [*number[1:], number[-1] + 1]  # one past the last step each; a buffer that no step uses ends behind all
        buffers = tuple(b if b.last < 0 else replace(b, last=ends[b.last] - 1) for b in rest.buffers)
        return replace(rest, steps=tuple(self._step(i)(symbols) for i, runs in enumerate(runs_step) if runs), buffers=buffers)

    def _is_ready(self, step: int) -> bool:
        launch = self._steps[step]
        return not isinstance(launch, Launch) or self._has(launch.kernel)

    def _step(self, number: int) -> Template[Step]:
        if number not in self._templates:
            self._templates[number] = Template(self._steps[number])
        return self._templates[number]


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
