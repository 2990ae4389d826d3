"""Tests concatenations of parts of few elements: blocks across rows, which compute one part at a time, against float64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

Make = Callable[[int], tuple[Tensor, ...]]


def one(n: int) -> tuple[Tensor, ...]:
    return (torch.randn(n, 3),)


FUNCTIONS: dict[str, tuple[Callable[..., Tensor], Make]] = {
    "stacked": (lambda x: torch.stack([(x - k).sin() for k in range(5)], -1), one),
    "many": (lambda x: torch.stack([(x - k).tanh() for k in range(19)], -1), one),
    "used afterwards": (lambda x: (torch.stack([(x * k).cos() for k in range(7)], -1) * 2).relu() + x[..., None], one),
    "parts of three": (lambda x: torch.cat([x, x.sin(), x.cos(), (2 * x).sin(), (2 * x).cos()], -1), one),
    "parts of parts": (lambda x: torch.cat((torch.stack((x.exp(), x.sin()), -1).flatten(1), x.tanh(), x), -1).abs(), one),
    "padded": (lambda x: torch.nn.functional.pad((x.exp() + x.sin()).cos(), (2, 1)), one),
    "rows at indices": (
        lambda x, i: torch.stack((x[i].exp(), x[i].sin() * 3, x[i - 1].cos()), -1),
        lambda n: (torch.randn(n, 3), torch.arange(2 * n) % n),
    ),
    "halves": (lambda x: torch.stack((x.exp(), x.sin(), x.cos()), -1), lambda n: (torch.randn(n).bfloat16(),)),
    "turned": (lambda x: torch.stack((x.exp(), x.sin(), x.cos()), -1), lambda n: (torch.randn(5, n).T,)),
    "quaternions": (
        lambda x, y: torch.stack((x[:, 0] * y[:, 0] - x[:, 1] * y[:, 1], x[:, 2] / (y[:, 3] ** 2 + 1), x[:, 3].sigmoid()), -1),
        lambda n: (torch.randn(n, 4), torch.randn(n, 4)),
    ),
}
ROWS = (64, 33, 1, 700, 16384)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_parts(name: str, dynamic: bool) -> None:
    """Whole blocks of rows and parts of blocks, in one program and in several."""
    function, make = FUNCTIONS[name]
    torch._dynamo.reset()
    run = torch.compile(function, backend="lamina", dynamic=dynamic)
    for n in ROWS[:4] if name in ("many", "parts of parts") else ROWS:
        args = make(n)
        want = function(*(a.double() if a.is_floating_point() else a for a in args))
        got = run(*args)
        unit = 2**-8 if got.dtype == torch.bfloat16 else 2**-18
        torch.testing.assert_close(got.double(), want, rtol=unit, atol=unit)


def test_index_out_of_range() -> None:
    """An index is checked where a part reads at it."""
    run = torch.compile(lambda x, i: torch.stack((x[i].exp(), x.sin(), x.cos().exp()), -1), backend="lamina")
    x = torch.randn(40)
    run(x, torch.arange(40))
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        run(x, torch.arange(40) + 1)
