"""Creates copies, as ordinary groups, where a view cannot give the needed layout. Clones constants into the groups that use
them."""

from collections.abc import Sequence

from torch_mlir import ir

from lamina.core.layout import Layout
from lamina.core.sizes import SizeLike

from ..ir.extern_calls import group
from ..ir.generics import copied
from ..ir.reshapes import sliced


def copy_group(source: ir.Value, before: ir.Operation) -> ir.Operation:
    """Creates a group with one linalg.generic that yields its input, in front of `before`. It takes the location of `before`,
    or, if that is the return, of the value's producer."""
    with _location(source, before), ir.InsertionPoint(before):
        return group("copy", [source], [source.type], lambda x: [copied(x)])


def without_repeats(value: ir.Value, layout: Layout, before: ir.Operation) -> tuple[ir.Value, Layout]:
    """Creates, in front of `before`, the view of a value that leaves out what its layout repeats, except in the last dimension.
    Returns it with its layout."""
    repeats = [stride == 0 for stride in layout.strides[:-1]]
    sizes = [*(1 if r else n for r, n in zip(repeats, layout.shape, strict=False)), layout.shape[-1]]
    with _location(value, before), ir.InsertionPoint(before):
        piece = sliced(value, [0] * len(sizes), sizes, [1] * len(sizes))
    return piece, Layout.of(sizes, layout.strides, layout.offset)


def with_repeats(layout: Layout, shape: Sequence[SizeLike]) -> Layout:
    """Returns a layout of this shape that repeats another along the dimensions in which that has size 1."""
    strides = [0 if one != n else stride for one, n, stride in zip(layout.shape, shape, layout.strides, strict=True)]
    return Layout.of(shape, strides, layout.offset)


def sink(constant: ir.Operation) -> None:
    """Clones a constant or size of @main (canonicalization hoists them) into every group that uses it."""
    inside: dict[ir.Operation, list[ir.OpOperand]] = {}
    for use in constant.results[0].uses:
        owner = use.owner.operation
        while owner.block != constant.block:
            owner = owner.parent.operation
        if owner != use.owner.operation:
            inside.setdefault(owner, []).append(use)
    for user, uses in inside.items():
        copy = constant.clone(ip=ir.InsertionPoint.at_block_begin(user.regions[0].blocks[0]))
        for use in uses:
            use.owner.operation.operands[use.operand_number] = copy.results[0]


def _location(source: ir.Value, before: ir.Operation) -> ir.Location:
    owner = source.owner
    return owner.location if before.name == "func.return" and not isinstance(owner, ir.Block) else before.location
