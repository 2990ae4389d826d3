"""Reads the contraction that a group or kernel function with products computes, in the form that the GEMM kernel's emitter
needs."""

from collections.abc import Sequence
from dataclasses import replace

from torch_mlir import ir

from ...ir.affine import row_major
from ...ir.reading import element_type, shape_of, terminator
from ...space.contraction import Contraction, Unfit, contraction_of
from ...space.direct_convolution import WINDOW
from ...space.implicit_gemm import windows_of
from ...space.space import find_space
from ..conv.calls import channels_last
from ..surroundings import strides_of
from .block_sums import BlockSums, is_reduction


def product_in(group: ir.Operation) -> Contraction:
    """Returns the contraction of a group with products. Raises Unfit or Untraceable if a GEMM kernel cannot compute it."""
    ins, outs = [strides_of(v) for v in group.operands], [row_major(shape_of(v)) for v in group.results]
    if WINDOW in group.attributes:  # lamina-plan lays images out channels last
        ins = [_channels_last_strides(v, s) for v, s in zip(group.operands, ins, strict=True)]
        outs = [_channels_last_strides(v, s) for v, s in zip(group.results, outs, strict=True)]
    return product_on(group, ins, outs)


def _channels_last_strides(v: ir.Value, strides: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the channels-last strides of an image; the given strides for values of other ranks."""
    return channels_last(shape_of(v)) if len(strides) == 4 else strides


def product_on(group: ir.Operation, ins: Sequence[tuple[int, ...]], outs: Sequence[tuple[int, ...]]) -> Contraction:
    """Returns the contraction of a group. ins, outs: the strides of its operands and results."""
    return product_of(group.regions[0].blocks[0], ins, outs)


def product_of(
    block: ir.Block, ins: Sequence[tuple[int, ...]], outs: Sequence[tuple[int, ...]], *, round_half: bool = False
) -> Contraction:
    """Returns the contraction of the block of a group or kernel function. For sums over blocks, the results are what is summed."""
    results = list(terminator(block).operands)
    sums = [BlockSums.read(v) for v in results]
    for v, strides, sum_ in zip(results, outs, sums, strict=True):
        if sum_ is not None and strides != row_major(shape_of(v)):
            raise Unfit("sums of blocks that do not lie one row after the other")
    summed = [v if s is None else s.value for v, s in zip(results, sums, strict=True)]
    result_strides = [o if s is None else row_major(shape_of(s.value)) for o, s in zip(outs, sums, strict=True)]
    strides_in = dict(zip(block.arguments, ins, strict=True))
    centered = [s is not None and s.centered for s in sums]  # summed as stored, since a variance may depend on rounding
    space = find_space(block, strides_in, result_strides, outs=summed, divide=True, round_half=round_half or any(centered))
    if WINDOW in block.owner.attributes and not any(sums):
        return windows_of(space, _factors_in(block))
    contraction = contraction_of(space, _factors_in(block), [s.size if s is not None and s.is_along_rows else 0 for s in sums])
    stacked = tuple(0 if s is None or s.is_along_rows else s.size for s in sums)
    for result, rows in zip(contraction.results, stacked, strict=True):
        if rows and not contraction.is_whole(result.offset):
            raise Unfit("sums over rows of what is not a row of the product for each")
    return replace(contraction, centered=tuple(centered), stacked=stacked)


def _factors_in(block: ir.Block) -> str:
    """Returns the operand type of the first product of a block. Raises Unfit if there is no sum over two operands."""
    sums = (o.operation for o in block.operations if is_reduction(o.operation))
    product = next((op for op in sums if len(op.operands) == 3), None)
    if product is None:
        raise Unfit("no product")
    return element_type(product.operands[0])
