"""Tests the simulator of Gluon kernels: a persistent product is right in any order of events, and every seeded fault is found and
named."""

from typing import Any

import pytest
import torch
from gluon_simulator import Fault, simulate
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma, warpgroup_mma, warpgroup_mma_wait

tma_load = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared
tma_store = tma.async_store if hasattr(tma, "async_store") else tma.async_copy_shared_to_global


@gluon.jit
def load(a_desc, b_desc, a, b, full, free, TILES: gl.constexpr, STEPS: gl.constexpr, FAULT: gl.constexpr):
    at = 0
    for tile in range(gl.program_id(0), TILES, gl.num_programs(0)):
        for k in range(STEPS):
            stage = at % 2
            parity = (at // 2) & 1
            if FAULT != "free is not waited for":
                mbarrier.wait(free.index(stage), parity if FAULT == "parity of free" else parity ^ 1)
            mbarrier.expect(full.index(stage), 64 * 32 * 4 + (16 if FAULT == "bytes" else 0))
            tma_load(a_desc, [tile * 64, k * 32], full.index(stage), a.index(stage))
            tma_load(b_desc, [0, k * 32], full.index(stage), b.index(stage))
            at += 1


@gluon.jit
def multiply(a, b, c, full, free, c_desc, TILES: gl.constexpr, STEPS: gl.constexpr, FAULT: gl.constexpr):
    at = 0
    for tile in range(gl.program_id(0), TILES, gl.num_programs(0)):
        acc = gl.zeros([64, 64], gl.float32)
        for k in range(STEPS):
            stage = at % 2
            if FAULT != "full is not waited for":
                mbarrier.wait(full.index(stage), (at // 2) & 1)
            acc = warpgroup_mma(a.index(stage), b.index(stage).permute((1, 0)), acc, use_acc=k > 0, is_async=True)
            if FAULT == "freed early":
                mbarrier.arrive(free.index(stage))
            if FAULT == "used early":
                acc = acc * 1.0
            acc = warpgroup_mma_wait(0, deps=(acc,))
            if FAULT != "freed early":
                mbarrier.arrive(free.index(stage), count=2 if FAULT == "arrivals" else 1)
            at += 1
        if FAULT != "store is not waited for":
            tma.store_wait(0)
        c.store(acc.to(gl.bfloat16))
        if FAULT != "fence":
            fence_async_shared()
        tma_store(c_desc, [tile * 64, 0], c)
    if FAULT != "store is in flight":
        tma.store_wait(0)


@gluon.jit
def product(a_ptr, b_ptr, c_ptr, M: gl.constexpr, K: gl.constexpr, N: gl.constexpr, FAULT: gl.constexpr):
    layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, 32], gl.bfloat16)
    bars: gl.constexpr = mbarrier.MBarrierLayout()
    a_desc = tma.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [64, 32], layout)
    b_desc = tma.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [64, 32], layout)
    c_desc = tma.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [64, 64], layout)
    a = gl.allocate_shared_memory(gl.bfloat16, [2, 64, 32], layout)
    b = gl.allocate_shared_memory(gl.bfloat16, [2, 64, 32], layout)
    c = gl.allocate_shared_memory(gl.bfloat16, [64, 64], layout)
    full = gl.allocate_shared_memory(gl.int64, [2, 1], bars)
    free = gl.allocate_shared_memory(gl.int64, [2, 1], bars)
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=1)
        if FAULT != "init":
            mbarrier.init(free.index(i), count=1)
    if FAULT != "barriers' fence":
        fence_async_shared()
    tiles: gl.constexpr = (M + 63) // 64
    steps: gl.constexpr = (K + 31) // 32
    gl.warp_specialize(
        [
            (multiply, (a, b, c, full, free, c_desc, tiles, steps, FAULT)),
            (load, (a_desc, b_desc, a, b, full, free, tiles, steps, FAULT)),
        ],
        [1],
        [24],
    )


def arguments(fault: str = "") -> dict[str, Any]:
    """Of a product whose last blocks are not whole, of several tiles a program."""
    random = torch.Generator().manual_seed(0)
    m, k, n = 290, 136, 40
    a, b = (torch.randn(rows, k, generator=random).bfloat16() for rows in (m, n))
    c = torch.full((m, n), float("nan")).bfloat16()
    return {"a_ptr": a, "b_ptr": b, "c_ptr": c, "M": m, "K": k, "N": n, "FAULT": fault}


@pytest.mark.parametrize("seed", range(4))
def test_product(seed: int) -> None:
    given = arguments()
    simulate(product, 2, given, seed=seed)
    expected = given["a_ptr"].double() @ given["b_ptr"].double().T
    assert (given["c_ptr"].double() - expected).norm() / expected.norm() < 3e-3


def test_programs() -> None:
    given = arguments()
    simulate(product, 5, given, programs=[3])
    assert given["c_ptr"][192:256].isfinite().all()
    assert given["c_ptr"][:192].isnan().all() and given["c_ptr"][256:].isnan().all()


