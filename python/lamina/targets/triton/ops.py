"""Maps arithmetic ops of tile programs to Triton expressions."""

from collections.abc import Sequence

TYPES = {
    "f16": "tl.float16", "bf16": "tl.bfloat16", "f32": "tl.float32", "f64": "tl.float64", "i1": "tl.int1", "i8": "tl.int8",
    "i16": "tl.int16", "i32": "tl.int32", "i64": "tl.int64", "index": "tl.int64", "f8E4M3FN": "tl.float8e4nv",
}  # fmt: skip
POINTERS = {
    "f16": "*fp16", "bf16": "*bf16", "f32": "*fp32", "f64": "*fp64", "i8": "*i8", "i16": "*i16", "i32": "*i32", "i64": "*i64",
    "f8E4M3FN": "*fp8e4nv",
}  # fmt: skip
"""Maps an element type to a pointer type as triton.compiler.ASTSource names it."""

_INFIX = {
    "arith.addf": "+", "arith.subf": "-", "arith.mulf": "*", "arith.divf": "/",
    "arith.addi": "+", "arith.subi": "-", "arith.muli": "*",
    "arith.divui": "//", "arith.remui": "%", "arith.divsi": "//", "arith.remsi": "%", "arith.remf": "%",
    "arith.andi": "&", "arith.ori": "|", "arith.xori": "^", "arith.shli": "<<", "arith.shrsi": ">>",
}  # fmt: skip
_NAN = "propagate_nan=tl.PropagateNan.ALL"
_CALLS = {
    "arith.minui": "tl.minimum({0}, {1})", "arith.minsi": "tl.minimum({0}, {1})", "arith.maxsi": "tl.maximum({0}, {1})",
    "arith.maximumf": f"tl.maximum({{0}}, {{1}}, {_NAN})", "arith.minimumf": f"tl.minimum({{0}}, {{1}}, {_NAN})",
    "arith.maxnumf": "tl.maximum({0}, {1})", "arith.minnumf": "tl.minimum({0}, {1})",
    "arith.select": "tl.where({0}, {1}, {2})",
    "arith.negf": "{0} * -1.0",  # `-x` is 0 - x, which is never -0.0
    "math.exp": "tl.exp({0})", "math.exp2": "tl.exp2({0})", "math.log": "tl.log({0})", "math.log2": "tl.log2({0})",
    "math.sqrt": "tl.sqrt_rn({0})", "math.rsqrt": "tl.rsqrt({0})", "math.erf": "erf({0})", "math.tanh": "tanh({0})",
    "math.absf": "tl.abs({0})",
    "math.sin": "tl.sin({0})", "math.cos": "tl.cos({0})", "math.floor": "tl.floor({0})", "math.ceil": "tl.ceil({0})",
    "math.fma": "tl.fma({0}, {1}, {2})", "math.absi": "tl.abs({0})",
    "math.tan": "tl.sin({0}) / tl.cos({0})", "math.trunc": "tl.where({0} < 0, tl.ceil({0}), tl.floor({0}))",
}  # fmt: skip
CASTS = (
    "arith.extf",
    "arith.truncf",
    "arith.extui",
    "arith.extsi",
    "arith.trunci",
    "arith.sitofp",
    "arith.uitofp",
    "arith.fptosi",
    "arith.fptoui",
    "arith.index_cast",
)

_BITS = {"f16": "tl.int16", "bf16": "tl.int16", "f32": "tl.int32", "f64": "tl.int64"}
_WHOLE = {"f32": 2.0**23, "f64": 2.0**52}  # all numbers from here on are whole
_UNSIGNED = {"i8": "tl.uint8", "i16": "tl.uint16", "i32": "tl.uint32", "i64": "tl.uint64"}
_ORDERED = {1: "==", 2: ">", 3: ">=", 4: "<", 5: "<="}
_UNORDERED = {9: "<=", 10: "<", 11: ">=", 12: ">"}  # the ordered comparison that each negates
_INTEGERS = {0: "==", 1: "!=", 2: "<", 3: "<=", 4: ">", 5: ">="}

FORMS = frozenset(
    {*_INFIX, *_CALLS, *CASTS, "math.roundeven", "math.copysign", "arith.bitcast", "arith.shrui", "arith.cmpf", "arith.cmpi"}
)
"""Names the ops that `applied` knows."""


def _compare_floats(predicate: int, a: str, b: str) -> str:
    """Returns the text of arith.cmpf. Triton's `!=` is true where an operand is NaN, its other comparisons are false there."""
    if predicate in _ORDERED:
        return f"{a} {_ORDERED[predicate]} {b}"
    if predicate in _UNORDERED:
        return f"~({a} {_UNORDERED[predicate]} {b})"
    return {
        6: f"({a} < {b}) | ({a} > {b})",
        7: f"({a} == {a}) & ({b} == {b})",
        8: f"~(({a} < {b}) | ({a} > {b}))",
        13: f"{a} != {b}",
        14: f"({a} != {a}) | ({b} != {b})",
    }[predicate]


def choice(operands: Sequence[str], dtype: str) -> list[str]:
    """Returns the operands of arith.select between two literals, with a type: Triton would take them for i32 or f32."""
    condition, one, other = operands
    return [condition, one if dtype in ("i1", "i32", "f32") else f"tl.full([], {one}, {TYPES[dtype]})", other]


def applied(op: str, operands: Sequence[str], dtype: str, predicate: int | None = None) -> str | None:
    """Returns the text of an op with results of `dtype`; None for one without a Triton form (unsigned comparisons too)."""
    if op in _INFIX:
        return f"{operands[0]} {_INFIX[op]} {operands[1]}"
    if op in _CALLS:
        return _CALLS[op].format(*operands)
    if op == "math.roundeven" and dtype in _WHOLE:
        size = f"((tl.abs({operands[0]}) + {_WHOLE[dtype]}) - {_WHOLE[dtype]})"
        signed = f"tl.where({operands[0]} < 0, {size} * -1.0, {size})"
        return f"tl.where(tl.abs({operands[0]}) < {_WHOLE[dtype]}, {signed}, {operands[0]})"
    if op == "math.copysign" and dtype in _BITS:
        size = f"tl.abs({operands[0]})"
        return f"tl.where(({operands[1]}).to({_BITS[dtype]}, bitcast=True) < 0, {size} * -1.0, {size})"
    if op == "arith.bitcast":
        return f"({operands[0]}).to({TYPES[dtype]}, bitcast=True)" if dtype in TYPES else None
    if op == "arith.shrui" and dtype in _UNSIGNED:
        return f"(({operands[0]}).to({_UNSIGNED[dtype]}, bitcast=True) >> {operands[1]}).to({TYPES[dtype]}, bitcast=True)"
    if op in CASTS:
        return f"({operands[0]}).to({TYPES[dtype]})" if dtype in TYPES else None
    if op == "arith.cmpf" and predicate is not None:
        return _compare_floats(predicate, *operands)
    if op == "arith.cmpi" and predicate in _INTEGERS:
        return f"{operands[0]} {_INTEGERS[predicate]} {operands[1]}"
    return None
