"""Tests that the simulator of GPU kernels gives correct kernels their results and counts."""

from typing import Any

import numpy as np
import pytest
import torch
from gpu_kernels import cluster, kernel, pointwise, row_sum
from gpu_simulator import Fault, Result, poison, simulate, storage
from torch_mlir import ir


def run(module: ir.Module, *arguments: np.ndarray, grid: int = 1, **options: Any) -> Result:
    return simulate(module, "k", list(arguments), grid, **options)


def test_pointwise() -> None:
    x, y = storage(torch.randn(7996)), poison(7996, torch.float32)
    found = run(pointwise(7996, 256), x, y, grid=8, outputs=[1])
    np.testing.assert_array_equal(y, x * x)
    assert found.loads[0].accesses == {16: 1999} and found.stores[1].accesses == {16: 1999}
    assert found.loads[0].sectors == found.loads[0].distinct_sectors == 1000
    assert found.loads[0].requests == 63 and found.loads[0].bytes == 7996 * 4
    assert not found.stores[0].accesses and not found.loads[1].accesses and found.ctas == 8 and found.threads == 256


def test_bf16_is_rounded() -> None:
    x, y = torch.randn(1024, dtype=torch.bfloat16), poison(1024, torch.bfloat16)
    found = run(pointwise(1024, 128, "bf16", 8), storage(x), y, outputs=[1])
    np.testing.assert_array_equal(y, storage(x * x))
    assert found.loads[0].accesses == {16: 128} and found.loads[0].sectors == 64


def test_wide_vectors_are_several_accesses_and_strides_cost_sectors() -> None:
    x, y = storage(torch.randn(256)), poison(256, torch.float32)
    found = run(pointwise(256, 32, vec=8), x, y, outputs=[1])
    assert found.loads[0].accesses == {16: 64} and found.loads[0].sectors == 2 * found.loads[0].distinct_sectors


def test_reduction() -> None:
    x, y = torch.randn(8, 2048), poison(8, torch.float32)
    found = run(row_sum(), storage(x), y, grid=8, outputs=[1])
    np.testing.assert_allclose(y, x.double().sum(1).numpy(), rtol=1e-5, atol=1e-4)
    assert found.loads[0].accesses == {16: 4096} and found.loads[0].sectors == found.loads[0].distinct_sectors == 2048
    assert found.stores[1].accesses == {4: 8}


def test_loops_and_branches_diverge() -> None:
    body = """
        %c0i = arith.constant 0 : i32
        %n = scf.for %k = %c0 to %t step %c1 iter_args(%acc = %c0i) -> (i32) {
          %next = arith.addi %acc, %w : i32
          scf.yield %next : i32
        }
        %m = scf.while (%i = %n) : (i32) -> i32 {
          %seven = arith.constant 7 : i32
          %go = arith.cmpi sgt, %i, %seven : i32
          scf.condition(%go) %i : i32
        } do {
        ^bb0(%i: i32):
          %five = arith.constant 5 : i32
          %less = arith.subi %i, %five : i32
          scf.yield %less : i32
        }
        %even = arith.remui %t, %c4 : index
        %is = arith.cmpi eq, %even, %c0 : index
        %r = scf.if %is -> (i32) {
          scf.yield %m : i32
        } else {
          %minus = arith.subi %c0i, %m : i32
          scf.yield %minus : i32
        }
        memref.store %r, %y[%t] : memref<32xi32>"""
    y = poison(32, torch.int32)
    run(kernel("%y: memref<32xi32>", body), y, outputs=[0])
    want = []
    for t in range(32):
        n = 32 * t
        while n > 7:
            n -= 5
        want.append(n if t % 4 == 0 else -n)
    assert y.tolist() == want


