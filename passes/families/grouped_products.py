"""Replaces calls of aten._grouped_mm (grouped GEMM, as in mixtures of experts) by calls of Lamina's kernel."""

import math
from dataclasses import dataclass

from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.schedules.contraction import GemmConfig

from ..ir.extern_calls import kernel_call

GROUPED = "lamina.grouped_product"
_CALLEE = "aten._grouped_mm.default"
_TYPES = ("f16", "bf16")
SCHEDULES = (
    GemmConfig(128, 128, 64, 8, 3),
    GemmConfig(64, 128, 64, 4, 4),
    GemmConfig(64, 64, 64, 4, 4),
    GemmConfig(16, 64, 128, 4, 4),
)
_WIDE = 1 << 31  # a matrix of this many elements or more needs 64-bit offsets
_SMALL = 2  # most rows of a tile, as a multiple of the average rows of a group


@dataclass(frozen=True)
class Grouped:
    """A grouped GEMM: the rows of each group times the matrix of that group.

    x     [rows, inner]
    w     [groups, inner, columns]
    ends  i32: the end of each group, as the row after its last
    """

    x: ir.Value
    w: ir.Value
    ends: ir.Value

    @staticmethod
    def read(op: ir.Operation) -> "Grouped | None":
        """Reads a call of _grouped_mm. None for other ops, and where it groups columns or the inner dimension instead of rows."""
        if op.name != "graph.extern" or ir.StringAttr(op.attributes["callee"]).value != _CALLEE or len(op.operands) != 3:
            return None
        x, w, ends = op.operands
        types = [ir.RankedTensorType(v.type) for v in (x, w, ends)]
        element, result = str(types[0].element_type), ir.RankedTensorType(op.results[0].type)
        given = [isinstance(a, ir.UnitAttr) for a in op.attributes["args"]]
        known = [t.rank for t in types] == [2, 3, 1] and str(types[2].element_type) == "i32" and given[:3] == [True] * 3
        known = known and math.prod(types[1].shape[1:]) < _WIDE
        same = element in _TYPES and {str(t.element_type) for t in (types[1], result)} == {element}
        return Grouped(x, w, ends) if known and same and not op.attributes["kwargs"] else None

    @property
    def candidates(self) -> tuple[GemmConfig, ...]:
        """The schedules whose tiles are not too tall for the average group."""
        rows, groups = ir.RankedTensorType(self.x.type).shape[0], ir.RankedTensorType(self.w.type).shape[0]
        return tuple(c for c in SCHEDULES if c.m <= max(16, _SMALL * -(-rows // max(groups, 1))))

    def take(self, op: ir.Operation, config: GemmConfig, gpu: Gpu) -> None:
        """Replaces the call by a call of Lamina's kernel, into which lamina-custom-epilogue can fuse an epilogue."""
        said = {
            "of": op.attributes["callee"],
            "schedule": ir.StringAttr.get(str(config)),
            "programs": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), gpu.sm_count * max(config.resident, 2)),
            "hook": ir.StringAttr.get("epilogue operands"),
        }
        strides = [tuple(ir.DenseI64ArrayAttr(op.attributes["strides"][0]))]
        with op.location, ir.InsertionPoint(op):
            made = kernel_call(GROUPED, [self.x, self.w, self.ends], [op.results[0].type], said, strides)
            made.attributes["needs"] = op.attributes["needs"]
        op.results[0].replace_all_uses_with(made.results[0])
        op.erase()
