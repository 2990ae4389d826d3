"""Maps element types and arithmetic ops of tile programs to Triton's."""

from collections.abc import Sequence

from lamina.core.dtypes import FROM_MLIR

TYPES = {mlir: f"tl.{type_.language}" for mlir, type_ in FROM_MLIR.items() if type_.language} | {"index": "tl.int64"}
POINTERS = {mlir: f"*{type_.pointee}" for mlir, type_ in FROM_MLIR.items() if type_.pointee}
"""Maps an element type to a pointer type as triton.compiler.ASTSource names it."""

CASTS = tuple(f"arith.{op}" for op in "extf truncf extui extsi trunci sitofp uitofp fptosi fptoui index_cast".split())

_INFIX = {
    "addf": "+", "subf": "-", "mulf": "*", "divf": "/", "addi": "+", "subi": "-", "muli": "*", "divui": "//", "remui": "%",
    "divsi": "//", "remsi": "%", "remf": "%", "andi": "&", "ori": "|", "xori": "^", "shli": "<<", "shrsi": ">>",
}  # fmt: skip
_CALLS = {
    "math.exp": "tl.exp", "math.exp2": "tl.exp2", "math.log": "tl.log", "math.log2": "tl.log2", "math.sqrt": "tl.sqrt_rn",
    "math.rsqrt": "tl.rsqrt", "math.erf": "erf", "math.tanh": "tanh", "math.absf": "tl.abs", "math.absi": "tl.abs",
    "math.sin": "tl.sin", "math.cos": "tl.cos", "math.floor": "tl.floor", "math.ceil": "tl.ceil",
}  # fmt: skip
_EXTREMA = {
    "arith.minui": "tl.minimum({0}, {1})", "arith.minsi": "tl.minimum({0}, {1})", "arith.maxsi": "tl.maximum({0}, {1})",
    "arith.maxnumf": "tl.maximum({0}, {1})", "arith.minnumf": "tl.minimum({0}, {1})",
    "arith.maximumf": "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "arith.minimumf": "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
}  # fmt: skip
_WHOLE = "((tl.abs({0}) + {whole}) - {whole})"
# Triton's `!=` is true where an operand is NaN, its other comparisons are false there.
_FLOATS = {
    1: "{0} == {1}", 2: "{0} > {1}", 3: "{0} >= {1}", 4: "{0} < {1}", 5: "{0} <= {1}", 6: "({0} < {1}) | ({0} > {1})",
    7: "({0} == {0}) & ({1} == {1})", 8: "~(({0} < {1}) | ({0} > {1}))", 9: "~({0} <= {1})", 10: "~({0} < {1})",
    11: "~({0} >= {1})", 12: "~({0} > {1})", 13: "{0} != {1}", 14: "({0} != {0}) | ({1} != {1})",
}  # fmt: skip
_INTEGERS = ("==", "!=", "<", "<=", ">", ">=")  # unsigned comparisons have no form
_UNSIGNED = ("arith.extui", "arith.uitofp")

_FORMS: dict[str, str] = {
    **{f"arith.{op}": f"{{0}} {sign} {{1}}" for op, sign in _INFIX.items()},
    **{op: f"{function}({{0}})" for op, function in _CALLS.items()},
    **_EXTREMA,
    **dict.fromkeys(CASTS, "({0}).to({type})"),
    "arith.index_cast": "tl.cast({0}, {type})",  # Triton's interpreter counts loops by numbers of Python
    **dict.fromkeys(_UNSIGNED, "({0}).to({source}, bitcast=True).to({type})"),
    **{f"arith.cmpf {number}": form for number, form in _FLOATS.items()},
    **{f"arith.cmpi {number}": f"{{0}} {sign} {{1}}" for number, sign in enumerate(_INTEGERS)},
    "arith.select": "tl.where({0}, {1}, {2})",
    "arith.negf": "{0} * -1.0",  # `-x` is 0 - x, which is never -0.0
    "arith.bitcast": "({0}).to({type}, bitcast=True)",
    "arith.shrui": "(({0}).to({unsigned}, bitcast=True) >> {1}).to({type}, bitcast=True)",
    "math.fma": "tl.fma({0}, {1}, {2})",
    "math.tan": "tl.sin({0}) / tl.cos({0})",
    "math.trunc": "tl.where({0} < 0, tl.ceil({0}), tl.floor({0}))",
    "math.roundeven": f"tl.where(tl.abs({{0}}) < {{whole}}, tl.where({{0}} < 0, {_WHOLE} * -1.0, {_WHOLE}), {{0}})",
    "math.copysign": "tl.where(({1}).to({bits}, bitcast=True) < 0, tl.abs({0}) * -1.0, tl.abs({0}))",
}
"""Maps each op, with the number of its predicate, to its text: operands by number, and what its result's dtype decides by name."""

_BY_DTYPE: dict[str, dict[str, str]] = {
    "type": TYPES,
    "bits": {"f16": "tl.int16", "bf16": "tl.int16", "f32": "tl.int32", "f64": "tl.int64"},
    "whole": {"f32": "8388608.0", "f64": "4503599627370496.0"},  # all numbers from here on are whole
    "unsigned": {"i8": "tl.uint8", "i16": "tl.uint16", "i32": "tl.uint32", "i64": "tl.uint64"},
}


def typed_select_operands(operands: Sequence[str], dtype: str) -> list[str]:
    """Returns the operands of arith.select between two literals, with a type: Triton would take them for i32 or f32."""
    condition, one, other = operands
    return [condition, one if dtype in ("i1", "i32", "f32") else f"tl.full([], {one}, {TYPES[dtype]})", other]


def op_text(op: str, operands: Sequence[str], dtype: str, predicate: int | None = None, source: str = "") -> str | None:
    """Returns the text of an op with results of `dtype`; None for one without a Triton form. source: the first operand's dtype."""
    form = _FORMS.get(op if predicate is None else f"{op} {predicate}")
    known = {name: texts[dtype] for name, texts in _BY_DTYPE.items() if dtype in texts}
    known["source"] = "tl.int1" if source == "i1" else _BY_DTYPE["unsigned"].get(source, "")
    try:
        return form and form.format(*operands, **known)
    except KeyError:
        return None
