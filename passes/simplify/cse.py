"""lamina-cse: common subexpression elimination on tensor ops, by value numbering that also compares bodies of generics."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from torch_mlir import ir

from lamina.dialects.graph import CALLS

from ..infra.base import Pass
from ..ir.reading import SCAN, SORT, callee_of, ops_in, producer
from ..ir.rewriting import Reader, has_effect, marked_functions, replace_op, tensor_blocks

_COMMUTATIVE = {
    "arith.addf", "arith.mulf", "arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf", "arith.addi",
    "arith.muli", "arith.andi", "arith.ori", "arith.xori", "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui",
}  # fmt: skip
_PURE = ("linalg.", "tensor.", "arith.", "math.", "complex.", SCAN, SORT)
Key = tuple[Hashable, ...]


@dataclass(frozen=True)
class Cse(Pass):
    """Compute equal things once: ops, generics that are written differently, and equal external calls.

        %a = linalg.generic {...} ins(%x, %y) outs(%e0) { addf %in, %in_0 }
        %b = linalg.generic {...} ins(%y, %x) outs(%e1) { addf %in, %in_0 }

    become one. Two generics are equal when they yield the same expressions of the same tensors over the same loops,
    whatever the order of commutative operands and of inputs, the tensor.empty they write to, and whether a constant stands
    in the body or outside; equal scalars of one body are merged too. Upstream's cse compares operands one by one.
    External calls merge when their routine and arguments are equal and they have no `graph.effect`; generics that check
    indices (cf.assert) merge like others.
    The first of equal ops stays, with its location.
    """

    name: ClassVar[str] = "lamina-cse"

    def run(self, module: ir.Module) -> None:
        """Merges equal ops of each block, in program order."""
        externs = marked_functions(module, "graph.callee")
        names: dict[str, Key] = {
            name: tuple((k, v) for k, v in f.attributes.items() if k != "sym_name") for name, f in externs.items()
        }
        reader, ids = Reader(), dict[Hashable, int]()
        for block in list(tensor_blocks(module)):
            seen: dict[Key, ir.Operation] = {}
            for op in ops_in(block):
                if has_effect(op, externs):
                    continue
                key = _key(reader, op, names, ids)
                if key is None:
                    continue
                first = seen.setdefault(key, op)
                if first != op:
                    replace_op(op, *first.results)


def _key(reader: Reader, op: ir.Operation, names: dict[str, Key], ids: dict[Hashable, int]) -> Key | None:
    """Returns the key by which equal ops are found, or None for an op that must not be merged."""
    name = op.name
    if name == "linalg.generic":
        return _generic_key(reader, op, ids)
    operands, types = tuple(op.operands), tuple(r.type for r in op.results)
    if name == "func.call":
        return (name, names[callee_of(op)], operands, types)
    if name in CALLS or (name.startswith(_PURE) and types):
        return (name, *op.attributes.items(), operands, types, _regions_key(op))
    return None


def _regions_key(op: ir.Operation) -> Key:
    """Returns the region's text: of named linalg ops it follows from the name, of tensor.pad and the like it does not."""
    if not len(op.regions) or op.name.startswith("linalg."):
        return ()
    return tuple(str(inner) for region in op.regions for block in region.blocks for inner in block.operations)


def _generic_key(reader: Reader, op: ir.Operation, ids: dict[Hashable, int]) -> Key:
    """Numbers the expressions of a body and merges its equal scalars. `ids` numbers expressions, so keys stay flat."""

    def number(key: Hashable) -> int:
        """Returns the number of a key, a new one for a new key."""
        return ids.setdefault(key, len(ids))

    generic, attributes = reader.generic(op), op.attributes
    n_in, maps = len(generic.ins), list(attributes["indexing_maps"])
    known: dict[ir.Value, int] = {}
    for arg, tensor, map_ in zip(generic.args[:n_in], generic.ins, maps, strict=False):
        known[arg] = number((tensor, map_))
    inits: list[Hashable] = []
    for i, (arg, tensor) in enumerate(zip(generic.args[n_in:], generic.outs, strict=True)):
        known[arg] = number(("out", i))
        maker = producer(tensor)
        inits.append(tensor.type if maker is not None and maker.name == "tensor.empty" else tensor)
    ends: list[int] = []  # linalg.yield, cf.assert
    here: dict[int, ir.Value] = {}
    for inner in ops_in(generic.block):
        terms = [known[v] if v in known else number(_outside(v)) for v in inner.operands]
        if inner.name in _COMMUTATIVE:
            terms.sort()
        results = tuple(inner.results)
        if inner.name == "arith.constant":
            known[results[0]] = number(inner.attributes["value"])
            continue
        key = number((inner.name, tuple(inner.attributes.items()), tuple(terms), tuple(r.type for r in results)))
        if not results:
            ends.append(key)
        elif len(results) == 1 and (first := here.setdefault(key, results[0])) != results[0]:
            results[0].replace_all_uses_with(first)
            inner.erase()
            continue
        for i, result in enumerate(results):
            known[result] = key if i == 0 else number((key, i))
    return ("linalg.generic", attributes["iterator_types"], tuple(maps[n_in:]), tuple(inits), tuple(ends))


def _outside(value: ir.Value) -> Hashable:
    """Returns the key of a scalar or tensor used from outside the body; constants count by value."""
    maker = producer(value)
    if maker is not None and maker.name == "arith.constant":
        return maker.attributes["value"]
    return value
