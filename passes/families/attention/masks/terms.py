"""Finds the terms of attention masks in the ops that compute them: what hides keys, by position or at run time, and what is added
to scores."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from lamina.core.sizes import is_symbolic

from .meaning import HEAD, HIDES, KEY, QUERY, Keys, MaskTerms, Meaning, is_finite
from .parts import MaskPart, Values, depends_on, seen_through, tensor_of, whole
from .places import place
from .positions import Linear, Region, SymbolicTerms

_MONOTONE = {"arith.cmpi": range(2, 10), "arith.cmpf": (2, 3, 4, 5)}  # predicates <, <=, > and >=


def meaning(mask: ir.Value, scores: Sequence[int], causal: bool, values: Values) -> Meaning:
    """Returns what a mask and the causal flag mean. scores: batch, heads, queries, keys; values: a cache of evaluated values."""
    found = (SymbolicTerms if is_symbolic(tuple(scores[HEAD:])) else MaskTerms)(scores[HEAD], scores[QUERY], scores[KEY])
    if causal:
        found.show_causal()
    part, dtype, reader = whole(mask), str(ir.RankedTensorType(mask.type).element_type), _Reader(found, values)
    if dtype == "i1":
        reader.hides(part, True, False)
    else:
        reader.adds(part, (dtype,))
    return found.result(causal)


@dataclass(frozen=True)
class _Reader:
    """Reads the terms of a mask into `found`. values: a cache of evaluated values."""

    found: MaskTerms
    values: Values

    def hides(self, part: MaskPart, wanted: bool, soft: bool) -> None:
        """Reads a bool term: keys are visible where it equals `wanted`. soft: the other keys only get a finite bias."""
        at, known, found = seen_through(part), self.values.of(part), self.found
        op = at.op
        region = place(part, self.values) if known is None and isinstance(found, SymbolicTerms) else None
        if isinstance(found, SymbolicTerms) and isinstance(region, Region):
            found.soft |= soft
            found.narrow(region if wanted else region.outside())
        elif known is not None:
            found.soft |= soft
            found.show(known, wanted)
        elif QUERY not in depends_on(part):
            found.soft_keys |= soft
            tensor = tensor_of(part)
            found.unread |= found.keys is not None or tensor is None
            found.keys = None if tensor is None else Keys(tensor, wanted, _is_interval(at, wanted, self.values))
        elif op is not None and op.name == ("arith.andi" if wanted else "arith.ori"):
            for i in range(2):
                self.hides(at.argument(i), wanted, soft)
        elif op is not None and (negated := _negated(at, self.values)) is not None:
            self.hides(at.argument(negated), not wanted, soft)
        else:
            found.soft |= soft
            found.unread = True

    def adds(self, part: MaskPart, types: tuple[str, ...]) -> None:
        """Reads a term that is added to the scores. types: the types that it is rounded to on the way."""
        at = seen_through(part)
        op = at.op
        if op is not None and op.name == "arith.addf":
            self.adds(at.argument(0), types)
            self.adds(at.argument(1), types)
        elif op is not None and op.name in ("arith.truncf", "arith.extf"):
            self.adds(at.argument(0), (str(op.operands[0].type), *types))
        elif op is None or op.name != "arith.select" or not self._chosen(at, types):
            known = self.values.of(part)
            if known is None or not self.found.add(known, types):
                self.found.unread = self.found.adds_more = True

    def _chosen(self, at: MaskPart, types: tuple[str, ...]) -> bool:
        """Reads a select between a constant that hides and another term; returns False for other selects."""
        for i, wanted in ((2, True), (1, False)):
            fill = self.values.of(at.argument(i))
            if fill is not None and fill.size == 1 and float(fill.reshape(())) <= HIDES:
                self.hides(at.argument(0), wanted, is_finite(float(fill.reshape(())), types))
                self.adds(at.argument(3 - i), types)
                return True
        return False


def _is_interval(part: MaskPart, wanted: bool, values: Values) -> bool:
    """Returns whether the keys where the part equals `wanted` are contiguous in each sequence, whatever the values."""
    at = seen_through(part)
    op = at.op
    known = values.of(part)
    if known is not None:
        rows = (known if wanted else ~known).astype(np.int8)
        return bool(np.all((np.diff(rows, axis=KEY, prepend=0) > 0).sum(KEY) <= 1))
    if op is None or at.is_tensor:
        return False
    inner = _negated(at, values)
    if inner is not None:
        return _is_interval(at.argument(inner), not wanted, values)
    if op.name == ("arith.andi" if wanted else "arith.ori"):
        return all(_is_interval(at.argument(i), wanted, values) for i in range(2))
    if op.attributes["predicate"].value not in _MONOTONE[op.name] if op.name in _MONOTONE else True:
        return False
    for i in range(2):
        places = values.of(at.argument(i))
        if KEY in depends_on(at.argument(1 - i)):
            continue
        if places is not None:
            steps = np.diff(places, axis=KEY)
            return bool(np.all(steps >= 0) or np.all(steps <= 0))
        if isinstance(place(at.argument(i), values), Linear):
            return True
    return False


def _negated(at: MaskPart, values: Values) -> int | None:
    """Returns the index of the i1 operand that this i1 negates; None for other ops."""
    op = at.op
    if op is None or op.name not in ("arith.xori", "arith.cmpi") or str(op.operands[0].type) != "i1":
        return None
    for i in range(2):
        known = values.of(at.argument(1 - i))
        if known is not None and known.size == 1:
            flips = bool(known.reshape(())) if op.name == "arith.xori" else not bool(known.reshape(()))
            return i if flips and (op.name == "arith.xori" or op.attributes["predicate"].value == 0) else None
    return None
