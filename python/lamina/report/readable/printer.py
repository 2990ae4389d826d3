"""Walks a module and writes a line for each op."""

import re

from torch_mlir import ir

from lamina.passes.ir.locations import sources
from lamina.passes.ir.reading import integer, name_of

from .memory import memory_line
from .names import Names, bytes_text, literal, marks, type_text
from .scalars import LONGEST, Text, expression, is_arithmetic
from .tensors import generic_lines

_SILENT = ("tensor.empty", "plan.alloc", "plan.output")  # places: written where something is put there
_ENDS = ("func.return", "graph.yield", "plan.return", "scf.yield", "tile.yield")
_MLIR = re.compile(r"(-|.*\.mlir):\d+$")  # lines of the text that was read, not of a model
_SEGMENTS = ("operandSegmentSizes", "resultSegmentSizes")
_FUNCTION_NOISE = ("sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs")


def readable(module: ir.Module) -> str:
    """Returns a module at any level as text for people: see the package."""
    lines: list[str] = []
    for op in module.body.operations:
        printer = ReadablePrinter()
        printer.op(op.operation, 0)
        lines += [*printer.lines, ""]
    return "\n".join(lines)


class ReadablePrinter:
    """Writes one function or program. `written`: the line of each op that begins one."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.written: dict[ir.Operation, str] = {}
        self.names = Names()
        self.places: dict[ir.Value, str] = {}
        self.labels: dict[ir.Block, str] = {}
        self.where = ""  # of the line before: written where it changes

    def op(self, op: ir.Operation, depth: int) -> None:
        """Writes an op and what is inside of it."""
        known = {
            "func.func": self._function, "plan.program": self._program, "plan.launch": self._launch, "plan.call": self._call,
            "plan.kernel": self._call, "graph.group": self._group, "graph.extern": self._call, "graph.kernel": self._call,
            "linalg.generic": self._generic, "scf.for": self._for, "scf.if": self._if,
        }  # fmt: skip
        if op.name in known:
            known[op.name](op, depth)
        elif op.name == "linalg.fill":
            self.names[op.results[0]] = self.text(op.operands[0]).text
        elif op.name in _SILENT:
            self._place(op)
        elif op.name == "arith.constant" and literal(op.attributes["value"]).count(" ") == 0:
            pass  # written where it is used
        elif is_arithmetic(op):
            if not self._is_inlined(op.results[0]):
                self._write(op, depth, f"{self.names[op.results[0]]} = {self._expression(op).text}", op.results)
        else:
            self._other(op, depth)

    def text(self, value: ir.Value) -> Text:
        """Returns a value as an operand: an expression if nothing else uses it, else its name."""
        if value not in self.names and not isinstance(value, ir.BlockArgument):
            op = value.owner.operation
            if is_arithmetic(op) and (op.name == "arith.constant" or self._is_inlined(value)):
                return self._expression(op)
        return Text(self.names[value])

    def _expression(self, op: ir.Operation) -> Text:
        return expression(op, self.text)

    def _is_inlined(self, value: ir.Value) -> bool:
        """Returns whether an arithmetic value is written inside of its only user."""
        uses = list(value.uses)
        if len(uses) != 1 or uses[0].owner.operation.block != value.owner.operation.block:
            return False
        return len(self._expression(value.owner.operation).text) <= LONGEST

    def _write(self, op: ir.Operation, depth: int, text: str, results: ir.OpResultList | tuple[()] = (), note: str = "") -> None:
        types = ", ".join(type_text(r.type) for r in results)
        where = ", ".join(line for line in sources(op.location) if not _MLIR.match(line))
        notes = "; ".join(part for part in (note, where if where != self.where else "") if part)
        self.where = where or self.where
        self.written[op] = text + (f" : {types}" if types else "") + (f"  // {notes}" if notes else "")
        self.lines.append("  " * depth + self.written[op])

    def _blocks(self, region: ir.Region, depth: int) -> None:
        """Writes the blocks of a region, with labels where there are several."""
        blocks = list(region.blocks)
        if len(blocks) > 1:
            self.labels.update({block: f"^{len(self.labels) + i}" for i, block in enumerate(blocks)})
        for block in blocks:
            taken = ", ".join(self.names[a] for a in block.arguments if a not in self.names)
            if len(blocks) > 1 or taken:
                label = self.labels.get(block, "")
                self.lines.append("  " * depth + label + (f"({taken}):" if taken else ":"))
            self._block(block, depth)

    def _block(self, block: ir.Block, depth: int) -> None:
        for op in block.operations:
            self.op(op.operation, depth)

    def _operands(self, values: list[ir.Value]) -> str:
        return ", ".join(self.text(v).text for v in values)

    def _function(self, op: ir.Operation, depth: int) -> None:
        if not op.regions[0].blocks:
            return
        block = op.regions[0].blocks[0]
        for i, arg in enumerate(block.arguments):
            self.names[arg] = f"%arg{i}"
        taken = ", ".join(f"{self.names[a]}: {type_text(a.type)}" for a in block.arguments)
        noted = marks(op.attributes, _FUNCTION_NOISE)
        self._write(op, depth, f"func @{ir.StringAttr(op.attributes['sym_name']).value}({taken}):", note=noted)
        self._blocks(op.regions[0], depth + 1)

    def _program(self, op: ir.Operation, depth: int) -> None:
        arena, least = (bytes_text(integer(op, key)) for key in ("arena_bytes", "lower_bound"))
        name = name_of(op)
        self._write(op, depth, f"program @{name}: arena of {arena} bytes, at least {least}")
        self._block(op.regions[0].blocks[0], depth + 1)

    def _place(self, op: ir.Operation) -> None:
        """Remembers where a value lies, to write it with what computes the value."""
        if op.name == "plan.alloc":
            self.places[op.results[0]] = f"arena+{bytes_text(integer(op, 'offset'))}"
        elif op.name == "plan.output":
            self.places[op.results[0]] = f"output {integer(op, 'index')}"
        else:
            self.names[op.results[0]] = "uninitialized"

    def _step(self, op: ir.Operation, depth: int, call: str, outs: list[ir.Value], note: str) -> None:
        """Writes a launch or a call, its results and where they lie."""
        results = ", ".join(self.names[v] for v in outs)
        where = ", ".join(type_text(v.type) + (f" @ {self.places[v]}" if v in self.places else "") for v in outs)
        self._write(op, depth, (f"{results} = " if results else "") + call + (f" -> {where}" if where else ""), note=note)

    def _launch(self, op: ir.Operation, depth: int) -> None:
        count = integer(op, "n_out")
        values = list(op.operands)
        ins, outs = values[: len(values) - count], values[len(values) - count :]
        kernel, label = ir.FlatSymbolRefAttr(op.attributes["kernel"]).value, ir.StringAttr(op.attributes["label"]).value
        note = label if label != kernel else ""
        if "when" in op.attributes:
            conditions = [" <= ".join(map(literal, condition)) for condition in op.attributes["when"]]
            note = f"{note} where {' and '.join(conditions)}" if conditions else f"{note} otherwise"
        self._step(op, depth, f"launch @{kernel}({self._operands(ins)})", outs, note.strip())

    def _call(self, op: ir.Operation, depth: int) -> None:
        """Writes a call with its arguments, tensors in the places of units, or a source kernel, tensors first."""
        values = list(op.operands)
        cut = len(values) - (integer(op, "n_out") if "n_out" in op.attributes else 0)
        left, outs = iter(values[:cut]), [*values[cut:], *op.results]

        def argument_text(attribute: ir.Attribute) -> str:
            """Returns an argument of the call as text."""
            if isinstance(attribute, ir.UnitAttr):
                value = next(left, None)
                return "?" if value is None else self.text(value).text
            if isinstance(attribute, ir.ArrayAttr):
                return f"[{', '.join(map(argument_text, attribute))}]"
            return literal(attribute)

        word, note = ("call", literal(op.attributes["reason"])) if "reason" in op.attributes else ("kernel", "")
        arguments = [argument_text(a) for a in op.attributes.get("args", ())]
        arguments += [f"{a.name}={argument_text(a.attr)}" for a in ir.DictAttr(op.attributes["kwargs"])]
        tensors = [self.text(v).text for v in left]
        arguments = [*arguments, *tensors] if "args" in op.attributes else [*tensors, *arguments]
        self._step(op, depth, f"{word} {literal(op.attributes['callee'])}({', '.join(arguments)})", outs, note)

    def _group(self, op: ir.Operation, depth: int) -> None:
        block = op.regions[0].blocks[0]
        for arg, value in zip(block.arguments, op.operands, strict=True):
            self.names[arg] = self.text(value).text
        name = f" @{literal(op.attributes['sym_name'])}" if "sym_name" in op.attributes else ""
        self._write(
            op, depth, f"{', '.join(self.names[r] for r in op.results)} = group{name}({self._operands(list(op.operands))}):"
        )
        self._block(block, depth + 1)

    def _generic(self, op: ir.Operation, depth: int) -> None:
        first, *rest = generic_lines(op, self.names)
        pattern = literal(op.attributes["graph.pattern"]) if "graph.pattern" in op.attributes else ""
        self._write(op, depth, first, note=pattern)
        self.lines += ["  " * depth + line for line in rest]

    def _for(self, op: ir.Operation, depth: int) -> None:
        block = op.regions[0].blocks[0]
        index, *carried = block.arguments
        low, high, step, *inits = op.operands
        results = f"{', '.join(self.names[r] for r in op.results)} = " if op.results else ""
        at = self.names[index]
        begin = ", ".join(f"{self.names[a]} = {self.text(v).text}" for a, v in zip(carried, inits, strict=True))
        bounds = f"{self.text(low).text} to {self.text(high).text} step {self.text(step).text}"
        self._write(op, depth, f"{results}for {at} = {bounds}{f' with {begin}' if begin else ''}:")
        self._block(block, depth + 1)

    def _if(self, op: ir.Operation, depth: int) -> None:
        results = f"{', '.join(self.names[r] for r in op.results)} = " if op.results else ""
        self._write(op, depth, f"{results}if {self.text(op.operands[0]).text}:", op.results)
        yes, no = op.regions
        self._block(yes.blocks[0], depth + 1)
        if no.blocks:
            self.lines.append("  " * depth + "else:")
            self._block(no.blocks[0], depth + 1)

    def _other(self, op: ir.Operation, depth: int) -> None:
        """Writes any op: its operands, its attributes, and its regions beneath."""
        if line := memory_line(op, lambda v: self.text(v).text, lambda v: self.names[v]):
            self._write(op, depth, line, op.results if " as " not in line else ())
            return
        if op.name in _ENDS:
            if op.operands:
                self._write(op, depth, f"{op.name.rpartition('.')[2]} {self._operands(list(op.operands))}")
            return
        results = f"{', '.join(self.names[r] for r in op.results)} = " if op.results else ""
        noted = marks(op.attributes, _SEGMENTS)
        text = f"{results}{op.name.removeprefix('plan.')} {self._operands(list(op.operands))}".rstrip()
        self._write(op, depth, text + (f" {{{noted}}}" if noted else "") + self._successors(op), op.results)
        for region in op.regions if not op.name.startswith("linalg.") else ():
            self._blocks(region, depth + 1)

    def _successors(self, op: ir.Operation) -> str:
        names = [self.labels.get(block, "^?") for block in op.successors]
        return f" -> {', '.join(names)}" if names else ""
