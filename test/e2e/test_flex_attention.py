"""Compares flex_attention through the entry points, with static and dynamic sizes, in both passes, with its definition in
float64."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from entry_points import BACKEND, ENTRY_POINTS, NO_CACHE, by_export, static_and_dynamic
from flex_attentions import FLEX, Flex, causal, operands
from torch import Tensor
from torch._higher_order_ops.flex_attention import flex_attention as flex_attention_op
from torch.nn.attention import flex_attention as torchs
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask

import lamina
from lamina.frontend.attention import recognize

STRICT = {**NO_CACHE, "strict": True}
CPU, GPU = "aten._scaled_dot_product_flash_attention_for_cpu.default", "lamina.attention.default"
SUMS = AuxRequest(lse=True)
ALL_LENGTHS = ("causal", "documents", "slopes", "cap")
"""Those that test_one_compilation_for_all_lengths compiles for symbolic sizes."""


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torchs, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", False)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def wide(tensors: Any) -> list[Tensor]:
    return [t.double() if t.is_floating_point() else t for t in tensors]


def near(found: Tensor, want: Tensor, bound: float = 2e-6) -> None:
    """Asserts that the largest error is small relative to the largest element, and that the same elements are infinite."""
    assert found.shape == want.shape
    finite = want.isfinite()
    assert torch.equal(found[~finite].double(), want[~finite])
    error = (found.double() - want)[finite].abs().max() if finite.any() else torch.tensor(0.0)
    assert float(error) <= bound * max(1.0, float(want[finite].abs().max()) if finite.any() else 1.0)


def calls(fn: Any, args: Any, **more: Any) -> list[str]:
    found = lamina.explain(fn, tuple(args), options=STRICT, show=False, **more)
    return [e.callee for graph in found.graphs for e in graph.externals]


@pytest.mark.parametrize(
    ("name", "entry_point"), [case for case in static_and_dynamic(FLEX) if case[0] not in ALL_LENGTHS or "dynamic" not in case[1]]
)
def test_values(name: str, entry_point: str) -> None:
    fn = FLEX[name]
    given = [*operands(), *fn.tensors(2, 4, 127, 127)]
    run = ENTRY_POINTS[entry_point](fn, tuple(given))
    near(run(*given), fn.defined(*wide(given))[0])


@pytest.mark.parametrize("name", FLEX)
def test_definition(name: str) -> None:
    """Checks that the reference used below computes the same as torch."""
    fn = FLEX[name]
    given = wide([*operands(), *fn.tensors(2, 4, 127, 127)])
    (out, more), (exact, sums) = fn(*given, aux=SUMS), fn.defined(*given)
    near(out, exact, 1e-14)
    near(more.lse, sums, 1e-14)


@pytest.mark.parametrize("name", FLEX)
def test_gradients(name: str) -> None:
    """On CPUs torch's function does not support gradients, but the op computes them."""
    fn = FLEX[name]
    given = [*operands(), *fn.tensors(2, 4, 127, 127)]
    trained = [0, 1, 2, *(3 + i for i in fn.learned)]
    grad = torch.randn(2, 4, 127, 16)

    def run(compiled: Any, tensors: list[Tensor]) -> list[Tensor]:
        leaves = [t.detach().requires_grad_(i in trained) for i, t in enumerate(tensors)]
        out = compiled(*leaves)
        return [out.detach(), *torch.autograd.grad(out, [leaves[i] for i in trained], grad.to(out.dtype))]

    want = run(lambda *leaves: fn.defined(*leaves)[0], wide(given))
    got = run(torch.compile(fn.by_op, backend=BACKEND, options=STRICT, dynamic=False, fullgraph=True), given)
    for one, other in zip(got, want, strict=True):
        near(one, other, 1e-5)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 1000), (3, 3), (3, 127), (127, 3), (1000, 1000)])
