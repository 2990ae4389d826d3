"""Lowers single ops of a block program to one thread's share of them. HANDLERS lists those of upstream's dialects by name."""

import math
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, vector

from lamina.core.sizes import Size, at_most
from lamina.dialects.combining import COMBINE
from lamina.dialects.tile import GUARD

from ...ir.locations import leaves
from ...ir.reading import element_of, number_of
from ...ir.sizes import KERNEL_SIZES, kernel_size, load_size, read_sizes, reciprocal
from ..lane_indices import lane_stride
from . import windows
from .collective import transpose
from .memory import combining_stores
from .values import Spread, WholeMask, WindowMask, elements, has_blocks, vector_of, vector_type

if TYPE_CHECKING:
    from .kernel import ThreadKernel


def literal(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers arith.constant: a splat becomes one vector for all accesses."""
    value = op.attributes["value"]
    if isinstance(op.results[0].type, ir.VectorType):
        parts, vec = k.parts_of(op.results[0].type)
        type_ = vector_type(vec, element_of(op.results[0].type))
        value = ir.DenseElementsAttr.get_splat(type_, ir.DenseElementsAttr(value).get_splat_value())
        part = ir.Operation.create("arith.constant", results=[type_], attributes={"value": value}).results[0]
        k.values[op.results[0]] = Spread((part,) * parts)
    else:
        k.scalar(op)


def program_id(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers tile.program_id to the number computed from the CTA's."""
    k.values[op.results[0]] = k.program


def broadcast(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers vector.broadcast of a scalar to one vector for all accesses."""
    parts, vec = k.parts_of(op.results[0].type)
    part = vector.broadcast(vector_type(vec, element_of(op.results[0].type)), k.uniform(op.operands[0]))
    k.values[op.results[0]] = Spread((part,) * parts)
    k.groups.visit(op, k.values)


def divide(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers arith.divui and remui. The number of a program is divided by a symbolic size by a product with its reciprocal, if
    launches pass that: a division takes three times as many instructions, in front of all loads."""
    size = kernel_size(op.operands[1])
    inverse = reciprocal(size) if isinstance(size, Size) else None
    known = read_sizes(k.tile.attributes[KERNEL_SIZES]) if KERNEL_SIZES in k.tile.attributes else ()
    if not isinstance(inverse, Size) or inverse not in known or not _numbers_programs(op.operands[0]):
        k.elementwise(op)
        return
    number, by = (k.uniform(v) for v in op.operands)
    block = ir.InsertionPoint.current.block
    if (number, by, block) not in k.quotients:
        *_, sizes = k.tile.regions[0].blocks[0].arguments
        factor = load_size(k.tile, inverse, k.uniform(sizes))
        k.quotients[number, by, block] = k.index_ops.divmod(number, by, factor)
    k.values[op.results[0]] = k.quotients[number, by, block][op.name == "arith.remui"]


def _numbers_programs(number: ir.Value) -> bool:
    """Returns whether a value is the number of a program, or of a part of its digits."""
    if isinstance(number, ir.BlockArgument):
        return False
    op = number.owner
    return op.name == "tile.program_id" or (op.name in ("arith.divui", "arith.remui") and _numbers_programs(op.operands[0]))


def step(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers vector.step to the numbers of the thread's lanes."""
    steps = k.shape.vec
    parts = [vector_of([k.index_ops.add(o, i) for i in range(steps)]) for o in k.offsets]
    k.values[op.results[0]] = Spread(tuple(parts))


def create_mask(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers vector.create_mask to a predicate per access; to a Window where its end may fall within an access."""
    shape, number = k.shape, number_of(op.operands[0])
    known = int(number) if number is not None else kernel_size(op.operands[0])
    count = k.uniform(op.operands[0])
    if k.divisors.of(op.operands[0]) % shape.vec:
        k.values[op.results[0]] = windows.mask_before(k, count)
        return
    inside: list[ir.Value | None] = []
    for c, o in enumerate(k.offsets):
        last = (shape.cluster - 1) * shape.chunks + c + 1
        whole = c < k.whole or (known is not None and at_most(last * shape.threads * shape.vec, known))
        inside.append(None if whole else k.index_ops.below(o, count))
    k.groups.masks[op.results[0]] = k.values[op.results[0]] = WholeMask(tuple(inside))


def select(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers arith.select; a mask that never cuts an access selects whole vectors."""
    condition = k.compact(op.operands[0])
    if not isinstance(condition, WholeMask | WindowMask) or not has_blocks(op):
        k.elementwise(op)
        return
    yes, no = k.spread(op.operands[1]), k.spread(op.operands[2])
    conditions = condition.inside if isinstance(condition, WholeMask) else [cut.lanes if cut else None for cut in condition.parts]
    parts = [a if p is None else arith.select(p, a, b) for p, a, b in zip(conditions, yes.parts, no.parts, strict=True)]
    k.values[op.results[0]] = Spread(tuple(parts))


def read(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers vector.transfer_read to the thread's accesses, or to single elements of a row of a transpose tile."""
    source, *rest = op.operands
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    index, pad = rest[: segments[1]], rest[segments[1]]
    mask = k.mask(rest[segments[1] + 1]) if segments[3] else None
    buffer = k.uniform(source)
    if len(index) == 2:  # a row of a transpose tile, whose rows are padded: single elements
        row = k.uniform(index[0])
        parts = [vector_of([memref.load(buffer, [row, k.index_ops.add(o, i)]) for i in range(k.shape.vec)]) for o in k.offsets]
        k.values[op.results[0]] = Spread(tuple(parts))
        return
    first = k.uniform(index[0])
    padded = mask is not None and _pads(rest[segments[1] + 1])
    k.values[op.results[0]] = k.memory.read(buffer, k.memory.starts(first), k.divisors.of(index[0]), mask, k.uniform(pad), padded)


def _pads(mask: ir.Value) -> bool:
    """Returns whether lanes outside a mask read padding, as opposed to lanes past the end of a row, which nothing looks at."""
    op = mask.owner
    return op.name not in ("vector.create_mask", "tile.window") or GUARD in op.attributes


def write(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers vector.transfer_write to the thread's accesses."""
    value, target, index, *mask = op.operands
    k.memory.write(
        k.spread(value), k.uniform(target), k.memory.starts(k.uniform(index)), k.divisors.of(index),
        k.mask(mask[0]) if mask else None,
    )  # fmt: skip


def store(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers memref.store of a scalar: one thread stores."""
    value, target, *index = op.operands
    k.memory.store_scalar(k.uniform(value), k.uniform(target), [k.uniform(i) for i in index], k.leader)


def gather(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers tile.gather to loads of single elements."""
    source, index, mask, other = op.operands
    k.values[op.results[0]] = k.memory.gather(k.uniform(source), k.spread(index), k.mask(mask), k.spread(other))


def scatter(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers tile.scatter to stores of single elements, or to atomic operations on them where it combines: on several at once
    where lanes are neighbors in memory."""
    value, target, index, mask = op.operands
    if COMBINE not in op.attributes:
        k.memory.scatter(k.spread(value), k.uniform(target), k.spread(index), k.mask(mask), memref.store)
        return
    stores = combining_stores(op.attributes[COMBINE].value)
    match lane_stride(index):
        case terms, 1:
            first = reduce(k.index_ops.add, [k.index_ops.times(k.uniform(term), factor) for term, factor in terms])
            divisor = math.gcd(*(k.divisors.of(term) * factor for term, factor in terms))
            k.memory.write(k.spread(value), k.uniform(target), k.memory.starts(first), divisor, k.mask(mask), stores)
        case _:
            k.memory.scatter(k.spread(value), k.uniform(target), k.spread(index), k.mask(mask), stores.single)


def check(k: "ThreadKernel", op: ir.Operation) -> None:
    """Lowers tile.check to an assertion of the device, as in eager, which prints its message and ends the launch, and the context
    with it. It is one for all lanes of a thread; the text names the model's line and the kernel."""
    condition = k.compact(op.operands[0])
    wanted: list[ir.Value] = [condition] if isinstance(condition, ir.Value) else []
    if isinstance(condition, WholeMask):
        wanted = [p for p in dict.fromkeys(condition.inside) if p is not None]
    elif isinstance(condition, Spread):
        wanted = [e for part in dict.fromkeys(condition.parts) for e in elements(part)]
    if not wanted:
        return
    fine = reduce(arith.andi, wanted)
    if k.memory.active is not None:
        fine = arith.ori(fine, arith.xori(k.memory.active, k.index_ops.number(1, ir.IntegerType.get_signless(1))))
    line = next((leaf for leaf in leaves(op.location) if isinstance(leaf, ir.FileLineColLoc)), op.location)
    with ir.Location.name(k.name, line):
        ir.Operation.create("cf.assert", operands=[fine], attributes={"msg": op.attributes["message"]})


HANDLERS: dict[str, Callable[["ThreadKernel", ir.Operation], None]] = {
    "arith.constant": literal, "arith.divui": divide, "arith.remui": divide, "arith.select": select,
    "vector.broadcast": broadcast, "vector.step": step,
    "vector.create_mask": create_mask, "vector.transfer_read": read, "vector.transfer_write": write, "memref.store": store,
    "memref.alloca": transpose.alloca,
}  # fmt: skip
