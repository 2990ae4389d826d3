"""Strides of tensors of symbolic sizes."""

from collections.abc import Sequence

from .factors import Opaque
from .size import Size, SizeLike, factor_of, maximum


def where_elements(size: SizeLike, shape: Sequence[SizeLike]) -> SizeLike:
    """Returns a stride of a tensor of this shape that has elements: torch counts sizes that may be 0 as max(1, size)."""
    if isinstance(size, int) or not size.is_opaque:
        return size
    guarded = {maximum(1, held): n for n in shape if isinstance(n, Size) for held in (n, _raised(n))}
    out: int | Size = 0
    for factors, k in size.terms:
        part: int | Size = k
        for f in map(factor_of, factors):
            part = part * guarded.get(f, f)
        out = out + part
    return out


def _raised(n: Size) -> SizeLike:
    """Returns a size without a maximum with 0 around it: max(1, n) is the same for both."""
    (factors, k), *more = n.terms
    f = factors[0] if len(factors) == 1 and k == 1 and not more else None
    return f.right if isinstance(f, Opaque) and f.op == "max" and f.left == 0 else n
