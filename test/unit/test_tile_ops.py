"""Checks the tables of tile ops by target: every op has a row in each, and is lowered or rejected as the row says."""

import inspect
import re

import pytest
import torch
from gpu_programs import tiled
from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.dialects import context, random, tile
from lamina.passes.infra.pipeline import run
from lamina.passes.lower.simt.kernel import TILE_OPS
from lamina.passes.lower.tile_ops import Refused
from lamina.targets.registry import tile_ops
from lamina.targets.triton.printing.ping_pong import PingPongPrinter
from lamina.targets.triton.text import print_kernel

LINE = 'loc("model.py":7:1)'
SHAPE = "tile.grid = 1 : i64, tile.threads = 64 : i64, tile.vec = 2 : i64, tile.chunks = 1 : i64, tile.pack = 1 : i64"
MORE = "tile.teams = 1 : i64, tile.cluster = 1 : i64, tile.outputs = 1 : i64, tile.align = array<i64: 16, 16>"
ROUTED = 'tile.ctas = 1 : i64, tile.triton = "triton{warps=2 stages=1}"'
VALUES = """
  %zero = arith.constant 0 : index
  %all = arith.constant 128 : index
  %yes = arith.constant true
  %mask = arith.constant dense<true> : vector<128xi1>
  %at = arith.constant dense<0> : vector<128xindex>
  %v = arith.constant dense<1.0> : vector<128xf32>
  %each = arith.constant dense<1.0> : vector<64xf32>
  %one = arith.constant 1.0 : f32
  %seed = arith.constant dense<7> : vector<128xi64>
"""
STORE = "  vector.transfer_write %v, %o[%zero] {in_bounds = [true]} : vector<128xf32>, memref<128xf32>\n"
OPS = {
    "tile.program_id": '"tile.program_id"() : () -> index',
    "tile.check": '"tile.check"(%mask) {message = "out of range"} : (vector<128xi1>) -> ()',
    "tile.gather": '"tile.gather"(%m, %at, %mask, %v) : (memref<128xf32>, vector<128xindex>, vector<128xi1>, vector<128xf32>) -> vector<128xf32>',
    "tile.scatter": '"tile.scatter"(%v, %m, %at, %mask) : (vector<128xf32>, memref<128xf32>, vector<128xindex>, vector<128xi1>) -> ()',
    "tile.read_runs": '"tile.read_runs"(%m, %zero, %zero, %mask) {along = 1 : i64, jumps = [64], lengths = [64]} : '
    "(memref<128xf32>, index, index, vector<128xi1>) -> vector<128xf32>",
    "tile.read_shared": '"tile.read_shared"(%m, %zero, %zero, %yes) {length = 64 : i64, jump = 1 : i64} : '
    "(memref<128xf32>, index, index, i1) -> vector<128xf32>",
    "tile.write_runs": '"tile.write_runs"(%v, %m, %zero, %zero, %mask) {jumps = [64], lengths = [64]} : '
    "(vector<128xf32>, memref<128xf32>, index, index, vector<128xi1>) -> ()",
    "tile.scan": '"tile.scan"(%v, %one) {combine = "arith.addf"} : (vector<128xf32>, f32) -> (vector<128xf32>, f32)',
    "tile.sort": '"tile.sort"(%seed) : (vector<128xi64>) -> vector<128xi64>',
    "tile.recurrence": '"tile.recurrence"(%v, %v, %one) : (vector<128xf32>, vector<128xf32>, f32) -> (vector<128xf32>, f32)',
    "tile.window": '"tile.window"(%zero, %all) {max_low = 0 : i64, min_high = 128 : i64} : (index, index) -> vector<128xi1>',
    "tile.transpose": '"tile.transpose"(%m, %zero, %all, %all, %scratch, %all) : '
    "(memref<128xf32>, index, index, index, memref<128x128xf32>, index) -> ()",
    "tile.combine": '"tile.combine"(%v) {combine = "arith.addf"} : (vector<128xf32>) -> vector<128xf32>',
    "tile.exp_sum": '"tile.exp_sum"(%v, %each, %each) : (vector<128xf32>, vector<64xf32>, vector<64xf32>) -> '
    "(vector<128xf32>, vector<64xf32>, vector<64xf32>)",
    "tile.exp_total": '"tile.exp_total"(%each, %each) : (vector<64xf32>, vector<64xf32>) -> (f32, f32, vector<64xf32>)',
    "tile.lanes": '"tile.lanes"(%each) : (vector<64xf32>) -> vector<128xf32>',
    "random.bits": '"random.bits"(%seed, %at) : (vector<128xi64>, vector<128xindex>) -> vector<128xi32>',
}
PIPELINES = {
    "cpu": ["lamina-expand-math,lamina-tile-to-cpu"],
    "nvvm": [
        f"lamina-expand-math{{target=nvvm}},lamina-distribute{{lanes={n}}},lamina-expand-math{{target=nvvm}}" for n in (32, 64)
    ],
}


