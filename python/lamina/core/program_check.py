"""Validates a program read from disk: every index refers to something that exists, and every tensor lies within its memory."""

from collections.abc import Iterator
from typing import get_args

from .program import ITEM_BYTES, Buffer, BufferKind, Launch, Program, Ref, refs_of
from .sizes import Size, SizeLike

KINDS = get_args(BufferKind)


def first_fault(program: Program, kernels: tuple[str, ...]) -> str:
    """Describes the first fault of a program whose code has these kernels; "" for none. Sizes that depend on the call are not
    checked."""
    return next(_faults(program, kernels), "")


def _faults(p: Program, kernels: tuple[str, ...]) -> Iterator[str]:
    for number, b in enumerate(p.buffers):
        yield from (f"buffer {number}: {why}" for why in _buffer_faults(p, b))
    for number, step in enumerate(p.steps):
        if isinstance(step, Launch):
            if step.kernel not in kernels:
                yield f"step {number} launches {step.kernel}, which the code does not have"
            if not 0 <= step.n_out <= len(step.args) or (isinstance(step.grid, int) and step.grid < 0):
                yield f"step {number} is launched on a grid of {step.grid} with {step.n_out} results"
            if any(not 0 <= at < len(step.args) for pair in step.inplace for at in pair):
                yield f"step {number} has no such arguments as share memory"
        for ref in refs_of(step):
            yield from (f"step {number}: {why}" for why in _ref_faults(p, ref))
    for ref in p.outputs:
        yield from (f"a result: {why}" for why in _ref_faults(p, ref))


def _buffer_faults(p: Program, b: Buffer) -> Iterator[str]:
    count = {"input": len(p.inputs), "constant": len(p.constants), "sizes": len(p.sizes)}.get(b.kind)
    if b.kind not in KINDS:
        yield f"no memory is {b.kind!r}"
    elif b.index < 0 or (count is not None and b.index >= count):
        yield f"there is no {b.kind} {b.index}"
    elif not -1 <= b.last < max(len(p.steps), 1):
        yield f"there is no step {b.last}"
    elif known := _known(b.offset, b.bytes):
        offset, size = known
        (whole,) = _known(p.arena_bytes) or (offset + size,)
        if b.kind == "constant" and size > len(p.constants[b.index].data):
            yield "it is larger than its constant"
        elif offset < 0 or size < 0:
            yield "its place or size is negative"
        elif b.kind == "arena" and offset + size > whole:
            yield "it ends beyond the arena"


def _ref_faults(p: Program, ref: Ref) -> Iterator[str]:
    if not 0 <= ref.buffer < len(p.buffers):
        yield f"there is no buffer {ref.buffer}"
        return
    if len(ref.shape) != len(ref.strides):
        yield f"a shape of {len(ref.shape)} dimensions with {len(ref.strides)} strides"
        return
    place, shape, strides = _known(ref.offset, p.buffers[ref.buffer].bytes), _known(*ref.shape), _known(*ref.strides)
    if place is not None and shape is not None and strides is not None and 0 not in shape:
        offset, whole = place
        reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
        first = offset + sum(min(r, 0) for r in reach) * ITEM_BYTES[ref.dtype]
        last = offset + (sum(max(r, 0) for r in reach) + 1) * ITEM_BYTES[ref.dtype]
        if min(shape, default=0) < 0 or first < 0 or (p.buffers[ref.buffer].kind != "input" and last > whole):
            yield f"a tensor lies from {first} to {last} in {whole} bytes"


def _known(*sizes: SizeLike) -> tuple[int, ...] | None:
    """Returns sizes that do not depend on the call; None if one does."""
    known = tuple(size for size in sizes if not isinstance(size, Size))
    return known if len(known) == len(sizes) else None
