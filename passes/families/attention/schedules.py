"""Schedules of attention kernels (lamina.kernels.attention): block sizes, warps, pipeline depth."""

from dataclasses import dataclass
from typing import ClassVar

from lamina.core.errors import CompileError
from lamina.schedules.text import KernelSchedule

_WIDEST = 256  # columns of a warp group's product (wgmma), and rows of a TMA descriptor's block, at most


class _Blocked(KernelSchedule):
    """A schedule whose kernel works on blocks of queries and of keys."""

    def check(self) -> None:
        """Raises CompileError for shapes that tensor cores or Triton cannot work on."""
        for key in ("m", "n", "keys", "queries"):
            size = getattr(self, key, 16)
            if size < 16 or size & (size - 1):
                raise CompileError(f"a block of {key}={size}", remedy="blocks of attention are powers of two from 16")
        warps = getattr(self, "warps", 1)
        if warps < 1 or warps & (warps - 1):
            raise CompileError(f"warps={warps}", remedy="a CTA has 1, 2, 4, 8, ... warps")
        if min(getattr(self, key, 1) for key in ("stages", "parts")) < 1:
            raise CompileError(f"{self}", remedy="stages and parts are at least 1")
        for key in ("descriptors", "blocks"):
            if getattr(self, key, 0) not in (0, 1):
                raise CompileError(f"{self}", remedy=f"{key} is 0 or 1")


@dataclass(frozen=True)
class Forward(_Blocked):
    """Flash attention: one program for a block of queries of a head.

    m, n         queries of a block, and keys per iteration; powers of two from 16
    warps        warps of one CTA
    stages       blocks of keys and values in flight: the depth of the software pipeline
    descriptors  1: keys and values are loaded by TMA descriptors where their layout allows it; 0: by pointers
    blocks       1: a separate kernel lists the blocks that a mask does not hide, once for each mask; the others are skipped
    """

    kind: ClassVar[str] = "forward"
    m: int = 128
    n: int = 64
    warps: int = 4
    stages: int = 3
    descriptors: int = 0
    blocks: int = 0


@dataclass(frozen=True)
class Specialized(_Blocked):
    """Warp-specialized flash attention on Hopper: one program per SM, with a warp that loads and warp groups of `queries` each.

    TMA descriptors load queries, keys and values. Where their layout does not allow it, or this version of Triton's Gluon is not
    known, the schedule of `instead` runs.

    n       keys of a warp group per iteration; a power of two from 16
    groups  warp groups that compute, 2 or 3
    stages  blocks of keys, and of values, in shared memory or in flight
    """

    kind: ClassVar[str] = "specialized"
    queries: ClassVar[int] = 64
    n: int = 128
    groups: int = 2
    stages: int = 2

    def check(self) -> None:
        """Raises CompileError for shapes that the kernel cannot work on."""
        super().check()
        if self.n > _WIDEST:
            raise CompileError(f"a block of n={self.n}", remedy=f"groups of warps take up to {_WIDEST} keys at a time")
        if self.groups not in (2, 3):
            raise CompileError(f"{self}", remedy="there are 2 or 3 groups of warps")

    def instead(self, size: int) -> Forward:
        """Returns the fallback schedule without descriptors, for heads of `size` elements."""
        return Forward(128, 64, 8, 3) if size <= 128 else Forward(64, 64, 8, 2)


@dataclass(frozen=True)
class Split(_Blocked):
    """Split-KV attention: one program for a part of the keys of a KV head, with all queries that share it, and a kernel that joins
    the parts.

    n       keys of a program per iteration; a power of two from 16
    parts   parts that the keys are split into
    warps   warps of one CTA
    stages  blocks of keys and values in flight
    """

    kind: ClassVar[str] = "split"
    n: int = 64
    parts: int = 8
    warps: int = 4
    stages: int = 3


@dataclass(frozen=True)
class Backward(_Blocked):
    """The backward pass in two kernels: one program for a block of queries of a head, then one for a block of keys, with all
    queries that share them.

    m, n           queries of a block of the first kernel, and its keys per iteration; powers of two from 16
    keys, queries  keys of a block of the second kernel, and its queries per iteration
    warps          warps of one CTA
    stages         blocks in flight: the depth of the software pipeline
    blocks         1: two kernels list the blocks of keys and of queries that a mask does not hide; the others are skipped
    """

    kind: ClassVar[str] = "backward"
    m: int = 64
    n: int = 64
    keys: int = 64
    queries: int = 64
    warps: int = 4
    stages: int = 2
    blocks: int = 0


Config = Forward | Specialized | Split | Backward
SCHEDULES = (Forward, Specialized, Split, Backward)
