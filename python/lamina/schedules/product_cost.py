"""Cost model of matrix products, by the library and by Lamina's schedules: waves of tiles, and memory traffic (`waves`).

Each schedule has the share of the tensor cores' peak that it reaches with its multiprocessors full, fitted to the times that
`waves` names and to products of 8192 x 2048 by 2048 x 8192 in bf16.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lamina.core.gpu import Gpu

from .contraction import GemmConfig
from .prologue_cost import THROUGH_REGISTERS, PrologueWork
from .waves import LAUNCH, tile_seconds

SCHEDULES: dict[GemmConfig, float] = {
    GemmConfig(128, 256, 64, 8, 3, 8, 1, 2): 1.00,
    GemmConfig(128, 128, 64, 4, 3, 8, 2, 2): 0.80,
    GemmConfig(128, 128, 64, 4, 3, 8, 2): 0.78,
    GemmConfig(128, 256, 64, 8, 4, 8, 1, 4): 1.00,
    GemmConfig(256, 128, 64, 8, 3, 8, 1, 2): 0.95,
    GemmConfig(128, 256, 64, 8, 3, 8, 1): 1.00,
    GemmConfig(128, 256, 64, 8, 3, 8, 0): 0.97,
    GemmConfig(128, 128, 64, 4, 3, 8, 0): 0.74,
    GemmConfig(64, 128, 64, 4, 4): 0.51,
    GemmConfig(64, 64, 64, 4, 4): 0.35,
    GemmConfig(64, 64, 64, 4, 4, descriptors=0): 0.39,
    GemmConfig(64, 32, 128, 4, 4, descriptors=0): 0.24,
    GemmConfig(32, 64, 128, 4, 4, descriptors=0): 0.18,
    GemmConfig(32, 32, 128, 4, 4, descriptors=0): 0.14,
    GemmConfig(16, 64, 128, 4, 5, descriptors=0): 0.12,
    GemmConfig(16, 32, 128, 2, 5, descriptors=0): 0.11,
    GemmConfig(128, 128, 64, 4, 6, 8, 1, 2, ping_pong=1): 0.98,
    GemmConfig(128, 128, 64, 4, 6, 8, 1, 4, ping_pong=1): 0.97,
}
"""The share of the peak that each reaches on large products."""
PAIRS: dict[GemmConfig, float] = {
    GemmConfig(128, 128, 64, 8, 4, 8, 0): 0.97,
    GemmConfig(256, 64, 64, 8, 3, 8, 0): 0.81,
    GemmConfig(128, 128, 64, 8, 4, 8, 0, joint=1): 1.00,
    GemmConfig(128, 128, 64, 8, 3, 8, 1, 4): 0.82,
    GemmConfig(128, 128, 64, 8, 3, 8, 1, joint=1): 0.82,
    GemmConfig(128, 128, 64, 8, 4, 8, 1, 2): 0.85,
    GemmConfig(128, 64, 64, 4, 3, 8, 2, 2): 0.66,
    GemmConfig(128, 64, 64, 4, 3, 8, 2, joint=1): 0.70,
    GemmConfig(64, 64, 64, 4, 4, descriptors=0): 0.46,
    GemmConfig(128, 64, 128, 8, 3): 0.41,
    GemmConfig(64, 64, 64, 4, 4): 0.42,
    GemmConfig(32, 64, 64, 4, 4, descriptors=0): 0.25,
    GemmConfig(16, 64, 128, 4, 4, descriptors=0): 0.13,
    GemmConfig(16, 32, 128, 2, 4, descriptors=0): 0.11,
    GemmConfig(128, 64, 64, 4, 6, 16, 1, ping_pong=1): 0.92,
}
"""The speeds for two products that share their left operand, whose tiles one CTA holds side by side."""

FED: dict[GemmConfig, float] = {GemmConfig(16, 32, 256, 4, 4, descriptors=0): 0.2}
"""The speed for one product of up to 16 rows with a fused prologue, as measured there: 8 rows by int8 weights of 4096 x 11008 took
25 us, with blocks of 64 x 128 of the weight 30."""

PARTS = (2, 4, 8, 16)  # of an inner dimension with split-K
_INNER = 64  # elements of two bytes of a step along the inner dimension
ROW = 16  # elements that each part is a multiple of, so that descriptors can step from one to the next
_MOST_IN_PARTS = 4  # candidates with split-K
WORTH = 0.97  # share of the library's time below which Lamina's kernel is the default
PROLOGUE_WORTH = 0.87  # the same with a fused prologue, whose cost was measured for one product only
KNOWN = 90  # the compute capability of the GPUs that these figures are for
_DESCRIPTORS = 1.15e-6  # seconds to make TMA descriptors
_LAST_EPILOGUE = 5.8e-10  # seconds per element of a warp's part of a tile: nothing hides the epilogue of the last one
_MATRIX, _OPERATION = 1.7e-10, 8e-12  # seconds that an element's epilogue takes with ping-pong, for each value moved, operation
_SPILLING, _SPILLED = (
    (4, 3),
    (1.25, 1.5),
)  # without and with ping-pong: values of an element, besides the product, of which halves of
# blocks spill, and how much longer the epilogue takes then
_BRIEF, _THROTTLED = 8e-5, (0.06, 0.15)  # seconds; share that later tiles take longer as power limits the clock, with ping-pong
_HANDOVER = 2.5e-6  # seconds that ping-pong takes until both groups of warps are busy
_REGISTERS = 70  # of a thread, besides its accumulators
_MOST_RESIDENT = 4  # CTAs of a multiprocessor that run at once without being persistent
_LIBRARY = 4.5e-6  # seconds of the library's kernel besides its tiles
_LIBRARY_TILES = {(128, 256): (1, 0.96), (128, 128): (1, 0.96), (64, 128): (2, 0.7), (64, 64): (3, 0.52)}  # CTAs; share of peak
_LIBRARY_PARTS, _LIBRARY_JOIN = (1, 2, 4), 1.2e-6  # split-K, and the seconds that adding its parts costs
_LIBRARY_STEP = 3.5e-7  # seconds of a step along the inner dimension at least
_BARRIERS, _WALKING, _PING_PONG = 64, 8448, 512  # bytes of shared memory besides the operands
_PASS = 3e-6  # seconds of a pointwise kernel, whatever its size
_WRITTEN = 0.84  # share of the memory bandwidth at which epilogues read and write
_STREAMED = 0.77  # share of the memory bandwidth that a pointwise kernel reaches
_ORDINARY = 0.34  # share of the f32 peak that epilogues reach: hardly anything in them is a fused multiply-add


@dataclass(frozen=True)
class GemmWork:
    """The problem that a GEMM kernel solves: `batch` products of m x k by k x n in a half type, with an epilogue.

    ops                operations of the epilogue per element
    reads              bytes that the epilogue reads besides the product
    writes             bytes of all results
    has_epilogue       whether the epilogue is more than the bias, which the library adds, too
    products           products that share the left operand: so many calls of the library
    item               bytes of an element of the operands, and of the product: 2, or 4 for f32 rounded to tf32; 1 for e4m3, whose
                       product has 2
    has_second_kernel  another of Lamina's kernels finishes the result, such as one that adds the sums of the product's tiles
    prologue           the prologue that computes operands, in Lamina's kernel, or before the library's
    held_twice         sums of e4m3 are held twice: in tensor cores for a step along the inner dimension, and in f32
    waste              bytes that the epilogue moves besides, where its elements are not neighbors in memory
    """

    batch: int
    m: int
    n: int
    k: int
    ops: int = 0
    reads: int = 0
    writes: int = 0
    has_epilogue: bool = True
    products: int = 1
    item: int = 2
    has_second_kernel: bool = False
    prologue: PrologueWork | None = None
    held_twice: bool = False
    waste: int = 0

    @property
    def elements(self) -> int:
        """Elements of one product."""
        return self.batch * self.m * self.n

    @property
    def values(self) -> float:
        """Values of two bytes that the epilogue reads and writes for each element of a product."""
        return (self.reads + self.writes + self.waste) / (2 * self.elements)

    @property
    def factors(self) -> int:
        """Bytes of the operands."""
        return self.batch * self.item * self.k * (self.m + self.products * self.n)

    def peak(self, gpu: Gpu) -> float:
        """Returns the peak operations per second of the tensor cores for this operand type."""
        return gpu.peak("tf32") if self.item == 4 else gpu.peak("bf16") * (2 if self.item == 1 else 1)


def library_seconds(work: GemmWork, gpu: Gpu) -> float:
    """Estimates the time of the library's product, with the best of its usual tiles, and of Lamina's pointwise kernel over its
    result where anything follows."""
    inner = _INNER * 2 // work.item

    def tiled(tile: tuple[int, int], parts: int) -> float:
        """Estimates the seconds of one of the library's tile sizes with split-K in `parts`."""
        (m, n), (resident, share) = tile, _LIBRARY_TILES[tile]
        step = 2 * m * n * inner * gpu.sm_count / (work.peak(gpu) * share)
        steps = -(-work.k // (parts * inner))
        tiles = parts * work.batch * -(-work.m // m) * -(-work.n // n)
        return tile_seconds(tiles, resident, steps, step, gpu, latency=_LIBRARY_STEP) + (parts > 1) * _LIBRARY_JOIN

    product = min(tiled(tile, parts) for tile in _LIBRARY_TILES for parts in _LIBRARY_PARTS)
    read = max(work.item, 2) * work.products * work.elements + work.reads
    passed = _PASS + (read + work.writes) / (gpu.bandwidth * _STREAMED) if work.has_epilogue else 0.0
    product = max(product, work.factors / work.products / gpu.bandwidth)
    if work.prologue is not None:
        passed += work.prologue.before_seconds(gpu)
    return work.products * (_LIBRARY + product) + passed


def lamina_seconds(config: GemmConfig, work: GemmWork, gpu: Gpu) -> float:
    """Estimates the time of Lamina's kernel: waves of tiles, or loading the operands if that is longer, and the epilogue. With
    split-K another kernel reads the partial sums and runs the epilogue."""
    rate = work.peak(gpu) * _schedules(work)[replace(config, parts=1)] * (THROUGH_REGISTERS if work.prologue else 1)
    step = 2 * work.products * config.m * config.n * config.k * gpu.sm_count / rate
    steps = -(-work.k // (config.parts * config.k))
    count = config.parts * blocks_of(config, work)
    tiles = tile_seconds(count, resident_ctas(config, work, gpu), steps, step, gpu)
    tiles += _THROTTLED[config.ping_pong] * max(tiles - _BRIEF, 0.0)
    moved = (work.reads + work.writes + work.waste) / (gpu.bandwidth * _WRITTEN)
    after = max(work.ops * work.elements / (gpu.peak("f32") * _ORDINARY), moved) * _spilled(config, work)
    if config.ping_pong and count > gpu.sm_count:
        after = count / gpu.sm_count * max(_turn_seconds(config, work) - steps * step, 0.0) / 2
    after += _LAST_EPILOGUE * work.products * config.m * config.n / config.warps
    launches = LAUNCH + config.descriptors * _DESCRIPTORS + config.ping_pong * _HANDOVER
    if config.parts > 1:
        sums = 4 * config.parts * work.products * work.elements
        launches += LAUNCH + 2 * sums / (gpu.bandwidth * _STREAMED)
    launches += work.has_second_kernel * _PASS
    read, inside = work.factors, 0.0
    if work.prologue is not None:
        read += work.prologue.reads - work.prologue.stored
        inside = work.prologue.inside_seconds(-(-work.m // config.m), -(-work.n // config.n), gpu)
    return launches + max(tiles, read / gpu.bandwidth) + inside + after


def _turn_seconds(config: GemmConfig, work: GemmWork) -> float:
    """Estimates the seconds of the epilogue of a tile with ping-pong, of which what is longer than the other group's product is
    exposed. Fitted to gradients of gated units with up to five matrices read and written, 4096 x 1024 by 1024 x 2816."""
    return config.m * config.n * (_MATRIX * work.values + _OPERATION * work.ops) * _spilled(config, work)


def _spilled(config: GemmConfig, work: GemmWork) -> float:
    """Returns how much longer an epilogue takes as its values find no room in registers: 1 where they do."""
    return _SPILLED[config.ping_pong] if work.values > _SPILLING[config.ping_pong] and config.split < 4 else 1.0


def resident_ctas(config: GemmConfig, work: GemmWork, gpu: Gpu) -> int:
    """Returns how many CTAs of a schedule a multiprocessor holds at once, by shared memory and registers."""
    if config.resident or config.ping_pong:
        return max(config.resident, 1)
    threads = 32 * config.warps
    of_thread = work.products * config.m * config.n // threads + _REGISTERS
    most = min(gpu.shared_bytes // max(shared_bytes(config, work), 1), gpu.registers // (threads * of_thread), _MOST_RESIDENT)
    return max(most, 1)


def blocks_of(config: GemmConfig, work: GemmWork) -> int:
    """Returns the number of tiles of the result."""
    return work.batch * -(-work.m // config.m) * -(-work.n // config.n)


def _schedules(work: GemmWork) -> dict[GemmConfig, float]:
    """Returns the share of the peak that each schedule reaches. The step along the inner dimension has as many bytes in other types
    as in half types."""
    table = PAIRS if work.products > 1 else SCHEDULES
    if work.held_twice:
        table = {c: share for c, share in PAIRS.items() if not c.joint}
    if work.prologue is not None and work.products == 1 and work.m <= 16:
        table = {**table, **FED}
    return table if work.item == 2 else {replace(c, k=c.k * 2 // work.item): share for c, share in table.items()}


def candidates(work: GemmWork, gpu: Gpu) -> tuple[GemmConfig, ...]:
    """Returns the schedules that suit the sizes and fit in shared memory, the most promising first."""
    ping_pong = gpu.capability == KNOWN and work.item == 2 and work.prologue is None
    known = [c for c in _schedules(work) if ping_pong or not c.ping_pong]
    suiting = [c for c in known if c.m < 2 * max(work.m, 16) and c.n < 2 * max(work.n, 32)]
    fitting = [c for c in suiting if shared_bytes(c, work) <= gpu.shared_bytes]
    fitting = fitting or [min(suiting, key=lambda c: shared_bytes(c, work))]
    return tuple(sorted([*fitting, *_in_parts(fitting, work, gpu)], key=lambda c: lamina_seconds(c, work, gpu)))


def shared_bytes(config: GemmConfig, work: GemmWork) -> int:
    """Returns the shared memory per CTA that Triton allocates without wgmma, derived from its generated code: operands in flight,
    or the inputs of their prologue, and a part of the result in persistent kernels. On Hopper it allocates more, but there is more
    than any of these schedules needs."""
    growth = max(1.0, work.prologue.reads / max(work.prologue.stored, 1)) if work.prologue is not None else 1.0
    step = config.k * (config.m + work.products * config.n) * work.item
    if config.ping_pong:
        return config.stages * step + 2 * config.m * config.n // config.split * work.item + _PING_PONG
    return int((config.stages - 1) * step * growth) + (_WALKING if config.resident else _BARRIERS)


def _in_parts(configs: Sequence[GemmConfig], work: GemmWork, gpu: Gpu) -> list[GemmConfig]:
    """Returns split-K variants, in the best number of parts, of the most promising schedules whose tiles leave SMs idle."""
    found = []
    for config in configs:
        parts = [p for p in PARTS if work.k % (p * ROW) == 0 and work.k >= 2 * p * config.k]
        if parts and not config.resident and blocks_of(config, work) < gpu.sm_count:
            found.append(min((replace(config, parts=p) for p in parts), key=lambda c: lamina_seconds(c, work, gpu)))
    return sorted(found, key=lambda c: lamina_seconds(c, work, gpu))[:_MOST_IN_PARTS]


def default_schedule(work: GemmWork, gpu: Gpu) -> GemmConfig | None:
    """Returns the default schedule where nothing was tuned; None for the library's kernel.

    The library is the default for tf32, and for sums along rows, where it was as fast with Lamina's pointwise kernels (8192 x 4096
    by 4096 x 4096: 405 us, Lamina's kernel 414).
    Split-K is not the default, since the library has it, too, unless a fused prologue reads fewer bytes than it computes.
    """
    fewer_bytes = work.prologue is not None and work.prologue.reads < work.prologue.stored
    best = next(c for c in candidates(work, gpu) if c.parts == 1 or fewer_bytes)
    if shared_bytes(best, work) > gpu.shared_bytes:
        return None
    worth = lamina_seconds(best, work, gpu) < (PROLOGUE_WORTH if work.prologue else WORTH) * library_seconds(work, gpu)
    known = work.item == 2 and not work.has_second_kernel and gpu.capability == KNOWN
    return best if worth and (work.has_epilogue or work.prologue) and known else None
