"""Copies kernels that reduce along or across rows of symbolic length: each copy is for a range of lengths of a row, as
a schedule suits rows of about one length, or for multiples of a thread's access.

In the kernel for a range, the symbol has a largest value, so that a block is known to hold a whole row, and that value is the
typical one. Kernels for multiples of an access have such sizes in their types.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch_mlir import ir

from lamina.core.sizes import Size, SizeLike, SizeSymbol, all_symbols, substituted, symbols_of, typical
from lamina.schedules import nvvm
from lamina.schedules.rows import ADDED_RANGES, COLUMN_RANGES, FULL_COLUMNS, RANGES, WALK_RANGES

from ...space.forms import Form, form_of
from ...space.scans import has_scans
from ...space.schedule import ACCESS_BITS, bits
from ...space.vector_width import MOST as WIDEST
from ..kernel import Kernel
from .joins import may_be_joined
from .linear_length import LinearLength
from .size_range import Condition, SizeRange


@dataclass(frozen=True)
class RowRange:
    """Rows of more than `above` elements and at most `maximum` (None: any number), a multiple of `step`.

    length  of a row
    form    how a symbol, or a product of symbols, decides it
    symbol  what stands for that
    """

    length: Size
    above: int
    maximum: int | None
    step: int
    form: LinearLength
    symbol: Size

    @property
    def size_range(self) -> SizeRange:
        """The range for the kernel's copy."""
        return SizeRange(self.word, tuple(self.when), *self.form.replaced(self.symbol))

    @property
    def word(self) -> str:
        """The suffix of the kernel's name."""
        return "_".join([*([f"to_{self.maximum}"] if self.maximum else []), *([f"by_{self.step}"] if self.step > 1 else [])])

    @property
    def when(self) -> list[Condition]:
        """The conditions on the length."""
        most = [(self.length, self.maximum)] if self.maximum else []
        above = [(-self.length, -self.above - 1)] if self.above else []
        return [*most, *above, *([(self.length % self.step, 0)] if self.step > 1 else [])]


def row_ranges(module: ir.Module, kernel: Kernel, round_half: bool) -> list[SizeRange]:
    """Returns the ranges of its rows' length that a kernel is made for, the last one for any; [] if it reduces nothing, or neither
    a symbol nor a product of symbols decides the length of its rows."""
    rows = _rows(module, kernel, round_half)
    form = LinearLength.of(rows.length) if rows is not None else None
    if rows is None or form is None:
        return []
    found: list[SizeRange] = []
    for r in _ranges(kernel, rows, form):
        one = r.size_range
        if rows.added is not None and (r.maximum is None or r.above >= FULL_COLUMNS):
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
    when = (*one.when, (Size((((symbol,), 1),)), most))
    return replace(one, word=word, when=when, symbols={**one.symbols, symbol.name: few})


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
    """Returns the rows of a kernel; None if it reduces nothing, or too little, or rows of a known length."""
    if not any(argument.symbolic for argument in kernel.arguments) or (space := kernel.row_space(round_half, scans=True)) is None:
        return None
    form = form_of(space, nvvm.NvvmConfig)
    extent = form.vector.extent if form.vector is not None else 0
    if not isinstance(extent, Size):
        return None
    if form.column_vector:
        held = len(form.merged.columns) == 1 and not has_scans(space)
        return _Rows(extent, True, RANGES if held else WALK_RANGES)
    if has_scans(space) or may_be_joined(module, kernel):
        return None
    return _Rows(extent, False, COLUMN_RANGES, *_added(form, extent))


def _added(form: Form, length: Size) -> tuple[SizeLike, SizeSymbol | None]:
    """Returns how many rows are added up, and the symbol, other than that of a row's length, that decides it; None for several."""
    sums = math.prod(a.extent for a in form.merged.columns)
    symbols = {s for s in all_symbols(sums) if s.name not in symbols_of(length)}
    return sums, symbols.pop() if len(symbols) == 1 else None


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
            # rows that start in the middle of an access take one more
            most = end if end is None or by == step or not rows.along else end - step + 1
            low = above[by] if most is not None else 0
            symbol = form.within(low, most, by, 2 * rows.ends[-1])
            if symbol is not None:
                yield RowRange(rows.length, low, most, 1 if whole else by, form, symbol)
                above[by] = most or 0
