"""Tests tensors of more than 2**31 elements in attention's gradients, groups, users' kernels and merged launches."""

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from attention_training import backward, exact_gradients, exact_sums
from custom_kernels import scaled_add
from entry_points import by_export
from test_on_gpu_attention_backward import computed, gpu, near
from test_on_gpu_large import FAR, GIB, HALF, SIDE, filled
from test_on_gpu_products_more import by_schedule
from torch import Tensor

import lamina
from lamina.passes.families.attention.cost import AttentionWork, candidates
from lamina.passes.families.grouped_products import SCHEDULES

ROOM = 96 * GIB
pytestmark = pytest.mark.usefixtures("room")


@pytest.mark.parametrize("number", [0, 1])
def test_attention_gradients(number: int) -> None:
    """One batch is repeated until there are more than 2**31 elements."""
    few = [torch.randn(2, 8, 512, 64, device="cuda", dtype=HALF) for _ in range(4)]
    grad, q, k, v = few
    sums = exact_sums(q, k, causal=True)
    out = ((q.double() @ k.double().mT / 8 - sums[..., None]).exp().tril() @ v.double()).to(HALF)

    def fn(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, sums: Tensor) -> tuple[Tensor, ...]:
        return backward(grad, q, k, v, (out, sums), None, True)

    many = [t.repeat(520, 8, *[1] * (t.dim() - 2)) for t in (*few, out, sums.float())]
    batch, heads = many[0].shape[:2]
    assert many[0].numel() > 1 << 31
    config = candidates(AttentionWork(batch, heads, heads, 512, 512, 64, 64, causal=True, backward=True), gpu())[number]
    for found, want in zip(computed(fn, many, str(config)), exact_gradients(grad, q, k, v, None, True), strict=True):
        near(found[-2:, -8:], want)
        near(found[:2, :8], want)


@pytest.mark.parametrize("schedule", [str(s) for s in SCHEDULES[:2]])
def test_groups(schedule: str) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("schedules here are for sm_90")
    x, w = filled(SIDE * SIDE // 32 + 100, 64, dtype=HALF), torch.randn(3, 96, 64, device="cuda", dtype=HALF)
    ends = torch.tensor([100, len(x) - 50, len(x)], device="cuda", dtype=torch.int32)
    found = by_schedule(schedule, x, w.mT, ends)
    for rows, group in ((slice(0, 100), 0), (slice(-150, -50), 1), (slice(-50, None), 2)):
        near(found[rows], F.silu(x[rows].double() @ w[group].double().T))


@triton.jit
def far_kernel(x_ptr, y_ptr, out_ptr, alpha, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + at, mask=at < n, other=0.0) + alpha * tl.load(y_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, total, mask=at < n)


def test_users_kernels() -> None:
    """The number of elements does not fit in the kernel's 32-bit argument; Lamina kernels come before and after."""
    kernel = lamina.custom_kernel(
        torch.ops.lamina_test.scaled_add.default,
        kernel=far_kernel,
        when=lambda x, y, alpha: x.is_contiguous() and y.is_contiguous(),
        arguments=lambda x, y, alpha, out: (x, y, out, alpha, x.numel(), 4096),
        grid=lambda x: triton.cdiv(x.numel(), 4096),
    )

    def fn(x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(scaled_add(x * 2, y, 0.5))

    x, y = (filled(SIDE * 2 + 2, SIDE, dtype=HALF) for _ in range(2))
    found = lamina.compile(fn, (x, y), options={"strict": True, "kernels": [kernel]})(x, y)
    for rows in (FAR, slice(0, 3)):
        near(found[rows], torch.relu(x[rows].double() * 2.5))


def test_launches_that_are_merged() -> None:
    """One launch makes small reads at the far ends of large tensors."""
    tables = [filled(SIDE * 2 + 2, SIDE, dtype=HALF) for _ in range(3)]

    def fn(*tables: Tensor) -> list[Tensor]:
        return [torch.sin(t[-5 - i :, 1 + i :] * (1 + i)) for i, t in enumerate(tables)]

    for found, want in zip(by_export(fn, tuple(tables))(*tables), fn(*tables), strict=True):
        near(found, want.double())
