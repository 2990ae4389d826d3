"""Draws IR at any level as a graph, laid out by Graphviz, for `opt-driver --emit-graph`.

A node is an op with its line of `--pretty`, a frame is a function, a group or a loop, and an edge is a tensor or a buffer that one
op computes and another reads. Arithmetic on numbers stands inside of the ops that use it.
"""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from torch_mlir import ir

from lamina.core.errors import CompileError

from .readable.names import type_text
from .readable.printer import ReadablePrinter

_LONGEST = 72  # characters of a line in a node
_LINES = 4
_FILLS = {
    "plan.launch": "#dbe9f6",
    "plan.kernel": "#dbe9f6",
    "graph.kernel": "#dbe9f6",
    "plan.call": "#fbe3c8",
    "graph.extern": "#fbe3c8",
    "func.call": "#fbe3c8",
}
_ENDS = ("graph.yield", "scf.yield", "tile.yield")  # their operands are the results of the frame


def picture(module: ir.Module) -> str:
    """Returns a module as an SVG picture. Raises CompileError if pygraphviz is not installed."""
    try:
        import pygraphviz
    except ImportError as error:
        raise CompileError("pictures of graphs need pygraphviz", remedy="pip install 'lamina[picture]'") from error
    graph = pygraphviz.AGraph(directed=True, strict=False, fontname="Helvetica", fontsize="11")
    graph.node_attr.update(shape="box", style="filled", fillcolor="white", fontname="Courier", fontsize="10", height="0.3")
    graph.edge_attr.update(fontname="Helvetica", fontsize="9", color="#555555", arrowsize="0.6")
    for op in module.body.operations:
        printer = ReadablePrinter()
        printer.op(op.operation, 0)
        _Drawing(graph, printer.written).add(op.operation, graph)
    svg: bytes = graph.draw(format="svg", prog="dot")
    return svg.decode()


class _Drawing:
    """Draws one function or program. `written`: the line of each op that has one."""

    def __init__(self, graph: Any, written: dict[ir.Operation, str]) -> None:
        self.graph, self.written = graph, written
        self.nodes: dict[ir.Operation | ir.Value, str] = {}
        self.frames: dict[ir.Operation, ir.Operation] = {}  # a frame -> the op that ends it
        self.same: dict[ir.Value, ir.Value] = {}  # a frame's argument -> the value outside
        self.writer: dict[ir.Value, str] = {}  # a buffer -> the node that wrote it last

    def add(self, op: ir.Operation, into: Any) -> None:
        """Adds an op as a node, or as a frame with the ops inside of it."""
        if op not in self.written:
            return
        inside = [o.operation for region in op.regions for block in region.blocks for o in block.operations]
        if any(o in self.written for o in inside):
            self._frame(op, inside, into)
        elif op.name not in _ENDS:
            self._node(op, into)

    def _frame(self, op: ir.Operation, inside: Sequence[ir.Operation], into: Any) -> None:
        frame = into.subgraph(name=f"cluster_{len(self.graph)}_{len(self.frames)}", label=_shown(self.written[op]), color="#999999")
        self.frames[op] = inside[-1]
        operands = list(op.operands)[3:] if op.name == "scf.for" else list(op.operands)
        for region in op.regions:
            arguments = list(region.blocks[0].arguments) if region.blocks else []
            arguments = arguments[1:] if op.name == "scf.for" else arguments
            if op.name == "func.func":
                for argument in arguments:
                    self._add_node(argument, f"%arg{argument.arg_number} : {type_text(argument.type)}", frame, shape="ellipse")
            self.same.update(zip(arguments, operands, strict=False))
        for o in inside:
            self.add(o, frame)

    def _node(self, op: ir.Operation, into: Any) -> None:
        node = self._add_node(op, _shown(self.written[op]), into, fillcolor=_FILLS.get(op.name, "white"))
        values = list(op.operands)
        count = ir.IntegerAttr(op.attributes["n_out"]).value if "n_out" in op.attributes else 0
        ins, outs = values[: len(values) - count], values[len(values) - count :]
        for value in ins:
            for source in self._sources(value):
                self.graph.add_edge(source, node, label=type_text(value.type))
        self.writer.update(dict.fromkeys(outs, node))

    def _add_node(self, origin: ir.Operation | ir.Value, label: str, into: Any, **style: str) -> str:
        name = self.nodes[origin] = f"n{len(self.graph)}"
        into.add_node(name, label=label, **style)
        return name

    def _sources(self, value: ir.Value) -> Iterator[str]:
        """Yields the nodes that compute a value."""
        while value in self.same:
            value = self.same[value]
        if value in self.writer or value in self.nodes:
            yield self.writer.get(value) or self.nodes[value]
        elif isinstance(value, ir.OpResult):
            yield from self._sources_of_result(value)

    def _sources_of_result(self, value: ir.OpResult) -> Iterator[str]:
        op = value.owner.operation
        if op in self.nodes:
            yield self.nodes[op]
        elif op not in self.frames:  # stands inside of the ops that use it
            for operand in op.operands:
                yield from self._sources(operand)
        elif len(ends := list(self.frames[op].operands)) == len(op.results):
            yield from self._sources(ends[value.result_number])


def _shown(line: str) -> str:
    """Returns a line, cut and wrapped, as a label whose lines begin at the left."""
    lines = textwrap.wrap(line.strip(), _LONGEST, subsequent_indent="  ", break_long_words=True)
    lines = lines if len(lines) <= _LINES else [*lines[:_LINES], "  ..."]
    return "".join(line.replace("\\", "\\\\") + "\\l" for line in lines)
