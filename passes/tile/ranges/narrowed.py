"""Replaces symbols by other sizes in a kernel function: by symbols with a smaller range, or by multiples of a number. What replaces
products of symbols is set on the Kernel, as it takes effect where axes are merged."""

from dataclasses import replace

from torch_mlir import ir

from lamina.core.layout import Layout
from lamina.core.sizes import SizeLike, substituted

from ...ir.reading import nested
from ...ir.sizes import SIZE, read_size, size_attribute, sizes_of, tensor_type
from ...plan.launches import Argument
from ..kernel import Kernel
from .size_range import read_lengths, read_symbols


def with_given_sizes(kernel: Kernel) -> Kernel:
    """Returns a kernel with the sizes in its `graph.symbols` in place of symbols, in its function and in its arguments' layouts;
    and with its `graph.lengths`."""
    function, values = kernel.function, read_symbols(kernel.function)
    kernel = replace(kernel, lengths=read_lengths(function))
    if not values:
        return kernel

    def of(size: SizeLike) -> SizeLike:
        """Returns a size with the values substituted."""
        return substituted(size, values)

    def typed(type_: ir.Type) -> ir.Type:
        """Returns a type with the values substituted."""
        if not isinstance(type_, ir.RankedTensorType) or type_.has_static_shape:
            return type_
        return tensor_type([of(n) for n in sizes_of(type_)], type_.element_type)

    with function.context, function.location:
        for op in nested(function):
            for value in (*op.results, *(a for region in op.regions for block in region.blocks for a in block.arguments)):
                value.set_type(typed(value.type))
            if op.name == SIZE:
                op.attributes["size"] = size_attribute(of(read_size(op.attributes["size"])))
        kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        types = ir.FunctionType.get([typed(t) for t in kind.inputs], [typed(t) for t in kind.results])
        function.attributes["function_type"] = ir.TypeAttr.get(types)
    arguments = [
        Argument(a.element, Layout(tuple(map(of, a.layout.shape)), tuple(map(of, a.layout.strides)), of(a.layout.offset)))
        for a in kernel.arguments
    ]
    return replace(kernel, arguments=arguments)
