"""lamina-select-kernels: matrix products and convolutions that kernels of ours compute, with the groups that read them."""

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.core.target import Target
from lamina.schedules import convolution_cost, product_cost
from lamina.schedules.contraction import Config

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
from .surroundings import CHOICE, Bundle, bundles, calls, joined

LIBRARY = "library"
HALF = "half "  # before a schedule: of two products that meet in a group, the first is computed with it, the other by the library
_HALVES = 2  # of these candidates
PROLOGUE = "prologue "  # before a schedule: groups that make a factor, and nothing else, are computed in the product's kernel
_PROLOGUES = 6  # of these candidates
_FLOAT8 = 89  # the compute capability from which on tensor cores and Triton know floats of eight bits
_NUMBER = re.compile(r"_\d+$")  # at the end of names: what tells groups apart that compute the same


@dataclass(frozen=True)
class SelectKernels(Pass):
    """Turn calls of matrix products and convolutions into kernels of ours where `graph.choice` on the call says so.

    Before: @main holds groups and externs. After: every product whose `graph.choice` is a schedule (schedules/contraction.py) is a
    group, together with the group that alone reads it, if any: what follows a product is computed in its registers. Two products
    that share their left factor and meet in one group, as those of SwiGLU do, become one with it, and so do the halves of one
    product's columns that meet; where "half " stands before the schedule, the first of two products alone does, the other stays. A
    call without the attribute stays, and so does one with "library". Where "prologue " stands before the schedule, groups that make
    a factor of the product, and nothing else, are computed in its kernel, on the blocks that it loads. With "cublaslt" it becomes a
    call that also computes the ReLU or the tanh form of GELU that the group begins with. Of a group that sums along rows, the
    kernel yields the sums of blocks of columns in f32, and a group behind it sums these; so of sums over the rows, as gradients of
    biases are, with blocks of rows. Of a norm the kernel also yields what it is of, and the squared distances from each block's
    mean; a group joins these to statistics of rows, and another reads what they are of once. With a schedule of `parts`, a group
    yields the sums of each part of the inner dimension in f32, and one behind it adds these and does what follows. lamina-tile
    turns a group with a schedule into a program over blocks of the result.
    A 2-D convolution of f16 or bf16 whose result has its channels last is a product of pixels by features: its group sums over
    windows, and is marked `graph.window` too. Of several groups, there is a product for each; with "strips" the call stays for
    lamina-depthwise.
    Products of rows with the matrix of their group (_grouped_mm) become calls of a kernel that has a hook for what follows.

        %0 = "graph.extern"(%x, %w) {callee = "aten.mm.default", graph.choice = "triton{m=128 n=128}", ...}
        %1 = "graph.group"(%0) ({ relu })
     -> %1 = "graph.group"(%x, %w) ({ sum of products ; relu }) {graph.choice = "triton{m=128 n=128}"}

    target    the GPU whose cost model decides on products without graph.choice that a group alone reads (none: they stay)
    schedule  the choice for all products without graph.choice that it can compute ("": as the cost model has it)
    """

    name: ClassVar[str] = "lamina-select-kernels"
    target: Target | None = None
    schedule: str = ""

    def run(self, module: ir.Module) -> None:
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
        """A kernel of ours where a schedule was chosen; the library's stays unmeasured."""
        if choice and choice not in (LIBRARY, CUBLASLT, STRIPS) and not choice.startswith((HALF, PROLOGUE)):
            if self.target is None:
                remedy = "give lamina-select-kernels a GPU as its target, such as nvvm:sm_90a"
                raise CompileError("products of groups are kernels of a GPU", where=where(op.location), remedy=remedy)
            grouped.take(op, Config.read(choice), self.target.gpu)

    def _default(self, bundle: Bundle, unmeasured: dict[str, str]) -> str:
        """The candidate for calls without graph.choice by the cost model. unmeasured: what was decided on others like them."""
        groups = [g for g in (*feeding(bundle.ops), bundle.group) if g is not None and g.name == "graph.group"]
        if self.target is None or not groups or Product.read(bundle.ops[0]) is None:  # convolutions were never measured
            return ""
        values = [v for op in (*bundle.ops, *groups) for v in (*op.operands, *op.results)]
        names = (_NUMBER.sub("", ir.StringAttr(g.attributes["sym_name"]).value) for g in groups)
        alike = " ".join((str(len(bundle.ops)), str(bundle.group is None), *(str(v.type) for v in values), *names))
        if alike not in unmeasured:
            _, unmeasured[alike] = kernels_of(bundle, self.target.gpu)
        return unmeasured[alike]


