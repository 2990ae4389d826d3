"""The data model of `lamina-plan`: values in memory, and the steps that use them."""

from dataclasses import dataclass, field
from typing import Literal

from torch_mlir import ir

from lamina.core.binding.arena import ArenaSlot
from lamina.core.layout import Layout
from lamina.core.program import ALIGNED
from lamina.core.sizes import SizeLike

Kind = Literal["input", "arena", "output", "constant", "owned"]


@dataclass(eq=False)
class Root:
    """A value with memory of its own.

    kind     whose memory it is
    layout   of the whole; its offset is 0
    element  its element type in memory
    dtype    name as in core.program.ITEM_BYTES; distinguishes what memrefs do not (i8 memory: "bool", "u8", "i8")
    bytes    of its memory
    index    argument, result or constant number; unused for the rest
    align    bytes that it is known to be aligned to
    first    the step that makes it, -1 for what exists before
    last     the last step that uses it
    aliases  roots whose memory this one may share (an external view), so that they live as long; `is_aliased` is set on those
    data     a constant's value
    complex  its last dimension holds the parts of complex numbers: an input that is complex for the caller
    slot     filled in by `lifetimes`
    updates  the argument whose new value this result is
    over     filled in by `lifetimes`: that argument, where this result is written over it
    """

    kind: Kind
    layout: Layout
    element: ir.Type
    dtype: str
    bytes: SizeLike
    index: int = 0
    align: int = ALIGNED
    first: int = -1
    last: int = -1
    aliases: list["Root"] = field(default_factory=list)
    is_aliased: bool = False
    data: ir.Attribute | None = None
    complex: bool = False
    slot: "ArenaSlot | None" = None
    updates: "Root | None" = None
    over: "Root | None" = None


@dataclass(frozen=True)
class ValuePlace:
    """A tensor as a step sees it: a root and a layout whose offset counts from the root's start."""

    root: Root
    layout: Layout


@dataclass(eq=False)
class GroupStep:
    """A kernel launch: the group, its operands and its results, among them operands some of whose elements it overwrites."""

    op: ir.Operation
    ins: list[ValuePlace]
    outs: list[Root]
    inplace: list[tuple[int, int]] = field(default_factory=list)
    """(operand position of the input, operand position of the output) that share memory"""


@dataclass(eq=False)
class CallStep:
    """A call of a library routine. `in_place`: it writes into the memory of `outs`; otherwise it allocates them."""

    op: ir.Operation
    ins: list[ValuePlace]
    outs: list[Root]
    in_place: bool


Step = GroupStep | CallStep


@dataclass
class Model:
    """The planned function: inputs, steps in order, and what it returns; of that the numbers of what is complex."""

    name: str
    inputs: list[Root]
    steps: list[Step]
    returned: list[ValuePlace]
    complex: list[int] = field(default_factory=list)

    @property
    def arena(self) -> list[Root]:
        """The roots in the arena, in the order in which they are made."""
        return list(dict.fromkeys(root for step in self.steps for root in step.outs if root.kind == "arena"))
