"""Every case through every front door, with and without gradients, in every layout: all that a caller sees is as in eager.

Each test takes contiguous arguments and one other layout, drawn from its seed; LAMINA_TEST_LAYOUTS=6 takes all of them.
"""

import os

import pytest
from cases import CASES
from doors import DOORS, holds

LAYOUTS = int(os.environ.get("LAMINA_TEST_LAYOUTS", "2"))


@pytest.mark.parametrize("gradients", [False, True], ids=["no_grad", "gradients"])
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", CASES)
def test_case(case: str, door: str, gradients: bool, seed: int) -> None:
    holds(CASES[case](), DOORS[door], gradients=gradients, seed=seed, layouts=LAYOUTS)
