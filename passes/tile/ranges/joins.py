"""Finds the kernels that may become part of a joint launch, and so are not copied for ranges of sizes."""

import math
from itertools import pairwise

from torch_mlir import ir

from lamina.core.sizes import typical

from ...ir.reading import name_of
from ...space.vector_width import RAGGED
from ..kernel import Kernel
from .size_range import launches_of


def may_be_joined(module: ir.Module, kernel: Kernel) -> bool:
    """Returns whether lamina-horizontal may join a kernel with one next to it, which saves more of a small one than whole accesses
    do. It joins no launches for ranges of sizes."""
    if max(typical(math.prod(argument.layout.shape)) for argument in kernel.arguments) >= RAGGED:
        return False
    launches, name = launches_of(module), name_of(kernel.function)
    return any(
        name in (_kernel(first), _kernel(second)) and not _written(first) & set(second.operands)
        for first, second in pairwise(launches)
    )


def _kernel(launch: ir.Operation) -> str:
    return str(ir.FlatSymbolRefAttr(launch.attributes["kernel"]).value)


def _written(launch: ir.Operation) -> set[ir.Value]:
    """Returns the buffers that a launch writes, and views of them."""
    count = ir.IntegerAttr(launch.attributes["n_out"]).value
    outputs = set(list(launch.operands)[len(launch.operands) - count :])
    return outputs | {use.owner.operation.result for v in outputs for use in v.uses if use.owner.operation.name == "plan.view"}
