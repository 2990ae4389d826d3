"""Distributes one block program over threads: emits the code of one thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.core.errors import CompileError
from lamina.core.sizes import Size

from ...ir.locations import where
from ...ir.reading import attributes_of, combining_op, element_of, name_of, number_of, ops_in
from ...ir.sizes import kernel_size, load_size, size_on
from ..tile_ops import Refused, handlers, refusal
from . import blocks, control
from .collective.exchange import Exchange
from .collective.reductions import Reduction, reduce
from .collective.workgroup import WORKGROUP, Workgroup
from .divisors import Divisors
from .groups import Groups
from .memory import Mask, Span, ThreadMemory
from .threads import IndexBuilder, Shape, block_id, thread_id
from .tile_ops import TILE_OPS
from .values import Spread, ThreadValue, WholeMask, WindowMask, as_spread, binary_op, has_blocks, per_part, vector_type
from .vendor import Vendor

REDUCES = ("vector.reduction", "tile.exp_total", "tile.scan", "tile.recurrence", "tile.sort")
ELEMENTWISE = ("arith.", "math.", "llvm.")


class ThreadKernel:
    """Fills the entry block of a gpu.func from a tile function, or a block in it from one of the function's parts.

    first  the CTA that the part's programs begin with
    lanes  the lanes of a block, also where short rows leave some of a thread's accesses out
    whole  accesses of a thread that are known to lie in the program's row
    """

    def __init__(
        self,
        tile: ir.Operation,
        entry: ir.Block,
        workgroup: Workgroup,
        warp: int,
        vendor: Vendor,
        part: ir.Operation | None = None,
        first: int | ir.Value = 0,
    ) -> None:
        self.tile, source = tile, part or tile
        self.shape, self.entry, self.vendor, self.first = Shape.of(source, warp), entry, vendor, first
        self.name, self.lanes, self.whole = name_of(tile), self.shape.lanes, 0
        self.values: dict[ir.Value, ThreadValue] = {}
        self.quotients: dict[tuple[ir.Value, ir.Value, ir.Block], tuple[ir.Value, ir.Value]] = {}
        self.divisors = Divisors()
        self.index_ops = IndexBuilder(entry)
        self.attribution = workgroup.buffer
        self.source = source.regions[0].blocks[0]
        self.grid = size_on(source, "tile.grid")
        self.aligned: dict[ir.Value, int] = {}
        self.spans: dict[ir.Value, Span] = {}
        olds = tile.regions[0].blocks[0].arguments
        news = list(entry.arguments)[: len(olds)]  # without shared memory buffers of the parts before
        for old, new, align in zip(olds, news, tile.attributes["tile.align"], strict=True):
            self.values[old] = new
            self.aligned[new] = align

    def emit(self) -> None:
        """Emits the code of one thread at the current insertion point."""
        self._stand()
        control.emit_program(self)
        self.exchange.meet()

    @contextmanager
    def narrowed(self, chunks: int, whole: int) -> Iterator[None]:
        """Emits what is inside for the first accesses of a thread alone, of which `whole` lie in the program's row."""
        outside = self.shape, self.offsets, self.whole
        self._spread(replace(self.shape, chunks=chunks), self.offsets[:chunks], whole)
        yield
        self._spread(*outside)

    def _spread(self, shape: Shape, offsets: list[ir.Value], whole: int) -> None:
        self.shape, self.offsets, self.whole = shape, offsets, whole
        self.memory.shape, self.memory.offsets, self.groups.offsets = shape, offsets, offsets

    def _stand(self) -> None:
        """Computes which program, team and lanes are this thread's."""
        shape, index_ops = self.shape, self.index_ops
        self.thread = thread_id()
        lane = index_ops.modulo(self.thread, shape.threads) if shape.cta > shape.threads else self.thread
        program, active, self.rank = index_ops.minus(block_id(), self.first), None, None
        if shape.cluster > 1:
            program, self.rank = index_ops.over(program, shape.cluster), index_ops.modulo(program, shape.cluster)
            self.vendor.start()
        if shape.pack > 1:
            program = index_ops.add(index_ops.times(program, shape.pack), index_ops.over(self.thread, shape.threads))
            if isinstance(self.grid, Size):
                *_, sizes = self.tile.regions[0].blocks[0].arguments
                grid = load_size(self.tile, self.grid, self.values[sizes])
                active, program = index_ops.below(program, grid), arith.minui(program, index_ops.minus(grid, 1))
            elif self.grid % shape.pack:
                active = index_ops.below(program, self.grid)
                program = arith.minui(program, index_ops.number(self.grid - 1))
        self.program, self.team = program, index_ops.over(self.thread, shape.threads) if shape.teams > 1 else None
        first = arith.cmpi(arith.CmpIPredicate.eq, self.team, index_ops.number(0)) if self.team is not None else None
        own = index_ops.times(lane, shape.vec)
        if self.rank is not None:
            own = index_ops.add(own, index_ops.times(self.rank, shape.chunks * shape.threads * shape.vec))
        self.offsets = [index_ops.add(own, c * shape.threads * shape.vec) for c in range(shape.chunks)]
        self.leader = index_ops.below(own, 1) if shape.threads > 1 else None
        self.groups = Groups(shape.vec, self.offsets, self.divisors, index_ops)
        reduces = any(op.operation.name in REDUCES for op in self.source.operations)  # then all is loaded before anything is stored
        self.memory = ThreadMemory(
            shape, index_ops, self.offsets, active if first is None else first, self.aligned, self.spans, not reduces
        )
        self.exchange = Exchange(shape, index_ops, self.thread, self.rank, self.shared, self.vendor)

    def shared(self, count: int, element: ir.Type) -> ir.Value:
        """Returns a buffer of `count` elements in shared memory."""
        return self.attribution(ir.MemRefType.get([count], element, None, ir.Attribute.parse(WORKGROUP)))

    # -- ops in order

    def block(self, block: ir.Block) -> None:
        """Emits the ops of a block in order."""
        self.ops(ops_in(block))

    def ops(self, ops: list[ir.Operation]) -> None:
        """Emits ops in order."""
        skip = 0
        for i, op in enumerate(ops):
            if skip:
                skip -= 1
                continue
            with op.location:
                if op.name == "vector.reduction":
                    skip = self._reductions(ops[i:]) - 1
                else:
                    self._op(op)

    def _reductions(self, ops: list[ir.Operation]) -> int:
        """Emits adjacent reductions, which share barriers; returns how many there are."""
        run = list(takewhile(lambda op: op.name == "vector.reduction", ops))
        wanted = [Reduction(self.spread(op.operands[0]), binary_op(combining_op(op))) for op in run]
        for op, value in zip(run, reduce(wanted, self.exchange), strict=True):
            self.values[op.results[0]] = value
        return len(run)

    def _op(self, op: ir.Operation) -> None:
        row = TILE_OPS.get(op.name)
        if isinstance(row, Refused):
            raise refusal(op, row, "lamina-distribute")
        handler = _HANDLERS.get(op.name)
        if handler is not None:
            handler(self, op)
        elif op.name.startswith(ELEMENTWISE) and not op.regions:
            self.elementwise(op)
        elif not has_blocks(op) and not op.regions:
            self.scalar(op)
        else:
            raise CompileError(
                f"lamina-distribute does not know {op.name} on blocks: {op}", where=where(op.location),
                remedy="lower it before, or give it a rule in passes/lower/simt",
            )  # fmt: skip

    def scalar(self, op: ir.Operation) -> None:
        """Emits an op on scalars as it is; all threads compute it."""
        new = ir.Operation.create(
            op.name, results=[r.type for r in op.results], operands=[self.uniform(v) for v in op.operands],
            attributes=attributes_of(op),
        )  # fmt: skip
        self.values.update(zip(op.results, new.results, strict=True))
        if op.name == "memref.reinterpret_cast":
            self.aligned[new.results[0]] = self.aligned[new.operands[0]]
            if (size := kernel_size(op.operands[-1])) is not None:
                self.spans[new.results[0]] = size, new.operands[-1]

    def elementwise(self, op: ir.Operation) -> None:
        """Emits an elementwise op for each access of the thread."""
        if not has_blocks(op):
            self.scalar(op)
            return
        self.groups.visit(op, self.values)
        attributes = attributes_of(op)
        result = vector_type(self.parts_of(op.results[0].type)[1], element_of(op.results[0].type))
        operands = [self.operand(v) for v in op.operands]

        def make(*parts: ir.Value) -> ir.Value:
            """Emits the op on a part of each operand."""
            return ir.Operation.create(op.name, results=[result], operands=list(parts), attributes=attributes).results[0]

        self.values[op.results[0]] = per_part(make, *operands)

    def parts_of(self, type_: ir.VectorType) -> tuple[int, int]:
        """Returns how many vectors, of how many elements, a thread holds of a block, or of a vector with one element for each
        thread."""
        return (self.shape.chunks, self.shape.vec) if type_.shape[0] == self.lanes else (1, 1)

    def types_of(self, type_: ir.Type) -> list[ir.Type]:
        """Returns the types of a value's parts."""
        if not isinstance(type_, ir.VectorType):
            return [type_]
        parts, vec = self.parts_of(type_)
        return [vector_type(vec, type_.element_type)] * parts

    def flatten(self, values: list[ir.Value]) -> list[ir.Value]:
        """Returns the parts of all values in one list."""
        flat: list[ir.Value] = []
        for v in values:
            flat += self.spread(v).parts if isinstance(v.type, ir.VectorType) else [self.uniform(v)]
        return flat

    def bind(self, olds: list[ir.Value], news: list[ir.Value]) -> None:
        """Records new values, flattened as by `flatten`, in place of `olds`."""
        for old in olds:
            block = isinstance(old.type, ir.VectorType)
            n = self.parts_of(old.type)[0] if block else 1
            mine, news = news[:n], news[n:]
            self.values[old] = Spread(tuple(mine)) if block else mine[0]

    def operand(self, v: ir.Value) -> Spread:
        """Returns a value as the thread's vectors; a scalar stands for each of them."""
        value = self.values[v]
        if isinstance(value, ir.Value):
            return Spread((value,) * self.shape.chunks)
        return as_spread(value, self.shape.vec) if isinstance(value, WholeMask | WindowMask) else value

    def spread(self, v: ir.Value) -> Spread:
        """Returns the thread's vectors of a block, masks as vectors of i1."""
        value = self.operand(v)
        assert isinstance(value, Spread)
        return value

    def uniform(self, v: ir.Value) -> ir.Value:
        """Returns the thread's value of a scalar."""
        value = self.values[v]
        assert isinstance(value, ir.Value), f"a block where one number is meant: {v}"
        return value

    def mask(self, v: ir.Value) -> Mask:
        """Returns the thread's form of a mask; None if it is always true."""
        if number_of(v):
            return None
        value = self.compact(v)
        assert not isinstance(value, ir.Value)
        return value

    def compact(self, v: ir.Value) -> ThreadValue:
        """Returns a value as it was recorded, a mask with one predicate per access where it has one."""
        return self.groups.masks.get(v) or self.values[v]


_HANDLERS = {**blocks.HANDLERS, **control.HANDLERS, **handlers(TILE_OPS)}
