"""Makes several kernels of one that reduces along rows of symbolic length, or across them: each for a range of lengths of a row, as
a schedule is for rows of one length, and for multiples of a thread's access.

In the kernel for a range the symbol has a largest value, so that a program is known to hold the row in one block, and it is the
typical one. Kernels for multiples of an access have such sizes in their types.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lamina.core.sizes import Size, SizeSymbol, exactly, known_part, symbol_name, symbols_of, typical
from lamina.schedules import nvvm
from lamina.schedules.rows import COLUMN_RANGES, RANGES, SHORTEST, WALK_RANGES

from ...space.forms import form_of
from ...space.scans import has_scans
from ...space.schedule import ACCESS_BITS, bits
from ...space.vector_width import MOST as WIDEST
from ..kernel import Kernel
from .size_range import Condition, SizeRange

_LARGE = 1 << 14  # elements of an argument from which on wide accesses across rows are worth a kernel that joins no others


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
        """What the kernel's name ends in."""
        return "_".join([*([f"to_{self.most}"] if self.most else []), *([f"by_{self.step}"] if self.step > 1 else [])])

    @property
    def when(self) -> list[Condition]:
        """The conditions on the length."""
        most = [(self.length, self.most)] if self.most else []
        above = [(-self.length, -self.above - 1)] if self.above else []
        return [*most, *above, *([(self.length % self.step, 0)] if self.step > 1 else [])]


def row_ranges(kernel: Kernel, round_half: bool) -> list[SizeRange]:
    """Returns the ranges of its rows' length that a kernel is made for, the last one for any; [] where it reduces nothing, or the
    length of its rows does not depend on one symbol."""
    rows = _rows(kernel, round_half)
    form = LinearLength.of(rows.length) if rows is not None else None
    if rows is None or form is None:
        return []
    return [SizeRange(r.word, tuple(r.when), {form.symbol.name: r.symbol}) for r in _ranges(kernel, rows, form)]


@dataclass(frozen=True)
class _Rows:
    """Rows of a symbolic length.

    length  of a row
    along   whether a kernel reduces along them; otherwise it reduces across them, to one row
    ends    the largest lengths of the ranges
    """

    length: Size
    along: bool
    ends: tuple[int, ...]


def _rows(kernel: Kernel, round_half: bool) -> _Rows | None:
    """Returns the rows of a kernel; None where it reduces nothing, or too little, or several symbols decide their length."""
    if not any(argument.symbolic for argument in kernel.arguments) or (space := kernel.row_space(round_half, scans=True)) is None:
        return None
    form = form_of(space, nvvm.NvvmConfig)
    extent = form.vector.extent if form.vector is not None else 0
    if not isinstance(extent, Size) or len(symbols_of(extent)) != 1:
        return None
    if form.column_vector:
        held = len(form.merged.columns) == 1 and not has_scans(space)
        return _Rows(extent, True, RANGES if held else WALK_RANGES)
    large = any(math.prod(map(typical, a.layout.shape)) >= _LARGE for a in kernel.arguments)
    return _Rows(extent, False, COLUMN_RANGES) if large and not has_scans(space) else None


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
        symbol = _symbol(product)
        if symbol is None or not isinstance(product, Size):
            return None
        if symbol_name(product) == symbol.name:
            return LinearLength(symbol, 1, plus)
        quotient, rest = divmod(product, Size((((symbol,), 1),)))
        return LinearLength(symbol, quotient, plus) if isinstance(quotient, int) and rest == 0 and quotient > 0 else None

    def within(self, above: int, most: int | None, step: int, long: int) -> Size | None:
        """Returns what stands for the symbol where the length is more than `above` and at most `most` (None: any, typically `long`
        at least), and `step` divides it. None where no length is like this, or none that the symbol shows."""
        s = self.symbol
        high = s.most if most is None else (most - self.plus) // self.factor
        low = max(s.least, (above - self.plus) // self.factor + 1)
        if high is not None and high < low:
            return None
        typical = max(s.hint, long // self.factor) if high is None else high
        return self.multiple(Size.of(s.name, typical, low, high), step)

    def multiple(self, symbol: Size, step: int) -> Size | None:
        """Returns what stands for the symbol where `step` divides the length; None where the symbol would not show it."""
        d = step // math.gcd(self.factor, step)
        if d == 1:
            return symbol
        if self.plus and self.factor > 1:
            return None
        plus = self.plus if self.factor == 1 else 0
        return exactly(symbol + plus, d) * d - plus  # type: ignore[return-value]


def _symbol(size: Any) -> SizeSymbol | None:
    """Returns a symbol in a size."""
    factors = [f for product, _ in size.terms for f in product] if isinstance(size, Size) else []
    return next((f if isinstance(f, SizeSymbol) else _symbol(f.left) for f in factors), None)


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
            # rows that start amid an access take one more
            most = end if end is None or by == step or not rows.along else end - step + 1
            low = above[by] if most is not None else 0
            symbol = form.within(low, most, by, 2 * rows.ends[-1] if rows.along else 1)
            if symbol is not None:
                yield RowRange(rows.length, low, most, 1 if whole else by, symbol)
                above[by] = most or 0
