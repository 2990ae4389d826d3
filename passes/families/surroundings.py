"""Collects calls of products with their prologue and epilogue, and builds the single group that becomes one of Lamina's kernels."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from torch_mlir import ir

from lamina.dialects.graph import CALLS
from lamina.schedules.contraction import GemmConfig

from ..ir.affine import row_major
from ..ir.copying import copy_ops
from ..ir.extern_calls import declared_strides
from ..ir.locations import fused, model_ops, op_word
from ..ir.reading import Untraceable, element_type, producer, shape_of
from ..space.contraction import MOST, Contraction, Unfit, contraction_of
from ..space.direct_convolution import WINDOW
from ..space.implicit_gemm import windows_of
from ..space.space import find_space
from ..trace.materialize import given_strides
from .choice import CHOICE, Extent
from .conv.layout_calls import channels_last
from .conv.products import Convolution, computed
from .gemm.column_sums import ColumnBlocks
from .gemm.products import Product
from .gemm.prologues import compute_before, erase_before, feeding, read_before
from .gemm.row_sums import BlockSums, is_reduction
from .gemm.split_glu import in_halves, may_meet
from .gemm.split_groups import Pieces, split_at_sums

BLOCK = GemmConfig()  # its tile is used for row and column sums where no schedule is chosen yet


@dataclass(frozen=True)
class GemmProblem:
    """Calls that are decided on together: a product or convolution, or products with one left operand that a group reads.

    group   the epilogue: the only user of the calls' results, if that is a group
    before  the prologue: ops that only compute operands of the calls, to be fused into the kernel (see prologues.feeding)
    """

    ops: tuple[ir.Operation, ...]
    group: ir.Operation | None
    before: tuple[ir.Operation, ...] = ()

    @property
    def last(self) -> ir.Operation:
        """The op that produces the results of the problem."""
        return self.group or self.ops[-1]

    def alone(self) -> "GemmProblem":
        """Returns the first call alone, without the epilogue."""
        return GemmProblem(self.ops[:1], None, self.before if len(self.ops) == 1 else ())

    def extended(self, extent: Extent) -> "GemmProblem":
        """Returns the ops that a choice of this extent covers."""
        if extent == "first":
            return GemmProblem(self.ops[:1], self.group)
        return replace(self, before=feeding(self.ops)) if extent == "prologue" else self


def calls(module: ir.Module) -> list[ir.Operation]:
    """Returns the graph.extern ops of a module."""
    return _ops(module, "graph.extern")


def kernels(module: ir.Module) -> list[ir.Operation]:
    """Returns the graph.kernel ops of a module."""
    return _ops(module, "graph.kernel")


def _ops(module: ir.Module, name: str) -> list[ir.Operation]:
    functions = [f.operation for f in module.body.operations if f.operation.name == "func.func" and f.operation.regions[0].blocks]
    return [o.operation for f in functions for o in f.regions[0].blocks[0].operations if o.operation.name == name]


def gemm_problems(module: ir.Module) -> Iterator[GemmProblem]:
    """Yields the problems of all calls that Lamina's kernels may compute, in order, each call once. Each problem is built only when
    it is asked for, since rewriting earlier ones changes what reads the calls."""
    ops = calls(module)
    number = {op.results[0]: i for i, op in enumerate(ops) if len(op.results)}  # an op's hash changes with its operands
    taken: set[int] = set()
    for i, op in enumerate(ops):
        if i not in taken and computed(op) is not None:
            problem = problem_of(op)
            taken.update(number[o.results[0]] for o in problem.ops)
            yield problem


def problem_of(op: ir.Operation) -> GemmProblem:
    """Returns the problem that the call of a product or convolution belongs to, without a prologue."""
    group = reader(op)
    if group is not None:
        together = GemmProblem(tuple(o for v in group.operands if (o := producer(v)) is not None and _beside(o, op, group)), group)
        if 1 < len(together.ops) <= MOST:
            with suppress(Unfit), op.context:
                _made(together, BLOCK).erase()
                return together
    return GemmProblem((op,), group)


def reader(op: ir.Operation) -> ir.Operation | None:
    """Returns the group that is the only user of a call's result, unless it has a schedule of its own; else None."""
    users = {use.owner for use in op.results[0].uses}
    if len(users) != 1:
        return None
    user = next(iter(users)).operation
    return user if user.name == "graph.group" and CHOICE not in user.attributes else None


def _beside(op: ir.Operation, other: ir.Operation, group: ir.Operation) -> bool:
    """Whether `op` may share a kernel with `other`, which `group` reads: both have the same left operand and graph.choice."""
    one, two = Product.read(op), Product.read(other)
    if one is None or two is None or (reader(op) or op) != group or op.attributes.get(CHOICE) != other.attributes.get(CHOICE):
        return False
    return one.a == two.a and one.b.type == two.b.type


