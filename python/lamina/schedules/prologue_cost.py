"""What computing a factor of a product costs in its kernel, on the blocks that it loads, and in a kernel before it: a roofline."""

from dataclasses import dataclass

from lamina.core.gpu import Gpu

THROUGH_REGISTERS = 0.7  # of a schedule's share of the peak, where its factors are computed: a guess
_PASS = 3e-6  # of a pointwise kernel, whatever its size
_ORDINARY = 0.4  # of the peak in f32: hardly anything is a fused multiply-add


@dataclass(frozen=True)
class Fed:
    """What computes factors.

    left, right  operations for all elements of the left factor, and for all of the right ones
    reads        bytes that they are computed from
    stored       bytes of the factors, which a kernel before the product writes for it
    kernels      so many of these
    """

    left: int
    right: int
    reads: int
    stored: int
    kernels: int = 1

    def before_seconds(self, gpu: Gpu) -> float:
        """By kernels before the product."""
        return self.kernels * _PASS + (self.reads + self.stored) / gpu.bandwidth

    def inside_seconds(self, down: int, across: int, gpu: Gpu) -> float:
        """In the product's kernel, whose result has so many blocks from top to bottom, and from left to right: each computes its
        rows of the one factor and its columns of the other."""
        return (self.left * across + self.right * down) / (gpu.peak("f32") * _ORDINARY)