def program(op: str) -> str:
    """Returns the text of a block program with an op, which comes from line 7 of a model."""
    head = f"func.func @k(%m: memref<128xf32>, %o: memref<128xf32>) attributes {{{SHAPE}, {MORE}, {ROUTED}}} {{\n"
    if op == "tile.part":
        return head + _part(VALUES + STORE) + "  return\n}"
    scratch = "  %scratch = memref.alloca() : memref<128x128xf32>\n" if op == "tile.transpose" else ""
    return f"{head}{scratch}{_lines(op)}{STORE}  return\n}}"


def in_a_product(op: str) -> str:
    """Returns the text of a product's program that begins with the op."""
    schedule = "triton{m=64 n=64 k=32 warps=4 stages=3 group=1 resident=0}"
    inputs = [torch.randn(128, 64).bfloat16(), torch.randn(64, 64).bfloat16()]
    text = str(tiled(lambda x, w: x @ w.t(), inputs, products=schedule)[0])
    if op == "tile.program_id":  # every product's program has one
        return text
    text = text.replace("(%arg0:", "(%m: memref<128xf32>, %scratch: memref<128x128xf32>, %arg0:", 1)
    begin = text.index("\n", text.index("func.func")) + 1
    return text[:begin] + (_part("") if op == "tile.part" else _lines(op)) + text[begin:]


def _part(body: str) -> str:
    return f'  "tile.part"() ({{\n{body}\n}}) {{{SHAPE}, {MORE}}} : () -> () {LINE}\n'


def _lines(op: str) -> str:
    """Returns the op's operands and its line, with names for its results."""
    text = OPS[op]
    results = text.rpartition("->")[2].strip()
    count = 0 if results == "()" else results.count(",") + 1
    names = f"%r:{count} = " if count > 1 else "%r = " if count else ""
    return f"{VALUES}  {names}{text} {LINE}\n"


def lower(name: str, op: str) -> None:
    """Lowers programs with the op by each pipeline of a lowering; nothing of the tile dialect may be left."""
    for pipeline in PIPELINES.get(name, [""]):
        module = ir.Module.parse(in_a_product(op) if "products" in name else program(op), context())
        if not pipeline:
            text = print_kernel(next(iter(module.body.operations)).operation, descriptors=False).kernel
            compile(text, "kernel", "exec")
            continue
        run(f"builtin.module({pipeline})", module)
        module.operation.verify()
        assert not re.search(r'"?(tile|random)\.[a-z_]+"?\(', str(module))


def test_a_gpu_refuses_an_op_whose_row_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TILE_OPS, "tile.lanes", Refused("threads are busy", "emit something else"))
    with pytest.raises(CompileError, match=r"model\.py:7.* has no form for tile\.lanes: threads are busy.*emit something else"):
        lower("nvvm", "tile.lanes")


def test_warp_groups_number_their_programs_themselves() -> None:
    """The two groups of a ping-pong kernel alternate, each with its own program number, which is not the CTA's."""
    text = (
        in_a_product("tile.program_id")
        .replace("resident=0", "resident=1 ping_pong=1")
        .replace("tile.threads = 128", "tile.threads = 384")
    )
    module = ir.Module.parse(text, context())
    function = next(iter(module.body.operations)).operation
    assert function.attributes["tile.ctas"] == function.attributes["tile.grid"]
    printed = PingPongPrinter(function, True, "k").run()
    assert "program = tl.program_id(0)" not in printed.kernel


def names() -> list[str]:
    """Returns the names of all ops of the tile dialect and of random.bits."""
    classes = [c for m in (tile, random) for c in vars(m).values() if inspect.isclass(c) and issubclass(c, ir.OpView)]
    return [c.OPERATION_NAME for c in classes if c.__module__ in (tile.__name__, random.__name__) and hasattr(c, "OPERATION_NAME")]


@pytest.mark.parametrize("lowering", tile_ops())
def test_every_op_has_a_row(lowering: str) -> None:
    assert set(tile_ops()[lowering]) == set(names()) == {*OPS, "tile.part"}


@pytest.mark.parametrize("op", [*OPS, "tile.part"])
@pytest.mark.parametrize("lowering", tile_ops())
def test_an_op_is_lowered_or_refused_as_its_row_says(lowering: str, op: str) -> None:
    row = tile_ops()[lowering][op]
    if not isinstance(row, Refused):
        lower(lowering, op)
        return
    with pytest.raises(CompileError) as error:
        lower(lowering, op)
    assert op in str(error.value)
    assert row.why in str(error.value)
    assert "model.py:7" in str(error.value)
    assert row.remedy in str(error.value)
