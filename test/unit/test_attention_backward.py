"""Tests attention in training graphs as Lamina kernels, in Triton's interpreter against float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from attention_programs import attention, compute, exact, program_of, run_program, to_graph_level
from attention_training import backward, both_graphs, exact_gradients, exact_sums, saved
from torch import Tensor

BF16, F16 = torch.bfloat16, torch.float16
FORWARD = "forward{m=32 n=16}"


def random(*shape: int, dtype: torch.dtype = BF16) -> Tensor:
    return torch.randn(*shape).to(dtype)


def near(found: Tensor, want: Tensor, bound: float = 0.0) -> None:
    assert found.shape == want.shape and bool(found.isfinite().all())
    far = float((found.double() - want).norm() / want.norm())
    assert far <= (bound or {BF16: 2e-3, F16: 5e-4, torch.float32: 1e-5}[found.dtype]), far


@pytest.mark.parametrize(("queries", "values", "block"), [(10, 16, "m=16 n=16"), (40, 24, "m=32 n=16")])
def test_sums(block: str, queries: int, values: int) -> None:
    """The logarithms of sums that forward returns are natural logarithms."""
    q, k, v = random(2, 4, queries, 16), random(2, 2, queries, 16), random(2, 2, queries, values)
    (out, sums), names = compute(lambda q, k, v: attention(q, k, v, None, True, 0.3), (q, k, v), f"forward{{{block}}}")
    near(out, exact(q, k, v, causal=True, scale=0.3))
    assert names == ["attention_forward"]
    near(sums, exact_sums(q, k, causal=True, scale=0.3))


def test_sums_of_rows_that_see_nothing_are_infinite() -> None:
    q, k, seen = random(1, 2, 20, 16), random(1, 2, 20, 16), torch.rand(1, 1, 20, 1) > 0.5
    mask = torch.where(seen, 0.0, -torch.inf).to(BF16).expand(1, 1, 20, 20)
    (_, sums), _ = compute(lambda q, k, m: attention(q, k, k, m), (q, k, mask), "forward{m=16 n=16}")
    assert torch.equal(sums.isinf(), ~seen[..., 0].expand(1, 2, 20))


BACKWARD = "backward{m=32 n=16 keys=32 queries=16}"
OURS = ["attention_backward_queries", "attention_backward_keys"]

# batch, heads, heads of keys, queries, keys, size, size of values
SIZES = [
    (2, 2, 1, 33, 47, 40, 40), (1, 3, 1, 1, 20, 64, 64), (1, 1, 1, 70, 15, 17, 24), (2, 4, 2, 5, 64, 72, 8),
]  # fmt: skip


def check(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *how: Any, schedule: str = BACKWARD) -> None:
    """Forward and gradients by Lamina kernels."""
    mask = [t for t in how[:1] if isinstance(t, Tensor)]

    def fn(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, *mask: Tensor) -> tuple[Tensor, ...]:
        given = (*mask, *how[1:]) if mask else how
        return backward(grad, q, k, v, attention(q, k, v, *given), *given)

    found, names = compute(fn, (grad, q, k, v, *mask), f"{FORWARD}; {schedule}")
    for one, want in zip(found, exact_gradients(grad, q, k, v, *how), strict=True):
        near(one, want, 4e-3)
    assert names[-3:] == ["attention_forward", *OURS]


@pytest.mark.parametrize(("sizes", "dtype"), [*((sizes, BF16) for sizes in SIZES), (SIZES[0], F16)])
def test_sizes(sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    batch, heads, kv_heads, queries, keys, size, values = sizes
    q, k = random(batch, heads, queries, size, dtype=dtype), random(batch, kv_heads, keys, size, dtype=dtype)
    v, grad = random(batch, kv_heads, keys, values, dtype=dtype), random(batch, heads, queries, values, dtype=dtype)
    check(grad, q, k, v)


@pytest.mark.parametrize(
    ("kv_heads", "length", "block"),
    [(1, 64, "m=32 n=16 keys=16 queries=32"), (1, 45, "m=16 n=32 keys=32 queries=16"), (2, 45, "m=16 n=16 keys=32 queries=16")],
)
def test_causal(kv_heads: int, length: int, block: str) -> None:
    q, grad, k, v = (random(1, n, length, 24) for n in (2, 2, kv_heads, kv_heads))
    check(grad, q, k, v, None, True, 0.3, schedule=f"backward{{{block}}}")


@pytest.mark.parametrize(("queries", "keys"), [(40, 25), (25, 40)])
def test_causal_counts_from_the_first_key(queries: int, keys: int) -> None:
    """Keys that no query sees have a gradient of zero."""
    q, grad, k, v = (random(1, 2, n, 16) for n in (queries, queries, keys, keys))
    check(grad, q, k, v, None, True)


MASKS: dict[str, Callable[[], Tensor]] = {
    "bool of a batch, rows see nothing": lambda: (
        torch.rand(2, 1, 20, 40) > torch.where(torch.arange(20) % 3 == 0, 1.0, 0.3)[:, None]
    ),
    "bias": lambda: random(2, 2, 20, 40),
    "bias of a head": lambda: random(1, 2, 1, 40),
    "bias that hides all of a row": lambda: torch.where(torch.rand(2, 1, 20, 1) > 0.5, random(2, 1, 20, 40), -torch.inf).to(BF16),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    mask = MASKS[name]()
    q, grad, k, v = (random(2, n, length, 16) for n, length in ((2, 20), (2, 20), (1, 40), (1, 40)))
    check(grad, q, k, v, mask)


def test_a_mask_and_causal() -> None:
    q, grad, k, v, mask = *(random(1, 2, 40, 16) for _ in range(4)), random(1, 1, 40, 40)
    check(grad, q, k, v, mask, True)


@pytest.mark.parametrize("blind", [torch.inf, -torch.inf, 0.0])
def test_what_a_vendors_forward_pass_has_found_is_read(blind: float) -> None:
    """Vendors return different logarithms for rows whose keys are all hidden."""
    q, grad, k, v = (random(2, 2, 40, 16) for _ in range(4))
    mask = torch.where(torch.rand(2, 1, 40, 1) > 0.2, random(2, 1, 40, 40), -torch.inf).to(BF16)
    out, sums = exact(q, k, v, mask).to(BF16), exact_sums(q, k, mask).float().nan_to_num(posinf=blind)

    def fn(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, sums: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        return backward(grad, q, k, v, (out, sums), mask)

    found, names = compute(fn, (grad, q, k, v, out, sums, mask), BACKWARD)
    for one, want in zip(found, exact_gradients(grad, q, k, v, mask), strict=True):
        near(one, want, 4e-3)
    assert names[-2:] == OURS


def heads(x: Tensor, count: int) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def test_heads_are_read_and_written_where_they_lie() -> None:
    """Queries, keys and values are parts of one product's result, and so are their gradients: the only copy joins the gradients."""

    def fn(x: Tensor, grad: Tensor) -> tuple[Tensor, ...]:
        q, k, v = (heads(t, n) for t, n in zip(x.split([64, 32, 32], -1), (4, 2, 2), strict=True))
        found = backward(heads(grad, 4), q, k, v, attention(q, k, v))
        return tuple(t.transpose(1, 2).flatten(2) for t in found)

    x, grad = random(2, 12, 128), random(2, 12, 64)
    found, names = compute(fn, (x, grad), f"{FORWARD}; {BACKWARD}")
    q, k, v = (heads(t, n) for t, n in zip(x.split([64, 32, 32], -1), (4, 2, 2), strict=True))
    for one, want in zip(found, exact_gradients(heads(grad, 4), q, k, v), strict=True):
        near(one, want.transpose(1, 2).flatten(2), 4e-3)
    assert names == ["attention_forward", *OURS]


