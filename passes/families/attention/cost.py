"""Cost model of attention: ranks schedules and chooses the default where nothing was tuned, by measurements on an H200."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from lamina.core.gpu import Gpu

from .schedules import Backward, Config, Forward, Specialized, Split

Listing = TypeVar("Listing", Forward, Backward)
MOST = 256  # elements of a head
_ROWS = 64  # queries that share a KV head, at most, for the keys to be split
_RESIDENT = 2  # CTAs of `split` that an SM holds
_START = 2e-6  # seconds of a CTA: the latency of its first loads, and its stores
_JOIN, _JOINED = 3e-6, 2e-8  # seconds of the kernel that joins the parts, and of each part of a row
_PAYS = 4  # number of parts from which on cuDNN's kernel is not faster
_GROWN = 4096  # keys for which a symbolic number of them is split at least: a cache is empty when it is compiled for
LONG = 1024  # keys from which on splitting them, or listing the blocks of a mask first, is worth a second kernel
_WITH_TMA = 90
_SPECIALISES = "sm_90a"
_GROUPED = 128  # queries from which on each of two warp groups has some
_TILE = 2 * Specialized.queries  # queries of two warp groups
_SMALL = 64  # elements of a head up to which kernels without warp specialization are as fast
_HOPPER: tuple[tuple[int, tuple[Forward, ...]], ...] = (
    (64, (Forward(64, 64, 4, 3), Forward(128, 64, 8, 3), Forward(64, 64, 4, 4), Forward(64, 128, 4, 2), Forward(128, 64, 4, 3, 1))),
    (
        128,
        (
            Forward(128, 64, 8, 3, 1), Forward(128, 64, 8, 3), Forward(128, 32, 8, 3, 1), Forward(128, 32, 4, 3, 1),
            Forward(128, 64, 8, 4, 1), Forward(64, 64, 4, 3),
        ),
    ),
    (MOST, (Forward(64, 64, 8, 2), Forward(64, 32, 4, 2), Forward(128, 32, 8, 2))),
)  # fmt: skip
"""Schedules by the largest head size that they are for. For 64 and 128 elements the first two are the fastest that were measured,
at 78% to 97% of the speed of cuDNN's kernel; blocks of 128 by 128 with two stages were slower."""
_AMPERE: tuple[tuple[int, tuple[Forward, ...]], ...] = (
    (64, (Forward(64, 64, 4, 3), Forward(128, 64, 8, 3), Forward(128, 32, 4, 3))),
    (128, (Forward(128, 64, 8, 3), Forward(64, 64, 4, 2), Forward(128, 32, 8, 3))),
    (MOST, (Forward(64, 64, 8, 2), Forward(64, 32, 8, 2))),
)
"""The same before Hopper, limited to schedules that do not spill registers."""
_LARGE = 200 << 10  # bytes of shared memory per CTA, as on Hopper and later data-center GPUs
_BACKWARD_HOPPER: tuple[tuple[int, tuple[Backward, ...]], ...] = (
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
_BACKWARD_AMPERE: tuple[tuple[int, tuple[Backward, ...]], ...] = (
    (64, (Backward(64, 64, 64, 32, 4, 2), Backward(128, 64, 128, 32, 8, 2), Backward(64, 32, 64, 32, 4, 2))),
    (128, (Backward(64, 64, 64, 32, 8, 2), Backward(64, 32, 64, 32, 8, 2), Backward(64, 32, 64, 32, 4, 2))),
    (MOST, (Backward(64, 32, 32, 32, 8, 1),)),
)
"""The same for GPUs with less shared memory."""


@dataclass(frozen=True)
class AttentionWork:
    """The problem that an attention kernel solves.

    heads, kv_heads  heads of queries, and of keys and values
    size, values     elements of a head of queries and keys, and of values
    causal           query i sees keys 0 to i
    masked           the kernel reads a mask
    window           keys up to its own that a query sees at most (sliding window); 0: all
    slopes           each score gets a bias that is linear in the distance of its key (ALiBi)
    bounded          each sequence sees only the keys between two bounds; by_head: each head has bounds of its own
    known            there is a mask that Lamina's kernels do not read, or read once for each key; libraries read it for each score
    hides            the mask that is read only hides scores and adds nothing to the others
    drops            attention weights are dropped at random
    alone            no library kernel may compute it; caps: scores have a soft cap, which none does
    sums             the rows' log-sum-exp is a result, too, for the backward pass
    backward         the gradients are computed
    symbolic         some sizes are those of the call that was traced
    many             so are the queries of a head: there may be any number of them
    lengths          so are the queries or the keys
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
    sums: bool = False
    window: int = 0
    slopes: bool = False
    bounded: bool = False
    by_head: bool = False
    known: bool = False
    hides: bool = False
    drops: bool = False
    alone: bool = False
    caps: bool = False
    backward: bool = False
    symbolic: bool = False
    many: bool = False
    lengths: bool = False

    @property
    def rows(self) -> int:
        """Queries that share a KV head."""
        return self.heads // self.kv_heads * self.queries

    @property
    def is_few(self) -> bool:
        """Whether all queries of a KV head fit in one block, so that the keys may be split."""
        return self.rows <= _ROWS and not (self.many or self.causal or self.window or self.sums or self.by_head or self.drops)


def split_seconds(config: Split, work: AttentionWork, gpu: Gpu) -> float:
    """Estimates the time of split-KV attention: waves of parts, bound by memory traffic. Parts are written, then read by `join`."""
    programs, slots = work.batch * work.kv_heads * config.parts, gpu.sm_count * _RESIDENT
    part = -(-work.keys // config.parts // config.n) * config.n * (work.size + work.values) * 2
    rounds, at_once = -(-programs // slots), max(gpu.sm_count, min(programs, slots))  # one CTA fills an SM's share of the bandwidth
    between = 2 * 4 * work.batch * work.heads * work.queries * config.parts * work.values
    return rounds * (_START + part * at_once / gpu.bandwidth) + between / gpu.bandwidth + _JOIN + config.parts * _JOINED


def candidates(work: AttentionWork, gpu: Gpu) -> tuple[Config, ...]:
    """Returns the schedules that suit the problem, the most promising first."""
    if work.backward:
        gradients = _of_size(_BACKWARD_HOPPER if gpu.shared_bytes >= _LARGE else _BACKWARD_AMPERE, work)
        return (*gradients, *_listed(gradients, work))
    if max(work.size, work.values) > MOST:
        return ()
    if work.is_few:
        return _splits(work, gpu)
    size = max(work.size, work.values)
    fit = _of_size(_HOPPER if gpu.capability >= _WITH_TMA else _AMPERE, work)
    if work.window:  # smaller blocks of queries meet fewer hidden keys
        fit.sort(key=lambda c: c.m)
    adds = work.masked or work.slopes  # with descriptors, these kernels spill registers
    fit = [c for c in fit if not (c.descriptors and adds) and shared_bytes(c, work) <= gpu.shared_bytes]
    if work.drops:  # dropout needs registers, too
        narrow = adds and size > 64 and gpu.capability < _WITH_TMA
        fit = [c for c in fit if not (c.descriptors and c.warps == 4) and not (narrow and c.n > 32)]
    apart: tuple[Config, ...] = _specialized(size, work) if gpu.arch == _SPECIALISES and not work.symbolic else ()
    ours = (*fit, *apart) if size <= _SMALL else (*apart, *fit)
    return (*ours, *_listed(fit, work))


def _of_size(tables: Sequence[tuple[int, Sequence[Listing]]], work: AttentionWork) -> list[Listing]:
    """Returns the schedules for heads of this size whose blocks of queries are not mostly empty."""
    known = next((schedules for most, schedules in tables if max(work.size, work.values) <= most), ())
    smallest = min((c.m for c in known), default=0)
    return [c for c in known if c.m < 2 * work.queries or c.m == smallest]


def _listed(fit: Sequence[Listing], work: AttentionWork) -> list[Listing]:
    """Returns the first schedule with lists of visible blocks, where these may pay."""
    return [replace(c, blocks=1) for c in fit[:1] if work.hides and not work.symbolic and min(work.queries, work.keys) >= LONG]


def _specialized(size: int, work: AttentionWork) -> tuple[Specialized, ...]:
    """Returns warp-specialized schedules, where each warp group has enough queries and nothing is read or drawn for each score."""
    if work.masked or work.slopes or work.drops or work.caps or work.queries < _GROUPED:
        return ()
    if size <= _SMALL:
        return (Specialized(128, 2, 3),)
    return (Specialized(128, 2, 2), Specialized(64, 2, 4)) if size <= 128 else (Specialized(64, 2, 2),)


def shared_bytes(config: Forward, work: AttentionWork) -> int:
    """Returns the shared memory per CTA that Triton allocates without wgmma, derived from its generated code: queries, keys and
    values in flight, the mask, and weights where several warps share rows. On Hopper it allocates more, but there is more than any
    of these schedules needs."""
    size, values = (max(16, 1 << (n - 1).bit_length()) for n in (work.size, work.values))
    block = config.n * (size + values) + (config.m * config.n if work.masked else 0)
    shared = config.m * config.n if 16 * config.warps > config.m else 0
    return 2 * (config.m * size + (config.stages - 1) * block + shared)


def _splits(work: AttentionWork, gpu: Gpu) -> tuple[Config, ...]:
    """Returns several numbers of parts for the most promising block, then other blocks for the best number. Where heads share no
    keys, a schedule without the second kernel is among them."""
    n = 64 if max(work.size, work.values) <= 128 else 32
    work = replace(work, keys=max(work.keys, _GROWN)) if work.lengths else work
    counts = [p for p in (1, 2, 4, 8, 16, 32, 64, 128) if p == 1 or -(-work.keys // p) >= 2 * n]
    parts = sorted((Split(n, p) for p in counts), key=lambda c: split_seconds(c, work, gpu))
    best = parts[0].parts
    others = (Split(n, best, 4, 4), Split(2 * n, best, 4, 3), Split(n // 2, best, 4, 4), Split(n, best, 2, 4))
    whole = (Forward(16, n, 4, 3),) if work.heads == work.kv_heads and work.queries <= 16 else ()
    return (*parts[:2], *whole, *parts[2:3], *others, *parts[3:5])


def unmeasured(work: AttentionWork, gpu: Gpu) -> Config | None:
    """Returns the default schedule where nothing was tuned; None for the library's kernel. Measured on an H200:

    Few queries (32 query heads on 4 KV heads, 8192 keys of 128 elements), batches of 32, 8 and 1: 138, 48 and 16 us in as many
    parts as fill the GPU once; cuDNN's kernel 136, 49 and 18, flash attention's, which other GPUs have, 140, 55 and 30. The
    libraries' kernels that take a mask read each KV head eight times. So cuDNN's kernel is the default where few parts fill the
    GPU.

    Causal attention, 4 x 16 heads of 128 elements: 461 us for 4096 queries and 142 for 2048 with warp specialization, cuDNN's
    kernel 488 and 147; 2 x 8 heads of 256 elements: 76 and 94. 4 x 32 heads of 64 elements on 8 KV heads, 2048 queries: 175
    without warp specialization, cuDNN's kernel 183; where heads share no keys cuDNN's is faster. Without causal they were not
    compared.

    A mask whose meaning is known is never materialized for Lamina's kernels. The libraries need one number per score, and compute
    what it hides, too: a window of 1024 of 4096 keys took 283 us with warp specialization, 317 without it in blocks of 64 queries
    (of 128: 338 to 362), the library 1786; sequences of 16 to 496 of 512 keys 46 us, the library 72. Dropout by Lamina's random
    numbers has no library kernel. Other gradients were not measured against the libraries'.

    What libraries may not compute (a mask that would be rounded, a soft cap) is Lamina's, by lists of blocks where a mask only
    hides; these are the first schedules, unmeasured for it.

    cuDNN makes a plan for each length that it has not met, in 37 ms on an H100 (47 for gradients). Without warp specialization
    Lamina's kernels took 0.84 to 1.40 of its time there, flash attention 1.08 to 1.95; a call takes 10 to 190 us. So symbolic
    lengths have Lamina's kernels, but for training, whose steps are long and whose lengths come again.
    """
    if work.alone:
        fit = candidates(work, gpu)
        return next((c for c in fit if getattr(c, "blocks", 0)), next(iter(fit), None))
    planned = work.lengths and gpu.capability >= _WITH_TMA  # by cuDNN, for each length
    if work.drops or ((work.known or planned) and not work.sums and not work.backward):
        return next(iter(candidates(work, gpu)), None)
    if work.backward:
        return None
    if work.causal and not (work.is_few or work.sums):
        first = next(iter(candidates(work, gpu)), None)
        full = work.batch * work.heads * work.queries >= gpu.sm_count * _TILE and work.queries >= LONG
        known = isinstance(first, Specialized) or (work.heads > work.kv_heads and not work.masked)
        return first if known and full and gpu.arch == _SPECIALISES else None
    if work.heads == work.kv_heads or not work.is_few or work.keys < LONG:
        return None
    found = next((c for c in candidates(work, gpu) if isinstance(c, Split)), None)
    full = found is not None and found.parts < _PAYS and not work.masked and gpu.capability >= _WITH_TMA
    return None if full else found
