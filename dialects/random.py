"""The `random` dialect: random numbers as a function of a seed and a position, in bodies of linalg ops and in block programs."""

from typing import Any

from torch_mlir.dialects import ext


class Random(ext.Dialect, name="random"):
    """One op, on scalars and, elementwise, on vectors."""


class Bits(Random.Operation, name="bits", traits=[ext.Pure]):
    """32 random bits for element `index` of the sequence that `seed` (i64) names: word index % 4 of what Philox4x32 makes of the
    counter index // 4 and the key `seed` (passes/lower/philox.py). The same on every machine, whatever computes which element.

        %r = "random.bits"(%seed, %i) : (i64, index) -> i32
    """

    out: ext.Result[Any]
    seed: ext.Operand[Any]
    index: ext.Operand[Any]
