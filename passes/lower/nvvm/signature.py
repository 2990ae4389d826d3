"""Annotates a kernel's function for LLVM: aliasing and alignment of its pointers, and alignment of its shared memory."""

from torch_mlir import ir

from ...ir.reading import ops_in
from ...ir.sizes import KERNEL_SIZES, i64
from ..buffers import argument_attributes

ALIGNMENT = 16  # bytes: what one thread loads at once
BY_VALUE = "lamina.by_value"
"""On a kernel whose last parameter holds symbolic sizes: the type of the parameter."""


def annotate(function: ir.Operation, ops: dict[str, list[ir.Operation]]) -> None:
    """Sets noalias for all but the arguments that `tile.alias` lists (a unit attribute: all), readonly where nothing writes,
    alignment as in `tile.align` (16 bytes without it), and workgroup memory at 16 bytes. Removes the `tile.` attributes.

    Without noalias and readonly, loads repeat after every store. A kernel that starts before its inputs are written
    (`tile.dependent`) gets no readonly: LLVM would use ld.global.nc, which requires memory to be read-only while the kernel runs.
    """
    block = function.regions[0].blocks[0]
    count = len(ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs)
    arguments = list(block.arguments)
    aligned = list(function.attributes["tile.align"]) if "tile.align" in function.attributes else [ALIGNMENT] * count
    unit, attributes = ir.UnitAttr.get(), []
    for argument, align, names in zip(
        arguments[:count], aligned, argument_attributes(function, arguments[:count], ops), strict=True
    ):
        known = {name: unit for name in names if name != "llvm.readonly" or "tile.dependent" not in function.attributes}
        pointer = {"llvm.nonnull": unit, "llvm.align": i64(max(align, 1)), **known}
        attributes.append(ir.DictAttr.get(pointer if isinstance(argument.type, ir.MemRefType) else {}))
    if KERNEL_SIZES in function.attributes:
        sizes = arguments[count - 1].type
        attributes[-1] = ir.DictAttr.get({"llvm.align": i64(sizes.element_type.width // 8)})
        function.attributes[BY_VALUE] = ir.TypeAttr.parse(f"!llvm.array<{sizes.shape[0]} x {sizes.element_type}>")
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)
    if len(arguments) > count:
        at = ir.DictAttr.get({"llvm.align": i64(ALIGNMENT)})
        function.attributes["workgroup_attrib_attrs"] = ir.ArrayAttr.get([at] * (len(arguments) - count))
    for key in [key for key in function.attributes if key.startswith(("tile.", "gpu.grid"))]:
        del function.attributes[key]


def pass_by_value(device: ir.Operation) -> None:
    """Passes the symbolic sizes of the kernels of a gpu.module, after conversion to the llvm dialect, as parameters: constant
    memory, which is read without the latency of a load. The conversion itself keeps no such attribute."""
    for function in ops_in(device.regions[0].blocks[0], "llvm.func"):
        if BY_VALUE in function.attributes:
            *others, pointer = function.attributes["arg_attrs"]
            values = {a.name: a.attr for a in pointer} | {
                "llvm.byval": function.attributes[BY_VALUE],
                "nvvm.grid_constant": ir.UnitAttr.get(),
            }
            function.attributes["arg_attrs"] = ir.ArrayAttr.get([*others, ir.DictAttr.get(values)])
            del function.attributes[BY_VALUE]
