"""Finds outputs of a kernel that may be written over one of its inputs.

This is safe for an output of which every element depends on the input's element at the same index and on no other, when nothing
else that leaves the kernel depends on that input, and when all the kernel's ops have the same iteration space, so that each element
is read, computed and written once. A kernel that computes an element again after writing it (overlapping windows for tails) breaks
this, so the tiling of a kernel marked `graph.inplace` must not.
"""

from collections.abc import Iterator, Sequence

from torch_mlir import ir

from ..ir.reading import ops_in, shape_of
from ..ir.sizes import SIZE
from ..ir.views import is_identity

_HARMLESS = ("tensor.empty", "arith.constant", SIZE)


def pointwise_pairs(kernel: ir.Operation) -> set[tuple[int, int]]:
    """Returns (argument, result) positions of a kernel function on tensors for which the result may take the argument's memory."""
    block = kernel.regions[0].blocks[0]
    *ops, end = ops_in(block)
    yielded = list(end.operands)
    generics = [op for op in ops if op.name not in _HARMLESS]
    if not generics or not all(_is_parallel(op) for op in generics):
        return set()
    if len({shape_of(result) for op in generics for result in op.results}) != 1:
        return set()
    depends, broken = _dependencies(generics, block.arguments)
    once = twice = 0
    for value in yielded:
        of = depends.get(value, 0)
        twice |= once & of
        once |= of
    single = once & ~twice & ~broken
    return {
        (position, i)
        for i, value in enumerate(yielded)
        for position in _positions(depends.get(value, 0) & single)
        if value != block.arguments[position] and value.type == block.arguments[position].type
    }


def _is_parallel(op: ir.Operation) -> bool:
    """Returns whether an op is a linalg.generic that computes each element of its results once, from elements its maps name."""
    if op.name != "linalg.generic" or any("parallel" not in str(kind) for kind in op.attributes["iterator_types"]):
        return False
    if any(inner.operation.name == "tensor.extract" for inner in op.regions[0].blocks[0].operations):
        return False
    return all(is_identity(m) for m in _maps(op)[-len(op.results) :])


def _dependencies(generics: list[ir.Operation], arguments: Sequence[ir.Value]) -> tuple[dict[ir.Value, int], int]:
    """Returns the arguments that each value is computed from, and those of which some value is not computed element by element.

    Arguments are bits of a number, so that a chain of many ops on many arguments takes time that grows as it does.
    """
    depends, broken = {argument: 1 << position for position, argument in enumerate(arguments)}, 0
    for op in generics:
        used = 0
        for value, m in zip(op.operands, _maps(op), strict=True):
            of = depends.get(value, 0)
            used |= of
            if of and not is_identity(m):
                broken |= of
        if used:
            depends.update((result, used) for result in op.results)
    return depends, broken


def _positions(bits: int) -> Iterator[int]:
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1


def _maps(op: ir.Operation) -> list[ir.AffineMap]:
    return [m.value for m in op.attributes["indexing_maps"]]
