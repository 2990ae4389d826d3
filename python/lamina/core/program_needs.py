"""Adds to a program the launch requirements that only the kernels' compiler knows."""

import math
from collections.abc import Mapping
from dataclasses import replace

from .errors import CompileError
from .program import Buffer, Launch, Needs, Program, Ref, Step
from .sizes import SizeLike

_ALIGNED = 64  # alignment of arena buffers, in bytes


def fixed(size: SizeLike, of: str) -> int:
    """Returns a size that is a number. Raises CompileError where it depends on symbols; `of` names its owner in the message."""
    if isinstance(size, int):
        return size
    raise CompileError(f"{of} has a size that depends on {size}", remedy="compile it for fixed sizes")


def with_needs(program: Program, needs: Mapping[str, Needs]) -> Program:
    """Returns the program with the shared memory that its kernels (by symbol) need, and with one scratch buffer behind its arena.
    Launches run one after the other, so one buffer serves them all."""
    launches = [step for step in program.steps if isinstance(step, Launch) and step.kernel in needs]
    if not launches:
        return program
    align = math.lcm(_ALIGNED, *(needs[s.kernel].align for s in launches))
    most = max(needs[s.kernel].scratch * fixed(s.grid, s.name) * math.prod(s.grid_yz) for s in launches)
    last = max(i for i, s in enumerate(program.steps) if s in launches)
    end = fixed(program.arena_bytes, program.name)
    start = -(-end // align) * align
    place = Ref(len(program.buffers), 0, "u8", (most,), (1,))
    buffers = (*program.buffers, Buffer("arena", 0, start, most, last)) if most else program.buffers

    def met(step: Step) -> Step:
        if not isinstance(step, Launch) or step.kernel not in needs:
            return step
        need = needs[step.kernel]
        given = place if need.scratch else step.args[-1]  # an unused parameter still needs a valid pointer
        name = f"{step.name} ({need.note})" if need.note else step.name
        threads = need.threads or step.threads
        return replace(step, name=name, shared=need.shared, scratch=(given,) * need.pointers, threads=threads)

    arena = start + most if most else program.arena_bytes
    return replace(program, buffers=buffers, arena_bytes=arena, steps=tuple(met(s) for s in program.steps))
