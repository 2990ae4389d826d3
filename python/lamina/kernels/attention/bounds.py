"""Finds the first and the last valid key of each sequence, or of each head of it: one program for each."""

import triton
import triton.language as tl


@triton.jit
def bounds(there, out, AT, OUT, HEADS, KEYS, LOW, HIGH, N: tl.constexpr):
    """Writes the bounds of one sequence or head.

    there      bool, true for valid keys; AT: strides in elements: batch, head, key
    out        i32: the first valid key, and the end of them: 0 where there is none; OUT: strides: batch, head, which of the two
    LOW, HIGH  the range of keys that are seen at all
    """
    batch, head = (tl.program_id(0) // HEADS).to(tl.int64), (tl.program_id(0) % HEADS).to(tl.int64)
    there += batch * AT[0] + head * AT[1]
    first, end = tl.full((), KEYS, tl.int32), tl.full((), 0, tl.int32)
    for at in range(0, KEYS, N):
        key = at + tl.arange(0, N)
        seen = (tl.load(there + key * AT[2], mask=key < KEYS, other=0) != 0) & (key >= LOW) & (key < HIGH)
        first = tl.minimum(first, tl.min(tl.where(seen, key, KEYS), 0))
        end = tl.maximum(end, tl.max(tl.where(seen, key + 1, 0), 0))
    out += batch * OUT[0] + head * OUT[1]
    tl.store(out, first)
    tl.store(out + OUT[2], end)
