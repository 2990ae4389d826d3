"""Copies kernels that reduce along or across rows of symbolic length: each copy is for a range of lengths of a row, as
a schedule suits rows of about one length, or for multiples of a thread's access.

In the kernel for a range, the symbol has a largest value, so that a block is known to hold a whole row, and that value is the
typical one. Kernels for multiples of an access have such sizes in their types.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from lamina.core.sizes import Size, SizeLike, SizeSymbol, exactly, known_part, substituted, symbol_name, symbols_of, typical
from lamina.schedules import nvvm
from lamina.schedules.rows import ADDED_RANGES, COLUMN_RANGES, FULL_COLUMNS, RANGES, SHORTEST, WALK_RANGES

from ...space.forms import Form, form_of
from ...space.scans import has_scans
from ...space.schedule import ACCESS_BITS, bits
from ...space.vector_width import MOST as WIDEST
from ..kernel import Kernel
from .joins import joins
from .size_range import Condition, SizeRange


@dataclass(frozen=True)
class RowRange:
    """Rows of more than `above` elements and at most `most` (None: any number), a multiple of `step`.

    length  of a row
    symbol  what stands for the symbol that decides it
    """

    length: Size
    above: int
    most: int | None
    step: int
    symbol: Size

    @property
    def word(self) -> str:
        """The suffix of the kernel's name."""
        return "_".join([*([f"to_{self.most}"] if self.most else []), *([f"by_{self.step}"] if self.step > 1 else [])])

    @property
    def when(self) -> list[Condition]:
        """The conditions on the length."""
        most = [(self.length, self.most)] if self.most else []
        above = [(-self.length, -self.above - 1)] if self.above else []
        return [*most, *above, *([(self.length % self.step, 0)] if self.step > 1 else [])]


def row_ranges(module: ir.Module, kernel: Kernel, round_half: bool) -> list[SizeRange]:
    """Returns the ranges of its rows' length that a kernel is made for, the last one for any; [] if it reduces nothing, or the
    length of its rows does not depend on one symbol."""
    rows = _rows(module, kernel, round_half)
    form = LinearLength.of(rows.length) if rows is not None else None
    if rows is None or form is None:
        return []
    found: list[SizeRange] = []
    for r in _ranges(kernel, rows, form):
        one = SizeRange(r.word, tuple(r.when), {form.symbol.name: r.symbol})
        if rows.added is not None and (r.most is None or r.above >= FULL_COLUMNS):
            few = {substituted(rows.sums, {rows.added.name: n}): n for most in ADDED_RANGES if (n := _narrow(rows.added, most))}
            found += [_of_few(one, rows.added, n) for n in few.values()]  # parts of a sum are as many for several ranges
        found.append(one)
    return found


def _narrow(symbol: SizeSymbol, most: int) -> Size | None:
    """Returns the replacement of a symbol that is at most `most`; None if it never is."""
    return LinearLength(symbol, 1, 0).within(0, most, 1, 1)


def _of_few(one: SizeRange, symbol: SizeSymbol, few: Size) -> SizeRange:
    """Returns the part of a range in which a symbol has the range of `few`."""
    most = typical(few)
    word = "_".join([*([one.word] if one.word else []), f"of_{most}"])
    return SizeRange(word, (*one.when, (Size((((symbol,), 1),)), most)), {**one.symbols, symbol.name: few})


@dataclass(frozen=True)
class _Rows:
    """Rows of a symbolic length.

    length  of a row
    along   whether a kernel reduces along them; otherwise it reduces across them, to one row
    ends    the largest lengths of the ranges
    sums    how many of them are added up
    added   the symbol that decides this; None if there are several
    """

    length: Size
    along: bool
    ends: tuple[int, ...]
    sums: SizeLike = 1
    added: SizeSymbol | None = None


