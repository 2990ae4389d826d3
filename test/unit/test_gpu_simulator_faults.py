"""Tests that the simulator of GPU kernels finds and names every fault: one seeded fault per check."""

from typing import Any

import numpy as np
import pytest
from gpu_kernels import CLUSTER, ROW_SUM, SHARED, cluster, kernel, pointwise, row_sum
from gpu_simulator import Fault, simulate
from torch_mlir import ir


def fails(message: str, module: ir.Module, *arguments: np.ndarray, grid: int = 1, **options: Any) -> None:
    with pytest.raises(Fault, match=message):
        simulate(module, "k", list(arguments), grid, **options)


def zeros(n: int) -> np.ndarray:
    return np.zeros(n, np.float32)


def run(module: ir.Module, *arguments: np.ndarray, grid: int = 1, **options: Any) -> None:
    simulate(module, "k", list(arguments), grid, **options)


def test_out_of_bounds() -> None:
    store = "memref.store %f1, %y[%t] : memref<31xf32>"
    fails(
        r"k: CTA 0, thread 31: memref.store at loc.*: out of bounds of argument 0, memref<31xf32>: 1 at index 31 of axis 0, of 31\n  memref.store %cst, %arg0",
        kernel("%y: memref<31xf32>", store),
        zeros(99),
    )


def test_out_of_bounds_of_a_vector_and_of_a_view() -> None:
    body = "%v = vector.load %x[%c4] : memref<7xf32>, vector<4xf32>"
    fails("out of bounds of argument 0.*4 at index 4 of axis 0, of 7", kernel("%x: memref<7xf32>", body), zeros(99))
    body = """%v = memref.reinterpret_cast %x to offset: [0], sizes: [64], strides: [1] : memref<32xf32> to memref<64xf32>
              %a = memref.load %v[%c32] : memref<64xf32>"""
    fails(
        "thread 0: memref.load.*out of bounds: element 32 of argument 0.*, which has 32",
        kernel("%x: memref<32xf32>", body),
        zeros(99),
    )


def test_between_the_rows_of_a_strided_memref() -> None:
    type_ = "memref<2x3xf32, strided<[4, 1]>>"
    body = f"""%v = memref.reinterpret_cast %x to offset: [0], sizes: [7], strides: [1] : {type_} to memref<7xf32>
               %a = vector.load %v[%c0] {{alignment = 16}} : memref<7xf32>, vector<4xf32>"""
    fails("element 3 of argument 0.* lies between the memref's rows", kernel(f"%x: {type_}", body), zeros(8))


def test_misaligned() -> None:
    body = "%v = vector.load %x[%t] {alignment = 16} : memref<64xf32>, vector<4xf32>"
    fails("thread 1: vector.load.*misaligned: 16 bytes promised for element 1", kernel("%x: memref<64xf32>", body), zeros(64))
    body = "%v = vector.load %x[%c4] {alignment = 16} : memref<64xf32>, vector<4xf32>"
    run(kernel("%x: memref<64xf32>", body), zeros(64))
    fails("misaligned.* starts at a multiple of 8", kernel("%x: memref<64xf32>", body), zeros(64), align=8)


def test_written_twice() -> None:
    body = """%i = arith.index_cast %t : index to i32
              memref.store %i, %y[%c0] : memref<1xi32>"""
    fails(
        "CTA 0, thread 0: memref.store.*written twice, with different values: element 0 of .*, by thread 31 of CTA 0",
        kernel("%y: memref<1xi32>", body),
        np.zeros(1, np.int32),
    )
    body = """%i = arith.index_cast %b : index to i32
              memref.store %i, %y[%t] : memref<32xi32>"""
    fails(
        "CTA 0, thread 0: .*written twice.*by thread 0 of CTA 1", kernel("%y: memref<32xi32>", body), np.zeros(32, np.int32), grid=2
    )
    run(kernel("%y: memref<1xf32>", "memref.store %f1, %y[%c0] : memref<1xf32>"), zeros(1))


def test_race_in_shared_memory() -> None:
    fails(
        "memref.load.*race: this thread reads element 0 of workgroup buffer 0.* which thread 0 of CTA 0 wrote with no barrier between",
        row_sum(ROW_SUM.replace("gpu.barrier\n", "")),
        zeros(16384),
        zeros(8),
        grid=8,
    )
    after = ROW_SUM + "scf.if %zeroth { memref.store %all, %smem[%c0] : memref<8xf32, SHARED> }"
    fails(
        "memref.store.*race: this thread writes element 0.* which several threads read with no barrier between",
        row_sum(after),
        zeros(16384),
        zeros(8),
        grid=8,
    )
    both = f"memref.store %f1, %smem[%c0] : memref<8xf32, {SHARED}>"
    fails(
        "race: this thread writes element 0 .* which thread 31 of CTA 0 wrote",
        kernel("", both, shared=f"%smem: memref<8xf32, {SHARED}>"),
    )


def test_race_in_global_memory() -> None:
    body = """
        %a = memref.load %x[%c0] : memref<32xf32>
        BARRIER
        memref.store %a, %y[%t] : memref<32xf32>"""
    x = zeros(32)
    module = kernel("%x: memref<32xf32>, %y: memref<32xf32>", body.replace("BARRIER", ""))
    run(module, x, zeros(32))
    fails("race: this thread writes element 0 of argument 1.*which several threads read", module, x, x)
    run(kernel("%x: memref<32xf32>, %y: memref<32xf32>", body.replace("BARRIER", "gpu.barrier")), x, x)


