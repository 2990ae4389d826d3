"""The program format: a compiled graph as plain data, which the cache stores and the native runtime runs.

A program is a list of steps over buffers. A `Ref` is one tensor as a step sees it: a place in a buffer, a shape and strides.
Offsets and sizes of memory are in bytes, strides in elements. Every size may be a `Size` (an expression over symbols). Nothing here
knows MLIR or torch; `program_json` reads and writes the JSON form.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from .dtypes import ITEM_BYTES
from .sizes import Size, SizeLike

Dtype = Annotated[str, tuple(ITEM_BYTES)]
"""The name of an element type: a key of ITEM_BYTES."""
Device = Literal["cpu", "cuda"]
ALIGNED = 16  # alignment in bytes that GPU kernels assume of every buffer, unless its TensorSpec says otherwise

BufferKind = Literal["input", "arena", "output", "constant", "owned", "sizes"]


@dataclass(frozen=True)
class TensorSpec:
    """An argument of the call as it must arrive; the runtime copies one that does not.

    strides  in elements; binding for dimensions longer than 1
    align    alignment in bytes that GPU kernels need of its first element
    """

    dtype: Dtype
    shape: tuple[SizeLike, ...]
    strides: tuple[SizeLike, ...]
    align: int = ALIGNED


@dataclass(frozen=True)
class Ref:
    """A tensor in memory: `offset` bytes past the start of `Program.buffers[buffer]`."""

    buffer: int
    offset: SizeLike
    dtype: Dtype
    shape: tuple[SizeLike, ...]
    strides: tuple[SizeLike, ...]


@dataclass(frozen=True)
class Buffer:
    """Memory that refs point into.

    kind    where it lives
              input     argument `index` of the call; its first element is offset 0
              arena     `offset` bytes (64-byte aligned) into the arena of the call; arena buffers share memory over time
              output    fresh memory, allocated by the runtime, that leaves with a result
              constant  `Program.constants[index]`, read-only
              owned     the result of a Call, memory of its library
              sizes     the values of `Program.sizes[index]`, each an i64, or an i32 for kernels that count in 32 bits
    index   the argument or the constant; for outputs and owned buffers their number among their kind
    offset  arena only, else 0
    bytes   size; 0 for a tensor without elements, which has no memory
    last    the last step (index into Program.steps) that uses it: an owned buffer is released after it. -1: it lives as
            long as the call's results
    """

    kind: BufferKind
    index: int
    offset: SizeLike
    bytes: SizeLike
    last: int


@dataclass(frozen=True)
class Constant:
    """Data of the program: row-major, little-endian, one byte per `bool`."""

    dtype: Dtype
    shape: tuple[int, ...]
    data: bytes


@dataclass(frozen=True)
class When:
    """A condition on a call's sizes: size <= most."""

    size: SizeLike
    limit: int


@dataclass(frozen=True)
class Launch:
    """Runs a kernel. On the CPU: its programs 0..grid-1, by `void kernel(void *const *bufs, int64_t lo, int64_t hi)`, where bufs[i]
    is the first element of args[i]. On a GPU: `grid` blocks of `threads` threads, with one 64-bit pointer parameter per argument,
    in order.

    kernel   symbol in the program's object; launches with equal bodies and layouts share it
    args     inputs, then `n_out` outputs
    grid     number of independent programs; on a GPU the blocks (CTAs) along x, a multiple of `cluster`
    bytes    bytes moved in all: inputs read once and outputs written once, more where the kernel re-reads
    flops    arithmetic operations in all; a transcendental counts as one
    name     what this launch computes, for people
    where    source lines of the ops it holds, "file.py:12"
    ops      names of the ops it holds, "aten.add.Tensor"
    inplace  (input, output) pairs of arg positions that share memory; all else is disjoint from the outputs
    threads  threads of a block along x; 0 on the CPU
    cluster  blocks of a cluster
    shared   bytes of dynamic shared memory of a block
    scratch  parameters after the arguments that the kernel alone uses: memory of symbolic sizes, global memory for descriptors that
             it builds
    dependent  programmatic dependent launch (sm_90 and newer): the kernel waits (griddepcontrol.wait) before it touches global
               memory, so it may start before its predecessor on the stream has ended
    grid_yz  on a GPU: blocks along y and z
    threads_yz  on a GPU: threads of a block along y and z
    when     where it has any, the launch after it computes the same by another kernel, for calls in which one of these conditions
             does not hold: of such launches a call makes the first whose conditions hold, and binding drops the others
    sizes    symbolic sizes that the kernel takes by value, as its last parameter, each of `size_bytes` bytes
    """

    kernel: str
    args: tuple[Ref, ...]
    n_out: int
    grid: SizeLike
    bytes: SizeLike
    flops: SizeLike
    name: str
    where: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    inplace: tuple[tuple[int, int], ...] = ()
    threads: int = 0
    cluster: int = 1
    shared: int = 0
    dependent: bool = False
    scratch: tuple[Ref, ...] = ()
    grid_yz: tuple[int, int] = (1, 1)
    threads_yz: tuple[int, int] = (1, 1)
    when: tuple[When, ...] = ()
    sizes: tuple[SizeLike, ...] = ()
    size_bytes: int = 4


