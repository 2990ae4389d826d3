"""One launch of a kernel."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch_mlir import ir

from .batch import Array, Batch, Fault
from .decode import Body, Decoder
from .memory import Buffer, View, width_of
from .memory_ops import extent_of, layout_of, poisoned, view_of
from .traffic import Traffic
from .types import dtype_of

_LANES = 1 << 14  # threads that run together: enough that numpy's own time counts, few enough for the caches


@dataclass
class Result:
    """What one launch did. Lists have one entry an argument; a scalar's is an empty Traffic.

    written  of every argument, which elements the launch wrote
    ctas     how many CTAs ran, of `threads` threads each
    """

    loads: list[Traffic]
    stores: list[Traffic]
    written: list[Array]
    ctas: int
    threads: int


def simulate(
    module: ir.Module,
    kernel: str,
    arguments: Sequence[Array | int | float],
    grid: int | None = None,
    *,
    block: int | None = None,
    pack: int = 1,
    cluster: int | None = None,
    outputs: Sequence[int] | None = None,
    align: int | Sequence[int] | None = None,
    wave: int = 32,
    traffic: bool = True,
) -> Result:
    """Runs `kernel` of the gpu.module of `module`, writing into the arrays.

    arguments  one-dimensional arrays, the storage of the memrefs (`storage`, `poison`); bf16 as f32 arrays; numbers for scalars.
               An array may be given twice; else arrays must not overlap
    grid       programs; there are ceil(grid / pack) * cluster CTAs. By default the kernel's gpu.grid, which counts CTAs
    block      threads of a CTA; by default the kernel's known_block_size, which it must agree with
    pack       programs of a CTA
    cluster    CTAs of a cluster; by default the kernel's known_cluster_size or nvvm.cluster_dim, or 1
    outputs    the arguments of which every element must be written; by default as many of the last as the kernel's tile.outputs
    wave       threads that run in step
    traffic    whether to count the accesses and sectors of loads and stores, a seventh of the time
    align      bytes of which the arrays' addresses are multiples, of all or of each; by default the kernel's tile.align, or 16

    Raises Fault for: an access out of bounds of its memref (not only of its array) or against its alignment; two threads that
    write different values to one element; a write and another thread's access to one element with no barrier between, in
    shared and in global memory; a barrier that some threads of a CTA do not reach; a shuffle that part of a warp does; a read
    of shared or private memory that nobody wrote; division by zero; a trap; an element of `outputs` not written (but where it lies in the memory of an argument that is never read); shared memory of
    another CTA reached before a cluster's first barrier, or with none after it. Raises NotImplementedError for an op that is not
    known, and ValueError for arguments that do not fit the kernel.
    """
    function = _find(module, kernel)
    threads = _threads(function, kernel, block, pack)
    cluster = cluster or _cluster(function)
    ctas = _number(function, "gpu.grid", kernel) if grid is None else -(-grid // pack) * cluster
    entry = function.regions[0].blocks[0]
    count = len(ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs)
    if len(arguments) != count:
        raise ValueError(f"{kernel} takes {count} arguments, not {len(arguments)}")
    types = [a.type for a in entry.arguments]
    if align is None:
        align = list(ir.DenseI64ArrayAttr(function.attributes["tile.align"])) if "tile.align" in function.attributes else 16
    aligns = [align] * count if isinstance(align, int) else align
    values = [_argument(i, *x) for i, x in enumerate(zip(types[:count], arguments, aligns, strict=True))]
    for value, argument in zip(values, entry.arguments, strict=False):
        if isinstance(value, View):
            value.buffer.constant = _only_read(argument)
            value.buffer.counted = traffic
    _share(values)
    decoder, body = _decoded(module, kernel)
    end = entry.operations[len(entry.operations) - 1].operation
    together = max(1, _LANES // (threads * cluster)) * cluster
    with np.errstate(all="ignore"):
        for first in range(0, ctas, together):
            batch = Batch(kernel, first, min(together, ctas - first), threads, cluster, ctas, len(decoder.slots), wave)
            body.run(batch, *values, *[_shared(i, t, batch.ctas) for i, t in enumerate(types[count:])])
            batch.clusters.finish(end)
    written = [v.buffer.words.writer >= 0 if isinstance(v, View) else np.zeros(0, bool) for v in values]
    if outputs is None and "tile.outputs" in function.attributes:
        memory = count - ("tile.sizes" in function.attributes)  # the last argument holds the sizes, where some are symbolic
        outputs = range(memory - _number(function, "tile.outputs", kernel), memory)
    for i in outputs or ():
        if not _changed(values, i):
            _complete(kernel, i, types[i], written[i])
    buffers = [v.buffer if isinstance(v, View) else None for v in values]
    none = Traffic.over(0)
    return Result([b.loads if b else none for b in buffers], [b.stores if b else none for b in buffers], written, ctas, threads)


def storage(tensor: torch.Tensor) -> Array:
    """Copies the tensor's elements, row-major, as `simulate` takes them: bf16 as f32, bool as i8, other bytes as bits."""
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.float()
    if tensor.dtype is torch.bool:
        tensor = tensor.to(torch.int8)
    if tensor.itemsize == 1:
        tensor = tensor.contiguous().view(torch.int8)
    return tensor.detach().cpu().contiguous().reshape(-1).numpy().copy()


def poison(size: int, dtype: torch.dtype) -> Array:
    """Returns storage for an output of so many elements, filled with NaN or bytes of 0x5A, which show where the kernel does not
    write."""
    if dtype.is_floating_point:
        return storage(torch.full((size,), torch.nan, dtype=dtype))
    return storage(
        torch.full((size * max(1, dtype.itemsize),), 0x5A, dtype=torch.int8).view(torch.int8 if dtype is torch.bool else dtype)
    )


