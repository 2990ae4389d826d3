"""Buffers, views of them, and checked accesses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from torch_mlir import ir

from .batch import Array, Batch
from .traffic import Traffic
from .words import Threads, Words

BF16_BYTES = 2  # stored as f32 here


def width_of(element: ir.Type) -> int:
    """Returns the bytes of an element in the GPU's memory."""
    return 8 if isinstance(element, ir.IndexType) else max(8, element.width) // 8


@dataclass
class Buffer:
    """Memory of the launch (global), of every CTA (shared) or of every thread (private).

    data      the elements, one instance after the other
    size      elements of an instance
    width     bytes of an element
    align     bytes: what is known of the start's address
    inside    which elements belong to it, where not all do
    constant  whether the kernel has no op that writes to it: none of its reads can be part of a race
    counted   whether `loads` and `stores` count its traffic
    loaded    whether it was loaded from
    """

    name: str
    space: str
    data: Array
    size: int
    width: int
    align: int
    inside: Array | None = None
    constant: bool = False
    counted: bool = True
    loaded: bool = False
    words: Words = field(init=False)
    loads: Traffic = field(init=False)
    stores: Traffic = field(init=False)

    def __post_init__(self) -> None:
        self.words = Words(len(self.data))
        self.loads, self.stores = Traffic.over(self.size * self.width), Traffic.over(self.size * self.width)

    def instance(self, batch: Batch, lanes: Array) -> Array:
        """Returns where the lanes' own instances start."""
        if self.space == "global":
            return np.zeros(1, np.int64)
        return (batch.local[lanes] if self.space == "shared" else lanes) * self.size


@dataclass
class View:
    """A memref: a buffer, and where in it, in elements; arrays over the lanes where not constant."""

    buffer: Buffer
    offset: Array
    shape: Sequence[int | Array]
    strides: Sequence[int | Array]


@dataclass
class Access:
    """One load or store of the active lanes.

    element  of every lane, the first element, counted in the lane's instance
    at       [lanes, count]: positions in the buffer's data
    """

    batch: Batch
    op: ir.Operation
    buffer: Buffer
    element: Array
    at: Array

    @property
    def count(self) -> int:
        return self.at.shape[1]

    def threads(self) -> Threads:
        """Returns who makes the access, one entry per element, flat."""
        b = self.batch
        who, epoch = (np.repeat(x, self.count) for x in (b.who[b.lanes], b.epoch(b.lanes)))
        return Threads(who, epoch, b.threads, b.threads * b.cluster)

    def require(self, ok: Array, text: str) -> None:
        """Every lane's (or element's) entry of `ok` must hold; `text` may name {element}, and is told of the first that does not."""
        if not ok.all():
            bad = int(np.argmin(ok))
            lane, part = divmod(bad, self.count) if len(ok) == self.at.size else (bad, 0)
            where = f"element {int(self.element[lane]) + part} of {self.buffer.name}"
            self.batch.fault(self.op, int(self.batch.lanes[lane]), text.format(element=where))


def access(batch: Batch, op: ir.Operation, view: View, indices: Sequence[Array], count: int, align: int | None) -> Access:
    """Checks bounds and alignment of an access to `count` adjacent elements. `align` is the op's promise, in bytes."""
    buffer, steps = view.buffer, [batch.active(np.asarray(i)) for i in indices]
    element = batch.active(view.offset)
    for index, stride in zip(steps, view.strides, strict=True):
        element = element + index * (stride if isinstance(stride, int) else batch.active(stride))
    for axis, (index, extent) in enumerate(zip(steps, view.shape, strict=True)):
        need = count if axis == len(steps) - 1 else 1
        limit = extent if isinstance(extent, int) else batch.active(extent)
        if index.min() >= 0 and index.max() + need <= np.min(limit):
            continue
        bad = np.flatnonzero((index < 0) | (index + need > limit))
        if len(bad):
            size = limit if isinstance(limit, int) else limit[bad[0]]
            batch.fault(
                op,
                batch.lanes[bad[0]],
                f"out of bounds of {buffer.name}: {need} at index {index[bad[0]]} of axis {axis}, of {size}",
            )
    return place(batch, op, buffer, element, buffer.instance(batch, batch.lanes), count, align)


