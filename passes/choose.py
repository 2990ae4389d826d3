"""lamina-choose: matrix products that kernels of ours compute, with the groups that read them."""

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.schedules import product_cost
from lamina.schedules.contraction import Config

from .base import Pass
from .contraction import Unfit
from .locations import where
from .product_groups import CHOICE, Bundle, bundles, calls, joined, work_of
from .products import Product

LIBRARY = "library"
_NUMBER = re.compile(r"_\d+$")  # at the end of names: what tells groups apart that compute the same


@dataclass(frozen=True)
class Choose(Pass):
    """Turn calls of matrix products into kernels of ours where `graph.choice` on the call says so.

    Before: @main holds groups and externs. After: every product whose `graph.choice` is a schedule (schedules/contraction.py) is a
    group, together with the group that alone reads it, if any: what follows a product is computed in its registers. Two products
    that share their left factor and meet in one group, as those of SwiGLU do, become one with it. A call without the attribute
    stays, and so does one with "library". lamina-tile turns such a group into a program over blocks of the result.

        %0 = "graph.extern"(%x, %w) {callee = "aten.mm.default", graph.choice = "triton{m=128 n=128}", ...}
        %1 = "graph.group"(%0) ({ relu })
     -> %1 = "graph.group"(%x, %w) ({ sum of products ; relu }) {graph.choice = "triton{m=128 n=128}"}

    target    the GPU whose cost model decides on products without graph.choice that a group alone reads ("": they stay)
    schedule  for all products without graph.choice that blocks can compute ("": as the cost model has it)
    """

    name: ClassVar[str] = "lamina-choose"
    target: str = ""
    schedule: str = ""

    def run(self, module: ir.Module) -> None:
        unmeasured: dict[str, Config | None] = {}
        for op in calls(module):
            if CHOICE in op.attributes:
                _check(op)
        for bundle in bundles(module):
            if CHOICE in bundle.ops[0].attributes:
                _take(bundle)
            elif (config := self._config(bundle, unmeasured)) is not None:
                with suppress(Unfit):
                    joined(bundle).attributes[CHOICE] = ir.StringAttr.get(str(config), module.context)

    def _config(self, bundle: Bundle, unmeasured: dict[str, Config | None]) -> Config | None:
        """The schedule of calls without graph.choice. unmeasured: what was decided on others like them."""
        if self.schedule:
            return Config.read(self.schedule)
        if not self.target or bundle.group is None:
            return None
        values = [*(v for op in bundle.ops for v in op.operands), *bundle.group.operands, *bundle.group.results]
        name = _NUMBER.sub("", ir.StringAttr(bundle.group.attributes["sym_name"]).value)
        alike = " ".join((str(len(bundle.ops)), *(str(v.type) for v in values), name))
        if alike not in unmeasured:
            work = work_of(bundle)
            unmeasured[alike] = None if work is None else product_cost.unmeasured(work, Gpu.named(self.target.partition(":")[2]))
        return unmeasured[alike]


def _check(op: ir.Operation) -> None:
    """CompileError where what was chosen for a call is no way to compute it."""
    choice = ir.StringAttr(op.attributes[CHOICE]).value
    if choice == LIBRARY:
        return
    try:
        Config.read(choice)
    except CompileError as e:
        raise CompileError(e.message, where=where(op.location), remedy=e.remedy) from None
    if Product.read(op) is None:
        callee = ir.StringAttr(op.attributes["callee"]).value
        raise CompileError(f"{choice} on {callee}, which is no product of matrices of f16 or bf16", where=where(op.location))


def _take(bundle: Bundle) -> None:
    op = bundle.ops[0]
    choice = ir.StringAttr(op.attributes[CHOICE]).value
    if choice == LIBRARY:
        return
    place = where(op.location)
    try:
        joined(bundle).attributes[CHOICE] = ir.StringAttr.get(choice)
    except Unfit as e:
        raise CompileError(f"{choice} cannot compute this: {e}", where=place, remedy="drop graph.choice") from None
