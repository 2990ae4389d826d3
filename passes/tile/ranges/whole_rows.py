"""Makes two kernels of one that transposes memory of symbolic sizes: one for rows of whole accesses, and one for any.

Rows of other lengths start in the middle of an access, so that their elements are read or written one by one. In the kernel for
multiples of an access the symbols are products, so that its accesses are as wide as those of known sizes.
"""

import math

from torch_mlir import ir

from lamina.core.sizes import Size, SizeLike, SizeSymbol, substituted, typical
from lamina.schedules import nvvm

from ...families.choice import CHOICE
from ...ir.reading import Untraceable
from ...space.direct_convolution import WINDOW
from ...space.forms import form_of
from ..kernel import Kernel
from .row_ranges import LinearLength, whole_access
from .size_range import Condition, SizeRange, launches_of


def whole_rows(module: ir.Module, kernel: Kernel, round_half: bool) -> list[SizeRange]:
    """Returns the multiples of a thread's access, and any length, for a kernel that transposes in tiles; [] for any other."""
    extents = _extents(kernel, round_half) if not _joins(module, kernel) else []
    values: dict[str, SizeLike] = {}
    when: list[Condition] = []
    for extent in extents:
        form, step = _form(extent), whole_access(kernel)
        if form is None or substituted(extent, values) % step == 0:
            continue
        symbol = Size((((form.symbol,), 1),))
        if (multiple := form.multiple(symbol, step)) is not None:
            values[form.symbol.name] = multiple
            when.append(((symbol * form.factor + form.plus) % step, 0))
    return [SizeRange(f"by_{whole_access(kernel)}", tuple(when), values), SizeRange()] if when else []


def _joins(module: ir.Module, kernel: Kernel) -> bool:
    """Returns whether lamina-horizontal may join a kernel with others, which saves more of a small one than whole accesses do. It
    joins no launches for ranges of sizes."""
    size = max(typical(math.prod(argument.layout.shape)) for argument in kernel.arguments)
    return size < nvvm.LITTLE and len(launches_of(module)) > 1


def _extents(kernel: Kernel, round_half: bool) -> list[Size]:
    """Returns the symbolic sides of the matrices that a kernel transposes in tiles; none for other kernels."""
    chosen = any(name in kernel.function.attributes for name in (CHOICE, WINDOW))
    if chosen or not any(argument.symbolic for argument in kernel.arguments):
        return []
    try:
        form = form_of(kernel.space(round_half), nvvm.NvvmConfig)
    except Untraceable:
        return []
    sides = (form.vector, form.crossed) if form.crossed is not None else ()
    return [axis.extent for axis in sides if axis is not None and isinstance(axis.extent, Size)]


def _form(extent: Size) -> LinearLength | None:
    """Returns the extent in terms of one symbol. Of a product, such as the pixels of an image, one factor's multiples are also the
    product's."""
    if (form := LinearLength.of(extent)) is not None:
        return form
    (factors, k), *more = extent.terms
    *_, last = factors or (None,)
    return LinearLength(last, k, 0) if isinstance(last, SizeSymbol) and not more else None
