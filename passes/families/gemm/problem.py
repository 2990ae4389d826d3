"""Collects calls of products with their prologue and epilogue, and builds the single group that becomes one of Lamina's kernels."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from torch_mlir import ir

from lamina.core.sizes import is_symbolic
from lamina.schedules.contraction import GemmConfig

from ...ir.expressions import Load, walk
from ...ir.reading import Untraceable, producer
from ...space.contraction import MOST, Contraction, Unfit, extent
from ...space.direct_convolution import WINDOW
from ..choice import CHOICE, Cover
from ..conv.implicit_gemm import ImplicitGemm
from ..surroundings import ValueMap, calls, copy_body, group_before, has_symbolic_sizes, only_reader, replace_by
from .contractions import product_in
from .products import Product, read_product
from .prologues import compute_before, erase_before, prologue_of, read_before
from .split_glu import in_halves, may_meet
from .split_groups import Pieces, split_at_sums

BLOCK = GemmConfig()  # its tile is used for row and column sums where no schedule is chosen yet


@dataclass(frozen=True)
class GemmProblem:
    """Calls that are decided on together: a product or convolution, or products with one left operand that a group reads.

    group   the epilogue: the only user of the calls' results, if that is a group
    before  the prologue: ops that only compute operands of the calls, to be fused into the kernel (see prologues.prologue_of)
    """

    ops: tuple[ir.Operation, ...]
    group: ir.Operation | None
    before: tuple[ir.Operation, ...] = ()

    @property
    def is_symbolic(self) -> bool:
        """Whether some size of the calls is symbolic."""
        return any(map(has_symbolic_sizes, self.ops))

    @property
    def is_fast(self) -> bool:
        """Whether the sums of no product must have the digits of f32."""
        return all(product.fast for op in self.ops if (product := Product.read(op)))

    @property
    def last(self) -> ir.Operation:
        """The op that produces the results of the problem."""
        return self.group or self.ops[-1]

    def alone(self) -> "GemmProblem":
        """Returns the first call alone, without the epilogue."""
        return GemmProblem(self.ops[:1], None, self.before if len(self.ops) == 1 else ())

    def covering(self, cover: Cover) -> "GemmProblem":
        """Returns the problem of the ops that a choice covers."""
        if cover == "first":
            return GemmProblem(self.ops[:1], self.group)
        return replace(self, before=prologue_of(self.ops)) if cover == "prologue" else self


def gemm_problems(module: ir.Module) -> Iterator[GemmProblem]:
    """Yields the problems of all calls that Lamina's kernels may compute, in order, each call once. Each problem is built only when
    it is asked for, since rewriting earlier ones changes what reads the calls."""
    ops = calls(module, symbolic=True)
    number = {op.results[0]: i for i, op in enumerate(ops) if len(op.results)}  # an op's hash changes with its operands
    covered: set[int] = set()
    for i, op in enumerate(ops):
        if i not in covered and read_product(op) is not None:
            problem = problem_of(op)
            covered.update(number[o.results[0]] for o in problem.ops)
            yield problem


def problem_of(op: ir.Operation) -> GemmProblem:
    """Returns the problem that the call of a product or convolution belongs to, without a prologue."""
    group = only_reader(op)
    if group is not None:
        together = GemmProblem(
            tuple(o for v in group.operands if (o := producer(v)) is not None and _may_join(o, op, group)), group
        )
        if 1 < len(together.ops) <= MOST:
            with suppress(Unfit), op.context:
                _build(together, BLOCK).erase()
                return together
    return GemmProblem((op,), group)


def _may_join(op: ir.Operation, other: ir.Operation, group: ir.Operation) -> bool:
    """Returns whether `op` may share a kernel with `other`, which `group` reads: both have the same left operand and
    graph.choice."""
    one, two = Product.read(op), Product.read(other)
    if one is None or two is None or (only_reader(op) or op) != group:
        return False
    choices = {str(o.attributes[CHOICE]) if CHOICE in o.attributes else "" for o in (op, other)}
    return len(choices) == 1 and one.a == two.a and one.b.type == two.b.type


@dataclass(frozen=True)
class GemmProgram:
    """A candidate group, which stands in front of the calls that it would replace, and its contraction.

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
            new_of = dict(zip(self.pieces.first.results, results, strict=True))
            for old, new in new_of.items():
                old.replace_all_uses_with(new)
            results = [new_of.get(v, v) for v in self.pieces.results]
            self.pieces.first.erase()
        replace_by(results, problem.group, problem.ops)
        erase_before(problem.before)


