"""Adds to a program the launch requirements that only the kernels' compiler knows."""

import math
from collections.abc import Mapping
from dataclasses import replace

from .errors import CompileError
from .program import Buffer, Launch, Needs, Program, Ref, Step
from .sizes import SizeLike, is_symbolic
from .sizes import maximum as largest

_ALIGNED = 64  # alignment of arena buffers, in bytes
SCRATCH = 128  # alignment of scratch memory at most, in bytes, where binding places it


def require_number(size: SizeLike, what: str) -> int:
    """Returns a size that is a number. Raises CompileError if it depends on symbols; `what` names its owner in the message."""
    if isinstance(size, int):
        return size
    raise CompileError(f"{what} has a size that depends on {size}", remedy="compile it for fixed sizes")


def with_needs(program: Program, needs: Mapping[str, Needs]) -> Program:
    """Returns the program with the shared memory that its kernels (by symbol) need, and with one scratch buffer behind its arena.
    Launches run one after the other, so one buffer serves them all."""
    launches = [step for step in program.steps if isinstance(step, Launch) and step.kernel in needs]
    if not launches:
        return program
    align = math.lcm(_ALIGNED, *(needs[s.kernel].align for s in launches))
    if is_symbolic(program.arena_bytes) and SCRATCH % align:
        raise CompileError(f"scratch memory aligned to {align} bytes", remedy="compile for fixed sizes")
    scratch_bytes = largest(*(needs[s.kernel].scratch * s.grid * math.prod(s.grid_yz) for s in launches))
    last = max(i for i, s in enumerate(program.steps) if s in launches)
    start = -(-program.arena_bytes // align) * align
    scratch = Ref(len(program.buffers), 0, "u8", (scratch_bytes,), (1,))
    buffers = (*program.buffers, Buffer("arena", 0, start, scratch_bytes, last)) if scratch_bytes != 0 else program.buffers

    def met(step: Step) -> Step:
        """Gives a launch what its kernel turned out to need; returns other steps as they are."""
        if not isinstance(step, Launch) or step.kernel not in needs:
            return step
        need = needs[step.kernel]
        given = scratch if need.scratch else step.args[-1]  # an unused parameter still needs a valid pointer
        name = f"{step.name} ({need.note})" if need.note else step.name
        threads = need.threads or step.threads
        return replace(step, name=name, shared=need.shared, scratch=(*step.scratch, *(given,) * need.pointers), threads=threads)

    arena = start + scratch_bytes if scratch_bytes != 0 else program.arena_bytes
    return replace(program, buffers=buffers, arena_bytes=arena, steps=tuple(met(s) for s in program.steps))
