"""Tests GPU kernels from PyTorch down to the code of one thread, in the simulator: accurate against float64, within their memory,
without races, and with the expected accesses."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from kernel_inputs import BF16, labels, run, x
from torch import Tensor

from lamina.passes.lower.simt.collective import exchange
from lamina.schedules import nvvm

CASES: dict[str, tuple[Callable[..., Any], list[Tensor]]] = {
    "odd sizes": (lambda a: (a + 1).relu(), [x(100, 37)]),
    "0-d": (lambda a: a * 2 + 1, [x()]),
    "strided": (lambda a: a[:, ::2] + 1, [x(33, 130)]),
    "offset": (lambda a: a[1:, 1:] * 2, [x(9, 33)]),
    "expanded": (lambda a, b: a * b, [x(33, 1).expand(33, 65), x(65)]),
    "integers": (lambda a, b: (a * 3 + b).clamp(-5, 50), [labels(1000, 99), labels(1000, 9)]),
    "bool": (lambda a, b: (torch.where(a > 0, a, b), a > b), [x(33, 128), x(33, 128)]),
    "half and float": (lambda a, b: a + b, [x(9, 1000, dtype=torch.float16), x(1000)]),
    "short rows": (lambda a: torch.softmax(a, -1), [x(1000, 7)]),
    "odd rows": (lambda a: torch.softmax(a, -1), [x(50, 1001)]),
    "doubles": (lambda a: torch.softmax(a, -1), [x(16, 500, dtype=torch.float64)]),
    "reversed rows, padded": (lambda a, b: F.pad((a * 2 + b).flip(0), (0, 0, 2, 2)), [x(8, 16), x(16)]),
    "short rows in two orders": (lambda a: (a.transpose(0, 1) + 1, a + 1), [x(100, 4, 3)]),
    "sums and images": (lambda a: ((a + 1).contiguous(memory_format=torch.channels_last), a.sum((0, 2, 3))), [x(3, 12, 5, 5)]),
    "argmax": (lambda a: a.argmax(-1), [x(33, 129)]),
    "var": (lambda a: (a.var(-1), a.mean(-1)), [x(65, 300)]),
    "any": (lambda a: ((a > 3).any(-1), (a > -9).all(-1)), [x(33, 1025)]),
    "column sums": (lambda a: a.sum(0), [x(300, 1000)]),
    "means of images, channels last": (
        lambda a: (a * 2).mean((2, 3)), [x(64, 72, 14, 17, dtype=BF16).contiguous(memory_format=torch.channels_last)]
    ),
    "column max and sum": (lambda a: (a.amax(0), a.sum(0)), [x(65, 33)]),
    "sums of padded columns": (lambda a: F.pad(a, (0, 0, 29, 71)).exp().sum(0), [x(517, 64, dtype=BF16)]),
    "sums of exponentials of columns": (lambda a, b: (a.float() - b).exp().sum((0, 1)), [x(9, 131, 40, dtype=BF16), x(40)]),
    "normalized columns": (lambda a: a / a.abs().sum(0), [x(65, 64)]),
    "full sum in two kernels": (lambda a, b: ((a - b) ** 2).mean(), [x(512, 1024), x(512, 1024)]),
    "transposed": (lambda a, b: (a.T + b).relu(), [x(130, 77), x(77, 130)]),
    "an image of bytes": (lambda a, b: (a.float() / 255 - 0.4) * b, [labels(1998, 256).byte().view(2, 3, 9, 37), x(3, 1, 1)]),
    "bytes": (lambda a: ((a - 7).amax(-1), (a >> 4) * 3, (a.float() * 2 - 9).to(torch.uint8), a > 200), [labels(3300, 256).byte().view(33, 100)]),
    "shifts": (lambda a, b: (a << b, a >> b, a >> 3), [labels(999, 1000) - 500, labels(999, 90) - 10]),
    "transposed bytes": (lambda a, b: a.T & b, [x(128, 64) > 0, x(64, 128) > 0]),
    "embedding": (lambda i, w: F.embedding(i, w), [labels(32, 100), x(100, 768)]),
    "cross entropy": (lambda a, t: F.cross_entropy(a, t), [x(64, 1000), labels(64, 1000)]),
    "cumsum": (lambda a: a.abs().cumsum(-1), [x(33, 33)]),
    "concatenation": (lambda a, b: torch.cat([a, b], -1) * 2, [x(33, 128), x(33, 64)]),
    "concatenation after a column": (lambda a, b: torch.cat([a, b.cumsum(1)], 1), [x(3, 1), x(3, 1500)]),
    "padding of long rows": (lambda a: F.pad(a, (3, 2)), [x(3, 1500)]),
    "padding": (lambda a: F.pad(a, (1, 2)), [x(33, 128)]),
    "rows of three": (lambda a: a.contiguous(memory_format=torch.channels_last), [x(2, 3, 33, 64, dtype=BF16)]),
    "rows of seven": (lambda a, b, c: (a * b[:, None]).relu() + c, [x(999, 7), x(999), x(7)]),
    "rows of nine accesses": (lambda a, b, c: (a * b).relu() + c, [x(333, 72, dtype=BF16), x(72, dtype=BF16), x(333, 1)]),
    "rows of 25 accesses": (lambda a, b: (a * b).relu(), [x(33, 200, dtype=BF16), x(200)]),
    "rows of one": (lambda a, b: a + b, [x(33, 1), x(33, 1)]),
    "pooled in another order": (
        lambda a: F.avg_pool2d(a, 2).contiguous(), [x(2, 68, 16, 130).contiguous(memory_format=torch.channels_last)]
    ),
    "pooled in another order, half": (
        lambda a: F.max_pool2d(a, 3, 1).contiguous(), [x(2, 64, 9, 67, dtype=BF16).contiguous(memory_format=torch.channels_last)]
    ),
    "max pooling": (lambda a: F.max_pool2d(a, 3, 2, 1), [x(2, 4, 16, 16)]),
    "group norm": (lambda a, w, b: F.group_norm(a, 8, w, b), [x(2, 32, 8, 8), x(32), x(32)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    fn, inputs = CASES[name]
    run(fn, *inputs)


@pytest.mark.parametrize(
    ("rows", "width", "dtype"), [(64, 4096, torch.float32), (64, 4096, BF16), (8, 768, BF16), (33, 32768, BF16)]
)
def test_softmax_reads_its_row_once(rows: int, width: int, dtype: torch.dtype) -> None:
    """Accesses have 16 bytes, every sector is read once, and rows stay in the registers of a CTA or of a cluster."""
    (found,) = run(lambda a: torch.softmax(a, -1), x(rows, width, dtype=dtype)).results
    read, written = found.loads[0], found.stores[1]
    assert set(read.accesses) == set(written.accesses) == {16}
    assert read.distinct_sectors == written.sectors == rows * width * dtype.itemsize // 32
    assert read.sectors <= read.distinct_sectors + found.ctas * found.threads // 32  # lanes past the row read one sector again


def test_layer_norm_of_a_sum_is_one_kernel() -> None:
    def fn(a: Tensor, b: Tensor, w: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        return a + b, F.layer_norm(a + b, (1024,), w, c)

    (found,) = run(fn, x(64, 1024, dtype=BF16), x(64, 1024, dtype=BF16), x(1024, dtype=BF16), x(1024, dtype=BF16)).results
    assert all(set(t.accesses) == {16} for t in (*found.loads[:4], *found.stores[4:]))
    assert all(t.sectors == 64 * 1024 * 2 // 32 for t in (*found.loads[:2], *found.stores[4:]))


def test_guards_leave_accesses_whole() -> None:
    def rotary(a: Tensor, c: Tensor, s: Tensor) -> Tensor:
        return a * c + torch.cat([-a[..., 64:], a[..., :64]], -1) * s

    (found,) = run(rotary, x(2, 4, 16, 128, dtype=BF16), x(16, 128, dtype=BF16), x(16, 128, dtype=BF16)).results
    assert all(set(t.accesses) == {16} for t in (*found.loads[:3], found.stores[3]))


def test_short_rows_are_walked_together() -> None:
    """An image's three channels become the last dimension: no thread is idle, and adjacent threads write adjacent elements."""
    image = x(1, 3, 64, 64, dtype=BF16)
    (found,) = run(lambda a: (a + 1).contiguous(memory_format=torch.channels_last), image).results
    assert set(found.stores[1].accesses) == {4} and found.stores[1].sectors == found.stores[1].distinct_sectors
    (found,) = run(lambda a, b: a * b[:, None], x(512, 7), x(512)).results
    assert set(found.loads[0].accesses) == set(found.stores[2].accesses) == {16}


