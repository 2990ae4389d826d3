"""Separates pooling from the transpose after it, if a CPU library call takes channels-last images.

The result of pooling, or of another strided read, is stored in the order in which the image is read. A kernel that transposes reads
contiguous blocks, and strided windows have none. So a second kernel transposes the result.
"""

from torch_mlir import ir

from lamina.core.walks import reachable

from ..ir.extern_calls import is_external, memory_strides
from ..ir.reading import ops_in, producer, shape_of
from ..trace.gathered import copy_of, replace_source
from ..trace.orders import Read, behind_views, behind_widening, innermost_of, map_of, strides_through_views, wanted_images


def store_pooled(block: ir.Block, read: Read) -> dict[ir.Value, int]:
    """Inserts a copy behind each value that is computed from windows of an image whose channels are not innermost, where a library
    call takes it with channels last. Returns the values, and for each the dimension that is contiguous in memory."""
    innermost_of: dict[ir.Value, int] = {}
    copies: dict[ir.Value, ir.Value] = {}
    for op in ops_in(block):
        for v, dim in wanted_images(op).items():
            innermost = _pooled_along(v, read)
            if innermost is None or innermost == dim:
                continue
            if v not in copies:
                copies[v] = copy_of(v, block, op.location)
                innermost_of[behind_widening(v)] = innermost
            replace_source(op, v, copies[v])
    return innermost_of


def _pooled_along(v: ir.Value, read: Read) -> int | None:
    """Returns the innermost dimension in memory of the image whose windows `v` is computed from; None if there are no strided
    windows."""
    steps, innermost = False, None

    def used(x: ir.Value) -> list[ir.Value]:
        """Returns the values in front of calls that a value is computed from."""
        op = None if is_external(x) else producer(x)
        if op is None:
            return []
        return list(map_of(op, read) or ()) if op.name == "linalg.generic" else list(op.operands)[:1]

    for x in reachable([v], used):
        op = producer(x)
        if op is not None and op.name == "tensor.extract_slice" and len(shape_of(x)) == 4:
            source = behind_views(op.operands[0])
            strides = strides_through_views(source, memory_strides) if is_external(source) else None
            steps = steps or any(n > 1 for n in ir.DenseI64ArrayAttr(op.attributes["static_strides"]))
            if strides is not None:
                innermost = innermost_of(shape_of(source), strides)
    return innermost if steps else None
