"""Tests the target nvvm without a GPU: kernels down to cubins, their needs, and errors."""

import re
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.target import Target
from lamina.dialects import context
from lamina.frontend.capture.exclusive import COMPILING
from lamina.runtime import cubins
from lamina.targets import backend, ptx
from lamina.targets.nvvm.backend import GpuArtifact, NvvmBackend, kernel_at

KERNELS = Path(__file__).parents[1] / "targets" / "nvvm.mlir"
EVERY = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120")


def compile_text(source: str, arch: str = "sm_90a") -> GpuArtifact:
    with context(), ir.Location.unknown():
        return NvvmBackend(Target.parse(f"nvvm:{arch}")).compile(ir.Module.parse(source))


def kernel(body: str, of: str = "f32", name: str = "k", count: int = 1024) -> str:
    """One thread's code from %x[%i] (`of`, maybe a vector) to %r, which is stored."""
    element = re.sub(r"vector<\d+x(\w+)>", r"\1", of)
    memory = f"memref<{count}x{element}>"
    load, store, tail = ("vector.load", "vector.store", f", {of}") if of != element else ("memref.load", "memref.store", "")
    return f"""gpu.module @kernels {{
      gpu.func @{name}(%x: {memory}, %o: {memory}) kernel attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
        %t = gpu.thread_id x
        %c = arith.constant 4 : index
        %i = arith.muli %t, %c : index
        %v = {load} %x[%i] : {memory}{tail}
        {body}
        {store} %r, %o[%i] : {memory}{tail}
        gpu.return
      }}
    }}"""


def test_artifact() -> None:
    artifact = compile_text(KERNELS.read_text())
    assert artifact.target == "nvvm:sm_90a" and artifact.kernels == ("softmax",)
    assert artifact.code[:4] == b"\x7fELF" and ".visible .entry softmax(" in artifact.ptx
    (needs,) = artifact.resources
    assert needs.kernel == "softmax" and needs.shared == 64 and needs.registers <= 64
    assert needs.stack == needs.spill_stores == needs.spill_loads == 0
    assert {"lamina-expand-math", "to llvm dialect", "translate", "Triton, LLVM, ptxas"} <= set(artifact.seconds)
    assert "softmax" in backend(Target.parse("nvvm:sm_90a")).assembly(artifact)


@pytest.mark.parametrize("arch", EVERY)
def test_every_architecture(arch: str) -> None:
    artifact = compile_text(KERNELS.read_text(), arch)
    assert f".target {arch}" in artifact.ptx and artifact.resources[0].spill_stores == 0


# op, its type, instructions that its PTX must have; none may call, nor use local memory
MATH = [
    *[(f"%r = math.{name} %v : vector<4xf32>", "vector<4xf32>", {"ex2.approx.ftz": 4}) for name in ("exp", "exp2", "tanh", "erf")],
    *[(f"%r = math.{name} %v : vector<4xf32>", "vector<4xf32>", {}) for name in ("log", "log2", "log10", "log1p", "expm1", "sin", "cos", "atan", "asin")],
    *[(f"%r = math.{name} %v : f32", "f32", {name: 1}) for name in ("rsqrt", "sqrt")],
    ("%r = math.powf %v, %v : f32", "f32", {}),
    ("%r = math.tan %v : f32", "f32", {"div.full": 1}),
    ("%r = arith.divf %v, %v : vector<4xf32>", "vector<4xf32>", {"div.full": 4}),
    *[(f"%r = math.{name} %v : vector<4xf32>", "vector<4xf32>", {"cvt.r": 4}) for name in ("floor", "ceil", "trunc", "roundeven")],
    *[(f"%r = math.{name} %v : f64", "f64", {}) for name in ("exp", "log", "tanh", "sqrt", "rsqrt", "absf", "floor", "sin", "tan", "erf", "log2", "asin", "sinh")],
    ("%r = math.powf %v, %v : f64", "f64", {}),
    ("%r = math.exp %v : vector<8xbf16>", "vector<8xbf16>", {"ex2.approx.ftz": 8, "cvt.rn.bf16x2": 4}),
    ("%r = arith.addf %v, %v : vector<4xf16>", "vector<4xf16>", {}),
    ("%r = arith.maximumf %v, %v : f16", "f16", {}),
    ("%r = arith.remf %v, %v : f32", "f32", {}),
    ("%r = arith.floordivsi %v, %v : vector<4xi32>", "vector<4xi32>", {}),
    ("%r = arith.remsi %v, %v : i64", "i64", {}),
]  # fmt: skip


@pytest.mark.parametrize(("body", "of", "wanted"), MATH, ids=[m[0].split()[2] + "-" + m[1] for m in MATH])
def test_math_without_calls(body: str, of: str, wanted: dict[str, int]) -> None:
    artifact = compile_text(kernel(body, of), "sm_80")
    for instruction, count in wanted.items():
        assert artifact.ptx.count(instruction) == count, instruction
    assert "call" not in artifact.ptx and ".local" not in artifact.ptx
    assert artifact.resources[0].stack == 0


