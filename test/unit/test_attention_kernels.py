"""Tests attention as Lamina kernels, in Triton's interpreter against float64."""

import pytest
import torch
from attention_programs import compute, exact, graph_level, masked, plain, program_of
from torch import Tensor

from lamina.core.program import Launch

BF16, F16 = torch.bfloat16, torch.float16
FORWARD, SPLIT = "forward{m=32 n=16}", "split{n=16 parts=3}"
SCHEDULES = {FORWARD: ["attention_forward"], SPLIT: ["attention_split", "attention_join"]}


def random(*shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(*shape).to(dtype)


def near(found: Tensor, want: Tensor, bound: float = 0.0) -> None:
    """The interpreter computes with bf16 as f32: what is left is the rounding of the result, and of the weights in f16."""
    assert found.shape == want.shape and bool(found.isfinite().all())
    bound = bound or {BF16: 2e-3, F16: 5e-4}[found.dtype]
    far = float((found.double() - want).norm() / want.norm())
    assert far <= bound, far


# batch, heads, heads of keys, queries, keys, size, size of values
SIZES = [
    (1, 2, 2, 32, 16, 16, 16), (2, 2, 1, 33, 47, 40, 40), (1, 3, 1, 1, 20, 64, 64), (1, 1, 1, 70, 15, 17, 24),
    (2, 1, 1, 5, 64, 200, 8), (1, 64, 1, 2, 1, 8, 8),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("sizes", SIZES)
def test_sizes(sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    batch, heads, kv_heads, queries, keys, size, values = sizes
    q, k = random(batch, heads, queries, size, dtype=dtype), random(batch, kv_heads, keys, size, dtype=dtype)
    v = random(batch, kv_heads, keys, values, dtype=dtype)
    (found,), names = compute(lambda q, k, v: masked(q, k, v, None), (q, k, v), FORWARD)
    near(found, exact(q, k, v))
    assert names == ["attention_forward"]


@pytest.mark.parametrize("schedule", [FORWARD, "forward{m=16 n=32}", "forward{m=32 n=32 descriptors=1}"])
@pytest.mark.parametrize(("heads", "length", "size"), [(2, 64, 16), (4, 71, 48), (1, 3, 64)])
def test_causal(heads: int, length: int, size: int, schedule: str) -> None:
    q, k, v = (random(2, n, length, size) for n in (heads, 1, 1))
    (found,), _ = compute(lambda q, k, v: plain(q, k, v, True, 0.3), (q, k, v), schedule)
    near(found, exact(q, k, v, causal=True, scale=0.3))


def test_causal_counts_from_the_first_key() -> None:
    """For torch's efficient kernel. Other calls are not replaced unless there are as many keys as queries."""
    for queries, keys in ((40, 25), (25, 40)):
        q, k, v = random(1, 2, queries, 16), random(1, 2, keys, 16), random(1, 2, keys, 16)
        (found,), names = compute(lambda q, k, v: masked(q, k, v, None, True), (q, k, v), FORWARD)
        near(found, exact(q, k, v, causal=True))
        assert names == ["attention_forward"]


@pytest.mark.parametrize("parts", [1, 2, 5, 16])
@pytest.mark.parametrize(
    ("heads", "kv_heads", "queries", "keys", "size", "values"),
    [(8, 2, 1, 70, 32, 32), (4, 4, 2, 33, 16, 20), (24, 1, 1, 64, 96, 96)],
)
def test_keys_in_parts(heads: int, kv_heads: int, queries: int, keys: int, size: int, values: int, parts: int) -> None:
    """Also with more parts than blocks of keys, so that some parts are empty."""
    q, k, v = random(2, heads, queries, size), random(2, kv_heads, keys, size), random(2, kv_heads, keys, values)
    (found,), names = compute(lambda q, k, v: masked(q, k, v, None), (q, k, v), f"split{{n=16 parts={parts}}}")
    near(found, exact(q, k, v))
    assert names == ["attention_split", "attention_join"]


MASKS = {
    "bool": lambda: torch.rand(2, 4, 5, 40) > 0.3,
    "of a batch": lambda: torch.rand(2, 1, 1, 40) > 0.5,
    "rows see nothing": lambda: (torch.rand(2, 4, 5, 40) > 0.3) & (torch.arange(5) % 2 == 0)[:, None],
    "bias": lambda: random(2, 4, 5, 40),
    "bias of a head": lambda: random(1, 4, 5, 40),
    "bias that hides": lambda: torch.where(torch.rand(1, 1, 5, 40) > 0.5, 0.0, -torch.inf).to(BF16),
    "bias that hides the first keys": lambda: torch.where(torch.arange(40) > 20, 0.0, -torch.inf).to(BF16)[None, None, None],
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str, schedule: str) -> None:
    q, k, v, mask = random(2, 4, 5, 16), random(2, 2, 40, 16), random(2, 2, 40, 16), MASKS[name]()
    (found,), names = compute(masked, (q, k, v, mask), schedule)
    near(found, exact(q, k, v, mask))
    assert names == [*(["attention_bounds"] if name == "of a batch" else []), *SCHEDULES[schedule]]


def test_a_mask_and_causal() -> None:
    q, k, v, mask = random(1, 2, 40, 16), random(1, 2, 40, 16), random(1, 2, 40, 16), random(1, 1, 40, 40)
    (found,), _ = compute(lambda *given: masked(*given, True), (q, k, v, mask), FORWARD)
    near(found, exact(q, k, v, mask, causal=True))


def heads(x: Tensor, count: int) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_heads_are_read_where_they_lie(schedule: str) -> None:
    """Queries, keys and values are transposed parts of one product's result, and the result is stored as its reader flattens it:
    nothing is copied."""

    def fn(x: Tensor) -> Tensor:
        q, k, v = x.split([64, 32, 32], -1)
        return plain(heads(q, 4), heads(k, 2), heads(v, 2)).transpose(1, 2).flatten(2)

    x = random(2, 12, 128)
    (found,), names = compute(fn, (x,), schedule)
    q, k, v = x.split([64, 32, 32], -1)
    near(found, exact(heads(q, 4), heads(k, 2), heads(v, 2)).transpose(1, 2).flatten(2))
    assert names == SCHEDULES[schedule]


def test_between_kernels_of_ours() -> None:
    def fn(x: Tensor, w: Tensor) -> Tensor:
        return torch.relu(plain(x * w, x, x + 1, True) * 2)

    x, w = random(1, 2, 20, 32, dtype=F16), random(32, dtype=F16)
    (found,), names = compute(fn, (x, w), FORWARD)
    near(found, torch.relu(exact(x.double() * w.double(), x, x.double() + 1, causal=True) * 2))
    assert "attention_forward" in names


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_mask_for_all_layers_is_read_once(schedule: str) -> None:
    """Although the model expands it over heads and queries."""

    def fn(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
        mask = torch.where(seen[:, None, None], 0.0, -torch.inf).to(q.dtype).expand(2, 4, 3, 40)
        y = masked(q, k, v, mask)
        return masked(y, k, k, mask)

    q, k, v, seen = random(2, 4, 3, 16), random(2, 2, 40, 16), random(2, 2, 40, 16), torch.rand(2, 40) > 0.4
    (found,), names = compute(fn, (q, k, v, seen), schedule)
    seen = seen[:, None, None]
    near(found, exact(exact(q, k, v, seen).to(BF16), k, k, seen), 2 * 2e-3)  # the first result may round to the other neighbor
    assert names == ["keys_1", "attention_bounds", *SCHEDULES[schedule] * 2]
    spread = [
        s.args[-1].shape for s in program_of(graph_level(fn, (q, k, v, seen[:, 0, 0])), schedule).steps if isinstance(s, Launch)
    ]
    assert spread == [(2, 1, 1, 40)]


@pytest.mark.parametrize("strides", [(1, 3, 7, 300), (4000, 1000, 40, 2), (0, 0, 16, 1)])
def test_any_strides(strides: tuple[int, ...]) -> None:
    shape = (2, 2, 20, 16)
    memory = random(sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1)
    q, k = memory.as_strided(shape, strides), random(*shape)
    (found,), _ = compute(plain, (k, q, q), FORWARD)
    near(found, exact(k, q, q))
