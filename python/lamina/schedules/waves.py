"""Estimates the time that a GPU takes for the tiles of a matrix product, in waves.

The constants are a fit to 800 times of 17 schedules and of cuBLAS on an H100 (48 to 4300 rows by 768 x 3072, 1024 x 4096,
1024 x 1024 and 3072 x 768 in bf16, with GELU or a residual) and to products of 8192 rows on an H200. The fit's error is 8%, that of
cuBLAS's times 6%.
"""

from lamina.core.gpu import Gpu

LAUNCH = 5e-6  # seconds of a kernel besides its tiles: its launch and the latency of its first loads
_STEP = 2.9e-7  # seconds of a step along the inner dimension at least: the latency of its loads over the stages
_ALONE = 1.22  # times the step of a full multiprocessor's share that a CTA takes if it is alone there


def tile_seconds(tiles: int, slots: int, steps: int, step: float, gpu: Gpu, *, latency: float = _STEP) -> float:
    """Returns the time of equal tiles, each of `steps` steps along the inner dimension.

    slots    CTAs that a multiprocessor holds at once. The last wave has fewer, and takes less time
    step     seconds of one step at a full multiprocessor's rate
    latency  least seconds of a step
    """
    waves, rest = divmod(tiles, slots * gpu.sm_count)

    def wave(together: int) -> float:
        """Returns the seconds of a wave of so many blocks on each SM."""
        return steps * max(latency, _ALONE * step, together * step)

    return waves * wave(slots) + (wave(-(-rest // gpu.sm_count)) if rest else 0.0)
