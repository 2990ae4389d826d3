"""Tests ranges of index values, which decide between 32 and 64 bits on a GPU, and which sums cannot wrap."""

from collections.abc import Callable

import pytest
import torch
from gpu_kernels import kernel
from gpu_programs import distributed, tiled
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from lamina.passes.ir.index_ranges import Ranges
from lamina.passes.ir.reading import by_name
from lamina.passes.lower.nvvm import indices
from lamina.targets.module import device_module
from lamina.targets.triton import text as triton_text

CASES: dict[str, tuple[str, tuple[float, float]]] = {
    "a sum": ("%r = arith.addi %t, %c32 : index", (32, 63)),
    "a difference": ("%r = arith.subi %c4, %t : index", (-27, 4)),
    "a product": ("%d = arith.subi %c4, %t : index\n%r = arith.muli %d, %c32 : index", (-27 * 32, 128)),
    "a quotient": ("%r = arith.divui %t, %c4 : index", (0, 7)),
    "a quotient of what may be negative": (
        "%d = arith.subi %c4, %t : index\n%r = arith.divui %d, %c4 : index", (-torch.inf, torch.inf)
    ),
    "a remainder": ("%r = arith.remui %t, %c4 : index", (0, 3)),
    "the lesser": ("%r = arith.minui %t, %c4 : index", (0, 4)),
    "a choice": ("%o = arith.cmpi ult, %t, %c4 : index\n%r = arith.select %o, %t, %c32 : index", (0, 32)),
    "rounded down to an access": (
        "%m = arith.remui %t, %c4 : index\n%n = arith.subi %c0, %m : index\n%r = arith.addi %t, %n : index", (0, 31)
    ),
    "a loop": (
        "%r = scf.for %k = %c0 to %c32 step %c4 iter_args(%o = %c0) -> index {\n"
        "  %r = arith.addi %k, %t : index\n  scf.yield %r : index\n}", (0, 62)
    ),
    "a user's number": ("%v = memref.load %x[%t] : memref<32xi64>\n%r = arith.index_cast %v : i64 to index", (-torch.inf, torch.inf)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_intervals(name: str) -> None:
    body, expected = CASES[name]
    module = kernel("%x: memref<32xi64>", body)
    ops = by_name(module.operation)
    name = body.rpartition("%r = ")[2].partition(" ")[0]
    assert Ranges().of(ops[name][-1].results[0]) == expected


SIDE = 1 << 17
LARGE: dict[str, Callable[[Tensor], Tensor]] = {
    "random numbers": lambda a: torch.rand(SIDE, SIDE).sum(-1) + a,
    "counted": lambda a: ((torch.arange(SIDE * SIDE) % 7).view(SIDE, SIDE) + a).sum(-1),
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("side", [SIDE, 1 << 10])
def test_elements_that_no_buffer_holds_are_counted_in_64_bits(name: str, side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SIDE", side)
    with FakeTensorMode():
        a = torch.empty(side)
    module, _ = distributed(LARGE[name], [a])
    assert indices.index_width(device_module(module)) == (64 if side > 1 << 16 else 32)


@pytest.mark.parametrize("side", [SIDE, 1 << 10])
def test_triton_counts_them_in_64_bits_too(side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SIDE", side)
    with FakeTensorMode():
        a = torch.empty(side)
    module, _ = tiled(LARGE["random numbers"], [a], last="lamina-route-to-triton")
    (kernel,) = triton_text.take(module, True)
    assert ("tl.program_id(0).to(tl.int64)" in kernel.text) == (side > 1 << 16)
