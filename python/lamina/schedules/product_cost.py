"""What products of matrices cost, by the library and by schedules of ours: a roofline whose constants were measured on an H200.

Products of 8192 x 2048 by 2048 x 8192 in bf16 gave what share of the tensor cores' peak each schedule reaches; launches of small
ones what each takes whatever its size; GELU after 8192 x 768 by 768 x 3072 what an epilogue costs that nothing hides.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamina.core.gpu import Gpu

from .contraction import Config
from .prologue_cost import THROUGH_REGISTERS, Fed

SCHEDULES: dict[Config, float] = {
    Config(128, 256, 64, 8, 3, 8, 1, 2): 0.75,
    Config(128, 128, 64, 4, 3, 8, 2, 2): 0.66,
    Config(128, 128, 64, 4, 3, 8, 2): 0.65,
    Config(128, 256, 64, 8, 4, 8, 1, 4): 0.73,
    Config(256, 128, 64, 8, 3, 8, 1, 2): 0.68,
    Config(128, 256, 64, 8, 3, 8, 1): 0.73,
    Config(128, 256, 64, 8, 3, 8, 0): 0.64,
    Config(128, 128, 64, 4, 3, 8, 0): 0.60,
    Config(64, 128, 64, 4, 4): 0.44,
    Config(64, 64, 64, 4, 4): 0.32,
    Config(64, 64, 64, 4, 4, descriptors=0): 0.30,
    Config(64, 32, 128, 4, 4, descriptors=0): 0.20,
    Config(32, 64, 128, 4, 4, descriptors=0): 0.17,
    Config(32, 32, 128, 4, 4, descriptors=0): 0.13,
    Config(16, 64, 128, 4, 5, descriptors=0): 0.11,
    Config(16, 32, 128, 2, 5, descriptors=0): 0.10,
    Config(128, 128, 64, 4, 6, 8, 1, 2, ping_pong=1): 0.74,
}
"""The share of the peak that each reaches on large products."""
PAIRS: dict[Config, float] = {
    Config(128, 128, 64, 8, 4, 8, 0): 0.66,
    Config(256, 64, 64, 8, 3, 8, 0): 0.65,
    Config(128, 128, 64, 8, 4, 8, 0, joint=1): 0.64,
    Config(128, 128, 64, 8, 3, 8, 1, 4): 0.58,
    Config(128, 128, 64, 8, 3, 8, 1, joint=1): 0.58,
    Config(128, 128, 64, 8, 4, 8, 1, 2): 0.58,
    Config(128, 64, 64, 4, 3, 8, 2, 2): 0.50,
    Config(128, 64, 64, 4, 3, 8, 2, joint=1): 0.50,
    Config(64, 64, 64, 4, 4, descriptors=0): 0.35,
    Config(128, 64, 128, 8, 3): 0.33,
    Config(64, 64, 64, 4, 4): 0.33,
    Config(32, 64, 64, 4, 4, descriptors=0): 0.20,
    Config(16, 64, 128, 4, 4, descriptors=0): 0.11,
    Config(16, 32, 128, 2, 4, descriptors=0): 0.10,
    Config(128, 64, 64, 4, 6, 16, 1, ping_pong=1): 0.75,
}
"""The same of two products that share their left factor, whose blocks lie side by side. Those with one dot (`joint`), and those of
16 and 32 rows, are guesses."""

FED: dict[Config, float] = {Config(16, 32, 256, 4, 4, descriptors=0): 0.2}
"""The same of one product of up to 16 rows whose factors are computed in the kernel, by what it reaches there: 8 rows by int8
weights of 4096 x 11008 took 25 us, by blocks of 64 x 128 of the weight 30."""

PARTS = (2, 4, 8, 16)  # into which an inner dimension is cut
ROW = 16  # elements that each part is a multiple of, so that descriptors can step from one to the next
_MOST_IN_PARTS = 4  # of candidates
WORTH = 0.92  # of the library's time, from which on a schedule of ours is taken unmeasured
FED_WORTH = 0.87  # the same, where factors are computed in the kernel: what that costs was measured of one product
_KNOWN = 90  # the compute capability of the GPUs that these figures are of
_LAUNCH = 4e-6  # of a kernel of ours, with the latency of its first loads and of its stores
_DESCRIPTORS = 1e-6
_STEP = 5.5e-7  # of a block of the inner dimension, at least: its loads' latency over the stages
_LIBRARY = 5e-6
_LIBRARY_SHARE, _LIBRARY_RAMP = 0.82, 200  # of the peak, and elements of the inner dimension that filling its pipeline costs
_BARRIERS, _WALKING, _PING_PONG = 64, 8448, 512  # bytes of shared memory beside the factors
_PASS = 3e-6  # of a pointwise kernel, whatever its size
_OVERLAP = 0.5  # of an epilogue, where another CTA of the SM multiplies meanwhile
_HIDDEN = 0.1  # the same, of ping-pong schedules
_ROWS, _ACTIVATION = 2048, 8  # rows of the result, and operations of an element, from which on ping-pong is taken unmeasured
_ORDINARY = 0.4  # of the peak in f32 that epilogues reach: hardly anything in them is a fused multiply-add


@dataclass(frozen=True)
class Work:
    """`batch` products of m x k by k x n in a half type, and what follows each element of the result.

    ops       operations of an element
    reads     bytes that it reads beside the product
    writes    bytes of all results
    follows   whether that is more than the bias, which the library adds, too
    products  that share the left factor: so many calls of the library
    item      bytes of an element of the factors, and of the product: 2, or 4 of f32 that are rounded to tf32; 1 of e4m3, whose
              product has 2
    goes_on   another kernel of ours goes on, such as one that sums what the product's kernel has summed block by block
    fed       what computes factors, in our kernel, or before the library's
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
        return self.batch * self.m * self.n

    @property
    def factors(self) -> int:
        """Their bytes."""
        return self.batch * self.item * self.k * (self.m + self.products * self.n)

    def peak(self, gpu: Gpu) -> float:
        return gpu.peak("tf32") if self.item == 4 else gpu.peak("bf16") * (2 if self.item == 1 else 1)


