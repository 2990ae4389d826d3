"""Tests attention kernels of symbolic sizes: which indices have 32 bits, and the checks for that."""

import pytest
from attention_programs import program_of
from torch_mlir import ir

from lamina.core.binding.bind import Narrow, ProgramBinding
from lamina.core.gpu import Gpu
from lamina.core.sizes import parse
from lamina.dialects import context
from lamina.kernels.attention.symbolic import is_far
from lamina.targets.kernel_calls.own import place_own_kernels
from lamina.targets.kernel_calls.user import as_launches

LENGTH_FIRST = """
!given = tensor<?x?x4x64xbf16, ["s1~512", "s0~8", 4, 64]>
!tokens = tensor<?x4x?x64xbf16, ["s0~8", 4, "s1~512", 64]>
func.func @main(%x: !given) -> !tokens {
  %n = "graph.size"() {size = "s0~8"} : () -> index
  %m = "graph.size"() {size = "s1~512"} : () -> index
  %e = tensor.empty(%n, %m) : !tokens
  %q = linalg.transpose ins(%x : !given) outs(%e : !tokens) permutation = [1, 2, 0, 3]
  %0:2 = "graph.extern"(%q, %q, %q) {args = [unit, unit, unit, none, none, 0.0, false, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [["256*s1~512", "64*s1~512", 64, 1], ["4*s1~512", "s1~512", 1]]} : (!tokens, !tokens, !tokens) -> (!tokens, tensor<?x4x?xf32, ["s0~8", 4, "s1~512"]>)
  return %0#0 : !tokens
}
"""


def test_blocks_of_distant_rows_count_in_32_bits() -> None:
    """In (length, batch, head, element) order, consecutive rows are a batch apart: 256 of them must span less than 2**30
    elements."""
    with context(), ir.Location.unknown():
        program, _ = place_own_kernels(program_of(ir.Module.parse(LENGTH_FIRST)), Gpu.named("sm_90a"))
    program, kernels = as_launches(program)
    assert [kernel.key for kernel in kernels]
    (sizes,) = program.sizes
    assert parse("65536*s0~8") in sizes
    assert ProgramBinding(program)({"s0": 1 << 14, "s1": 2}).sizes == ()
    with pytest.raises(Narrow):
        ProgramBinding(program)({"s0": (1 << 14) + 1, "s1": 2})


def test_known_strides_may_need_64_bits() -> None:
    assert is_far(1 << 24, 128) and not is_far(1 << 23, 128)
    assert not is_far(None, 128)  # symbolic, so a value
