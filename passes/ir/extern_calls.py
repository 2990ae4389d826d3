"""Reads the strides that arguments and calls declare, and builds graph.extern, graph.kernel and graph.group ops."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torch_mlir import ir

from lamina.core.sizes import Size, SizeLike
from lamina.dialects.graph import CALLS, GroupOp, YieldOp

from .affine import row_major
from .reading import attributes_of, producer, shape_of
from .sizes import i64, read_sizes, size_attribute, sizes_attribute, sizes_of


def is_external(v: ir.Value) -> bool:
    """Returns whether a value is an argument, or an external call's result."""
    op = producer(v)
    return op is None or op.name in CALLS


def declared_strides(result: ir.Value) -> tuple[int, ...]:
    """Returns the declared strides, in elements, of a result of a graph.extern or graph.kernel.

    The attribute `strides` also has entries for returned values that are not tensors, such as None; these have no MLIR result.
    """
    declared = [s for s in result.owner.attributes["strides"] if not isinstance(s, ir.TypeAttr)]
    return read_sizes(declared[ir.OpResult(result).result_number])


def needed_strides(op: ir.Operation) -> list[tuple[SizeLike, ...] | None]:
    """Returns the strides that a call requires of each operand, None for an operand that may have any; [] if all may have any."""
    return (
        [None if isinstance(s, ir.TypeAttr) else read_sizes(s) for s in op.attributes["needs"]] if "needs" in op.attributes else []
    )


def memory_strides(value: ir.Value) -> tuple[int, ...]:
    """Returns the strides of a value in memory, in elements: `graph.strides` of an argument, the strides that a call declares for
    its result, else row-major ones."""
    if isinstance(value, ir.BlockArgument):
        given = _argument_attributes(value)
        if "graph.strides" in given:
            return read_sizes(given["graph.strides"])
    elif value.owner.operation.name in CALLS:
        return declared_strides(value)
    return row_major(shape_of(value))


def named_dtype(value: ir.Value) -> str | None:
    """Returns the declared dtype of an argument or of a call's result; None if none is declared. It is declared where the MLIR type
    is ambiguous (u8, u64)."""
    if isinstance(value, ir.BlockArgument):
        given = _argument_attributes(value)
        return given["graph.dtype"].value if "graph.dtype" in given else None
    declared = value.owner.operation.attributes
    return declared["dtypes"][ir.OpResult(value).result_number].value if "dtypes" in declared else None


def _argument_attributes(argument: ir.BlockArgument) -> Any:
    """Returns the attributes of a function's argument, by name."""
    attributes = argument.owner.owner.operation.attributes
    return ir.ArrayAttr(attributes["arg_attrs"])[argument.arg_number] if "arg_attrs" in attributes else {}


def encoded(value: Any) -> ir.Attribute:
    """Encodes an argument of a call as an attribute: None, a number, a size, a string or a list of these. Attributes are returned
    as they are. Raises TypeError for anything else."""
    match value:
        case ir.Attribute():
            return value
        case None:
            return ir.TypeAttr.get(ir.NoneType.get())
        case Size():
            return ir.DictAttr.get({"size": size_attribute(value)})
        case bool():
            return ir.BoolAttr.get(value)
        case int():
            return i64(value)
        case float():
            return ir.FloatAttr.get_f64(value)
        case str():
            return ir.StringAttr.get(value)
        case list() | tuple():
            return ir.ArrayAttr.get([encoded(v) for v in value])
    raise TypeError(f"an argument of type {type(value).__name__}")


def extern_call(
    callee: str, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[tuple[ir.Type, Sequence[SizeLike]] | None]
) -> ir.Operation:
    """Creates a graph.extern that calls a library routine, at the current insertion point.

    args, kwargs  the arguments: tensors, and values that `encoded` accepts
    results       type and strides of each result; None for one that is not needed
    """
    operands: list[ir.Value] = []

    def argument(value: Any) -> ir.Attribute:
        """Encodes an argument; tensors become operands."""
        if isinstance(value, ir.Value):
            operands.append(value)
            return ir.UnitAttr.get()
        return encoded(value)

    attributes = {
        "callee": ir.StringAttr.get(callee),
        "reason": ir.StringAttr.get("library"),
        "args": ir.ArrayAttr.get([argument(a) for a in args]),
        "kwargs": ir.DictAttr.get({name: argument(a) for name, a in kwargs.items()}),
        "strides": encoded([None if r is None else sizes_attribute(tuple(r[1])) for r in results]),
    }
    return ir.Operation.create("graph.extern", [r[0] for r in results if r is not None], operands, attributes)


def call_like(
    op: ir.Operation,
    operands: Sequence[ir.Value],
    args: Sequence[Any],
    results: Sequence[tuple[ir.Type, ir.Attribute] | None],
    callee: str | None = None,
) -> ir.Operation:
    """Creates a call with the attributes of `op` but other operands and results, at the current insertion point.

    args     the arguments, as values that `encoded` accepts; ir.UnitAttr stands for the next operand
    results  type and strides of each result; None for one that is not needed
    callee   the routine to call, by default that of `op`
    """
    own: dict[str, ir.Attribute] = {"args": encoded(args), "strides": encoded([None if r is None else r[1] for r in results])}
    if callee is not None:
        own["callee"] = ir.StringAttr.get(callee)
    return ir.Operation.create(op.name, [r[0] for r in results if r is not None], list(operands), attributes_of(op) | own)


def kernel_call(
    callee: str, operands: list[ir.Value], results: list[ir.Type], kwargs: Mapping[str, Any], strides: Sequence[Sequence[int]] = ()
) -> ir.Operation:
    """Creates a graph.kernel that launches one of Lamina's kernels, at the current insertion point.

    operands  the tensors that it takes
    results   the types of the results
    kwargs    the arguments of the launch besides the tensors: values that `encoded` accepts
    strides   the strides of the results in elements; row-major by default
    """
    each = strides or [row_major(sizes_of(t)) for t in results]
    attributes = {
        "callee": ir.StringAttr.get(callee),
        "kwargs": ir.DictAttr.get({name: encoded(value) for name, value in kwargs.items()}),
        "strides": ir.ArrayAttr.get(list(map(sizes_attribute, each))),
    }
    return ir.Operation.create("graph.kernel", results=results, operands=operands, attributes=attributes)


def group(
    name: str, operands: Sequence[ir.Value], types: Sequence[ir.Type], fill: Callable[..., Iterable[ir.Value]]
) -> ir.Operation:
    """Creates a graph.group at the current insertion point and location.

    types  the types of its results
    fill   emits the body, given the block arguments that stand for the operands, and returns the values to yield
    """
    named = {"sym_name": ir.StringAttr.get(name)}
    new = ir.Operation.create(GroupOp.OPERATION_NAME, results=list(types), operands=list(operands), attributes=named, regions=1)
    block = new.regions[0].blocks.append(*[v.type for v in operands])
    with ir.InsertionPoint(block):
        ir.Operation.create(YieldOp.OPERATION_NAME, operands=list(fill(*block.arguments)))
    return new
