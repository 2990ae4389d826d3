"""Shorter GPU code where less accuracy is enough: divisors known to be moderate, and exponentials that are only used in f16 or
bf16."""

from torch_mlir import ir

from ...ir.emit import Emit, replace
from ...ir.reading import element_of, number_of
from . import hardware

LOG2_E = 1.4426950408889634
DEPTH = 6  # ops between an exponential and the rounding to f16 or bf16


def by_reciprocal(op: ir.Operation) -> None:
    """Marks x / (1 + exp(y)), as in sigmoid, SiLU and GELU: the divisor is at least 1, so that a plain reciprocal will do, in 2
    instructions and with 2 ulp. It is 0 for divisors above 2**126, where the true one is denormal."""
    if isinstance(element_of(op.results[0].type), ir.F32Type) and _is_one_plus_exp(op.operands[1]):
        op.attributes["fastmath"] = hardware.flags("arcp,afn")


def short_exp(op: ir.Operation) -> None:
    """Shortens math.exp of f32 that becomes f16 or bf16, maybe after products, quotients and 1 + exp(y): 2 instructions in place
    of 8.

    The hardware's power of the rounded y log2(e) has a relative error of 2**-22 + abs(y) * 2**-23, below 2**-16, against 2**-12
    and 2**-9 of the rounding; below 2**-126 it is 0. A bf16 kernel at full bandwidth has time for some 25 instructions an
    element.
    """
    if isinstance(element_of(op.results[0].type), ir.F32Type) and _only_half(op.results[0], DEPTH, positive=True):
        e = Emit.before(op)
        replace(op, hardware.ex2(e.wrap(op.operands[0]) * LOG2_E))


def _only_half(value: ir.Value, depth: int, *, positive: bool) -> bool:
    """Returns whether a relative error in a value ends in no more than one of the rounding to f16 or bf16. Adding a constant to a
    positive value does no harm."""
    users = [use.owner for use in value.uses]
    for user in users:
        if user.name == "arith.truncf" and element_of(user.results[0].type).width == 16:
            continue
        adds = user.name == "arith.addf" and positive and any(map(_is_not_negative, user.operands))
        if not (adds or user.name in ("arith.mulf", "arith.divf")) or not depth:
            return False
        if not _only_half(user.results[0], depth - 1, positive=adds):
            return False
    return bool(users)


def _is_one_plus_exp(value: ir.Value) -> bool:
    add = value.owner
    if isinstance(add, ir.Block) or add.name != "arith.addf":
        return False
    exp = any(not isinstance(v.owner, ir.Block) and v.owner.name == "math.exp" for v in add.operands)
    return exp and any(number_of(v) == 1.0 for v in add.operands)


def _is_not_negative(value: ir.Value) -> bool:
    known = number_of(value)
    return known is not None and known >= 0
