"""Runs every case through every entry point, with or without gradients, in every layout, and compares all that a caller sees with
eager.

Each case goes through some entry_points with gradients and through the others without; LAMINA_TEST_PRODUCTS=1 takes both. Each test takes
contiguous arguments and one other layout, drawn from its seed; LAMINA_TEST_LAYOUTS=6 takes all of them.
"""

import os

import pytest
from cases import CASES
from entry_points import ENTRY_POINTS, holds
from pairs import pairwise

LAYOUTS = int(os.environ.get("LAMINA_TEST_LAYOUTS", "2"))


def name(value: str | bool) -> str:
    return value if isinstance(value, str) else "gradients" if value else "no_grad"


@pytest.mark.parametrize(("case", "entry_point", "gradients"), pairwise([*CASES], [*ENTRY_POINTS], [False, True]), ids=name)
def test_case(case: str, entry_point: str, gradients: bool, seed: int) -> None:
    holds(CASES[case](), ENTRY_POINTS[entry_point], gradients=gradients, seed=seed, layouts=LAYOUTS)
