"""Roofline of GEMM prologues: the cost of computing an operand inside the GEMM kernel, on its tiles, or in a kernel before it."""

from dataclasses import dataclass

from lamina.core.gpu import Gpu

THROUGH_REGISTERS = 0.7  # of a schedule's share of the peak, where its operands are computed: a guess
_PASS = 3e-6  # seconds of a pointwise kernel, whatever its size
_ORDINARY = 0.4  # of the peak in f32: hardly anything is a fused multiply-add


@dataclass(frozen=True)
class PrologueWork:
    """The prologue of a GEMM: pointwise groups that compute its operands.

    left, right  operations for all elements of the left operand, and of the right ones
    reads        bytes that the prologue reads
    stored       bytes of the operands, which separate kernels would write
    kernels      number of these kernels
    """

    left: int
    right: int
    reads: int
    stored: int
    kernels: int = 1

    def before_seconds(self, gpu: Gpu) -> float:
        """Estimates the time of separate kernels before the product."""
        return self.kernels * _PASS + (self.reads + self.stored) / gpu.bandwidth

    def inside_seconds(self, down: int, across: int, gpu: Gpu) -> float:
        """Estimates the time inside the GEMM kernel. The result has `down` rows and `across` columns of tiles; each computes its
        rows of the left operand and its columns of the right ones."""
        return (self.left * across + self.right * down) / (gpu.peak("f32") * _ORDINARY)
