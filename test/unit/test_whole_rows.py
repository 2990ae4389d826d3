"""Tests kernels for multiples of a thread's access, and for sums of few rows: in the simulator against float64."""

from collections.abc import Callable

import pytest
import torch
from sized_programs import compiled, kernels, launches
from torch import Tensor

from lamina.frontend.compiling.worker import finish

__all__ = ["kernels", "launches"]
F = torch.nn.functional
Make = Callable[[int, int], tuple[Tensor, ...]]


def halves(*shape: int) -> Tensor:
    return torch.randn(shape).bfloat16()


KERNELS: dict[str, tuple[Callable[..., Tensor], Make]] = {
    "a bias": (lambda x, b: (x + b).sigmoid() * 2, lambda m, n: (halves(m, n), halves(n))),
    "a bias for each row": (lambda x, b: (x + b[:, None]).sin(), lambda m, n: (halves(m, n), halves(m))),
    "halves of rows": (lambda x: x[:, : x.shape[1] // 2] * x[:, x.shape[1] // 2 :], lambda m, n: (halves(m, 2 * n),)),
    "rows side by side": (lambda x, y: torch.cat((x, y), 1).cos(), lambda m, n: (halves(m, n), halves(m, 16))),
    "longer rows": (lambda x: F.pad(x, (8, 16)) + 1, lambda m, n: (halves(m, n),)),
    "rows at indices": (lambda i, x: x[i] * 2, lambda m, n: (torch.arange(m) % 3, halves(5, n))),
    "every second element": (lambda x: x[:, ::2].cos(), lambda m, n: (halves(m, n),)),
    "pooled": (lambda x: F.max_pool2d(x[None], 3, 2, 1) + 1, lambda m, n: (halves(3, m, n),)),
    "turned halves": (
        lambda x, y: torch.cat((-x[:, x.shape[1] // 2 :], x[:, : x.shape[1] // 2]), 1) * y,
        lambda m, n: (halves(m, n), halves(m, n)),
    ),
    "pixels": (lambda x, b: x * b[:, None, None], lambda m, n: (halves(2, 3, m, n), halves(3))),
}


SHAPES = ((3, 40), (5, 15), (4, 31), (2, 63), (7, 14), (3, 30), (2, 62), (6, 24), (5, 130), (4, 132), (3, 129), (9, 2), (8, 64))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", KERNELS)
def test_ranges_of_rows(name: str, kernels: list[str]) -> None:
    """Short rows, pairs and whole accesses, each by the kernel for any length or another range, then by its own."""
    function, make = KERNELS[name]
    run = compiled(function)
    used: set[str] = set()
    for m, n in SHAPES:
        args = make(m, n)
        want = function(*(a.double() if a.is_floating_point() else a for a in args))
        for _ in range(2):
            assert ((run(*args) - want).abs() <= 2**-8 * want.abs() + 1e-3).all()
            finish()
        used.add(kernels[-1].removesuffix("_early"))
    assert len(used) >= {"rows side by side": 3, "pixels": 4}.get(name, 5)  # two symbols decide the length of these


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", [n for n in KERNELS if n not in ("every second element", "pooled", "turned halves")])
def test_multiples_of_an_access(name: str, kernels: list[str]) -> None:
    """Lengths that are multiples have a separate kernel, others use the one for any length. Each is computed twice, since its
    kernel may be compiled after the first call."""
    function, make = KERNELS[name]
    run = compiled(function)
    for m, n in ((5, 1000), (3, 1001), (8, 16), (130, 24), (4, 7), (2, 4097)):
        args = make(m, n)
        want = function(*(a.double() if a.is_floating_point() else a for a in args))
        for _ in range(2):
            assert ((run(*args) - want).abs() <= 2**-8 * want.abs() + 1e-3).all()
            finish()
        multiple = "_by_16" if name == "halves of rows" else "_by_8"
        assert kernels[-1].removesuffix("_early").endswith(multiple) == (n % 8 == 0)


@pytest.mark.filterwarnings("error")
def test_rows_to_add_up(kernels: list[str]) -> None:
    """With few rows, kernels give a column few threads, and there is one for all of a column."""
    run = compiled(lambda x: x.sum(0))
    cases = {(15, 2000): "_to_2048_by_4_of_16", (17, 4099): "_of_128", (130, 65): "_to_2048"}
    torch.testing.assert_close(run(x := torch.randn(600, 4100)), x.sum(0), atol=1e-4, rtol=1e-5)
    for shape, last in cases.items():
        x = torch.randn(shape)
        for _ in range(4):  # with what there is, then with the program for less to add up and its kernels
            torch.testing.assert_close(run(x).double(), x.double().sum(0), atol=1e-4, rtol=1e-5)
            finish()
        assert kernels[-1].removesuffix("_early").removeprefix("sum") == last
