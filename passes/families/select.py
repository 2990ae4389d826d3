"""lamina-select-kernels: moves matrix products and convolutions from library calls to Lamina's kernels, with fused epilogues.

The choice for each call is its `graph.choice`, as tuning writes it, or the cost model's default (schedules/product_cost.py).
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.core.target import Target
from lamina.schedules import convolution_cost, product_cost
from lamina.schedules.contraction import GemmConfig

from ..infra.base import Pass
from ..ir.locations import where
from ..space.contraction import Unfit
from .conv.depthwise import STRIPS, fits_strips
from .conv.products import Convolution, computed
from .gemm.library_epilogues import CUBLASLT, take_activation
from .gemm.products import Product
from .gemm.prologues import feeding
from .gemm.split_k import split_inner
from .gemm.work import work_of
from .grouped_products import Grouped
from .surroundings import CHOICE, Problem, bundles, calls, joined

LIBRARY = "library"
HALF = "half "  # before a schedule: Lamina's kernel computes the first of two products that meet in a group, the library the other
_HALVES = 2  # of these candidates
PROLOGUE = "prologue "  # before a schedule: groups that only compute an operand of the product are fused into its kernel
_PROLOGUES = 6  # of these candidates
_FLOAT8 = 89  # the compute capability from which on tensor cores and Triton support 8-bit floats
_NUMBER = re.compile(r"_\d+$")  # the suffix that tells groups of the same name apart


@dataclass(frozen=True)
class SelectKernels(Pass):
    """Turn calls of matrix products and convolutions into Lamina's kernels where `graph.choice` on the call says so.

    Before: @main holds groups and externs. After: every product whose `graph.choice` is a schedule (schedules/contraction.py) is a
    group, together with its only reader if that is a group: the epilogue is computed in registers. Two products that share their
    left operand and meet in one group, as gate and up of SwiGLU do, become one group with it, and so do gate and up that are the
    column halves of one product. lamina-tile turns a group with a schedule into a program over tiles of the result.

    A call without the attribute, or with "library", stays. Other choices and cases:

    - "half SCHEDULE": of two products that meet, only the first becomes Lamina's kernel, the other stays.
    - "prologue SCHEDULE": groups that only compute an operand of the product are fused into its kernel, on blocks that it loads.
    - "cublaslt": the library's call also computes the ReLU or the tanh form of GELU that the group begins with.
    - Row sums in the epilogue: the kernel yields f32 partial sums of blocks of columns, and a second group adds them. Column sums,
      such as gradients of biases, are likewise split by blocks of rows. For a norm the kernel also yields the norm's input and
      the squared distances from each block's mean; a second group combines these to statistics of rows, and a third normalizes,
      reading the input once.
    - Split-K (a schedule with `parts`): the kernel yields f32 sums of each part of the inner dimension, and a second group adds
      them and computes the epilogue.
    - A 2-D convolution of f16 or bf16 with a channels-last result is an implicit GEMM of pixels by features: its group sums over
      windows and is marked `graph.window`, too. A grouped convolution is one product per group; with "strips" the call stays for
      lamina-depthwise.
    - A grouped GEMM (_grouped_mm) becomes a call of Lamina's kernel with a hook for the epilogue.

        %0 = "graph.extern"(%x, %w) {callee = "aten.mm.default", graph.choice = "triton{m=128 n=128}", ...}
        %1 = "graph.group"(%0) ({ relu })
     -> %1 = "graph.group"(%x, %w) ({ sum of products ; relu }) {graph.choice = "triton{m=128 n=128}"}

    target    the GPU whose cost model decides on products without graph.choice whose only reader is a group (none: they stay)
    schedule  the choice for all products without graph.choice that it can compute ("": the cost model decides)
    """

    name: ClassVar[str] = "lamina-select-kernels"
    target: Target | None = None
    schedule: str = ""

    def run(self, module: ir.Module) -> None:
        """Rewrites the calls; raises CompileError where a `graph.choice` cannot compute its call."""
        unmeasured: dict[str, str] = {}
        given = _known(self.schedule) if self.schedule else ""
        for op in calls(module):
            if CHOICE in op.attributes:
                _check(op)
        for op in calls(module):
            if (grouped := Grouped.read(op)) is not None:
                self._take_grouped(op, grouped, _text(op) or given)
        for bundle in bundles(module):
            if CHOICE in bundle.ops[0].attributes:
                _must_take(bundle)
            elif choice := given or self._default(bundle, unmeasured):
                with suppress(Unfit):
                    _take(bundle, choice)

    def _take_grouped(self, op: ir.Operation, grouped: Grouped, choice: str) -> None:
        """Turns a grouped GEMM into Lamina's kernel where a schedule was chosen; otherwise the library's call stays."""
        if choice and choice not in (LIBRARY, CUBLASLT, STRIPS) and not choice.startswith((HALF, PROLOGUE)):
            if self.target is None:
                remedy = "give lamina-select-kernels a GPU as its target, such as nvvm:sm_90a"
                raise CompileError("products of groups are kernels of a GPU", where=where(op.location), remedy=remedy)
            grouped.take(op, GemmConfig.read(choice), self.target.gpu)

    def _default(self, bundle: Problem, unmeasured: dict[str, str]) -> str:
        """Returns the cost model's choice for calls without graph.choice. unmeasured: a cache of choices for like bundles."""
        groups = [g for g in (*feeding(bundle.ops), bundle.group) if g is not None and g.name == "graph.group"]
        if self.target is None or not groups or Product.read(bundle.ops[0]) is None:  # convolutions were never measured
            return ""
        values = [v for op in (*bundle.ops, *groups) for v in (*op.operands, *op.results)]
        names = (_NUMBER.sub("", ir.StringAttr(g.attributes["sym_name"]).value) for g in groups)
        alike = " ".join((str(len(bundle.ops)), str(bundle.group is None), *(str(v.type) for v in values), *names))
        if alike not in unmeasured:
            _, unmeasured[alike] = kernels_of(bundle, self.target.gpu)
        return unmeasured[alike]


