"""The family of grouped GEMMs, as in mixtures of experts: replaces calls of aten._grouped_mm by launches of Lamina's kernel."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch_mlir import ir

from lamina.core.dtypes import HALF
from lamina.core.gpu import Gpu
from lamina.core.program import Call
from lamina.core.target import Target
from lamina.schedules.contraction import GemmConfig

from ..ir.extern_calls import kernel_call
from ..ir.reading import callee_of, shape_of
from ..space.contraction import Unfit
from .choice import Choice
from .launches import Source, launch, sizes, strides, tensors
from .problem import CallProblem, Family
from .surroundings import calls

if TYPE_CHECKING:
    from torch import Tensor

GROUPED = "lamina.grouped_product"
_CALLEE = "aten._grouped_mm.default"
SCHEDULES = (
    GemmConfig(128, 128, 64, 8, 3),
    GemmConfig(64, 128, 64, 4, 4),
    GemmConfig(64, 64, 64, 4, 4),
    GemmConfig(16, 64, 128, 4, 4),
)
_WIDE = 1 << 31  # a matrix of this many elements or more needs 64-bit offsets
_MOST_ROWS = 2  # rows of a tile, at most, as a multiple of the average number of rows of a group


@dataclass(frozen=True)
class Grouped:
    """A grouped GEMM: the rows of each group are multiplied by the matrix of that group.

    x     [rows, inner]
    w     [groups, inner, columns]
    ends  [groups] i32: the row after the last of each group
    """

    x: ir.Value
    w: ir.Value
    ends: ir.Value

    @staticmethod
    def read(op: ir.Operation) -> "Grouped | None":
        """Reads a call of _grouped_mm. Returns None for other ops, and for calls that group columns or the inner dimension."""
        if op.name != "graph.extern" or callee_of(op) != _CALLEE or len(op.operands) != 3:
            return None
        x, w, ends = op.operands
        types = [ir.RankedTensorType(v.type) for v in (x, w, ends)]
        element, result = str(types[0].element_type), ir.RankedTensorType(op.results[0].type)
        given = [isinstance(a, ir.UnitAttr) for a in op.attributes["args"]]
        known = [t.rank for t in types] == [2, 3, 1] and str(types[2].element_type) == "i32" and given[:3] == [True] * 3
        known = known and math.prod(types[1].shape[1:]) < _WIDE
        same = element in HALF and {str(t.element_type) for t in (types[1], result)} == {element}
        return Grouped(x, w, ends) if known and same and not op.attributes["kwargs"] else None

    @property
    def candidates(self) -> tuple[GemmConfig, ...]:
        """The schedules whose tiles are not too tall for a group of average size."""
        rows, groups = ir.RankedTensorType(self.x.type).shape[0], ir.RankedTensorType(self.w.type).shape[0]
        return tuple(c for c in SCHEDULES if c.m <= max(16, _MOST_ROWS * -(-rows // max(groups, 1))))

    def take(self, op: ir.Operation, config: GemmConfig, gpu: Gpu) -> None:
        """Replaces the call by a launch of Lamina's kernel, whose hook custom/epilogue.py may use to fuse an epilogue."""
        arguments = {
            "of": op.attributes["callee"],
            "schedule": str(config),
            "programs": gpu.sm_count * max(config.resident, 2),
            "hook": "epilogue operands",
        }
        strides = [tuple(ir.DenseI64ArrayAttr(op.attributes["strides"][0]))]
        with op.location, ir.InsertionPoint(op):
            call = kernel_call(GROUPED, [self.x, self.w, self.ends], [op.results[0].type], arguments, strides)
            call.attributes["needs"] = op.attributes["needs"]
        op.results[0].replace_all_uses_with(call.results[0])
        op.erase()


@dataclass(frozen=True)
class GroupedProblem(CallProblem):
    """The choice for one call of a grouped GEMM. The library is the default, as there is no cost model yet."""

    product: Grouped

    def candidates(self, gpu: Gpu) -> Sequence[Choice]:
        """Returns the schedules whose tiles are not too tall for the average group."""
        return [Choice(config) for config in self.product.candidates]

    def take(self, choice: Choice, target: Target | None) -> None:
        """Replaces the call by a launch of Lamina's kernel. Raises Unfit for the schedule of another family, and if the target is
        not a GPU."""
        if not isinstance(choice.kernel, GemmConfig) or choice.cover:
            raise Unfit("no schedule of a grouped GEMM")
        if target is None or not target.is_gpu:
            raise Unfit("kernels of grouped GEMMs are for a GPU: give the pass a target such as nvvm:sm_90a")
        self.product.take(self.op, choice.kernel, target.gpu)

    def settle(self, inputs: "Sequence[Tensor]") -> None:
        """Sets `ends`, among the inputs of a measurement, to groups of about the same number of rows."""
        import torch

        ends = inputs[list(dict.fromkeys(self.op.operands)).index(self.product.ends)]
        ends.copy_(torch.arange(1, len(ends) + 1, device=ends.device) * shape_of(self.product.x)[0] // len(ends))


def _launch(call: Call) -> dict[str, Any]:
    """Describes the launch for a call. The kernel is persistent (kernels/products/grouped.py): it gets a program per block, but no
    more than `programs`."""
    (x, w, *_), kwargs = tensors(call), dict(call.kwargs)
    config = GemmConfig.read(str(kwargs["schedule"]))
    (rows, inner), (groups, _, columns) = sizes(x), sizes(w)
    blocks = (-(-rows // config.m) + groups) * -(-columns // config.n)  # an upper bound: each group may end in a partial block
    limit = kwargs["programs"]
    assert isinstance(limit, int)
    programs = max(1, min(blocks, limit))
    constants = {
        "X": strides(x), "W": strides(w), "OUT": strides(call.outs[0]), "ROWS": rows, "COLUMNS": columns, "INNER": inner,
        "GROUPS": groups, "PROGRAMS": programs, "M": config.m, "N": config.n, "K": config.k,
    }  # fmt: skip
    names = {"x": "x0", "w": "x1", "ends": "x2", "out": "y0"}
    fields = launch(call, names, constants, programs, config.warps, config.stages, 2 * rows * columns * inner)
    return fields | {key: kwargs[key] for key in ("hook", "epilogue", "fused") if key in kwargs}


class GroupedFamily(Family):
    """The family of grouped GEMMs."""

    computes = "products of groups of rows in f16 and bf16 (torch._grouped_mm)"
    schedules = (GemmConfig,)
    sources: ClassVar[Mapping[str, Source]] = {GROUPED: Source("lamina.kernels.products.grouped:grouped", _launch)}

    def reads(self, op: ir.Operation) -> bool:
        """Returns whether Lamina's kernel can compute the call `op`."""
        return Grouped.read(op) is not None

    def problems(self, module: ir.Module) -> Iterator[GroupedProblem]:
        """Yields a problem for each grouped GEMM of a module."""
        for op in calls(module):
            if (found := Grouped.read(op)) is not None:
                yield GroupedProblem(op, found)
