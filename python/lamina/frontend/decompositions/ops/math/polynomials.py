"""Evaluates polynomials on tensors."""

from collections.abc import Sequence

from torch import Tensor


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Returns the value of a polynomial, by Horner's rule. coefficients: that of the highest power first."""
    out = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        out = out * x + c
    return out