def test_pooling_after_a_norm_is_one_kernel() -> None:
    """As at the start of a ResNet: the kernel computes the norm again for each element of a window, 16 bytes of channels at a
    time, and reads its factors once."""
    image = x(1, 64, 18, 18, dtype=BF16).to(memory_format=torch.channels_last)
    factors = [x(64, dtype=BF16), x(64, dtype=BF16).abs() + 0.5, x(64, dtype=BF16), x(64, dtype=BF16)]
    (found,) = run(lambda a, *f: F.max_pool2d(F.batch_norm(a, *f).relu(), 3, 2, 1), image, *factors).results
    assert all(set(t.accesses) == {16} for t in (*found.loads[:5], found.stores[5]))
    assert all(sum(t.accesses.values()) < 2 * sum(found.stores[5].accesses.values()) for t in found.loads[1:5])


def test_a_stored_norm_keeps_the_channels_last() -> None:
    """Each window of the pooling has 9 elements, so the activation is stored rather than computed again for each."""
    image = x(1, 64, 18, 18, dtype=BF16).to(memory_format=torch.channels_last)
    for found in run(lambda a: F.max_pool2d(F.gelu(a), 3, 1, 1), image).results:
        assert all(set(t.accesses) == {16} for t in (found.loads[0], found.stores[1]))


