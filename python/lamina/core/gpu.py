"""Models of NVIDIA GPUs: the limits and peak rates that schedules, targets and the roofline use.

Figures are those of one common board of each architecture, from the sources named next to them. Bandwidth is in bytes per second,
peaks in FLOP per second. Peaks are dense, without sparsity: of the tensor cores for f16, bf16 and tf32, of the ordinary units for
f32 and f64.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import CompileError, suggestion

OLDEST = 80
KIB, MIB = 1 << 10, 1 << 20


@dataclass(frozen=True)
class Gpu:
    """A GPU.

    arch          its name to ptxas, e.g. "sm_90a"; a trailing "a" allows what later chips need not have (wgmma)
    board         the board whose figures these are
    sm_count      multiprocessors
    shared_bytes  shared memory that one block may ask for, at most
    registers     32-bit registers of one multiprocessor
    l2            bytes of the second-level cache
    bandwidth     bytes per second between the chip and its memory, read and write together
    peaks         (dtype, FLOP per second) for f64, f32, tf32, f16, bf16
    source        where the figures come from
    launch        seconds that a kernel takes besides moving its bytes
    """

    arch: str
    board: str
    sm_count: int
    shared_bytes: int
    registers: int
    l2: int
    bandwidth: float
    peaks: tuple[tuple[str, float], ...]
    source: str
    launch: float = 2e-6

    @staticmethod
    def named(arch: str) -> Gpu:
        """Returns the GPU of an architecture such as "sm_80" or "sm_90a". Raises CompileError for an unknown or too old one."""
        if found := _GPUS.get(arch):
            return found
        known = ", ".join(_GPUS)
        number = re.fullmatch(r"sm_(\d+)[af]?", arch)
        if number and int(number[1]) < OLDEST:
            raise CompileError(
                f"{arch} is too old: the oldest GPU that Lamina compiles for is sm_{OLDEST}", remedy=f"known: {known}"
            )
        raise CompileError(f"no GPU architecture is called {arch!r}", remedy=suggestion(arch, _GPUS))

    @staticmethod
    def of_capability(major: int, minor: int) -> Gpu:
        """Returns the GPU of a compute capability, with architecture-specific features where it has any: (9, 0) is sm_90a."""
        plain = f"sm_{major}{minor}"
        return Gpu.named(f"{plain}a" if f"{plain}a" in _GPUS else plain)

    @property
    def capability(self) -> int:
        """The number in the name, 90 for sm_90a."""
        return int(self.arch.removeprefix("sm_").rstrip("af"))

    def peak(self, dtype: str) -> float:
        """Returns the peak in FLOP per second of a dtype. Raises KeyError for one without a figure."""
        return dict(self.peaks)[dtype]

    @property
    def identity(self) -> str:
        """The part of a cache key that names all that code for this GPU depends on."""
        return f"{self.arch}:{self.sm_count}:{self.shared_bytes}:{self.registers}:{self.l2}:{self.bandwidth:.3e}"


def _gpu(arch: str, board: str, sms: int, shared: int, l2: int, gb_s: float, teraflops: tuple[float, ...], source: str) -> Gpu:
    """Makes an entry from data sheet units: KiB of shared memory, MiB of L2, GB/s, and TFLOP/s of f64, f32, tf32, f16, bf16."""
    peaks = tuple((dtype, t * 1e12) for dtype, t in zip(("f64", "f32", "tf32", "f16", "bf16"), teraflops, strict=True))
    return Gpu(arch, board, sms, shared * KIB, 65536, l2 * MIB, gb_s * 1e9, peaks, source)


# Shared memory per block and registers: CUDA C Programming Guide, table "Technical Specifications per Compute Capability".
# H200: 4276 GB/s is the measured rate of a copy; its data sheet says 4800.
_HOPPER = (
    "H200 SXM",
    132,
    227,
    50,
    4276.0,
    (34.0, 67.0, 494.7, 989.4, 989.4),
    "measured copy; H200 data sheet, H100 white paper (L2)",
)
_BLACKWELL = ("B200", 148, 227, 126, 8000.0, (37.0, 75.0, 1125.0, 2250.0, 2250.0), "HGX B200 data sheet")
_RTX50 = ("RTX 5090", 170, 99, 96, 1792.0, (1.6, 104.8, 104.8, 209.5, 209.5), "RTX Blackwell architecture white paper")
_GPUS = {
    gpu.arch: gpu
    for gpu in (
        _gpu("sm_80", "A100 SXM 80 GB", 108, 163, 40, 2039.0, (9.7, 19.5, 156.0, 312.0, 312.0), "A100 data sheet"),
        _gpu("sm_86", "A40", 84, 99, 6, 696.0, (0.58, 37.4, 74.8, 149.7, 149.7), "A40 data sheet"),
        _gpu("sm_89", "L40S", 142, 99, 96, 864.0, (1.4, 91.6, 183.0, 362.0, 362.0), "L40S data sheet"),
        _gpu("sm_90", *_HOPPER),
        _gpu("sm_90a", *_HOPPER),
        _gpu("sm_100", *_BLACKWELL),
        _gpu("sm_100a", *_BLACKWELL),
        _gpu("sm_120", *_RTX50),
        _gpu("sm_120a", *_RTX50),
    )
}
