"""Cost model of matrix products, by the library and by Lamina's schedules: a roofline whose constants were measured on an H200.

Products of 8192 x 2048 by 2048 x 8192 in bf16 gave each schedule's share of the tensor cores' peak; launches of small products the
fixed cost; GELU after 8192 x 768 by 768 x 3072 the cost of an epilogue that nothing hides.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from lamina.core.gpu import Gpu

from .contraction import GemmConfig
from .prologue_cost import THROUGH_REGISTERS, Fed

SCHEDULES: dict[GemmConfig, float] = {
    GemmConfig(128, 256, 64, 8, 3, 8, 1, 2): 0.75,
    GemmConfig(128, 128, 64, 4, 3, 8, 2, 2): 0.66,
    GemmConfig(128, 128, 64, 4, 3, 8, 2): 0.65,
    GemmConfig(128, 256, 64, 8, 4, 8, 1, 4): 0.73,
    GemmConfig(256, 128, 64, 8, 3, 8, 1, 2): 0.68,
    GemmConfig(128, 256, 64, 8, 3, 8, 1): 0.73,
    GemmConfig(128, 256, 64, 8, 3, 8, 0): 0.64,
    GemmConfig(128, 128, 64, 4, 3, 8, 0): 0.60,
    GemmConfig(64, 128, 64, 4, 4): 0.44,
    GemmConfig(64, 64, 64, 4, 4): 0.32,
    GemmConfig(64, 64, 64, 4, 4, descriptors=0): 0.30,
    GemmConfig(64, 32, 128, 4, 4, descriptors=0): 0.20,
    GemmConfig(32, 64, 128, 4, 4, descriptors=0): 0.17,
    GemmConfig(32, 32, 128, 4, 4, descriptors=0): 0.13,
    GemmConfig(16, 64, 128, 4, 5, descriptors=0): 0.11,
    GemmConfig(16, 32, 128, 2, 5, descriptors=0): 0.10,
    GemmConfig(128, 128, 64, 4, 6, 8, 1, 2, ping_pong=1): 0.74,
}
"""The share of the peak that each reaches on large products."""
PAIRS: dict[GemmConfig, float] = {
    GemmConfig(128, 128, 64, 8, 4, 8, 0): 0.66,
    GemmConfig(256, 64, 64, 8, 3, 8, 0): 0.65,
    GemmConfig(128, 128, 64, 8, 4, 8, 0, joint=1): 0.64,
    GemmConfig(128, 128, 64, 8, 3, 8, 1, 4): 0.58,
    GemmConfig(128, 128, 64, 8, 3, 8, 1, joint=1): 0.58,
    GemmConfig(128, 128, 64, 8, 4, 8, 1, 2): 0.58,
    GemmConfig(128, 64, 64, 4, 3, 8, 2, 2): 0.50,
    GemmConfig(128, 64, 64, 4, 3, 8, 2, joint=1): 0.50,
    GemmConfig(64, 64, 64, 4, 4, descriptors=0): 0.35,
    GemmConfig(128, 64, 128, 8, 3): 0.33,
    GemmConfig(64, 64, 64, 4, 4): 0.33,
    GemmConfig(32, 64, 64, 4, 4, descriptors=0): 0.20,
    GemmConfig(16, 64, 128, 4, 4, descriptors=0): 0.11,
    GemmConfig(16, 32, 128, 2, 4, descriptors=0): 0.10,
    GemmConfig(128, 64, 64, 4, 6, 16, 1, ping_pong=1): 0.75,
}
"""The same of two products that share their left operand, whose tiles one CTA holds side by side. The shares of those with one dot
(`joint`), and of those of 16 and 32 rows, are guesses."""

FED: dict[GemmConfig, float] = {GemmConfig(16, 32, 256, 4, 4, descriptors=0): 0.2}
"""The same of one product of up to 16 rows with a fused prologue, as measured there: 8 rows by int8 weights of 4096 x 11008 took
25 us, with blocks of 64 x 128 of the weight 30."""

PARTS = (2, 4, 8, 16)  # of an inner dimension with split-K
ROW = 16  # elements that each part is a multiple of, so that descriptors can step from one to the next
_MOST_IN_PARTS = 4  # candidates with split-K
WORTH = 0.92  # share of the library's time below which Lamina's kernel is the default
FED_WORTH = 0.87  # the same with a fused prologue, whose cost was measured for one product only
_KNOWN = 90  # the compute capability of the GPUs that these figures are for
_LAUNCH = 4e-6  # seconds of Lamina's kernel, with the latency of its first loads and of its stores
_DESCRIPTORS = 1e-6  # seconds to make TMA descriptors
_STEP = 5.5e-7  # seconds of a step along the inner dimension at least: its loads' latency over the stages
_LIBRARY = 5e-6  # seconds of the library's kernel, whatever its size
_LIBRARY_SHARE, _LIBRARY_RAMP = 0.82, 200  # share of the peak; elements of the inner dimension that filling the pipeline costs
_BARRIERS, _WALKING, _PING_PONG = 64, 8448, 512  # bytes of shared memory beside the operands
_PASS = 3e-6  # seconds of a pointwise kernel, whatever its size
_OVERLAP = 0.5  # exposed share of an epilogue where another CTA of the SM multiplies meanwhile
_HIDDEN = 0.1  # the same for ping-pong schedules
_CLASSES = (64, 256, 1024, 4096, 16384)  # rows for which schedules of a symbolic number of rows are compared
_IDLE = 1.6  # times the estimate that ping-pong takes where it does not fill the GPU: 128 to 1500 rows by 768 x 3072, on an H100
_FEWER = 0.9  # share of the general schedule's time below which calls with few rows have a kernel of their own
_ROWS, _ACTIVATION = 2048, 8  # rows of the result, and operations per element, from which on ping-pong is the default
_ORDINARY = 0.4  # share of the f32 peak that epilogues reach: hardly anything in them is a fused multiply-add


@dataclass(frozen=True)
class GemmWork:
    """The problem that a GEMM kernel solves: `batch` products of m x k by k x n in a half type, with an epilogue.

    ops       operations of the epilogue per element
    reads     bytes that the epilogue reads beside the product
    writes    bytes of all results
    follows   whether the epilogue is more than the bias, which the library adds, too
    products  products that share the left operand: so many calls of the library
    item      bytes of an element of the operands, and of the product: 2, or 4 for f32 rounded to tf32; 1 for e4m3, whose product
              has 2
    goes_on   another of Lamina's kernels finishes the result, such as one that adds the sums of the product's tiles
    fed       the prologue that computes operands, in Lamina's kernel, or before the library's
    doubled   sums of e4m3 are held twice: in tensor cores for a step along the inner dimension, and in f32
    """

    batch: int
    m: int
    n: int
    k: int
    ops: int = 0
    reads: int = 0
    writes: int = 0
    follows: bool = True
    products: int = 1
    item: int = 2
    goes_on: bool = False
    fed: Fed | None = None
    doubled: bool = False

    @property
    def elements(self) -> int:
        """Elements of one product."""
        return self.batch * self.m * self.n

    @property
    def factors(self) -> int:
        """Bytes of the operands."""
        return self.batch * self.item * self.k * (self.m + self.products * self.n)

    def peak(self, gpu: Gpu) -> float:
        """Peak operations per second of the tensor cores for this operand type."""
        return gpu.peak("tf32") if self.item == 4 else gpu.peak("bf16") * (2 if self.item == 1 else 1)


def library_seconds(work: GemmWork, gpu: Gpu) -> float:
    """Estimates the time of the library's product, and of Lamina's pointwise kernel over its result where anything follows. Loading
    the operands is left out, so that it never makes Lamina's kernel the default."""
    product = 2 * work.elements * (work.k + _LIBRARY_RAMP) / (work.peak(gpu) * _LIBRARY_SHARE)
    read = max(work.item, 2) * work.products * work.elements + work.reads
    passed = _PASS + (read + work.writes) / gpu.bandwidth if work.follows else 0.0
    if work.fed is not None:
        product = max(product, work.factors / work.products / gpu.bandwidth)
        passed += work.fed.before_seconds(gpu)
    return work.products * (_LIBRARY + product) + passed


