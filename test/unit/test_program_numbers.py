"""Tests the division of program numbers by symbolic sizes, as products with reciprocals, for any numbers below UNIT."""

import numpy as np
from gpu_kernels import kernel
from gpu_simulator import simulate
from torch_mlir import ir

from lamina.core.sizes import Size, evaluate, parse
from lamina.passes.ir.reading import nested
from lamina.passes.ir.sizes import UNIT, reciprocal
from lamina.passes.lower.simt.threads import IndexBuilder

COUNT = 1 << 16


def _divided(numbers: np.ndarray, by: np.ndarray, inverse: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the quotients and remainders that a kernel computes."""
    memory = ", ".join(f"%{name}: memref<{COUNT}xi32>" for name in ("a", "n", "i", "q", "r"))
    module = kernel(
        memory,
        """
        %first = arith.muli %b, %c32 : index
        %at = arith.addi %first, %t : index
        %0 = memref.load %a[%at] : memref<65536xi32>
        %1 = arith.index_cast %0 : i32 to index
        %2 = memref.load %n[%at] : memref<65536xi32>
        %3 = arith.index_cast %2 : i32 to index
        %4 = memref.load %i[%at] : memref<65536xi32>
        %5 = arith.index_cast %4 : i32 to index
        %quotient = arith.divui %1, %3 : index
        %rest = arith.remui %1, %5 : index
        %6 = arith.index_cast %quotient : index to i32
        %7 = arith.index_cast %rest : index to i32
        memref.store %6, %q[%at] : memref<65536xi32>
        memref.store %7, %r[%at] : memref<65536xi32>
        """,
    )
    (quotient,), (rest,) = (nested(module.operation, f"arith.{name}") for name in ("divui", "remui"))
    (entry,) = next(iter(nested(module.operation, "gpu.func"))).regions[0].blocks
    with module.context, ir.Location.unknown(), ir.InsertionPoint(quotient):
        both = IndexBuilder(entry).divmod(*quotient.operands, rest.operands[1])
    for old, new in zip((quotient, rest), both, strict=True):
        old.results[0].replace_all_uses_with(new)
        old.erase()
    q, r = np.full(COUNT, -1, np.int32), np.full(COUNT, -1, np.int32)
    simulate(module, "k", [numbers, by, inverse, q, r], COUNT // 32, outputs=[3, 4])
    return q, r


def test_quotients_are_exact(rng: np.random.Generator) -> None:
    """Also next to multiples, for powers of two, and for the largest numbers and divisors that there are."""
    bits = rng.integers(0, 31, COUNT)
    by = np.minimum(rng.integers(1, (1 << bits) + 1), UNIT)
    by[: 31 * 3] = np.clip([(1 << k) + d for k in range(31) for d in (-1, 0, 1)], 1, UNIT)
    numbers = rng.integers(0, UNIT, COUNT)
    near = rng.integers(0, 3, COUNT)
    multiples = (numbers // by) * by + near - 1
    numbers = np.where(near < 2, np.clip(multiples, 0, UNIT - 1), numbers)
    numbers[-64:] = UNIT - 1
    inverse = -(-UNIT // by)
    q, r = _divided(*(x.astype(np.int32) for x in (numbers, by, inverse)))
    np.testing.assert_array_equal(q, numbers // by)
    np.testing.assert_array_equal(r, numbers % by)


def test_reciprocals() -> None:
    """They are rounded up, and those of sizes that may be 0 have a value, too."""
    size = parse("s0~7>=0")
    assert isinstance(size, Size)
    for value in (0, 1, 3, 1024, UNIT):
        assert evaluate(reciprocal(size), {"s0": value}) == -(-UNIT // max(value, 1))
