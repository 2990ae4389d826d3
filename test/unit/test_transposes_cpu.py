"""Transposes on a CPU by squares: axes that squares divide, leave a part over, or are shorter than one."""

import pytest
import torch

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
