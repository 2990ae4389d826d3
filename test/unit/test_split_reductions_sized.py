"""Tests reductions along symbolic sizes that are split into parts: on the CPU and in the simulator of GPUs, against float64."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from sized_programs import compiled, launches
from torch import Tensor
from torch.nn import functional as F
from torch_mlir import ir

from lamina.core.program import Launch
from lamina.dialects import context
from lamina.passes.fusion.reductions.joined_loops import join_loops
from lamina.passes.ir.reading import Generic, ops_in
from lamina.passes.ir.rewriting import function_bodies, is_unused

__all__ = ["launches"]

WEIGHTS = torch.linspace(-1, 1, 24)


def _of_columns(x: Tensor) -> Tensor:
    """Returns a row of 24 elements for each of a vector's."""
    return x[:, None] * WEIGHTS.to(x.dtype)


CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[tuple[int, ...], ...]]] = {
    "gradient of a bias": (lambda x: x.sum(0), (6000, 64), ((3, 5), (64, 9), (65, 64), (127, 3), (4097, 17))),
    "mean": (lambda x: x.square().mean(), (3000, 100), ((2, 3), (70, 70), (64, 64), (4097, 5), (1007, 2500))),
    "two outer sizes": (lambda x: (x.exp() - 1).sum((0, 1)), (90, 70, 48), ((2, 3, 4), (65, 7, 9), (300, 31, 5))),
    "maximum": (lambda x: x.amax((0, 1)), (90, 70, 48), ((2, 3, 4), (65, 7, 9), (9, 300, 5))),
    "square error": (lambda x: (x - 0.5).square().mean(), (70, 11), ((2, 3), (1000, 50), (127, 129), (4097, 5), (3, 4099))),
    "elements as they are": (lambda x: x.mean(), (3000, 100), ((2, 3), (127, 129), (4097, 5), (1007, 2500))),
    "one row as it is": (lambda x: x.amax() + x.sum(), (5000,), ((2,), (127,), (4097,), (70001,))),
    "known columns with statistics of rows": (
        lambda x: _of_columns(x).log_softmax(1).square().mean(),
        (4000,),
        ((2,), (127,), (1000,), (4097,), (30011,)),
    ),
    "slices and padding": (
        lambda x: (x[:, 1:] - F.pad(x, (1, 0))[:, 1:-1]).square().mean(),
        (300, 100),
        ((2, 3), (127, 129), (1007, 500)),
    ),
    "one row": (lambda x: x.exp().sum(), (5000,), ((2,), (3,), (127,), (4097,), (70000,))),
    "rows of a matrix": (lambda x: x.square().sum(-1), (4, 5000), ((2, 3), (3, 127), (5, 70001), (31, 4097))),
    "around many channels": (lambda x: x.mean((0, 2)), (9, 40, 700), ((2, 3, 4), (65, 7, 9), (9, 3, 1000), (127, 2, 129))),
    "with a factor for each channel": (
        lambda x: (x * x.amax((0, 2, 3), keepdim=True)).square().mean(),
        (20, 4, 30, 50),
        ((2, 3, 4, 5), (65, 2, 7, 9), (3, 127, 2, 33), (2, 5, 129, 31)),
    ),
    "with a factor for each row": (
        lambda x: (x * x.mean(-1, keepdim=True)).sum((0, 1)),
        (90, 70, 48),
        ((2, 3, 4), (65, 7, 9), (300, 21, 5), (2, 1000, 17)),
    ),
    "with their positions": (
        lambda x: (x * torch.arange(x.shape[2]) + torch.arange(x.shape[0])[:, None, None]).sum((0, 1)),
        (9, 700, 48),
        ((2, 3, 4), (65, 7, 9), (3, 301, 5)),
    ),
    "in two orders": (lambda x: (x * x.transpose(0, 1)).sum((0, 1)), (80, 80, 48), ((2, 2, 4), (65, 65, 9), (31, 31, 5))),
    "around a channel": (lambda x: (x + 1).sum((0, 2)), (90, 8, 480), ((2, 3, 4), (65, 7, 9), (9, 3, 1000))),
}


IN_SIMULATOR = {
    "slices and padding": ((2, 3), (127, 129), (401, 130)),
    "with a factor for each row": ((2, 3, 4), (65, 7, 9), (300, 21, 5), (2, 350, 17)),
}
"""Fewer elements by the same kernels, where the simulator takes seconds."""


def check(
    name: str, compile_: Callable[[Callable[..., Any]], Callable[..., Tensor]], sizes: dict[str, tuple[tuple[int, ...], ...]]
) -> None:
    fn, first, others = CASES[name]
    run, others = compile_(fn), sizes.get(name, others)
    for shape in (first, *others):
        x = torch.randn(shape)
        torch.testing.assert_close(run(x).double(), fn(x.double()), rtol=1e-5, atol=1e-4)


@pytest.mark.filterwarnings("error")  # such as that it is compiled per size
@pytest.mark.parametrize("name", CASES)
def test_on_cpus(name: str) -> None:
    torch._dynamo.reset()
    check(name, lambda fn: torch.compile(fn, backend="lamina", dynamic=True, options={"cache": False}), {})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CASES)
def test_on_gpus(name: str, launches: list[Launch]) -> None:
    check(name, compiled, IN_SIMULATOR)


SUM = """
!x = tensor<?x?x8xf32, ["s0~9", "s1~7", 8]>
func.func @main(%x: !x, %init: tensor<8xf32>) -> (!x, tensor<8xf32>) {
  %n = "graph.size"() {size = "s0~9"} : () -> index
  %m = "graph.size"() {size = "s1~7"} : () -> index
  %e = tensor.empty(%n, %m) : !x
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : !x) outs(%e : !x) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> !x
  %s = linalg.generic {indexing_maps = [#id, affine_map<(b, l, c) -> (c)>], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%y : !x) outs(%init : tensor<8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<8xf32>
  return %y, %s : !x, tensor<8xf32>
}
"""


def test_joining_loops_erases_nothing_that_analyses_know() -> None:
    """Values are known by where they are in memory, which a new one would take over from one that was erased."""
    module = ir.Module.parse("#id = affine_map<(b, l, c) -> (b, l, c)>" + SUM, context())
    (block,) = function_bodies(module)
    values, sums = ops_in(block, "linalg.generic")
    replaced: list[ir.Operation] = []
    with module.context:
        join_loops(Generic.read(sums), [0, 1], replaced)
    assert replaced == [values]
    assert is_unused(values)
    assert block.operations[-1].operation.operands[0].owner.name == "tensor.expand_shape"