def place(batch: Batch, op: ir.Operation, buffer: Buffer, element: Array, instance: Array, count: int, align: int | None) -> Access:
    """As `access`, for elements counted from the start of an instance of the buffer, at `instance`."""
    start = element + instance
    at = start[:, None] if count == 1 else start[:, None] + np.arange(count)
    found = Access(batch, op, buffer, element, at)
    if element.min() < 0 or element.max() + count > buffer.size:
        found.require((element >= 0) & (element + count <= buffer.size), f"out of bounds: {{element}}, which has {buffer.size}")
    if buffer.inside is not None:
        found.require(buffer.inside[found.at].reshape(-1), "out of bounds: {element} lies between the memref's rows")
    align = align or buffer.width
    if align > buffer.align:
        text = f"misaligned: {align} bytes promised for {{element}}, which starts at a multiple of {buffer.align}"
        found.require(np.zeros(len(element), bool), text)
    if (step := align // math.gcd(align, buffer.width)) > 1:
        found.require(element % step == 0, f"misaligned: {align} bytes promised for {{element}} of {buffer.width} bytes")
    return found


def _count(a: Access, traffic: Traffic, align: int | None) -> None:
    """Counts instructions: an access is one of at most 16 bytes, and of no more than its alignment."""
    if not a.buffer.counted:
        return
    size = a.count * a.buffer.width
    width = np.gcd(size, min(16, align or a.buffer.width))
    traffic.record(a.element * a.buffer.width, size, int(width), a.batch.warp[a.batch.lanes])


def load(a: Access, align: int | None) -> Array:
    """Loads an array [lanes of the batch, count]; inactive lanes get zeros."""
    b, buffer, at = a.batch, a.buffer, a.at.reshape(-1)
    if buffer.space == "global":
        buffer.loaded = True
        _count(a, buffer.loads, align)
    else:
        a.require(buffer.words.writer[at] >= 0, "read before written: {element}")
    if not buffer.constant:
        race = buffer.words.read(at, a.threads())
        if race.any():
            _race(a, race, buffer.words.writer[at], "reads", "wrote")
    values = buffer.data.take(a.at)
    if b.whole:
        return values
    out = np.zeros((b.size, a.count), buffer.data.dtype)
    out[b.lanes] = values
    return out


def store(a: Access, values: Array, align: int | None) -> None:
    """Stores `values`, [lanes of the batch or 1, count]."""
    b, buffer, at = a.batch, a.buffer, a.at.reshape(-1)
    new, threads, words = b.active(values).reshape(-1), a.threads(), buffer.words
    read = words.races_with_reads(at, threads)
    if read.any():
        _race(a, read, words.reader[at], "writes", "read")
    old = buffer.data[at]
    before, ordered, lost = words.write(at, threads)
    buffer.data[at] = new
    other = np.where(lost, words.writer[at], before)
    if buffer.space != "global":
        if (clash := lost | ~ordered).any():
            _race(a, clash, other, "writes", "wrote")
        return
    _count(a, buffer.stores, align)
    clash = ((before >= 0) & (before != threads.who) & ~_same(old, new)) | (lost & ~_same(buffer.data[at], new))
    if clash.any():
        a.require(~clash, f"written twice, with different values: {{element}}, by {b.name(other[np.argmax(clash)])} too")


def _race(a: Access, race: Array, other: Array, this: str, that: str) -> None:
    who = other[np.argmax(race)]
    name = a.batch.name(who) if who >= 0 else "several threads"
    a.require(~race, f"race: this thread {this} {{element}}, which {name} {that} with no barrier between")


def _same(x: Array, y: Array) -> Array:
    """Compares bit by bit: NaN equals itself, and -0.0 differs from 0.0."""
    bits = np.dtype(f"u{x.itemsize}")
    return x.view(bits) == y.view(bits)
