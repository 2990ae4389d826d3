"""Replaces launches of kernels that had no tile program yet, when a call first needs them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..program import Buffer, Launch, Program, Ref, Step
from ..sizes import SizeLike


@dataclass(frozen=True)
class LaterKernel:
    """A kernel that is compiled when a call first needs it.

    name   its symbol
    text   the module to compile: its tile program, or the kernel function and a program that launches it alone
    tiled  whether it is a tile program
    """

    name: str
    text: str
    tiled: bool


def with_launches(program: Program, tiled: Mapping[str, Program]) -> Program:
    """Returns a program whose launches of some kernels are those that lamina-tile has made of them.

    tiled  for each such kernel, a program that launches it alone, on arguments of the same layouts
    """
    buffers, sizes = list(program.buffers), list(program.sizes)
    places = {(sizes[b.index], b.bytes): number for number, b in enumerate(buffers) if b.kind == "sizes"}

    def scratch(ref: Ref, program: Program) -> Ref:
        """Returns the place of a kernel's symbolic sizes in the program."""
        buffer = program.buffers[ref.buffer]
        key: tuple[tuple[SizeLike, ...], SizeLike] = (program.sizes[buffer.index], buffer.bytes)
        if key not in places:
            places[key] = len(buffers)
            buffers.append(replace(buffer, index=len(sizes)))
            sizes.append(key[0])
        return replace(ref, buffer=places[key])

    steps: list[Step] = []
    ends: list[int] = []
    for step in program.steps:
        if isinstance(step, Launch) and step.kernel in tiled:
            kernel = tiled[step.kernel]
            for launch in kernel.steps:
                assert isinstance(launch, Launch)
                refs = tuple(scratch(ref, kernel) for ref in launch.scratch)
                steps.append(replace(launch, args=step.args, scratch=refs, name=step.name, where=step.where, ops=step.ops))
        else:
            steps.append(step)
        ends.append(len(steps) - 1)

    def moved(buffer: Buffer) -> Buffer:
        """Returns a buffer with the number of the last step that uses it now."""
        return buffer if buffer.last < 0 or not ends else replace(buffer, last=ends[buffer.last])

    return replace(program, buffers=tuple(map(moved, buffers)), sizes=tuple(sizes), steps=tuple(steps))
