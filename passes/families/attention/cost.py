"""Cost model of attention: ranks schedules, and chooses the default if nothing was tuned, from measurements on an H200."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from lamina.core.gpu import Gpu

from .schedules import Backward, Config, Forward, Specialized, Split

Listing = TypeVar("Listing", Forward, Backward)
MOST = 256  # elements of a head, at most
_ROWS = 64  # queries that share a KV head, at most, for the keys to be split
_RESIDENT = 2  # CTAs of `split` that are resident on an SM
_START = 2e-6  # seconds that a CTA takes for the latency of its first loads, and for its stores
_JOIN, _JOINED = 3e-6, 2e-8  # seconds of the kernel that joins the parts: in all, and for each part of a row
_LEAST_PARTS = 4  # with fewer parts, cuDNN's kernel is faster
_LEAST_KEYS = 4096  # that a symbolic number of keys is taken to be: the KV cache is usually empty when the model is traced
LONG = 1024  # keys from which on a second kernel is worth its launch: to join parts, or to list a mask's visible blocks first
_WITH_TMA = 90  # compute capability from which on there is a tensor memory accelerator
_WARP_SPECIALIZED = "sm_90a"  # the architecture that the warp-specialized kernels are for
_TWO_GROUPS = 128  # queries from which on both warp groups of a CTA have work
_TILE = 2 * Specialized.queries  # queries of a CTA of two warp groups
_SMALL = 64  # head size up to which kernels without warp specialization are as fast
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
"""Forward schedules on Hopper and later, by the largest head size that they are for. For heads of 64 and 128 elements the first two
are the fastest measured, at 78% to 97% of the speed of cuDNN's kernel; blocks of 128 by 128 with two stages were slower."""
_AMPERE: tuple[tuple[int, tuple[Forward, ...]], ...] = (
    (64, (Forward(64, 64, 4, 3), Forward(128, 64, 8, 3), Forward(128, 32, 4, 3))),
    (128, (Forward(128, 64, 8, 3), Forward(64, 64, 4, 2), Forward(128, 32, 8, 3))),
    (MOST, (Forward(64, 64, 8, 2), Forward(64, 32, 8, 2))),
)
"""Forward schedules before Hopper, by the largest head size: only those that do not spill registers."""
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
"""Backward schedules on Hopper and later, by the largest head size: only those that do not spill registers."""
_BACKWARD_AMPERE: tuple[tuple[int, tuple[Backward, ...]], ...] = (
    (64, (Backward(64, 64, 64, 32, 4, 2), Backward(128, 64, 128, 32, 8, 2), Backward(64, 32, 64, 32, 4, 2))),
    (128, (Backward(64, 64, 64, 32, 8, 2), Backward(64, 32, 64, 32, 8, 2), Backward(64, 32, 64, 32, 4, 2))),
    (MOST, (Backward(64, 32, 32, 32, 8, 1),)),
)
"""Backward schedules for GPUs with less shared memory, by the largest head size."""


