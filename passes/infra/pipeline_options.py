"""Converts pass options between dataclass fields and pipeline text.

    max_ops: int = 64            lamina-fuse{max-ops=8}
    strict: bool = False         lamina-fuse{strict}   {strict=true}   {strict=0}
    fast_math: tuple[str, ...]   lamina-simplify{fast-math=exp-log,mul-zero}
    target: Target | None        lamina-tile{target=cpu}

A field of any other type cannot be set in pipeline text.
"""

import re
import types
from contextlib import suppress
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from lamina.core.errors import CompileError, suggestion
from lamina.core.target import Target

from .base import Pass
from .pipeline_text import PassCall, error_at

_BOOLS = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}


def build(cls: type[Pass], call: PassCall) -> Pass:
    """Creates the pass with the options of `call`. Raises CompileError that names the wrong option or value and the valid ones."""
    values = read(cls, call.options, call.name, call.column)
    try:
        return cls(**values)
    except CompileError as error:
        raise error_at(call.column, error.message, error.remedy) from None


def read(cls: type, options: tuple[tuple[str, str | None], ...], owner: str, column: int = 1) -> dict[str, Any]:
    """Returns keyword arguments for the dataclass `cls`, from option text. Raises CompileError at `column`."""
    hints = _types(cls)
    known = {f.name.replace("_", "-"): f.name for f in fields(cls)}
    values: dict[str, Any] = {}
    for key, text in options:
        if key not in known:
            raise error_at(column, f"unknown option {key!r} of {owner}", suggestion(key, known))
        if known[key] in values:
            raise error_at(column, f"option {key!r} of {owner} is given twice")
        try:
            values[known[key]] = _value(hints[known[key]], text)
        except (ValueError, KeyError):
            given = repr(text) if text is not None else "nothing"
            raise error_at(column, f"option {key!r} of {owner} is {_kind(hints[known[key]])}, given {given}") from None
        except CompileError as error:
            raise error_at(column, f"option {key!r} of {owner}: {error.message}", error.remedy) from None
    for f in fields(cls):
        if f.default is MISSING and f.default_factory is MISSING and f.name not in values:
            raise error_at(column, f"{owner} needs its option {f.name.replace('_', '-')!r}")
    return values


def describe(cls: type[Pass]) -> tuple[str, list[tuple[str, str]]]:
    """Returns the one-line help of a pass, and for each option its text with type and default and its line in the docstring."""
    doc, hints = cls.__doc__ or "", get_type_hints(cls)
    options = []
    for f in fields(cls):
        name = f.name.replace("_", "-")
        default = f.default_factory() if f.default_factory is not MISSING else f.default
        shown = "" if default is MISSING else f" [{_text(default)}]"
        line = re.search(rf"^\s*{f.name}\s{{2,}}(\S.*)$", doc, re.MULTILINE)
        options.append((f"{name}={_kind(hints[f.name])}{shown}", line[1] if line else ""))
    return doc.strip().split("\n")[0], options


@cache
def _types(cls: type) -> dict[str, Any]:
    """Returns the types of a dataclass's fields by name. Each compilation asks for those of twenty passes, 0.2 ms a pass."""
    return get_type_hints(cls)


def _value(kind: Any, text: str | None) -> Any:
    """Parses `text` as a value of type `kind`. Raises ValueError or KeyError."""
    origin, args = get_origin(kind), get_args(kind)
    if kind is bool:
        if text is None:
            return True
        if text.lower() not in _BOOLS:
            raise ValueError(text)
        return _BOOLS[text.lower()]
    if text is None:
        raise ValueError("a value is missing")
    if origin in (Union, types.UnionType):
        inner = [a for a in args if a is not type(None)]
        if type(None) in args and text == "none":
            return None
        for each in inner:
            with suppress(ValueError, KeyError):
                return _value(each, text)
        raise ValueError(text)
    if origin is tuple:
        parts = [p for p in _bare(text).split(",") if p]
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_value(args[0], p) for p in parts)
        if len(parts) != len(args):
            raise ValueError(text)
        return tuple(_value(a, p) for a, p in zip(args, parts, strict=True))
    if origin is Literal:
        return {str(a): a for a in args}[_bare(text)]
    if kind in (int, float):
        return kind(text)
    if kind is str:
        return _bare(text)
    if kind is Target:
        return Target.parse(_bare(text))
    raise CompileError(f"a pass option of type {kind} has no form in pipeline text")


def _bare(text: str) -> str:
    """Strips the quotes or braces around a value."""
    for open_, close in ("''", '""', "{}"):
        if len(text) > 1 and text[0] == open_ and text[-1] == close:
            return text[1:-1]
    return text


def _kind(kind: Any) -> str:
    origin, args = get_origin(kind), get_args(kind)
    if origin is tuple:
        return f"list of {_kind(args[0])}" if args[-1] is Ellipsis else f"({', '.join(map(_kind, args))})"
    if origin is Literal:
        return " or ".join(map(str, args))
    if origin in (Union, types.UnionType):
        return " or ".join("none" if a is type(None) else _kind(a) for a in args)
    return "target" if kind is Target else str(getattr(kind, "__name__", kind))


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
