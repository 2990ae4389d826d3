"""Decomposes data movement: scatters of slices into pads and selects, splits into slices, rolls into concatenations."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._decomp import decomposition_table

from lamina.core.sizes import at_most

from ...fx.sizes import exact
from ..eager_layout import dense
from ..undecided import greater, is_unbacked, lesser, surely
from .random.uniform import memory_order, permuted_back

aten = torch.ops.aten

_NOWHERE = 2**62
"""An index that no dimension has."""


def bounds(size: int, start: int | None, end: int | None) -> tuple[int, int]:
    """Returns the first element of a slice and the one behind its last, counted from the start."""
    start = 0 if start is None else start
    end = size if end is None else end
    start = lesser(greater(start + size if start < 0 else start, 0), size)
    end = lesser(greater(end + size if end < 0 else end, start), size)
    return start, end


def pad(x: Tensor, dim: int, before: int, after: int, value: float = 0) -> Tensor:
    """Pads a tensor with a value before and after it along a dimension."""
    widths = [0, 0] * (x.dim() - 1 - dim) + [before, after]
    return x if surely(before == 0) and surely(after == 0) else torch.constant_pad_nd(x, widths, value)


def position(x: Tensor, dim: int) -> Tensor:
    """Returns the numbers of the elements along a dimension, to broadcast against the tensor."""
    shape = [1] * x.dim()
    shape[dim] = x.shape[dim]
    return torch.arange(x.shape[dim], device=x.device).view(shape)


def slice_backward(grad: Tensor, sizes: Sequence[int], dim: int, start: int, end: int, step: int) -> Any:
    """Pads the gradient with zeros; NotImplemented for truth values."""
    dim %= len(sizes)
    if grad.dtype is torch.bool:
        return NotImplemented
    first, last = bounds(sizes[dim], start, end)
    return pad(grad, dim, first, sizes[dim] - last) if step == 1 else _apart(grad, dim, first, step, sizes[dim])


def _apart(x: Tensor, dim: int, first: int, step: int, size: int) -> Tensor:
    """Spaces the elements along a dimension `step` apart, from position `first` on, in `size` elements; the others are 0.

    Rows of `step` elements hold one each, so that a kernel's index is divided by nothing else. Where the size is a symbol, so that
    torch would guard on whether it is a multiple, elements are looked up: what stands after the last is 0.
    """
    if not isinstance(size, int):
        place, n = torch.arange(size, device=x.device) - first, x.shape[dim]
        stands = (place >= 0) & (place % step == 0) & (place < n * step)
        return pad(x, dim, 0, 1).index_select(dim, torch.where(stands, place // step, n))
    before, place = divmod(first, step)
    rows = pad(x.unsqueeze(dim + 1), dim + 1, place, step - 1 - place)
    rows = pad(rows, dim, before, -(-size // step) - before - x.shape[dim])
    return aten.slice.Tensor(rows.flatten(dim, dim + 1), dim, 0, size)


def select_backward(grad: Tensor, sizes: Sequence[int], dim: int, index: int) -> Any:
    """Pads the gradient of one index with zeros."""
    dim %= len(sizes)
    if not isinstance(index, int) or index < 0:  # a remainder of a number by a symbolic size would stay one
        index = index % sizes[dim]
    return pad(grad.unsqueeze(dim), dim, index, sizes[dim] - index - 1)


def slice_scatter(x: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    """Selects the padded `src` inside the slice and x outside."""
    dim %= x.dim()
    src = dense(src).to(x.dtype)
    first, last = bounds(x.shape[dim], start, end)
    if surely(last == first):
        return x.clone()
    if step == 1 and surely(first == 0) and surely(last == x.shape[dim]):
        return src.expand(x.shape).clone()
    at = position(x, dim)
    shape = [*x.shape]
    shape[dim] = -(-(last - first) // step)
    if step != 1:
        inside = (at >= first) & (at < last) & ((at - first) % step == 0)
        return torch.where(inside, _apart(src.expand(shape), dim, first, step, x.shape[dim]), x)
    padded = pad(src.expand(shape), dim, first, x.shape[dim] - last)
    return torch.where((at >= first) & (at < last), padded, x)


def select_scatter(x: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Selects `src` at one index and x elsewhere."""
    dim %= x.dim()
    if not isinstance(index, int) or index < 0:
        index = index % x.shape[dim]
    return torch.where(position(x, dim) == index, dense(src).to(x.dtype).unsqueeze(dim), x)


