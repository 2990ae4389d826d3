"""The registry of vendors' routines that compete with Lamina's kernels."""

from .convolution_relu import ConvolutionRelu
from .routine import Routine

ROUTINES: tuple[Routine, ...] = (ConvolutionRelu(),)
"""All of them, in the order in which tuning measures them, after Lamina's kernels. Calls that none takes stay those of the library
that the model names."""
