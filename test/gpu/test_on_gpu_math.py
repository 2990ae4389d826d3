"""The bounds that the GPU's formulas state hold on hardware: all bit patterns at random, and values where functions bend."""

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