@pytest.mark.parametrize("name", ["later", "cap and more"])
def test_lengths(name: str, sizes: tuple[int, int]) -> None:
    fn = FLEX[name]
    given = [*operands(1, 2, 1, *sizes), *fn.tensors(1, 2, *sizes)]
    near(by_export(fn, tuple(given))(*given), fn.defined(*wide(given))[0])


@pytest.mark.parametrize("name", ALL_LENGTHS)
def test_one_compilation_for_all_lengths(name: str) -> None:
    """The masks have several blocks: for a single block torch adds guards on the lists of the block mask."""
    fn = FLEX[name]
    run = torch.compile(fn, backend=BACKEND, options=NO_CACHE, dynamic=True, fullgraph=True)
    each = [[*operands(queries=n, keys=n), *fn.tensors(2, 4, n, n)] for n in (301, 140, 500)]
    truths = [fn.defined(*wide(given))[0] for given in each]
    with torch._dynamo.config.patch(error_on_recompile=True):
        for given, truth in zip(each, truths, strict=True):
            near(run(*given), truth)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", ["slopes", "cap and more"])
def test_dtypes(name: str, dtype: torch.dtype) -> None:
    fn = FLEX[name]
    given = [*operands(dtype=dtype), *fn.tensors(2, 4, 127, 127)]
    found = by_export(fn, tuple(given))(*given)
    assert found.dtype is dtype
    near(found, fn.defined(*wide(given))[0], {torch.float64: 1e-12, torch.float16: 2e-3}.get(dtype, 1.5e-2))


@pytest.mark.parametrize("name", ["later", "lengths", "cap"])
def test_sums(name: str) -> None:
    fn = FLEX[name]
    given = [*operands(), *fn.tensors(2, 4, 127, 127)]
    run = torch.compile(fn, backend=BACKEND, options=NO_CACHE, dynamic=False, fullgraph=True)
    (out, more), (exact, sums) = run(*given, aux=SUMS), fn.defined(*wide(given))
    near(out, exact)
    near(more.lse, sums)


def test_sums_and_maxima_of_the_op() -> None:
    """torch's function does not return them on CPUs. Some rows see no key."""

    def all_three(q: Tensor, k: Tensor, v: Tensor) -> Any:
        blocks = create_block_mask(lambda b, h, i, j: j > i + 2, None, None, 127, 127, "cpu")
        return flex_attention_op(q, k, v, lambda s, *_: s.sin(), blocks.as_tuple(), 0.25, {})

    run = torch.compile(all_three, backend=BACKEND, options=STRICT, dynamic=False, fullgraph=True)
    exact = torch.compile(all_three, backend="eager", dynamic=False, fullgraph=True)
    for one, other in zip(run(*operands_of(5)), exact(*wide(operands_of(5))), strict=True):
        near(one, other)


def operands_of(seed: int) -> list[Tensor]:
    torch.manual_seed(seed)
    return operands()


