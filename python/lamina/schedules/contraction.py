"""Block shapes of matrix products, which go down through Triton."""

import re
from dataclasses import asdict, dataclass

from lamina.core.errors import CompileError

_TEXT = re.compile(r"triton\{([^{}]*)\}")


@dataclass(frozen=True)
class Config:
    """How a product becomes a block program.

    m, n, k      elements of a block of the result, and of what is multiplied at a time; powers of two from 16
    warps        of one CTA
    stages       blocks of the factors in flight: the depth of the software pipeline
    group        rows of blocks whose columns are walked together, so that factors are found in the second-level cache
    resident     CTAs of an SM that walk over all blocks; 0: a CTA for every block
    split        parts of a block, side by side, in which what follows the product is computed: fewer registers hold it at a time
    descriptors  1: factors come by descriptors (TMA) where the chip and their layout allow it; 0: by pointers. Making descriptors
                 takes a kernel about a microsecond
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
            if size < 16 or size & (size - 1):
                raise CompileError(f"a block of {key}={size}", remedy="blocks of products are powers of two from 16")
        if self.warps < 1 or self.warps & (self.warps - 1):
            raise CompileError(f"warps={self.warps}", remedy="a CTA has 1, 2, 4, 8, ... warps")
        if self.stages < 1 or self.group < 1:
            raise CompileError(f"stages={self.stages} group={self.group}", remedy="both are at least 1")
        if self.descriptors not in (0, 1):
            raise CompileError(f"descriptors={self.descriptors}", remedy="it is 0 or 1")
        if self.split not in (1, 2, 4) or self.n // self.split < 16:
            raise CompileError(f"split={self.split} n={self.n}", remedy="blocks have 1, 2 or 4 parts of 16 columns and more")


LARGE = (
    Config(128, 256, 64, 8, 3, 8, 1, 2),
    Config(128, 128, 64, 4, 3, 8, 2, 2),
    Config(128, 256, 64, 8, 4, 8, 1, 4),
    Config(256, 128, 64, 8, 3, 8, 1, 2),
    Config(128, 256, 64, 8, 3, 8, 1),
    Config(128, 128, 64, 4, 3, 8, 2),
    Config(128, 256, 64, 8, 3, 8, 0),
    Config(128, 128, 64, 4, 3, 8, 0),
)
SMALL = (
    Config(64, 128, 64, 4, 4),
    Config(64, 64, 64, 4, 4),
    Config(64, 64, 64, 4, 4, descriptors=0),
    Config(64, 32, 128, 4, 4, descriptors=0),
    Config(32, 64, 128, 4, 4, descriptors=0),
    Config(32, 32, 128, 4, 4, descriptors=0),
    Config(16, 64, 128, 4, 5, descriptors=0),
    Config(16, 32, 128, 2, 5, descriptors=0),
)


def candidates(batch: int, m: int, n: int, k: int, sm_count: int) -> tuple[Config, ...]:
    """The schedules worth trying for `batch` products of m x k by k x n, the most promising first: the largest blocks of which
    every multiprocessor gets one, since each element of a factor is read once for each block; then the smaller ones."""

    def idle(c: Config) -> float:
        """The share of multiprocessors' time that rounds of blocks leave unused, and of blocks that hang over the edge."""
        blocks = batch * -(-m // c.m) * -(-n // c.n)
        at_once = sm_count * max(c.resident, 1)
        covered = (m * n * batch) / (blocks * c.m * c.n)
        return 1 - covered * blocks / (-(-blocks // at_once) * at_once)

    fitting = [c for c in (*LARGE, *SMALL) if c.m < 2 * max(m, 16) and c.n < 2 * max(n, 16)]
    return tuple(sorted(fitting or SMALL[-1:], key=lambda c: round(idle(c) + 64 * (1 / c.m + 1 / c.n) / 8, 2)))