def _find(module: ir.Module, kernel: str) -> ir.Operation:
    names = []
    for outer in module.body.operations:
        if outer.operation.name == "gpu.module":
            for inner in outer.operation.regions[0].blocks[0].operations:
                if inner.operation.name == "gpu.func":
                    names.append(ir.StringAttr(inner.attributes["sym_name"]).value)
                    if names[-1] == kernel:
                        return inner.operation
    raise ValueError(f"no gpu.func @{kernel} in the module's gpu.modules, which have {names}")


@lru_cache(maxsize=64)
def _decoded(module: ir.Module, kernel: str) -> tuple[Decoder, Body]:
    """Decodes a kernel once for launches of all sizes."""
    decoder = Decoder()
    return decoder, decoder.body(_find(module, kernel).regions[0].blocks[0])


def _number(function: ir.Operation, name: str, kernel: str) -> int:
    if name not in function.attributes:
        raise ValueError(f"{kernel} has no {name}: say how many programs there are, grid=")
    return ir.IntegerAttr(function.attributes[name]).value


def _threads(function: ir.Operation, kernel: str, block: int | None, pack: int) -> int:
    if "known_block_size" in function.attributes:
        known = list(ir.DenseI32ArrayAttr(function.attributes["known_block_size"]))
        if known[1:] != [1, 1] or block not in (None, known[0]):
            raise ValueError(f"{kernel} is for blocks of {known} threads, not of {block or 'one dimension'}")
        block = known[0]
    if block is None:
        raise ValueError(f"{kernel} has no known_block_size: say block=")
    if block % pack:
        raise ValueError(f"{pack} programs do not share {block} threads evenly")
    return block


def _cluster(function: ir.Operation) -> int:
    for name in ("known_cluster_size", "nvvm.cluster_dim"):
        if name in function.attributes:
            return int(ir.DenseI32ArrayAttr(function.attributes[name])[0])
    return 1


def _argument(number: int, type_: ir.Type, value: Array | int | float, align: int) -> View | Array:
    if not isinstance(type_, ir.MemRefType):
        return np.array([value], dtype_of(type_))
    dtype, extent = np.dtype(dtype_of(type_.element_type)), extent_of(type_)
    if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype != dtype or not value.flags.c_contiguous:
        found = f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        raise ValueError(f"argument {number} is {type_}: a one-dimensional array of {dtype} is needed, not {found}")
    if len(value) < extent:
        raise ValueError(f"argument {number} is {type_}, of {extent} elements; the array has {len(value)}")
    if not type_.rank:  # the first element of memory whose shape each call decides
        extent = len(value)
    name = f"argument {number}, {type_}"
    buffer = Buffer(name, "global", value, extent, width_of(type_.element_type), align, _inside(type_, len(value)))
    return view_of(buffer, type_)


def _inside(type_: ir.Type, size: int) -> Array | None:
    """Returns which elements of the memory the memref has; None if it has all of them."""
    shape, strides, offset = layout_of(type_)
    if extent_of(type_) == np.prod(shape):
        return None
    positions = np.array([offset])
    for n, stride in zip(shape, strides, strict=True):
        positions = np.add.outer(positions, np.arange(n) * stride)
    inside = np.zeros(size, bool)
    inside[positions.reshape(-1)] = True
    return inside


def _share(values: Sequence[View | Array]) -> None:
    """Gives an array that is passed as several arguments one history of accesses."""
    buffers = [v.buffer for v in values if isinstance(v, View)]
    for i, a in enumerate(buffers):
        for b in buffers[:i]:
            if not np.may_share_memory(a.data, b.data):
                continue
            if a.data.ctypes.data != b.data.ctypes.data or len(a.data) != len(b.data) or a.data.dtype != b.data.dtype:
                raise ValueError(f"{a.name} and {b.name} overlap without being one array")
            a.words = b.words
            a.constant = b.constant = a.constant and b.constant


def _only_read(memory: ir.Value) -> bool:
    """Returns whether the kernel does nothing with a memref but load from it, and from views of it."""
    for use in memory.uses:
        op = use.owner.operation
        if op.name in ("memref.reinterpret_cast", "memref.cast"):
            if not _only_read(op.results[0]):
                return False
        elif op.name not in ("memref.load", "vector.load"):
            return False
    return True


def _changed(values: Sequence[View | Array], output: int) -> bool:
    """Returns whether an output lies in the memory of another argument that is not loaded from: some of its elements may stay."""
    alike = [
        v.buffer
        for i, v in enumerate(values)
        if isinstance(v, View) and i != output and v.buffer.words is values[output].buffer.words
    ]
    return bool(alike) and not any(buffer.loaded for buffer in alike)


def _shared(number: int, type_: ir.Type, ctas: int) -> View:
    size, element = extent_of(type_), type_.element_type
    buffer = Buffer(f"workgroup buffer {number}, {type_}", "shared", poisoned(element, size * ctas), size, width_of(element), 16)
    return view_of(buffer, type_)


def _complete(kernel: str, number: int, type_: ir.Type, written: Array) -> None:
    inside = _inside(type_, len(written))
    wanted = np.arange(len(written)) < (extent_of(type_) if type_.rank else len(written)) if inside is None else inside
    missing = np.flatnonzero(wanted & ~written)
    if len(missing):
        raise Fault(
            f"{kernel}: {len(missing)} elements of argument {number}, {type_}, are never written; the first is {missing[0]}"
        )
