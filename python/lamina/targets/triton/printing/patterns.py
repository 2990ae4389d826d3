"""Matches activations that printed kernels call as one function, with fewer instructions than their separate ops."""

from dataclasses import dataclass, field
from math import isclose, sqrt

from torch_mlir import ir

from lamina.passes.ir.reading import number_of, producer

GELU = "erf_gelu"


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
    """Returns whether a value is used in additions of 1 only."""
    users = [use.owner.operation for use in v.uses]
    return bool(users) and all(u.name == "arith.addf" and 1.0 in map(number_of, u.operands) for u in users)


def _gelu(op: ir.Operation) -> tuple[ir.Operation, ...] | None:
    """Returns the ops x/2, x/sqrt(2), its erf and that plus 1, where `op` multiplies them to a GELU and they have no other use;
    else None."""
    if op.name != "arith.mulf":
        return None
    for half, plus in (tuple(op.operands), tuple(op.operands)[::-1]):
        halved, sum_ = _only(half, "arith.mulf"), _only(plus, "arith.addf")
        if halved is None or sum_ is None or 1.0 not in map(number_of, sum_.operands):
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
    op = producer(v)
    return op if op is not None and op.name == name and len(list(v.uses)) == 1 else None


def _constant_side(op: ir.Operation) -> int:
    return int(number_of(op.operands[0]) is None)


def _factor(op: ir.Operation) -> ir.Value:
    return op.operands[1 - _constant_side(op)]


def _scales(op: ir.Operation, by: float) -> bool:
    number = number_of(op.operands[_constant_side(op)])
    return number is not None and isclose(number, by, rel_tol=1e-7)
