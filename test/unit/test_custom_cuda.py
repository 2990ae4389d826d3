"""Tests custom kernels in CUDA C++: launch arguments as constants, compiled to cubins, and error messages."""

import re
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
from custom_kernels import compiled, launches, planned, run, scaled_add, scaled_add_kernel
from torch import Tensor

import lamina
from lamina.core.cuda_source import CudaSource, Parameter
from lamina.core.errors import CompileError
from lamina.core.gpu import Gpu
from lamina.core.options import Options
from lamina.core.program import Program
from lamina.frontend.entry.levels import emit
from lamina.targets.kernel_calls import nvrtc
from lamina.targets.kernel_calls import user as triton_user
from lamina.targets.kernel_calls.ptx_parameters import bind, most_threads, parameters
from lamina.targets.ptx import assemble

needs_nvrtc = pytest.mark.skipif(nvrtc.find_library() is None, reason="nvidia-cuda-nvrtc is not installed")
SCALED_ADD = r"""
__device__ float product(float a, float b) { return a * b; }  // its line is known

extern "C" __global__ void scaled_add(const float* __restrict__ x, const float* y, float* out, int n, float alpha) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + product(alpha, y[i]);
}
"""
LINE = Path(__file__).read_text().count("\n", 0, Path(__file__).read_text().index("__global__ void scaled_add")) + 1


def cuda_of(source: Any = SCALED_ADD, **changes: Any) -> lamina.CustomKernel:
    given: dict[str, Any] = {
        "source": source,
        "arguments": lambda x, y, alpha, out: (x, y, out, x.numel(), alpha),
        "grid": lambda x, threads: triton.cdiv(x.numel(), threads),
        "threads": 128,
    }
    return lamina.custom_kernel("lamina_test::scaled_add", **{**given, **changes})


def ptx_of(
    kernel: lamina.CustomKernel, fn: Any, inputs: Sequence[Tensor], arch: str = "sm_90a"
) -> tuple[str, Program, triton_user.UserKernel]:
    _, program, (user,) = planned(fn, inputs, [kernel])
    return triton_user.compile_user(user, kernel.kernel, Gpu.named(arch)).ptx, program, user


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_numbers_become_constants(arch: str) -> None:
    x = torch.randn(1000)
    ptx, program, user = ptx_of(cuda_of(), lambda x, y: scaled_add(x, y, 0.5), [x, x], arch)
    assert re.findall(r"\.param \.(\w+) (\w+)", ptx) == [("u64", f"{user.symbol}_param_{i}") for i in range(2)], "x is y"
    assert "1000;" in ptx and re.search(r"\b(0f3F000000|1056964608);", ptx) and not re.search(r"ld\.param\.(?![ub]64)", ptx)
    (own,) = launches(program)
    assert (own.grid, own.threads, own.threads_yz, own.bytes) == (8, 128, (1, 1), 8000)
    assert assemble(ptx, arch).resources[0].spill_stores == 0


@needs_nvrtc
def test_templates_macros_and_shared_memory() -> None:
    source = """
        namespace mine {
        template <typename T, int N> __global__ void __launch_bounds__(64) scale(const T* x, const T* y, T* out, int n) {
            extern __shared__ float kept[];
            __shared__ T other[N];
            int i = (blockIdx.y * blockDim.y + threadIdx.y) * COLUMNS + threadIdx.x;
            kept[threadIdx.x] = (float)x[i], other[threadIdx.x] = y[i];
            __syncthreads();
            if (i < n) out[i] = (T)(kept[threadIdx.x] * SCALE + (float)other[threadIdx.x]);
        }
        }
    """
    kernel = cuda_of(
        f"#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n{source}",
        kernel="mine::scale<ELEMENT, COLUMNS>",
        constants={"ELEMENT": lambda x: x.dtype, "COLUMNS": 16, "SCALE": float("inf")},
        arguments=lambda x, y, out: (x, y, out, x.numel()),
        threads=lambda COLUMNS: (COLUMNS, 4),
        shared=lambda COLUMNS: 4 * COLUMNS,
        grid=lambda: (1, 2),
    )
    x = torch.randn(8, 16)
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        found = compiled(lambda x, y: scaled_add(x * 2, y) + 1, [x.to(dtype), x.to(dtype)], [kernel])
        own = found.program.steps[1]
        assert (own.name, own.threads, own.threads_yz, own.grid_yz, own.shared) == ("scale", 16, (4, 1), (2, 1), 64)


