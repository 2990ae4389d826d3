"""Tests GPU kernels whose rows are several axes: a row is read in whole accesses if it fits into registers."""

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import Simulated
from kernel_inputs import BF16, run, x
from torch import Tensor


def group_norm(a: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.silu(F.group_norm(a, 8, w, b))


def batch_norm(a: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.relu(F.batch_norm(a, None, None, w, b, True))


def moves_once(program: Simulated, size: int, width: int) -> None:
    """The input is read and the result written once, by accesses of `width` bytes; lanes past the row read one sector again."""
    (found,) = program.results
    read, written = found.loads[0], found.stores[3]
    assert set(read.accesses) == set(written.accesses) == {width}
    assert read.distinct_sectors == written.distinct_sectors == size // 32
    assert read.sectors <= 1.2 * size // 32 + found.ctas * found.threads // 32
    assert written.sectors <= 1.2 * size // 32


@pytest.mark.parametrize(
    ("channels", "side", "dtype", "width"),
    [(32, 32, torch.float32, 16), (32, 28, BF16, 16), (64, 14, BF16, 8), (64, 7, BF16, 16), (64, 7, torch.float32, 16)],
)
def test_group_norm(channels: int, side: int, dtype: torch.dtype, width: int) -> None:
    program = run(group_norm, x(2, channels, side, side, dtype=dtype), x(channels, dtype=dtype), x(channels, dtype=dtype))
    moves_once(program, 2 * channels * side * side * dtype.itemsize, width)


def test_group_norm_in_clusters() -> None:
    program = run(group_norm, x(4, 64, 72, 72), x(64), x(64))
    assert program.results[0].ctas == 4 * 4 * 8
    moves_once(program, 4 * 64 * 72 * 72 * 4, 16)


def test_group_norm_of_rows_that_are_walked_over() -> None:
    """Rows too long for registers are read by a loop over blocks, the last of which is partial."""
    run(group_norm, x(4, 64, 132, 132), x(64), x(64))


def test_group_norm_of_long_rows_with_channels_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel reads whole accesses, along the order of memory rather than channel by channel."""
    monkeypatch.setattr("lamina.frontend.decompositions.ops.norm.on_cpu", lambda x: False)
    monkeypatch.setattr("lamina.frontend.decompositions.ops.moments.on_cpu", lambda x: False)
    image = x(2, 64, 57, 44).contiguous(memory_format=torch.channels_last)
    program = run(lambda a, w, b: F.silu(F.group_norm(a, 1, w, b)), image, x(64), x(64))
    large = [t for found in program.results for t in found.loads if t.bytes >= image.numel() * 4]
    assert large and all(set(t.accesses) == {16} and t.bytes <= 1.2 * image.numel() * 4 for t in large)


@pytest.mark.parametrize("to", [torch.channels_last, torch.contiguous_format], ids=["channels_last", "transposed"])
@pytest.mark.parametrize(("channels", "groups"), [(32, 8), (40, 4), (60, 4)])
def test_group_norm_of_short_pieces(channels: int, groups: int, to: torch.memory_format, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of 4, 10 and 15 channels of an image with channels last: two kernels read the image by whole sectors. Lanes past its
    channels read one sector again."""
    monkeypatch.setattr("lamina.frontend.decompositions.ops.norm.on_cpu", lambda x: False)
    monkeypatch.setattr("lamina.frontend.decompositions.ops.moments.on_cpu", lambda x: False)
    image = (x(1, channels, 96, 96) * 3 + 100).contiguous(memory_format=torch.channels_last)

    def normed(a: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.silu(F.group_norm(a, groups, w, b)).contiguous(memory_format=to)

    program = run(normed, image, x(channels), x(channels))
    large = [t for found in program.results for t in found.loads if t.distinct_sectors >= image.numel() // 8]
    assert len(large) == 2 and all(t.sectors - t.touches.max() <= 1.3 * image.numel() // 8 for t in large)


def test_group_norm_of_concatenated_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a decoder's image is concatenated with the encoder's: groups do not end where an image ends."""
    monkeypatch.setattr("lamina.frontend.decompositions.ops.norm.on_cpu", lambda x: False)
    monkeypatch.setattr("lamina.frontend.decompositions.ops.moments.on_cpu", lambda x: False)
    images = [x(1, channels, 96, 96).contiguous(memory_format=torch.channels_last) for channels in (24, 16)]
    run(lambda a, b, w: F.silu(F.group_norm(torch.cat([a, b], 1), 4, w)), *images, x(40))


@pytest.mark.parametrize(("side", "dtype", "width"), [(28, torch.float32, 16), (14, BF16, 8), (7, torch.float32, 4)])
def test_batch_norm_in_training(side: int, dtype: torch.dtype, width: int) -> None:
    """A channel's pixels are as many contiguous runs as there are images."""
    program = run(batch_norm, x(8, 4, side, side, dtype=dtype), x(4, dtype=dtype), x(4, dtype=dtype))
    (found,) = program.results
    assert set(found.loads[0].accesses) == set(found.stores[3].accesses) == {width}
    assert found.loads[0].bytes <= 1.5 * 32 * side * side * dtype.itemsize + found.ctas * found.threads * width


def test_instance_norm_and_sums_over_several_axes() -> None:
    run(lambda a, w, b: F.instance_norm(a, weight=w, bias=b), x(2, 4, 12, 12), x(4), x(4))
    run(lambda a: (a.sum((0, 2)), a.amax((0, 2))), x(5, 7, 48))
    run(lambda a, w: (a * w).sum((1, 2)), x(3, 6, 10), x(6, 1))


def test_batch_norm_with_channels_last_has_many_programs() -> None:
    """Its kernels compute the mean of a sample, partial sums of both moments about it, their totals, and the result: images are
    read once for the moments."""
    images = x(16, 64, 28, 28, dtype=BF16).to(memory_format=torch.channels_last)
    found = run(batch_norm, images, x(64, dtype=BF16), x(64, dtype=BF16)).results
    assert [f.ctas for f in found] == [2, 64, 1, 784]
    assert all(set(f.loads[0].accesses) == {16} for f in found[1:])


@pytest.mark.parametrize(("side", "dtype", "width"), [(7, BF16, 16), (14, BF16, 8), (7, torch.float32, 16), (3, torch.float32, 16)])
def test_normalized_images_are_read_in_whole_accesses(side: int, dtype: torch.dtype, width: int) -> None:
    """If a row is not a whole number of accesses, all rows are one axis; an access that covers two channels or more has as many
    weights."""

    def fn(a: Tensor, m: Tensor, v: Tensor, w: Tensor) -> Tensor:
        return F.batch_norm(a, m, v, w).relu()

    (found,) = run(fn, x(16, 16, side, side, dtype=dtype), x(16), x(16).abs() + 1, x(16)).results
    assert set(found.loads[0].accesses) == set(found.stores[4].accesses) == {width}
    assert found.stores[4].sectors == 256 * side * side * dtype.itemsize // 32


@pytest.mark.parametrize(("channels", "side"), [(24, 17), (40, 9), (8, 37), (8 * 51, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_groups_that_start_amid_accesses(channels: int, side: int, dtype: torch.dtype) -> None:
    """Combines flattened columns with shifted rows."""
    (found,) = run(group_norm, x(3, channels, side, side, dtype=dtype), x(channels, dtype=dtype), x(channels, dtype=dtype)).results
    assert 16 in found.loads[0].accesses


@pytest.mark.parametrize("repeats", [8, 6])
def test_zeros_around_what_lanes_share(repeats: int) -> None:
    """All lanes of an access, or pairs of them, read one element; outside the image it is zero, not the first element in memory."""
    run(lambda a, b: F.pad(a, (0, 0, 1, 1))[:, :, None].expand(-1, -1, repeats).reshape(b.shape) + b, x(5, 16), x(7, 16 * repeats))


@pytest.mark.parametrize("dtype", [torch.float32, BF16])
@pytest.mark.parametrize(("columns", "before", "after"), [(50, 0, 3), (200, 0, 1), (64, 0, 64), (67, 2, 1), (130, 0, -4)])
def test_transposes_that_are_padded(columns: int, before: int, after: int, dtype: torch.dtype) -> None:
    """Tiles end where the padding begins."""
    y = x(2, 70, columns + before + after, dtype=dtype)
    run(lambda a, b: F.pad(a.transpose(1, 2), (before, after)) * b, x(2, columns, 70, dtype=dtype), y)
