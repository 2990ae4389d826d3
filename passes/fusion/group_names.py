"""Names groups after the model's ops in them: "add_layer_norm", "gelu_mul"."""

from collections.abc import Sequence

from torch_mlir import ir

from ..ir.locations import decomposed_op, model_ops, op_word
from ..ir.reading import producer
from ..simplify.matching.rule import PATTERN
from ..trace.grouping import Group

_WORDS = 5  # of a name, at most


class GroupNames:
    """Gives each group of a function a name of its own."""

    def __init__(self) -> None:
        self._uses: dict[str, int] = {}

    def name(self, group: Group, body: Sequence[ir.Operation]) -> str:
        """Returns a name made of the first ops of a group, with a number if earlier groups have the same. body: its ops."""
        ends = {producer(n.value) for n in group.nodes}
        words = [_composite_name(op) or _op_name(op) for op in body if op in ends or _computes(op)]
        name = "_".join(list(dict.fromkeys(words))[:_WORDS]) or "kernel"
        self._uses[name] = self._uses.get(name, 0) + 1
        return name if self._uses[name] == 1 else f"{name}_{self._uses[name]}"


def _computes(op: ir.Operation) -> bool:
    """Returns whether an op does more than move or fill elements."""
    return op.name == "linalg.generic" and len(op.regions[0].blocks[0].operations) > 1


def _composite_name(op: ir.Operation) -> str:
    """Returns the name of the decomposed op or the matched pattern that `op` is a part of; "" if there is none."""
    if name := decomposed_op(op.location):
        return op_word(name)
    return ir.StringAttr(op.attributes[PATTERN]).value if PATTERN in op.attributes else ""


def _op_name(op: ir.Operation) -> str:
    """Returns the name of the model's op that `op` comes from; if that is unknown, one derived from `op` itself."""
    names = [name for name in model_ops(op.location) if name.startswith("aten.")]
    if names:
        return op_word(names[0])
    if op.name != "linalg.generic":
        return op.name.split(".")[1]
    ops = [o.operation.name.split(".")[1] for o in op.regions[0].blocks[0].operations]
    return ops[-2] if len(ops) > 1 else "copy"
