"""Tests on a GPU that one compilation of a graph that transposes serves all sizes, with eager's values and strides."""

import pytest
from sized_graphs import Sized, compilations, dynamic, sweep
from sized_transposes import TRANSPOSES

__all__ = ["compilations"]
SIZES = ((127, 1000), (3, 4097), (4097, 3), (2, 2), (64, 128), (1000, 127), (1024, 512), (255, 4097))


@pytest.mark.parametrize("graph", TRANSPOSES.values(), ids=TRANSPOSES.keys())
def test_one_compilation_serves_all_sizes(graph: Sized, compilations: list[int]) -> None:
    run = dynamic(graph.function)
    sweep(graph, run, "cuda", SIZES)
    assert len(compilations) == 1
    sweep(graph, run, "cuda", ((1, 127), (4097, 1)))  # torch captures graphs apart for sizes of 1
