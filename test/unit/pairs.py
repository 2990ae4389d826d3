"""Combinations of parameters for tests whose full product would repeat nearly the same."""

import itertools
import os
from collections.abc import Sequence
from typing import Any


def pairwise(first: Sequence[Any], second: Sequence[Any], third: Sequence[Any]) -> list[tuple[Any, Any, Any]]:
    """Returns combinations that hold any two values of different parameters together. `third` is no longer than the others.

    LAMINA_TEST_PRODUCTS=1 takes all combinations.
    """
    if os.environ.get("LAMINA_TEST_PRODUCTS"):
        return [*itertools.product(first, second, third)]
    assert len(third) <= min(len(first), len(second))
    return [(a, b, third[(i + j) % len(third)]) for i, a in enumerate(first) for j, b in enumerate(second)]