def diagonal_scatter(x: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Selects `src` on a diagonal and x elsewhere: row i of the two dimensions has element min(i, i + offset) of it."""
    dim1, dim2 = dim1 % x.dim(), dim2 % x.dim()
    rows, above = x.shape[dim1], max(-offset, 0)
    filled = pad(dense(src).to(x.dtype), src.dim() - 1, above, rows - above - src.shape[-1])
    rest = [d for d in range(x.dim()) if d not in (dim1, dim2)]
    place = [*rest, dim1, dim2]
    spread = filled.unsqueeze(-1).permute([place.index(d) for d in range(x.dim())])
    return torch.where(position(x, dim2) - position(x, dim1) == offset, spread, x)


def _with_a_list(op: Any) -> Callable[..., Any]:
    """Wraps torch's own decomposition: a 0-d index becomes a list of one."""
    decomposition = decomposition_table[op]

    def run(x: Tensor, dim: int, index: Tensor, *args: Any, **kwargs: Any) -> Any:
        """Flattens the index, which may have no dimension."""
        return decomposition(x, dim, index.reshape(-1), *args, **kwargs)

    return run


def gather(x: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Any:
    """Gathers from a number as from a row of one element."""
    return NotImplemented if x.dim() else x.reshape(1).gather(0, index.reshape(-1)).reshape(index.shape)


def index_select(x: Tensor, dim: int, index: Tensor) -> Any:
    """Selects a number as the element of a row."""
    return NotImplemented if x.dim() else x.reshape(1).index_select(0, index.reshape(-1)).reshape(())


def take(x: Tensor, index: Tensor) -> Tensor:
    """Indexes the flattened tensor."""
    return aten.index.Tensor(x.reshape(-1), [index])


def index(x: Tensor, indices: list[Tensor | None]) -> Any:
    """Widens indices of 32 bits, which torch-mlir cannot count from the end, and makes one index of several that share a symbolic
    size, which it does not lower."""
    given = [i for i in indices if i is not None]
    if any(i.dtype is torch.int32 for i in given):
        return aten.index.Tensor(x, [i.to(torch.int64) if i is not None and i.dtype is torch.int32 else i for i in indices])
    if any(i.dtype is not torch.int64 for i in given) or not _share_symbols(given):
        return NotImplemented
    return _by_one_index(x, indices)


def _share_symbols(indices: Sequence[Tensor]) -> bool:
    """Returns whether two indices have sizes other than 1 in one dimension of the result, of which one is symbolic."""
    for d in range(1, max((i.dim() for i in indices), default=0) + 1):
        sizes = [n for i in indices if i.dim() >= d and not (isinstance(n := i.shape[-d], int) and n == 1)]
        if len(sizes) > 1 and not all(isinstance(n, int) for n in sizes):
            return True
    return False


def _by_one_index(x: Tensor, indices: list[Tensor | None]) -> Tensor:
    """Indexes the dimensions that have indices as one. Where an index is out of range, so is the one that is made of it."""
    dims = [d for d, i in enumerate(indices) if i is not None]
    if dims[-1] - dims[0] >= len(dims):  # dimensions of the indices come first in the result
        x, dims = x.permute([*dims, *(d for d in range(x.dim()) if d not in dims)]), list(range(len(dims)))
    at, inside = None, None
    for i, n in zip((i for i in indices if i is not None), x.shape[dims[0] : dims[-1] + 1], strict=True):
        place, fits = torch.where(i < 0, i + n, i), (i >= -n) & (i < n)
        at = place if at is None else at * n + place
        inside = fits if inside is None else inside & fits
    assert at is not None and inside is not None
    return aten.index.Tensor(x.flatten(dims[0], dims[-1]), [*[None] * dims[0], torch.where(inside, at, _NOWHERE)])


def split_with_sizes(x: Tensor, sizes: Sequence[int], dim: int = 0) -> list[Tensor]:
    """Returns slices of these sizes, one after another."""
    parts, start = [], 0
    for size in sizes:
        parts.append(aten.slice.Tensor(x, dim, start, start + size))
        start += size
    return parts


def roll(x: Tensor, shifts: Any, dims: Any = ()) -> Tensor:
    """Concatenates the two parts of each rolled dimension in swapped order; without dims, rolls the flattened tensor."""
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not dims:
        return roll(x.reshape(-1), shifts, [0]).reshape(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        n = x.shape[dim]
        if is_unbacked(n):
            x = x.index_select(dim, (torch.arange(n, device=x.device) - shift) % n)
            continue
        k = shift % n if n else 0
        if k:
            x = torch.cat([aten.slice.Tensor(x, dim, n - k, n), aten.slice.Tensor(x, dim, 0, n - k)], dim)
    return x.clone()


def view_copy(x: Tensor, size: Sequence[int]) -> Tensor:
    """Copies also what no view can show in this shape, as eager does."""
    return x.reshape(size).clone(memory_format=torch.contiguous_format)


def squeeze_dims(x: Tensor, dims: Sequence[int]) -> Tensor:
    """Squeezes dimensions one by one: torch-mlir knows no other form."""
    if not x.dim() or not dims:
        return aten.alias.default(x)
    for d in sorted((d % x.dim() for d in dims), reverse=True):
        x = x.squeeze(d)
    return x


def constant_pad(x: Tensor, widths: Sequence[int], value: Any = 0) -> Any:
    """Cuts negative widths off by slices: torch-mlir takes widths that add up to 0 for no padding at all.

    Of a symbolic width that may be 0 no slice is taken, as torch would guard on whether that is all of the tensor.
    """
    cuts = [_cut(width) for width in widths]
    if not any(cut is not None for cut in cuts):
        return NotImplemented
    for i, (before, after) in enumerate(zip(cuts[::2], cuts[1::2], strict=True)):
        dim = x.dim() - 1 - i
        begin, end = (0 if before is None else before), x.shape[dim] - (0 if after is None else after)
        if isinstance(before, torch.SymInt) or isinstance(after, torch.SymInt):
            x = x.index_select(dim, torch.arange(end - begin, device=x.device) + begin)
        else:
            x = aten.slice.Tensor(x, dim, begin, end)
    kept = [width if cut is None else 0 for width, cut in zip(widths, cuts, strict=True)]
    return torch.constant_pad_nd(x, kept, value) if any(kept) else x.clone()


def _cut(width: Any) -> Any:
    """Returns how many elements a width of a padding cuts off; None if it may add some. A symbolic width that is never above 0, as
    in the gradient of a padding, needs no guard, although it may be 0."""
    if isinstance(width, torch.SymInt) and not is_unbacked(width) and at_most(exact(width), 0):
        return -width
    return None if width >= 0 else -width


def eye(n: int, m: int | None = None, *, dtype: torch.dtype | None = None, device: Any = None, **kwargs: Any) -> Tensor:
    """Compares 64-bit row and column numbers: torch's decomposition uses 8-bit unsigned ones, which torch-mlir lacks."""
    rows, columns = torch.arange(n, device=device), torch.arange(n if m is None else m, device=device)
    return (rows.unsqueeze(1) == columns).to(dtype or torch.get_default_dtype())


def fft_fftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, device: Any = None, **kwargs: Any) -> Tensor:
    """Numbers the frequencies of a Fourier transform: those of its second half are negative."""
    number = torch.arange(n, dtype=dtype or torch.get_default_dtype(), device=device)
    return torch.where(number < (n + 1) // 2, number, number - n) * (1 / (n * d))


def fft_rfftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, device: Any = None, **kwargs: Any) -> Tensor:
    """Numbers the frequencies of a real signal's Fourier transform."""
    return torch.arange(n // 2 + 1, dtype=dtype or torch.get_default_dtype(), device=device) * (1 / (n * d))


def copy(x: Tensor, src: Any, non_blocking: bool = False) -> Any:
    """Returns `src`, a tensor or a number, in the shape, dtype and memory order of `x`: the functional form of an assignment."""
    if not isinstance(src, Tensor):
        src = torch.full((), src, dtype=x.dtype, device=x.device)
    if x.device != src.device:
        return NotImplemented
    order = memory_order(x)
    given = src.to(x.dtype).expand(x.shape)
    turned = given if order == sorted(order) else given.permute(order)
    return permuted_back(turned.clone(memory_format=torch.contiguous_format), order)


INDEXING: dict[Any, Callable[..., Any]] = {
    aten.slice_backward.default: slice_backward,
    aten.select_backward.default: select_backward,
    aten.slice_scatter.default: slice_scatter,
    aten.select_scatter.default: select_scatter,
    aten.diagonal_scatter.default: diagonal_scatter,
    aten.index_add.default: _with_a_list(aten.index_add.default),
    aten.index_copy.default: _with_a_list(aten.index_copy.default),
    aten.gather.default: gather,
    aten.index_select.default: index_select,
    aten.take.default: take,
    aten.index.Tensor: index,
    aten.split_with_sizes.default: split_with_sizes,
    aten.roll.default: roll,
    aten.view_copy.default: view_copy,
    aten.copy.default: copy,
    aten.fill.Tensor: copy,
    aten.eye.default: eye,
    aten.fft_fftfreq.default: fft_fftfreq,
    aten.fft_rfftfreq.default: fft_rfftfreq,
    aten.eye.m: eye,
    aten.squeeze.dims: squeeze_dims,
    aten.constant_pad_nd.default: constant_pad,
}
