"""Copies kernels with symbolic sizes and without reductions: for rows of whole accesses and of pairs, for short rows, and for any.

Rows of other lengths start in the middle of an access, so that their elements are read or written one by one: by warps, of whose
threads most would be idle in short rows. In the kernel for multiples of an access the symbols are products, so that its accesses
are as wide as those of known sizes.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from torch_mlir import ir

from lamina.core.sizes import Size, SizeLike, SizeSymbol, all_symbols, evaluate, exact_quotient, substituted, symbols_of
from lamina.schedules import nvvm
from lamina.schedules.rows import SHORT_RANGES

from ...ir.affine import Axis
from ...ir.reading import Untraceable
from ...space.coalesce import Merged, with_length_symbols
from ...space.forms import Form, form_of
from ...space.scans import has_scans
from ...space.space import Space
from ..kernel import Kernel
from .joins import may_be_joined
from .linear_length import LinearLength
from .row_ranges import whole_access
from .size_range import Condition, SizeRange

_QUOTIENT = 64  # times that a symbol may be as long as a row that is a quotient of it
_DOUBLED = 3  # times that an access is doubled to divide a symbol whose quotient by 2, 4 or 8 is the length of a row


def whole_rows(module: ir.Module, kernel: Kernel, round_half: bool) -> list[SizeRange]:
    """Returns the ranges of a kernel without reductions, the last one for any length; [] for any other kernel, and for one whose
    accesses are whole at any length.

    They are multiples of a thread's access, of twice that where half a row has to be one, and of two elements: each for short rows
    and for any, as for lengths that are none of these.
    """
    form = _form(kernel, round_half) if not may_be_joined(module, kernel) else None
    sizes = _sizes(*form) if form is not None else []
    if form is None or not sizes:
        return []
    access = whole_access(kernel)
    found: dict[str, SizeRange] = {}
    whole = True
    for short in (*_short(form[1]), SizeRange()):
        for step in dict.fromkeys((access, 2)):
            multiples = [_multiples(sizes, step, short, halves) for halves in (True, False)]
            found |= {one.word: one for one in multiples if one is not None}
            whole = whole and not any(multiples)
        found[short.word] = short
    return [] if whole else list(found.values())


def _short(form: Form) -> Iterator[SizeRange]:
    """Yields the ranges of short rows, unless the kernel transposes tiles or not one symbol decides the length."""
    extent = form.vector.extent if form.vector is not None and form.crossed is None else 0
    if not isinstance(extent, Size):
        return
    for most in SHORT_RANGES:
        length = LinearLength.of(extent)
        linear = length.within(0, most, 1, most) if length is not None else None
        if length is not None and linear is not None:
            yield SizeRange(f"to_{most}", ((extent, most),), *length.replaced(linear))
        elif length is None and (quotient := _quotient_within(extent, most)) is not None:
            symbol, longest = quotient
            within = Size.of(symbol.name, longest, symbol.minimum, longest)
            yield SizeRange(f"to_{most}", ((extent, most), (Size((((symbol,), 1),)), longest)), {symbol.name: within})


def _quotient_within(extent: Size, most: int) -> tuple[SizeSymbol, int] | None:
    """Returns the symbol of which a length, such as half a row, is a quotient, and its largest value for lengths up to `most`; None
    for lengths of other forms."""
    symbols = list(dict.fromkeys(all_symbols(extent)))
    if len(symbols) != 1:
        return None
    (symbol,) = symbols

    def at(value: int) -> int:
        """Returns the length at a value of the symbol."""
        return evaluate(extent, {symbol.name: value})

    values = range(symbol.minimum, _QUOTIENT * most)
    after = bisect_right(values, most, key=at)
    return (symbol, values[after - 1]) if 0 < after < len(values) else None


def _multiples(sizes: Sequence[Size], step: int, short: SizeRange, halves: bool) -> SizeRange | None:
    """Returns the part of a range in which sizes are multiples of `step`; None if they all are or none can be.

    halves  where a symbol decides several sizes, such as a row and half of it, all of them are; otherwise the first one is
    """
    symbols, lengths = dict(short.symbols), dict(short.lengths)
    when: list[Condition] = []
    number, decided = step, set[str]()
    for part in (part for size in sizes for part in _parts(size)):
        if with_length_symbols(substituted(part, symbols), lengths) % step == 0:
            continue
        found = _multiple(part, step, short)
        if found is None or (found.name in decided and not halves):
            continue
        number = max(number, found.number)
        decided.add(found.name)
        symbols |= found.symbols
        lengths |= found.lengths
        when.append((found.divided, 0))
    word = "_".join([*([short.word] if short.word else []), f"by_{number}"])
    return SizeRange(word, (*short.when, *when), symbols, lengths) if when else None


@dataclass(frozen=True)
class _Multiple:
    """The condition under which a size is a multiple: `divided`, a remainder, is 0.

    name             of the symbol that decides it
    number           what it is a multiple of
    symbols, lengths see SizeRange
    """

    name: str
    number: int
    divided: SizeLike
    symbols: Mapping[str, SizeLike]
    lengths: Mapping[Size, Size] = field(default_factory=dict)


def _multiple(size: SizeLike, step: int, short: SizeRange) -> _Multiple | None:
    """Returns the condition under which a size is a multiple of `step`; None if no symbol can express it. short: what is known of
    the symbols."""

    def known(symbol: SizeSymbol, product: Size | None) -> Size:
        """Returns what stands for a symbol, or for a product, in short rows."""
        stands = short.symbols.get(symbol.name) if product is None else short.lengths.get(product)
        return stands if isinstance(stands, Size) else Size((((symbol,), 1),))

    if (form := LinearLength.of(size) if isinstance(size, Size) else None) is not None:
        multiple = form.multiple(known(form.symbol, form.product), step)
        return None if multiple is None else _Multiple(form.symbol.name, step, size % step, *form.replaced(multiple))
    symbols = list(dict.fromkeys(all_symbols(size)))
    if len(symbols) != 1:
        return None
    (symbol,) = symbols  # of which the size is a quotient, such as half a row
    for number in (step << i for i in range(_DOUBLED + 1)):
        whole: SizeLike = exact_quotient(known(symbol, None), number) * number
        if substituted(size, {symbol.name: whole}) % step == 0:
            return _Multiple(symbol.name, number, Size((((symbol,), 1),)) % number, {symbol.name: whole})
    return None


def _form(kernel: Kernel, round_half: bool) -> tuple[Space, Form] | None:
    """Returns the iteration space and the form of a kernel without reductions whose schedule is open; None for others."""
    if kernel.has_schedule or not any(argument.symbolic for argument in kernel.arguments):
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
