"""Attention as kernels of ours: in Triton's interpreter against float64, and down to the cubin."""

import pytest
import torch
from attention_programs import compute, cudnn, efficient, exact, flash
from torch import Tensor

BF16, F16 = torch.bfloat16, torch.float16
FORWARD, SPLIT = "forward{m=32 n=16}", "split{n=16 parts=3}"


def random(*shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(*shape).to(dtype)


def near(found: Tensor, want: Tensor) -> None:
    """The interpreter computes with bf16 as f32: what is left is the sums' rounding, and that of f16."""
    assert found.shape == want.shape and bool(found.isfinite().all())
    bound = {BF16: 2e-3, F16: 5e-4}[found.dtype]
    assert float((found.double() - want).norm()) <= bound * float(want.norm()), float((found.double() - want).norm() / want.norm())


# batch, heads, heads of keys, queries, keys, size, size of values
SIZES = [
    (1, 2, 2, 32, 16, 16, 16),
    (2, 2, 1, 33, 47, 40, 40),
    (1, 3, 1, 1, 20, 64, 64),
    (1, 1, 1, 70, 15, 17, 24),
    (2, 1, 1, 5, 64, 200, 8),
]


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("sizes", SIZES)
def test_sizes(sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    batch, heads, kv_heads, queries, keys, size, values = sizes
    q, k = random(batch, heads, queries, size, dtype=dtype), random(batch, kv_heads, keys, size, dtype=dtype)
    v = random(batch, kv_heads, keys, values, dtype=dtype)
    (found,), names = compute(lambda q, k, v: cudnn(q, k, v, None), (q, k, v), FORWARD)
    near(found, exact(q, k, v))
    assert names == ["attention_forward"]


@pytest.mark.parametrize("schedule", [FORWARD, "forward{m=16 n=32}", "forward{m=32 n=32 descriptors=1}"])
@pytest.mark.parametrize(("heads", "length", "size"), [(2, 64, 16), (4, 71, 48), (1, 3, 64)])
def test_causal(heads: int, length: int, size: int, schedule: str) -> None:
    q, k, v = (random(2, n, length, size) for n in (heads, 1, 1))
    (found,), _ = compute(lambda q, k, v: flash(q, k, v, True, 0.3), (q, k, v), schedule)
    near(found, exact(q, k, v, causal=True, scale=0.3))


def test_causal_counts_from_the_first_key() -> None:
    """For torch's efficient kernel; others are left alone where there are not as many keys as queries."""
    q, k, v = random(1, 2, 40, 16), random(1, 2, 25, 16), random(1, 2, 25, 16)
    (found,), names = compute(lambda q, k, v: efficient(q, k, v, None, True), (q, k, v), FORWARD)
    near(found, exact(q, k, v, causal=True))
    assert names == ["attention_forward"]