def test_multiplies_and_adds_are_fused() -> None:
    body = "%m = arith.mulf %v, %v : f32\n %r = arith.addf %m, %v : f32"
    assert "fma.rn.f32" in compile_text(kernel(body)).ptx


def test_pointers_that_may_be_one() -> None:
    source = kernel("%r = arith.negf %v : f32")
    apart, same = compile_text(source), compile_text(source.replace("kernel attributes {", "kernel attributes {tile.alias, "))
    assert "ld.global.nc" in apart.ptx and "ld.global.nc" not in same.ptx


def test_indices_are_as_wide_as_buffers_need() -> None:
    small, large = (compile_text(kernel("%r = arith.negf %v : f32", count=n)).llvm for n in (1 << 30, (1 << 30) + 1))
    assert "mul i32" in small and "mul i64" not in small and "mul i64" in large


GATHER = """gpu.module @kernels {
  gpu.func @k(%x: memref<COUNTxf32>, %n: memref<64xi64>, %o: memref<64xf32>) kernel {
    %t = gpu.thread_id x
    %i = memref.load %n[%t] : memref<64xi64>
    %j = arith.index_cast %i : i64 to index
    %c = arith.constant 1000 : index
    %ok = arith.cmpi ult, %j, %c : index
    scf.if %ok {
      %v = memref.load %x[%j] : memref<COUNTxf32>
      memref.store %v, %o[%t] : memref<64xf32>
    }
    gpu.return
  }
}"""


def test_long_indices_of_the_user_stay_out_of_bounds() -> None:
    """An index of 2**32 + 5 must not become 5 when indices have 32 bits."""
    narrow, wide = (compile_text(GATHER.replace("COUNT", str(n))).ptx for n in (1000, 1 << 31))
    assert "min.s64" in narrow and "max.s64" in narrow and "min.s64" not in wide


def test_kernels_of_one_module_share_a_cubin() -> None:
    functions = "".join(kernel("%r = math.exp %v : f32", name=f"k{i}").partition("{")[2].rpartition("}")[0] for i in range(3))
    artifact = compile_text(f"gpu.module @kernels {{ {functions} }}")
    assert artifact.kernels == ("k0", "k1", "k2") == tuple(r.kernel for r in artifact.resources)


def test_threads_take_turns() -> None:
    """All entry points serialize threads: MLIR's Python bindings have global state, and concurrent use crashes the process."""

    def compiled(source: str) -> GpuArtifact:
        with COMPILING:
            return compile_text(source)

    sources = [kernel(f"%r = math.{name} %v : f32", name=name) for name in ("exp", "tanh", "log", "sqrt")]
    with ThreadPoolExecutor(4) as pool:
        assert [a.kernels for a in pool.map(compiled, sources)] == [("exp",), ("tanh",), ("log",), ("sqrt",)]


@pytest.mark.parametrize(
    ("body", "arch", "message"),
    [
        ("%r = math.cbrt %v : f64", "sm_90a", "__nv_cbrt is a function of a library"),
        ("%p = \"tile.program_id\"() : () -> index\n %n = arith.index_cast %p : index to i64\n %r = arith.sitofp %n : i64 to f64", "sm_90a", "tile.program_id did not lower to NVVM"),
        ("%r = arith.negf %v : f64\n nvvm.cluster.arrive", "sm_80", "needs clusters, which sm_80 has not.*sm_90"),
        ("%r = arith.negf %v : f64\n nvvm.wgmma.fence.aligned", "sm_90", "not sm_90 .compile for nvvm:sm_90a"),
        ("%r = llvm.intr.exp(%v) : (f64) -> f64", "sm_90a", "llvm.intr.exp"),
    ],
)  # fmt: skip
def test_refusals(body: str, arch: str, message: str) -> None:
    with pytest.raises((CompileError, ir.MLIRError), match=message):
        compile_text(kernel(body, "f64"), arch)


def test_libraries_are_refused() -> None:
    source = """gpu.module @kernels {
      llvm.func @erfinv(f32) -> f32
      gpu.func @k(%x: memref<8xf32>) kernel {
        %i = gpu.thread_id x
        %v = memref.load %x[%i] : memref<8xf32>
        %r = llvm.call @erfinv(%v) : (f32) -> f32
        memref.store %r, %x[%i] : memref<8xf32>
        gpu.return
      }
    }"""
    with pytest.raises(CompileError, match="erfinv is a function of a library, and no GPU has it"):
        compile_text(source)


def test_programs_for_cpus_are_refused() -> None:
    with pytest.raises(CompileError, match="@f is a program for a CPU.*lamina-tile{target=nvvm:sm_90a}"):
        compile_text("func.func @f(%x: memref<8xf32>) attributes {tile.grid = 1 : i64} { return }")
    with pytest.raises(CompileError, match="no gpu.module"):
        compile_text("module {}")


