"""Serializes programs as JSON. Constants are base64; floats that JSON lacks are written as {"float": "inf"}; refs are flat
lists."""

import base64
import json
import math
from functools import partial
from typing import Any, TypeVar

from .errors import CompileError
from .program import (
    ITEM_BYTES,
    Arg,
    Buffer,
    Call,
    Constant,
    Device,
    Launch,
    Program,
    Ref,
    Step,
    SymbolSource,
    TensorSpec,
)
from .size import size_from_json as _size
from .size import size_to_json as _js

VERSION = 6

_Kind = TypeVar("_Kind")


def dumps(program: Program) -> str:
    """Returns a program as compact JSON text."""
    return json.dumps(_program_to_json(program), separators=(",", ":"), allow_nan=False)


def loads(text: str) -> Program:
    """Reads what `dumps` wrote. Raises CompileError for any other text and for another format version."""
    try:
        data = json.loads(text)
        if data["version"] != VERSION:
            raise CompileError(f"a program of format {data['version']}, not {VERSION}", remedy="compile it again")
        return _program_from_json(data)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise CompileError(f"not a Lamina program: {type(error).__name__}: {error}", remedy="compile it again") from error


def _program_to_json(p: Program) -> dict[str, Any]:
    return {
        "version": VERSION,
        "name": p.name,
        "device": p.device,
        "arena_bytes": _js(p.arena_bytes),
        "sum_bytes": _js(p.sum_bytes),
        "lower_bound": _js(p.lower_bound),
        "symbols": [[s.name, s.input, s.dim] for s in p.symbols],
        "inputs": [[i.dtype, _sizes_js(i.shape), _sizes_js(i.strides), i.align] for i in p.inputs],
        "buffers": [[b.kind, b.index, _js(b.offset), _js(b.bytes), b.last] for b in p.buffers],
        "constants": [[c.dtype, list(c.shape), base64.b64encode(c.data).decode()] for c in p.constants],
        "steps": [_step_to_json(s) for s in p.steps],
        "outputs": [_ref_to_json(r) for r in p.outputs],
        "saved": list(p.saved),
    }


def _program_from_json(d: dict[str, Any]) -> Program:
    return Program(
        name=_text(d["name"]),
        device=_device(d["device"]),
        arena_bytes=_size(d["arena_bytes"]),
        sum_bytes=_size(d["sum_bytes"]),
        lower_bound=_size(d["lower_bound"]),
        symbols=tuple(SymbolSource(_text(n), _int(i), _int(k)) for n, i, k in _list(d["symbols"])),
        inputs=tuple(TensorSpec(_dtype(t), _sizes(shape), _sizes(strides), _int(n)) for t, shape, strides, n in _list(d["inputs"])),
        buffers=tuple(Buffer(k, _int(i), _size(o), _size(b), _int(last)) for k, i, o, b, last in _list(d["buffers"])),
        constants=tuple(_constant(*parts) for parts in _list(d["constants"])),
        steps=tuple(_step_from_json(s) for s in _list(d["steps"])),
        outputs=tuple(_ref_from_json(r) for r in _list(d["outputs"])),
        saved=tuple(map(_int, _list(d["saved"]))),
    )


def _constant(dtype: Any, shape: Any, data: Any) -> Constant:
    return Constant(_dtype(dtype), tuple(map(_int, _list(shape))), base64.b64decode(data, validate=True))


def _step_to_json(s: Step) -> dict[str, Any]:
    if isinstance(s, Launch):
        return {
            "kernel": s.kernel,
            "args": [_ref_to_json(r) for r in s.args],
            "n_out": s.n_out,
            "grid": _js(s.grid),
            "grid_yz": list(s.grid_yz),
            "bytes": _js(s.bytes),
            "flops": _js(s.flops),
            "name": s.name,
            "where": list(s.where),
            "ops": list(s.ops),
            "inplace": [list(pair) for pair in s.inplace],
            "threads": s.threads,
            "threads_yz": list(s.threads_yz),
            "cluster": s.cluster,
            "shared": s.shared,
            "dependent": s.dependent,
            "scratch": [_ref_to_json(r) for r in s.scratch],
        }
    return {
        "callee": s.callee,
        "reason": s.reason,
        "args": [_arg_to_json(a) for a in s.args],
        "kwargs": [[name, _arg_to_json(a)] for name, a in s.kwargs],
        "outs": [_ref_to_json(r) for r in s.outs],
        "owned": [None if r is None else _ref_to_json(r) for r in s.owned],
        "name": s.name,
        "where": list(s.where),
    }


