"""Attention that drops weights, and its gradients, by kernels of ours: in Triton's interpreter against float64 and the same draws."""

from collections.abc import Callable, Sequence

import pytest
import torch
from attention_programs import compute
from attention_training import exact_gradients_of
from test_attention_kernels import near, random
from torch import Tensor

from lamina.frontend.dropped_attention import DROPPED
from lamina.frontend.random_bits import keeps

BF16, F16 = torch.bfloat16, torch.float16
BACKWARD = torch.ops.lamina.dropped_attention_backward.default
SMALL, OTHER = (
    "forward{m=32 n=16}; backward{m=32 n=16 keys=32 queries=16}",
    "forward{m=16 n=32}; backward{m=16 n=32 keys=16 queries=32}",
)
LISTS = "forward{m=32 n=16 blocks=1}; backward{m=32 n=16 keys=16 queries=32 blocks=1}"
SEED = torch.tensor(-(2**62) - 987654321)


def both(dropout: float, causal: bool, scale: float, seed: Tensor = SEED) -> Callable[..., Sequence[Tensor]]:
    def fn(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, seed: Tensor, *mask: Tensor) -> Sequence[Tensor]:
        given = mask[0] if mask else None
        out, sums = DROPPED(q, k, v, given, seed, dropout, causal, scale)
        return out, sums, *BACKWARD(grad, q, k, v, given, out, sums, seed, dropout, causal, scale)

    return fn


# heads, heads of keys, queries, keys, size, size of values
SIZES = [(2, 1, 33, 47, 40, 40), (4, 2, 70, 15, 17, 24), (1, 1, 5, 100, 64, 16)]


@pytest.mark.parametrize(
    ("sizes", "dropout", "how", "schedule"),
    [
        (SIZES[0], 0.1, "", SMALL), (SIZES[0], 0.1, "", OTHER), (SIZES[1], 0.75, "causal", SMALL), (SIZES[2], 0.5, "causal", OTHER),
        (SIZES[0], 0.3, "bool", SMALL), (SIZES[1], 0.3, "bias", OTHER), (SIZES[0], 0.3, "bool", LISTS), (SIZES[0], 0.3, "bias", LISTS),
        (SIZES[2], 1.0, "", SMALL), (SIZES[2], 1e-12, "", SMALL),
    ],
)  # fmt: skip
def test_both_passes(sizes: tuple[int, ...], dropout: float, how: str, schedule: str) -> None:
    """Of two sequences, at lengths that blocks do not divide."""
    heads, kv_heads, queries, keys, size, values = sizes
    grad, q = random(2, heads, queries, values), random(2, heads, queries, size)
    k, v = random(2, kv_heads, keys, size), random(2, kv_heads, keys, values)
    mask = [torch.rand(2, 1, queries, keys) > 0.4] if how in ("bool", "bias") else []
    if how == "bias":
        mask = [torch.where(mask[0], random(1, 1, queries, keys), -torch.inf).to(BF16)]
    (out, _, *found), names = compute(both(dropout, how == "causal", 0.3), (grad, q, k, v, SEED, *mask), schedule)
    listing = ["attention_blocks"] * 2 if "blocks" in schedule else []
    assert sorted(names) == sorted(
        [*listing, *listing[:1], "attention_forward", "attention_backward_queries", "attention_backward_keys"]
    )
    factors = keeps(SEED, (2, heads, queries, keys), dropout) * (1 / (1 - dropout) if dropout < 1 else 0.0)
    want = exact_gradients_of(grad, q, k, v, mask[0] if mask else None, how == "causal", 0.3, factors)
    for one, exact in zip((out, *found), want, strict=True):
        if dropout == 1:
            assert not one.any()
        else:
            near(one, exact, 4e-3)
