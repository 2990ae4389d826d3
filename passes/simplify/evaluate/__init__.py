"""A numpy interpreter of linalg, tensor, arith and math ops, for constant folding."""

from .arrays import NotEvaluable, array_of, attribute_of, bits_equal
from .generics import evaluate_splat
from .tensors import evaluate_op

__all__ = ["NotEvaluable", "array_of", "attribute_of", "bits_equal", "evaluate_op", "evaluate_splat"]
