"""Copies kernels whose rows have a known length for few and for many of them: where there are few, programs are smaller, so that
all of a GPU has work."""

import math
from collections.abc import Sequence

from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.sizes import Size, is_bounded, is_symbolic
from lamina.schedules import nvvm
from lamina.schedules.nvvm_rows import RowKernel, row_reduction, row_sort, row_walk, rows_that_fill

from ...ir.affine import Axis
from ...ir.reading import Untraceable
from ...space.forms import form_of
from ...space.scans import has_scans, has_sorts
from ...space.vector_width import SHIFTED
from ..kernel import Kernel
from .joins import may_be_joined
from .linear_length import LinearLength
from .row_ranges import whole_access
from .size_range import SizeRange

_ROWS_OF_SM = (4, 32)  # up to which rows have more threads than where there are many of them
_FEW = 8  # sums, of which each has several programs
_MORE_THREADS = (8, 2)  # times as many as sort a row of many


def amount_ranges(module: ir.Module, kernel: Kernel, round_half: bool, device: Gpu) -> list[SizeRange]:
    """Returns the ranges of the number of rows that a kernel is made for, the last one for any; [] for one whose schedule does not
    depend on it.

    Kernels that reduce along rows or sort them have ranges of the number of rows, those that reduce across rows of the number of
    sums, those without reductions of the number of elements.
    """
    if not any(argument.symbolic for argument in kernel.arguments) or may_be_joined(module, kernel) or kernel.has_schedule:
        return []
    try:
        space = kernel.space(round_half)
    except Untraceable:
        return []
    form = form_of(space, nvvm.NvvmConfig)
    sorts = has_sorts(space)
    if form.vector is None or form.crossed is not None or is_symbolic(form.vector.extent) or (has_scans(space) and not sorts):
        return []
    rows = math.prod(a.extent for a in form.merged.rows if a is not form.vector)
    if not isinstance(rows, Size) or form.vector.extent == 0:
        return []
    if sorts:
        threads = row_sort(int(form.vector.extent), 1, nvvm.MANY_ELEMENTS, device.sm_count).threads
        return _of_rows(rows, [rows_that_fill(times * threads, device.sm_count) for times in _MORE_THREADS])
    if not space.columns:
        return _of_elements(form.vector, rows, kernel)
    return (_of_short_rows if form.column_vector else _of_sums)(form.vector, rows, kernel, device)


def _of_elements(vector: Axis, rows: Size, kernel: Kernel) -> list[SizeRange]:
    """Returns the ranges of a kernel that reduces nothing."""
    extent, access = int(vector.extent), whole_access(kernel)
    enough = -(-nvvm.MANY_ELEMENTS // extent)
    if nvvm.pointwise(extent, access, enough - 1) == nvvm.pointwise(extent, access, enough):
        return []
    length = LinearLength.of(rows)
    many = length.within(0, None, 1, enough) if length is not None else None  # it serves few rows until their kernel is there
    if length is None or many is None:
        return [_from(rows, enough), SizeRange()]
    return [SizeRange(f"to_{enough - 1}_rows", ((rows, enough - 1),)), SizeRange("", (), *length.replaced(many))]


def _of_short_rows(vector: Axis, rows: Size, kernel: Kernel, device: Gpu) -> list[SizeRange]:
    """Returns the ranges of a kernel that reduces along rows of a known length: few rows have more threads each, and those that
    start in the middle of an access need no checks of the memory's end where this is the end of one."""

    def schedules(count: int) -> tuple[nvvm.NvvmConfig, nvvm.NvvmConfig]:
        """Returns the schedules of so many rows: in registers, and of a single pass."""
        row = RowKernel(int(vector.extent), whole_access(kernel), count, device.sm_count)
        return row_reduction(row, most_ctas=1), row_walk(row)

    many, access = schedules(nvvm.BUSY * device.sm_count), whole_access(kernel)
    ends = [each * device.sm_count for each in _ROWS_OF_SM]
    step = access // math.gcd(int(vector.extent), access) if vector.extent >= SHIFTED else 1
    return _of_rows(rows, [most for most in ends if schedules(most) != many], step)


def _of_sums(vector: Axis, rows: Size, kernel: Kernel, device: Gpu) -> list[SizeRange]:
    """Returns the ranges of a kernel that reduces across rows of a known length."""
    enough = nvvm.sums_that_fill(int(vector.extent), nvvm.WARP * whole_access(kernel), device.sm_count)
    if enough == 1:
        return []
    if LinearLength.of(rows) is None:  # the parts of a sum
        return [_from(rows, enough), _from(rows, -(-enough // 2)), SizeRange()] if is_bounded(rows) else []
    return _of_rows(rows, [min(_FEW, enough - 1), enough - 1])


def _of_rows(rows: Size, ends: Sequence[int], step: int = 1) -> list[SizeRange]:
    """Returns the ranges of up to so many rows, of which schedules know that there are not more, and the one of any number; each
    first for multiples of `step`."""
    length = LinearLength.of(rows)
    if length is None:
        return []
    found: list[SizeRange] = []
    for most in (*ends, None):
        within = length.within(0, most, 1, 1)
        if within is None:
            continue
        limits = () if most is None else ((rows, most),)
        words = [] if most is None else [f"to_{most}_rows"]
        if step > 1 and (multiple := length.multiple(within, step)) is not None:
            found.append(SizeRange("_".join([*words, f"by_{step}"]), (*limits, (rows % step, 0)), *length.replaced(multiple)))
        found.append(SizeRange() if most is None else SizeRange(words[0], limits, *length.replaced(within)))
    return found if len(found) > 1 else []


def _from(rows: Size, enough: int) -> SizeRange:
    """Returns the range of `enough` rows and more, whose kernel is made for the sizes of the first call that needs it."""
    return SizeRange(f"from_{enough}_rows", ((-rows, -enough),))  # type: ignore[arg-type]