@needs_nvrtc
def test_several_in_one_program() -> None:
    """Variables and functions of the same name do not clash, next to a Triton kernel and printf."""
    text = """
        __device__ int count;
        __constant__ float table[2] = {1, 2};
        __device__ __noinline__ float other(float x) { atomicAdd(&count, 1); return x + table[count % 2]; }
        __global__ void unused(float* x) { *x = other(*x); }
        __global__ void scaled_add(const float* x, const float* y, float* out) { printf("%f", out[0] = other(x[0]) + y[0]); }
    """
    kernel = cuda_of(text, kernel="scaled_add", arguments=lambda x, y, out: (x, y, out))
    x = torch.randn(64)
    found = compiled(lambda x: scaled_add(scaled_add(x[:32], x[32:]), x[1:33]), [x], [kernel])
    assert sorted(found.kernels) == ["custom_scaled_add", "custom_scaled_add_1"]


@needs_nvrtc
def test_configs_are_macros_and_threads() -> None:
    kernel = cuda_of(configs=[{"UNROLL": 2, "threads": 64}, {"UNROLL": 4, "threads": 256}])
    _, program, (user,) = planned(scaled_add, [torch.randn(1000)] * 2, [kernel])
    assert (program.steps[0].grid, user.block) == (16, 64) and '"UNROLL": "2"' in user.call


def test_a_bound_entry() -> None:
    ptx = """
.visible .entry k(
	.param .u64 .ptr .global .align 4 k_param_0,
	.param .u8 k_param_1,
	.param .align 2 .b8 k_param_2[2],
	.param .u64 k_param_3
)
.maxntid 32, 4
{
	.reg .b16 	%rs<4>;
	.reg .b32 	%r<3>;
	.reg .f64 	%fd<2>;
	.reg .b64 	%rd<2>;
	ld.param.s8 	%rs1, [k_param_1];
	ld.param.u8 	%rs2, [k_param_1];
	ld.param.u16 	%rs3, [k_param_2];
	ld.param.u16 	%r2, [k_param_2];
	ld.param.u32 	%r1, [k_param_3+4];
	ld.param.f64 	%fd1, [k_param_3];
	ld.param.u64 	%rd1, [k_param_0];
	{mul.f16 %rs1,%rs1,%rs2;
}
	ret;
}
.visible .entry k2(
	.param .u64 k2_param_0
)
{
	mov.b64 %rd2, k2_param_0;
}
"""
    assert [(p.type, p.bytes) for p in parameters(ptx, "k")] == [("u64", 8), ("u8", 1), ("b8", 2), ("u64", 8)]
    assert (most_threads(ptx, "k"), most_threads(ptx, "k2")) == (128, 0)
    text, left = bind(ptx, "k", "mine", [1, b"\xff", b"\x00\x3c", b"\0\0\0\0\0\0\xf0\x3f"], 2, (32, 1, 1))
    assert not left and "k2" not in text and "k_param" not in text and ".param .u64 mine_param_1\n)\n.maxntid 32, 4" in text
    assert re.findall(r"mov\.(\w+) \t(%\w+), (\w+|-\d+);", text) == [
        ("b16", "%rs1", "-1"), ("b16", "%rs2", "255"), ("b16", "%rs3", "15360"), ("b32", "%r2", "15360"), ("b32", "%r1", "1072693248"),
        ("f64", "%fd1", "0d3FF0000000000000"),
    ]  # fmt: skip
    assert "ld.param.u64 \t%rd1, [mine_param_1]" in text
    text, left = bind(ptx, "k2", "mine", [bytes(8)], 1, (16, 4, 1))
    assert left == [0] and ".reqntid 16, 4, 1" in text


def test_what_is_written_of_parameters() -> None:
    text = """
        // __global__ void k(int no)
        template <class T, int N = (1 > 0)> __global__ void __launch_bounds__(N * (2)) k(
            const T *__restrict__ x, /* , */ float4 y[], unsigned long long n, S<int, 3> const s, int, void *z)
        { k2(x); }
        __global__ void empty(void);
    """
    found = CudaSource(text, "k<float>", "f.cu", 10)
    assert found.place == "f.cu:12"
    assert found.parameters == (
        Parameter("const T *__restrict__", "x"), Parameter("float4*", "y"), Parameter("unsigned long long", "n"),
        Parameter("S<int, 3> const", "s"), Parameter("int", ""), Parameter("void *", "z"),
    )  # fmt: skip
    assert found.parameters[0].element({"T": "__half"}) == "__half" and found.parameters[1].alignment({}) == 16
    assert CudaSource(text, "empty", "f.cu", 1).parameters == ()
    assert CudaSource("#define K __global__ void k(int a)\n__global__ void k(float b)", "k", "f.cu", 1).parameters is None


