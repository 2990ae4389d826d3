"""Compiles random functions and compares them with float64. LAMINA_TEST_FUZZ=N compiles N functions instead of a few."""

import os

import pytest
import torch
from oracle import check
from random_functions import Program, Writer

COUNT = int(os.environ.get("LAMINA_TEST_FUZZ", "40"))


def compute(program: Program) -> None:
    """Compares with larger bounds than a single op needs: errors of a statement grow in those after it."""
    try:
        check(program.function(), *program.inputs.values(), slack=8, ulps=64, absolute=512)
    except Exception as error:
        raise AssertionError(f"{error}\n\n{program.text}") from error


@pytest.mark.parametrize("seed", range(COUNT))
def test_random_function(seed: int) -> None:
    compute(Writer(seed).program())


@pytest.mark.parametrize("seed", range(1000, 1000 + COUNT // 8))
def test_random_function_f64(seed: int) -> None:
    compute(Writer(seed, dtype=torch.float64).program())
