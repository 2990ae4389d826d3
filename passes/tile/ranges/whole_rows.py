"""Copies kernels with symbolic sizes and without reductions: one copy for rows of whole accesses, and one for any.

Rows of other lengths start in the middle of an access, so that their elements are read or written one by one. In the kernel for
multiples of an access the symbols are products, so that its accesses are as wide as those of known sizes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from torch_mlir import ir

from lamina.core.sizes import Size, SizeLike, all_symbols, exact_quotient, substituted, symbols_of
from lamina.schedules import nvvm

from ...families.choice import CHOICE
from ...ir.affine import Axis
from ...ir.reading import Untraceable
from ...space.coalesce import Merged, with_length_symbols
from ...space.direct_convolution import WINDOW
from ...space.forms import form_of
from ...space.scans import has_scans
from ...space.space import Space
from ..kernel import Kernel
from .joins import joins
from .linear_length import LinearLength
from .row_ranges import whole_access
from .size_range import Condition, SizeRange

_DOUBLED = 3  # times that an access is doubled to divide a symbol whose quotient by 2, 4 or 8 is the length of a row


def whole_rows(module: ir.Module, kernel: Kernel, round_half: bool) -> list[SizeRange]:
    """Returns the multiples of a thread's access, and any length, for a kernel without reductions; [] for any other, and for one
    whose accesses are whole at any length."""
    sizes = _sizes(kernel, round_half) if not joins(module, kernel) else []
    step = whole_access(kernel) if sizes else 1
    symbols: dict[str, SizeLike] = {}
    lengths: dict[Size, Size] = {}
    when: list[Condition] = []
    for part in (part for size in sizes for part in _parts(size)):
        if with_length_symbols(substituted(part, symbols), lengths) % step == 0:
            continue
        found = _multiple(part, step)
        if found is not None and not found.symbols.keys() & symbols.keys():
            symbols |= found.symbols
            lengths |= found.lengths
            when.append((found.divided, 0))
    return [SizeRange(f"by_{step}", tuple(when), symbols, lengths), SizeRange()] if when else []


@dataclass(frozen=True)
class _Multiple:
    """The condition under which a size is a multiple: `divided`, a remainder, is 0. symbols, lengths: see SizeRange."""

    divided: SizeLike
    symbols: dict[str, SizeLike]
    lengths: dict[Size, Size] = field(default_factory=dict)


def _multiple(size: SizeLike, step: int) -> _Multiple | None:
    """Returns the condition under which a size is a multiple of `step`; None if no symbol can express it."""
    if (form := LinearLength.of(size) if isinstance(size, Size) else None) is not None:
        multiple = form.multiple(Size((((form.symbol,), 1),)), step)
        return None if multiple is None else _Multiple(size % step, *form.replaced(multiple))
    symbols = list(dict.fromkeys(all_symbols(size)))
    if len(symbols) != 1:
        return None
    symbol = Size(((tuple(symbols), 1),))  # of which the size is a quotient, such as half a row
    for number in (step << i for i in range(_DOUBLED + 1)):
        whole: SizeLike = exact_quotient(symbol, number) * number
        if substituted(size, {symbols[0].name: whole}) % step == 0:
            return _Multiple(symbol % number, {symbols[0].name: whole})
    return None


def _sizes(kernel: Kernel, round_half: bool) -> list[Size]:
    """Returns the symbolic sizes that decide where the accesses of a kernel without reductions start and end: the sides of a matrix
    that it transposes in tiles, else what is read and written along its vector axis; none for other kernels."""
    chosen = any(name in kernel.function.attributes for name in (CHOICE, WINDOW))
    if chosen or not any(argument.symbolic for argument in kernel.arguments):
        return []
    try:
        space = kernel.space(round_half)
    except Untraceable:
        return []
    form = form_of(space, nvvm.NvvmConfig)
    if form.crossed is not None and form.vector is not None:
        return _symbolic(form.vector.extent, form.crossed.extent)
    if space.columns or has_scans(space) or form.vector is None or form.merged.rows == (form.vector,):
        return []
    return _symbolic(form.vector.extent, *_offsets(space, form.merged, form.vector))


def _offsets(space: Space, merged: Merged, vector: Axis) -> Iterator[SizeLike]:
    """Yields the offsets that are added to positions along an axis, and the bounds of these positions."""
    guards = [bound for load in space.loads for bound in load.guard]
    for at in (merged.index(at) for at in space.places()):
        if at.coefficient(vector) == 1:
            yield from (at.constant, *(c for t, c in at.terms if t is not vector))
    for bound in guards:
        if merged.index(bound.at).coefficient(vector):
            yield from (bound.low, bound.high)


def _symbolic(*sizes: SizeLike) -> list[Size]:
    return list(dict.fromkeys(size for size in sizes if isinstance(size, Size)))


def _parts(size: Size) -> list[SizeLike]:
    """Returns a size that one symbol decides, or else the terms of its sum."""
    if len(symbols_of(size)) == 1:
        return [size]
    return [Size((term,)) if term[0] else term[1] for term in size.terms]
