"""Tests that loops whose products read operands from registers wait for all products: in handwritten PTX, and in a kernel that
Triton compiles."""

import re

from gpu_programs import tiled
from test_products import random
from test_products_prologues import WARPGROUPS, swiglu

from lamina.core.gpu import Gpu
from lamina.targets.triton import text
from lamina.targets.triton.compiler import compile_kernel
from lamina.targets.triton.stages import with_full_waits

REGISTERS = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1,%r2}, {%r3,%r4}, %rd1, 1, 1, 1, 0;\n"
SHARED = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1,%r2}, %rd2, %rd1, 1, 1, 1, 0;\n"


def wait(pending: int) -> str:
    return f"wgmma.wait_group.sync.aligned {pending};\n"


def loop(label: int, *body: str) -> str:
    return f"$L__BB0_{label}:\n" + "".join(body) + f"@%p1 bra $L__BB0_{label};\n"


def test_the_last_wait_of_a_loop_is_for_all() -> None:
    ptx = loop(1, REGISTERS, wait(1), REGISTERS, wait(1)) + wait(0)
    assert with_full_waits(ptx) == loop(1, REGISTERS, wait(1), REGISTERS, wait(0)) + wait(0)


def test_so_is_that_of_each_loop() -> None:
    ptx = loop(1, REGISTERS, wait(2)) + loop(12, SHARED, wait(1), loop(2, REGISTERS, wait(3)), wait(1))
    assert with_full_waits(ptx) == loop(1, REGISTERS, wait(0)) + loop(12, SHARED, wait(1), loop(2, REGISTERS, wait(0)), wait(0))


def test_what_reads_shared_memory_alone_overlaps() -> None:
    ptx = loop(1, SHARED, wait(1)) + wait(0)
    assert with_full_waits(ptx) == ptx
    assert with_full_waits(ptx + REGISTERS + wait(1)) == ptx + REGISTERS + wait(1)  # no loop


def test_kernels_with_prologues_wait() -> None:
    module, _ = tiled(swiglu, (random(256, 512), random(256, 512), random(384, 512)), products=WARPGROUPS)
    (printed,) = text.take(module, descriptors=True)
    ptx = compile_kernel(printed, Gpu.named("sm_90a")).ptx
    looped = [body for _, body in re.findall(r"(\$L\w+):(.*?)bra\s+\1;", ptx, re.DOTALL) if "wgmma.mma_async" in body]
    assert looped and all(re.findall(r"wait_group\.sync\.aligned (\d+)", body)[-1] == "0" for body in looped)
