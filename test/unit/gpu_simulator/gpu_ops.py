"""The gpu dialect, and the ops of nvvm for cluster barriers and ids."""

from collections.abc import Callable

import numpy as np
from torch_mlir import ir

from .batch import Array, Batch


def _dimension(op: ir.Operation) -> str:
    return str(op.attributes["dimension"]).split()[-1][0]


def _id(of: Callable[[Batch], Array | int], other: int) -> Callable[[ir.Operation], Callable]:
    """Returns an index along x; `other` along y and z, in which launches have an extent of one."""

    def build(op: ir.Operation) -> Callable:
        if _dimension(op) != "x":
            return lambda _batch: np.array([other])
        return lambda batch: np.atleast_1d(of(batch))

    return build


def _shuffle(op: ir.Operation) -> Callable:
    mode = str(op.attributes["mode"]).split()[-1].rstrip(">")

    def run(batch: Batch, value: Array, offset: Array, width: Array) -> tuple[Array, Array]:
        batch.whole_warps(op)
        widths = np.unique(batch.active(width))
        if len(widths) != 1 or widths[0] not in (1, 2, 4, 8, 16, 32, 64) or widths[0] > batch.wave:
            batch.fault(op, batch.lanes[0], f"a shuffle's width is one power of two, not {widths}")
        lane, n = batch.thread % batch.wave, int(widths[0])
        by = batch.wide(offset).astype(np.int64)
        source = {"xor": lane ^ by, "up": lane - by, "down": lane + by, "idx": lane // n * n + by}[mode]
        valid = (source >= 0) & (source // n == lane // n)
        from_ = np.where(valid, batch.thread - lane + source, batch.thread)
        gone = batch.mask & (from_ >= batch.threads)
        if gone.any():
            bad = int(np.argmax(gone))
            batch.fault(op, bad, f"reads from lane {source[bad]}, which the CTA of {batch.threads} threads does not have")
        return batch.wide(value)[batch.local * batch.threads + np.minimum(from_, batch.threads - 1)], valid

    return run


def _barrier(op: ir.Operation) -> Callable:
    if op.name == "nvvm.barrier" and len(op.operands):
        raise NotImplementedError(f"{op.name} of some threads at {op.location}")
    if "workgroup" not in str(op.attributes.get("scope", "workgroup")):
        raise NotImplementedError(f"{op.name} of another scope at {op.location}")
    return lambda batch: batch.barrier(op)


def _number(of: Callable[[Batch], Array | int], dtype: type = np.int64) -> Callable[[ir.Operation], Callable]:
    return lambda op: lambda batch: np.atleast_1d(of(batch)).astype(dtype)


_REGISTERS: dict[str, Callable[[Batch], Array | int]] = {
    "tid.x": lambda b: b.thread, "ntid.x": lambda b: b.threads, "ctaid.x": lambda b: b.cta, "nctaid.x": lambda b: b.grid,
    "laneid": lambda b: b.thread % b.wave, "warpid": lambda b: b.thread // b.wave, "clusterid.x": lambda b: b.cta // b.cluster,
    "cluster.ctarank": lambda b: b.cta % b.cluster, "cluster.ctaid.x": lambda b: b.cta % b.cluster,
    "cluster.nctarank": lambda b: b.cluster, "cluster.nctaid.x": lambda b: b.cluster,
}  # fmt: skip


def _trap(op: ir.Operation) -> Callable:
    return lambda batch: batch.fault(op, batch.lanes[0], "the kernel stops here: a check failed")


def _assert(op: ir.Operation) -> Callable:
    message = ir.StringAttr(op.attributes["msg"]).value

    def run(batch: Batch, fine: Array) -> None:
        wrong = ~batch.active(fine)
        if wrong.any():
            batch.fault(op, batch.lanes[np.argmax(wrong)], f"assertion failed: {message}")

    return run


def is_fence(op: ir.Operation) -> bool:
    """Returns whether an op does nothing, but keeps LLVM from moving loads past it."""
    return op.name == "llvm.call_intrinsic" and ir.StringAttr(op.attributes["intrin"]).value == "llvm.sideeffect"


GPU_OPS: dict[str, Callable[[ir.Operation], Callable]] = {
    "gpu.thread_id": _id(lambda b: b.thread, 0), "gpu.block_id": _id(lambda b: b.cta, 0),
    "gpu.block_dim": _id(lambda b: b.threads, 1), "gpu.grid_dim": _id(lambda b: b.grid, 1),
    "gpu.global_id": _id(lambda b: b.who, 0),
    "gpu.cluster_id": _id(lambda b: b.cta // b.cluster, 0), "gpu.cluster_block_id": _id(lambda b: b.cta % b.cluster, 0),
    "gpu.cluster_dim_blocks": _id(lambda b: b.cluster, 1), "gpu.cluster_dim": _id(lambda b: b.grid // b.cluster, 1),
    "gpu.lane_id": _number(lambda b: b.thread % b.wave), "gpu.subgroup_id": _number(lambda b: b.thread // b.wave),
    "gpu.subgroup_size": _number(lambda b: b.wave), "gpu.shuffle": _shuffle, "gpu.barrier": _barrier, "nvvm.barrier": _barrier,
    "llvm.intr.trap": _trap, "cf.assert": _assert,
    "nvvm.griddepcontrol": lambda op: lambda batch: None,  # launches run one after the other here
    "nvvm.cluster.arrive": lambda op: lambda batch: batch.clusters.arrive(op, relaxed=False),
    "nvvm.cluster.arrive.relaxed": lambda op: lambda batch: batch.clusters.arrive(op, relaxed=True),
    "nvvm.cluster.wait": lambda op: lambda batch: batch.clusters.wait(op),
} | {f"nvvm.read.ptx.sreg.{name}": _number(of, np.int32) for name, of in _REGISTERS.items()}  # fmt: skip