def _rows(module: ir.Module, kernel: Kernel, round_half: bool) -> _Rows | None:
    """Returns the rows of a kernel; None if it reduces nothing, or too little, or several symbols decide their length."""
    if not any(argument.symbolic for argument in kernel.arguments) or (space := kernel.row_space(round_half, scans=True)) is None:
        return None
    form = form_of(space, nvvm.NvvmConfig)
    extent = form.vector.extent if form.vector is not None else 0
    if not isinstance(extent, Size) or len(symbols_of(extent)) != 1:
        return None
    if form.column_vector:
        held = len(form.merged.columns) == 1 and not has_scans(space)
        return _Rows(extent, True, RANGES if held else WALK_RANGES)
    if has_scans(space) or joins(module, kernel):
        return None
    return _Rows(extent, False, COLUMN_RANGES, *_added(form, extent))


def _added(form: Form, length: Size) -> tuple[SizeLike, SizeSymbol | None]:
    """Returns how many rows are added up, and the symbol, other than that of a row's length, that decides it; None for several."""
    sums = math.prod(a.extent for a in form.merged.columns)
    symbols = {s for s in all_symbols(sums) if s.name not in symbols_of(length)}
    return sums, symbols.pop() if len(symbols) == 1 else None


@dataclass(frozen=True)
class LinearLength:
    """A length `factor` * symbol + `plus`."""

    symbol: SizeSymbol
    factor: int
    plus: int

    @staticmethod
    def of(length: Size) -> "LinearLength | None":
        """Reads a length; None for one of another form."""
        plus = known_part(length)
        product = length - plus
        symbol = next(all_symbols(product), None)
        if symbol is None or not isinstance(product, Size):
            return None
        if symbol_name(product) == symbol.name:
            return LinearLength(symbol, 1, plus)
        quotient, rest = divmod(product, Size((((symbol,), 1),)))
        return LinearLength(symbol, quotient, plus) if isinstance(quotient, int) and rest == 0 and quotient > 0 else None

    def within(self, above: int, most: int | None, step: int, long: int) -> Size | None:
        """Returns the replacement of the symbol if the length is more than `above` and at most `most` (None: any, typically `long`
        at least), and `step` divides it. None if no length is like this, or none that the symbol shows."""
        s = self.symbol
        high = s.most if most is None else (most - self.plus) // self.factor
        low = max(s.least, (above - self.plus) // self.factor + 1)
        if high is not None and high < low:
            return None
        typical = max(s.hint, long // self.factor) if high is None else high
        return self.multiple(Size.of(s.name, typical, low, high), step)

    def multiple(self, symbol: Size, step: int) -> Size | None:
        """Returns the replacement of the symbol if `step` divides the length; None if the symbol cannot express that."""
        d = step // math.gcd(self.factor, step)
        if d == 1:
            return symbol
        if self.plus and self.factor > 1:
            return None
        plus = self.plus if self.factor == 1 else 0
        return exactly(symbol + plus, d) * d - plus  # type: ignore[return-value]


def all_symbols(size: Any) -> Iterator[SizeSymbol]:
    """Yields the symbols in a size."""
    for factor in (f for product, _ in size.terms for f in product) if isinstance(size, Size) else ():
        if isinstance(factor, SizeSymbol):
            yield factor
        else:
            yield from (*all_symbols(factor.left), *all_symbols(factor.right))


def whole_access(kernel: Kernel) -> int:
    """Returns the elements of a whole access to the largest of a kernel's arguments."""
    elements = [(math.prod(map(typical, a.layout.shape)), bits(str(a.element))) for a in kernel.arguments]
    largest = max(n for n, _ in elements)
    return min(ACCESS_BITS // max(width for n, width in elements if 2 * n >= largest), WIDEST)


def _ranges(kernel: Kernel, rows: _Rows, form: LinearLength) -> Iterator[RowRange]:
    """Yields the ranges of a row's length, the shortest first, those of multiples before others; the last one is any length."""
    step = whole_access(kernel)
    whole = rows.length % step == 0
    above = {step: 0, 1: 0}
    for end in (*rows.ends, None):
        for by in (step,) if whole else (step, 1):
            if by > 1 and not whole and rows.along and end is not None and end <= SHORTEST:
                continue
            # rows that start in the middle of an access take one more
            most = end if end is None or by == step or not rows.along else end - step + 1
            low = above[by] if most is not None else 0
            symbol = form.within(low, most, by, 2 * rows.ends[-1])
            if symbol is not None:
                yield RowRange(rows.length, low, most, 1 if whole else by, symbol)
                above[by] = most or 0