def library_seconds(work: Work, gpu: Gpu) -> float:
    """The vendor's product, and a pass of ours over its result where anything follows. The factors' way here is left out, so that
    nothing of ours is taken unmeasured because of it."""
    product = 2 * work.elements * (work.k + _LIBRARY_RAMP) / (work.peak(gpu) * _LIBRARY_SHARE)
    read = max(work.item, 2) * work.products * work.elements + work.reads
    passed = _PASS + (read + work.writes) / gpu.bandwidth if work.follows else 0.0
    if work.fed is not None:
        product = max(product, work.factors / work.products / gpu.bandwidth)
        passed += work.fed.before_seconds(gpu)
    return work.products * (_LIBRARY + product) + passed


def our_seconds(config: Config, work: Work, gpu: Gpu) -> float:
    """Rounds of blocks, as many as run at once, or the factors' way here, and the epilogue, which little hides. Of an inner
    dimension in parts, another kernel does what follows, and reads their sums."""
    blocks = config.parts * blocks_of(config, work)
    slots = gpu.sm_count * (1 if config.ping_pong else max(config.resident, 2 if config.warps <= 4 else 1))
    steps = -(-work.k // (config.parts * config.k))
    rate = work.peak(gpu) * _share(config, work) * (THROUGH_REGISTERS if work.fed else 1) / slots
    step = _STEP / (2 if config.ping_pong else 1)  # the next block's loads do not wait for this one's end
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


def blocks_of(config: Config, work: Work) -> int:
    """Of the result."""
    return work.batch * -(-work.m // config.m) * -(-work.n // config.n)


def _share(config: Config, work: Work) -> float:
    return _schedules(work)[replace(config, parts=1)]


def _schedules(work: Work) -> dict[Config, float]:
    """By the share of the peak. As many bytes of other types as of half types are multiplied at a time."""
    table = PAIRS if work.products > 1 else SCHEDULES
    if work.doubled:
        table = {c: share for c, share in PAIRS.items() if not c.joint}
    if work.fed is not None and work.products == 1 and work.m <= 16:
        table = {**table, **FED}
    return table if work.item == 2 else {replace(c, k=c.k * 2 // work.item): share for c, share in table.items()}


def candidates(work: Work, gpu: Gpu) -> tuple[Config, ...]:
    """The schedules that suit the sizes and whose blocks find room, the most promising first."""
    ping_pong = gpu.capability == _KNOWN and work.item == 2 and work.fed is None
    known = [c for c in _schedules(work) if ping_pong or not c.ping_pong]
    suiting = [c for c in known if c.m < 2 * max(work.m, 16) and c.n < 2 * max(work.n, 32)]
    fitting = [c for c in suiting if shared_bytes(c, work) <= gpu.shared_bytes]
    fitting = fitting or [min(suiting, key=lambda c: shared_bytes(c, work))]
    return tuple(sorted([*fitting, *_in_parts(fitting, work, gpu)], key=lambda c: our_seconds(c, work, gpu)))


def shared_bytes(config: Config, work: Work) -> int:
    """What a block asks for by Triton's compiler without wgmma, as seen of its code: factors in flight, or what they are computed
    of, and a part of the result where blocks are walked over. On Hopper it is more, of more than any of ours needs."""
    of = max(1.0, work.fed.reads / max(work.fed.stored, 1)) if work.fed is not None else 1.0
    step = config.k * (config.m + work.products * config.n) * work.item
    if config.ping_pong:
        return config.stages * step + 2 * config.m * config.n // config.split * work.item + _PING_PONG
    return int((config.stages - 1) * step * of) + (_WALKING if config.resident else _BARRIERS)


def _in_parts(configs: Sequence[Config], work: Work, gpu: Gpu) -> list[Config]:
    """The most promising of those whose blocks leave multiprocessors idle, the inner dimension in as many parts as are best."""
    found = []
    for config in configs:
        parts = [p for p in PARTS if work.k % (p * ROW) == 0 and work.k >= 2 * p * config.k]
        idle = not config.resident and blocks_of(config, work) < gpu.sm_count
        ways = [config, *(replace(config, parts=p) for p in parts if idle)]
        best = min(ways, key=lambda c: our_seconds(c, work, gpu))
        found += [best] if best.parts > 1 else []
    return sorted(found, key=lambda c: our_seconds(c, work, gpu))[:_MOST_IN_PARTS]


def unmeasured(work: Work, gpu: Gpu) -> Config | None:
    """The schedule to take where nothing was measured; None for the library.

    That is taken for tf32, for pairs and for sums along rows, too: with passes of ours it was as fast where these were measured
    (906 us, and 908 by ours, of a pair of 8192 x 2048 by 2048 x 8192; 405 and 414 of the sum of 8192 x 4096 by 4096 x 4096). But
    ping-pong is taken for pairs and activations of many rows (a prototype took 796 us of that pair, where the library took 973, and
    69 of GELU after 8192 x 768 by 768 x 3072, where it took 103 and blocks without ping-pong 79), not for residuals, of which it
    gained 3 %.
    Inner dimensions in parts are not taken before they were measured, but where factors are computed of fewer bytes, too: the
    library has these.
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


def _ping_pong_pays(config: Config, work: Work, gpu: Gpu) -> bool:
    """Whether ping-pong was measured to be faster on products of this kind."""
    many = work.m >= _ROWS and blocks_of(config, work) >= gpu.sm_count
    return many and (work.products > 1 or work.ops >= _ACTIVATION)