def as_one_group(problem: GemmProblem, config: GemmConfig = BLOCK) -> ir.Operation:
    """Replaces a problem by one group, and returns it; only its first call where one kernel cannot compute the whole problem. If
    the epilogue has row sums, the group yields sums over blocks of columns, and another group computes the rest. Raises Unfit, with
    nothing changed, where a kernel cannot compute the first call either."""
    part, program = best_of(problem, config)
    program.replace(part)
    return program.group


def best_of(problem: GemmProblem, config: GemmConfig) -> tuple[GemmProblem, GemmProgram]:
    """Builds the candidate for a problem, or for its first call alone where one kernel cannot compute the whole problem. Returns
    what the candidate is for, and the candidate. Raises Unfit if a kernel cannot compute the first call either."""
    if problem.group is not None:
        for make in (_build, _build_with_sums, _build_halves):
            with suppress(Unfit):
                return problem, make(problem, config)
    return problem.alone(), _build(problem.alone(), config)


def _build_with_sums(problem: GemmProblem, config: GemmConfig) -> GemmProgram:
    """Builds the candidate with an epilogue split at its row or column sums. Raises Unfit without such sums, or as _build does."""
    assert problem.group is not None
    if Product.read(problem.ops[0]) is None:
        raise Unfit("sums of what follows a convolution")
    if problem.is_symbolic:
        raise Unfit("sums over blocks of a symbolic size")
    pieces = split_at_sums(problem.group, [op.results[0] for op in problem.ops], config)
    try:
        return replace(_build(replace(problem, group=pieces.first), config), pieces=pieces)
    except Unfit:
        pieces.erase()
        raise


def _build_halves(problem: GemmProblem, config: GemmConfig) -> GemmProgram:
    """Builds the candidate for gate and up as column halves of one product. Raises Unfit without such halves, or as _build does."""
    products = [Product.read(op) for op in problem.ops]
    if len(products) > 1 or products[0] is None or problem.group is None or not may_meet(products[0], problem.group):
        raise Unfit("no halves of the columns of a product")
    return _build(problem, config, in_halves)


def _build(
    problem: GemmProblem, config: GemmConfig, emit: Callable[..., ir.Value] = lambda product, operands: product.emit(operands)
) -> GemmProgram:
    """Builds the candidate for a problem, in front of it. emit: emits a product on the block's arguments. Raises Unfit if a
    kernel with these tiles cannot compute it."""
    products = [p for op in problem.ops if (p := read_product(op)) is not None]
    group, sums = problem.group, [op.results[0] for op in problem.ops]
    after = [] if group is None else [v for v in group.operands if v not in sums]
    prologue_results = {r for op in problem.before for r in op.results}
    factors = [v for p in products for v in p.operands if v not in prologue_results]
    operands = list(dict.fromkeys([*read_before(problem.before), *factors, *after]))
    results = [v.type for v in problem.last.results]
    replaced = [o for o in (*problem.before, *problem.ops, group) if o is not None]

    def fill(values: ValueMap) -> list[ir.Value]:
        """Computes the products and the groups around them."""
        compute_before(problem.before, values)
        emitted = [emit(p, [values[v] for v in p.operands]) for p in products]
        return emitted if group is None else copy_body(group, {**values, **dict(zip(sums, emitted, strict=True))})

    new = group_before(problem.last, replaced, {v: v for v in operands}, results, fill, "product")
    if any(isinstance(p, ImplicitGemm) for p in products):
        new.attributes[WINDOW] = ir.UnitAttr.get()
    try:
        product = product_in(new)
        if problem.is_symbolic:
            _check_open(product, WINDOW in new.attributes)
        if any(n not in (0, config.n) for n in product.summed) or any(m not in (0, config.m) for m in product.stacked):
            raise Unfit(f"sums of other than {config.n} columns, or {config.m} rows")
    except (Unfit, Untraceable) as e:
        new.erase()
        raise Unfit(str(e)) from None
    return GemmProgram(new, product)


def _check_open(product: Contraction, windows: bool) -> None:
    """Raises Unfit for a product of symbolic sizes that blocks cannot compute. windows: it is a convolution."""
    if is_symbolic((product.batches, extent(product.inner))):
        raise Unfit("a batch of products, or an inner dimension, of symbolic size")
    of_factors = [product.a, *product.bs]
    loads = [e for root in (*of_factors, *(r.expr for r in product.results)) for e in walk(root) if isinstance(e, Load)]
    places = [*(e.offset for e in loads if not e.guard), *(r.offset for r in product.results)]
    even = [index for index in places if product.merged.is_even(index)]
    if len(even) < len(places) and not windows:
        raise Unfit("memory of symbolic sizes that is not an array along the rows and columns")
    if any(is_symbolic(index.constant) for index in even):
        raise Unfit("an array whose first element is in a place that each call decides")
