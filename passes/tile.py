"""lamina-tile: every kernel function becomes a tile program."""

import math
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir
from torch_mlir.dialects import func, memref

from lamina.core.errors import CompileError

from .base import Pass
from .emit_loops import Loops
from .emit_tile import Memory
from .expressions import Apply, Load
from .fuse import where
from .grouping import walk
from .reading import Untraceable, element_type, shape_of
from .schedule import bits, operations, schedule
from .space import Space, find_space


@dataclass(frozen=True)
class Tile(Pass):
    """Turn every kernel function into a block program on memrefs.

    Before: `func.func private @k(tensors) -> tensors` with `graph.kernel`, launched by plan.launch, whose operand types
    give the layouts. After: `func.func @k(memrefs)` with `tile.grid` (programs), `tile.bytes` (moved in all) and
    `tile.flops`, in vector, arith, math, scf and memref, with tile.program_id. `tile.alias` lists the arguments that
    some launch writes in place.

        func.func private @relu(%x: tensor<1000xf32>) -> tensor<1000xf32>
     -> func.func @relu(%x: memref<1000xf32>, %o: memref<1000xf32>) attributes {tile.grid = 1} { vector.transfer_read ... }

    target               the machine that blocks are chosen for
    round_intermediates  values of half types are rounded where eager stores them, not only where they are stored here
    """

    name: ClassVar[str] = "lamina-tile"
    target: str = "cpu"
    round_intermediates: bool = False

    def run(self, module: ir.Module) -> None:
        if self.target.split(":")[0] != "cpu":
            raise CompileError(f"lamina-tile: unknown target {self.target!r}", remedy="the targets are: cpu")
        layouts = _layouts(module)
        for op in list(module.body.operations):
            f = op.operation
            if f.name == "func.func" and "graph.kernel" in f.attributes:
                name = ir.StringAttr(f.attributes["sym_name"]).value
                types = layouts.get(name) or _contiguous(f)
                with f.location:
                    _lower(f, name, types, self.round_intermediates)
                f.erase()


def _layouts(module: ir.Module) -> dict[str, list[ir.MemRefType]]:
    """The memref types that each kernel is launched with."""
    found: dict[str, list[ir.MemRefType]] = {}

    def look(op: ir.Operation) -> ir.WalkResult:
        if op.name == "plan.launch":
            name = ir.FlatSymbolRefAttr(op.attributes["kernel"]).value
            found.setdefault(name, [ir.MemRefType(v.type) for v in op.operands])
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return found


def _contiguous(f: ir.Operation) -> list[ir.MemRefType]:
    """Contiguous layouts, for a kernel that nothing launches."""
    block = f.regions[0].blocks[0]
    values = [*block.arguments, *list(block.operations)[-1].operands]
    byte = ir.IntegerType.get_signless(8)
    return [ir.MemRefType.get(shape_of(v), byte if element_type(v) == "i1" else ir.ShapedType(v.type).element_type) for v in values]


def _lower(f: ir.Operation, name: str, types: list[ir.MemRefType], round_half: bool) -> None:
    block = f.regions[0].blocks[0]
    outs = list(list(block.operations)[-1].operands)
    n_in = len(block.arguments)
    strides = [tuple(t.get_strides_and_offset()[0]) for t in types]
    if all(0 in t.type.shape for t in outs):
        _nothing(f, name, types, len(outs))
        return
    try:
        space = find_space(
            block, dict(zip(block.arguments, strides, strict=False)), strides[n_in:], divide=True, round_half=round_half
        )
        plan = schedule(space)
    except Untraceable as e:
        raise CompileError(f"kernel @{name} cannot be tiled: {e.why}", where=where(f)) from None
    with ir.InsertionPoint(f):
        new = func.FuncOp(name, (list(types), []))
        body = new.add_entry_block()
        with ir.InsertionPoint(body):
            program = ir.Operation.create("tile.program_id", results=[ir.IndexType.get()]).results[0]
            flat = [_flat(m, t, s) for m, t, s in zip(body.arguments, types, strides, strict=True)]
            memory: dict[ir.Value, Memory] = {a: (m, element_type(a)) for a, m in zip(block.arguments, flat, strict=False)}
            Loops(body, space, plan, memory, flat[n_in:]).emit(program)
            func.ReturnOp([])
    moved, flops = _traffic(space, outs)
    _describe(new.operation, f, grid=plan.grid, bytes=moved, flops=flops, outputs=len(outs))


def _nothing(f: ir.Operation, name: str, types: list[ir.MemRefType], outputs: int) -> None:
    """The kernel of a group whose results are empty."""
    with ir.InsertionPoint(f):
        new = func.FuncOp(name, (list(types), []))
        with ir.InsertionPoint(new.add_entry_block()):
            func.ReturnOp([])
    _describe(new.operation, f, grid=0, bytes=0, flops=0, outputs=outputs)


def _describe(new: ir.Operation, old: ir.Operation, **numbers: int) -> None:
    for key, n in numbers.items():
        new.attributes[f"tile.{key}"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), n)
    if "sym_visibility" in old.attributes:
        new.attributes["sym_visibility"] = old.attributes["sym_visibility"]
    if "graph.inplace" in old.attributes:
        shared = {position for pair in old.attributes["graph.inplace"] for position in pair}
        new.attributes["tile.alias"] = ir.DenseI64ArrayAttr.get(sorted(shared))


def _flat(m: ir.Value, type_: ir.MemRefType, strides: tuple[int, ...]) -> ir.Value:
    """The memory of `m` as one row of elements."""
    span = 1 + sum((n - 1) * s for n, s in zip(type_.shape, strides, strict=True)) if 0 not in type_.shape else 1
    if type_.rank == 1 and strides == (1,):
        return m
    flat = ir.MemRefType.get([span], type_.element_type)
    return memref.ReinterpretCastOp(flat, m, [], [], [], [0], [span], [1]).result


def _traffic(space: Space, outs: list[ir.Value]) -> tuple[int, int]:
    """Bytes that have to move at least once, and operations, of one launch."""
    seen = dict.fromkeys(e for r in space.results for e in walk(r.expr))
    points = math.prod(a.extent for a in (*space.rows, *space.columns))
    read: dict[ir.Value, int] = {}
    for e in seen:
        if isinstance(e, Load):
            touched = math.prod(a.extent for a in e.free) if not e.at.opaque else points
            whole = math.prod(shape_of(e.tensor))
            read[e.tensor] = max(read.get(e.tensor, 0), min(touched, whole))
    moved = sum(n * bits(element_type(t)) // 8 for t, n in read.items())
    moved += sum(math.prod(shape_of(v)) * bits(element_type(v)) // 8 for v in outs)
    return moved, operations(space) * points if any(isinstance(e, Apply) for e in seen) else 0