@dataclass(frozen=True)
class AttentionWork:
    """The problem that an attention kernel solves.

    heads, kv_heads   heads of queries, and of keys and values
    size, values      elements of a head of queries and keys, and of values
    causal            query i sees keys 0 to i
    masked            the kernel reads a mask
    sums              the rows' log-sum-exp is a result, too, for the backward pass
    window            sliding window: the most keys, counted back from its own, that a query sees; 0: all
    slopes            each score gets a bias that is linear in the distance of its key (ALiBi)
    by_head           each head has bounds of its own
    has_known_mask    there is a mask that Lamina's kernels do not read, or read once for each key; libraries read it for each score
    only_hides        the mask that is read only hides scores; it adds nothing to the others
    has_dropout       attention weights are dropped at random
    without_library   no library kernel may compute it
    has_cap           scores have a soft cap, which no library kernel supports
    backward          the gradients are computed
    symbolic          some sizes are symbolic; the fields hold their values in the call that was traced
    many_queries      the number of queries is symbolic, so there may be any number of them
    symbolic_lengths  the number of queries or of keys is symbolic
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
    by_head: bool = False
    has_known_mask: bool = False
    only_hides: bool = False
    has_dropout: bool = False
    without_library: bool = False
    has_cap: bool = False
    backward: bool = False
    symbolic: bool = False
    many_queries: bool = False
    symbolic_lengths: bool = False

    @property
    def rows(self) -> int:
        """Queries that share a KV head."""
        return self.heads // self.kv_heads * self.queries

    @property
    def is_few(self) -> bool:
        """Whether all queries that share a KV head fit in one block, so that the keys may be split among CTAs."""
        return self.rows <= _ROWS and not (
            self.many_queries or self.causal or self.window or self.sums or self.by_head or self.has_dropout
        )


def split_seconds(config: Split, work: AttentionWork, gpu: Gpu) -> float:
    """Estimates the seconds of split-KV attention: waves of CTAs, each bound by the memory traffic of its part of the keys, then
    the kernel that joins the parts."""
    programs, slots = work.batch * work.kv_heads * config.parts, gpu.sm_count * _RESIDENT
    part_bytes = -(-work.keys // config.parts // config.n) * config.n * (work.size + work.values) * 2
    waves, at_once = -(-programs // slots), max(gpu.sm_count, min(programs, slots))  # one CTA fills an SM's share of the bandwidth
    results = 2 * 4 * work.batch * work.heads * work.queries * config.parts * work.values  # f32, written and read again
    return waves * (_START + part_bytes * at_once / gpu.bandwidth) + results / gpu.bandwidth + _JOIN + config.parts * _JOINED


def candidates(work: AttentionWork, gpu: Gpu) -> tuple[Config, ...]:
    """Returns the schedules that suit the problem, the most promising first."""
    if work.backward:
        gradients = _for_head_size(_BACKWARD_HOPPER if gpu.shared_bytes >= _LARGE else _BACKWARD_AMPERE, work)
        return (*gradients, *_listed(gradients, work))
    if max(work.size, work.values) > MOST:
        return ()
    if work.is_few:
        return _splits(work, gpu)
    size = max(work.size, work.values)
    fit = _for_head_size(_HOPPER if gpu.capability >= _WITH_TMA else _AMPERE, work)
    if work.window:  # smaller blocks of queries meet fewer hidden keys
        fit.sort(key=lambda c: c.m)
    adds = work.masked or work.slopes  # with descriptors, these kernels spill registers
    fit = [c for c in fit if not (c.descriptors and adds) and shared_bytes(c, work) <= gpu.shared_bytes]
    if work.has_dropout:  # dropout needs registers, too
        narrow = adds and size > 64 and gpu.capability < _WITH_TMA
        fit = [c for c in fit if not (c.descriptors and c.warps == 4) and not (narrow and c.n > 32)]
    specialized: tuple[Config, ...] = _specialized(size, work) if gpu.arch == _WARP_SPECIALIZED and not work.symbolic else ()
    ordered = (*fit, *specialized) if size <= _SMALL else (*specialized, *fit)
    return (*ordered, *_listed(fit, work))


def _for_head_size(tables: Sequence[tuple[int, Sequence[Listing]]], work: AttentionWork) -> list[Listing]:
    """Returns the schedules for the problem's head size whose blocks of queries are at least half full, and those with the smallest
    blocks."""
    known = next((schedules for most, schedules in tables if max(work.size, work.values) <= most), ())
    smallest = min((c.m for c in known), default=0)
    return [c for c in known if c.m < 2 * work.queries or c.m == smallest]


def _listed(fit: Sequence[Listing], work: AttentionWork) -> list[Listing]:
    """Returns the first schedule again, with a kernel that lists the visible blocks first, where that may be worth it."""
    return [replace(c, blocks=1) for c in fit[:1] if work.only_hides and not work.symbolic and min(work.queries, work.keys) >= LONG]


def _specialized(size: int, work: AttentionWork) -> tuple[Specialized, ...]:
    """Returns the warp-specialized schedules; none unless both warp groups have queries and scores need nothing read or drawn."""
    if work.masked or work.slopes or work.has_dropout or work.has_cap or work.queries < _TWO_GROUPS:
        return ()
    if size <= _SMALL:
        return (Specialized(128, 2, 3),)
    return (Specialized(128, 2, 2), Specialized(64, 2, 4)) if size <= 128 else (Specialized(64, 2, 2),)


def shared_bytes(config: Forward, work: AttentionWork) -> int:
    """Returns the bytes of shared memory per CTA that Triton allocates without wgmma, derived from its generated code: for queries,
    for keys, values and the mask in flight, and for weights where several warps share rows. On Hopper it allocates more, but all of
    these schedules fit there."""
    size, values = (max(16, 1 << (n - 1).bit_length()) for n in (work.size, work.values))
    block = config.n * (size + values) + (config.m * config.n if work.masked else 0)
    shared = config.m * config.n if 16 * config.warps > config.m else 0
    return 2 * (config.m * size + (config.stages - 1) * block + shared)


def _splits(work: AttentionWork, gpu: Gpu) -> tuple[Config, ...]:
    """Returns split-KV schedules: the best numbers of parts for the most promising block of keys, and other blocks for the best
    number. If each query head has its own KV head, a schedule of one kernel is among them."""
    n = 64 if max(work.size, work.values) <= 128 else 32
    work = replace(work, keys=max(work.keys, _LEAST_KEYS)) if work.symbolic_lengths else work
    counts = [p for p in (1, 2, 4, 8, 16, 32, 64, 128) if p == 1 or -(-work.keys // p) >= 2 * n]
    parts = sorted((Split(n, p) for p in counts), key=lambda c: split_seconds(c, work, gpu))
    best = parts[0].parts
    others = (Split(n, best, 4, 4), Split(2 * n, best, 4, 3), Split(n // 2, best, 4, 4), Split(n, best, 2, 4))
    whole = (Forward(16, n, 4, 3),) if work.heads == work.kv_heads and work.queries <= 16 else ()
    return (*parts[:2], *whole, *parts[2:3], *others, *parts[3:5])


def default_schedule(work: AttentionWork, gpu: Gpu) -> Config | None:
    """Returns the default schedule if nothing was tuned; None for the library's kernel.

    The rules follow measurements, on an H200 unless another GPU is named; each is given where it is decided. Gradients without
    dropout were not compared with the libraries', and stay theirs.
    """
    fit = candidates(work, gpu)
    first = next(iter(fit), None)
    if work.without_library:
        return next((c for c in fit if getattr(c, "blocks", 0)), first)  # lists of visible blocks pay if a mask only hides
    if work.has_dropout or _library_is_costly(work, gpu):
        return first
    if work.backward:
        return None
    if work.causal and not (work.is_few or work.sums):
        return first if _causal_is_faster(first, work, gpu) else None
    if work.is_few and work.heads > work.kv_heads and work.keys >= LONG:
        split = next((c for c in fit if isinstance(c, Split)), None)
        return None if split is None or _cudnn_beats(split, work, gpu) else split
    return None


def _library_is_costly(work: AttentionWork, gpu: Gpu) -> bool:
    """Returns whether a library's kernel would need much besides its own time, in a graph without gradients.

    - A mask with a known meaning is never materialized for Lamina's kernels, whereas libraries read a number for each score, and
      compute hidden scores, too. A window of 1024 of 4096 keys took 283 us with warp specialization, 317 without it in blocks of 64
      queries (338 to 362 in blocks of 128), the library 1786; sequences of 16 to 496 of 512 keys took 46 us, the library 72.
    - cuDNN makes a plan for each new length, in 37 ms on an H100 (47 ms for gradients); a call takes 10 to 190 us. Without warp
      specialization Lamina's kernels took 0.84 to 1.40 times cuDNN's time there, flash attention 1.08 to 1.95 times. In training,
      steps are long and the same lengths come up again.
    """
    planned = work.symbolic_lengths and gpu.capability >= _WITH_TMA
    return (work.has_known_mask or planned) and not work.sums and not work.backward


def _causal_is_faster(first: Config | None, work: AttentionWork, gpu: Gpu) -> bool:
    """Returns whether causal attention by Lamina's first schedule is faster than cuDNN's: on Hopper, if it fills the GPU.

    4 x 16 heads of 128 elements take 461 us with warp specialization for 4096 queries and 142 for 2048, cuDNN 488 and 147; 2 x 8
    heads of 256 elements 76, cuDNN 94. 4 x 32 heads of 64 elements on 8 KV heads, 2048 queries: 175 without warp specialization,
    cuDNN 183; if each query head has its own KV head, cuDNN is faster. Attention that is not causal was not compared.
    """
    fills_gpu = work.batch * work.heads * work.queries >= gpu.sm_count * _TILE and work.queries >= LONG
    is_measured = isinstance(first, Specialized) or (work.heads > work.kv_heads and not work.masked)
    return is_measured and fills_gpu and gpu.arch == _WARP_SPECIALIZED


def _cudnn_beats(split: Split, work: AttentionWork, gpu: Gpu) -> bool:
    """Returns whether cuDNN's kernel is as fast as split keys: where few parts fill the GPU.

    32 query heads on 4 KV heads, 8192 keys of 128 elements, batches of 32, 8 and 1: Lamina takes 138, 48 and 16 us with as many
    parts as fill the GPU once, cuDNN 136, 49 and 18, flash attention, which other GPUs have, 140, 55 and 30. Library kernels that
    take a mask read each KV head eight times.
    """
    return split.parts < _LEAST_PARTS and not work.masked and gpu.capability >= _WITH_TMA