@pytest.mark.parametrize("dtype", [torch.float32, BF16, torch.float64])
@pytest.mark.parametrize(
    "sizes",
    [(2, 8, 32, 32), (1, 8, 31, 19), (3, 20, 9, 67), (1, 12, 1, 520), (32, 16, 3, 3), (3, 9, 1, 8), (2, 64, 2, 4), (1, 8, 8, 1)],
)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("ctas", [0, 2])
def test_tiles_of_few_channels_are_longer(
    dtype: torch.dtype, sizes: tuple[int, ...], last: bool, ctas: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvvm, "TILE_CTAS", ctas)  # 0: as of a larger image
    orders = (torch.contiguous_format, torch.channels_last)
    given = x(*sizes, dtype=dtype).contiguous(memory_format=orders[last])
    run(lambda a: (a * 2).contiguous(memory_format=orders[not last]), given)


def test_a_transposed_read_is_coalesced() -> None:
    (found,) = run(lambda a, b: a.T + b, x(128, 64), x(64, 128)).results
    assert all(set(t.accesses) == {16} and t.sectors == 128 * 64 * 4 // 32 for t in (*found.loads[:2], found.stores[2]))


@pytest.mark.parametrize(
    "fn",
    [lambda a: a.flip(-1), lambda a: torch.roll(a, 3, -1) * 2, lambda a: F.avg_pool2d(a.view(1, 16, 64, 64), 2)],
    ids=["backwards", "guards that cut accesses", "in steps"],
)
def test_single_elements_are_neighbors_of_neighboring_threads(fn: Callable[[Tensor], Tensor]) -> None:
    (found,) = run(fn, x(64, 1024)).results
    assert found.loads[0].sectors <= 2.3 * 64 * 1024 * 4 // 32


def test_mixed_types_leave_no_gaps_between_threads() -> None:
    """The largest type has accesses of 16 bytes, the smaller ones narrower accesses."""
    (found,) = run(lambda a, b, m: torch.where(m, a + b, 0), x(64, 1024), x(64, 1024, dtype=BF16), x(64, 1024) > 0).results
    assert [set(t.accesses) for t in (*found.loads[:3], found.stores[3])] == [{16}, {8}, {4}, {16}]
    assert all(t.sectors == t.distinct_sectors for t in (*found.loads[:3], found.stores[3]))


@pytest.mark.parametrize("room", [0, 2048, 9000])
def test_many_sums_of_columns_share_memory(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Teams exchange the blocks of all sums where they have exchanged those of the first of a type, in rounds where these are
    smaller, without races."""
    monkeypatch.setattr(exchange, "FOR_TEAMS", room)

    def sums(a: Tensor) -> tuple[Tensor, ...]:
        floats = (*((a * i).sum(0) for i in range(1, 6)), *((a + i).amax(0) for i in range(5)))
        return *floats, (a > 0).sum(0), a.double().sum(0), (a > 1).any(0), a.int().amax(0)

    run(sums, x(600, 130))
