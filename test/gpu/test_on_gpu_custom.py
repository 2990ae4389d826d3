"""Compares users' kernels on a GPU with float64, through both entry points."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from custom_kernels import scaled_add, scaled_add_of
from test_custom import LAYOUTS, noisy_kernel, split, split_kernel, square, square_of
from test_custom_patterns import gated, gated_of, norm_of
from torch import Tensor

import lamina

BF16 = torch.bfloat16
ENTRY_POINTS = ("lamina.compile", "torch.compile")


def compiled(entry_point: str, fn: Callable[..., Any], inputs: tuple[Tensor, ...], **options: Any) -> Callable[..., Any]:
    given = {"strict": True, **options}
    if entry_point == "lamina.compile":
        return lamina.compile(fn, inputs, options=given)
    torch._dynamo.reset()
    return torch.compile(fn, backend="lamina", options=given)


def near(found: Tensor, want: Tensor, of: float = 1.0) -> None:
    """Within `of` roundings of the dtype, of the largest value."""
    assert found.dtype.is_floating_point
    error = (found.double() - want.double()).abs().max()
    assert error <= of * torch.finfo(found.dtype).eps * want.abs().max(), float(error)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


def softmax_of() -> lamina.CustomKernel:
    return lamina.custom_kernel(
        torch.ops.aten._softmax.default,
        kernel=softmax_kernel,
        when=lambda self, dim, half_to_float: dim in (-1, self.dim() - 1) and not half_to_float and self.is_contiguous(),
        arguments=lambda self, out: (self, out, self.shape[-1], triton.next_power_of_2(self.shape[-1])),
        grid=lambda self: self.numel() // self.shape[-1],
        num_warps=8,
    )


@triton.jit
def product_kernel(a_ptr, b_ptr, out_ptr, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Rows of a times columns of b through shared memory."""
    rows, columns = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    acc = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        a = tl.load(a_ptr + rows[:, None] * k + inner[None, :], mask=(rows[:, None] < m) & (inner[None, :] < k), other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + columns[None, :], mask=(inner[:, None] < k) & (columns[None, :] < n), other=0.0)
        acc = tl.dot(a, b, acc)
    tl.store(out_ptr + rows[:, None] * n + columns[None, :], acc, mask=(rows[:, None] < m) & (columns[None, :] < n))


