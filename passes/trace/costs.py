"""The costs of operations for an element, relative to an addition."""

from torch_mlir import ir

COST = {"math.exp": 8, "math.erf": 16, "math.tanh": 14, "math.log": 10, "math.powf": 30, "math.sin": 16, "math.cos": 16,
        "math.exp2": 8, "math.log1p": 12, "math.expm1": 12, "math.rsqrt": 6, "math.sqrt": 6, "arith.divf": 5,
        "arith.divsi": 16, "arith.remsi": 16, "arith.remf": 20, "random.bits": 8, "arith.constant": 0,
        "linalg.index": 0, "linalg.yield": 0, "cf.assert": 0}  # fmt: skip
"""Costs of ops by name; others cost 1."""

CHEAP = 12  # operations per element below which computing again beats a load from cache
FREE = 4  # operations per element from which on it does not, if the kernel of a reduction stores the value in addition to its own
REPEATED = 8  # times that one kernel computes a value, from which on it does not: fewer where it costs more, on a CPU
SCALAR = 8  # operations for each vector of the result from which on a CPU does not compute a value as a scalar
LANES = 16  # of a CPU's vectors
LAUNCH = 1 << 14  # operations that take longer than launching a kernel
SIMILAR = 1.25  # bytes that a value is computed from, for each of its own, up to which loading them takes about as long
LARGEST = 160  # operations that are inlined into one expression at most


def cost_of(op: ir.Operation) -> int:
    """Returns the operations per element of the bodies of `op`."""
    return sum(COST.get(o.operation.name, 1) for region in op.regions for block in region.blocks for o in block.operations)
