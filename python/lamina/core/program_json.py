"""Serializes programs as JSON, by the types of their fields.

A dataclass is the list of its fields; where several types may stand, {"its name": [...]}. Constants are base64; floats that JSON
lacks are {"float": "inf"}; symbolic sizes are as in `size`.
"""

import base64
import json
import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from .errors import CompileError
from .program import Program
from .sizes import Size, SizeLike, size_from_json, size_to_json

VERSION = 11


class Codec(NamedTuple):
    """Converts values of one type to JSON data and back. A field of type Annotated[type, Codec(...)] has a codec of its own.

    write  returns a value as JSON data
    read   returns the value of such data; raises ValueError, KeyError or TypeError for other data
    """

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def dumps(program: Program) -> str:
    """Returns a program as compact JSON text."""
    return json.dumps({"version": VERSION, "program": codec(Program).write(program)}, separators=(",", ":"), allow_nan=False)


def loads(text: str) -> Program:
    """Reads the text of `dumps`. Raises CompileError for any other text and for another format version."""
    try:
        data = json.loads(text)
        if data["version"] != VERSION:
            raise CompileError(f"a program of format {data['version']}, not {VERSION}", remedy="compile it again")
        program: Program = codec(Program).read(data["program"])
        return program
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise CompileError(f"not a Lamina program: {type(error).__name__}: {error}", remedy="compile it again") from error


@cache
def codec(hint: Any) -> Codec:
    """Returns the codec of a type: of a dataclass, a tuple, a plain value, or a union of these."""
    if hint == SizeLike:
        return Codec(size_to_json, size_from_json)
    if hint is Size:
        return Codec(str, size_from_json)
    if hint is bytes:
        return Codec(lambda data: base64.b64encode(data).decode(), partial(base64.b64decode, validate=True))
    if is_dataclass(hint):
        return _dataclass(hint)
    if get_origin(hint) is Literal:
        return Codec(_unchanged, partial(_one_of, get_args(hint)))
    if get_origin(hint) is Annotated:
        (metadata,) = hint.__metadata__  # a codec, or the texts that it may be
        return metadata if isinstance(metadata, Codec) else Codec(_unchanged, partial(_one_of, metadata))
    if get_origin(hint) is tuple:
        return _tuple(get_args(hint))
    return _union(get_args(hint)) if get_args(hint) else Codec(_unchanged, partial(_exactly, hint))


def _dataclass(cls: Any) -> Codec:
    hints = get_type_hints(cls, include_extras=True)
    parts = [(field.name, *codec(hints[field.name])) for field in fields(cls)]

    def read(data: Any) -> Any:
        """Builds the dataclass from a list of its fields."""
        return cls(*(reads(x) for (_, _, reads), x in zip(parts, _exactly(list, data), strict=True)))

    return Codec(lambda value: [writes(getattr(value, name)) for name, writes, _ in parts], read)


def _tuple(hints: tuple[Any, ...]) -> Codec:
    if hints[-1] is ...:
        write, read = codec(hints[0])
        return Codec(lambda value: [write(x) for x in value], lambda data: tuple([read(x) for x in _exactly(list, data)]))
    codecs = [codec(hint) for hint in hints]
    return Codec(
        lambda value: [write(x) for (write, _), x in zip(codecs, value, strict=True)],
        lambda data: tuple(read(x) for (_, read), x in zip(codecs, _exactly(list, data), strict=True)),
    )


def _union(hints: tuple[Any, ...]) -> Codec:
    """Returns the codec of dataclasses, which are told by their names, plain values, and tuples of the same."""
    dataclasses: list[Any] = list(filter(is_dataclass, hints))
    classes = {hint.__name__: codec(hint) for hint in dataclasses}
    plain = tuple(hint for hint in hints if hint in (type(None), bool, int, float, str))

    def write(value: Any) -> Any:
        """Writes a value as JSON, a dataclass under the name of its class."""
        if isinstance(value, tuple):
            return [write(x) for x in value]
        if isinstance(value, float) and not math.isfinite(value):
            return {"float": repr(value)}
        name = type(value).__name__
        return {name: classes[name][0](value)} if name in classes else value

    def read(data: Any) -> Any:
        """Reads the data of `write`. Raises for any other data."""
        if isinstance(data, list):
            return tuple(read(x) for x in data)
        if isinstance(data, dict):
            ((name, value),) = data.items()
            return float(value) if name == "float" else classes[name][1](value)
        if type(data) not in plain:
            raise TypeError(f"{data!r} is none of {', '.join(map(str, hints))}")
        return data

    return Codec(write, read)


def _unchanged(value: Any) -> Any:
    return value


def _exactly(kind: type, value: Any) -> Any:
    """Returns `value`. Raises TypeError unless its type is exactly `kind`: True is not an int."""
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value


def _one_of(texts: Any, value: Any) -> Any:
    if value not in texts:
        raise ValueError(f"{value!r} is none of {', '.join(texts)}")
    return value
