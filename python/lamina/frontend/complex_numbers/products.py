"""Complex matrix products and norms. A product with a vector is a sum that fuses with what makes its factors; other products are
the library's, on complex matrices."""

from collections.abc import Callable
from typing import Any

import torch

from ..decompositions.undecided import surely
from .elementary import ELEMENTARY, Parts, absolute, parts_of, product
from .moves import MOVES
from .parts import ComplexValue, Emitter

aten = torch.ops.aten


def _product(e: Emitter, a: ComplexValue, b: ComplexValue) -> Any:
    """Multiplies matrices, or batches of them, where one is a row or a column: as products of elements, and their sums."""
    if not isinstance(a, ComplexValue) or not isinstance(b, ComplexValue):
        return NotImplemented
    (rows, inner), columns = a.like.shape[-2:], b.like.shape[-1]
    left, right, axis = _filled(e, a), _filled(e, b), a.rank - 1
    if surely(inner == 1):
        return product(e, left, right)
    if surely(rows == 1):
        left, axis = _turned(e, left, a.rank), axis - 1
    elif surely(columns == 1):
        right = _turned(e, right, b.rank)
    else:
        return NotImplemented
    return tuple(e(aten.sum.dim_IntList, term, [axis], True) for term in product(e, left, right))


def _filled(e: Emitter, x: ComplexValue) -> Parts:
    a, b = parts_of(e, x)
    return e.filled(a, x.like), e.filled(b, x.like)


def _turned(e: Emitter, parts: Parts, rank: int) -> Parts:
    """Returns the parts of matrices with rows and columns exchanged."""
    a, b = (e(aten.transpose.int, part, rank - 2, rank - 1) for part in parts)
    return a, b


def _norm(e: Emitter, x: ComplexValue, *args: Any, **kwargs: Any) -> Any:
    kwargs = {name: value for name, value in kwargs.items() if name != "dtype" or value is None}
    return e(aten.linalg_vector_norm.default, absolute(e, parts_of(e, x)), *args, **kwargs)


PRODUCTS: dict[Any, Callable[..., Any]] = {
    aten.mm.default: _product, aten.bmm.default: _product, aten.linalg_vector_norm.default: _norm,
}  # fmt: skip

RULES: dict[Any, Callable[..., Any]] = {**ELEMENTARY, **MOVES, **PRODUCTS}
"""All rules, by overload."""
