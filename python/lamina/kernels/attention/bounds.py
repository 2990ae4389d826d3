"""Finds the first and the last valid key of each sequence, or of each head of it: one program for each."""

import triton
import triton.language as tl


@triton.jit
def bounds(mask, out, MASK, OUT, HEADS, KEYS, LOW, HIGH, N: tl.constexpr):
    """Writes the bounds of one sequence or head.

    mask       bool, true for valid keys; MASK: strides in elements: batch, head, key
    out        i32: the first valid key, and the end of them: 0 where there is none; OUT: strides: batch, head, which of the two
    LOW, HIGH  the range of keys that are seen at all
    """
    batch, head = (tl.program_id(0) // HEADS).to(tl.int64), (tl.program_id(0) % HEADS).to(tl.int64)
    mask += batch * MASK[0] + head * MASK[1]
    first, end = tl.full((), KEYS, tl.int32), tl.full((), 0, tl.int32)
    for start in range(0, KEYS, N):
        keys = start + tl.arange(0, N)
        is_visible = (tl.load(mask + keys * MASK[2], mask=keys < KEYS, other=0) != 0) & (keys >= LOW) & (keys < HIGH)
        first = tl.minimum(first, tl.min(tl.where(is_visible, keys, KEYS), 0))
        end = tl.maximum(end, tl.max(tl.where(is_visible, keys + 1, 0), 0))
    out += batch * OUT[0] + head * OUT[1]
    tl.store(out, first)
    tl.store(out + OUT[2], end)
