"""Copies kernels with symbolic sizes and without reductions: one copy for rows of whole accesses, one for short rows, and one for
any.

Rows of other lengths start in the middle of an access, so that their elements are read or written one by one: by warps, of whose
threads most would be idle in short rows. In the kernel for multiples of an access the symbols are products, so that its accesses
are as wide as those of known sizes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from torch_mlir import ir

from lamina.core.sizes import Size, SizeLike, all_symbols, exact_quotient, substituted, symbols_of
from lamina.schedules import nvvm
from lamina.schedules.rows import SHORTEST

from ...families.choice import CHOICE
from ...ir.affine import Axis
from ...ir.reading import Untraceable
from ...space.coalesce import Merged, with_length_symbols
from ...space.direct_convolution import WINDOW
from ...space.forms import Form, form_of
from ...space.scans import has_scans
from ...space.space import Space
from ..kernel import Kernel
from .joins import may_be_joined
from .linear_length import LinearLength
from .row_ranges import whole_access
from .size_range import Condition, SizeRange

_DOUBLED = 3  # times that an access is doubled to divide a symbol whose quotient by 2, 4 or 8 is the length of a row


def whole_rows(module: ir.Module, kernel: Kernel, round_half: bool) -> list[SizeRange]:
    """Returns the multiples of a thread's access, short rows, and any length, for a kernel without reductions; [] for any other,
    and for one whose accesses are whole at any length."""
    form = _form(kernel, round_half) if not may_be_joined(module, kernel) else None
    sizes = _sizes(*form) if form is not None else []
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
    if form is None or not when:
        return []
    return [SizeRange(f"by_{step}", tuple(when), symbols, lengths), *_short(form[1]), SizeRange()]


def _short(form: Form) -> Iterator[SizeRange]:
    """Yields the range of short rows, unless the kernel transposes tiles or no symbol decides the length."""
    extent = form.vector.extent if form.vector is not None and form.crossed is None else 0
    length = LinearLength.of(extent) if isinstance(extent, Size) else None
    symbol = length.within(0, SHORTEST, 1, SHORTEST) if length is not None else None
    if length is not None and symbol is not None:
        yield SizeRange(f"to_{SHORTEST}", ((extent, SHORTEST),), *length.replaced(symbol))


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


def _form(kernel: Kernel, round_half: bool) -> tuple[Space, Form] | None:
    """Returns the iteration space and the form of a kernel without reductions whose schedule is open; None for others."""
    chosen = any(name in kernel.function.attributes for name in (CHOICE, WINDOW))
    if chosen or not any(argument.symbolic for argument in kernel.arguments):
        return None
    try:
        space = kernel.space(round_half)
    except Untraceable:
        return None
    form = form_of(space, nvvm.NvvmConfig)
    return None if space.columns or (has_scans(space) and form.crossed is None) else (space, form)


def _sizes(space: Space, form: Form) -> list[Size]:
    """Returns the symbolic sizes that decide where the accesses of a kernel without reductions start and end: the sides of a matrix
    that it transposes in tiles, else what is read and written along its vector axis."""
    if form.crossed is not None and form.vector is not None:
        return _symbolic(form.vector.extent, form.crossed.extent)
    if form.vector is None or form.merged.rows == (form.vector,):
        return []
    return _symbolic(form.vector.extent, *_offsets(space, form.merged, form.vector))


def _offsets(space: Space, merged: Merged, vector: Axis) -> Iterator[SizeLike]:
    """Yields the offsets that are added to positions along an axis, and the bounds of these positions."""
    guards = [bound for load in space.loads for bound in load.guard]
    for at in (merged.index(at) for at in space.places()):
        if at.coefficient(vector) == 1:
            yield from (at.constant, *(c for t, c in at.terms if t is not vector))
    for bound in guards:
        if merged.index(bound.index).coefficient(vector):
            yield from (bound.low, bound.high)


def _symbolic(*sizes: SizeLike) -> list[Size]:
    return list(dict.fromkeys(size for size in sizes if isinstance(size, Size)))


def _parts(size: Size) -> list[SizeLike]:
    """Returns a size that one symbol decides, or else the terms of its sum."""
    if len(symbols_of(size)) == 1:
        return [size]
    return [Size((term,)) if term[0] else term[1] for term in size.terms]