@torch.library.custom_op("lamina_test::product", mutates_args=())
def product(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


@product.register_fake
def _(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(a.shape[0], b.shape[1])


def product_of() -> lamina.CustomKernel:
    return lamina.custom_kernel(
        product,
        kernel=product_kernel,
        when=lambda a, b: a.is_contiguous() and b.is_contiguous(),
        arguments=lambda a, b, out: (a, b, out, a.shape[0], b.shape[1], a.shape[1]),
        grid=lambda out, M, N: (triton.cdiv(out.shape[0], M), triton.cdiv(out.shape[1], N)),
        constants={"M": 128, "N": 128, "K": 64},
        num_warps=8,
        num_stages=4,
    )


def stands_between_ours(kernel: lamina.CustomKernel, entry_point: str, dtype: torch.dtype) -> None:
    """A kernel for scaled_add, against float64."""

    def fn(x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(scaled_add(x * 2, y, 0.5))

    x, y = (torch.randn(1000, 33, device="cuda", dtype=dtype) for _ in range(2))
    run = compiled(entry_point, fn, (x, y), kernels=[kernel])
    for _ in range(4):
        near(run(x, y), fn(x.double(), y.double()))


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
@pytest.mark.parametrize("dtype", [torch.float32, BF16, torch.float16])
def test_between_kernels_of_ours(entry_point: str, dtype: torch.dtype) -> None:
    stands_between_ours(scaled_add_of(), entry_point, dtype)


@pytest.mark.parametrize("graphs", [True, False])
def test_arguments_that_move(graphs: bool) -> None:
    """In a CUDA graph of kernels, or step by step; one argument starts at an odd offset."""
    x = torch.randn(4097, device="cuda")
    run = compiled(
        "lamina.compile", lambda x: scaled_add(x[1:], x[:-1], 3.0) + 1, (x,), kernels=[scaled_add_of()], cuda_graphs=graphs
    )
    for _ in range(6):
        x = torch.randn(4097, device="cuda")
        near(run(x), x[1:].double() + 3 * x[:-1].double() + 1)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_layouts_and_grids_of_two_dimensions(entry_point: str, name: str) -> None:
    x = torch.randn(24, 37, device="cuda")

    def fn(x: Tensor) -> Tensor:
        return square(LAYOUTS[name](x), True)

    # x + 1 is rounded by half of eps, which the square doubles; it and the sum after it are rounded by another half each
    near(compiled(entry_point, fn, (x,), kernels=[square_of()])(x), fn(x.double()), of=2.0)


def test_several_results() -> None:
    kernel = lamina.custom_kernel(
        split,
        kernel=split_kernel,
        arguments=lambda x, limit, out0, out1: (x, out0, out1, x.numel(), limit),
        grid=lambda x: triton.cdiv(x.numel(), 64),
        constants={"BLOCK": 64},
    )
    x = torch.randn(5, 400, device="cuda", dtype=torch.float16)
    low, high = compiled("lamina.compile", lambda x: split(x, 0.25), (x,), kernels=[kernel])(x)
    assert torch.equal(low, x.float().clamp(max=0.25)) and torch.equal(high, x > 0.25)


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
def test_an_op_of_torch_and_its_gradients(entry_point: str) -> None:
    def fn(x: Tensor, w: Tensor) -> Tensor:
        return F.softmax(x * w, -1)

    x, w = torch.randn(64, 1000, device="cuda", requires_grad=True), torch.randn(1000, device="cuda", requires_grad=True)
    run = compiled(entry_point, fn, (x, w), kernels=[softmax_of()])
    found = run(x, w)
    wide = [t.detach().double().requires_grad_() for t in (x, w)]
    want = fn(*wide)
    near(found.detach(), want.detach(), 4)
    weight = torch.randn_like(found)
    for mine, theirs in zip(
        torch.autograd.grad(found, (x, w), weight), torch.autograd.grad(want, wide, weight.double()), strict=True
    ):
        near(mine, theirs, 40)


@pytest.mark.parametrize("entry_point", ENTRY_POINTS)
@pytest.mark.parametrize("dtype", [torch.float32, BF16])
def test_patterns(entry_point: str, dtype: torch.dtype) -> None:
    def fn(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
        return gated(F.rms_norm(x, (300,), v, 1e-6), w)

    def rms_norm(x: Tensor, w: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), w, 1e-6)

    x, w, v = (torch.randn(shape, device="cuda", dtype=dtype) for shape in ((8, 60, 300), (8, 60, 300), (300,)))
    kernels = [gated_of(), norm_of(rms_norm)]
    near(compiled(entry_point, fn, (x, w, v), kernels=kernels)(x, w, v), fn(x.double(), w.double(), v.double()), 4)
    (graph,) = lamina.explain(fn, (x, w, v), options={"kernels": kernels}, show=False).graphs
    assert [k.name for k in graph.kernels] == ["norm_kernel", "gated_kernel"]


def test_shared_memory_that_is_asked_for() -> None:
    a, b = torch.randn(300, 500, device="cuda", dtype=BF16), torch.randn(500, 200, device="cuda", dtype=BF16)
    run = compiled("lamina.compile", lambda a, b: F.gelu(product(a, b)), (a, b), kernels=[product_of()])
    near(run(a, b), F.gelu(a.double() @ b.double()), 2)
    found = lamina.explain(
        lambda a, b: F.gelu(product(a, b)), (a, b), options={"kernels": [product_of()]}, measure=True, show=False
    )
    (graph,) = found.graphs
    assert [k.name for k in graph.kernels][:1] == ["product_kernel"] and not graph.externals
    assert all(k.seconds and k.seconds > 0 for k in graph.kernels)


def test_configs_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINA_TUNE_STORE", str(tmp_path / "store.json"))
    x, y = (torch.randn(1 << 24, device="cuda") for _ in range(2))
    good, bad = {"BLOCK": 1024, "num_warps": 4}, {"BLOCK": 32, "num_warps": 8}
    kernel = scaled_add_of(constants={}, configs=[bad, good])
    for tune in ("full", "cached"):
        found = lamina.explain(scaled_add, (x, y), options={"kernels": [kernel], "tune": tune}, show=False)
        assert [k.programs for k in found.graphs[0].kernels] == [(1 << 24) // 1024]
    near(lamina.compile(scaled_add, (x, y), options={"kernels": [kernel]})(x, y), x.double() + y.double())


def test_a_kernel_of_the_process() -> None:
    x = torch.randn(64, device="cuda")
    torch._dynamo.reset()
    with scaled_add_of():
        near(torch.compile(lambda x: scaled_add(x, x), backend="lamina", options={"strict": True})(x), 2 * x.double())
    torch._dynamo.reset()
    with pytest.raises(lamina.CompileError, match="lamina_test.scaled_add.default has no lowering"):
        torch.compile(lambda x: scaled_add(x, x), backend="lamina", options={"strict": True})(x)


def test_a_kernel_that_prints_and_asserts(capfd: pytest.CaptureFixture[str]) -> None:
    x = torch.zeros(1, 4, device="cuda")
    run = compiled("lamina.compile", lambda x: square(x, False), (x,), kernels=[square_of(kernel=noisy_kernel)])
    assert (run(x) == 2).all()
    torch.cuda.synchronize()
    assert "v" in capfd.readouterr().out