def kernels_of(bundle: Problem, gpu: Gpu) -> tuple[tuple[str, ...], str]:
    """Returns the candidates for Lamina's kernel, the most promising first, and the default where nothing was tuned, "" for none.
    There are no candidates where tiles cannot compute the product."""
    if (found := Convolution.read(bundle.ops[0])) is not None:
        return _of_convolution(bundle, found, gpu), ""
    work = work_of(bundle)
    if work is None or (gpu.capability < _FLOAT8 and _has_float8(bundle)):
        return (), ""
    ours = [str(c) for c in product_cost.candidates(work, gpu)]
    default = str(product_cost.unmeasured(work, gpu) or "")
    with_factors = bundle.fed()
    if with_factors.before and (fed := work_of(with_factors)) is not None and fed.fed is not None:
        inside = product_cost.candidates(fed, gpu)[:_PROLOGUES]
        ours = [*(f"{PROLOGUE}{c}" for c in inside[:1]), *ours[:1], *(f"{PROLOGUE}{c}" for c in inside[1:]), *ours[1:]]
        best = product_cost.unmeasured(fed, gpu)
        apart = product_cost.our_seconds(product_cost.candidates(work, gpu)[0], work, gpu) + fed.fed.before_seconds(gpu)
        if best is not None and product_cost.our_seconds(best, fed, gpu) < product_cost.FED_WORTH * apart:
            default = f"{PROLOGUE}{best}"
    if len(bundle.ops) > 1 and (half := work_of(bundle.half())) is not None:
        ours += [f"{HALF}{c}" for c in product_cost.candidates(half, gpu)[:_HALVES]]
        best = product_cost.unmeasured(half, gpu)
        default = default or (f"{HALF}{best}" if best is not None else "")
    if all(product.fast for op in bundle.ops if (product := Product.read(op))):
        ours = [c.replace("fast=0", "fast=1") for c in ours]
    return tuple(ours), default


