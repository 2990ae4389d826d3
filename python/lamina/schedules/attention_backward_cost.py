"""Schedules of attention's backward pass, and the default where nothing was tuned.

None was measured against the libraries, so the default is the library's kernel, except where dropout uses Lamina's random numbers.
"""

from dataclasses import replace

from lamina.core.gpu import Gpu

from .attention import Backward
from .attention_cost import LONG, MOST, AttentionWork

_LARGE = 200 << 10  # bytes of shared memory per CTA, as on Hopper and later data-center GPUs
_HOPPER: tuple[tuple[int, tuple[Backward, ...]], ...] = (
    (
        64,
        (
            Backward(128, 64, 128, 64, 8, 2), Backward(64, 64, 64, 64, 4, 2), Backward(64, 64, 128, 64, 8, 2),
            Backward(64, 64, 64, 64, 4, 3), Backward(128, 64, 128, 32, 8, 3),
        ),
    ),
    (
        128,
        (
            Backward(128, 64, 128, 32, 8, 2), Backward(64, 64, 64, 64, 8, 2), Backward(128, 64, 64, 32, 8, 3),
            Backward(64, 64, 64, 32, 4, 2),
        ),
    ),
    (MOST, (Backward(64, 32, 64, 16, 8, 2), Backward(64, 32, 32, 32, 8, 2))),
)  # fmt: skip
"""Schedules by the largest head size that they are for: their blocks do not spill registers."""
_AMPERE: tuple[tuple[int, tuple[Backward, ...]], ...] = (
    (64, (Backward(64, 64, 64, 32, 4, 2), Backward(128, 64, 128, 32, 8, 2), Backward(64, 32, 64, 32, 4, 2))),
    (128, (Backward(64, 64, 64, 32, 8, 2), Backward(64, 32, 64, 32, 8, 2), Backward(64, 32, 64, 32, 4, 2))),
    (MOST, (Backward(64, 32, 32, 32, 8, 1),)),
)
"""The same for GPUs with less shared memory."""


def candidates(work: AttentionWork, gpu: Gpu) -> tuple[Backward, ...]:
    """Returns the schedules that suit the sizes, the most promising first."""
    size = max(work.size, work.values)
    known = next((schedules for most, schedules in (_HOPPER if gpu.shared_bytes >= _LARGE else _AMPERE) if size <= most), ())
    smallest = min((c.m for c in known), default=0)
    fit = [c for c in known if c.m < 2 * work.queries or c.m == smallest]
    listed = fit[:1] if work.hides and min(work.queries, work.keys) >= LONG else []
    return (*fit, *(replace(c, blocks=1) for c in listed))


def unmeasured(work: AttentionWork, gpu: Gpu) -> Backward | None:
    """Returns the default schedule where nothing was tuned; None for the library's kernel."""
    return next(iter(candidates(work, gpu)), None) if work.drops else None
