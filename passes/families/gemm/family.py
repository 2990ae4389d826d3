"""The family of GEMM kernels: matrix products, and convolutions as implicit GEMM."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.sizes import is_symbolic
from lamina.core.target import Target
from lamina.kernels.library import PRODUCTS, STRICT
from lamina.schedules import convolution_cost, product_classes, product_cost
from lamina.schedules.contraction import GemmConfig

from ...ir.reading import callee_of, producer, shape_of
from ...ir.sizes import i64, size_attribute
from ...space.contraction import Unfit
from ..choice import DIRECT, LIBRARY, SMALLER, Choice, Cover
from ..conv.calls import channels_last
from ..conv.depthwise import fits_direct, replace_by_direct
from ..conv.implicit_gemm import ImplicitGemm
from ..problem import Family, Problem, Reported
from ..surroundings import plain_name, strides_of
from .problem import GemmProblem, as_one_group, gemm_problems
from .products import Product, read_product
from .prologues import prologue_of
from .split_k import split_inner
from .work import work_of

_FIRST = 2  # candidates for the first of two products that meet
_PROLOGUES = 6  # candidates with a prologue
_FLOAT8 = 89  # the compute capability from which on tensor cores and Triton support 8-bit floats


@dataclass(frozen=True)
class ProductProblem(Problem):
    """Products that are decided on together, or a convolution. defaults: defaults of problems alike."""

    gemm: GemmProblem
    defaults: dict[str, Choice] = field(default_factory=dict)

    @property
    def ops(self) -> Sequence[ir.Operation]:
        """The calls."""
        return self.gemm.ops

    @property
    def group(self) -> ir.Operation | None:
        """The epilogue."""
        return self.gemm.group

    @property
    def before(self) -> Sequence[ir.Operation]:
        """The prologue, whether a kernel covers it or not."""
        return prologue_of(self.gemm.ops)

    @property
    def factors(self) -> Sequence[ir.Value]:
        """The factors of a product, which come after its addend, or before scales; image and weight of a convolution."""
        first = ImplicitGemm.read(self.ops[0]) is not None or callee_of(self.ops[0]) in STRICT
        return list(self.ops[0].operands)[:2] if first else list(self.ops[0].operands)[-2:]

    def strides(self, operand: ir.Value) -> Sequence[int]:
        """Returns the strides that an operand will have: Lamina's kernels write channels-last images where convolutions are
        near."""
        defining = producer(operand)
        images = defining is not None and defining.name == "graph.group" and len(shape_of(operand)) == 4
        near = images and ImplicitGemm.read(self.ops[0]) is not None
        return channels_last(shape_of(operand)) if near else strides_of(operand)

    def default(self, gpu: Gpu | None) -> Choice:
        """Returns the cost model's choice: the library's where nothing surrounds a product, and for convolutions, whose estimates
        were never held against measurements."""
        groups = [g for g in (*prologue_of(self.ops), self.group) if g is not None and g.name == "graph.group"]
        if gpu is None or not groups or Product.read(self.ops[0]) is None:
            return LIBRARY
        values = [v for op in (*self.ops, *groups) for v in (*op.operands, *op.results)]
        names = map(plain_name, groups)
        alike = " ".join((str(len(self.ops)), str(self.group is None), *(str(v.type) for v in values), *names))
        if alike not in self.defaults:
            self.defaults[alike] = _default_for_symbolic(self.gemm, gpu) if self.gemm.is_symbolic else choices_of(self.gemm, gpu)[1]
        return self.defaults[alike]

    def candidates(self, gpu: Gpu) -> Sequence[Choice]:
        """Returns the choices, the most promising first; none for symbolic sizes, at which nothing can be measured."""
        return () if self.gemm.is_symbolic else choices_of(self.gemm, gpu)[0]

    def take(self, choice: Choice, target: Target | None) -> None:
        """Replaces the calls, with the ops around them that the choice covers, by groups."""
        if choice == DIRECT:
            if len(self.ops) > 1 or not fits_direct(self.ops[0]):
                raise Unfit("no convolution that is computed directly")
            replace_by_direct(self.ops[0])
            return
        config = choice.kernel
        if not isinstance(config, GemmConfig):
            raise Unfit("no schedule of products")
        if config.fast and not self.gemm.is_fast:
            raise Unfit("fast=1 of a product whose sums must have the digits of f32")
        problem = self.gemm.covering(choice.cover)
        if self.gemm.is_symbolic and (config.parts > 1 or choice.cover):
            raise Unfit("symbolic sizes in parts of the inner dimension, or with a prologue")
        if choice.cover == "prologue" and not problem.before:
            raise Unfit("no group makes a factor of the product, and nothing else")
        fewer = _for_fewer(problem, config, target) if self.gemm.is_symbolic else None
        group = as_one_group(problem, config) if config.parts == 1 else split_inner(problem, config.parts)
        Choice(config).write(group)
        if fewer is not None:
            group.attributes[SMALLER] = fewer


class GemmFamily(Family):
    """Matrix products and convolutions as implicit GEMM."""

    computes = "products of matrices and convolutions of f16, bf16 and f32 rounded to tf32, and products of scaled f8E4M3FN"
    schedules = (GemmConfig,)
    reported = Reported("matrix product", PRODUCTS, slice(-2, None))  # an addend comes first

    def reads(self, op: ir.Operation) -> bool:
        """Returns whether a GEMM kernel may compute a call."""
        return read_product(op) is not None

    def problems(self, module: ir.Module) -> Iterator[ProductProblem]:
        """Yields a problem for each call, or for those that meet in one group."""
        known: dict[str, Choice] = {}
        for problem in gemm_problems(module):
            yield ProductProblem(problem, known)


def choices_of(problem: GemmProblem, gpu: Gpu) -> tuple[tuple[Choice, ...], Choice]:
    """Returns the choices of Lamina's kernels, the most promising first, and the default where nothing was measured. There are no
    choices where tiles cannot compute the product."""
    if (found := ImplicitGemm.read(problem.ops[0])) is not None:
        return _convolution_candidates(problem, found, gpu), LIBRARY
    work = work_of(problem)
    if work is None or (gpu.capability < _FLOAT8 and _has_float8(problem)):
        return (), LIBRARY
    choices = [Choice(c) for c in product_cost.candidates(work, gpu)]
    default = _or_library(product_cost.default_schedule(work, gpu))
    with_prologue = problem.covering("prologue")
    if with_prologue.before and (fed := work_of(with_prologue)) is not None and fed.prologue is not None:
        inside = [Choice(c, "prologue") for c in product_cost.candidates(fed, gpu)[:_PROLOGUES]]
        choices = [*inside[:1], *choices[:1], *inside[1:], *choices[1:]]
        best = product_cost.default_schedule(fed, gpu)
        apart = product_cost.lamina_seconds(product_cost.candidates(work, gpu)[0], work, gpu) + fed.prologue.before_seconds(gpu)
        if best is not None and product_cost.lamina_seconds(best, fed, gpu) < product_cost.PROLOGUE_WORTH * apart:
            default = Choice(best, "prologue")
    if len(problem.ops) > 1 and (one := work_of(problem.covering("first"))) is not None:
        choices += [Choice(c, "first") for c in product_cost.candidates(one, gpu)[:_FIRST]]
        if default == LIBRARY:
            default = _or_library(product_cost.default_schedule(one, gpu), "first")
    if problem.is_fast:
        choices = [_fast(c) for c in choices]
    return tuple(choices), default


def _default_for_symbolic(problem: GemmProblem, gpu: Gpu) -> Choice:
    """Returns the default for products with a symbolic number of rows or columns."""
    work, product = work_of(problem), Product.read(problem.ops[0])
    if work is None or product is None or (gpu.capability < _FLOAT8 and _has_float8(problem)):
        return LIBRARY
    _, rows, columns, _ = product.sizes
    if is_symbolic(rows) and is_symbolic(columns):
        return LIBRARY
    return _or_library(product_classes.for_all_sizes(work, gpu, rows=is_symbolic(rows)))


def _for_fewer(problem: GemmProblem, config: GemmConfig, target: Target | None) -> ir.Attribute | None:
    """Returns the choices for calls with few rows or columns, whichever are symbolic, as `SMALLER` has them; None without any."""
    work, product = work_of(problem), Product.read(problem.ops[0])
    if target is None or work is None or product is None:
        return None
    _, rows, columns, _ = product.sizes
    of_rows = is_symbolic(rows)
    configs = product_classes.for_fewer(work, target.gpu, config, rows=of_rows)
    if not configs or (of_rows and is_symbolic(columns)):
        return None
    most = [i64(most) for most, _ in configs]
    choices = [ir.StringAttr.get(str(smaller)) for _, smaller in configs]
    size = size_attribute(rows if of_rows else columns)
    return ir.DictAttr.get({"size": size, "most": ir.ArrayAttr.get(most), "choices": ir.ArrayAttr.get(choices)})


def _or_library(config: GemmConfig | None, cover: Cover = "") -> Choice:
    return LIBRARY if config is None else Choice(config, cover)


def _fast(choice: Choice) -> Choice:
    return replace(choice, kernel=replace(choice.kernel, fast=1)) if isinstance(choice.kernel, GemmConfig) else choice


def _convolution_candidates(problem: GemmProblem, convolution: ImplicitGemm, gpu: Gpu) -> tuple[Choice, ...]:
    """Returns the choices for a convolution."""
    direct = (DIRECT,) if fits_direct(problem.ops[0]) else ()
    work = work_of(problem) if convolution.feeds_blocks else None
    if work is None:
        return direct
    plain = [c for c in product_cost.candidates(work, gpu) if c.parts == 1]
    first, *rest = plain if convolution.is_product else convolution_cost.candidates(work, convolution.channels, gpu)
    return (Choice(first), *direct, *map(Choice, rest))


def _has_float8(problem: GemmProblem) -> bool:
    ops = [op for op in (*problem.ops, problem.group) if op is not None]
    return any("f8E" in str(v.type) for op in ops for v in (*op.operands, *op.results))
