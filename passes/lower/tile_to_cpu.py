"""lamina-tile-to-cpu: lowers tile programs to functions with the native kernel ABI."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from ..infra.base import Pass
from ..ir.index_ranges import Ranges
from ..ir.reading import by_name, element_of, nested
from .cpu import abi, arithmetic, bf16, checks
from .cpu.masked_loads import narrow_masked_load
from .cpu.tile_ops import TILE_OPS
from .cpu.transfers import Transfers, guard_streaming
from .tile_ops import handlers, refuse

CHECKS = "cpu.checks"
Rewrite = Callable[[ir.Operation], None]


@dataclass(frozen=True)
class TileToCpu(Pass):
    """Lower tile programs to functions `name(bufs, lo, hi)` that run programs lo..hi-1, in upstream dialects only.

    Before: `func.func @f(%x: memref<..>, ..) attributes {tile.grid = ..}`. After: `@f.body` with the loop over programs, and `@f`
    that loads the pointers; bf16 conversions in integers, divisions that cannot trap, strided transfers as gathers. `tile.alias`
    (a unit attribute or the numbers of the arguments concerned) says that arguments may share memory. A failed `tile.check`
    stores its number + 1 in the int64 that the entry after the last operand in `bufs` points to; the module's attribute
    `cpu.checks` holds the messages by number.

        func.func @f(%x: memref<8xf32>) attributes {tile.grid = 1 : i64} { ... }
    ->  func.func private @f.body(%x: memref<8xf32> {llvm.noalias}, %lo: index, %hi: index) { scf.for ... }
        func.func @f(%bufs: !llvm.ptr, %lo: i64, %hi: i64) { ... }
    """

    name: ClassVar[str] = "lamina-tile-to-cpu"

    def run(self, module: ir.Module) -> None:
        """Lowers every function with `tile.grid`, and records the messages of failed checks."""
        messages: list[str] = []
        with module.context:
            for op in list(module.body.operations):
                if "tile.grid" in op.operation.attributes:
                    _lower(op.operation, messages)
            module.operation.attributes[CHECKS] = ir.ArrayAttr.get([ir.StringAttr.get(m) for m in messages])


def _lower(function: ir.Operation, messages: list[str]) -> None:
    ops = by_name(function)
    refuse(ops, TILE_OPS, "a CPU")
    for name, rewrite in REWRITES.items():
        for op in ops.get(name, ()):
            rewrite(op)
    if bf16.uses_bf16(function):
        bf16.store_as_integers(function)
    checked = ops.get("tile.check", [])
    slot = abi.outline(function, ops, bool(checked))
    for op in checked:
        checks.lower_check(op, slot, messages)
    transfers = Transfers()
    for op in [*ops.get("vector.transfer_read", ()), *ops.get("vector.transfer_write", ())]:
        transfers.lower(op)
    transfers.finish()
    if "arith.andi" in ops:
        ranges = Ranges()
        for op in nested(function, "vector.transfer_read", "vector.maskedload"):
            narrow_masked_load(op, ranges)
    guard_streaming(function, ops.get("vector.store", []))


def _where(half: tuple[type, ...], side: str, rewrite: Rewrite) -> Rewrite:
    """Restricts `rewrite` to ops whose operand ("from") or result ("to") has one of the given float types."""

    def apply(op: ir.Operation) -> None:
        """Rewrites an op on this type."""
        if isinstance(element_of((op.operands[0] if side == "from" else op.results[0]).type), half):
            rewrite(op)

    return apply


HALF = (ir.F16Type, ir.BF16Type)
REWRITES: dict[str, Rewrite] = {
    **handlers(TILE_OPS),
    "arith.extf": _where((ir.BF16Type,), "from", arithmetic.extend_bf16),
    "arith.truncf": _where(HALF, "to", arithmetic.truncate_half),
    **dict.fromkeys(("arith.sitofp", "arith.uitofp"), _where(HALF, "to", arithmetic.compute_in_f32)),
    **dict.fromkeys(("arith.fptosi", "arith.fptoui"), _where(HALF, "from", arithmetic.compute_in_f32)),
    "arith.maximumf": arithmetic.lower_extremum,
    "arith.minimumf": arithmetic.lower_extremum,
    "vector.reduction": arithmetic.lower_reduction,
    "vector.multi_reduction": arithmetic.lower_reduction,
} | dict.fromkeys((f"arith.{d}" for d in arithmetic.DIVISIONS), arithmetic.guard_division)