def test_gradients_of_sums() -> None:
    """Attention is written out if gradients pass through the sums."""

    def both(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        blocks = create_block_mask(lambda b, h, i, j: i >= j, None, None, 127, 127, "cpu")
        out, sums, _ = flex_attention_op(q, k, v, lambda s, *_: s, blocks.as_tuple(), 0.25, {})
        return out * sums[..., None].to(out.dtype)

    def run(compiled: Any, tensors: list[Tensor]) -> tuple[Tensor, ...]:
        leaves = [t.detach().requires_grad_() for t in tensors]
        return torch.autograd.grad(compiled(*leaves).sin().sum(), leaves)

    given = operands()
    want = run(torch.compile(both, backend="aot_eager", dynamic=False, fullgraph=True), wide(given))
    torch._dynamo.reset()
    got = run(torch.compile(both, backend=BACKEND, options=STRICT, dynamic=False, fullgraph=True), given)
    for one, other in zip(got, want, strict=True):
        near(one, other, 1e-5)


@pytest.mark.parametrize("name", ["causal", "documents", "slopes", "hidden by score", "far", "cap", "by key"])
def test_what_computes_it(name: str) -> None:
    """If no attention kernel knows how the call changes its scores, they are stored in memory; otherwise not."""
    fn = FLEX[name]
    given = [*operands(), *fn.tensors(2, 4, 127, 127)]
    found = calls(fn, given)
    assert not any("flex" in callee for callee in found)
    assert (CPU in found) != fn.whole, found


@pytest.mark.parametrize("name", ["window", "documents", "slopes", "relative", "far"])
def test_as_graphs_for_gpus_have_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With half types, masks keep their dtype. Here torch's ops stand in for the kernels."""
    monkeypatch.setattr(recognize, "for_gpu", lambda *_: True)
    fn = FLEX[name]
    given = [*operands(dtype=torch.bfloat16), *fn.tensors(2, 4, 127, 127)]
    found = torch.compile(fn, backend=BACKEND, options=STRICT, dynamic=False, fullgraph=True)(*given)
    near(found, fn.defined(*wide(given))[0], 1.5e-2)
    assert calls(fn, given) == [GPU]
    grad, leaves = torch.randn_like(found), [t.detach().requires_grad_() for t in given[:3]]
    torch._dynamo.reset()
    out = torch.compile(fn.by_op, backend=BACKEND, options=STRICT, dynamic=False, fullgraph=True)(*leaves, *given[3:])
    got = torch.autograd.grad(out, leaves, grad)
    exact = [t.detach().double().requires_grad_() for t in leaves]
    want = torch.autograd.grad(fn.defined(*exact, *wide(given[3:]))[0], exact, grad.double())
    for one, other in zip(got, want, strict=True):
        near(one, other, 2e-2)


def test_learned_scores_of_half_types_on_gpus_are_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel computes the gradient of a mask that is not rounded to a half type."""
    monkeypatch.setattr(recognize, "for_gpu", lambda *_: True)
    fn = FLEX["learned"]
    given = [*operands(dtype=torch.bfloat16), *(t.requires_grad_() for t in fn.tensors(2, 4, 127, 127))]
    assert GPU not in calls(fn.by_op, [*(t.requires_grad_() for t in given[:3]), *given[3:]], training=True)


def test_an_argument_that_is_a_block_mask() -> None:
    """The block mask is created outside the graph, because a graph break separates its function; values have heads of another
    size."""
    q, k, v = operands()
    blocks = create_block_mask(lambda b, h, i, j: i >= j, None, None, 127, 127, device="cpu")

    def attend(q: Tensor, k: Tensor, v: Tensor, blocks: Any) -> Tensor:
        return torchs.flex_attention(q.sin(), k, torch.cat([v, v], -1), block_mask=blocks, enable_gqa=True, scale=0.3).cos()

    run = torch.compile(attend, backend=BACKEND, options=STRICT, dynamic=False, fullgraph=True)
    near(run(q, k, v, blocks), attend(q.double(), k.double(), v.double(), blocks))


def test_keys_of_one_batch_for_all() -> None:
    (q, *_), (_, k, v) = operands(3), operands(1)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        blocks = create_block_mask(lambda b, h, i, j: i >= j + b, 3, None, 127, 127, device="cpu")
        return torchs.flex_attention(q, k, v, block_mask=blocks, enable_gqa=True)

    run = torch.compile(attend, backend=BACKEND, options=STRICT, dynamic=False, fullgraph=True)
    near(run(q, k, v), attend(q.double(), k.double(), v.double()))


def test_a_function_that_draws_is_left_to_torch() -> None:
    """torch decides which random numbers are drawn, and vmap rejects them."""
    fn = Flex(lambda _, s, *at: s + torch.rand_like(s), causal)
    with pytest.raises(Exception, match=re.compile("random", re.I)):
        torch.compile(fn, backend=BACKEND, options=NO_CACHE, dynamic=False)(*operands())
