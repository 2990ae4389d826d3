"""Checks the error bounds of the GPU's formulas on hardware, for random bit patterns and for values near the ends of intervals."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import lamina

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))  # the tables of the tests without a GPU
from test_gpu_math import BOUNDS
from test_math import FUNCTIONS, inputs, ulp_error

CASES: dict[str, tuple[float, Callable[..., torch.Tensor]]] = {
    **{name: (BOUNDS[name], reference) for name, reference in FUNCTIONS.items()},
    "tan": (5.5, torch.tan), "divf": (2, torch.div), "sqrt": (1, torch.sqrt),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_bound(name: str, rng: np.random.Generator) -> None:
    bound, function = CASES[name]
    arrays = inputs("powf" if name == "divf" else name, rng)
    tensors = [torch.from_numpy(a).cuda() for a in arrays]
    got = lamina.compile(function, tuple(tensors))(*tensors).cpu().numpy()
    exact = function(*[torch.from_numpy(a).double() for a in arrays]).numpy()
    error = ulp_error(got, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= bound, ([a[worst] for a in arrays], got[worst], exact[worst], error[worst])


@pytest.mark.parametrize("rows", [3, 700])
@pytest.mark.parametrize("columns", [33, 1000, 9001])
def test_places_of_extremes(rows: int, columns: int) -> None:
    """An element equals its row's maximum although it is computed twice, in another loop or kernel."""

    def place(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = a * b / (a * a + b * b + 1)
        return x.argmax(-1), *(x.sqrt().nan_to_num(2.0) - a * b).min(-1)

    a, b = (torch.randn(shape, device="cuda") for shape in ((rows, columns), (columns,)))
    exact = place_of(a.double(), b.double())
    first, least, second = lamina.compile(place, (a, b))(a, b)
    assert (exact[0].gather(-1, first[:, None])[:, 0] - exact[0].amax(-1)).abs().max() < 1e-6
    assert (exact[1].gather(-1, second[:, None])[:, 0] - exact[1].amin(-1)).abs().max() < 1e-5
    torch.testing.assert_close(least.double(), exact[1].amin(-1), rtol=1e-5, atol=1e-5)


def place_of(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns what test_places_of_extremes looks for the extremes of."""
    x = a * b / (a * a + b * b + 1)
    return x, x.sqrt().nan_to_num(2.0) - a * b
