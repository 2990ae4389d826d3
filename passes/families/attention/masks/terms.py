"""Finds the terms of attention masks in the ops that compute them: what hides keys, by position or at run time, and what is added
to scores."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from lamina.core.sizes import is_symbolic

from ....simplify.scalars import ScalarNode, ScalarRef
from .meaning import HEAD, HIDES, KEY, QUERY, Keys, MaskMeaning, MaskTerms, is_finite
from .parts import Values, mask_element
from .positions import Linear, Region, SymbolicTerms
from .read_positions import linear_or_region

_MONOTONE = {"arith.cmpi": range(2, 10), "arith.cmpf": (2, 3, 4, 5)}  # predicates <, <=, > and >=


def meaning(mask: ir.Value, scores: Sequence[int], causal: bool, values: Values) -> MaskMeaning:
    """Returns the meaning of a mask together with the causal flag. scores: batch, heads, queries, keys; values: a cache of
    evaluated values."""
    terms = (SymbolicTerms if is_symbolic(tuple(scores[HEAD:])) else MaskTerms)(scores[HEAD], scores[QUERY], scores[KEY])
    if causal:
        terms.show_causal()
    part, dtype, reader = mask_element(mask), str(ir.RankedTensorType(mask.type).element_type), _Reader(terms, values)
    if dtype == "i1":
        reader.hides(part, True, False)
    else:
        reader.adds(part, (dtype,))
    return terms.result(causal)


@dataclass(frozen=True)
class _Reader:
    """Reads the terms of a mask into `terms`. values: a cache of evaluated values."""

    terms: MaskTerms
    values: Values

    def hides(self, part: ScalarRef, wanted: bool, soft: bool) -> None:
        """Reads a bool term: keys are visible where it equals `wanted`. soft: the other keys only get a finite bias."""
        known, terms = self.values.of(part), self.terms
        node = self.values.scalars.node(part)
        region = linear_or_region(part, self.values) if known is None and isinstance(terms, SymbolicTerms) else None
        if isinstance(terms, SymbolicTerms) and isinstance(region, Region):
            terms.soft |= soft
            terms.narrow(region if wanted else region.outside())
        elif known is not None:
            terms.soft |= soft
            terms.show(known, wanted)
        elif QUERY not in self.values.depends_on(part):
            terms.soft_keys |= soft
            tensor = self.values.scalars.tensor_of(part)
            terms.unread |= terms.keys is not None or tensor is None
            terms.keys = None if tensor is None else Keys(tensor, wanted, _is_interval(part, wanted, self.values))
        elif node is not None and node.name == ("arith.andi" if wanted else "arith.ori"):
            for arg in node.args:
                self.hides(arg, wanted, soft)
        elif (negated := _negated(node, self.values)) is not None:
            self.hides(negated, not wanted, soft)
        else:
            terms.soft |= soft
            terms.unread = True

    def adds(self, part: ScalarRef, types: tuple[str, ...]) -> None:
        """Reads a term that is added to the scores. types: the types that it is rounded to on the way."""
        node = self.values.scalars.node(part)
        if node is not None and node.name == "arith.addf":
            for arg in node.args:
                self.adds(arg, types)
        elif node is not None and node.name in ("arith.truncf", "arith.extf"):
            self.adds(node.args[0], (str(node.op.operands[0].type), *types))
        elif node is None or node.name != "arith.select" or not self._chosen(node, types):
            known = self.values.of(part)
            if known is None or not self.terms.add(known, types):
                self.terms.unread = self.terms.adds_more = True

    def _chosen(self, node: ScalarNode, types: tuple[str, ...]) -> bool:
        """Reads a select between a constant that hides and another term; returns False for other selects."""
        for i, wanted in ((2, True), (1, False)):
            fill = self.values.of(node.args[i])
            if fill is not None and fill.size == 1 and float(fill.reshape(())) <= HIDES:
                self.hides(node.args[0], wanted, is_finite(float(fill.reshape(())), types))
                self.adds(node.args[3 - i], types)
                return True
        return False


def _is_interval(part: ScalarRef, wanted: bool, values: Values) -> bool:
    """Returns whether the keys where the part equals `wanted` are contiguous in each sequence, whatever the values."""
    known = values.of(part)
    if known is not None:
        rows = (known if wanted else ~known).astype(np.int8)
        return bool(np.all((np.diff(rows, axis=KEY, prepend=0) > 0).sum(KEY) <= 1))
    node = values.scalars.node(part)
    if node is None:
        return False
    if (inner := _negated(node, values)) is not None:
        return _is_interval(inner, not wanted, values)
    if node.name == ("arith.andi" if wanted else "arith.ori"):
        return all(_is_interval(arg, wanted, values) for arg in node.args)
    if node.name not in _MONOTONE or node.op.attributes["predicate"].value not in _MONOTONE[node.name]:
        return False
    for side, other in (node.args, node.args[::-1]):
        if KEY in values.depends_on(other):
            continue
        if (places := values.of(side)) is not None:
            steps = np.diff(places, axis=KEY)
            return bool(np.all(steps >= 0) or np.all(steps <= 0))
        if isinstance(linear_or_region(side, values), Linear):
            return True
    return False


def _negated(node: ScalarNode | None, values: Values) -> ScalarRef | None:
    """Returns the i1 that an i1 negates; None for other scalars."""
    if node is None or node.name not in ("arith.xori", "arith.cmpi") or str(node.op.operands[0].type) != "i1":
        return None
    for arg, other in (node.args, node.args[::-1]):
        known = values.of(other)
        if known is not None and known.size == 1:
            flips = bool(known.reshape(())) if node.name == "arith.xori" else not bool(known.reshape(()))
            return arg if flips and (node.name == "arith.xori" or node.op.attributes["predicate"].value == 0) else None
    return None
