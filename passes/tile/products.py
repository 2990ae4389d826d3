"""Lowers groups that lamina-select-kernels has formed around a matrix product or convolution to GEMM block programs."""

import math
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import func

from lamina.schedules.contraction import GemmConfig

from ..families.gemm.contractions import product_of
from ..ir.expressions import Load, walk
from ..ir.reading import element_type, shape_of
from ..space.contraction import Contraction, Unfit
from ..space.schedule import bits
from .emit.dot import Dot, squares


@dataclass(frozen=True)
class Lowered:
    """A tile function with its cost.

    grid   programs
    bytes  that must move at least once
    flops  of its products
    """

    function: ir.Operation
    grid: int
    bytes: int
    flops: int


def lower_product(f: ir.Operation, name: str, types: list[ir.MemRefType], config: GemmConfig, round_half: bool) -> Lowered:
    """Emits the GEMM program of the kernel function `f` by the schedule `config`. types: of its arguments, inputs then outputs.
    Raises Unfit where blocks cannot compute it."""
    block = f.regions[0].blocks[0]
    count = len(block.arguments)
    strides = [tuple(t.get_strides_and_offset()[0]) for t in types]
    product = product_of(block, strides[:count], strides[count:], round_half=round_half)
    if any(width not in (0, config.n) for width in product.summed):
        raise Unfit(f"sums of {max(product.summed)} columns in blocks of {config.n}")
    if any(rows not in (0, config.m) for rows in product.stacked):
        raise Unfit(f"sums of {max(product.stacked)} rows in blocks of {config.m}")
    with ir.InsertionPoint(f):
        new = func.FuncOp(name, (list(types), []))
        body = new.add_entry_block()
        with ir.InsertionPoint(body):
            program = ir.Operation.create("tile.program_id", results=[ir.IndexType.get()]).results[0]
            memory = {a: (m, element_type(a)) for a, m in zip(block.arguments, body.arguments, strict=False)}
            Dot(body, product, config, memory, list(body.arguments)[count:]).emit(program)
            func.ReturnOp([])
    flops = 2 * product.batches * len(product.products) * math.prod(product.sizes)
    return Lowered(new.operation, squares(product, config), _moved(product, types[count:]), flops)


def _moved(product: Contraction, outs: list[ir.MemRefType]) -> int:
    """Returns the bytes that must move at least once: elements read, and results."""
    loads = [e for r in product.results for e in walk(r.expr) if isinstance(e, Load)]
    read: dict[ir.Value, int] = {}
    for e in loads:
        touched = min(math.prod(a.extent for a in e.free), math.prod(shape_of(e.tensor)))
        read[e.tensor] = max(read.get(e.tensor, 0), touched)
    moved = sum(n * bits(element_type(t)) // 8 for t, n in read.items())
    return moved + sum(math.prod(t.shape) * bits(str(t.element_type)) // 8 for t in outs)