def _of_convolution(bundle: Problem, convolution: Convolution, gpu: Gpu) -> tuple[str, ...]:
    """Returns the candidates for a convolution; none is a default without tuning."""
    strips = (STRIPS,) if fits_strips(bundle.ops[0]) else ()
    work = work_of(bundle) if convolution.feeds_blocks else None
    if work is None:
        return strips
    plain = [c for c in product_cost.candidates(work, gpu) if c.parts == 1]
    first, *rest = plain if convolution.is_product else convolution_cost.candidates(work, convolution.channels, gpu)
    return (str(first), *strips, *map(str, rest))


def _has_float8(bundle: Problem) -> bool:
    ops = [op for op in (*bundle.ops, bundle.group) if op is not None]
    return any("f8E" in str(v.type) for op in ops for v in (*op.operands, *op.results))


def _text(op: ir.Operation) -> str:
    """Returns the `graph.choice` of a call, "" without one."""
    return ir.StringAttr(op.attributes[CHOICE]).value if CHOICE in op.attributes else ""


def _known(choice: str) -> str:
    """Returns a choice in its canonical text; raises CompileError for unknown ones."""
    word = next((word for word in (HALF, PROLOGUE) if choice.startswith(word)), "")
    return choice if choice in (LIBRARY, CUBLASLT, STRIPS) else word + str(GemmConfig.read(choice.removeprefix(word)))


def _check(op: ir.Operation) -> None:
    """Raises CompileError where the chosen schedule cannot implement this kind of call."""
    choice = ir.StringAttr(op.attributes[CHOICE]).value
    try:
        _known(choice)
    except CompileError as e:
        raise CompileError(e.message, where=where(op.location), remedy=e.remedy) from None
    if choice != LIBRARY and computed(op) is None and Grouped.read(op) is None:
        callee = ir.StringAttr(op.attributes["callee"]).value
        what = "which is no product of matrices or convolution of f16 or bf16, nor a product of scaled f8E4M3FN"
        raise CompileError(f"{choice} on {callee}, {what}", where=where(op.location))


def _must_take(bundle: Problem) -> None:
    """Applies `graph.choice`; raises CompileError where the schedule cannot compute the bundle."""
    op = bundle.ops[0]
    choice, place = ir.StringAttr(op.attributes[CHOICE]).value, where(op.location)
    try:
        _take(bundle, choice)
    except Unfit as e:
        raise CompileError(f"{choice} cannot compute this: {e}", where=place, remedy="drop graph.choice") from None


def _take(bundle: Problem, choice: str) -> None:
    """Applies a choice to a bundle. Raises Unfit, with nothing changed, where it cannot compute the bundle."""
    if choice == CUBLASLT:
        if not _went_before(bundle):
            take_activation(bundle)
    elif choice == STRIPS:
        (op,) = bundle.ops
        if not fits_strips(op):
            raise Unfit("no convolution that strips can compute")
        op.attributes[CHOICE] = ir.StringAttr.get(STRIPS, op.context)
    elif choice != LIBRARY:
        schedule = choice.removeprefix(HALF).removeprefix(PROLOGUE)
        config = GemmConfig.read(schedule)
        if config.fast and not all(product.fast for op in bundle.ops if (product := Product.read(op))):
            raise Unfit("fast=1 of a product whose sums must have the digits of f32")
        if choice.startswith(HALF):
            bundle = bundle.half()
        elif choice.startswith(PROLOGUE):
            bundle = bundle.fed()
            if not bundle.before:
                raise Unfit("no group makes a factor of the product, and nothing else")
        group = joined(bundle, config) if config.parts == 1 else split_inner(bundle, config.parts)
        group.attributes[CHOICE] = ir.StringAttr.get(schedule, group.context)


def _went_before(bundle: Problem) -> bool:
    """Whether the group that reads a call is already part of another product's kernel. Tuning chooses for each product with the
    group that reads both; the first takes the group, and the library computes the other product alone."""
    users = [use.owner.operation for use in bundle.ops[0].results[0].uses]
    return any(user.name == "graph.group" and CHOICE in user.attributes for user in users)
