"""Loops over the blocks that attention kernels find on lists (see blocks.py)."""

import triton
import triton.language as tl


@triton.jit
def over_listed(state, tile, blocks, LENGTH, N: tl.constexpr, EDGE: tl.constexpr, ADD: tl.constexpr):
    """Returns `state` with all blocks added that the lists at `blocks` name: those that the mask shows wholly, then those shown in
    part.

    LENGTH  what blocks of N divide
    EDGE    for the blocks that are shown in part
    ADD     a kernel's function that adds a block: of the state, the tile, the block's start, HOW to read the mask, and EDGE
    """
    WHOLE: tl.constexpr = "none" if tile.HOW == "bool" else "zeros"
    count, block = tl.load(blocks), tl.load(blocks + 2)
    for i in range(count):
        state = ADD(state, tile, block * N, WHOLE, False)
        block = tl.load(blocks + 2 + min(i + 1, count - 1))  # one iteration ahead: loads of the block do not wait for it
    last = blocks + (LENGTH + N - 1) // N + 1
    count, block = tl.load(blocks + 1), tl.load(last)
    for i in range(count):
        state = ADD(state, tile, block * N, tile.HOW, EDGE)
        block = tl.load(last - min(i + 1, count - 1))
    return state
