"""The order in which programs of attention kernels compute the blocks of all heads."""

import triton
import triton.language as tl


@triton.jit
def place_of(BLOCKS, BATCH, HEADS, TOGETHER):
    """Returns the batch and the head (i64) that this program computes a block of, and the number of the block among the head's.

    The programs of TOGETHER heads are neighbors in the grid, which take turns, block by block: so many heads' keys and values fit
    into the second-level cache.
    """
    first_head = tl.program_id(0) // (BLOCKS * TOGETHER) * TOGETHER
    wide = min(TOGETHER, BATCH * HEADS - first_head)
    place = tl.program_id(0) - first_head * BLOCKS
    batch = ((first_head + place % wide) // HEADS).to(tl.int64)
    head = ((first_head + place % wide) % HEADS).to(tl.int64)
    return batch, head, place // wide
