"""Parses and prints symbolic sizes: the text in MLIR attributes, types and JSON, Python expressions, and a form for people.

    "16*s0~8 + 1"      s0 is a symbol, which was 8 when the graph was captured: its hint
    "s0~8>=0<=64"      s0 has a least and a largest value other than 2 and none
    "((s0~8)//(4))"    a quotient, as remainders (%), minima ("min(s0~8, s1~2)") and roots, is an opaque factor

`str` of a size writes this text.
"""

import ast
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import isqrt
from typing import Any

from .factors import LEAST, Factor, SizeSymbol
from .floats import FLOAT_OPS, ROUNDED
from .size import Size, SizeLike, exact_quotient
from .values import apply_op

_SYMBOL = re.compile(r"([A-Za-z_]\w*)~(-?\d+)(?:>=(-?\d+))?(?:<=(-?\d+))?")
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b, ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b, ast.Div: exact_quotient,
}  # fmt: skip
_CALLED = {"min", "max", "root", *FLOAT_OPS, *ROUNDED}


@lru_cache(65536)
def parse(text: str) -> SizeLike:
    """Reads the text of a size, as `str` writes it. Raises ValueError for any other text."""

    def read(node: ast.expr) -> int | Size:
        """Evaluates a node of the parsed expression."""
        match node:
            case ast.Constant(value=value) if type(value) is int:
                return value
            case ast.Subscript(ast.Name(id=symbol), ast.Slice(ast.expr() as hint, ast.expr() as low, top)):
                return Size.of(symbol, _integer(hint), _integer(low), None if top is None else _integer(top))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -read(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                result: int | Size = _BINARY[type(op)](read(left), read(right))
                return result
            case ast.Call(func=ast.Name(id=name), args=[one, other]) if name in _CALLED:
                return apply_op(name, read(one), read(other))
        raise ValueError(f"{text!r} is not a size")

    try:
        return read(ast.parse(_SYMBOL.sub(_subscript, text.replace("[", "?")), mode="eval").body)
    except (SyntaxError, ZeroDivisionError, ValueError) as error:
        raise ValueError(f"{text!r} is not a size") from error


def _integer(number: ast.expr) -> int:
    """Evaluates a literal, with or without a sign."""
    return int(ast.literal_eval(number))


def _subscript(symbol: re.Match[str]) -> str:
    """Writes a symbol as a Python expression, such as "s0[8:2:64]" for "s0~8<=64"."""
    name, hint, low, top = symbol.groups()
    return f"{name}[{hint}:{LEAST if low is None else low}:{top or ''}]"


def without_hints(size: SizeLike) -> SizeLike:
    """Returns a size with the same hint for every symbol, so that it equals the same size of a compilation for other inputs."""
    return size if isinstance(size, int) else parse(re.sub(r"~-?\d+", f"~{LEAST}", str(size)))


def with_hints(text: str, values: Mapping[str, int]) -> str:
    """Returns a text with sizes in it, such as that of a module, with these values as the hints of symbols that have no limits."""

    def hinted(symbol: re.Match[str]) -> str:
        """Writes a symbol with its new hint."""
        name, _, low, top = symbol.groups()
        return symbol[0] if name not in values or low or top else f"{name}~{values[name]}"

    return _SYMBOL.sub(hinted, text)


FUNCTIONS: dict[str, Callable[..., Any]] = {"isqrt": isqrt, **FLOAT_OPS, **ROUNDED}


def as_python(size: SizeLike) -> str:
    """Returns a size as a Python expression of its symbols' names and FUNCTIONS, which has the value that `evaluate` returns."""
    if isinstance(size, int):
        return str(size)
    products = ([*([str(k)] if k != 1 or not factors else []), *map(_python, factors)] for factors, k in size.terms)
    return " + ".join(map("*".join, products))


def _python(f: Factor) -> str:
    if isinstance(f, SizeSymbol):
        return f.name
    left, right = as_python(f.left), as_python(f.right)
    if f.op == "root":
        return f"isqrt({left})"
    if f.op in _CALLED:
        return f"{f.op}({left}, {right})"
    return f"(-(-({left})//({right})))" if f.op == "/" else f"(({left}){f.op}({right}))"


def size_to_json(size: SizeLike) -> Any:
    """Returns a size as JSON data: a number, or its text."""
    return size if isinstance(size, int) else str(size)


def size_from_json(data: Any) -> SizeLike:
    """Reads the result of `size_to_json`. Raises TypeError or ValueError for other data."""
    if type(data) is int:
        return data
    if not isinstance(data, str):
        raise TypeError(f"{data!r} is not a size")
    return parse(data)


def readable(size: SizeLike) -> str:
    """Returns a size as text for people, which `parse` cannot read: symbols without hints, and quotients as floor and ceil."""
    if isinstance(size, int):
        return str(size)
    out = ""
    for factors, k in size.terms:
        parts = []
        for f in factors:
            if not isinstance(f, SizeSymbol) and f.op == "/" and isinstance(f.right, int) and k % f.right == 0:
                k = k // f.right  # 4*(n/2) is shown as 2*n
                parts.append(_grouped(f.left, " "))
                continue
            up = k < 0 and not isinstance(f, SizeSymbol) and f.op == "//" and _is_negative(f.left)  # -(-n//2) is ceil(n / 2)
            parts.append(_factor(f, up))
            k = -k if up else k
        number = [str(abs(k))] if abs(k) != 1 or not parts else []
        out += (" - " if k < 0 else " + ") if out else ("-" if k < 0 else "")
        out += "*".join(number + parts)
    return out


_SHOWN: dict[str, Callable[[str, str], str]] = {
    "fmul": lambda a, b: f"{a} * {b}", "fadd": lambda a, b: f"({a} + {b})", "fmin": lambda a, b: f"min({a}, {b})",
    "fmax": lambda a, b: f"max({a}, {b})", "fpow": lambda a, b: f"pow({a}, {b})",
}  # fmt: skip


def _factor(f: Factor, up: bool) -> str:
    """Returns a factor as text for people. up: writes a quotient (-a)//b as ceil(a / b), without its sign."""
    if isinstance(f, SizeSymbol):
        return f.name
    if f.op == "root":
        return f"floor(sqrt({readable(f.left)}))"
    if f.op in ("min", "max"):
        return f"{f.op}({readable(f.left)}, {readable(f.right)})"
    if f.op in _SHOWN:
        return _SHOWN[f.op](readable(f.left), readable(f.right))
    if f.op != "fdiv" and f.op in FUNCTIONS:  # of one number
        return f"{f.op.removeprefix('f') if f.op in FLOAT_OPS else f.op}({readable(f.left)})"
    if f.op == "fdiv" and isinstance(f.left, int) and isinstance(f.right, int):
        return str(f.left / f.right)
    left, right = _grouped(-f.left if up else f.left, " "), _grouped(f.right, " */")
    if f.op == "/":
        return f"{left}/{right}"
    if f.op == "fdiv":
        return f"({left} / {right})"
    return f"({left} % {right})" if f.op == "%" else f"{'ceil' if up else 'floor'}({left} / {right})"


def _grouped(size: SizeLike, operators: str) -> str:
    """Returns a size as text for people, in parentheses if one of these operators is outside of any parentheses in it."""
    text = readable(size)
    return f"({text})" if set(operators) & set(_outside(text)) else text


def _outside(text: str) -> str:
    """Returns a text without its parenthesized parts."""
    while (shorter := re.sub(r"\([^()]*\)", "", text)) != text:
        text = shorter
    return text


def _is_negative(size: SizeLike) -> bool:
    return size < 0 if isinstance(size, int) else all(k < 0 for _, k in size.terms)