DECLARED: dict[str, tuple[dict[str, Any], str]] = {
    "which": ({"source": "__global__ void a() {} __global__ void b() {}"}, "kernel must name a function of source .it has a, b"),
    "none": ({"source": "int x;"}, "it has no function with __global__"),
    "unknown": ({"kernel": "scaled_ad"}, "source has no kernel 'scaled_ad' .did you mean 'scaled_add'"),
    "no text": ({"source": 7}, "source must be CUDA C.. as a text, or the pathlib.Path"),
    "no file": ({"source": Path("nowhere.cu")}, "source nowhere.cu cannot be read: No such file"),
    "threads": ({"threads": 2048}, "threads gives 2048, not one to three numbers .a block has at most 1024 threads"),
    "shared": ({"shared": -1}, "shared gives -1, not a number of bytes"),
    "macro": ({"constants": {"A B": 1}}, "'A B', which is not the name of a macro"),
    "warps": ({"num_warps": 8}, "are for kernels in Triton .give threads"),
    "rule": ({"threads": lambda nothing: 1}, "threads takes 'nothing', which nobody gives it"),
    "constant rule": ({"constants": {"T": lambda out: 1}}, r"constants\['T'\] takes 'out', which nobody gives it"),
    "flags": ({"flags": "-G"}, "flags must be a sequence of options"),
    "for Triton": ({"source": None, "kernel": scaled_add_kernel}, "threads is for kernels in CUDA C"),
}


@pytest.mark.parametrize("case", DECLARED)
def test_when_it_is_declared(case: str) -> None:
    changed, message = DECLARED[case]
    with pytest.raises(CompileError, match=message):
        cuda_of(**changed)


def two(x: Tensor, y: Tensor, out: Tensor, *more: Any) -> tuple[Any, ...]:
    return x, y, out, *more


def with_parameters(text: str) -> str:
    return f'extern "C" __global__ void scaled_add({text}) {{ }}'


FITS: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({"arguments": lambda x, y, out: (x, y, out, 1)}, "parameter 'alpha' gets no value"),
    "missing by name": ({"arguments": lambda x, y, out: {"x": x, "y": y, "out": out}}, "parameter 'n' gets no value"),
    "unknown": ({"arguments": lambda x: {"z": x}}, "gives parameter 'z', which it does not have"),
    "too many": ({"arguments": lambda x, y, out: (x, y, out, 1, 1.0, 2)}, "gives 6 values for 5.*it takes x, y, out, n, alpha"),
    "no value": ({"arguments": lambda x, y, out: (x, y, out, x.dtype, 1.0)}, "parameter 'n' gets torch.float32"),
    "an element": ({"source": with_parameters("__half* x, float* y, float* out, int n, float alpha")},
                   f"{__file__}.*parameter 'x' is __half[*], but gets a tensor of torch.float32"),
    "a block": ({"threads": lambda x: 0}, "threads gives 0"),
    "a macro": ({"constants": {"A": [1]}}, "parameter 'A' gets .1., which is not a constant"),
}  # fmt: skip


@pytest.mark.parametrize("case", FITS)
def test_what_rules_say(case: str) -> None:
    changed, message = FITS[case]
    with pytest.raises(CompileError, match=message):
        planned(scaled_add, [torch.randn(64)] * 2, [cuda_of(**changed)])


