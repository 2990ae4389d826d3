"""Compares unsigned bytes, shifts of bits and masked writes on a GPU with eager on it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_bytes import CASES, check
from torch import Tensor

ON_CPU = ("chosen", "tables", "joined", "written to", "scattered", "among wider ones", "comparisons")  # make tensors on a CPU


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", [name for name in CASES if name not in ON_CPU])
def test_bytes(name: str, dynamic: bool) -> None:
    check(CASES[name], torch.randint(0, 256, (4, 3, 33, 35), dtype=torch.uint8, device="cuda"), dynamic=dynamic)


OTHERS: dict[str, Callable[[Tensor], Any]] = {
    "shifts": lambda x: [f(x.to(t), n) for t in (torch.int32, torch.int64) for f in (torch.bitwise_left_shift, torch.bitwise_right_shift) for n in (3, 31)],
    "masked writes": lambda x: (x.clone().masked_fill_(x > 9, 3), x.float().index_put_((x > 9,), x.float().sum())),
    "packed digits": lambda x: torch.stack([x & 15, x >> 4], -1).flatten(-2).bfloat16() - 8,
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_others(name: str) -> None:
    check(OTHERS[name], torch.randint(0, 256, (4, 3, 33, 35), dtype=torch.uint8, device="cuda"))


def test_an_image_in_half_precision() -> None:
    """Lamina rounds only the result, eager each step: Lamina's error is at most half a unit in the last place of values below 1."""
    x = torch.randint(0, 256, (4, 3, 33, 35), dtype=torch.uint8, device="cuda")
    torch._dynamo.reset()
    run = torch.compile(
        lambda x: (x.permute(0, 2, 3, 1).half() / 255 - 0.4).contiguous(), backend="lamina", options={"cache": False}
    )
    torch.testing.assert_close(run(x).double(), x.permute(0, 2, 3, 1).double() / 255 - 0.4, rtol=0, atol=2**-12 + 1e-6)


def test_packed_digits_before_a_product() -> None:
    """If a product's kernel unpacks its weight, it is Triton's; otherwise a kernel before it does."""

    def fn(packed: Tensor, x: Tensor) -> Tensor:
        digits = torch.stack([packed & 15, packed >> 4], -1).flatten(-2)
        return x @ (digits.to(x.dtype) - 8).t()

    packed = torch.randint(0, 256, (256, 64), dtype=torch.uint8, device="cuda")
    x = torch.randn(128, 128, device="cuda", dtype=torch.bfloat16)
    torch._dynamo.reset()
    found = torch.compile(fn, backend="lamina", options={"cache": False})(packed, x)
    torch.testing.assert_close(found.double(), fn(packed, x.double()), rtol=2e-2, atol=0.5)
