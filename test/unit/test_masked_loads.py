"""Tests that masked loads on a CPU read only the selected lanes, also if a register has none (passes/lower/cpu/masked_loads.py)."""

import numpy as np
import pytest
from test_cpu_target import Loaded, _runs_here, compile_text

from lamina.core.target import Target
from lamina.targets import llvm_text
from lamina.targets.cpu.backend import CpuBackend

CASES = [(lanes, first, end) for lanes in (9, 16, 32, 64) for first in (0, 3, 8, 13) for end in range(first, lanes + 1, 5)]
MASKS = {
    "flag": "%positive = arith.cmpi sgt, %count, %c0 : index\n%own = vector.broadcast %positive : i1 to vector<{n}xi1>",
    "count": "%own = vector.create_mask %count : vector<{n}xi1>",
}
LOADS = {
    "read": "%v = vector.transfer_read %x[%c0], %pad, %mask {{in_bounds = [true]}} : memref<64x{of}>, vector<{n}x{of}>",
    "maskedload": "%v = vector.maskedload %x[%c0], %mask, %pads : memref<64x{of}>, vector<{n}xi1>, vector<{n}x{of}> into vector<{n}x{of}>",
}
PROGRAM = """
func.func @f_{n}_{first}_{end}(%x: memref<64x{of}>, %counts: memref<1xindex>, %o: memref<{n}x{of}>) attributes {{tile.grid = 1 : i64}} {{
  %c0 = arith.constant 0 : index
  %first = arith.constant {first} : index
  %end = arith.constant {end} : index
  %pad = arith.constant -1.0 : {of}
  %pads = vector.broadcast %pad : {of} to vector<{n}x{of}>
  %all = arith.constant dense<true> : vector<{n}xi1>
  %count = memref.load %counts[%c0] : memref<1xindex>
  %before = vector.create_mask %first : vector<{n}xi1>
  %from = arith.xori %before, %all : vector<{n}xi1>
  %to = vector.create_mask %end : vector<{n}xi1>
  %both = arith.andi %from, %own : vector<{n}xi1>
  %mask = arith.andi %both, %to : vector<{n}xi1>
  vector.store %v, %o[%c0] : memref<{n}x{of}>, vector<{n}x{of}>
  return
}}
"""


def programs(mask: str, load: str, of: str) -> str:
    """Returns a program for each case; `mask` and `load` stand where their operands are known."""
    text = PROGRAM.replace("  %before", f"{MASKS[mask]}\n  %before").replace("  vector.store", f"{LOADS[load]}\n  vector.store")
    return "\n".join(text.format(n=n, first=first, end=end, of=of) for n, first, end in CASES)


@pytest.mark.parametrize("processor", ["cpu", "cpu:haswell", "cpu:x86-64-v4"])
@pytest.mark.parametrize(("mask", "load", "of"), [("flag", "read", "f32"), ("count", "maskedload", "f32"), ("flag", "read", "f64")])
def test_selected_lanes_alone(processor: str, mask: str, load: str, of: str) -> None:
    if not _runs_here(processor.partition(":")[2]):
        pytest.skip("this processor lacks the instructions")
    run = Loaded(compile_text(programs(mask, load, of), processor))
    x = np.arange(64, dtype={"f32": np.float32, "f64": np.float64}[of])
    for lanes, first, end in CASES:
        for count in (0, 11, lanes):
            o, lane = np.zeros(lanes, x.dtype), np.arange(lanes)
            run(f"f_{lanes}_{first}_{end}", 1, x, np.array([count]), o)
            own = lane < count if mask == "count" else count > 0
            np.testing.assert_array_equal(o, np.where(own & (first <= lane) & (lane < end), lane, -1))


@pytest.mark.xfail(strict=True, reason="LLVM 22; once this passes, masked_loads.py can go")
def test_llvm_keeps_masks_that_select_nothing() -> None:
    selected = ", ".join(["i1 true"] * 8 + ["i1 false"])
    machine = CpuBackend(Target.parse("cpu:haswell")).machine()
    parsed = llvm_text.parse(
        f"""
        declare <9 x float> @llvm.masked.load.v9f32.p0(ptr, <9 x i1>, <9 x float>)
        define void @f(ptr noalias %x, ptr noalias %o, i1 %flag) {{
          %one = insertelement <9 x i1> poison, i1 %flag, i64 0
          %flags = shufflevector <9 x i1> %one, <9 x i1> poison, <9 x i32> zeroinitializer
          %mask = and <9 x i1> %flags, <{selected}>
          %v = call <9 x float> @llvm.masked.load.v9f32.p0(ptr align 4 %x, <9 x i1> %mask, <9 x float> zeroinitializer)
          store <9 x float> %v, ptr %o, align 4
          ret void
        }}
        """,
        machine,
    )
    assert "32(%rdi)" not in machine.emit_assembly(parsed)  # x[8], which no mask selects