def test_vectors() -> None:
    body = """
        %v = vector.load %x[%c4] {alignment = 16} : memref<16xf32>, vector<4xf32>
        %sh = vector.shuffle %v, %v [3, 6, 1, 4] : vector<4xf32>, vector<4xf32>
        %half = vector.extract_strided_slice %sh {offsets = [1], sizes = [2], strides = [1]} : vector<4xf32> to vector<2xf32>
        %in = vector.insert_strided_slice %half, %v {offsets = [2], strides = [1]} : vector<2xf32> into vector<4xf32>
        %at = arith.remui %t, %c4 : index
        %e = vector.extract %in[%at] : f32 from vector<4xf32>
        %bits = arith.bitcast %e : f32 to i32
        %same = vector.broadcast %bits : i32 to vector<1xi32>
        %halves = vector.bitcast %same : vector<1xi32> to vector<2xbf16>
        %lo, %hi = vector.to_elements %halves : vector<2xbf16>
        %f = arith.extf %hi : bf16 to f32
        memref.store %f, %y[%t] : memref<32xf32>"""
    x, y = np.arange(16, dtype=np.float32), poison(32, torch.float32)
    run(kernel("%x: memref<16xf32>, %y: memref<32xf32>", body), x, y, outputs=[1])
    assert y.tolist() == [4.0, 5.0, 6.0, 5.0] * 8


def test_views_and_private_memory() -> None:
    body = """
        %v = memref.reinterpret_cast %x to offset: [%t], sizes: [4], strides: [32] : memref<128xf32> to memref<4xf32, strided<[32], offset: ?>>
        %own = memref.alloca() : memref<2xf32>
        %k = arith.remui %t, %c4 : index
        %a = memref.load %v[%k] : memref<4xf32, strided<[32], offset: ?>>
        memref.store %a, %own[%c1] : memref<2xf32>
        %r = memref.load %own[%c1] : memref<2xf32>
        memref.store %r, %y[%t] : memref<32xf32>"""
    x, y = np.arange(128, dtype=np.float32), poison(32, torch.float32)
    run(kernel("%x: memref<128xf32>, %y: memref<32xf32>", body), x, y, outputs=[1])
    assert y.tolist() == [32 * (t % 4) + t for t in range(32)]


def test_packed_programs_share_a_cta() -> None:
    y = poison(96, torch.float32)
    body = """
        %at = gpu.global_id x
        %n = arith.constant 96 : index
        %ok = arith.cmpi ult, %at, %n : index
        scf.if %ok { memref.store %f1, %y[%at] : memref<96xf32> }"""
    assert run(kernel("%y: memref<96xf32>", body, threads=64), y, grid=3, pack=2, outputs=[0]).ctas == 2


def test_cluster_shares_memory() -> None:
    y = poison(4 * 4, torch.float32)
    run(cluster(), y, grid=2, cluster=2, outputs=[0])
    np.testing.assert_array_equal(y.reshape(4, 4)[:, :2], [[0, 1], [0, 1], [2, 3], [2, 3]])
    module = cluster()
    text = str(module).replace("known_block_size", "known_cluster_size = array<i32: 2, 1, 1>, known_block_size")
    assert run(ir.Module.parse(text, module.context), y, grid=2).ctas == 4


def test_the_kernel_says_its_launch() -> None:
    module = pointwise(1000, 64)
    text = str(module).replace(
        "known_block_size", "gpu.grid = 4 : i64, tile.outputs = 1 : i64, tile.align = array<i64: 16, 16>, known_block_size"
    )
    x, y = storage(torch.randn(1000)), poison(1000, torch.float32)
    assert simulate(ir.Module.parse(text, module.context), "k", [x, y]).ctas == 4
    with pytest.raises(Fault, match="232 elements of argument 1.* are never written; the first is 768"):
        simulate(ir.Module.parse(text.replace("gpu.grid = 4", "gpu.grid = 3"), module.context), "k", [x, y])
    with pytest.raises(Fault, match="misaligned"):
        simulate(ir.Module.parse(text.replace("array<i64: 16", "array<i64: 4"), module.context), "k", [x, y])
    with pytest.raises(ValueError, match="has no gpu.grid"):
        simulate(module, "k", [x, y])
