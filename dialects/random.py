"""The `random` dialect: random numbers as a function of seed and position, in bodies of linalg ops and in tile programs."""

from typing import Any

from torch_mlir.dialects import ext


class Random(ext.Dialect, name="random"):
    """The dialect; its one op works on scalars and, elementwise, on vectors."""


class Bits(Random.Operation, name="bits", traits=[ext.Pure]):
    """Returns 32 random bits for element `index` of the sequence of `seed` (i64): word index % 4 of Philox4x32 with the counter
    index // 4 and the key `seed` (passes/lower/philox.py). The result does not depend on the machine or on the schedule.

        %r = "random.bits"(%seed, %i) : (i64, index) -> i32
    """

    out: ext.Result[Any]
    seed: ext.Operand[Any]
    index: ext.Operand[Any]