def kernels_of(bundle: Bundle, gpu: Gpu) -> tuple[tuple[str, ...], str]:
    """The candidates that are kernels of ours, the most promising first, and which of them is taken unmeasured, "" for none. No
    candidates where blocks cannot compute the product."""
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


def _of_convolution(bundle: Bundle, convolution: Convolution, gpu: Gpu) -> tuple[str, ...]:
    """Candidates for a convolution: none is taken unmeasured."""
    strips = (STRIPS,) if fits_strips(bundle.ops[0]) else ()
    work = work_of(bundle) if convolution.feeds_blocks else None
    if work is None:
        return strips
    plain = [c for c in product_cost.candidates(work, gpu) if c.parts == 1]
    first, *rest = plain if convolution.is_product else convolution_cost.candidates(work, convolution.channels, gpu)
    return (str(first), *strips, *map(str, rest))


def _has_float8(bundle: Bundle) -> bool:
    ops = [op for op in (*bundle.ops, bundle.group) if op is not None]
    return any("f8E" in str(v.type) for op in ops for v in (*op.operands, *op.results))


def _text(op: ir.Operation) -> str:
    """What was chosen for a call, "" for nothing."""
    return ir.StringAttr(op.attributes[CHOICE]).value if CHOICE in op.attributes else ""


def _known(choice: str) -> str:
    """A candidate as it is written; CompileError for none."""
    word = next((word for word in (HALF, PROLOGUE) if choice.startswith(word)), "")
    return choice if choice in (LIBRARY, CUBLASLT, STRIPS) else word + str(Config.read(choice.removeprefix(word)))


def _check(op: ir.Operation) -> None:
    """CompileError where what was chosen for a call is no way to compute it."""
    choice = ir.StringAttr(op.attributes[CHOICE]).value
    try:
        _known(choice)
    except CompileError as e:
        raise CompileError(e.message, where=where(op.location), remedy=e.remedy) from None
    if choice != LIBRARY and computed(op) is None and Grouped.read(op) is None:
        callee = ir.StringAttr(op.attributes["callee"]).value
        what = "which is no product of matrices or convolution of f16 or bf16, nor a product of scaled f8E4M3FN"
        raise CompileError(f"{choice} on {callee}, {what}", where=where(op.location))


def _must_take(bundle: Bundle) -> None:
    """What graph.choice says. CompileError where it cannot be."""
    op = bundle.ops[0]
    choice, place = ir.StringAttr(op.attributes[CHOICE]).value, where(op.location)
    try:
        _take(bundle, choice)
    except Unfit as e:
        raise CompileError(f"{choice} cannot compute this: {e}", where=place, remedy="drop graph.choice") from None


def _take(bundle: Bundle, choice: str) -> None:
    """Unfit where the candidate cannot compute the bundle, and nothing has changed."""
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
        config = Config.read(schedule)
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


def _went_before(bundle: Bundle) -> bool:
    """Whether what reads a call is a kernel of ours with another product: tuning answers for each product with the group that reads
    both, and the first takes it. The library computes the other as it is."""
    users = [use.owner.operation for use in bundle.ops[0].results[0].uses]
    return any(user.name == "graph.group" and CHOICE in user.attributes for user in users)
