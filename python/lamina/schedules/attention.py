"""Block shapes of attention, whose kernels are in lamina.kernels.attention. What they cost: attention_cost."""

from dataclasses import dataclass
from typing import ClassVar

from lamina.core.errors import CompileError

from . import text

_WIDEST = 256  # columns that a product of a group of warps has, and rows that a descriptor brings


@dataclass(frozen=True)
class Forward:
    """One program for a block of queries of a head.

    m, n         queries of a block, and keys that it takes at a time; powers of two from 16
    warps        of one CTA
    stages       blocks of keys and values in flight: the depth of the software pipeline
    descriptors  1: keys and values come by descriptors (TMA) where their layout allows it; 0: by pointers
    blocks       1: a kernel of its own lists the blocks that a mask shows, once for each mask, and others are skipped
    """

    kind: ClassVar[str] = "forward"
    m: int = 128
    n: int = 64
    warps: int = 4
    stages: int = 3
    descriptors: int = 0
    blocks: int = 0

    def __str__(self) -> str:
        """The text that `read` takes: "forward{m=128 n=64 ...}"."""
        return text.write(self)


@dataclass(frozen=True)
class Specialised:
    """On Hopper, one program a multiprocessor, whose warps have parts of their own: one loads, groups of four have `queries` each.
    Queries, keys and values come by descriptors; where their layout does not allow it, or Triton's Gluon is not known, `instead` is
    run.

    n       keys that a group takes at a time; a power of two from 16
    groups  2 or 3
    stages  blocks of keys, and of values, that are there or on their way
    """

    kind: ClassVar[str] = "specialised"
    queries: ClassVar[int] = 64
    n: int = 128
    groups: int = 2
    stages: int = 2

    def __str__(self) -> str:
        """The text that `read` takes: "specialised{n=128 groups=2 stages=2}"."""
        return text.write(self)

    def instead(self, size: int) -> Forward:
        """The schedule where descriptors are not allowed, for heads of `size` elements."""
        return Forward(128, 64, 8, 3) if size <= 128 else Forward(64, 64, 8, 2)


@dataclass(frozen=True)
class Split:
    """One program for a part of the keys of a head of theirs, with all queries that share it, and a kernel that joins the parts.

    n       keys that a program takes at a time; a power of two from 16
    parts   of the keys
    warps   of one CTA
    stages  blocks of keys and values in flight
    """

    kind: ClassVar[str] = "split"
    n: int = 64
    parts: int = 8
    warps: int = 4
    stages: int = 3

    def __str__(self) -> str:
        """The text that `read` takes: "split{n=64 parts=8 ...}"."""
        return text.write(self)


@dataclass(frozen=True)
class Backward:
    """Gradients: one program for a block of queries of a head, then one for a block of keys, with all queries that share them.

    m, n           queries of a block of the first, and keys that it takes at a time; powers of two from 16
    keys, queries  keys of a block of the second, and queries that it takes at a time
    warps          of one CTA
    stages         blocks in flight
    blocks         1: two kernels list the blocks that a mask shows, of keys and of queries, and others are skipped
    """

    kind: ClassVar[str] = "backward"
    m: int = 64
    n: int = 64
    keys: int = 64
    queries: int = 64
    warps: int = 4
    stages: int = 2
    blocks: int = 0

    def __str__(self) -> str:
        """The text that `read` takes: "backward{m=64 n=64 ...}"."""
        return text.write(self)


Config = Forward | Specialised | Split | Backward


def read(written: str) -> Config:
    """From text such as "forward{m=128 n=64}"; CompileError where it is none."""
    config: Config = text.read(written, (Forward, Specialised, Split, Backward), "attention")
    _check(config)
    return config


def _check(config: Config) -> None:
    """CompileError for blocks that tensor cores cannot work on."""
    for key in ("m", "n", "keys", "queries"):
        size = getattr(config, key, 16)
        if size < 16 or size & (size - 1):
            raise CompileError(f"a block of {key}={size}", remedy="blocks of attention are powers of two from 16")
    if isinstance(config, Specialised):
        if config.n > _WIDEST:
            raise CompileError(f"a block of n={config.n}", remedy=f"groups of warps take up to {_WIDEST} keys at a time")
        if config.groups not in (2, 3) or config.stages < 1:
            raise CompileError(f"{config}", remedy="there are 2 or 3 groups of warps, and at least one stage")
        return
    if config.warps < 1 or config.warps & (config.warps - 1):
        raise CompileError(f"warps={config.warps}", remedy="a CTA has 1, 2, 4, 8, ... warps")
    if config.stages < 1 or getattr(config, "parts", 1) < 1:
        raise CompileError(f"{config}", remedy="stages and parts are at least 1")
    for key in ("descriptors", "blocks"):
        if getattr(config, key, 0) not in (0, 1):
            raise CompileError(f"{config}", remedy=f"{key} is 0 or 1")
