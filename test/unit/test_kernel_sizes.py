"""Tests tools/sizes.py kernels: the sizes it draws, and how it counts the time of kernels."""

import random

import pytest

from lamina.tools.benchmarks.symbolic_sizes.kernel_sizes import busy, draw_sizes
from lamina.tools.benchmarks.symbolic_sizes.known_features import KNOWN_FEATURES


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [
        ([], 0),
        ([(1, 3)], 2),
        ([(1, 3), (4, 6)], 4),
        ([(1, 3), (2, 6)], 5),
        ([(1, 9), (2, 3), (4, 10)], 9),
        ([(1, 3), (1, 3), (3, 4)], 3),
    ],
)
def test_time_in_which_kernels_run_together_counts_once(spans: list[tuple[float, float]], seconds: float) -> None:
    assert busy(spans) == seconds


def test_sizes_fit_the_device() -> None:
    sizes = list(draw_sizes(random.Random(1), 50, 1 << 20))
    assert all(rows >= 2 and columns >= 8 and rows * columns <= 1.1 * 2**20 for rows, columns in sizes)
    assert all(columns % 8 == 0 for _, columns in sizes[::2])


@pytest.mark.parametrize("name", KNOWN_FEATURES)
def test_features_are_known(name: str) -> None:
    """Dimensions that are said to be known are as long at every size, and others are not."""
    of = KNOWN_FEATURES[name]
    few, many = of.arguments(3, 9), of.arguments(50, 30)
    for x, y, known in zip(few, many, of.known, strict=True):
        assert all((x.shape[d] == y.shape[d]) == (d in known) for d in range(x.dim()))
    of.function(*few)