COMPILED: dict[str, tuple[dict[str, Any], str]] = {
    "a name": ({"source": SCALED_ADD.replace("x[i] +", "z[i] +")}, 'NVRTC refuses kernel scaled_add: identifier "z" is undefined'),
    "a header": ({"source": "#include <nothing.h>\n" + SCALED_ADD}, 'open source file "nothing.h".*flags=."-I...",'),
    "the standard library": ({"source": "#include <cmath>\n" + SCALED_ADD}, "nvidia-cuda-cccl has <cuda/std/cmath>"),
    "cccl": ({"source": "#include <cub/nothing.h>\n" + SCALED_ADD}, "pip install nvidia-cuda-cccl"),
    "a float": ({"arguments": lambda x, y, out: (x, y, out, 1.5, 1.0)}, r"parameter 'n' \(int\) is an integer, but gets 1.5"),
    "large": ({"arguments": lambda x, y, out: (x, y, out, 2**33, 1.0)}, "parameter 'n' .int. gets 8589934592, which 32 bits"),
    "a pointer": ({"arguments": lambda x, y, out: (x, y, 3, 1, 1.0)}, r"parameter 'out' \(float\*\) is a pointer, but gets 3"),
    "no pointer": ({"arguments": lambda x, y, out: (x, y, out, x, 1.0)}, r"parameter 'n' \(int\) is not a pointer, but gets a tensor"),
    "unnamed": ({"source": f"#define ARGS float* a, float* b\n{with_parameters('ARGS')}"}, "takes 2 parameters, arguments gives"),
    "a struct": ({"source": "struct S { int a, b; };" + with_parameters("float* x, float* y, float* out, S s, float a")},
                 r"parameter 's' \(S\) is a struct, but kernels take tensors and numbers"),
    "threads": ({"source": SCALED_ADD.replace("void scaled", "void __launch_bounds__(32) scaled")}, "at most 32 threads, threads gives 128"),
}  # fmt: skip


@needs_nvrtc
@pytest.mark.parametrize("case", COMPILED)
def test_what_the_compiler_says(case: str) -> None:
    changed, message = COMPILED[case]
    if case == "unnamed":
        changed = {**changed, "arguments": lambda x, y, out: (x, y, out)}
    kernel = cuda_of(**changed)
    with pytest.raises(CompileError, match=message):
        ptx_of(kernel, scaled_add, [torch.randn(64)] * 2)


@needs_nvrtc
def test_the_line_of_an_error(tmp_path: Path) -> None:
    with pytest.raises(CompileError) as error:
        ptx_of(cuda_of(flags=["-Di=1"]), scaled_add, [torch.randn(64)] * 2)
    assert error.value.where == f"{__file__}:{LINE + 1}"
    file = tmp_path / "kernel.cu"
    file.write_text(SCALED_ADD.replace("x[i] +", "z[i] +"))
    with pytest.raises(CompileError) as error:
        ptx_of(cuda_of(file), scaled_add, [torch.randn(64)] * 2)
    assert error.value.where == f"{file}:6"
    assert cuda_of().kernel.place == f"{__file__}:{LINE}"


@needs_nvrtc
def test_alignment_that_vectors_need() -> None:
    source = with_parameters("const float4* x, const float* y, float4* out")
    kernel = cuda_of(source, arguments=lambda x, y, out: (x, y, out))
    ptx_of(kernel, scaled_add, [torch.randn(64)] * 2)
    with pytest.raises(
        CompileError, match=r"parameter 'x' \(const float4\*\) points to elements of 16 bytes.*multiple of 4.*clone"
    ):
        ptx_of(kernel, lambda x: scaled_add(x[1:33], x[32:]), [torch.randn(64)])


def test_without_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "find_library", lambda: None)
    with pytest.raises(CompileError, match="there is no NVRTC to compile it .pip install nvidia-cuda-nvrtc"):
        ptx_of(cuda_of(), scaled_add, [torch.randn(64)] * 2)
    monkeypatch.undo()
    monkeypatch.setenv(nvrtc.OVERRIDE, "nowhere.so")
    with pytest.raises(CompileError, match="LAMINA_NVRTC names nowhere.so, which cannot be loaded"):
        ptx_of(cuda_of(), scaled_add, [torch.randn(64)] * 2)


@needs_nvrtc
def test_the_example() -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "kernels" / "cuda_cpp.py"), run_name="__main__")
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(100, 30).to(dtype)
        found = compiled(example["model"], [x, x], [example["KERNEL"]])
        assert [step.name for step in found.program.steps] == ["mul", "scaled_add", "relu"]
    options = Options(kernels=(example["KERNEL"],))
    text = emit(example["model"], (torch.ones(8), torch.ones(8)), target="nvvm:sm_90a", level="triton", options=options)
    assert "# __global__ void scaled_add(" in text and '"ELEMENT": "float"' in text


def test_on_the_cpu_the_op_runs_as_without_it() -> None:
    x = torch.randn(64)
    assert torch.equal(lamina.compile(scaled_add, (x, x), options={"kernels": [cuda_of()]})(x, x), 2 * x)


def test_where_it_does_not_serve() -> None:
    x = torch.randn(64)
    with pytest.raises(CompileError, match="lamina_test.scaled_add.default has no lowering"):
        run(scaled_add, [x, x], [cuda_of(when=lambda threads: threads > 128)])
