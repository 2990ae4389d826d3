"""Cost model of convolutions as implicit GEMM: ranks schedules for tuning. As few were measured, the library is the default."""

from dataclasses import replace

from lamina.core.gpu import Gpu

from .contraction import LEAST, GemmConfig
from .product_cost import PARTS, GemmWork, blocks_of

SCHEDULES: dict[GemmConfig, float] = {
    GemmConfig(128, 128, 64, 8, 3, descriptors=0): 0.50,
    GemmConfig(128, 128, 64, 4, 3, split=2, descriptors=0): 0.48,
    GemmConfig(128, 128, 64, 8, 4): 0.48,
    GemmConfig(128, 128, 64, 8, 3, resident=1, split=2, descriptors=0): 0.49,
    GemmConfig(128, 64, 64, 4, 3, resident=2, split=2, descriptors=0): 0.45,
    GemmConfig(128, 256, 64, 8, 3, split=2, descriptors=0): 0.55,
    GemmConfig(256, 128, 64, 8, 3, split=2, descriptors=0): 0.50,
    GemmConfig(128, 64, 64, 4, 3, descriptors=0): 0.46,
    GemmConfig(128, 64, 64, 4, 4, descriptors=0): 0.43,
    GemmConfig(256, 64, 64, 8, 3, descriptors=0): 0.44,
    GemmConfig(128, 64, 64, 4, 4): 0.41,
    GemmConfig(64, 128, 64, 4, 4, descriptors=0): 0.40,
    GemmConfig(64, 64, 64, 4, 4, descriptors=0): 0.32,
    GemmConfig(128, 32, 64, 4, 4, descriptors=0): 0.25,
    GemmConfig(64, 32, 64, 4, 4, descriptors=0): 0.20,
    GemmConfig(256, 32, 64, 8, 3, descriptors=0): 0.26,
    GemmConfig(256, 16, 64, 8, 3, descriptors=0): 0.16,
    GemmConfig(128, 16, 64, 4, 4, descriptors=0): 0.15,
    GemmConfig(64, 16, 64, 4, 4, descriptors=0): 0.12,
    GemmConfig(32, 64, 64, 4, 4, descriptors=0): 0.18,
    GemmConfig(16, 32, 64, 2, 4, descriptors=0): 0.08,
}
"""The estimated share of the tensor cores' peak that each schedule reaches on large images."""
_SHARED = 0.7  # factor on that share where a block of the inner dimension spans more than one position of the window
_LAUNCH = 4e-6  # seconds
_MOST_IN_PARTS = 3  # candidates with split-K, at most
_STEP = 5.5e-7  # seconds of a step along the inner dimension, at least


def candidates(work: GemmWork, channels: int, gpu: Gpu) -> tuple[GemmConfig, ...]:
    """Returns the schedules that suit a convolution, the most promising first. work: the convolution as a GEMM; channels: of
    one group."""
    fitting = [
        _fed(replace(c, k=c.k * 2 // work.item), channels)
        for c in SCHEDULES
        if c.m < 2 * max(work.m, LEAST) and _suits(c.n, work.n)
    ]
    if work.batch > 1:
        return tuple(sorted(fitting, key=lambda c: seconds(c, work, channels, gpu)))
    cut = [_in_parts(c, work, channels, gpu) for c in fitting if not c.resident and 2 * blocks_of(c, work) <= gpu.sm_count]
    cut = sorted((c for c in cut if c.parts > 1), key=lambda c: seconds(c, work, channels, gpu))
    return tuple(sorted([*fitting, *cut[:_MOST_IN_PARTS]], key=lambda c: seconds(c, work, channels, gpu)))


def _suits(columns: int, features: int) -> bool:
    """Returns whether tiles of so many columns are not far wider than the features, nor needlessly narrow for tensor cores."""
    return columns < 2 * max(features, 2 * LEAST) and (columns > LEAST or features <= LEAST)


def seconds(config: GemmConfig, work: GemmWork, channels: int, gpu: Gpu) -> float:
    """Estimates the time of a convolution: waves of tiles, or the memory traffic of operands and results, whichever takes
    longer. With split-K, another kernel that adds the parts is included."""
    blocks = config.parts * blocks_of(config, work)
    slots = gpu.sm_count * max(config.resident, 2 if config.warps <= 4 else 1)
    share = SCHEDULES[replace(config, k=64, parts=1)] * (1 if channels // config.parts % config.k == 0 else _SHARED)
    steps = -(-work.k // (config.parts * config.k))
    block = max(2 * config.m * config.n * config.k * steps / (work.peak(gpu) * share / slots), steps * _STEP)
    sums = 8 * config.parts * work.elements if config.parts > 1 else 0
    moved = (work.item * work.batch * work.n * work.k + sums + work.reads + work.writes) / gpu.bandwidth
    return _LAUNCH * (1 + (config.parts > 1)) + max(-(-blocks // slots) * block, moved)


def _in_parts(config: GemmConfig, work: GemmWork, channels: int, gpu: Gpu) -> GemmConfig:
    """Returns the config with the best number of split-K parts; each part is a whole number of
    blocks of channels."""
    ways = [config, *(replace(config, parts=p) for p in PARTS if channels % (p * config.k) == 0)]
    return min(ways, key=lambda c: seconds(c, work, channels, gpu))


def _fed(config: GemmConfig, channels: int) -> GemmConfig:
    """Halves the step along the inner dimension where the channels are a multiple of the half, but not of the whole."""
    half = config.k // 2
    return replace(config, k=half) if channels % config.k and channels % half == 0 else config
