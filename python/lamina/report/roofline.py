"""Measures the peak rates of this machine, once for a number of threads, and keeps them beside the compiled programs.

Two short measurements, well under a second together: torch's copy of a 64 MiB tensor, and chains of fused multiply-adds in vector
registers, in a loop generated here. Each is the best of several runs: a roof is what can be reached.
"""

import ctypes
import json
import math
import os
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

from lamina.core.device import Cpu, host
from lamina.runtime import owned
from lamina.runtime.cache import default_root

from .explanation import Peaks

COPY_BYTES = 64 << 20  # one tensor; the copy moves twice as much
CHAINS = 10  # independent sums, so that latency (4 cycles, two units) is hidden
ROUNDS = 4_000_000
_FORMAT = 1


def peaks(threads: int | None = None, *, again: bool = False) -> Peaks:
    """Returns the peaks of this machine with `threads` threads (default: torch's number), from the cache folder or measured now.

    again  measure now in any case; an earlier measurement counts where it is higher (the machine may be busy)
    """
    threads = threads or torch.get_num_threads()
    device = host()
    file = default_root() / f"peaks-{device.processor}-{threads}.json"
    known = read(file)
    if known is not None and not again:
        return known
    found = measure(device, threads)
    if known is not None:
        found = Peaks(device.processor, threads, max(found.bandwidth, known.bandwidth), max(found.flops, known.flops))
    write(file, found)
    return found


def measure(device: Cpu, threads: int) -> Peaks:
    """Measures the peaks of the CPU now, with `threads` threads."""
    return Peaks(device.processor, threads, copy_bandwidth(threads), fma_rate(device, threads))


def copy_bandwidth(threads: int, nbytes: int = COPY_BYTES) -> float:
    """Returns bytes a second, read and written, of `out.copy_(x)`."""
    x, out = torch.ones(nbytes // 4), torch.empty(nbytes // 4)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return 2 * nbytes / min(_timed(lambda: out.copy_(x)) for _ in range(10))
    finally:
        torch.set_num_threads(before)


def fma_rate(device: Cpu, threads: int, rounds: int = ROUNDS) -> float:
    """Returns f32 operations a second in fused multiply-adds; one counts as two."""
    from lamina.runtime.loader import Code

    lanes = device.simd_bits // 32
    code = Code(_fma_object(device, lanes), ("fma",))
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.addresses["fma"])
    sums = [(ctypes.c_float * lanes)() for _ in range(threads)]  # calls through ctypes release the GIL

    def together() -> None:
        team = [threading.Thread(target=run, args=(ctypes.addressof(s), rounds // threads)) for s in sums]
        for thread in team:
            thread.start()
        for thread in team:
            thread.join()

    return 2 * lanes * CHAINS * (rounds // threads) * threads / min(_timed(together) for _ in range(4))


def _fma_object(device: Cpu, lanes: int) -> bytes:
    """The object code of `void fma(float *sums, int64_t rounds)`: CHAINS vectors, each multiplied and added to in every round."""
    import llvmlite.binding as llvm

    vector = f"<{lanes} x float>"
    phis = "\n".join(f"  %s{i} = phi {vector} [ splat (float 1.0), %start ], [ %n{i}, %loop ]" for i in range(CHAINS))
    fmas = "\n".join(
        f"  %n{i} = call {vector} @llvm.fma.v{lanes}f32({vector} %s{i}, {vector} splat (float 0.5), {vector} splat (float 0.5))"
        for i in range(CHAINS)
    )
    total = "\n".join(f"  %t{i + 1} = fadd {vector} {f'%t{i}' if i else f'%n{i}'}, %n{i + 1}" for i in range(CHAINS - 1))
    text = f"""declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})
define void @fma(ptr %sums, i64 %rounds) {{
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %j, %loop ]
{phis}
{fmas}
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %rounds
  br i1 %more, label %loop, label %done
done:
{total}
  store {vector} %t{CHAINS - 1}, ptr %sums, align 4
  ret void
}}
"""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(cpu=device.processor, features=device.features, opt=2, reloc="pic", codemodel="small")
    return bytes(machine.emit_object(llvm.parse_assembly(text)))


def _timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def read(file: Path) -> Peaks | None:
    """Reads the peaks that `write` stored; None where there are none, or none that this version wrote."""
    try:
        with owned.folder(file.parent) as opened:
            data = json.loads(owned.read(opened, file.name))
        found = Peaks(**data["peaks"]) if data["format"] == _FORMAT else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    if found is None or not all(isinstance(n, int | float) and math.isfinite(n) and n > 0 for n in (found.bandwidth, found.flops)):
        return None
    return found


def write(file: Path, found: Peaks) -> None:
    """Stores peaks beside the compiled programs. Where that folder cannot be written, the next process measures again."""
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".new-", dir=file.parent)
        with os.fdopen(handle, "w") as out:
            json.dump({"format": _FORMAT, "peaks": found.__dict__}, out)
        os.replace(temporary, file)
