"""Accumulators that the loops of a tile program carry: partial results of reductions and of scans."""

import math

from torch_mlir import ir
from torch_mlir.dialects import arith, vector

from lamina.core.sizes import is_symbolic
from lamina.dialects.combining import LOG_SUM

from ..ir.affine import Axis
from ..ir.expressions import Expr, Reduce, Scan
from ..ir.reading import SORT, neutral_element
from ..space.schedule import Schedule
from .emit.blocks import Blocks
from .emit.values import block_shape, element, typed

LONG = 256  # elements of a sum from which on adding up its lanes in f64 costs little
FEW = 16  # lanes
_KINDS = {"addf": "add", "addi": "add", "mulf": "mul", "muli": "mul", "ori": "or", "andi": "and", "xori": "xor"}


class Accumulators:
    """Emits operations on accumulators: scalars or blocks (vectors of `lanes` elements), of the types that `accumulator_type`
    returns."""

    def __init__(self, b: Blocks, schedule: Schedule) -> None:
        self.b, self.schedule = b, schedule

    def neutral(self, r: Reduce | Scan, total: bool = False) -> ir.Value:
        """Returns the initial value of an accumulator. total: of one that adds up sums of runs."""
        value, type_ = neutral_element(r.op, r.dtype), element(self._total_dtype(r) if total else accumulator_type(r))
        return self.b.splat(value, type_) if self._wide(r) else self.b.constant(value, type_)

    def combine(self, r: Reduce | Scan, acc: ir.Value) -> ir.Value:
        """Adds the current element or block to an accumulator. Masked lanes count as the neutral element where lanes are added to
        each other; otherwise what they hold is never looked at."""
        b = self.b
        if not isinstance(acc.type, ir.VectorType):
            x = b.value(r.arg)
        elif isinstance(r, Scan) or b.vector not in self._axes(r):
            x = b.block(r.arg)
        else:
            x = b.masked(r.arg, neutral_element(r.op, r.dtype))
        zero = b.splat(0.0, acc.type.element_type) if isinstance(acc.type, ir.VectorType) else b.constant(0.0, acc.type)
        with b.point():
            if accumulator_type(r) != r.dtype:
                x = arith.extf(acc.type, x)
            if r.op == LOG_SUM:
                return _log_sum(acc, x, zero)
            return ir.Operation.create(r.op, results=[acc.type], operands=[acc, x]).results[0]

    def step(self, scan: Scan, acc: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Returns a scan's results at this step, in the accumulator's type, and what it carries on."""
        b = self.b
        if not self._along(scan):
            total = self.combine(scan, acc if scan.decay is None else self._decayed(scan.decay, acc))
            return total, total
        given = [b.masked(scan.arg, neutral_element(scan.op, scan.dtype))]
        if scan.op == SORT:
            with b.point():
                return ir.Operation.create("tile.sort", results=[given[0].type], operands=given).results[0], acc
        if scan.decay is not None:
            given.append(b.masked(scan.decay, 1.0))
        with b.point():
            blocks = [_cast(ir.VectorType.get(x.type.shape, acc.type), x) for x in given]
            name, attributes = "tile.recurrence", {}
            if scan.decay is None:
                name, attributes = "tile.scan", {"combine": ir.StringAttr.get(scan.op)}
            types = [blocks[0].type, acc.type]
            out = ir.Operation.create(name, results=types, operands=[*blocks, acc], attributes=attributes)
            return out.results[0], out.results[1]

    def _decayed(self, decay: Expr, acc: ir.Value) -> ir.Value:
        """Multiplies an accumulator of a recurrence by the current factor, or block of factors."""
        factor = self.b.block(decay) if isinstance(acc.type, ir.VectorType) else self.b.value(decay)
        with self.b.point():
            return arith.mulf(acc, _cast(acc.type, factor))

    def narrow(self, scan: Scan, acc: ir.Value) -> ir.Value:
        """Rounds a scan's result at this step to the scan's own type."""
        if accumulator_type(scan) == scan.dtype:
            return acc
        with self.b.point():
            return arith.truncf(typed(block_shape(acc), element(scan.dtype)), acc)

    def joined(self, r: Reduce, total: ir.Value, part: ir.Value) -> ir.Value:
        """Adds the sum of one more run to the total of the runs before it."""
        return ir.Operation.create(r.op, results=[total.type], operands=[total, _cast(total.type, part)]).results[0]

    def total(self, r: Reduce, acc: ir.Value) -> ir.Value:
        """Reduces a block of partial results along a column axis to one scalar, and rounds the result to its own type."""
        if not isinstance(acc.type, ir.VectorType) or self.b.vector not in self._axes(r):
            return _cast(typed(block_shape(acc), element(r.dtype)), acc)
        extents = tuple(a.extent for a in self._axes(r))
        if is_symbolic(extents) or math.prod(extents) >= LONG:
            acc = self._joining(r, acc)
        kind = r.op.removeprefix("arith.")
        kind = _KINDS.get(kind, kind)
        attributes = {"kind": ir.Attribute.parse(f"#vector.kind<{kind}>")}
        if kind in ("add", "mul"):
            attributes["fastmath"] = ir.Attribute.parse("#arith.fastmath<reassoc>")  # lanes are summed as a tree
        type_ = ir.VectorType(acc.type).element_type
        sum_ = ir.Operation.create("vector.reduction", results=[type_], operands=[acc], attributes=attributes).results[0]
        return _cast(element(r.dtype), sum_)

    def _joining(self, r: Reduce, acc: ir.Value) -> ir.Value:
        """Converts a block to the wider type that its lanes are added up in, if there is one. Lanes first join in their own type
        until few are left to convert; their roundings still average out."""
        wide = element(self._total_dtype(r))
        while ir.VectorType(acc.type).element_type != wide and (lanes := ir.VectorType(acc.type).shape[0]) > FEW and lanes % 2 == 0:
            half = typed([lanes // 2], ir.VectorType(acc.type).element_type)
            low, high = (vector.extract_strided_slice(half, acc, [at], [lanes // 2], [1]) for at in (0, lanes // 2))
            acc = arith.addf(low, high)
        return _cast(typed(block_shape(acc), wide), acc)

    def _total_dtype(self, r: Reduce | Scan) -> str:
        """Returns the type in which sums of runs and of lanes are added up."""
        wide = self.schedule.config.wide_sums and r.op == "arith.addf" and r.dtype == "f32"
        return "f64" if wide else accumulator_type(r)

    def _wide(self, r: Reduce | Scan) -> bool:
        """Returns whether the accumulator is a block: columns are summed lane by lane, or every lane is a row."""
        v = self.b.vector
        if isinstance(r, Scan) and self._along(r):
            return False
        over = self._axes(r) if isinstance(r, Reduce) else set()
        return v is not None and (v in over or self.b.is_block(r))

    def _along(self, scan: Scan) -> bool:
        """Returns whether the lanes of a block are steps of the scan."""
        return self.b.vector is not None and self.schedule.merged.axis_of.get(scan.axis, scan.axis) is self.b.vector

    def _axes(self, r: Reduce) -> set[Axis]:
        return self.schedule.merged.merged(r.axes)


def _cast(type_: ir.Type, v: ir.Value) -> ir.Value:
    """Converts between f32 and f64, scalar or block; any other value stays as it is."""
    if v.type == type_:
        return v
    return arith.extf(type_, v) if "f64" in str(type_) else arith.truncf(type_, v)


def _log_sum(a: ir.Value, b: ir.Value, zero: ir.Value) -> ir.Value:
    """Returns log(exp(a) + exp(b)). Equal infinities have no difference."""

    def apply(name: str, x: ir.Value) -> ir.Value:
        """Applies a math op to a scalar or a block."""
        return ir.Operation.create(name, results=[x.type], operands=[x]).results[0]

    largest, same = arith.maximumf(a, b), arith.cmpf(arith.CmpFPredicate.OEQ, a, b)
    difference = arith.select(same, zero, arith.subf(arith.minimumf(a, b), largest))
    return arith.addf(largest, apply("math.log1p", apply("math.exp", difference)))


def accumulator_type(r: Reduce | Scan) -> str:
    """Returns the type of an accumulator. A scan has no tree to sum by: in f32 its error would grow with its length."""
    return "f64" if isinstance(r, Scan) and r.dtype == "f32" and r.op in ("arith.addf", "arith.mulf") else r.dtype
