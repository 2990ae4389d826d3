"""Tests masks that several calls of attention interpret in different ways, the logarithms of sums that include a mask, and the
lowest numbers of dtypes."""

import pytest
import torch
from attention_masks import SLOPES, Scores, added
from attention_programs import attention, compute, exact, masked
from test_attention_kernels import random
from test_attention_masks import BF16, FORWARD, near, said
from torch import Tensor


def test_a_mask_of_one_key_is_of_as_many_as_each_call_has() -> None:
    """The second call used to have the bounds of the first call's 20 keys."""

    def mask(there: Tensor) -> Tensor:
        return added(there[:, None, None, None], (2, 1, 1, 1), BF16)

    def fn(q: Tensor, few: Tensor, many: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
        return masked(q, few, few, mask(there)), masked(q, many, many, mask(there))

    q, few, many, there = random(2, 2, 24, 16), random(2, 2, 20, 16), random(2, 2, 40, 16), torch.tensor([True, False])
    found, _ = compute(fn, (q, few, many, there), FORWARD)
    for one, keys in zip(found, (few, many), strict=True):
        near(one, exact(q, keys, keys, mask(there)))


def test_bounds_of_a_causal_call_are_its_own() -> None:
    """With one query a causal call sees one key; the next call used to see only one as well."""
    mask = added(torch.arange(40) < 30, (2, 2, 1, 40), BF16)
    q, k = random(2, 2, 1, 16), random(2, 2, 40, 16)

    def fn(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        mask = added(torch.arange(40) < 30, (2, 2, 1, 40), BF16)
        return masked(q, k, k, mask, True), masked(q, k, k, mask)

    found, _ = compute(fn, (q, k), FORWARD)
    for one, causal in zip(found, (True, False), strict=True):
        near(one, exact(q, k, k, mask, causal))


def test_slopes_are_of_as_many_heads_as_each_call_has() -> None:
    """The second call used to read two slopes for four heads."""
    mask = (torch.arange(40) * 0.25).view(1, 1, 1, 40).to(BF16)

    def fn(q: Tensor, wide: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        mask = (torch.arange(40) * 0.25).view(1, 1, 1, 40).to(BF16)
        return masked(q, k[:, :2], k[:, :2], mask), masked(wide, k, k, mask)

    q, wide, k = random(2, 2, 24, 16), random(2, 4, 24, 16), random(2, 4, 40, 16)
    found, _ = compute(fn, (q, wide, k), FORWARD)
    near(found[0], exact(q, k[:, :2], k[:, :2], mask))
    near(found[1], exact(wide, k, k, mask))


@pytest.mark.parametrize("kind", ["keys", "rows", "distance"])
def test_logarithms_of_sums_have_all_that_is_added(kind: str) -> None:
    """A library's backward pass adds the mask itself, whose rows may include a constant besides slopes times distances."""

    def mask() -> Tensor:
        q, k = torch.arange(33)[:, None], torch.arange(47)[None]
        place = {"keys": k, "rows": q, "distance": k - q}[kind]
        return (torch.tensor(SLOPES[:2])[:, None, None] * place).to(BF16).expand(1, 2, 33, 47)

    def fn(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return attention(q, k, k, mask())

    q, k = random(1, 2, 33, 16), random(1, 2, 47, 16)
    (_, sums), _ = compute(fn, (q, k), FORWARD)
    want = (q.double() @ k.double().mT / 4 + mask().double()).logsumexp(-1)
    assert float((sums[..., :33].double() - want).abs().max()) < (
        0.1 if kind == "distance" else 1e-3
    )  # Lamina's does not round them


@pytest.mark.parametrize(("fill", "dtype", "want"), [
    (-65515.0, torch.float16, ""), (-65520.0, torch.float16, ": causal from -1"), (-3.3955e38, BF16, ""),
    (torch.finfo(torch.float32).min, BF16, ": causal from -1"),
])  # fmt: skip
def test_numbers_that_round_to_the_lowest_do_not_hide_a_whole_row(fill: float, dtype: torch.dtype, want: str) -> None:
    """The first query sees no key: its result is the mean of all values if the number is finite."""

    def build(there: Tensor, of: Scores, _: torch.dtype) -> Tensor:
        at = torch.arange(of[3])
        return torch.where(at < at[: of[2], None], 0.0, fill).to(dtype).expand(of)

    assert said(build, (1, 2, 300, 300)) == want
