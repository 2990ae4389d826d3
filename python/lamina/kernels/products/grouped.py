"""Grouped matrix products, as of mixture-of-experts layers: each row is multiplied by the matrix of its group. The groups' ends are
read on the device."""

import triton
import triton.language as tl


@triton.jit
def grouped(
    x, w, ends, out, X: tl.constexpr, W: tl.constexpr, OUT: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    INNER: tl.constexpr, GROUPS: tl.constexpr, PROGRAMS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    epilogue: tl.constexpr, operands,
):  # fmt: skip
    """Computes out[r] = x[r] @ w[g] for ROWS rows, where g is the first group that ends after r.

    ends       the end of each group, ascending
    X, W, OUT  strides in elements
    PROGRAMS   programs that share the blocks of all groups
    epilogue   the function applied to each element, see targets/kernel_calls/hooks.py
    """
    across: tl.constexpr = (COLUMNS + N - 1) // N
    first, before, matrix = 0, 0, w
    for group in range(GROUPS):
        last = tl.maximum(tl.minimum(tl.load(ends + group), ROWS), first)
        down = tl.cdiv(last - first, M)
        mine = (tl.program_id(0) + PROGRAMS - before % PROGRAMS) % PROGRAMS
        for block in range(mine, down * across, PROGRAMS):
            row = (first + block % down * M + tl.arange(0, M)).to(tl.int64)[:, None]
            column = (block // down * N + tl.arange(0, N)).to(tl.int64)[None, :]
            acc = tl.zeros((M, N), tl.float32)
            for k in range(0, INNER, K):
                i = k + tl.arange(0, K)
                a = tl.load(x + row * X[0] + i[None, :] * X[1], mask=(row < last) & (i[None, :] < INNER), other=0.0)
                b = tl.load(matrix + i[:, None] * W[1] + column * W[2], mask=(i[:, None] < INNER) & (column < COLUMNS), other=0.0)
                acc = tl.dot(a, b, acc)
            inside = (row < last) & (column < COLUMNS)
            place = row * OUT[0] + column * OUT[1]
            tl.store(out + place, epilogue(acc, place, inside, operands).to(out.dtype.element_ty), mask=inside)
        first, before, matrix = last, before + down * across, matrix + W[0]
