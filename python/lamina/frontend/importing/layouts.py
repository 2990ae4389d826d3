"""Annotates @main's arguments and results with strides and dtypes that tensor types cannot express."""

import math
from collections.abc import Collection, Mapping

from torch import Tensor, fx
from torch_mlir import ir

from lamina.core.layout import Layout
from lamina.core.program import ALIGNED
from lamina.core.sizes import divisor
from lamina.passes.families.gemm.pad_products import ROOM
from lamina.passes.ir.reading import name_of
from lamina.passes.ir.sizes import sizes_attribute
from lamina.passes.simplify.name_sizes import SIZES

from ..fx.dtypes import CODES, NAMED, REAL
from ..fx.sizes import exact, exact_sizes, is_open, memory_sizes, memory_strides


def annotate(
    module: ir.Module,
    gm: fx.GraphModule,
    free: Collection[int] = (),
    shares: Mapping[int, int] | None = None,
    room: Collection[int] = (),
    updates: Mapping[int, int] | None = None,
) -> None:
    """Writes the layouts of the graph's fake tensors as attributes of @main's arguments and results.

    graph.strides  on arguments that are not contiguous, and on results except those numbered `free`
    graph.dtype    if the MLIR type is ambiguous
    graph.complex  its last dimension holds the parts of complex numbers
    graph.align    on an argument: the bytes that it starts at a multiple of, where these are not 16
    graph.fresh    on a result: memory of its own, never an argument's (eager's `x * 1` is not an alias of x)
    graph.room     on the results numbered `room`: their rows may be further apart in memory
    graph.shares   on a result: it may lie in the memory of an earlier result, as `shares` says by number
    graph.updates  on a result: it is the new value of an argument, as `updates` says by number, and may be written over it
    """
    arguments = [node.meta["val"] for node in gm.graph.find_nodes(op="placeholder")]
    returned = next(node for node in gm.graph.nodes if node.op == "output").args[0]
    results = [node.meta["val"] for node in returned]
    main = next(op for op in module.body.operations if name_of(op) == "main")
    with module.context:
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(
            [ir.DictAttr.get({**_sizes(t), **_attributes(t, _is_contiguous(t)), **_alignment(t)}) for t in arguments]
        )
        spaced = {i: {ROOM: ir.UnitAttr.get()} for i in room}
        fresh = {"graph.fresh": ir.UnitAttr.get()}
        i64 = ir.IntegerType.get_signless(64)
        memory = {i: {"graph.shares": ir.IntegerAttr.get(i64, j)} for i, j in (shares or {}).items()}
        memory |= {i: {"graph.updates": ir.IntegerAttr.get(i64, j)} for i, j in (updates or {}).items()}
        main.attributes["res_attrs"] = ir.ArrayAttr.get(
            [
                ir.DictAttr.get({**_attributes(t, i in free), **fresh, **memory.get(i, {}), **spaced.get(i, {})})
                for i, t in enumerate(results)
            ]
        )


def _attributes(value: Tensor, any_strides: bool) -> dict[str, ir.Attribute]:
    attributes: dict[str, ir.Attribute] = {}
    if not any_strides and 0 not in exact_sizes(value.shape):
        attributes["graph.strides"] = sizes_attribute(memory_strides(value))
    if value.dtype in REAL:
        attributes["graph.complex"] = ir.UnitAttr.get()
    if CODES[value.dtype] in NAMED:
        attributes["graph.dtype"] = ir.StringAttr.get(CODES[value.dtype])
    return attributes


def _sizes(value: Tensor) -> dict[str, ir.Attribute]:
    """Returns the sizes of an argument where some are symbolic."""
    return {SIZES: sizes_attribute(memory_sizes(value))} if is_open(value) else {}


def _is_contiguous(value: Tensor) -> bool:
    layout = Layout.of(exact_sizes(value.shape), exact_sizes(value.stride()))
    return layout.is_row_major if is_open(value) else value.is_contiguous()


def _alignment(value: Tensor) -> dict[str, ir.Attribute]:
    align = math.gcd(ALIGNED, divisor(exact(value.storage_offset()) * value.element_size()))
    return {"graph.align": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), align)} if align < ALIGNED else {}
