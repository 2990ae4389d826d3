"""Runs a kernel of the distributed GPU level in numpy, all threads in lockstep, and checks what a GPU does not say.

    result = simulate(module, "k", [x, y], grid=8, outputs=[1])
    assert result.loads[0].accesses == {16: 2048} and result.loads[0].sectors == result.loads[0].distinct_sectors

What is checked, and what the values of bf16 are, stands in `launch.simulate`. Ops that are not known raise NotImplementedError.
"""

from .batch import Fault
from .launch import Result, poison, simulate, storage
from .traffic import Traffic

__all__ = ["Fault", "Result", "Traffic", "poison", "simulate", "storage"]
