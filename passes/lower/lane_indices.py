"""Splits vectors of indices into scalars that all lanes have in common, and a constant for each lane."""

from torch_mlir import ir

from ..ir.reading import number_of


def ramp_base(value: ir.Value) -> ir.Value | None:
    """Returns the scalar `base` of a vector base + [0, 1, 2, ...] (vector.broadcast and vector.step); None for other values."""
    match lane_stride(value):
        case [(base, 1)], 1:
            return base
    return None


def broadcast_scalar(value: ir.Value) -> ir.Value | None:
    """Returns the scalar that all lanes of a vector are (vector.broadcast); None for other values."""
    match lane_stride(value):
        case [(scalar, 1)], 0:
            return scalar
    return None


def lane_stride(index: ir.Value) -> tuple[list[tuple[ir.Value, int]], int] | None:
    """Returns a vector of indices as scalars times constants plus a multiple of the lane number: ([(scalar, factor)], stride).
    None if it is of another form."""
    owner = index.owner
    if isinstance(owner, ir.Block):
        return None
    if owner.name == "vector.step":
        return [], 1
    if owner.name == "vector.broadcast":
        return ([(owner.operands[0], 1)], 0) if not isinstance(owner.operands[0].type, ir.VectorType) else None
    if owner.name == "arith.addi":
        parts = [lane_stride(v) for v in owner.operands]
        if parts[0] is None or parts[1] is None:
            return None
        return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
    if owner.name == "arith.muli":
        for a, b in (owner.operands, reversed(list(owner.operands))):
            factor, part = number_of(b), lane_stride(a)
            if isinstance(factor, int) and part is not None:
                return [(s, k * factor) for s, k in part[0]], part[1] * factor
    return None