@dataclass(frozen=True)
class MadeProgram:
    """A candidate group, built beside the problem that it would replace, and its contraction.

    pieces  the split epilogue, where the candidate holds only the first piece
    """

    group: ir.Operation
    product: Contraction
    pieces: Pieces | None = None

    def erase(self) -> None:
        """Discards the candidate."""
        self.group.erase()
        if self.pieces is not None:
            self.pieces.erase()

    def replace(self, problem: GemmProblem) -> None:
        """Replaces the problem by the candidate."""
        results = list(self.group.results)
        if self.pieces is not None:
            mine = dict(zip(self.pieces.first.results, results, strict=True))
            for old, new in mine.items():
                old.replace_all_uses_with(new)
            results = [mine.get(v, v) for v in self.pieces.results]
            self.pieces.first.erase()
        for old, new in zip(problem.last.results, results, strict=True):
            old.replace_all_uses_with(new)
        for op in (problem.group, *problem.ops):
            if op is not None:
                op.erase()
        erase_before(problem.before)


def joined(problem: GemmProblem, config: GemmConfig = BLOCK) -> ir.Operation:
    """Replaces a problem by one group, and returns it; only its first call where one kernel cannot compute the whole problem. If
    the epilogue has row sums, the group yields sums over blocks of columns, and another group computes the rest. Raises Unfit, with
    nothing changed, where a kernel cannot compute the first call either."""
    part, made = best_of(problem, config)
    made.replace(part)
    return made.group


def best_of(problem: GemmProblem, config: GemmConfig) -> tuple[GemmProblem, MadeProgram]:
    """Builds the candidate for a problem, or for its first call alone where one kernel cannot compute the whole problem. Returns
    what the candidate is for, and the candidate. Raises Unfit where a kernel cannot compute the first call either."""
    if problem.group is not None:
        for make in (_made, _made_first, _made_of_halves):
            with suppress(Unfit):
                return problem, make(problem, config)
    return problem.alone(), _made(problem.alone(), config)


def _made_first(problem: GemmProblem, config: GemmConfig) -> MadeProgram:
    """Builds the candidate with an epilogue split at its row or column sums. Raises Unfit without such sums, or as _made does."""
    assert problem.group is not None
    if Product.read(problem.ops[0]) is None:
        raise Unfit("sums of what follows a convolution")
    pieces = split_at_sums(problem.group, [op.results[0] for op in problem.ops], config)
    try:
        return replace(_made(replace(problem, group=pieces.first), config), pieces=pieces)
    except Unfit:
        pieces.erase()
        raise


def _made_of_halves(problem: GemmProblem, config: GemmConfig) -> MadeProgram:
    """Builds the candidate for gate and up as column halves of one product. Raises Unfit without such halves, or as _made does."""
    products = [Product.read(op) for op in problem.ops]
    if len(products) > 1 or products[0] is None or problem.group is None or not may_meet(products[0], problem.group):
        raise Unfit("no halves of the columns of a product")
    return _made(problem, config, in_halves)


