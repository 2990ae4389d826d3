"""Matches activations (GELU) that printed kernels compute by one function call, in fewer instructions than by their separate
ops."""

from dataclasses import dataclass, field
from math import isclose, sqrt

from torch_mlir import ir

from lamina.passes.ir.reading import number_of, producer

GELU = "erf_gelu"


@dataclass
class Activations:
    """The matched activations of a block.

    gelus  x of each GELU, x/2 * (1 + erf(x/sqrt(2))), by its last op
    parts  the other ops of the GELUs, which need not be printed
    """

    gelus: dict[ir.Operation, ir.Value] = field(default_factory=dict)
    parts: set[ir.Operation] = field(default_factory=set)


def activations(block: ir.Block) -> Activations:
    """Finds the activations among a block's ops, not in nested blocks."""
    result = Activations()
    for op in block.operations:
        parts = _gelu(op.operation)
        if parts is not None:
            result.gelus[op.operation] = _factor(parts[0])
            result.parts.update(parts)
    return result


def meets_one(v: ir.Value) -> bool:
    """Returns whether a value has users, and all of them add 1 to it."""
    users = [use.owner.operation for use in v.uses]
    return bool(users) and all(u.name == "arith.addf" and 1.0 in map(number_of, u.operands) for u in users)


def _gelu(op: ir.Operation) -> tuple[ir.Operation, ...] | None:
    """Returns the ops x/2, x/sqrt(2), erf and 1 + erf of the GELU whose last op is `op`; None if it is not a GELU, or if one of
    them has other uses."""
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
    """Returns the producer of a value, if that is an op `name` and the value has a single use; else None."""
    op = producer(v)
    return op if op is not None and op.name == name and len(list(v.uses)) == 1 else None


def _constant_side(op: ir.Operation) -> int:
    """Returns the number of the operand of a product by a constant that is the constant."""
    return int(number_of(op.operands[0]) is None)


def _factor(op: ir.Operation) -> ir.Value:
    """Returns the other operand of a product by a constant."""
    return op.operands[1 - _constant_side(op)]


def _scales(op: ir.Operation, by: float) -> bool:
    """Returns whether a product multiplies by this constant."""
    number = number_of(op.operands[_constant_side(op)])
    return number is not None and isclose(number, by, rel_tol=1e-7)
