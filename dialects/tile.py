"""The `tile` dialect: ops that kernels written as programs over blocks need beyond upstream's `vector` dialect on memrefs.

A tile program is a `func.func` on memrefs (inputs, then outputs) without results. `tile.grid` is the number of programs:

    func.func @relu(%x: memref<1000xf32>, %o: memref<1000xf32>) attributes {tile.grid = 8 : i64} {
      %p = "tile.program_id"() : () -> index
      ... vector.transfer_read, arith, math, vector.multi_reduction, vector.transfer_write, scf.for ...
      return
    }
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import ext

from .combining import COMBINE, COMBINERS

GUARD = "tile.guard"
"""On a vector.create_mask: a vector.transfer_read's other lanes are its padding. Without it, nothing looks at them."""


class Tile(ext.Dialect, name="tile"):
    """Program ids, gathers, scans and the like; everything else is upstream `vector`, `arith`, `math`, `scf` and `memref`."""


class ProgramIdOp(Tile.Operation, name="program_id", traits=[ext.Pure]):
    """The id of this program in the grid, from 0."""

    out: ext.Result[ir.IndexType]


class PartOp(Tile.Operation, name="part", traits=[ir.NoTerminatorTrait]):
    """A subset of the programs of a horizontally fused GPU function, which then holds nothing but parts (see lamina-horizontal). A
    part has the attributes of a function (tile.grid, tile.threads, tile.pack, ...) and its own program ids, from 0; its CTAs follow
    those of the parts before it. All parts have the same number of threads per CTA. The function's tile.grid counts CTAs.
    """

    body: ext.Region


class CheckOp(Tile.Operation, name="check"):
    """Records a failed bounds check of a user's indices: where `ok` (i1 or a vector of i1) is false anywhere, the call raises
    IndexError with `message` after the kernel.
    """

    ok: ext.Operand[Any]
    message: ir.StringAttr


class GatherOp(Tile.Operation, name="gather"):
    """Gathers lanes from a flat memref: out[i] = mem[index[i]] where mask[i], else pass_through[i]. index: a vector of index."""

    out: ext.Result[Any]
    mem: ext.Operand[Any]
    index: ext.Operand[Any]
    mask: ext.Operand[Any]
    pass_through: ext.Operand[Any]


class ScatterOp(Tile.Operation, name="scatter"):
    """Stores lanes to a flat memref: mem[index[i]] = value[i] where mask[i]. index: a vector of index.

    With the attribute `combine`, which names one of combining.COMBINERS: mem[index[i]] = combine(mem[index[i]], value[i]), one
    lane after another. On GPUs other programs may do so to the same element at the same time; on CPUs none does.
    """

    value: ext.Operand[Any]
    mem: ext.Operand[Any]
    index: ext.Operand[Any]
    mask: ext.Operand[Any]

    @staticmethod
    def verify_invariants(op: ir.Operation) -> bool:
        """Verifies the name in `combine`."""
        name = op.attributes.get(COMBINE)
        if name is None or (isinstance(name, ir.StringAttr) and name.value in COMBINERS):
            return True
        op.location.emit_error(f"'{op.name}' expects one of {', '.join(sorted(COMBINERS))} as combine, not {name}")
        return False


def _runs_match(op: ir.Operation) -> bool:
    """Verifies that `lengths`, which are at least 1, and `jumps` are integers, as many of one as of the other."""
    arrays = [list(op.attributes[name]) for name in ("lengths", "jumps")]
    if not all(isinstance(n, ir.IntegerAttr) for array in arrays for n in array):
        op.location.emit_error(f"'{op.name}' expects integers in lengths and jumps")
    elif len(arrays[0]) != len(arrays[1]):
        op.location.emit_error(
            f"'{op.name}' expects a jump for each length, but has {len(arrays[0])} lengths and {len(arrays[1])} jumps"
        )
    elif any(ir.IntegerAttr(n).value < 1 for n in arrays[0]):
        op.location.emit_error(f"'{op.name}' expects lengths of at least 1")
    else:
        return True
    return False


class ReadRunsOp(Tile.Operation, name="read_runs"):
    """Reads lanes from a flat memref, in runs: out[i] = mem[first + along * i + sum of jumps[k] * ((start + i) // lengths[k])]
    where mask[i]. along: 1 for adjacent lanes, 0 for lanes that differ only from run to run.
    """

    out: ext.Result[Any]
    mem: ext.Operand[Any]
    first: ext.Operand[ir.IndexType]
    start: ext.Operand[ir.IndexType]
    mask: ext.Operand[Any]
    along: ir.IntegerAttr
    lengths: ir.ArrayAttr
    jumps: ir.ArrayAttr

    verify_invariants = staticmethod(_runs_match)


class ReadSharedOp(Tile.Operation, name="read_shared"):
    """Reads adjacent elements of a flat memref that all lanes of a run share, as f32: out[k][i] = mem[first + k + jump * ((start
    + i) // length)] where `inside` (i1), else 0. All lanes of a thread belong to one run.
    """

    out: Sequence[ext.Result[Any]]
    mem: ext.Operand[Any]
    first: ext.Operand[ir.IndexType]
    start: ext.Operand[ir.IndexType]
    inside: ext.Operand[Any]
    length: ir.IntegerAttr
    jump: ir.IntegerAttr

    @staticmethod
    def verify_invariants(op: ir.Operation) -> bool:
        """Verifies that the length is at least 1."""
        if ir.IntegerAttr(op.attributes["length"]).value >= 1:
            return True
        op.location.emit_error(f"'{op.name}' expects a length of at least 1")
        return False


