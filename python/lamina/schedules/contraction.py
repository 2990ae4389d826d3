"""Schedules of GEMM kernels, which are compiled by Triton: tile sizes, warps, pipeline depth. product_cost has their cost model."""

from dataclasses import dataclass, replace
from typing import ClassVar

from lamina.core.errors import CompileError

from .text import KernelSchedule, flag, one_of, positive, power_of_two

LEAST = 16  # side of the smallest block that tensor cores multiply
GROUP = 4  # warps of a warp group, which issue wgmma together on Hopper, 16 rows each


@dataclass(frozen=True)
class GemmConfig(KernelSchedule):
    """The schedule of a GEMM kernel: how an iteration space (m, n, k) becomes a block program.

    m, n, k      tile of the output, and the step along the inner dimension, in elements; powers of two from 16
    warps        warps of one CTA
    stages       blocks of the operands in flight: the depth of the software pipeline
    group        rows of tiles whose columns are walked together, so that operands are reused in L2
    resident     CTAs per SM of a persistent kernel, which walk over all tiles; 0: a CTA for every tile
    split        parts of a tile, side by side, in which the epilogue is computed: it holds fewer registers at a time
    descriptors  1: operands are loaded by TMA descriptors where the chip and their layout allow it; 0: by pointers. Making
                 descriptors costs a kernel about a microsecond
    joint        1: two products that share their left operand are one dot where the right ones come by descriptors
    parts        split-K: parts of the inner dimension, each summed by a CTA of its own; another kernel adds them
    fast         1: sums of 8-bit operands keep the precision of the tensor cores' accumulators, where the call allows it;
                 0: the sum of each step along the inner dimension is added in f32
    ping_pong    1: a CTA has two groups of `warps` warps and a warp that loads; one group multiplies while the other runs the
                 epilogue of its own tile (Hopper only); 0: all warps do both
    """

    kind: ClassVar[str] = "triton"
    m: int = power_of_two(128, LEAST)
    n: int = power_of_two(128, LEAST)
    k: int = power_of_two(64, LEAST)
    warps: int = power_of_two(4)
    stages: int = positive(3)
    group: int = positive(8)
    resident: int = 0
    split: int = one_of(1, 1, 2, 4)
    descriptors: int = flag(1)
    joint: int = flag(0)
    parts: int = positive(1)
    fast: int = flag(0)
    ping_pong: int = flag(0)

    @property
    def threads(self) -> int:
        """Threads of a CTA. With ping-pong, the warp that loads has a warp group of its own."""
        return 32 * self.warps * (3 if self.ping_pong else 1)

    @property
    def plain(self) -> "GemmConfig":
        """The schedule with the same tiles but without ping-pong."""
        return replace(self, ping_pong=0, stages=min(self.stages, 3)) if self.ping_pong else self

    def check(self) -> None:
        """Raises CompileError for shapes that tensor cores or Triton cannot work on."""
        super().check()
        if self.ping_pong and (self.warps != GROUP or self.m % (16 * GROUP) or self.stages == 1 or not self.descriptors):
            asks = f"warps={self.warps} m={self.m} stages={self.stages} descriptors={self.descriptors} ping_pong=1"
            raise CompileError(
                asks, remedy="ping-pong schedules are those of 4 warps, with m of 64 and more, by descriptors in 2 stages and more"
            )
        if self.n // self.split < LEAST:
            raise CompileError(f"split={self.split} n={self.n}", remedy="parts of blocks have 16 columns and more")
