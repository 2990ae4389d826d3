"""Tests random bits: known answers of Philox, equal numbers in every tiling and on both targets, and the instructions that a
kernel spends on them."""

import ctypes
import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from gpu_programs import Simulated, distributed
from torch import Tensor, fx, nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch_mlir import ir

import lamina
from lamina.core.options import Options
from lamina.core.program import Call
from lamina.core.target import Target
from lamina.dialects import context
from lamina.frontend.compiling import stages
from lamina.frontend.decompositions.table import table
from lamina.frontend.entry import dynamo
from lamina.frontend.fx.random_bits import BITS, draw_seed, is_seed
from lamina.frontend.rewrites.normalize import normalize
from lamina.passes.infra.pipeline import run
from lamina.passes.ir.emit import Emit
from lamina.passes.lower.philox import philox
from lamina.runtime.loader import Code
from lamina.targets.cpu.backend import CpuBackend
from lamina.targets.levels import pipeline
from lamina.targets.nvvm.backend import NvvmBackend
from lamina.targets.ptx import disassemble

STRICT = Options(strict=True, cache=False)
ONES = 0xFFFFFFFF
PI = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0]
# From kat_vectors of Random123: rounds, four words of the counter and two of the key, four words of the answer.
KNOWN = [
    (7, [0] * 6, [0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48]),
    (7, [ONES] * 6, [0x5207DDC2, 0x45165E59, 0x4D8EE751, 0x8C52F662]),
    (7, PI, [0x4DFCCABA, 0x190A87F0, 0xC47362BA, 0xB6B5242A]),
    (10, [0] * 6, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    (10, [ONES] * 6, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (10, PI, [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
]
KERNEL = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64, ctypes.c_int64)


def run_on_cpu(module: ir.Module, *arrays: np.ndarray) -> None:
    artifact = CpuBackend(Target.host()).compile(module)
    code = Code(artifact.code, artifact.kernels)
    buffers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    KERNEL(code.addresses[artifact.kernels[0]])(buffers, 0, 1)


def answer(rounds: int, given: list[int], bits: int) -> list[int]:
    """What the formula of the kernels gives, in i32 or in the lower halves of i64."""
    text = f"""func.func @k(%in: memref<6xi{bits}>, %out: memref<4xi{bits}>) attributes {{tile.grid = 1 : i64}} {{
      return
    }}"""
    with context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        block = module.body.operations[0].regions[0].blocks[0]
        given_at, out_at = block.arguments
        e = Emit(ir.InsertionPoint(block.operations[0]), ir.Location.unknown())
        index, of = ir.IndexType.get(), ir.IntegerType.get_signless(bits)
        at = [e.constant(i, index).value for i in range(6)]
        words = [e.wrap(e.op("memref.load", [of], [given_at, i]).result) for i in at]
        for i, word in zip(at, philox(words[:4], words[4:], rounds), strict=False):
            e.op("memref.store", [], [word.value, out_at, i])
        out = np.zeros(4, f"u{bits // 8}")
        run_on_cpu(module, np.array(given, f"u{bits // 8}"), out)
    return [int(w) & ONES for w in out]


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(("rounds", "given", "want"), KNOWN)
def test_known_answers(rounds: int, given: list[int], want: list[int], bits: int) -> None:
    assert answer(rounds, given, bits) == want


def test_known_answers_of_the_op() -> None:
    for seed, given in ((0, [0, 0]), (PI[4] | PI[5] << 32, PI[4:])):
        words = torch.ops.lamina.random_bits(torch.tensor(seed), [3, 4])
        for i, row in enumerate(words.tolist()):
            assert [w & ONES for w in row] == answer(7, [i, 0, 0, 0, *given], 64)


def test_positions_past_32_bits() -> None:
    """The upper word of a block's number is used; scalars take the same path as blocks of lanes."""
    text = """func.func @k(%in: memref<2xi64>, %out: memref<1xi32>) attributes {tile.grid = 1 : i64} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %seed = memref.load %in[%c0] : memref<2xi64>
      %i = memref.load %in[%c1] : memref<2xi64>
      %at = arith.index_cast %i : i64 to index
      %r = "random.bits"(%seed, %at) : (i64, index) -> i32
      memref.store %r, %out[%c0] : memref<1xi32>
      return
    }"""
    out = np.zeros(1, np.uint32)
    with context(), ir.Location.unknown():
        run_on_cpu(ir.Module.parse(text), np.array([5 + (7 << 32), (3 << 34) + 4 * 11 + 2], np.int64), out)
    assert int(out[0]) == answer(7, [11, 3, 0, 0, 5, 7], 32)[2]


def kept(p: float, *shape: int) -> Tensor:
    """What the first dropout after manual_seed(3) keeps."""
    torch.manual_seed(3)
    return torch.ops.lamina.random_bits(draw_seed(torch.device("cpu")), list(shape)) < round((1 - p) * 2**32) - 2**31


def shares(y: Tensor) -> Tensor:
    return y / (1 + y.abs().sum(-1, keepdim=True))


CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...], Callable[[Tensor], Tensor]]] = {
    "whole accesses": (lambda x: F.dropout(x, 0.3), (64, 256), lambda m: m),
    "odd rows": (lambda x: F.dropout(x, 0.3), (7, 9), lambda m: m),
    "odd length": (lambda x: F.dropout(x, 0.3), (1001,), lambda m: m),
    "one element": (lambda x: F.dropout(x, 0.3), (1,), lambda m: m),
    "four dimensions": (lambda x: F.dropout(x, 0.3), (2, 3, 4, 20), lambda m: m),
    "transposed": (lambda x: F.dropout(x, 0.3).t() * 1, (36, 20), lambda m: m.t()),
    "part": (lambda x: F.dropout(x, 0.3)[3:, 5:], (36, 20), lambda m: m[3:, 5:]),
    "broadcast": (lambda x: F.dropout(x[:, :1], 0.3) * x, (36, 20), lambda m: m[:, :1].expand(36, 20)),
    "turned before": (lambda x: torch.native_dropout(x.t(), 0.3, True)[0], (36, 20), lambda m: m.t()),
    "used twice": (lambda x: shares(F.dropout(x, 0.3)), (40, 65), lambda m: m),
    "odd rows, whole accesses": (lambda x: shares(F.dropout(x, 0.3)), (5, 1027), lambda m: m),
    "even rows": (lambda x: shares(F.dropout(x, 0.3)), (9, 1030), lambda m: m),
    "padded by odd numbers": (lambda x: F.pad(F.dropout(x, 0.3), (3, 2)), (37, 19), lambda m: F.pad(m, (3, 2))),
    "a softmax of odd rows": (lambda x: F.dropout(torch.softmax(x, -1), 0.3), (2, 3, 197, 197), lambda m: m),
    "and padded": (lambda x: F.pad(F.dropout(x, 0.3), (4, 4)), (36, 20), lambda m: F.pad(m, (4, 4))),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_numbers_belong_to_elements(name: str, dtype: torch.dtype) -> None:
    fn, shape, placed = CASES[name]
    x = torch.rand(shape).to(dtype) + 1
    drawn = (shape[0], 1) if name == "broadcast" else shape
    mask = placed(kept(0.3, *drawn))
    program = Simulated(*distributed(fn, (x,)))
    torch.manual_seed(3)
    (on_gpu,) = program(x)
    assert torch.equal(on_gpu != 0, mask)
    with torch.no_grad():
        run = lamina.compile(fn, (x,), options=STRICT)
        torch.manual_seed(3)
        assert torch.equal(run(x) != 0, mask)


def test_a_kernel_computes_one_block_for_four_elements() -> None:
    with FakeTensorMode(), torch.no_grad():
        x = torch.empty(8192, 8192, dtype=torch.bfloat16)
        gm = make_fx(lambda x: torch.ops.aten.native_dropout(x, 0.1, True)[0], decomposition_table=table())(x)
    module = stages.import_linalg(normalize(gm), STRICT)
    run(pipeline("linalg", "tile", target="nvvm:sm_90a"), module)
    made = NvvmBackend(Target.parse("nvvm:sm_90a")).compile(module)
    (needs,) = made.resources
    assert needs.registers <= 40 and needs.spill_stores == needs.stack == 0
    ops = re.findall(r"^\s+/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_.]+)", disassemble(made.code), re.MULTILINE)
    elements = 8 * sum(op.startswith("LDG.E.128") for op in ops)
    assert elements and sum("IMAD.WIDE" in op for op in ops) <= 14 / 4 * elements + 4
    assert len([op for op in ops if op != "NOP"]) <= 16 * elements


def test_one_call_draws_all_seeds() -> None:
    def fn(x: Tensor) -> Tensor:
        return F.dropout(F.dropout(x, 0.5), 0.5) + torch.rand_like(x)

    program = Simulated(*distributed(fn, (torch.ones(64, 32),)))
    (call,) = (s for s in program.program.steps if isinstance(s, Call))
    assert call.callee == "aten.randint.low" and call.args[2] == (3,) and call.reason == "library"


def test_backward_gets_seeds_and_no_masks() -> None:
    graphs: list[fx.GraphModule] = []

    def keep(gm: fx.GraphModule, **options: Any) -> Callable[..., Any]:
        graphs.append(gm)
        return stages.compile_part(gm, **options)

    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.2))
    x = torch.randn(16, 8)
    torch._dynamo.reset()  # what other tests compiled makes numbers of modules symbols
    compiled = torch.compile(model, backend=functools.partial(dynamo.autograd, options=STRICT, compile=keep), dynamic=False)
    compiled(x).sum().backward()
    forward, backward = graphs
    saved = [n.meta["val"] for n in forward.graph.output_node().args[0]]
    assert sum(is_seed(n) for n in forward.graph.nodes) == 2 and sum(v.numel() == 1 and v.dtype == torch.int64 for v in saved) == 2
    assert all(v.dtype == torch.float32 for v in saved if v.numel() > 1)
    assert not any(is_seed(n) for n in backward.graph.nodes) and sum(n.target is BITS for n in backward.graph.nodes) == 2


LAYOUTS = {
    "transposed": torch.empty(4, 3).t(),
    "channels-last": torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "part": torch.empty(4, 6)[:, ::2],
    "expanded": torch.empty(1, 4).expand(3, 4),
}


@pytest.mark.parametrize("x", LAYOUTS.values(), ids=LAYOUTS)
def test_results_lie_in_memory_as_eagers_do(x: Tensor) -> None:
    def drawn(x: Tensor) -> list[Tensor]:
        last = [torch.rand_like(x, memory_format=torch.channels_last)] if x.dim() == 4 else []
        plain = torch.rand_like(x, memory_format=torch.contiguous_format)
        return [torch.rand_like(x), plain, *last, torch.ops.aten.bernoulli.p(x, 0.5), torch.native_dropout(x, 0.5, True)[0]]

    gm = make_fx(drawn, decomposition_table=table(), tracing_mode="fake")(x)
    assert [y.stride() for y in gm(x)] == [y.stride() for y in drawn(x)]