class WriteRunsOp(Tile.Operation, name="write_runs"):
    """Stores lanes in runs, at the addresses that tile.read_runs reads with `along` = 1."""

    value: ext.Operand[Any]
    mem: ext.Operand[Any]
    first: ext.Operand[ir.IndexType]
    start: ext.Operand[ir.IndexType]
    mask: ext.Operand[Any]
    lengths: ir.ArrayAttr
    jumps: ir.ArrayAttr

    verify_invariants = staticmethod(_runs_match)


class ScanOp(Tile.Operation, name="scan", traits=[ext.Pure]):
    """Inclusive scan over the lanes of `x`, starting from `carry`, by the op that `combine` names. `next` is the value after the
    last lane: the carry of the next block.
    """

    out: ext.Result[Any]
    next: ext.Result[Any]
    x: ext.Operand[Any]
    carry: ext.Operand[Any]
    combine: ir.StringAttr


class RecurrenceOp(Tile.Operation, name="recurrence", traits=[ext.Pure]):
    """Linear recurrence over the lanes of `x`, from `carry` on: out[i] = decay[i] * out[i - 1] + x[i]. `next` is the value of the
    last lane: the carry of the next block.
    """

    out: ext.Result[Any]
    next: ext.Result[Any]
    x: ext.Operand[Any]
    decay: ext.Operand[Any]
    carry: ext.Operand[Any]


class SortOp(Tile.Operation, name="sort", traits=[ext.Pure]):
    """The lanes of `x`, which are integers and as many as a power of two, in ascending order."""

    out: ext.Result[Any]
    x: ext.Operand[Any]

    @staticmethod
    def verify_invariants(op: ir.Operation) -> bool:
        """Verifies the type of the lanes, and how many there are."""
        type_ = op.operands[0].type
        if (
            not isinstance(type_, ir.VectorType)
            or not isinstance(type_.element_type, ir.IntegerType)
            or type_ != op.results[0].type
        ):
            op.location.emit_error(f"'{op.name}' expects a vector of integers and a result of its type, not {type_}")
        elif len(type_.shape) != 1 or type_.shape[0] & (type_.shape[0] - 1):
            op.location.emit_error(f"'{op.name}' expects as many lanes as a power of two, not {type_}")
        else:
            return True
        return False


class WindowOp(Tile.Operation, name="window", traits=[ext.Pure]):
    """A mask of lanes `low` to `high` - 1, which may cut accesses. max_low: the largest `low`; min_high: the smallest `high`."""

    out: ext.Result[Any]
    low: ext.Operand[ir.IndexType]
    high: ext.Operand[ir.IndexType]
    max_low: ir.IntegerAttr
    min_high: ir.IntegerAttr


class TransposeOp(Tile.Operation, name="transpose"):
    """Fills a transpose tile in scratch memory from rows of a flat memref, which lie `stride` elements apart: scratch[j, i] =
    mem[first + i * stride + j] for i < rows and j < columns. The rest of the tile is undefined.
    """

    mem: ext.Operand[Any]
    first: ext.Operand[ir.IndexType]
    rows: ext.Operand[ir.IndexType]
    columns: ext.Operand[ir.IndexType]
    scratch: ext.Operand[Any]
    stride: ext.Operand[ir.IndexType]


class CombineOp(Tile.Operation, name="combine", traits=[ext.Pure]):
    """Combines the partial reductions of a program's teams, in team order, by the op that `combine` names. It follows a loop
    marked tile.shared, whose iterations the teams have divided among themselves.
    """

    out: ext.Result[Any]
    part: ext.Operand[Any]
    combine: ir.StringAttr


class ExpSumOp(Tile.Operation, name="exp_sum", traits=[ext.Pure]):
    """One step of an online sum of exp(x - max x). `largest` and `total` have one element per thread of the program: the largest x
    that its lanes have met, and the sum of exp(x - largest) over them; initially -inf and 0. `powers` are the block's
    exponentials, relative to the new largest x of each lane's thread.
    """

    powers: ext.Result[Any]
    new_largest: ext.Result[Any]
    new_total: ext.Result[Any]
    x: ext.Operand[Any]
    largest: ext.Operand[Any]
    total: ext.Operand[Any]


class ExpTotalOp(Tile.Operation, name="exp_total", traits=[ext.Pure]):
    """Combines the state of tile.exp_sum over all threads: the largest x, the sum of exp(x - largest) over all lanes, and per
    thread the factor that rescales its powers to the overall largest x.
    """

    max: ext.Result[ir.F32Type]
    sum: ext.Result[ir.F32Type]
    scale: ext.Result[Any]
    largest: ext.Operand[Any]
    total: ext.Operand[Any]


class LanesOp(Tile.Operation, name="lanes", traits=[ext.Pure]):
    """Broadcasts per-thread values to lanes: each lane of the block gets its thread's element of `threads`."""

    out: ext.Result[Any]
    threads: ext.Operand[Any]
