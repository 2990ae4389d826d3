"""Tests transposes on a CPU by square tiles: axes that are multiples of a tile, that leave a remainder, and that are shorter than
a tile."""

import pytest
import torch
import torch.nn.functional as F

import lamina


@pytest.mark.parametrize("columns", [8, 9, 16, 24, 32, 40, 49, 64, 80, 100, 128, 130])
@pytest.mark.parametrize("rows", [8, 20, 64, 150])
def test_transpose(rows: int, columns: int) -> None:
    x = torch.randn(3, rows, columns)
    found = lamina.compile(lambda x: x.transpose(1, 2) * 2 + 1, (x,), options={"cache": False})(x)
    torch.testing.assert_close(found, x.transpose(1, 2) * 2 + 1)


def test_large() -> None:
    x, y = torch.randn(1100, 1030), torch.randn(1030, 1100)
    found = lamina.compile(lambda x, y: (x.t() + y).relu(), (x, y), options={"cache": False})(x, y)
    torch.testing.assert_close(found, (x.t() + y).relu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("columns", "before", "after"), [(50, 0, 3), (67, 2, 1), (33, 0, 1), (200, 5, 0), (9, 0, 100), (64, -4, 2), (1300, 1, 1)]
)
def test_padded(columns: int, before: int, after: int, dtype: torch.dtype) -> None:
    """Tiles cover the interior of a padded or sliced image, single elements its edges."""
    x = torch.randn(2, columns, 70).to(dtype)
    y = torch.randn(2, 70, columns + before + after).to(dtype)

    def padded(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return F.pad(x.transpose(1, 2), (before, after)) * y

    found = lamina.compile(padded, (x, y), options={"cache": False})(x, y)
    assert torch.equal(found, padded(x, y))