def test_what_ptxas_refuses_names_kernel_source_and_file() -> None:
    asm = 'llvm.inline_asm has_side_effects "nonsense;", "" : () -> () loc("model.py":12:3)'
    with pytest.raises(CompileError) as caught:
        compile_text(kernel(f"{asm}\n %r = arith.negf %v : f32", name="broken"))
    error = caught.value
    assert "ptxas refuses kernel broken for sm_90a" in error.message and "nonsense" in error.message
    saved = re.search(r"its PTX is (\S+\.ptx)", error.remedy)
    assert saved and "nonsense" in Path(saved[1]).read_text() and "model.py:12" in error.remedy
    Path(saved[1]).unlink()


def test_shared_memory_beyond_the_chip_is_ptxas_s_error() -> None:
    source = """gpu.module @kernels {
      gpu.func @big(%x: memref<8xf32>) workgroup(%w: memref<99999xf32, #gpu.address_space<workgroup>>) kernel {
        %i = gpu.thread_id x
        %v = memref.load %x[%i] : memref<8xf32>
        memref.store %v, %w[%i] : memref<99999xf32, #gpu.address_space<workgroup>>
        gpu.barrier
        %r = memref.load %w[%i] : memref<99999xf32, #gpu.address_space<workgroup>>
        memref.store %r, %x[%i] : memref<8xf32>
        gpu.return
      }
    }"""
    with pytest.raises(CompileError, match="kernel big .*shared") as caught:
        compile_text(source)
    Path(re.search(r"its PTX is (\S+\.ptx)", caught.value.remedy)[1]).unlink()  # type: ignore[index]


def test_another_ptxas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(ptx.OVERRIDE, str(tmp_path / "none"))
    with pytest.raises(CompileError, match="LAMINA_PTXAS names .*none, which cannot be run"):
        ptx.ptxas("sm_90a")
    script = tmp_path / "ptxas"
    script.write_text(f'#!/bin/sh\necho used >> {tmp_path}/log\nexec {ptx.tool_path("ptxas")} "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv(ptx.OVERRIDE, str(script))
    assert compile_text(kernel("%r = arith.negf %v : f32")).code and (tmp_path / "log").read_text() == "used\n"


def test_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptx, "_tools", dict)
    monkeypatch.delenv(ptx.OVERRIDE, raising=False)
    with pytest.raises(CompileError, match="there is no ptxas.*pip install triton, or name a ptxas in LAMINA_PTXAS"):
        ptx.ptxas("sm_90a")


def test_pipeline_of_the_lit_test_is_the_target_s() -> None:
    from lamina.targets.nvvm.backend import lowering_pipeline

    assert f"{lowering_pipeline()})'" in KERNELS.read_text()


def test_kernel_at_a_line() -> None:
    source = ".visible .entry a(\n)\n{\n}\n.visible .entry b(\n)\n{\n bad\n}\n"
    assert (kernel_at(source, 3), kernel_at(source, 8), kernel_at(source, 0)) == ("a", "b", "")


TILE = """func.func private @double(%x: memref<4096xf32>, %o: memref<4096xf32>) attributes {
    tile.grid = 8 : i64, tile.threads = 128 : i64, tile.vec = 4 : i64, tile.chunks = 1 : i64, tile.pack = 1 : i64, tile.teams = 1 : i64,
    tile.cluster = 1 : i64, tile.align = array<i64: 16, 16>, tile.outputs = 1 : i64} {
  %p = "tile.program_id"() : () -> index
  %n = arith.constant 512 : index
  %i = arith.muli %p, %n : index
  %z = arith.constant 0.0 : f32
  %v = vector.transfer_read %x[%i], %z {in_bounds = [true]} : memref<4096xf32>, vector<512xf32>
  %r = arith.addf %v, %v : vector<512xf32>
  vector.transfer_write %r, %o[%i] {in_bounds = [true]} : vector<512xf32>, memref<4096xf32>
  return
}"""


def test_every_level_from_a_tile_program() -> None:
    """The MLIR levels can be parsed again."""
    with context(), ir.Location.unknown():
        reached = {level: text() for level, text in NvvmBackend(Target.parse("nvvm:sm_90a")).below(ir.Module.parse(TILE))}
        for level in ("gpu", "nvvm"):
            ir.Module.parse(reached[level])
    assert list(reached) == ["triton", "gpu", "nvvm", "llvm", "ptx", "sass"]
    assert "v1 = program * 512\n" in reached["triton"]
    assert "ld.global.nc.v4" in reached["ptx"] and "STG.E.128" in reached["sass"]


def test_many_kernels_are_cubins_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lamina.targets.nvvm.backend._processors", lambda: 3)
    names = tuple(f"double{i}" for i in range(13))
    artifact = compile_text("\n".join(TILE.replace("@double", f"@{name}") for name in names))
    assert artifact.kernels == names == tuple(r.kernel for r in artifact.resources)
    made = cubins.divide(artifact.code)
    assert [code[:4] for code in made] == [b"\x7fELF"] * 3 and cubins.join(made) == artifact.code
    found = backend(Target.parse("nvvm:sm_90a")).assembly(artifact)
    assert all(found.count(f".text.{name}:") == 1 and f".entry {name}(" in artifact.ptx for name in names)


def test_one_cubin_is_the_code() -> None:
    assert cubins.join([b"a"]) == b"a" and cubins.divide(b"a") == [b"a"] and cubins.divide(cubins.join([])) == []
