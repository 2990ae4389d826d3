"""Tests that calls below a frame that makes room map no memory, however deep they are."""

import resource
from concurrent.futures import ThreadPoolExecutor

import pytest

from lamina.frontend.capture.frames import in_one_chunk


def faults(depth: int) -> int:
    """Returns how many pages a loop of calls that deep touched anew."""
    if depth:
        return faults(depth - 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        called()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def called() -> tuple[int, ...]:
    one, two, three, four, five, six, seven, eight = range(8)
    return one, two, three, four, five, six, seven, eight


def test_a_loop_of_calls_maps_nothing() -> None:
    with ThreadPoolExecutor(1) as pool:  # pytest calls tests from a frame that makes room
        assert max(pool.map(faults, range(400))) >= 50
        assert sum(pool.map(in_one_chunk(faults), range(400))) < 50


def test_it_is_the_function_that_is_called() -> None:
    @in_one_chunk
    def quotient(a: int, *, by: int) -> int:
        """Divides."""
        return a // by

    assert quotient(7, by=2) == 3 and quotient.__name__ == "quotient" and quotient.__doc__ == "Divides."
    with pytest.raises(ZeroDivisionError):
        quotient(1, by=0)
