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


def covering(*parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Returns a few combinations of any number of parameters that hold any two values of different parameters together.

    LAMINA_TEST_PRODUCTS=1 takes all combinations.
    """
    product = [*itertools.product(*(range(len(values)) for values in parameters))]
    chosen = product if os.environ.get("LAMINA_TEST_PRODUCTS") else []
    pairs = {case: {*itertools.combinations(enumerate(case), 2)} for case in product}
    missing = set[Any]() if chosen else set[Any]().union(*pairs.values())
    while missing:
        chosen.append(max(product, key=lambda case: len(pairs[case] & missing)))
        missing -= pairs[chosen[-1]]
    return [tuple(values[i] for values, i in zip(parameters, case, strict=True)) for case in chosen]
