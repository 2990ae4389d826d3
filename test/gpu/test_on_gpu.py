"""Compares functions and modules on the GPU with eager and float64, through both entry points."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from entry_points import by_dynamo, by_export
from oracle import compare
from torch import Tensor, nn

import lamina

ENTRY_POINTS = (by_export, by_dynamo)
FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def check(fn: Callable[..., Any], inputs: tuple[Tensor, ...], entry_point: Any, **bounds: float) -> None:
    with torch.no_grad():
        run = entry_point(fn, inputs)
        for _ in range(2):
            got = run(*inputs)
            results = list(got) if isinstance(got, tuple | list) else [got]
            assert all(r.device == inputs[0].device for r in results)
            compare(fn, inputs, results, **bounds)


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "chain": (lambda x: (((x + 1) * 2 - 3) / 4).relu(), ((64, 64),)),
    "odd": (lambda x: torch.tanh(x) * 0.5 + x, ((1001, 37),)),
    "one element": (lambda x: x * 3 + 1, ((1,),)),
    "gelu": (lambda x, w, b: F.gelu(x * w + b), ((257, 768), (768,), (768,))),
    "broadcast column": (lambda x, c: x * c + c, ((300, 130), (300, 1))),
    "transposed": (lambda x, y: x.t() + y, ((513, 255), (255, 513))),
    "softmax": (lambda x: torch.softmax(x, -1), ((1000, 1001),)),
    "softmax of one row": (lambda x: torch.softmax(x, -1), ((1, 4096),)),
    "softmax of short rows": (lambda x: torch.softmax(x * 2, -1), ((4097, 17),)),
    "log softmax": (lambda x: torch.log_softmax(x, 1), ((63, 5000),)),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (768,), w, b), ((129, 768), (768,), (768,))),
    "rms norm": (lambda x, w: F.rms_norm(x, (1024,), w), ((100, 1024), (1024,))),
    "row sum": (lambda x: x.sum(-1), ((777, 333),)),
    "column sum": (lambda x: x.sum(0), ((777, 333),)),
    "full sum": (lambda x: x.sum(), ((777, 333),)),
    "mean and max": (lambda x: (x.mean(-1), x.amax(-1)), ((50, 2049),)),
    "swiglu": (lambda x, g: F.silu(g) * x, ((511, 1000), (511, 1000))),
    "running sum and gelu": (lambda x: F.gelu(x.cumsum(-1)), ((63, 1001),)),
    "running sum of shares": (lambda x: torch.softmax(x, -1).cumsum(-1), ((63, 5000),)),
    "running sum down columns": (lambda x: torch.sigmoid(x.cumsum(0)) * x, ((127, 1003),)),
    "two results": (lambda x: (x.exp(), x.exp().sum(-1)), ((64, 640),)),
}


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, dtype: torch.dtype, entry_point: Any) -> None:
    fn, shapes = FUNCTIONS[name]
    check(fn, tuple(torch.randn(s, device="cuda", dtype=dtype) for s in shapes), entry_point)


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_integers_and_bools(entry_point: Any) -> None:
    x = torch.randint(-50, 50, (321, 77), device="cuda")
    check(lambda x: (x * 2 + 1, x > 3, (x > 3) & (x < 9), x.sum(-1)), (x,), entry_point)
    check(lambda x: x.to(torch.int32) - 5, (x.to(torch.int8).to(torch.int64),), entry_point)


def chained(x: Tensor) -> Tensor:
    return torch.tanh(x) * 2 + 1


def test_strided_arguments_and_views() -> None:
    x = torch.randn(64, 256, device="cuda")
    check(lambda x: x * 2, (x.t(),), by_export)
    check(lambda x: x[:, 3:200:2] + 1, (x,), by_export)
    flat = torch.randn(4097, device="cuda")
    check(chained, (flat[1:],), by_export)  # not aligned to 16 bytes
    for dtype in (torch.float16, torch.float32, torch.int8):
        wide = (torch.randn(33, 515, device="cuda") * 9).to(dtype)
        for start in (1, 3):
            run = by_export(lambda x: (x + x, x.float().sum(-1)), (wide[:, start:512],))
            for given in (wide[:, start:512], wide[:, 2 * start : 512 + start], wide[:, : 512 - start]):
                for found, right in zip(run(given), (given + given, given.float().sum(-1)), strict=True):
                    torch.testing.assert_close(found, right)
    check(lambda x: chained(x[3:]) + chained(x[:-3]), (flat,), by_export)
    run = by_export(lambda x: (x.view(-1), x + 1), (x,))
    view, _ = run(x)
    assert view.data_ptr() == x.data_ptr()


def test_constants_of_the_graph() -> None:
    large, x = torch.randn(3000, device="cuda"), torch.randn(5, device="cuda")
    check(lambda x: x * torch.tensor([0.5, 1.5, 2.5, 3.5, 4.5], device=x.device) + 2, (x,), by_dynamo)
    check(lambda x: x + large, (torch.randn(3000, device="cuda"),), by_export)
    check(lambda x: x * torch.arange(5, device=x.device), (x,), by_export)


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products(entry_point: Any, dtype: torch.dtype) -> None:
    a, b, c = (torch.randn(s, device="cuda", dtype=dtype) for s in ((65, 129), (129, 33), (33,)))
    check(lambda a, b: a @ b, (a, b), entry_point, slack=8)
    check(lambda a, b, c: F.relu(a @ b + c), (a, b, c), entry_point, slack=8)
    check(lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), (c, a, b), entry_point, slack=8)
    x, y = torch.randn(4, 17, 65, device="cuda", dtype=dtype), torch.randn(4, 65, 9, device="cuda", dtype=dtype)
    check(lambda x, y: torch.bmm(x, y) + 1, (x, y), entry_point, slack=8)


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_a_product_on_filled_up_rows(entry_point: Any) -> None:
    """Its result stays in the padded memory."""
    x, w = torch.randn(4, 2048, 64, device="cuda").bfloat16(), torch.randn(5003, 64, device="cuda").bfloat16()
    check(lambda x, w: F.linear(x, w), (x, w), entry_point, slack=8)
    with torch.no_grad():
        got = entry_point(lambda x, w: F.linear(x, w), (x, w))(x, w)
    assert got.stride() == (2048 * 5008, 5008, 1)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_convolution(layout: torch.memory_format) -> None:
    x = torch.randn(2, 6, 19, 17, device="cuda").to(memory_format=layout)
    w = torch.randn(8, 6, 3, 3, device="cuda").to(memory_format=layout)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        check(lambda x, w: F.conv2d(x, w, padding=1).relu() + 1, (x, w), by_dynamo, slack=16)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention(dtype: torch.dtype, causal: bool) -> None:
    """The kernel is eager's, so the numbers are equal."""
    q, k, v = (torch.randn(2, 8, 128, 64, device="cuda", dtype=dtype) for _ in range(3))

    def fn(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    with torch.no_grad():
        for entry_point in ENTRY_POINTS:
            torch.testing.assert_close(entry_point(fn, (q, k, v))(q, k, v), fn(q, k, v), rtol=1e-5, atol=1e-5)


def causal_by_comparisons(n: int) -> Tensor:
    at = torch.arange(n, device="cuda")
    return (at[None, :] <= at[:, None])[None, None]


def everything(n: int) -> Tensor:
    return torch.arange(n, device="cuda")[None, None, None] >= 0


def window(n: int) -> Tensor:
    at = torch.arange(n, device="cuda")
    return causal_by_comparisons(n) & (at[:, None] - at[None, :] < 9)


@pytest.mark.parametrize("n", [128, 197])
@pytest.mark.parametrize("mask", [causal_by_comparisons, everything, window])
def test_attention_with_a_mask_of_positions(mask: Callable[[int], Tensor], n: int) -> None:
    """One fused call, without products and a softmax in memory; windows use Lamina kernels."""
    q, k, v = (torch.randn(2, 8, n, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))

    def fn(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask(n)) + 1

    with torch.no_grad():
        exact = fn(q.double(), k.double(), v.double())
        for entry_point in ENTRY_POINTS:
            error = (entry_point(fn, (q, k, v))(q, k, v) - exact).norm()
            assert error <= 2 * (fn(q, k, v) - exact).norm() + 1e-3 * exact.norm()
        calls = lamina.explain(fn, (q, k, v)).externals
        assert not calls if mask is window else len(calls) == 1 and "attention" in calls[0].callee


@pytest.mark.parametrize("repeat", [False, True])
def test_attention_whose_heads_are_shared(repeat: bool) -> None:
    """Fewer heads of keys and values, or equal ones repeated: both are one fused call."""
    q, k, v = (torch.randn(2, heads, 128, 64, device="cuda", dtype=torch.bfloat16) for heads in (8, 2, 2))

    def fn(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if repeat:
            return F.scaled_dot_product_attention(q, k.repeat_interleave(4, 1), v.repeat_interleave(4, 1), is_causal=True)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    with torch.no_grad():
        exact = fn(q.double(), k.double(), v.double())
        for entry_point in ENTRY_POINTS:
            assert (entry_point(fn, (q, k, v))(q, k, v) - exact).norm() <= 2 * (fn(q, k, v) - exact).norm()
        calls = lamina.explain(fn, (q, k, v))
        assert len(calls.externals) == 1 and "attention" in calls.externals[0].callee and not calls.kernels


class Block(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(128), nn.Linear(128, 128)
        self.qkv, self.mlp = nn.Linear(128, 384), nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128))
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.view(*x.shape[:2], 4, 32).transpose(1, 2) for t in self.qkv(self.norm(x)).split(128, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(x)


def gradients(model: Callable[..., Tensor], module: nn.Module, x: Tensor) -> list[Tensor]:
    module.zero_grad()
    x = x.detach().clone().requires_grad_()
    model(x).square().mean().backward()
    return [x.grad, *(p.grad.clone() for p in module.parameters())]  # type: ignore[list-item,union-attr]


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_training_a_transformer_block(entry_point: Any) -> None:
    module = Block().cuda()
    x = torch.randn(4, 64, 128, device="cuda")
    exact = gradients(module.double(), module, x.double())
    eager = gradients(module.float(), module, x)
    mine = gradients(entry_point(module, (x.clone().requires_grad_(),)), module, x)
    for a, b, truth in zip(mine, eager, exact, strict=True):
        own = (b - truth).abs().max()
        assert (a - truth).abs().max() <= 8 * own + 1e-6 * truth.abs().max() + 1e-9


def test_training_in_half_with_dropout_runs() -> None:
    """Attention's seeds travel from forward to backward."""
    module = Block(dropout=0.1).cuda().bfloat16()
    x = torch.randn(4, 64, 128, device="cuda", dtype=torch.bfloat16)
    for g in gradients(by_dynamo(module, (x,)), module, x):
        assert g.isfinite().all() and g.abs().sum() > 0


def test_training_a_convolutional_net() -> None:
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.BatchNorm2d(4)
    ).cuda()
    x = torch.randn(4, 3, 17, 15, device="cuda")
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        other = copy.deepcopy(module).double()
        exact = gradients(other, other, x.double())
        run = by_dynamo(module, (x,))
        mine = gradients(run, module, x)
        for a, truth in zip(mine, exact, strict=True):
            assert (a - truth).abs().max() <= 1e-4 * truth.abs().max() + 1e-6
        for ours, theirs in zip(module.buffers(), other.buffers(), strict=True):
            torch.testing.assert_close(ours.double(), theirs.double(), rtol=1e-4, atol=1e-5)
        module.eval()
        with torch.no_grad():
            torch.testing.assert_close(by_dynamo(module, (x,))(x), module(x), rtol=1e-4, atol=1e-4)


def test_dropout_draws_as_torch_does() -> None:
    x = torch.ones(1 << 16, device="cuda")
    run = by_dynamo(lambda x: F.dropout(x, 0.25, True) * 2, (x,))
    first, second = run(x), run(x)
    assert not torch.equal(first, second)
    assert abs((first == 0).float().mean().item() - 0.25) < 0.02 and abs(first.mean().item() - 2) < 0.05


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 6, 1, 1), (3, 130, 9, 1), (4, 64, 33, 31), (2, 32, 127, 129)])
def test_a_group_norm_beside_its_input(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Its kernel reshapes images with channels last and back; its other results keep the images' order."""
    x = torch.randn(shape, device="cuda").to(dtype, memory_format=torch.channels_last)
    w, b = torch.randn(2, shape[1], device="cuda").to(dtype)

    def fn(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        t = torch.tanh(x)
        return t, F.group_norm(t, 2, w, b)

    check(fn, (x, w, b), by_dynamo, slack=8)
    got, want = by_dynamo(fn, (x, w, b))(x, w, b), fn(x, w, b)
    for mine, eager in zip(got, want, strict=True):
        assert [s for s, n in zip(mine.stride(), x.shape, strict=True) if n > 1] == [
            s for s, n in zip(eager.stride(), x.shape, strict=True) if n > 1
        ]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 3, 1, 1), (3, 127, 33, 31), (2, 1000, 9, 9), (4, 64, 127, 129)])
def test_norms_between_two_orders(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Images are read with channels first and stored with channels last, or the reverse."""
    x = torch.randn(shape, device="cuda").to(dtype)
    w, b = torch.randn(2, shape[1], device="cuda").to(dtype)

    def fn(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],), w, b)

    for image in (x, x.transpose(-1, -2), x.to(memory_format=torch.channels_last)):
        check(fn, (image, w, b), by_dynamo, slack=8)
        check(lambda x: x.softmax(-1).to(memory_format=torch.channels_last), (image,), by_dynamo, slack=8)