def test_barrier_that_not_all_reach() -> None:
    body = """%ok = arith.cmpi ult, %t, %c4 : index
              scf.if %ok { gpu.barrier }"""
    fails("CTA 0, thread 4: gpu.barrier.*barrier not reached by all threads", kernel("", body))
    uniform = """%ok = arith.cmpi ult, %b, %c1 : index
                 scf.if %ok { gpu.barrier }"""
    run(kernel("", uniform), grid=3)


def test_shuffle_under_divergence() -> None:
    body = """%ok = arith.cmpi ult, %t, %c4 : index
              scf.if %ok { %q, %p = gpu.shuffle xor %f1, %i1, %w : f32 }"""
    fails("CTA 0, thread 4: gpu.shuffle.*shuffle under divergence", kernel("", body))
    fails(
        "reads from lane 16, which the CTA of 16 threads",
        kernel("", "%sixteen = arith.constant 16 : i32\n%q, %p = gpu.shuffle xor %f1, %sixteen, %w : f32", threads=16),
    )


def test_read_of_unwritten_memory() -> None:
    body = f"%a = memref.load %smem[%c1] : memref<8xf32, {SHARED}>"
    fails(
        "memref.load.*read before written: element 1 of workgroup buffer 0",
        kernel("", body, shared=f"%smem: memref<8xf32, {SHARED}>"),
    )
    body = """%own = memref.alloca() : memref<2xf32>
              %a = memref.load %own[%c1] : memref<2xf32>"""
    fails("read before written: element 1 of a memref.alloca", kernel("", body))


def test_output_not_written() -> None:
    store = "memref.store %f1, %y[%t] : memref<34xf32>"
    fails(
        "k: 2 elements of argument 0, memref<34xf32>, are never written; the first is 32",
        kernel("%y: memref<34xf32>", store),
        zeros(34),
        outputs=[0],
    )


def test_division_by_zero() -> None:
    fails("thread 0: arith.remui.*division by zero", kernel("", "%r = arith.remui %c4, %t : index"))


def test_unknown_op_and_wrong_arguments() -> None:
    with pytest.raises(NotImplementedError, match="does not know gpu.subgroup_reduce at loc"):
        run(kernel("", "%r = gpu.subgroup_reduce add %f1 : (f32) -> f32"))
    module = pointwise(1024, 256)
    with pytest.raises(ValueError, match="takes 2 arguments, not 1"):
        run(module, zeros(1024))
    with pytest.raises(ValueError, match="one-dimensional array of float32 is needed, not float64"):
        run(module, np.zeros(1024), zeros(1024))
    with pytest.raises(ValueError, match="of 1024 elements; the array has 7"):
        run(module, zeros(7), zeros(1024))
    with pytest.raises(ValueError, match="blocks of \\[256, 1, 1\\] threads, not of 128"):
        run(module, zeros(1024), zeros(1024), block=128)
    with pytest.raises(ValueError, match="no gpu.func @other .* which have \\['k'\\]"):
        simulate(module, "other", [], 1)


def test_cluster_without_its_barriers() -> None:
    def broken(message: str, old: str, new: str) -> None:
        assert old in CLUSTER
        fails(message, cluster(CLUSTER.replace(old, new)), zeros(16), grid=2, cluster=2)

    wait = "\n    nvvm.cluster.wait\n"
    broken("llvm.store.*reaches a CTA that may not have started", "nvvm.cluster.arrive.relaxed" + wait, "")
    broken("race: this thread reads element 1 of .*, which thread 0 of CTA 1 wrote", "nvvm.cluster.arrive" + wait, "gpu.barrier\n")
    broken("race: this thread reads", "nvvm.cluster.arrive" + wait, "nvvm.cluster.arrive.relaxed" + wait)
    broken("nvvm.cluster.wait.*waits .* without having arrived", "nvvm.cluster.arrive" + wait, wait)
    got = "%got = memref.load %smem[%four] : memref<2xf32, SHARED>"
    silent = CLUSTER.replace(got, "%got = arith.constant 0.0 : f32").replace("nvvm.cluster.arrive" + wait, "")
    fails("thread 0: gpu.return.*ends with no cluster barrier since", cluster(silent), zeros(16), grid=2, cluster=2)


def test_trap() -> None:
    body = """%ok = arith.cmpi ult, %t, %c4 : index
              scf.if %ok {
              } else {
                llvm.intr.trap
              }"""
    fails("CTA 0, thread 4: llvm.intr.trap.*a check failed", kernel("", body))


def test_a_sum_that_wraps_against_its_flags() -> None:
    """LLVM widens 32-bit operations that do not wrap operand by operand: as unsigned numbers, -1 + 2 is then 2**32 + 1."""
    body = """%before = arith.constant -1 : index
              %a = arith.addi %before, %t overflow<FLAGS> : index"""
    run(kernel("", body.replace("FLAGS", "nsw")))
    fails("CTA 0, thread 1: arith.addi.*wraps around", kernel("", body.replace("FLAGS", "nsw, nuw")))
    fails("CTA 0, thread 0: arith.subi.*wraps around", kernel("", "%a = arith.subi %t, %c1 overflow<nuw> : index"))
    most = "%most = arith.constant 4611686018427387904 : index\n"
    fails("CTA 0, thread 2: arith.muli.*wraps around", kernel("", most + "%a = arith.muli %most, %t overflow<nsw> : index"))
