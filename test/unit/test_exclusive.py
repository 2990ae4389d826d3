"""Tests process-wide settings during a compilation."""

import gc

import pytest

from lamina.frontend.capture.exclusive import COMPILING


@pytest.mark.parametrize("collects", [True, False])
def test_reference_cycles_are_looked_for_again_once_the_outermost_compilation_ends(collects: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        with pytest.raises(ValueError, match="inside"), COMPILING:
            with COMPILING:
                assert not gc.isenabled()
            assert not gc.isenabled()
            raise ValueError("inside")
        assert gc.isenabled() is collects
    finally:
        (gc.enable if before else gc.disable)()