STATE = r"which is in phase \d, which misses \d of 1 arrivals"
FAULTS = {
    "free is not waited for": r"load, test_gluon_simulator.py:\d+: (writes shared memory|arrives 1 times at a barrier in .* bytes)",
    "parity of free": rf"deadlock\n  partition 0, multiply, .*: waits for parity 0 of full\[0\], {STATE}\n  partition 1, load, .*: waits for parity 0 of free\[0\], {STATE}",
    "bytes": r"deadlock\n.* of full\[0\], which is in phase 0, which misses 0 of 1 arrivals and 16 bytes",
    "full is not waited for": r"partition 0, multiply, .*: reads shared memory \[64, 32\], which (was never written|a TMA load is still writing|a TMA load writes, with nothing)",
    "freed early": r"partition 1, load, .*: writes shared memory .*, which (a product .* still reads|partition 0 reads, with nothing that puts)",
    "used early": r"partition 0, multiply, .*: uses a product that warpgroup_mma_wait has not",
    "arrivals": "arrives 2 times at a barrier in phase 0, which misses 1 of 1",
    "store is not waited for": "partition 0, multiply, .*: writes shared memory .*, which a product or a TMA store that was not waited for still reads",
    "fence": r"reads shared memory \[64, 64\], by a TMA store, that was stored without fence",
    "barriers' fence": "partition 1, load, .*: a TMA load to a barrier that was initialized without fence",
    "store is in flight": "ends with stores that nobody waited for",
    "init": "partition 1, load, .*: a barrier that was not initialized",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(fault: str) -> None:
    for seed in range(3):
        with pytest.raises(Fault, match=FAULTS[fault]):
            simulate(product, 2, arguments(fault), seed=seed)


@gluon.jit
def move(x, y, AXES: gl.constexpr, START: gl.constexpr):
    shape: gl.constexpr = [5, 2, 3, 2, 40][-AXES:]
    strides: gl.constexpr = [480, 240, 80, 40, 1][-AXES:]
    block: gl.constexpr = [2, 2, 4, 2, 16][-AXES:]
    layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([16, 16], gl.bfloat16)
    from_desc = tma.make_tensor_descriptor(x, shape, strides, block, layout)
    to_desc = tma.make_tensor_descriptor(y, shape, strides, block, layout)
    buffer = gl.allocate_shared_memory(gl.bfloat16, block, layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    fence_async_shared()
    mbarrier.expect(bar, from_desc.nbytes_per_cta)
    tma_load(from_desc, START[-AXES:], bar, buffer)
    mbarrier.wait(bar, 0)
    buffer.store(buffer.load(None) + 1.0)
    fence_async_shared()
    tma_store(to_desc, START[-AXES:], buffer)
    tma.store_wait(0)


@pytest.mark.parametrize("axes", range(1, 6))
def test_blocks_that_reach_out(axes: int) -> None:
    sizes, start, block = [5, 2, 3, 2, 40], [4, 0, -2, 1, 32], [2, 2, 4, 2, 16]
    x = torch.randn(sizes).bfloat16()
    y = torch.zeros(sizes).bfloat16()
    simulate(move, 1, {"x": x, "y": y, "AXES": axes, "START": start})
    inside = tuple(slice(max(s, 0), s + b) for s, b in zip(start, block, strict=True))[-axes:]
    expected = torch.zeros(sizes).bfloat16()
    first = (0,) * (5 - axes)
    expected[first][inside] = x[first][inside] + 1
    assert torch.equal(y, expected)


@gluon.jit
def compute(x, y, SIZE: gl.constexpr, BIG: gl.constexpr):
    i = gl.arange(0, 8)
    v = gl.load(x + i, mask=i < SIZE, other=0.0)
    wide = v[:, None].to(gl.float32) * 1.001
    low, high = gl.join(wide, gl.maximum(wide, 0.5)).split()
    rows = gl.sum(low, 1) + gl.max(high.reshape([8, 1]), 1)
    wrapped = (gl.program_id(0) + BIG) * 2  # of 32 bits
    towards_zero = (gl.program_id(0) - 7) // 2 + (gl.program_id(0) - 7) % 4
    gl.store(y + i, gl.where(i == 7, float("nan"), rows + wrapped + towards_zero), mask=i < 7)


def test_values() -> None:
    x = torch.randn(8, generator=torch.Generator().manual_seed(0)).bfloat16()
    y = torch.zeros(7)
    simulate(compute, 1, {"x": x, "y": y, "SIZE": 8, "BIG": (1 << 31) - 1})
    wide = x[:7].float() * torch.tensor(1.001)
    assert torch.equal(y, wide + wide.maximum(torch.tensor(0.5)) - 2 - 3 - 3)
    with pytest.raises(Fault, match=r"compute, .*: out of bounds: element 5 of a tensor of 5, at index \[5\]"):
        simulate(compute, 1, {"x": x[:5], "y": y, "SIZE": 8, "BIG": 0})


@gluon.jit
def not_carried(bars, STEPS: gl.constexpr):
    stage = gl.program_id(0)
    before = stage
    for _ in range(STEPS):
        mbarrier.arrive(bars.index(before))
        before = stage
        stage += 1


@gluon.jit
def carried(x, STEPS: gl.constexpr):
    stage = gl.program_id(0)
    before = stage + 0
    for _ in range(STEPS):
        before = stage
        stage += 1
    gl.store(x, before)


def test_what_a_loop_does_not_carry() -> None:
    with pytest.raises(Fault, match=r"not_carried, line \d+: before is stage before this loop, too"):
        simulate(not_carried, 1, {"bars": 0, "STEPS": 2})
    x = torch.zeros(1, dtype=torch.int32)
    simulate(carried, 1, {"x": x, "STEPS": 3})
    assert x.item() == 2
