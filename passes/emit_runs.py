"""Loads and stores of blocks along a flattened axis (flatten.py), where some indices jump from run to run."""

from typing import TYPE_CHECKING

from torch_mlir import ir

from .affine import Affine, Axis

if TYPE_CHECKING:
    from .emit_tile import Blocks

Runs = dict[int, int]  # length of a run -> elements that the index jumps by at its end


def runs_of(b: "Blocks", at: Affine) -> Runs | None:
    """The jumps of an index, renamed, over the lanes of a block; None where it has none, or other terms."""
    if b.vector is None or at.coefficient(b.vector) not in (0, 1):
        return None
    terms = [(t, c) for t, c in at.terms if not isinstance(t, Axis) and b.is_block(t)]
    if not terms or not all(t in b.merged.quotients for t, _ in terms):
        return None
    return {b.merged.quotients[t]: c for t, c in terms}


def read_runs(b: "Blocks", flat: ir.Value, at: Affine, runs: Runs, mask: ir.Value | None) -> ir.Value:
    type_ = ir.VectorType.get([b.lanes], ir.MemRefType(flat.type).element_type)
    attributes = {"along": _number(at.coefficient(b.vector)), **_attributes(runs)}
    operands = [flat, *_places(b, at, mask)]
    return ir.Operation.create("tile.read_runs", results=[type_], operands=operands, attributes=attributes).results[0]


def write_runs(b: "Blocks", value: ir.Value, flat: ir.Value, at: Affine, runs: Runs) -> None:
    operands = [value, flat, *_places(b, at, b.stack[-1].mask)]
    ir.Operation.create("tile.write_runs", operands=operands, attributes=_attributes(runs))


def _places(b: "Blocks", at: Affine, mask: ir.Value | None) -> list[ir.Value]:
    assert b.vector is not None
    always = b.splat(1, ir.IntegerType.get_signless(1))
    return [b.index(at), b.bound[b.vector][1], always if mask is None else mask]


def _attributes(runs: Runs) -> dict[str, ir.Attribute]:
    lengths, jumps = ([_number(n) for n in numbers] for numbers in (runs, runs.values()))
    return {"lengths": ir.ArrayAttr.get(lengths), "jumps": ir.ArrayAttr.get(jumps)}


def _number(n: int) -> ir.Attribute:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), n)
