"""Tests unsigned bytes, which compile to kernels alone, with eager's values, dtypes and strides, at static and symbolic sizes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

CASES: dict[str, Callable[[Tensor], Any]] = {
    "an image": lambda x: (x.float() / 255 - 0.45) / 0.22,
    "an image, channels last": lambda x: x.permute(0, 2, 3, 1).to(torch.bfloat16, memory_format=torch.contiguous_format),
    "to an image": lambda x: (x.float() * 2 - 70).round().clamp(0, 255).to(torch.uint8),
    "out of range": lambda x: ((x.float() * 2 - 700).to(torch.uint8), (x.double() * -1.7).to(torch.uint8), (x.int() * 7).to(torch.uint8)),
    "conversions": lambda x: [x.to(t) for t in (torch.bool, torch.int8, torch.int16, torch.int64, torch.float16, torch.float64)],
    "to bytes": lambda x: [(x - 3).to(t).to(torch.uint8) for t in (torch.bool, torch.int8, torch.int16, torch.int64, torch.float16)],
    "one value as two dtypes": lambda x: ((a := x.int() * 3).to(torch.uint8), a.to(torch.int8), a.to(torch.uint8) + 1),
    "bits of two dtypes": lambda x: (x.view(torch.int8) >> 1, (x + 1).view(torch.int8) < 0, (x.view(torch.int8) + 5).view(torch.uint8)),
    "sums": lambda x: (x + 7, x + x, 200 - x, x.sub(3, alpha=2), -x, x * x, x * -1, x**3),
    "among wider ones": lambda x: (x + x.to(torch.int8), x * x.bool(), x + x.short(), x + torch.tensor(300), x - x.long(), x * x.half()),
    "among floats": lambda x: (x * 0.5, x / 3, x / -3, x / x.clamp(min=1), x.sqrt(), x.exp(), torch.where(x > 3, x, x / 7)),
    "divisions": lambda x: (x // 3, x // -1, x % 7, x % -3, x.fmod(7), x.fmod(-3), torch.div(x, 3, rounding_mode="trunc")),
    "comparisons": lambda x: (x > 127, x <= x.flip(0), x == -1, x > 300, x > torch.tensor(300), x < 2.5, x.logical_not(), x & 1 == 1),
    "bits": lambda x: (x & 15, x | 3, x ^ x.flip(-1), ~x, x << 2, x >> 4, x >> 9, x >> (x & 7), x << x, torch.cat([x & 15, x >> 4], 1)),
    "bounds": lambda x: (x.clamp(3, 200), x.clamp(min=-3), torch.maximum(x, x.flip(0)), x.abs(), x.sign(), x.relu(), x.signbit()),
    "reductions": lambda x: (x.sum(), x.sum(-1), x.sum(1, dtype=torch.uint8), x.prod(-1), x.cumsum(-1), x.float().mean((2, 3)), x.all(-1), x.any(-1)),
    "extrema": lambda x: (x.amax(-1), x.amin((0, 1)), x.max(1), x.min(-1), x.argmax(1), x.argmin(), x.max(), x.topk(3)[0]),
    "moves": lambda x: (x.flip(-1), F.pad(x, (1, 2)), F.pad(x, (1, 2), value=200), x.roll(3, 1), x[:, ::2].clone(), x.repeat(2, 1, 1, 1), x.unfold(2, 3, 2) + 0),
    "chosen": lambda x: (x[:, torch.tensor([1, 0, 0])], x.gather(-1, x.long() % 35), torch.where(x > 9, x, 0), x.masked_fill(x > 3, 250), x.diagonal() + 0),
    "tables": lambda x: (torch.arange(256.0)[x.long()], torch.arange(256, dtype=torch.uint8)[x.int()], torch.full_like(x, 200) + x),
    "joined": lambda x: (torch.cat([x, x + 1]), torch.cat([x, x.float()]), torch.stack([x, x.new_tensor(200).expand_as(x)])),
    "enlarged": lambda x: (F.interpolate(x, scale_factor=2.0, mode="nearest"), F.interpolate(x.float(), scale_factor=2.0, mode="bilinear")),
    "written to": lambda x: x.clone().index_fill_(1, torch.tensor([2, 0]), 200).index_put_((x > 100,), torch.tensor(7, dtype=torch.uint8)),
    "scattered": lambda x: torch.zeros(256, dtype=torch.uint8).scatter(0, x.view(-1).long(), 210),
}  # fmt: skip


def bytes_(*shape: int) -> Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8)


def check(fn: Callable[..., Any], *given: Tensor, strict: bool = True, **more: Any) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="lamina", options={"cache": False, "strict": strict}, **more)
    found = torch.utils._pytree.tree_leaves(compiled(*given))
    want = torch.utils._pytree.tree_leaves(fn(*given))
    torch.testing.assert_close(found, want, rtol=2e-5, atol=1e-6)
    assert [t.stride() for t in found] == [t.stride() for t in want]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_bytes(name: str, dynamic: bool) -> None:
    check(CASES[name], bytes_(4, 3, 33, 35), dynamic=dynamic)


@pytest.mark.parametrize("shape", [(1,), (3,), (127,), (1000,), (4097,), (0,), (3, 0)], ids=str)
def test_sizes(shape: tuple[int, ...]) -> None:
    check(lambda x: (x.float() * 3, x + 7, (x.float() - 9).to(torch.uint8), x > 3, x.sum()), bytes_(*shape))


def test_a_strided_image() -> None:
    check(lambda x: (x.float() / 255, x + 1, x.amax(1)), bytes_(2, 33, 35, 3).permute(0, 3, 1, 2)[:, :, ::2])


def test_calls_take_bytes_that_kernels_made() -> None:
    def fn(x: Tensor) -> Any:
        return (
            (x + 3).sort()[0],
            (x.int() * 5).to(torch.int8).sort()[0],
            (x.int() * 5).to(torch.uint8).sort()[0],
            (x * 5).view(torch.int8),
        )

    check(fn, bytes_(5, 330), strict=False)
    check(fn, bytes_(5, 330), strict=False, dynamic=True)


def test_constants() -> None:
    table = torch.full((4,), 200, dtype=torch.uint8)
    check(
        lambda x: (
            table.float() * 2,
            table + x,
            torch.zeros(2, 4, dtype=torch.uint8),
            torch.full((2,), 255, dtype=torch.uint8) > 3,
        ),
        bytes_(4),
    )


def test_a_weight_of_packed_digits() -> None:
    """Each byte has two 4-bit integers, as in quantized models."""

    def fn(packed: Tensor, scale: Tensor, x: Tensor) -> Tensor:
        digits = torch.stack([packed & 15, packed >> 4], -1).flatten(-2)
        return x @ ((digits.to(x.dtype) - 8) * scale).t()

    check(fn, bytes_(32, 8), torch.rand(32, 1), torch.randn(5, 16))


def test_gradients_pass_beside_bytes() -> None:
    weight = torch.randn(3, requires_grad=True)
    image = bytes_(2, 5, 3)

    def fn(x: Tensor, w: Tensor) -> Tensor:
        return (x.float() * w).square().sum()

    torch._dynamo.reset()
    torch.compile(fn, backend="lamina", options={"cache": False, "strict": True})(image, weight).backward()
    found, weight.grad = weight.grad, None
    fn(image, weight).backward()
    torch.testing.assert_close(found, weight.grad)
