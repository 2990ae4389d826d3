"""Compares the GPU's f64 functions with long double over the whole range, in the simulator after lamina-gpu-to-nvvm."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from test_gpu_to_nvvm import COUNT, kernel, run

SPECIAL = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -3.0,
    5e-324,
    2.0**-1022,
    1.7976931348623157e308,
    709.78,
    -745.2,
    1e22,
    1048577.0,
]
# name: bound in ulp that the docstring states, reference in long double
FUNCTIONS: dict[str, tuple[float, Callable[..., np.ndarray]]] = {
    "exp2": (1.5, np.exp2), "log2": (2.5, np.log2), "log10": (2.5, np.log10), "sinh": (4, np.sinh), "cosh": (3, np.cosh), "asinh": (4, np.arcsinh),
    "acosh": (4, np.arccosh), "atanh": (4, np.arctanh), "atan": (2.5, np.arctan), "asin": (4, np.arcsin), "acos": (4, np.arccos),
    "sin": (3, np.sin), "cos": (3, np.cos), "tan": (4, np.tan), "atan2": (3.5, np.arctan2), "powf": (1.5, np.power),
}  # fmt: skip
POWER = 0.25
"""ulp that powf loses for each unit of |y log x|: its logarithm has 55 bits. The worst of 2.4 million pairs near the ends lost 0.18."""
wide = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="long double is no wider than double")


def inputs(rng: np.random.Generator) -> np.ndarray:
    """All bit patterns, then values where functions bend, then the special ones."""
    x = rng.integers(0, 1 << 64, COUNT, dtype=np.uint64).view(np.float64)
    half = COUNT // 2
    x[half:] = rng.standard_normal(half) * rng.choice([1e-5, 0.1, 1.0, 10.0, 300.0, 1e8], half)
    x[half : half + 500] = 1 + rng.standard_normal(500) * rng.choice([1e-9, 1e-3, 0.1], 500)
    x[: len(SPECIAL)] = SPECIAL
    return x


def check(got: np.ndarray, exact: np.ndarray, bound: float, *arguments: np.ndarray, growing: float = 0.0) -> None:
    """growing  what the bound grows by for each unit of the result's logarithm, in ulp"""
    with np.errstate(all="ignore"):
        logarithm = np.abs(np.log(np.abs(exact)))
        bounds = bound + growing * np.where(np.isfinite(logarithm), logarithm, 0)
        rounded = exact.astype(np.float64)
        last = np.spacing(np.minimum(np.abs(rounded), np.finfo(np.float64).max)).astype(np.longdouble)
        error = np.abs(got.astype(np.longdouble) - exact) / last
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    error = np.where(same, 0, np.where(np.isfinite(got) & np.isfinite(rounded), error, np.inf))
    worst = int(np.argmax(error / bounds))
    assert error[worst] <= bounds[worst], ([a[worst] for a in arguments], got[worst], exact[worst], error[worst])
    zeros = (rounded == 0) & (got == 0)
    assert (np.signbit(got) == np.signbit(rounded))[zeros].all(), "sign of zero"


@wide
@pytest.mark.parametrize("name", FUNCTIONS)
def test_whole_range(name: str, rng: np.random.Generator) -> None:
    bound, reference = FUNCTIONS[name]
    count = 2 if name in ("atan2", "powf") else 1
    arrays = [inputs(rng) for _ in range(count)]
    if count > 1:
        arrays[1] = rng.permutation(arrays[1])
    source = kernel(f"%r = math.{name} {', '.join(f'%v{i}' for i in range(count))} : vector<4xf64>", "vector<4xf64>", count)
    with np.errstate(all="ignore"):
        got = run(source, *arrays)
        exact = reference(*[a.astype(np.longdouble) for a in arrays])
    check(got, exact, bound, *arrays, growing=POWER if name == "powf" else 0.0)


def test_erf(rng: np.random.Generator) -> None:
    x = inputs(rng)
    with np.errstate(all="ignore"):
        got = run(kernel("%r = math.erf %v0 : vector<4xf64>", "vector<4xf64>"), x)
    check(got, torch.erf(torch.from_numpy(x)).numpy().astype(np.longdouble), 2, x)


@wide
def test_powers_of_moderate_size(rng: np.random.Generator) -> None:
    x, y = np.abs(rng.standard_normal(COUNT)) + 0.1, rng.standard_normal(COUNT) * 4
    got = run(kernel("%r = math.powf %v0, %v1 : vector<4xf64>", "vector<4xf64>", 2), x, y)
    check(got, np.power(x.astype(np.longdouble), y.astype(np.longdouble)), 1.5, x, y)
