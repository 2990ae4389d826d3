"""A numpy interpreter of linalg, tensor, arith and math ops: for constant folding, and as the tests' reference."""

from .arrays import array_of, attribute_of, bits_equal, dtype_of, scalar_attribute
from .generics import evaluate_splat
from .tensors import evaluate, evaluate_op
from .undefined import NotEvaluable

__all__ = [
    "NotEvaluable", "array_of", "attribute_of", "bits_equal", "dtype_of", "evaluate", "evaluate_op", "evaluate_splat",
    "scalar_attribute",
]  # fmt: skip