def _step_from_json(d: dict[str, Any]) -> Step:
    if "kernel" in d:
        return Launch(
            kernel=_text(d["kernel"]),
            args=tuple(_ref_from_json(r) for r in _list(d["args"])),
            n_out=_int(d["n_out"]),
            grid=_size(d["grid"]),
            grid_yz=_pair(d["grid_yz"]),
            bytes=_size(d["bytes"]),
            flops=_size(d["flops"]),
            name=_text(d["name"]),
            where=tuple(map(_text, _list(d["where"]))),
            ops=tuple(map(_text, _list(d["ops"]))),
            inplace=tuple((_int(i), _int(o)) for i, o in _list(d["inplace"])),
            threads=_int(d["threads"]),
            threads_yz=_pair(d["threads_yz"]),
            cluster=_int(d["cluster"]),
            shared=_int(d["shared"]),
            dependent=_flag(d["dependent"]),
            scratch=tuple(_ref_from_json(r) for r in _list(d["scratch"])),
        )
    return Call(
        callee=_text(d["callee"]),
        reason=_text(d["reason"]),
        args=tuple(_arg_from_json(a) for a in _list(d["args"])),
        kwargs=tuple((_text(name), _arg_from_json(a)) for name, a in _list(d["kwargs"])),
        outs=tuple(_ref_from_json(r) for r in _list(d["outs"])),
        owned=tuple(None if r is None else _ref_from_json(r) for r in _list(d["owned"])),
        name=_text(d["name"]),
        where=tuple(map(_text, _list(d["where"]))),
    )


def _ref_to_json(r: Ref) -> list[Any]:
    return [r.buffer, _js(r.offset), r.dtype, _sizes_js(r.shape), _sizes_js(r.strides)]


def _ref_from_json(data: Any) -> Ref:
    buffer, offset, dtype, shape, strides = _list(data)
    return Ref(_int(buffer), _size(offset), _dtype(dtype), _sizes(shape), _sizes(strides))


def _arg_to_json(a: Arg) -> Any:
    if isinstance(a, Ref):
        return {"ref": _ref_to_json(a)}
    if isinstance(a, tuple):
        return [_arg_to_json(x) for x in a]
    if isinstance(a, float) and not math.isfinite(a):
        return {"float": repr(a)}
    return a


def _arg_from_json(a: Any) -> Arg:
    if isinstance(a, list):
        return tuple(_arg_from_json(x) for x in a)
    if isinstance(a, dict):
        return _ref_from_json(a["ref"]) if "ref" in a else float(a["float"])
    if a is None or isinstance(a, bool | int | float | str):
        return a
    raise TypeError(f"an argument of type {type(a).__name__}")


def _exactly(kind: type[_Kind], value: Any) -> _Kind:
    """Returns `value`. Raises TypeError unless its type is exactly `kind`: True is no int."""
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value


_int = partial(_exactly, int)
_text = partial(_exactly, str)
_list: partial[list[Any]] = partial(_exactly, list)
_flag = partial(_exactly, bool)


def _pair(data: Any) -> tuple[int, int]:
    first, second = _list(data)
    return _int(first), _int(second)


def _device(name: Any) -> Device:
    match name:
        case "cpu" | "cuda":
            return name
    raise ValueError(f"unknown device {name!r}")


def _dtype(name: Any) -> str:
    if name not in ITEM_BYTES:
        raise ValueError(f"unknown dtype {name!r}")
    return str(name)


def _sizes_js(sizes: tuple[Any, ...]) -> list[Any]:
    return [_js(s) for s in sizes]


def _sizes(data: Any) -> tuple[Any, ...]:
    return tuple(_size(s) for s in _list(data))
