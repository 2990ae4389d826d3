"""Rewrite rules on scalars, by root op. A rule returns the value that replaces the op's result, or None."""

from collections.abc import Callable

from torch_mlir import ir

from ..scope import RewriteScope
from . import arithmetic, casts, integers, intervals, powers, relaxed, selection

Rule = Callable[[RewriteScope, ir.Operation], ir.Value | None]

RULES: dict[str, tuple[Rule, ...]] = {
    "arith.addf": (arithmetic.add,),
    "arith.subf": (arithmetic.subtract,),
    "arith.mulf": (relaxed.times_zero, arithmetic.multiply),
    "arith.divf": (relaxed.self_quotient, arithmetic.divide, powers.divide_by_root),
    "arith.negf": (arithmetic.negate,),
    "math.absf": (arithmetic.absolute,),
    "math.powf": (powers.power,),
    "math.fpowi": (powers.power,),
    "math.exp": (relaxed.exp_of_log,),
    "math.log": (relaxed.log_of_exp,),
    "arith.maximumf": (selection.extremum,),
    "arith.minimumf": (selection.extremum,),
    "arith.select": (selection.select,),
    "arith.truncf": (casts.truncate,),
    "arith.extf": (casts.extend,),
    "arith.trunci": (casts.truncate_integer,),
    "arith.sitofp": (casts.bool_to_float,),
    "arith.uitofp": (casts.bool_to_float,),
    "arith.index_cast": (casts.index, intervals.narrow_table),
    "arith.fptosi": (integers.floor_division,),
    "arith.cmpi": (integers.compare, intervals.compare),
    "arith.addi": (integers.add,),
    "arith.subi": (integers.subtract,),
    "arith.muli": (integers.multiply,),
    "arith.andi": (integers.same_or_constant,),
    "arith.ori": (integers.same_or_constant,),
    "arith.xori": (integers.exclusive,),
}
