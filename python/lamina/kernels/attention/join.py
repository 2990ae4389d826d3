"""Combines the results of `split` for parts of the keys: one program for each query."""

import triton
import triton.language as tl


@triton.jit
def join(parts, logs, out, OUT, HEADS, QUERIES, VALUES: tl.constexpr, PARTS: tl.constexpr, P: tl.constexpr, E: tl.constexpr):
    """Combines the parts of one query.

    parts, logs  as `split` writes them
    OUT          strides in elements
    P, E         powers of two that hold PARTS and VALUES
    """
    place = tl.program_id(0).to(tl.int64)
    batch, head, query = place // (HEADS * QUERIES), place // QUERIES % HEADS, place % QUERIES
    part, e = tl.arange(0, P), tl.arange(0, E)
    logs_of_parts = tl.load(logs + place * PARTS + part, mask=part < PARTS, other=-float("inf"))
    largest = tl.max(logs_of_parts, 0)
    weights = tl.exp2(logs_of_parts - tl.where(largest == -float("inf"), 0.0, largest))
    inside = (part[:, None] < PARTS) & (e[None, :] < VALUES)
    values = tl.load(parts + (place * PARTS + part[:, None]) * VALUES + e[None, :], mask=inside, other=0.0)
    total = tl.sum(weights, 0)
    result = tl.sum(values * weights[:, None], 0) / tl.where(total == 0.0, 1.0, total)
    tl.store(out + batch * OUT[0] + head * OUT[1] + query * OUT[2] + e * OUT[3], result.to(out.dtype.element_ty), mask=e < VALUES)
