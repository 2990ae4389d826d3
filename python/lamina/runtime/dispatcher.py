"""Describes calls that have no routine in torch's C shim, so that the native runner makes them through torch's dispatcher without
Python.

The operator's schema gives the type of each argument. A call that does not fit stays a Python call: slower, otherwise the same.
"""

from collections.abc import Callable
from typing import Any

from lamina import _native
from lamina.core.program import Call, Ref

from .resolve import arguments_of, overload

_NUMBERS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "IntType": (int, int),
    "SymIntType": (int, int),
    "BoolType": (bool, bool),
    "FloatType": (int | float, float),
}
"""Maps a schema type's kind to the Python types that a program may give, and the conversion for the runner."""


class _Unfit(Exception):
    """An argument that the runner cannot build without Python."""


def dispatcher_call(step: Call, index: Callable[[Ref], int]) -> dict[str, Any] | None:
    """Describes the step as an operator call for the runner. Returns None unless its arguments are tensors, numbers, optionals and
    lists of these, and its results are tensors that it allocates. `index` numbers the tensors of the program."""
    namespace, packet, name = step.callee.split(".")
    if namespace != "aten" or step.outs or not _native.has_routine("dispatcher"):
        return None
    schema = overload(step.callee, step.where)._schema
    returns = [result.type.kind() for result in schema.returns]
    if returns != ["TensorType"] * len(step.owned) or any(a.alias_info for a in (*schema.arguments, *schema.returns)):
        return None
    if any(r is not None and r.dtype in ("c64", "c128") for r in step.owned):
        return None  # a lazy conjugate is not what its memory holds
    tensors: list[int] = []
    try:
        args = [_value(given, kind, tensors, index) for given, kind in _arguments(step, schema)]
    except _Unfit:
        return None
    return {"op": f"aten::{packet}", "overload": "" if name == "default" else name, "args": args, "tensors": tensors}


def _arguments(step: Call, schema: Any) -> list[tuple[Any, Any]]:
    """Returns all arguments of the schema, in its order, with their types."""
    names = [argument.name for argument in schema.arguments]
    given = arguments_of(step)
    if len(step.args) > len(names) or not given.keys() <= set(names):
        raise _Unfit
    if any(a.name not in given and not a.has_default_value() for a in schema.arguments):
        raise _Unfit
    return [(given.get(a.name, a.default_value), a.real_type) for a in schema.arguments]


def _value(argument: Any, kind: Any, tensors: list[int], index: Callable[[Ref], int]) -> tuple[str, Any]:
    """Returns an argument as native/build.cpp reads it, with tensors as positions in `tensors`."""
    match kind.kind():
        case "TensorType" if argument is None:
            return ("tensor", -1)
        case "TensorType" if isinstance(argument, Ref):
            number = index(argument)
            if number not in tensors:
                tensors.append(number)
            return ("tensor", tensors.index(number))
        case "OptionalType":
            inner = kind.getElementType()
            return ("none", inner.kind() == "ListType") if argument is None else ("some", _value(argument, inner, tensors, index))
        case "ListType" if isinstance(argument, tuple | list):
            return ("list", [_value(item, kind.getElementType(), tensors, index) for item in argument])
        case name if name in _NUMBERS:
            allowed, plain = _NUMBERS[name]
            if isinstance(argument, allowed):
                return ("value", plain(argument))
    raise _Unfit
