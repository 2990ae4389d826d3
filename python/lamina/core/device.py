"""CPU models: the processor features, cores and cache sizes that schedules and code generation depend on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .errors import CompileError, suggestion

# LLVM's names of x86 processors, by the width of the vectors to use there
_PROCESSORS = {
    512: "skylake-avx512 skx cascadelake cooperlake cannonlake icelake-client icelake-server tigerlake rocketlake sapphirerapids "
    "emeraldrapids graniterapids graniterapids-d diamondrapids znver4 znver5 x86-64-v4",
    256: "haswell broadwell skylake alderlake raptorlake meteorlake arrowlake arrowlake-s lunarlake pantherlake gracemont "
    "sierraforest grandridge clearwaterforest bdver4 znver1 znver2 znver3 x86-64-v3",
    128: "nehalem westmere sandybridge ivybridge silvermont goldmont tremont bdver2 bdver3 btver2 x86-64 x86-64-v2",
}
_SIMD_BITS = {name: bits for bits, names in _PROCESSORS.items() for name in names.split()}


@dataclass(frozen=True)
class Cpu:
    """A processor.

    processor   its name to LLVM, e.g. "znver4"
    features    LLVM's feature string, "+avx2,-avx512f,..."; "" for what the name implies
    simd_bits   width of the vector registers that code should use
    cores       that this process may run on
    l1, l2, l3  data cache bytes (l1 and l2 of one core, l3 as the host sees it); 0 when unknown
    """

    processor: str
    features: str
    simd_bits: int
    cores: int
    l1: int
    l2: int
    l3: int

    @staticmethod
    def named(processor: str) -> Cpu:
        """Returns the model of an x86 processor by LLVM's name, with the caches and cores of this host. Raises CompileError for an
        unknown name."""
        if processor not in _SIMD_BITS:
            raise CompileError(f"no processor is called {processor!r}", remedy=suggestion(processor, _SIMD_BITS))
        here = host()
        return Cpu(processor, "", _SIMD_BITS[processor], here.cores, here.l1, here.l2, here.l3)

    @property
    def avx512(self) -> bool:
        """Whether the processor has 512-bit registers with masks for every lane type, and vscalef."""
        return self.simd_bits == 512

    @property
    def identity(self) -> str:
        """The part of a cache key that names all that code for this processor depends on."""
        return f"{self.processor}:{self.simd_bits}:{self.features}"


@cache
def host() -> Cpu:
    """Returns the model of the processor that this process runs on."""
    import llvmlite.binding as llvm  # takes 60 ms, which users of the program format alone need not pay

    features = llvm.get_host_cpu_features()
    text = features.flatten()
    on = {name for name, has in features.items() if has}
    wide = {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= on
    bits = 512 if wide else 256 if "avx2" in on else 128
    l1, l2, l3 = (_cache_bytes(level) for level in (1, 2, 3))
    return Cpu(llvm.get_host_cpu_name(), text, bits, len(os.sched_getaffinity(0)), l1, l2, l3)


def _cache_bytes(level: int) -> int:
    """Returns the size of the first core's data or unified cache of a level, from Linux's sysfs; 0 if that is missing."""
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (folder / "level").read_text().strip() != str(level) or "Instruction" in (folder / "type").read_text():
                continue
            size = (folder / "size").read_text().strip()
        except OSError:
            continue
        return int(size[:-1]) << {"K": 10, "M": 20, "G": 30}[size[-1]]
    return 0