def test_only_what_is_read_is_computed() -> None:
    q, grad = random(1, 2, 20, 16), random(1, 2, 20, 16)
    for wanted, kernels in ((0, OURS[:1]), (2, OURS)):
        (found,), names = compute(
            lambda grad, q, i=wanted: backward(grad, q, q, q, attention(q, q, q))[i], (grad, q), f"{FORWARD}; {BACKWARD}"
        )
        near(found, exact_gradients(grad, q, q, q)[wanted], 4e-3)
        assert names == ["attention_forward", *kernels]


def test_two_graphs_as_torch_makes_them() -> None:
    """What the forward graph computes for the backward graph passes through the arguments of both."""
    inputs = [random(2, 40, 2, 16).transpose(1, 2) for _ in range(3)]
    one, other = both_graphs(lambda q, k, v: attention(q, k, v, None, True)[0] * 2, inputs)
    module = to_graph_level(one)
    found, names = run_program(module, program_of(module, FORWARD), inputs)
    assert "attention_forward" in names
    (tangent,) = [node for node in other.graph.nodes if node.name.startswith("tangents")]
    grad = torch.empty_strided(tangent.meta["val"].shape, tangent.meta["val"].stride(), dtype=BF16).normal_()
    known = {**saved(one, found, inputs), tangent.name: grad}
    module = to_graph_level(other)
    taken = [known[node.name] for node in other.graph.nodes if node.op == "placeholder"]
    gradients, names = run_program(module, program_of(module, BACKWARD), taken)
    assert names[-2:] == OURS
    for mine, want in zip(gradients, exact_gradients(grad * 2, *inputs, None, True), strict=True):
        near(mine, want, 5e-3)
