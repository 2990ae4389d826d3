"""Quotients x / (1 + exp(y)), which sigmoid, SiLU and GELU are made of."""

from torch_mlir import ir

from ..emit import Emit
from . import hardware

LOG2_E = 1.4426950408889634
DEPTH = 4  # products between a quotient and its rounding to half


def shorten(op: ir.Operation) -> None:
    """For an f32 division by 1 + exp(y): the divisor is at least 1, so that a plain reciprocal will do, with at most 2 ulp.
    It is 0 for divisors above 2**126, where 1/(1 + exp(y)) is denormal.

    Where the quotient, times other values, is only rounded to f16 or bf16, so will an exponential of the rounded y log2(e):
    a relative error of 2**-22 + abs(y) * 2**-23, below 2**-16, against the 2**-12 and 2**-9 of the rounding. Two instructions in
    place of eight: bf16 kernels at full bandwidth have time for some 25 an element.
    """
    total = op.operands[1].owner
    if not isinstance(_element(op.results[0].type), ir.F32Type) or (exp := _one_plus_exp(op.operands[1])) is None:
        return
    op.attributes["fastmath"] = hardware.flags("arcp,afn")
    if _uses(exp.results[0]) == 1 and _uses(total.results[0]) == 1 and _only_half(op.results[0], DEPTH):
        e = Emit.before(exp)
        exp.results[0].replace_all_uses_with(hardware.ex2(e.wrap(exp.operands[0]) * LOG2_E).value)
        exp.erase()


def _element(of: ir.Type) -> ir.Type:
    return of.element_type if isinstance(of, ir.VectorType) else of


def _one_plus_exp(value: ir.Value) -> ir.Operation | None:
    """The math.exp in a value that is 1 + exp(y)."""
    add = value.owner
    if isinstance(add, ir.Block) or add.name != "arith.addf":
        return None
    for exp, one in (add.operands, reversed(list(add.operands))):
        if not isinstance(exp.owner, ir.Block) and exp.owner.name == "math.exp" and _is_one(one):
            found: ir.Operation = exp.owner
            return found
    return None


def _is_one(value: ir.Value) -> bool:
    if isinstance(value.owner, ir.Block) or value.owner.name != "arith.constant":
        return False
    attribute = value.owner.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        return bool(attribute.is_splat) and attribute.get_splat_value().value == 1.0
    return bool(attribute.value == 1.0)


def _only_half(value: ir.Value, depth: int) -> bool:
    users = [use.owner for use in value.uses]
    return bool(users) and all(
        (user.name == "arith.truncf" and _element(user.results[0].type).width == 16)
        or (user.name == "arith.mulf" and depth > 0 and _only_half(user.results[0], depth - 1))
        for user in users
    )


def _uses(value: ir.Value) -> int:
    return len(list(value.uses))