def _made(
    problem: GemmProblem, config: GemmConfig, emit: Callable[..., ir.Value] = lambda product, operands: product.emit(operands)
) -> MadeProgram:
    """Builds the candidate for a problem, beside it. emit: emits a product on the block's arguments. Raises Unfit where a kernel
    with these tiles cannot compute it."""
    products = [p for op in problem.ops if (p := computed(op)) is not None]
    group, sums = problem.group, [op.results[0] for op in problem.ops]
    after = [] if group is None else [v for v in group.operands if v not in sums]
    given = {r for op in problem.before for r in op.results}
    factors = [v for p in products for v in p.operands if v not in given]
    operands = list(dict.fromkeys([*read_before(problem.before), *factors, *after]))
    location = fused([o.location for o in (*problem.before, *problem.ops, group) if o is not None])
    words = dict.fromkeys(op_word(name) for name in model_ops(location))
    with location, ir.InsertionPoint(problem.last):
        name = {"sym_name": ir.StringAttr.get("_".join(list(words)[:5]) or "product")}
        results = [v.type for v in problem.last.results]
        new = ir.Operation.create("graph.group", results=results, operands=operands, attributes=name, regions=1)
        if any(isinstance(p, Convolution) for p in products):
            new.attributes[WINDOW] = ir.UnitAttr.get()
        block = new.regions[0].blocks.append(*[v.type for v in operands])
        values = dict(zip(operands, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            compute_before(problem.before, values)
            made = [emit(p, [values[v] for v in p.operands]) for p in products]
            if group is not None:
                values.update(zip(sums, made, strict=True))
                made = copy_body(group, values)
            ir.Operation.create("graph.yield", operands=made)
    try:
        product = product_in(new)
        if any(n not in (0, config.n) for n in product.summed) or any(m not in (0, config.m) for m in product.stacked):
            raise Unfit(f"sums of other than {config.n} columns, or {config.m} rows")
    except (Unfit, Untraceable) as e:
        new.erase()
        raise Unfit(str(e)) from None
    return MadeProgram(new, product)


def copy_body(group: ir.Operation, values: dict[ir.Value, ir.Value]) -> list[ir.Value]:
    """Clones a group's ops at the insertion point, on `values` for its operands; returns its results."""
    inner = group.regions[0].blocks[0]
    *ops, end = inner.operations
    made = {a: values[v] for a, v in zip(inner.arguments, group.operands, strict=True)}
    copy_ops(ops, made)
    return [made[v] for v in end.operands]


def strides_of(v: ir.Value) -> tuple[int, ...]:
    """Returns the strides of a value of @main, in elements, as far as they are known before memory is planned."""
    block = v.owner if isinstance(v, ir.BlockArgument) else v.owner.operation.block
    return _strides(v, given_strides(block))


def _strides(v: ir.Value, given: dict[ir.Value, tuple[int, ...]]) -> tuple[int, ...]:
    op = producer(v)
    if v in given:
        return given[v]
    if op is not None and op.name in CALLS:
        return declared_strides(v)
    if op is not None and op.name == "linalg.transpose":
        source = _strides(op.operands[0], given)
        return tuple(source[d] for d in ir.DenseI64ArrayAttr(op.attributes["permutation"]))
    return row_major(shape_of(v))


def product_in(group: ir.Operation) -> Contraction:
    """Returns the contraction of a group with products. Raises Unfit or Untraceable where a GEMM kernel cannot compute it."""
    given = given_strides(group.operation.block)
    ins, outs = [_strides(v, given) for v in group.operands], [row_major(shape_of(v)) for v in group.results]
    if WINDOW in group.attributes:  # lamina-plan lays images out channels last
        ins = [_last(v, s) for v, s in zip(group.operands, ins, strict=True)]
        outs = [_last(v, s) for v, s in zip(group.results, outs, strict=True)]
    return product_on(group, ins, outs)


def _last(v: ir.Value, strides: tuple[int, ...]) -> tuple[int, ...]:
    return channels_last(shape_of(v)) if len(strides) == 4 else strides


def product_on(group: ir.Operation, ins: Sequence[tuple[int, ...]], outs: Sequence[tuple[int, ...]]) -> Contraction:
    """Returns the contraction of a group. ins, outs: the strides of its operands and results."""
    return product_of(group.regions[0].blocks[0], ins, outs)


def product_of(
    block: ir.Block, ins: Sequence[tuple[int, ...]], outs: Sequence[tuple[int, ...]], *, round_half: bool = False
) -> Contraction:
    """Returns the contraction of the block of a group or kernel function. For sums over blocks, the results are what is summed."""
    ends = list(list(block.operations)[-1].operands)
    sums = [BlockSums.read(v) or ColumnBlocks.read(v) for v in ends]
    for v, strides, sum_ in zip(ends, outs, sums, strict=True):
        if sum_ is not None and strides != row_major(shape_of(v)):
            raise Unfit("sums of blocks that do not lie one row after the other")
    whole = [v if s is None else s.value for v, s in zip(ends, sums, strict=True)]
    places = [o if s is None else row_major(shape_of(s.value)) for o, s in zip(outs, sums, strict=True)]
    strides_in = dict(zip(block.arguments, ins, strict=True))
    centered = [isinstance(s, BlockSums) and s.centered for s in sums]  # summed as stored, since a variance may depend on rounding
    space = find_space(block, strides_in, places, outs=whole, divide=True, round_half=round_half or any(centered))
    if WINDOW in block.owner.attributes and not any(sums):
        return windows_of(space, _factors_in(block))
    found = contraction_of(space, _factors_in(block), [s.columns if isinstance(s, BlockSums) else 0 for s in sums])
    stacked = tuple(s.rows if isinstance(s, ColumnBlocks) else 0 for s in sums)
    for result, rows in zip(found.results, stacked, strict=True):
        if rows and not found.is_whole(result.at):
            raise Unfit("sums over rows of what is no row of the product for each")
    return replace(found, centered=tuple(centered), stacked=stacked)


def _factors_in(block: ir.Block) -> str:
    """Returns the operand type of the first product of a block. Raises Unfit where there is no sum over two operands."""
    sums = (o.operation for o in block.operations if is_reduction(o.operation))
    of = next((op for op in sums if len(op.operands) == 3), None)
    if of is None:
        raise Unfit("no product")
    return element_type(of.operands[0])
