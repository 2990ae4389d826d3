"""Writes arithmetic on scalars and vectors as expressions."""

from collections.abc import Callable
from dataclasses import dataclass

from torch_mlir import ir

from .names import literal, type_text

LONGEST = 90  # characters of an expression that is written inside of another
_SELECT, _COMPARE, _OR, _AND, _SHIFT, _SUM, _PRODUCT, _UNARY, ATOM = range(9)
_INFIX = {
    "addf": ("+", _SUM), "addi": ("+", _SUM), "subf": ("-", _SUM), "subi": ("-", _SUM), "mulf": ("*", _PRODUCT),
    "muli": ("*", _PRODUCT), "divf": ("/", _PRODUCT), "divsi": ("/", _PRODUCT), "divui": ("/", _PRODUCT),
    "remsi": ("%", _PRODUCT), "remui": ("%", _PRODUCT), "remf": ("%", _PRODUCT), "andi": ("&", _AND), "ori": ("|", _OR),
    "xori": ("^", _OR), "shli": ("<<", _SHIFT), "shrsi": (">>", _SHIFT), "shrui": (">>", _SHIFT),
}  # fmt: skip
_CALLS = {
    "maximumf": "max", "maxnumf": "max", "maxsi": "max", "maxui": "max", "minimumf": "min", "minnumf": "min", "minsi": "min",
    "minui": "min",
}  # fmt: skip
_CASTS = (
    "extf", "truncf", "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "fptoui", "bitcast", "index_cast", "index_castui",
)  # fmt: skip
_THROUGH = ("index_cast", "index_castui")
_FLOAT_PREDICATES = ("false", "==", ">", ">=", "<", "<=", "!=", "ordered", "==", ">", ">=", "<", "<=", "!=", "unordered", "true")
_INTEGER_PREDICATES = ("==", "!=", "<", "<=", ">", ">=", "<", "<=", ">", ">=")
_REDUCTIONS = {"add": "sum", "mul": "product", "maximumf": "max", "maxnumf": "max", "minimumf": "min", "minnumf": "min"}


@dataclass(frozen=True)
class Text:
    """An expression. binds: how tightly its outermost operator binds, up to ATOM."""

    text: str
    binds: int = ATOM

    def within(self, binds: int) -> str:
        """Returns the text as an operand of an operator that binds so tightly."""
        return self.text if self.binds >= binds else f"({self.text})"


Operand = Callable[[ir.Value], Text]


def is_arithmetic(op: ir.Operation) -> bool:
    """Returns whether `expression` writes an op: it has one result and no effect."""
    dialect, _, name = op.name.partition(".")
    return dialect in ("arith", "math") or op.name in ("vector.broadcast", "vector.splat", "vector.reduction") or name == "lanes"


def expression(op: ir.Operation, operand: Operand) -> Text:
    """Returns an arithmetic op as an expression over the texts of its operands."""
    dialect, _, name = op.name.partition(".")
    values = [operand(v) for v in op.operands]
    if op.name == "arith.constant":
        return Text(literal(op.attributes["value"]))
    if op.name in ("vector.broadcast", "vector.splat"):
        return values[0]
    if op.name == "vector.reduction":
        return _call(_reduction(op), values)
    if dialect == "arith":
        if found := _INFIX.get(name):
            symbol, binds = found
            return Text(f"{values[0].within(binds)} {symbol} {values[1].within(binds + 1)}", binds)
        if name in ("cmpf", "cmpi"):
            symbols = _FLOAT_PREDICATES if name == "cmpf" else _INTEGER_PREDICATES
            symbol = symbols[ir.IntegerAttr(op.attributes["predicate"]).value]
            return Text(f"{values[0].within(_OR)} {symbol} {values[1].within(_OR)}", _COMPARE)
        if name == "select":
            condition, yes, no = values
            return Text(f"{condition.within(_COMPARE)} ? {yes.within(_COMPARE)} : {no.within(_SELECT)}", _SELECT)
        if name == "negf":
            return Text(f"-{values[0].within(_UNARY)}", _UNARY)
        if name in _THROUGH:
            return values[0]
        if name in _CASTS:
            return _call(str(_element(op.results[0].type)), values)
    return _call(_CALLS.get(name, name), values)


def _call(name: str, values: list[Text]) -> Text:
    return Text(f"{name}({', '.join(v.text for v in values)})")


def _reduction(op: ir.Operation) -> str:
    kind = str(op.attributes["kind"]).partition("<")[2].rstrip(">")
    return _REDUCTIONS.get(kind, kind)


def _element(type_: ir.Type) -> ir.Type | str:
    return type_.element_type if isinstance(type_, ir.ShapedType) else type_text(type_)
