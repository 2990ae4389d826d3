"""Attention of graphs for training as kernels of ours, in Triton's interpreter against float64."""

import math

import pytest
import torch
from attention_programs import compute, exact
from attention_training import KINDS, backward, exact_gradients, exact_sums, forward
from torch import Tensor

BF16, F16 = torch.bfloat16, torch.float16
FORWARD = "forward{m=32 n=16}"


def random(*shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(*shape).to(dtype)


def near(found: Tensor, want: Tensor, bound: float = 0.0) -> None:
    assert found.shape == want.shape and bool(found.isfinite().all())
    far = float((found.double() - want).norm() / want.norm())
    assert far <= (bound or {BF16: 2e-3, F16: 5e-4, torch.float32: 1e-5}[found.dtype]), far


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", ["m=16 n=16", "m=32 n=16"])
@pytest.mark.parametrize("queries", [10, 40, 64])
def test_sums_are_those_of_the_library(kind: str, block: str, queries: int) -> None:
    """Natural logarithms, in the library's shape; the memory-efficient kernel's have infinities to a multiple of 32."""
    q, k, v = random(2, 4, queries, 16), random(2, 2, queries, 16), random(2, 2, queries, 24 if kind == "cudnn" else 16)
    (out, sums), names = compute(lambda q, k, v: forward(kind, q, k, v, None, True, 0.3)[:2], (q, k, v), f"forward{{{block}}}")
    near(out, exact(q, k, v, causal=True, scale=0.3))
    assert names == ["attention_forward"]
    long = math.ceil(queries / 32) * 32 if kind == "efficient" else queries
    assert sums.shape == ((2, 4, long, 1) if kind == "cudnn" else (2, 4, long))
    near(sums.reshape(2, 4, long)[..., :queries], exact_sums(q, k, causal=True, scale=0.3))
    assert bool((sums.reshape(2, 4, long)[..., queries:] == torch.inf).all())


def test_sums_of_rows_that_see_nothing_are_infinite() -> None:
    q, k, seen = random(1, 2, 20, 16), random(1, 2, 20, 16), torch.rand(1, 1, 20, 1) > 0.5
    mask = torch.where(seen, 0.0, -torch.inf).to(BF16).expand(1, 1, 20, 20)
    (_, sums), _ = compute(lambda q, k, m: forward("cudnn", q, k, k, m)[:2], (q, k, mask), "forward{m=16 n=16}")
    assert torch.equal(sums[..., 0].isinf(), ~seen[..., 0].expand(1, 2, 20))


BACKWARD = "backward{m=32 n=16 keys=32 queries=16}"
OURS = ["attention_backward_queries", "attention_backward_keys"]

# batch, heads, heads of keys, queries, keys, size, size of values
SIZES = [
    (1, 2, 2, 32, 32, 16, 16), (2, 2, 1, 33, 47, 40, 40), (1, 3, 1, 1, 20, 64, 64), (1, 1, 1, 70, 15, 17, 24), (2, 4, 2, 5, 64, 72, 8),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("sizes", SIZES)
def test_gradients(sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    batch, heads, kv_heads, queries, keys, size, values = sizes
    q, k = random(batch, heads, queries, size, dtype=dtype), random(batch, kv_heads, keys, size, dtype=dtype)
    v, grad = random(batch, kv_heads, keys, values, dtype=dtype), random(batch, heads, queries, values, dtype=dtype)
    found, names = compute(
        lambda grad, q, k, v: backward("cudnn", grad, q, k, v, forward("cudnn", q, k, v)), (grad, q, k, v), f"{FORWARD}; {BACKWARD}"
    )
    for one, want in zip(found, exact_gradients(grad, q, k, v), strict=True):
        near(one, want, 4e-3)
    assert names == ["attention_forward", *OURS]
