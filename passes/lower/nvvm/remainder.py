"""Lowers arith.remf exactly, as fmod: LLVM's own expansion for GPUs is wrong for large quotients."""

from torch_mlir import ir

from ...ir.emit import replace
from ..polynomials.remainder import remf
from .lanes import per_lane


def lower_remainder(op: ir.Operation) -> None:
    """Lowers arith.remf of each lane to a loop in f64."""
    replace(op, per_lane(op, remf))
