"""Reads the strides that arguments and calls declare, and builds graph.extern, graph.kernel and graph.group ops."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torch_mlir import ir

from lamina.core.sizes import Size, SizeLike
from lamina.dialects.graph import CALLS, GroupOp, YieldOp

from .affine import row_major
from .reading import attributes_of, shape_of
from .sizes import i64, read_sizes, size_attribute, sizes_attribute, sizes_of


def declared_strides(result: ir.Value) -> tuple[int, ...]:
    """Returns the declared strides, in elements, of a result of a graph.extern or graph.kernel.

    The attribute also has entries for returned values that are not tensors, such as None; these have no MLIR result.
    """
    declared = [s for s in result.owner.attributes["strides"] if not isinstance(s, ir.TypeAttr)]
    return read_sizes(declared[ir.OpResult(result).result_number])


def needed_strides(op: ir.Operation) -> list[tuple[SizeLike, ...] | None]:
    """Returns the strides that a call needs each of its operands to have, None for one that may have any; empty where all may."""
    return (
        [None if isinstance(s, ir.TypeAttr) else read_sizes(s) for s in op.attributes["needs"]] if "needs" in op.attributes else []
    )


def memory_strides(value: ir.Value) -> tuple[int, ...]:
    """Returns the strides of a value in memory, in elements: those in `graph.strides` of an argument, those that a call declares,
    else row-major ones."""
    if isinstance(value, ir.BlockArgument):
        attributes = value.owner.owner.operation.attributes
        given = ir.ArrayAttr(attributes["arg_attrs"])[value.arg_number] if "arg_attrs" in attributes else {}
        if "graph.strides" in given:
            return read_sizes(given["graph.strides"])
    elif value.owner.operation.name in CALLS:
        return declared_strides(value)
    return row_major(shape_of(value))


def named_dtype(value: ir.Value) -> str | None:
    """Returns the dtype of an argument or a call's result where it is declared, as its type does not tell it (u8, u64); None
    else."""
    if isinstance(value, ir.BlockArgument):
        attributes = value.owner.owner.operation.attributes
        given = ir.ArrayAttr(attributes["arg_attrs"])[value.arg_number] if "arg_attrs" in attributes else {}
        return given["graph.dtype"].value if "graph.dtype" in given else None
    declared = value.owner.operation.attributes
    return declared["dtypes"][ir.OpResult(value).result_number].value if "dtypes" in declared else None


def encoded(value: Any) -> ir.Attribute:
    """Encodes an argument of a call: None, a number, a size, text or a list of these; attributes stay. Raises TypeError else."""
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
    """Creates a graph.extern that calls a routine which is not Lamina's, at the current insertion point.

    args, kwargs  tensors, and what `encoded` takes
    results       type and strides of each; None for one that is not needed
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
    """Creates a call with the attributes of `op` on other operands, at the current insertion point.

    args     what `encoded` takes
    results  type and strides of each; None for one that is not needed
    callee   another routine than that of `op`
    """
    own: dict[str, ir.Attribute] = {"args": encoded(args), "strides": encoded([None if r is None else r[1] for r in results])}
    if callee is not None:
        own["callee"] = ir.StringAttr.get(callee)
    return ir.Operation.create(op.name, [r[0] for r in results if r is not None], list(operands), attributes_of(op) | own)


def kernel_call(
    callee: str, taken: list[ir.Value], made: list[ir.Type], said: Mapping[str, Any], strides: Sequence[Sequence[int]] = ()
) -> ir.Operation:
    """Creates a graph.kernel that launches one of Lamina's kernels, at the current insertion point.

    taken    tensor operands
    made     result types
    said     arguments of the launch besides the tensors, which `encoded` takes
    strides  strides of the results in elements, row-major by default
    """
    each = strides or [row_major(sizes_of(t)) for t in made]
    attributes = {
        "callee": ir.StringAttr.get(callee),
        "kwargs": ir.DictAttr.get({name: encoded(value) for name, value in said.items()}),
        "strides": ir.ArrayAttr.get(list(map(sizes_attribute, each))),
    }
    return ir.Operation.create("graph.kernel", results=made, operands=taken, attributes=attributes)


def group(
    name: str, operands: Sequence[ir.Value], types: Sequence[ir.Type], fill: Callable[..., Iterable[ir.Value]]
) -> ir.Operation:
    """Creates a graph.group at the current insertion point and location.

    types  of its results
    fill   emits the body on what stands for the operands there, and returns the results
    """
    named = {"sym_name": ir.StringAttr.get(name)}
    made = ir.Operation.create(GroupOp.OPERATION_NAME, results=list(types), operands=list(operands), attributes=named, regions=1)
    block = made.regions[0].blocks.append(*[v.type for v in operands])
    with ir.InsertionPoint(block):
        ir.Operation.create(YieldOp.OPERATION_NAME, operands=list(fill(*block.arguments)))
    return made
