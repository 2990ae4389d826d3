"""Tests GPU kernels over rows that are not a whole number of accesses: whole accesses inside, single elements at the rows' ends."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from kernel_inputs import BF16, labels, run, x
from torch import Tensor


@pytest.mark.parametrize("dtype", [torch.float32, BF16, torch.float64])
@pytest.mark.parametrize(
    ("rows", "width"), [(52, 257), (8, 1001), (16, 4097), (33, 25001)], ids=["short", "ends past memory", "one CTA", "a cluster"]
)
def test_softmax(rows: int, width: int, dtype: torch.dtype) -> None:
    (found,) = run(lambda a: torch.softmax(a, -1), x(rows, width, dtype=dtype)).results
    widest = 16 if dtype != torch.float64 else 8
    edges = 2 * 16 // dtype.itemsize * rows
    for traffic, at_ends in ((found.loads[0], 16 // dtype.itemsize), (found.stores[1], edges)):
        single = sum(n for bytes_, n in traffic.accesses.items() if bytes_ != widest)
        assert single <= at_ends
        assert traffic.sectors <= 1.5 * rows * width * dtype.itemsize // 32 + 64


CASES: dict[str, Callable[[Tensor], Tensor | tuple[Tensor, ...]]] = {
    "sums": lambda a: (a.sum(-1), a.amax(-1)),
    "argmax": lambda a: a.argmax(-1),
    "log-softmax": lambda a: torch.log_softmax(a * 2, -1),
    "rows that end before their memory does": lambda a: torch.softmax(a[:, :400], -1).sum(-1),
    "rows of a slice": lambda a: torch.softmax(a[1:], -1),
    "normalized": lambda a: F.layer_norm(a, a.shape[-1:]),
    "truth values": lambda a: (a > 0) & (a.sum(-1, keepdim=True) > 0),
    "padded": lambda a: F.pad(a, (3, 0)).softmax(-1),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_values(name: str, dtype: torch.dtype) -> None:
    run(CASES[name], x(9, 1003, dtype=dtype))


def test_long_rows_are_walked_over() -> None:
    """Loops over whole blocks leave a remainder that may exceed one block; the largest types have two accesses per block."""
    run(lambda a: (a.sum(-1), a.amax(-1)), x(36, 8 * 1024 + 1023, dtype=BF16))
    run(lambda a, t: F.cross_entropy(a, t), x(520, 3001, dtype=BF16), labels(520, 3001))
    run(lambda a, w, b: F.layer_norm(a, (1003,), w, b), x(9, 1003, dtype=BF16), x(1003, dtype=BF16), x(1003, dtype=BF16))
    run(lambda a, b: torch.softmax(a + b, -1), x(9, 2049, dtype=torch.float16), x(9, 2049))


@pytest.mark.parametrize("width", [257, 2049], ids=["ends cut", "only the start cut"])
def test_wider_types_start_at_other_places(width: int) -> None:
    """Halves are read 8 at a time and floats 4 at a time, so their rows may start at different offsets in an access: the block
    starts at the lower one."""
    run(lambda a, b: torch.softmax(b + a, -1).to(BF16), x(6, 4, width, dtype=BF16), x(4, width))


def test_what_all_rows_share_starts_with_no_access() -> None:
    run(lambda a, b: torch.where(a, b, -b).sum(-1), x(6, 260) > 0, x(260))
