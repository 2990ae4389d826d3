"""Which kernels of ours suit an attention, and which is taken unmeasured: the library is left only where it is known to be slow."""

from dataclasses import dataclass

from lamina.core.gpu import Gpu

from .attention import Config, Forward, Split

MOST = 256  # elements of a head
_ROWS = 64  # of queries that share a head of keys, up to which keys are split
_RESIDENT = 2  # CTAs of `split` that an SM holds
_START = 2e-6  # of a CTA: the latency of its first loads, and its stores
_JOIN = 3e-6
_LONG = 512  # keys from which on splitting them is worth two kernels


@dataclass(frozen=True)
class Work:
    """Attention of `heads` heads of queries on `kv_heads` of keys and values, for each of a batch.

    size, values  elements of a head of queries and keys, and of values
    causal        query i sees keys 0 to i
    masked        a mask is read
    """

    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    size: int
    values: int
    causal: bool = False
    masked: bool = False

    @property
    def rows(self) -> int:
        """Queries that share a head of keys."""
        return self.heads // self.kv_heads * self.queries

    @property
    def flops(self) -> int:
        """Of both products; half where the mask hides half."""
        pairs = self.batch * self.heads * self.queries * self.keys
        return 2 * pairs * (self.size + self.values) // (2 if self.causal else 1)

    @property
    def is_few(self) -> bool:
        """Whether all queries of a head of keys fit in one block, which may be split over the keys."""
        return self.rows <= _ROWS and not self.causal


def split_seconds(config: Split, work: Work, gpu: Gpu) -> float:
    """Rounds of parts, as many as run at once, each as long as its bytes take; parts are written and read again."""
    programs, slots = work.batch * work.kv_heads * config.parts, gpu.sm_count * _RESIDENT
    part = -(-work.keys // config.parts // config.n) * config.n * (work.size + work.values) * 2
    between = 2 * 4 * work.batch * work.heads * work.queries * config.parts * work.values
    return -(-programs // slots) * (_START + part * slots / gpu.bandwidth) + between / gpu.bandwidth + _JOIN


def candidates(work: Work, gpu: Gpu) -> tuple[Config, ...]:
    """The schedules that suit the sizes, the most promising first."""
    if max(work.size, work.values) > MOST:
        return ()
    if work.is_few:
        return _splits(work, gpu)
    return tuple(c for c in _forwards(work, gpu) if c.m < 2 * max(work.queries, 16) or c.m == 64)


def _splits(work: Work, gpu: Gpu) -> tuple[Config, ...]:
    """Parts of several numbers for the likeliest block, then other blocks for the likeliest number."""
    n = 64 if max(work.size, work.values) <= 128 else 32
    counts = [p for p in (1, 2, 4, 8, 16, 32, 64, 128) if p == 1 or -(-work.keys // p) >= 2 * n]
    parts = sorted((Split(n, p) for p in counts), key=lambda c: split_seconds(c, work, gpu))
    best = parts[0].parts
    others = (Split(n, best, 4, 4), Split(2 * n, best, 4, 3), Split(n // 2, best, 4, 4), Split(n, best, 2, 4))
    return (*parts[:3], *others, *parts[3:5])


def _forwards(work: Work, gpu: Gpu) -> tuple[Forward, ...]:
    size = max(work.size, work.values)
    if size > 128:
        return (Forward(64, 32, 4, 2), Forward(64, 64, 8, 2), Forward(128, 32, 8, 2))
    known: tuple[Forward, ...]
    if size > 64:
        known = (Forward(128, 128, 8, 2), Forward(128, 64, 8, 3), Forward(64, 64, 4, 2))
    else:
        known = (Forward(128, 64, 4, 3), Forward(128, 128, 8, 2), Forward(128, 64, 8, 3), Forward(64, 64, 4, 3))
    by_descriptor = tuple(Forward(c.m, c.n, c.warps, c.stages, 1) for c in known[:2]) if gpu.capability >= 90 else ()
    return (*known, *by_descriptor)


def unmeasured(work: Work, gpu: Gpu) -> Config | None:
    """The schedule to take where nothing was measured; None for the library. That reads keys once for each head of queries, and
    has too few programs where these are few."""
    if work.heads == work.kv_heads or not work.is_few or work.keys < _LONG:
        return None
    found = candidates(work, gpu)
    return found[0] if found else None