def our_seconds(config: GemmConfig, work: GemmWork, gpu: Gpu) -> float:
    """Estimates the time of Lamina's kernel: waves of tiles, or loading the operands if that is longer, and the epilogue, which
    little hides. With split-K another kernel reads the partial sums and runs the epilogue."""
    blocks = config.parts * blocks_of(config, work)
    slots = gpu.sm_count * (1 if config.ping_pong else max(config.resident, 2 if config.warps <= 4 else 1))
    steps = -(-work.k // (config.parts * config.k))
    rate = work.peak(gpu) * _share(config, work) * (THROUGH_REGISTERS if work.fed else 1) / slots
    step = _STEP / (2 if config.ping_pong else 1)  # the next tile's loads do not wait for the end of this one
    block = max(2 * work.products * config.m * config.n * config.k * steps / rate, steps * step)
    sums = 4 * config.parts * work.products * work.elements if config.parts > 1 else 0
    moved = (2 * sums + work.reads + work.writes) / gpu.bandwidth
    after = max(work.ops * work.elements / (gpu.peak("f32") * _ORDINARY), moved)
    hidden = _HIDDEN if config.ping_pong else _OVERLAP if config.resident > 1 else 1.0
    hidden = hidden if blocks > slots else 1.0
    launches = _LAUNCH + config.descriptors * _DESCRIPTORS + (work.goes_on or config.parts > 1) * _PASS
    read, inside = work.factors, 0.0
    if work.fed is not None:
        read += work.fed.reads - work.fed.stored
        inside = work.fed.inside_seconds(-(-work.m // config.m), -(-work.n // config.n), gpu)
    return launches + max(-(-blocks // slots) * block, read / gpu.bandwidth) + inside + after * hidden


def blocks_of(config: GemmConfig, work: GemmWork) -> int:
    """Number of tiles of the result."""
    return work.batch * -(-work.m // config.m) * -(-work.n // config.n)


def _share(config: GemmConfig, work: GemmWork) -> float:
    return _schedules(work)[replace(config, parts=1)]


def _schedules(work: GemmWork) -> dict[GemmConfig, float]:
    """Share of the peak by schedule. The step along the inner dimension has as many bytes in other types as in half types."""
    table = PAIRS if work.products > 1 else SCHEDULES
    if work.doubled:
        table = {c: share for c, share in PAIRS.items() if not c.joint}
    if work.fed is not None and work.products == 1 and work.m <= 16:
        table = {**table, **FED}
    return table if work.item == 2 else {replace(c, k=c.k * 2 // work.item): share for c, share in table.items()}


def candidates(work: GemmWork, gpu: Gpu) -> tuple[GemmConfig, ...]:
    """Returns the schedules that suit the sizes and fit in shared memory, the most promising first."""
    ping_pong = gpu.capability == _KNOWN and work.item == 2 and work.fed is None
    known = [c for c in _schedules(work) if ping_pong or not c.ping_pong]
    suiting = [c for c in known if c.m < 2 * max(work.m, 16) and c.n < 2 * max(work.n, 32)]
    fitting = [c for c in suiting if shared_bytes(c, work) <= gpu.shared_bytes]
    fitting = fitting or [min(suiting, key=lambda c: shared_bytes(c, work))]
    return tuple(sorted([*fitting, *_in_parts(fitting, work, gpu)], key=lambda c: our_seconds(c, work, gpu)))


def shared_bytes(config: GemmConfig, work: GemmWork) -> int:
    """Returns the shared memory per CTA that Triton allocates without wgmma, derived from its generated code: operands in flight,
    or the inputs of their prologue, and a part of the result in persistent kernels. On Hopper it allocates more, but there is more
    than any of these schedules needs."""
    of = max(1.0, work.fed.reads / max(work.fed.stored, 1)) if work.fed is not None else 1.0
    step = config.k * (config.m + work.products * config.n) * work.item
    if config.ping_pong:
        return config.stages * step + 2 * config.m * config.n // config.split * work.item + _PING_PONG
    return int((config.stages - 1) * step * of) + (_WALKING if config.resident else _BARRIERS)


def _in_parts(configs: Sequence[GemmConfig], work: GemmWork, gpu: Gpu) -> list[GemmConfig]:
    """Split-K variants, in the best number of parts, of the most promising schedules whose tiles leave SMs idle."""
    found = []
    for config in configs:
        parts = [p for p in PARTS if work.k % (p * ROW) == 0 and work.k >= 2 * p * config.k]
        idle = not config.resident and blocks_of(config, work) < gpu.sm_count
        ways = [config, *(replace(config, parts=p) for p in parts if idle)]
        best = min(ways, key=lambda c: our_seconds(c, work, gpu))
        found += [best] if best.parts > 1 else []
    return sorted(found, key=lambda c: our_seconds(c, work, gpu))[:_MOST_IN_PARTS]


def unmeasured(work: GemmWork, gpu: Gpu) -> GemmConfig | None:
    """Returns the default schedule where nothing was tuned; None for the library's kernel.

    The library is the default for tf32, for pairs and for sums along rows, too: followed by Lamina's pointwise kernels it was as
    fast where these were measured (a pair of 8192 x 2048 by 2048 x 8192: 906 us, Lamina's kernel 908; the sum of 8192 x 4096 by
    4096 x 4096: 405 and 414). Ping-pong is the default for pairs and activations of many rows (for that pair a prototype took
    796 us, the library 973; for GELU after 8192 x 768 by 768 x 3072 it took 69, the library 103, tiles without ping-pong 79), but
    not for residuals, where it gained 3 %.
    Split-K is no default, since the library has it, too, unless a fused prologue reads fewer bytes than it computes.
    """
    fewer_bytes = work.fed is not None and work.fed.reads < work.fed.stored
    best = next(
        c for c in candidates(work, gpu) if (c.parts == 1 or fewer_bytes) and (not c.ping_pong or _ping_pong_pays(c, work, gpu))
    )
    if shared_bytes(best, work) > gpu.shared_bytes:
        return None
    worth = our_seconds(best, work, gpu) < (FED_WORTH if work.fed else WORTH) * library_seconds(work, gpu)
    known = (work.products == 1 or best.ping_pong) and work.item == 2 and not work.goes_on and gpu.capability == _KNOWN
    return best if worth and (work.follows or work.fed) and known else None


def for_all_sizes(work: GemmWork, gpu: Gpu, *, rows: bool) -> GemmConfig | None:
    """Returns the default schedule of a product whose number of rows, or else of columns, is symbolic: that with the least time
    over sizes from 64 to 16384, relative to the best at each. None where the library with what follows it is ahead.

    Its other sizes are those of `work`. Schedules whose tiles are larger than a result would not be candidates for it alone."""
    if not (work.follows and work.products == 1 and work.item == 2 and not work.goes_on and gpu.capability == _KNOWN):
        return None
    whole = [_resized(work, n, rows) for n in _CLASSES]
    known = {c for one in whole for c in candidates(one, gpu) if c.parts == 1 and shared_bytes(c, one) <= gpu.shared_bytes}
    known = {c for c in known if not c.ping_pong or work.ops >= _ACTIVATION}

    def time(config: GemmConfig | None, one: GemmWork) -> float:
        return library_seconds(one, gpu) if config is None else our_seconds(config, one, gpu)

    best = [min(time(c, one) for c in (*known, None)) for one in whole]
    ratios = {c: prod(time(c, one) / least for one, least in zip(whole, best, strict=True)) for c in (*known, None)}
    chosen = min(known, key=lambda c: ratios[c])
    return chosen if ratios[chosen] < WORTH ** len(whole) * ratios[None] else None


def for_fewer(work: GemmWork, gpu: Gpu, general: GemmConfig, *, rows: bool) -> list[tuple[int, GemmConfig]]:
    """Returns schedules for calls with at most so many rows, or else columns, in order, each where it takes less than _FEWER of the
    time of the one for more of them. work: with any number of them; general: the schedule for the most."""

    def time(config: GemmConfig, one: GemmWork) -> float:
        idle = config.ping_pong and not _ping_pong_pays(config, one, gpu)
        return our_seconds(config, one, gpu) * (_IDLE if idle else 1.0)

    found: list[tuple[int, GemmConfig]] = []
    larger = general
    for n in reversed(_CLASSES[:-2]):
        one = _resized(work, n, rows)
        fit = [c for c in candidates(one, gpu) if c.parts == 1 and not c.ping_pong and shared_bytes(c, one) <= gpu.shared_bytes]
        best = min(fit, key=lambda c, one=one: time(c, one), default=larger)  # type: ignore[misc]
        if time(best, one) < _FEWER * time(larger, one):
            found, larger = [(n, best), *found], best
    return found


def _resized(work: GemmWork, n: int, rows: bool) -> GemmWork:
    """Returns the work for another number of rows or columns; what the epilogue reads and writes grows with it."""
    old = work.m if rows else work.n
    moved = replace(work, reads=work.reads * n // old, writes=work.writes * n // old)
    return replace(moved, m=n) if rows else replace(moved, n=n)


def _ping_pong_pays(config: GemmConfig, work: GemmWork, gpu: Gpu) -> bool:
    """Returns whether ping-pong was measured to be faster for problems of this kind."""
    many = work.m >= _ROWS and blocks_of(config, work) >= gpu.sm_count
    return many and (work.products > 1 or work.ops >= _ACTIVATION)
