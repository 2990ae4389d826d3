"""One block program as the code of one thread."""

from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, scf, vector

from lamina.core.errors import CompileError

from ..squares_shared import SHARED
from . import square
from .divisors import Divisors, constant
from .groups import Groups
from .memory import Memory
from .reductions import Reducer, Reduction
from .threads import Indices, Shape, barrier, block_id, thread_id
from .values import Bound, Held, Spread, as_spread, element_of, elements, per_part, together, vector_type

WORKGROUP = "#gpu.address_space<workgroup>"
ELEMENTWISE = ("arith.", "math.", "llvm.", "nvvm.")


class Kernel:
    """Fills the entry block of a gpu.func from a tile function."""

    def __init__(self, tile: ir.Operation, entry: ir.Block) -> None:
        self.shape, self.entry = Shape.of(tile), entry
        self.held: dict[ir.Value, Held] = {}
        self.divisors = Divisors()
        self.at = Indices(entry)
        self.workgroup: list[ir.Type] = []
        self.depth = 0
        self.source = tile.regions[0].blocks[0]
        self.grid = ir.IntegerAttr(tile.attributes["tile.grid"]).value
        self.aligned: dict[ir.Value, int] = {}
        for old, new, align in zip(self.source.arguments, entry.arguments, tile.attributes["tile.align"], strict=True):
            self.held[old] = new
            self.aligned[new] = align

    def emit(self) -> None:
        with ir.InsertionPoint(self.entry):
            self._stand()
            self._block(self.source)

    def _stand(self) -> None:
        """Which program and which lanes are this thread's."""
        shape, at = self.shape, self.at
        self.thread = thread_id()
        lane = at.modulo(self.thread, shape.threads) if shape.cta > shape.threads else self.thread
        program, active = block_id(), None
        if shape.pack > 1:
            program = at.add(at.times(program, shape.pack), at.over(self.thread, shape.threads))
            if self.grid % shape.pack:
                active = at.below(program, self.grid)
                program = arith.minui(program, at.number(self.grid - 1))
        self.program, self.team = program, at.over(self.thread, shape.threads) if shape.teams > 1 else None
        first = arith.cmpi(arith.CmpIPredicate.eq, self.team, at.number(0)) if self.team is not None else None
        own = at.times(lane, shape.vec)
        self.offsets = [at.add(own, c * shape.threads * shape.vec) for c in range(shape.chunks)]
        self.leader = arith.cmpi(arith.CmpIPredicate.eq, lane, at.number(0)) if shape.threads > 1 else None
        self.groups = Groups(shape.vec, self.offsets, self.divisors, at)
        self.memory = Memory(shape, at, self.offsets, active if first is None else first, self.aligned)
        self.reducer = Reducer(shape, at, self.thread, self._shared)

    def _shared(self, count: int, element: ir.Type) -> ir.Value:
        return self._attribution(ir.MemRefType.get([count], element, None, ir.Attribute.parse(WORKGROUP)))

    def _attribution(self, type_: ir.MemRefType) -> ir.Value:
        self.workgroup.append(type_)
        return self.entry.add_argument(type_, ir.Location.unknown())

    # -- ops in order

    def _block(self, block: ir.Block) -> None:
        ops = [o.operation for o in block.operations]
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
        """Neighbours share a barrier; how many there are."""
        run = []
        for op in ops:
            if op.name != "vector.reduction":
                break
            run.append(op)
        wanted = [Reduction(self._spread(op.operands[0]), _kind(op)) for op in run]
        for op, value in zip(run, self.reducer.reduce(wanted, self.depth > 0), strict=True):
            self.held[op.results[0]] = value
        return len(run)

    def _op(self, op: ir.Operation) -> None:
        handler = _HANDLERS.get(op.name)
        if handler is not None:
            handler(self, op)
        elif op.name.startswith(ELEMENTWISE) and not op.regions:
            self._elementwise(op)
        elif not _blocks(op) and not op.regions:
            self._scalar(op)
        else:
            raise CompileError(
                f"lamina-distribute does not know {op.name} on blocks: {op}", where=str(op.location),
                remedy="lower it before, or give it a rule in passes/distribution",
            )  # fmt: skip

    def _scalar(self, op: ir.Operation) -> None:
        new = ir.Operation.create(
            op.name, results=[r.type for r in op.results], operands=[self._uniform(v) for v in op.operands],
            attributes={a.name: a.attr for a in _attributes(op)},
        )  # fmt: skip
        self.held.update(zip(op.results, new.results, strict=True))
        if op.name == "memref.reinterpret_cast":
            self.aligned[new.results[0]] = self.aligned[new.operands[0]]

    def _elementwise(self, op: ir.Operation) -> None:
        if not _blocks(op):
            self._scalar(op)
            return
        self.groups.visit(op, self.held)
        attributes = {a.name: a.attr for a in _attributes(op)}
        result = vector_type(self.shape.vec, element_of(op.results[0].type))
        operands = [self._operand(v) for v in op.operands]

        def make(*parts: ir.Value) -> ir.Value:
            return ir.Operation.create(op.name, results=[result], operands=list(parts), attributes=attributes).results[0]

        self.held[op.results[0]] = per_part(make, *operands)

    def _operand(self, v: ir.Value) -> Spread:
        held = self.held[v]
        if isinstance(held, ir.Value):
            return Spread((held,) * self.shape.chunks)
        return as_spread(held, self.shape.vec) if isinstance(held, Bound) else held

    def _spread(self, v: ir.Value) -> Spread:
        held = self._operand(v)
        assert isinstance(held, Spread)
        return held

    def _uniform(self, v: ir.Value) -> ir.Value:
        held = self.held[v]
        assert isinstance(held, ir.Value), f"a block where one number is meant: {v}"
        return held

    def _mask(self, v: ir.Value) -> Bound | Spread | None:
        if _always(v):
            return None
        held = self.groups.found.get(v) or self.held[v]
        assert not isinstance(held, ir.Value)
        return held

    # -- single ops

    def _constant(self, op: ir.Operation) -> None:
        value = op.attributes["value"]
        if isinstance(op.results[0].type, ir.VectorType):
            type_ = vector_type(self.shape.vec, element_of(op.results[0].type))
            value = ir.DenseElementsAttr.get_splat(type_, ir.DenseElementsAttr(value).get_splat_value())
            part = ir.Operation.create("arith.constant", results=[type_], attributes={"value": value}).results[0]
            self.held[op.results[0]] = Spread((part,) * self.shape.chunks)
        else:
            self._scalar(op)

    def _program_id(self, op: ir.Operation) -> None:
        self.held[op.results[0]] = self.program

    def _broadcast(self, op: ir.Operation) -> None:
        type_ = vector_type(self.shape.vec, element_of(op.results[0].type))
        part = vector.broadcast(type_, self._uniform(op.operands[0]))
        self.held[op.results[0]] = Spread((part,) * self.shape.chunks)
        self.groups.visit(op, self.held)

    def _step(self, op: ir.Operation) -> None:
        steps = self.shape.vec
        parts = [together([self.at.add(o, i) for i in range(steps)]) for o in self.offsets]
        self.held[op.results[0]] = Spread(tuple(parts))

    def _create_mask(self, op: ir.Operation) -> None:
        shape, known = self.shape, constant(op.operands[0])
        count = self._uniform(op.operands[0])
        if self.divisors.of(op.operands[0]) % shape.vec:
            raise CompileError(f"accesses of {shape.vec} elements would be cut by the mask {op}", where=str(op.location))
        inside: list[ir.Value | None] = []
        for c, o in enumerate(self.offsets):
            whole = known is not None and (c + 1) * shape.threads * shape.vec <= known
            inside.append(None if whole else self.at.below(o, count))
        self.groups.found[op.results[0]] = self.held[op.results[0]] = Bound(tuple(inside))

    def _select(self, op: ir.Operation) -> None:
        held = self.groups.found.get(op.operands[0])
        if held is None or not _blocks(op):
            self._elementwise(op)
            return
        yes, no = self._spread(op.operands[1]), self._spread(op.operands[2])
        parts = [a if p is None else arith.select(p, a, b) for p, a, b in zip(held.inside, yes.parts, no.parts, strict=True)]
        self.held[op.results[0]] = Spread(tuple(parts))

    def _read(self, op: ir.Operation) -> None:
        source, *rest = op.operands
        segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        index, pad = rest[: segments[1]], rest[segments[1]]
        mask = self._mask(rest[segments[1] + 1]) if segments[3] else None
        buffer = self._uniform(source)
        if len(index) == 2:  # a row of a square in shared memory, which is padded: single elements
            row = self._uniform(index[0])
            parts = [together([memref.load(buffer, [row, self.at.add(o, i)]) for i in range(self.shape.vec)]) for o in self.offsets]
            self.held[op.results[0]] = Spread(tuple(parts))
            return
        first = self._uniform(index[0])
        padded = mask is not None and rest[segments[1] + 1].owner.name != "vector.create_mask"
        self.held[op.results[0]] = self.memory.read(
            buffer, first, self.divisors.of(index[0]), mask, self._uniform(pad), padded
        )  # fmt: skip

    def _write(self, op: ir.Operation) -> None:
        value, target, index, *mask = op.operands
        self.memory.write(
            self._spread(value), self._uniform(target), self._uniform(index), self.divisors.of(index),
            self._mask(mask[0]) if mask else None,
        )  # fmt: skip

    def _store(self, op: ir.Operation) -> None:
        value, target, *index = op.operands
        self.memory.store_scalar(
            self._uniform(value), self._uniform(target), [self._uniform(i) for i in index], self.leader
        )  # fmt: skip

    def _gather(self, op: ir.Operation) -> None:
        source, index, mask, other = op.operands
        self.held[op.results[0]] = self.memory.gather(
            self._uniform(source), self._spread(index), self._mask(mask), self._spread(other)
        )  # fmt: skip

    def _check(self, op: ir.Operation) -> None:
        """As in eager: the device stops. What follows reads within bounds all the same."""
        held = self.groups.found.get(op.operands[0]) or self.held[op.operands[0]]
        failed: list[ir.Value] = [held] if isinstance(held, ir.Value) else []
        if isinstance(held, Bound):
            failed = [p for p in dict.fromkeys(held.inside) if p is not None]
        elif isinstance(held, Spread):
            failed = [e for part in dict.fromkeys(held.parts) for e in elements(part)]
        yes = self.at.number(1, ir.IntegerType.get_signless(1))
        for ok in failed:
            self.memory.when(arith.xori(ok, yes), lambda: ir.Operation.create("llvm.intr.trap"))

    def _alloca(self, op: ir.Operation) -> None:
        """Scratch memory of a program that its threads fill together: a square, padded against bank conflicts."""
        type_ = ir.MemRefType(op.results[0].type)
        rows, columns = type_.shape
        item = type_.element_type.width // 8
        padded = [rows, columns + square.padding(item)]
        self.held[op.results[0]] = self._attribution(
            ir.MemRefType.get(padded, type_.element_type, None, ir.Attribute.parse(WORKGROUP))
        )

    def _transpose(self, op: ir.Operation) -> None:
        source, first, rows, columns, scratch = op.operands
        buffer = self._uniform(source)
        item = ir.MemRefType(buffer.type).element_type.width // 8
        stride = ir.IntegerAttr(op.attributes["stride"]).value
        divisor = 64
        for n in (self.divisors.of(first), self.divisors.of(columns), stride, max(self.aligned[buffer] // item, 1)):
            while divisor > 1 and n % divisor:
                divisor //= 2
        bounds = [self._uniform(v) for v in (first, rows, columns)]
        square.fill(op, buffer, self._uniform(scratch), bounds, divisor, self.shape, self.memory, self.at, self.thread)

    # -- control flow

    def _for(self, op: ir.Operation) -> None:
        low, high, step, *inits = op.operands
        bounds = [self._uniform(v) for v in (low, high, step)]
        shared = SHARED in op.attributes and self.team is not None
        if shared:
            bounds = [self.at.number(0), self._turns(bounds[1]), self.at.number(1)]
        flat, shapes = self._flatten(inits)
        loop = scf.ForOp(*bounds, flat)
        body = op.regions[0].blocks[0]
        iteration = loop.induction_variable
        self.depth += 1
        outside = self.memory.active
        if shared:  # every team stores what it alone has computed
            self.memory.active = None
        with ir.InsertionPoint(loop.body):
            if shared:
                iteration = self.at.add(self.at.times(iteration, self.shape.teams), self.team)
            self.held[body.arguments[0]] = iteration
            self._hold(list(body.arguments)[1:], list(loop.inner_iter_args), shapes)
            rows = constant(high)
            if shared and (rows is None or rows % self.shape.teams):
                out = self._guarded(self.at.below(iteration, self._uniform(high)), body, list(loop.inner_iter_args))
            else:
                self._block(body)
                out = self._results(body)
            scf.YieldOp(out)
        self.depth -= 1
        self.memory.active = outside
        self._hold(list(op.results), list(loop.results), shapes)

    def _turns(self, rows: ir.Value) -> ir.Value:
        """Iterations of each team when all teams together take `rows`."""
        teams = self.shape.teams
        return self.at.over(self.at.add(rows, teams - 1), teams)

    def _results(self, body: ir.Block) -> list[ir.Value]:
        return self._flatten(list(list(body.operations)[-1].operands))[0]

    def _guarded(self, condition: ir.Value, body: ir.Block, otherwise: list[ir.Value]) -> list[ir.Value]:
        """The body's results where the condition holds."""
        branch = ir.Operation.create("scf.if", results=[v.type for v in otherwise], operands=[condition], regions=2)
        with ir.InsertionPoint(branch.regions[0].blocks.append()):
            self._block(body)
            ir.Operation.create("scf.yield", operands=self._results(body))
        if otherwise:
            with ir.InsertionPoint(branch.regions[1].blocks.append()):
                ir.Operation.create("scf.yield", operands=otherwise)
        return list(branch.results)

    def _combine(self, op: ir.Operation) -> None:
        """The teams' parts meet in shared memory; every team reads them all, in order."""
        combine = ir.StringAttr(op.attributes["combine"]).value
        mine = self._operand(op.operands[0]).parts if _blocks(op) else (self._uniform(op.operands[0]),)
        parts = [elements(p) if _blocks(op) else [p] for p in mine]
        shape, at = self.shape, self.at
        slot = self._shared(shape.cta * len(parts) * len(parts[0]), element_of(op.operands[0].type))
        if self.depth:
            barrier()
        flat = [e for p in parts for e in p]
        for i, e in enumerate(flat):
            memref.store(e, slot, [at.add(self.thread, i * shape.cta)])
        barrier()
        lane, totals = at.modulo(self.thread, shape.threads), []
        for i, e in enumerate(flat):
            seen = [memref.load(slot, [at.add(lane, i * shape.cta + t * shape.threads)]) for t in range(shape.teams)]
            total = seen[0]
            for x in seen[1:]:
                total = ir.Operation.create(combine, results=[e.type], operands=[total, x]).results[0]
            totals.append(total)
        if not _blocks(op):
            self.held[op.results[0]] = totals[0]
            return
        n = shape.vec
        self.held[op.results[0]] = Spread(tuple(together(totals[i : i + n]) for i in range(0, len(totals), n)))

    def _if(self, op: ir.Operation) -> None:
        condition = self._uniform(op.operands[0])
        yields = [list(list(r.blocks[0].operations)[-1].operands) if r.blocks else [] for r in op.regions]
        shapes = [self._is_block(v) for v in op.results]
        types = [t for r in op.results for t in self._types(r.type)]
        branch = ir.Operation.create("scf.if", results=types, operands=[condition], regions=2)
        for old, new, out in zip(op.regions, branch.regions, yields, strict=True):
            if old.blocks:
                with ir.InsertionPoint(new.blocks.append()):
                    self._block(old.blocks[0])
                    ir.Operation.create("scf.yield", operands=self._flatten(out)[0])
        self._hold(list(op.results), list(branch.results), shapes)

    def _yield(self, op: ir.Operation) -> None:
        """Written by the op that it ends."""

    def _is_block(self, v: ir.Value) -> bool:
        return isinstance(v.type, ir.VectorType)

    def _types(self, type_: ir.Type) -> list[ir.Type]:
        return [vector_type(self.shape.vec, element_of(type_))] * self.shape.chunks if isinstance(type_, ir.VectorType) else [type_]

    def _flatten(self, values: list[ir.Value]) -> tuple[list[ir.Value], list[bool]]:
        """The parts of all values, and which of the values are blocks."""
        flat: list[ir.Value] = []
        for v in values:
            flat += self._spread(v).parts if self._is_block(v) else [self._uniform(v)]
        return flat, [self._is_block(v) for v in values]

    def _hold(self, olds: list[ir.Value], news: list[ir.Value], blocks: list[bool]) -> None:
        for old, block in zip(olds, blocks, strict=True):
            n = self.shape.chunks if block else 1
            mine, news = news[:n], news[n:]
            self.held[old] = Spread(tuple(mine)) if block else mine[0]


def _attributes(op: ir.Operation) -> list[Any]:
    return [op.attributes[i] for i in range(len(op.attributes))]


def _blocks(op: ir.Operation) -> bool:
    return any(isinstance(v.type, ir.VectorType) for v in (*op.operands, *op.results))


def _kind(op: ir.Operation) -> str:
    return str(op.attributes["kind"]).removeprefix("#vector.kind<").removesuffix(">")


def _always(v: ir.Value) -> bool:
    """Whether a mask is the constant true."""
    if isinstance(v, ir.BlockArgument) or v.owner.name != "arith.constant":
        return False
    value = ir.DenseElementsAttr(v.owner.attributes["value"])
    return value.is_splat and bool(ir.IntegerAttr(value.get_splat_value()).value)


_HANDLERS: dict[str, Any] = {
    "arith.constant": Kernel._constant, "arith.select": Kernel._select, "tile.program_id": Kernel._program_id,
    "vector.broadcast": Kernel._broadcast, "vector.step": Kernel._step, "vector.create_mask": Kernel._create_mask,
    "vector.transfer_read": Kernel._read, "vector.transfer_write": Kernel._write, "memref.store": Kernel._store,
    "tile.gather": Kernel._gather, "tile.check": Kernel._check, "memref.alloca": Kernel._alloca,
    "tile.transpose": Kernel._transpose, "tile.combine": Kernel._combine, "scf.for": Kernel._for, "scf.if": Kernel._if, "scf.yield": Kernel._yield,
    "func.return": Kernel._yield,
}  # fmt: skip
