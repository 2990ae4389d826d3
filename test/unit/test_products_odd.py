"""Tests matrix products by Lamina's kernels in unusual cases: transposed readers, slices as factors, empty sums, comparisons."""

import pytest
import torch
from gpu_programs import tiled
from test_products import SMALL_BLOCKS, check, random, run
from torch import Tensor

from lamina.core.gpu import Gpu
from lamina.schedules.product_cost import GemmWork, library_seconds
from lamina.targets.triton import text as triton_text

TWO_PARTS = "triton{m=32 n=64 k=32 warps=4 stages=2 split=2}"


@pytest.mark.parametrize("n", [1, 32, 96, 160])
def test_parts_beyond_the_last_column_are_not_stored(n: int) -> None:
    check(lambda b, x, w: torch.relu(torch.addmm(b, x, w)), random(n), random(40, 64), random(64, n), schedule=TWO_PARTS)


def test_a_reader_with_another_dimension_stays_a_kernel() -> None:
    """It has as many elements as the product has multiplications: its last dimension must not be mistaken for the inner one."""
    check(lambda x, w, z: (x @ w)[:, :, None] * z, random(8, 32), random(32, 16), random(8, 16, 32))


def test_results_that_a_view_wants_transposed() -> None:
    """A result that is returned, or read as one dimension, would have rows in two places: it is copied."""

    def heads(x: Tensor, w: Tensor) -> Tensor:
        return (torch.relu(x @ w).view(2, 20, 4, 12)).permute(0, 2, 1, 3).contiguous()

    check(heads, random(40, 64), random(64, 48))


def test_residuals_that_another_reader_wants_transposed() -> None:
    def block(x: Tensor, w: Tensor, r: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        s = torch.sigmoid(r)
        return (x @ w).view(2, 20, 48) + s, s.transpose(0, 1).reshape(20, 96) @ v

    check(block, random(40, 64), random(64, 48), random(2, 20, 48), random(96, 32))


def test_minus_nothing_is_negative() -> None:
    (found,), _ = run(lambda x, w: 1 / -torch.relu(x @ w).float(), random(40, 64), random(64, 48))
    assert found.isinf().any() and (found < 0).all()


def test_comparisons_and_masks() -> None:
    def masks(x: Tensor, w: Tensor, k: Tensor) -> tuple[Tensor, ...]:
        y = x @ w
        return y > 0, ~(y <= 1), y.isnan() | y.isinf(), torch.logical_xor(k, y > 0)

    x, w, k = random(40, 64), random(64, 48), torch.rand(40, 48) > 0.5
    x[0, 0], x[1, 1] = float("nan"), float("inf")
    found, _ = run(masks, x, w, k)
    for mine, want in zip(found, masks(x.float(), w.float(), k), strict=True):
        assert mine.dtype == torch.bool and (mine != want).float().mean() < 0.01


@pytest.mark.parametrize("descriptors", [True, False])
def test_factors_that_are_parts(descriptors: bool) -> None:
    x, w = random(80, 192), random(192, 48)
    check(lambda x, w: torch.relu(x[:, 64:128] @ w[8:72]), x, w, descriptors=descriptors)
    check(lambda x, w: torch.relu(x[:, 1:65] @ w[:64]), x, w, descriptors=descriptors)
    check(lambda x, w: torch.relu(x[::2, ::2] @ w[::2]), x, w, descriptors=descriptors)
    check(lambda x, w: torch.relu(x[:, :1].expand(80, 192) @ w), x, w, descriptors=descriptors)
    check(lambda x: torch.relu(x @ x.t()), x, descriptors=descriptors)
    check(lambda x, w: torch.relu(torch.bmm(x.view(2, 40, 192), w.expand(2, 192, 48))), x, w, descriptors=descriptors)


def test_descriptors_have_five_dimensions_at_most() -> None:
    def many(a: Tensor, b: Tensor, r: Tensor) -> Tensor:
        return torch.bmm(a, b).view(2, 3, 2, 3, 8, 16) + r

    inputs = random(36, 8, 32), random(36, 32, 16), random(2, 1, 2, 1, 8, 16)
    check(many, *inputs)
    (kernel,) = triton_text.take(tiled(many, inputs, products=SMALL_BLOCKS)[0], descriptors=True)
    assert "descriptor" not in kernel.kernel


def test_nothing_to_sum() -> None:
    assert library_seconds(GemmWork(1, 40, 48, 0), Gpu.named("sm_90a")) > 0
