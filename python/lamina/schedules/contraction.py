"""Block shapes of matrix products, which go down through Triton. What they cost: product_cost."""

import re
from dataclasses import asdict, dataclass, replace

from lamina.core.errors import CompileError

_TEXT = re.compile(r"triton\{([^{}]*)\}")
LEAST = 16  # elements of a block's side: what tensor cores multiply
GROUP = 4  # warps that multiply together on Hopper, 16 rows each


@dataclass(frozen=True)
class Config:
    """How a product becomes a block program.

    m, n, k      elements of a block of each product, and of what is multiplied at a time; powers of two from 16
    warps        of one CTA
    stages       blocks of the factors in flight: the depth of the software pipeline
    group        rows of blocks whose columns are walked together, so that factors are found in the second-level cache
    resident     CTAs of an SM that walk over all blocks; 0: a CTA for every block
    split        parts of a block, side by side, in which what follows the product is computed: fewer registers hold it at a time
    descriptors  1: factors come by descriptors (TMA) where the chip and their layout allow it; 0: by pointers. Making descriptors
                 takes a kernel about a microsecond
    joint        1: two products that share their left factor are one dot where the others come by descriptors
    parts        into which the inner dimension is cut: each is summed by a CTA of its own, and another kernel adds them
    fast         1: sums of eight-bit factors have the digits that tensor cores give them, where the call allows it; 0: what these
                 sum for a step along the inner dimension is added in f32
    ping_pong        1: a CTA has two groups of `warps` warps and a warp that loads. One group multiplies while the other does what
                 follows its own block (Hopper only); 0: all warps do both
    """

    m: int = 128
    n: int = 128
    k: int = 64
    warps: int = 4
    stages: int = 3
    group: int = 8
    resident: int = 0
    split: int = 1
    descriptors: int = 1
    joint: int = 0
    parts: int = 1
    fast: int = 0
    ping_pong: int = 0

    @property
    def threads(self) -> int:
        """Of a CTA; the warp that loads has a group of its own."""
        return 32 * self.warps * (3 if self.ping_pong else 1)

    @property
    def plain(self) -> "Config":
        """The same blocks without ping-pong."""
        return replace(self, ping_pong=0, stages=min(self.stages, 3)) if self.ping_pong else self

    def __str__(self) -> str:
        """The text that `Config.read` takes: "triton{m=128 n=256 ...}"."""
        return f"triton{{{' '.join(f'{key}={value}' for key, value in asdict(self).items())}}}"

    @staticmethod
    def read(text: str) -> "Config":
        """From text such as "triton{m=128 n=256}"; CompileError where it is none."""
        whole = _TEXT.fullmatch(text.strip())
        known = Config.__dataclass_fields__
        values: dict[str, int] = {}
        for part in whole[1].split() if whole else []:
            key, _, number = part.partition("=")
            if key not in known or not number.isdigit():
                raise CompileError(
                    f"{part!r} is no part of a schedule of products", remedy=f"it has {', '.join(known)}, each a number"
                )
            values[key] = int(number)
        if whole is None:
            raise CompileError(f"{text!r} is no schedule of products", remedy=f"write one like {Config()}")
        config = Config(**values)
        config.check()
        return config

    def check(self) -> None:
        """CompileError for blocks that tensor cores cannot work on."""
        for key in ("m", "n", "k"):
            size = getattr(self, key)
            if size < LEAST or size & (size - 1):
                raise CompileError(f"a block of {key}={size}", remedy="blocks of products are powers of two from 16")
        if self.warps < 1 or self.warps & (self.warps - 1):
            raise CompileError(f"warps={self.warps}", remedy="a CTA has 1, 2, 4, 8, ... warps")
        if self.stages < 1 or self.group < 1 or self.parts < 1:
            raise CompileError(f"stages={self.stages} group={self.group} parts={self.parts}", remedy="each is at least 1")
        for key in ("descriptors", "joint", "fast", "ping_pong"):
            if getattr(self, key) not in (0, 1):
                raise CompileError(f"{key}={getattr(self, key)}", remedy="it is 0 or 1")
        if self.ping_pong and (self.warps != GROUP or self.m % (16 * GROUP) or self.stages == 1 or not self.descriptors):
            asks = f"warps={self.warps} m={self.m} stages={self.stages} descriptors={self.descriptors} ping_pong=1"
            raise CompileError(
                asks, remedy="ping-pong schedules are those of 4 warps, with m of 64 and more, by descriptors in 2 stages and more"
            )
        if self.split not in (1, 2, 4) or self.n // self.split < LEAST:
            raise CompileError(f"split={self.split} n={self.n}", remedy="blocks have 1, 2 or 4 parts of 16 columns and more")
