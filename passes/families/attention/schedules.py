"""Schedules of attention kernels (lamina.kernels.attention): block sizes, warps, pipeline depth."""

from dataclasses import dataclass
from typing import ClassVar

from lamina.schedules.contraction import LEAST
from lamina.schedules.text import KernelSchedule, flag, one_of, positive, power_of_two

_WIDEST = 256  # columns of a warp group's product (wgmma), and rows of a TMA descriptor's block, at most


@dataclass(frozen=True)
class Forward(KernelSchedule):
    """Flash attention: one program for a block of queries of a head.

    m, n         queries of a block, and keys per iteration; powers of two from 16
    warps        warps of one CTA
    stages       blocks of keys and values in flight: the depth of the software pipeline
    descriptors  1: keys and values are loaded by TMA descriptors where their layout allows it; 0: by pointers
    blocks       1: a separate kernel lists the blocks that a mask does not hide, once for each mask; the others are skipped
    """

    kind: ClassVar[str] = "forward"
    m: int = power_of_two(128, LEAST)
    n: int = power_of_two(64, LEAST)
    warps: int = power_of_two(4)
    stages: int = positive(3)
    descriptors: int = flag(0)
    blocks: int = flag(0)


@dataclass(frozen=True)
class Specialized(KernelSchedule):
    """Warp-specialized flash attention on Hopper: one program per SM, with a warp that loads and warp groups of `queries` each.

    TMA descriptors load queries, keys and values. Where their layout does not allow it, or this version of Triton's Gluon is not
    known, the schedule of `instead` runs.

    n       keys of a warp group per iteration; a power of two from 16
    groups  warp groups that compute, 2 or 3
    stages  blocks of keys, and of values, in shared memory or in flight
    """

    kind: ClassVar[str] = "specialized"
    queries: ClassVar[int] = 64
    n: int = power_of_two(128, LEAST, _WIDEST)
    groups: int = one_of(2, 2, 3)
    stages: int = positive(2)

    def instead(self, size: int) -> Forward:
        """Returns the fallback schedule without descriptors, for heads of `size` elements."""
        return Forward(128, 64, 8, 3) if size <= 128 else Forward(64, 64, 8, 2)


@dataclass(frozen=True)
class Split(KernelSchedule):
    """Split-KV attention: one program for a part of the keys of a KV head, with all queries that share it, and a kernel that joins
    the parts.

    n       keys of a program per iteration; a power of two from 16
    parts   parts that the keys are split into
    warps   warps of one CTA
    stages  blocks of keys and values in flight
    """

    kind: ClassVar[str] = "split"
    n: int = power_of_two(64, LEAST)
    parts: int = positive(8)
    warps: int = power_of_two(4)
    stages: int = positive(3)


@dataclass(frozen=True)
class Backward(KernelSchedule):
    """The backward pass in two kernels: one program for a block of queries of a head, then one for a block of keys, with all
    queries that share them.

    m, n           queries of a block of the first kernel, and its keys per iteration; powers of two from 16
    keys, queries  keys of a block of the second kernel, and its queries per iteration
    warps          warps of one CTA
    stages         blocks in flight: the depth of the software pipeline
    blocks         1: two kernels list the blocks of keys and of queries that a mask does not hide; the others are skipped
    """

    kind: ClassVar[str] = "backward"
    m: int = power_of_two(64, LEAST)
    n: int = power_of_two(64, LEAST)
    keys: int = power_of_two(64, LEAST)
    queries: int = power_of_two(64, LEAST)
    warps: int = power_of_two(4)
    stages: int = positive(2)
    blocks: int = flag(0)


Config = Forward | Specialized | Split | Backward
SCHEDULES = (Forward, Specialized, Split, Backward)
