"""Matches activations that printed kernels call as one function, with fewer instructions than their separate ops."""

from dataclasses import dataclass, field
from math import isclose, sqrt

from torch_mlir import ir

GELU = "erf_gelu"
BESIDE_ONE = {"math.erf": "erf_beside_one"}
"""Cheaper functions for values that are only added to 1: the sum has no more digits."""


@dataclass
class Activations:
    """Matched activations of a block.

    gelus  the last operation of each GELU, x/2 * (1 + erf(x/sqrt(2))), and its x
    parts  the operations before the last ones
    """

    gelus: dict[ir.Operation, ir.Value] = field(default_factory=dict)
    parts: set[ir.Operation] = field(default_factory=set)


def activations(block: ir.Block) -> Activations:
    """Finds the activations among a block's own operations, not in nested blocks."""
    found = Activations()
    for op in block.operations:
        parts = _gelu(op.operation)
        if parts is not None:
            found.gelus[op.operation] = _factor(parts[0])
            found.parts.update(parts)
    return found


def meets_one(v: ir.Value) -> bool:
    """Tells whether a value is used in additions of 1 only."""
    users = [use.owner.operation for use in v.uses]
    return bool(users) and all(u.name == "arith.addf" and 1.0 in map(_number, u.operands) for u in users)


def _gelu(op: ir.Operation) -> tuple[ir.Operation, ...] | None:
    """Returns the ops x/2, x/sqrt(2), its erf and that plus 1, where `op` multiplies them to a GELU and they have no other use;
    else None."""
    if op.name != "arith.mulf":
        return None
    for half, plus in (tuple(op.operands), tuple(op.operands)[::-1]):
        halved, sum_ = _only(half, "arith.mulf"), _only(plus, "arith.addf")
        if halved is None or sum_ is None or 1.0 not in map(_number, sum_.operands):
            continue
        erf = next((e for v in sum_.operands if (e := _only(v, "math.erf")) is not None), None)
        scaled = None if erf is None else _only(erf.operands[0], "arith.mulf")
        if erf is None or scaled is None or not (_scales(halved, 0.5) and _scales(scaled, sqrt(0.5))):
            continue
        if _factor(halved) == _factor(scaled):
            return halved, scaled, erf, sum_
    return None


def _only(v: ir.Value, name: str) -> ir.Operation | None:
    """Returns the op `name` that produces a value with a single use; else None."""
    op = None if isinstance(v, ir.BlockArgument) else v.owner.operation
    return op if op is not None and op.name == name and len(list(v.uses)) == 1 else None


def _constant_side(op: ir.Operation) -> int:
    return int(_number(op.operands[0]) is None)


def _factor(op: ir.Operation) -> ir.Value:
    return op.operands[1 - _constant_side(op)]


def _scales(op: ir.Operation, by: float) -> bool:
    number = _number(op.operands[_constant_side(op)])
    return number is not None and isclose(number, by, rel_tol=1e-7)


def _number(v: ir.Value) -> float | None:
    """Returns the value of a constant or a broadcast of one; else None."""
    op = None if isinstance(v, ir.BlockArgument) else v.owner.operation
    if op is not None and op.name == "vector.broadcast":
        return _number(op.operands[0])
    value = op.attributes["value"] if op is not None and op.name == "arith.constant" else None
    if isinstance(value, ir.DenseElementsAttr) and value.is_splat:
        value = value.get_splat_value()
    return float(value.value) if isinstance(value, ir.FloatAttr) else None
