"""Compares Lamina's decompositions of rarely used ops, and their gradients, with eager and float64; they leave no external
calls."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from test_decompositions import fallbacks, flat, graphs
from torch import Tensor

import lamina

SORTED = torch.randn(300).sort()[0]
INDICES = torch.randint(0, 5, (18,))
OFFSETS = torch.tensor([0, 5, 5, 11])
CASES: dict[str, tuple[Callable[..., Any], list[Tensor]]] = {
    **{f"pdist {p}": (lambda a, p=p: F.pdist(a, p), [torch.randn(7, 5)]) for p in (0.0, 1.0, 2.0, 3.0, math.inf)},
    "searchsorted of a number": (lambda a: torch.searchsorted(a, 0.3, right=True, out_int32=True), [SORTED]),
    "searchsorted of a number among integers": (lambda a: torch.searchsorted(a, 2.5), [INDICES.sort()[0]]),
    "bucketize of a number": (lambda a: torch.bucketize(-0.3, a), [SORTED]),
    "repetitions": (
        lambda a, i: (a.repeat_interleave(i, 1, output_size=33), i.repeat_interleave(i.flip(0), output_size=33)),
        [torch.randn(3, 18), torch.tensor([0, 1, 2, 0, 5, 1, 1, 2, 3, 4, 0, 0, 7, 1, 2, 2, 2, 0])],
    ),
    "triangles of indices": (
        lambda a: (
            [a + torch.tril_indices(*n) for n in ((5, 7, 2), (5, 3, -2))] + [a + torch.triu_indices(4, 6, -1, dtype=torch.int32)]
        ),
        [torch.tensor(1)],
    ),
    "frequencies": (
        lambda a: (
            a + torch.fft.fftfreq(7, 0.3),
            a + torch.fft.fftfreq(12),
            a + torch.fft.rfftfreq(7),
            a + torch.fft.rfftfreq(12, 0.1),
        ),
        [torch.tensor(0.5)],
    ),
    "whole numbers between fractions": (
        lambda a: a + torch.linspace(4.3, -7.6, 50, dtype=torch.int64) + torch.linspace(2, 9.9, 9, dtype=torch.uint8).sum(),
        [torch.tensor(1)],
    ),
    "embeddings of a norm": (lambda w, i: F.embedding(i, w.detach(), max_norm=1.0), [torch.randn(9, 4), INDICES]),
    "weighted bags": (
        lambda a, w, i, o: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=a, padding_idx=2),
        [torch.randn(18), torch.randn(9, 4), INDICES, OFFSETS],
    ),
    "scatter to a number": (
        lambda a, b, i: (a.scatter(0, i, b), a.scatter(0, i.reshape(1), 2.0)),
        [SORTED[3], SORTED[7], torch.tensor(0)],
    ),
    "elements of a number": (
        lambda a, i: (a.gather(0, i), a.gather(0, i.reshape(1)), a.index_select(0, i), a.index_copy(0, i.reshape(1), a.sin())),
        [SORTED[5], torch.tensor(0)],
    ),
    "maximum of a number": (lambda a: a.max(0)[0], [SORTED[3]]),
    "soft margin": (lambda a, b: F.soft_margin_loss(a * 8, b.sign(), reduction="sum"), [torch.randn(77), torch.randn(77)]),
    **{
        f"multilabel margin, {how}": (
            lambda a, t, how=how: F.multilabel_margin_loss(a, t, reduction=how),
            [torch.randn(4, 5), torch.tensor([[1, 3, -1, 0, 0], [-1, 2, 2, 2, 2], [4, 0, 1, 2, 3], [2, 2, -1, -1, -1]])],
        )
        for how in ("none", "mean", "sum")
    },
    "multilabel margin of a row": (F.multilabel_margin_loss, [torch.randn(5), torch.tensor([1, 3, -1, 0, 0])]),
    "fractional pool": (
        lambda a, s: F.fractional_max_pool2d(a, 3, output_size=(5, 6), _random_samples=s, return_indices=True),
        [torch.randn(2, 3, 17, 19), torch.rand(2, 3, 2)],
    ),
    "fractional pool of a volume": (
        lambda a, s: F.fractional_max_pool3d(a, (3, 2, 2), output_size=(5, 1, 4), _random_samples=s),
        [torch.randn(3, 17, 9, 8), torch.rand(1, 3, 3)],
    ),
    "orders of a number": (
        lambda a: (a.sort()[0], a.topk(1)[0], a.kthvalue(1)[0], a.mode()[0], a.median(0)[0], a.nanmedian(0)[0], a.prod(0)),
        [SORTED[3]],
    ),
    "places of a sorted row": (lambda a, i: torch.searchsorted(a, 0.3, sorter=i), [SORTED.flip(0), torch.arange(299, -1, -1)]),
    "ndtri": (torch.special.ndtri, [torch.cat([torch.rand(300), torch.tensor([0.0, 1, -1, 2, math.nan, 1e-38, 1e-6, 1 - 1e-6])])]),
}


def gradients(fn: Callable[..., Any], inputs: list[Tensor]) -> list[Tensor]:
    """Returns a function's result, and the gradient of its sum with respect to its first argument, if it has one."""
    first, *rest = (t.clone() for t in inputs)
    found = flat(fn(first.requires_grad_(first.is_floating_point()) * 1, *rest))
    losses = [t.sum() for t in found if t.requires_grad]
    return [t.detach() for t in found] + (list(torch.autograd.grad(sum(losses), [first])) if losses else [])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", CASES)
def test_is_computed_as_in_eager(name: str, dtype: torch.dtype) -> None:
    fn, inputs = CASES[name]
    given = [t.to(dtype) if t.is_floating_point() else t for t in inputs]
    for gm in graphs(fn, [t.clone().requires_grad_(not i and t.is_floating_point()) for i, t in enumerate(given)]):
        assert fallbacks(gm) == set()
    compiled = torch.compile(fn, backend="lamina")
    with torch.no_grad():
        for got, want in zip(flat(lamina.compile(fn, tuple(given))(*given)), flat(fn(*given)), strict=True):
            torch.testing.assert_close(got, want, equal_nan=True)
    wide = [t.double() if t.is_floating_point() else t for t in given]
    for got, want, exact in zip(gradients(compiled, given), gradients(fn, given), gradients(fn, wide), strict=True):
        assert got.dtype == want.dtype
        if not got.is_floating_point():
            assert got.equal(want)
            continue
        finite = exact.isfinite() & want.isfinite()
        assert torch.equal(got[~finite].nan_to_num(7.0), want[~finite].nan_to_num(7.0))
        bound = 4 * (want.double() - exact).abs() + 16 * torch.finfo(dtype).eps * exact.abs().clamp(min=1e-12)
        bound += 8 * torch.finfo(dtype).eps * (exact[finite].abs().max() if name.startswith("pdist") else 0)
        assert ((got.double() - exact).abs() <= bound)[finite].all()
