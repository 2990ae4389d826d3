"""Compares layout arithmetic with torch's strides."""

import random

import pytest
import torch

from lamina.core.layout import Layout
from lamina.core.sizes import Size, maximum


def layout(t: torch.Tensor) -> Layout:
    return Layout.of(t.shape, t.stride(), t.storage_offset())


@pytest.mark.parametrize("seed", range(40))
def test_chains_of_views(seed: int) -> None:
    rng = random.Random(seed)
    tensor = torch.arange(2 * 3 * 4 * 5).reshape(rng.choice([(2, 3, 4, 5), (6, 20), (1, 24, 5), (120,)]))
    ours = layout(tensor)
    for _ in range(8):
        rank = tensor.dim()
        match rng.choice(["permute", "slice", "expand", "collapse", "repeat"]):
            case "permute":
                order = rng.sample(range(rank), rank)
                tensor, ours = tensor.permute(order), ours.projected(order, [tensor.shape[d] for d in order])
            case "slice" if rank:
                d = rng.randrange(rank)
                start = rng.randrange(tensor.shape[d])
                step = rng.choice([1, 2])
                offsets, steps = [0] * rank, [1] * rank
                offsets[d], steps[d] = start, step
                tensor = tensor[(slice(None),) * d + (slice(start, None, step),)]
                ours = ours.sliced(offsets, tensor.shape, steps)
            case "expand" if rank and rank < 6:
                d = rng.randrange(rank)
                inner = rng.choice([k for k in (1, 2, 3) if tensor.shape[d] % k == 0])
                groups = [[i] for i in range(d)] + [[d, d + 1]] + [[i + 1] for i in range(d + 1, rank)]
                tensor = tensor.unflatten(d, (tensor.shape[d] // inner, inner))
                ours = ours.expanded(groups, tensor.shape)
            case "collapse" if rank > 1:
                d = rng.randrange(rank - 1)
                groups = [[i] for i in range(d)] + [[d, d + 1]] + [[i + 1] for i in range(d + 1, rank - 1)]
                collapsed = ours.collapsed(groups)
                shape = [*tensor.shape[:d], tensor.shape[d] * tensor.shape[d + 1], *tensor.shape[d + 2 :]]
                try:
                    tensor = tensor.view(shape)
                except RuntimeError:
                    assert collapsed is None
                    continue
                assert collapsed is not None
                ours = collapsed
            case "repeat" if rank < 6:
                tensor = tensor.unsqueeze(0).expand(3, *tensor.shape)
                ours = ours.projected([None, *range(rank)], tensor.shape)
        assert ours == layout(tensor)
        assert ours.is_row_major == tensor.is_contiguous()


def test_dense() -> None:
    assert Layout.of((2, 3, 4), (4, 8, 1)).is_dense
    assert Layout.of((2, 1, 4), (4, 99, 1)).is_dense
    assert Layout.of((0, 4), (9, 9)).is_dense
    assert Layout.of((), ()).is_dense
    assert not Layout.of((2, 3), (4, 1)).is_dense
    assert not Layout.of((2, 3), (0, 1)).is_dense
    assert not Layout.of((2, 2), (1, 1)).is_dense


def test_injective() -> None:
    assert Layout.of((2, 3), (4, 1)).is_injective
    assert Layout.of((4, 3), (1, 10)).is_injective
    assert Layout.of((0, 3), (0, 0)).is_injective
    assert not Layout.of((2, 3), (0, 1)).is_injective
    assert not Layout.of((2, 3), (2, 1)).is_injective


def test_span() -> None:
    assert Layout.of((2, 3), (10, 2)).span == 15
    assert Layout.of((), ()).span == 1
    assert Layout.of((3, 0), (1, 1)).span == 0


def test_sizes_that_may_be_zero() -> None:
    """torch computes strides as if such sizes were 1, which affects no element."""
    b, n = Size.of("s0", 4), Size.of("s1", 9) - 2
    contiguous = Layout.of((b, 3, n), (3 * maximum(1, n), maximum(1, n), 1))
    assert contiguous == Layout.row_major((b, 3, n)) and contiguous.is_dense and contiguous.is_injective
    assert Layout.of((b, n), (1, b)).is_injective and Layout.of((b, n, 3), (3 * maximum(1, n), 1, maximum(1, n))).is_dense
