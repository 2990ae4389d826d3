"""What `lamina-plan` knows between reading @main and writing the program: values in memory and the steps that use them."""

from dataclasses import dataclass, field
from typing import Literal

from torch_mlir import ir

from lamina.core.layout import Layout
from lamina.core.program import ALIGNED

Kind = Literal["input", "arena", "output", "constant", "owned"]

ALIGN = 64
"""Every arena buffer starts at a multiple of this many bytes (a cache line, and a 512-bit vector)."""


@dataclass(eq=False)
class Root:
    """A value with memory of its own.

    layout   of the whole; its offset is 0
    dtype    name as in core.program.ITEM_BYTES; tells apart what memrefs do not (i8 memory: "bool", "u8", "i8")
    index    argument, result or constant number; unused for the rest
    align    bytes that it is known to start at a multiple of
    first    the step that makes it, -1 for what exists before; last: the last that uses it
    keeps    roots whose memory this one may share (an external view), so that they live as long; `kept` is set on those
    slot     filled in by `lifetimes`
    """

    kind: Kind
    layout: Layout
    element: ir.Type
    dtype: str
    bytes: int
    index: int = 0
    align: int = ALIGNED
    first: int = -1
    last: int = -1
    keeps: list["Root"] = field(default_factory=list)
    kept: bool = False
    data: ir.Attribute | None = None
    slot: "Slot | None" = None


@dataclass(frozen=True)
class Place:
    """A tensor as a step sees it: a root and a layout whose offset counts from the root's start."""

    root: Root
    layout: Layout

    def overlaps(self, other: "Place") -> bool:
        """Whether the stretches of memory that the two span meet."""
        if self.root is not other.root:
            return False
        (a, b), (c, d) = ((p.layout.offset, p.layout.offset + p.layout.span) for p in (self, other))
        return a < d and c < b


@dataclass(eq=False)
class GroupStep:
    op: ir.Operation
    ins: list[Place]
    outs: list[Root]
    inplace: list[tuple[int, int]] = field(default_factory=list)
    """(operand position of the input, operand position of the output) that share memory"""


@dataclass(eq=False)
class CallStep:
    """`in_place`: the routine writes into the memory of `outs`; otherwise they are memory it owns."""

    op: ir.Operation
    ins: list[Place]
    outs: list[Root]
    in_place: bool


Step = GroupStep | CallStep


@dataclass(eq=False)
class Slot:
    """A stretch of the arena used by one value, or by several in turn where each is written over the one before."""

    first: int
    last: int
    bytes: int
    offset: int = 0


@dataclass
class Model:
    name: str
    inputs: list[Root]
    constants: list[Root]
    steps: list[Step]
    returned: list[Place]

    @property
    def arena(self) -> list[Root]:
        return [root for step in self.steps for root in step.outs if root.kind == "arena"]