@dataclass(frozen=True)
class Needs:
    """Launch requirements of a GPU kernel that only its compiler knows.

    shared    bytes of dynamic shared memory of a CTA
    scratch   bytes of global memory for each CTA, aligned to `align`
    pointers  parameters after the arguments that take the scratch memory
    threads   threads of a block; 0: as the launch says
    note      text that is shown next to its name
    """

    shared: int = 0
    scratch: int = 0
    align: int = 1
    pointers: int = 0
    threads: int = 0
    note: str = ""


Arg = None | bool | int | float | str | Size | Ref | tuple["Arg", ...]


@dataclass(frozen=True)
class Call:
    """Calls a routine outside Lamina's own code. Exactly one of `outs` and `owned` holds its results.

    callee  the overload, "aten.addmm.default"
    reason  "library" or "fallback"; "kernel" for a kernel in source, which becomes a launch when it is compiled
    args    positional arguments; tensors are refs, lists are tuples, torch dtypes, devices, layouts and memory formats are
            strings such as "torch.float32"
    kwargs  (name, value) pairs, the same kinds of value
    outs    results written in place, by the overload's out variant
    owned   results that the routine allocates itself. Each is the whole of an owned buffer, with the layout the program counts on;
            the runtime copies a result with another layout. None for a result that is not a tensor, or undefined
    name    what it computes, for people
    where   source lines
    """

    callee: str
    reason: str
    args: tuple[Arg, ...]
    kwargs: tuple[tuple[str, Arg], ...]
    outs: tuple[Ref, ...]
    owned: tuple[Ref | None, ...]
    name: str
    where: tuple[str, ...] = ()


Step = Launch | Call


@dataclass(frozen=True)
class Program:
    """One compiled graph.

    arena_bytes  memory the call needs for values between steps (its peak)
    sum_bytes    what those values would take without reuse
    lower_bound  the most bytes of them live at one step: no packing can do better
    outputs      refs into outputs, owned memory or (a result that is a view of an argument) inputs
    saved        indices of the outputs that only a backward pass reads
    sizes        symbolic sizes that kernels take as memory
    device       where its tensors live and its kernels run; with several GPUs, the arguments of each call say which
    """

    arena_bytes: SizeLike
    sum_bytes: SizeLike
    lower_bound: SizeLike
    inputs: tuple[TensorSpec, ...]
    buffers: tuple[Buffer, ...]
    constants: tuple[Constant, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Ref, ...]
    name: str = "main"
    device: Device = "cpu"
    saved: tuple[int, ...] = ()
    sizes: tuple[tuple[SizeLike, ...], ...] = ()


def refs_of(value: object) -> Iterator[Ref]:
    """Yields the tensors among the arguments of a call, nested tuples included, or all those of a step."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, Launch):
        yield from (*value.args, *value.scratch)
    elif isinstance(value, Call):
        yield from refs_of((value.args, value.kwargs, value.outs, value.owned))
    elif isinstance(value, tuple):
        for part in value:
            yield from refs_of(part)


def by_computation(steps: Sequence[Step]) -> list[list[Step]]:
    """Returns the steps of a program for all sizes, together those of which a call makes one."""
    computations: list[list[Step]] = []
    others = False
    for step in steps:
        if others:
            computations[-1].append(step)
        else:
            computations.append([step])
        others = isinstance(step, Launch) and bool(step.when)
    return computations
