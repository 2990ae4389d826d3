"""Prints tile programs with matrix products as Triton kernels: text that a person can read, run and change.

    vector.transfer_read    a load through a tensor descriptor (TMA) in loops, where memory allows it, else through pointers
    vector.gather, scatter  loads and stores through pointers
    vector.contract         tl.dot
    arith, math             as written
    scf.for                 a loop

Blocks of one row or one column keep their dimension of 1, which Triton broadcasts by itself.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.passes.ir.locations import where
from lamina.passes.lower.tile_ops import Elsewhere, Refused, TileOps, handlers, refusal
from lamina.passes.space.contraction import FLOAT8
from lamina.schedules.contraction import GemmConfig

from .math import FUNCTIONS
from .memory import INDENT
from .ops import applied, choice
from .pairs import Pairs
from .patterns import BESIDE_ONE, GELU, activations, meets_one

HEADER = "import triton\nimport triton.language as tl\n"


@dataclass(frozen=True)
class Printed:
    """A Triton kernel.

    name        its function's name
    kernel      the function's text
    calls       names of functions in targets/triton/math.py that it calls
    arguments   element type of each parameter, as MLIR writes it, and alignment of its memory in bytes
    config      warps and stages to compile it with
    imports     lines before it, for a kernel in Gluon
    otherwise   the fallback for a kernel in Gluon: the same kernel in plain Triton
    note        text that is shown beside its name
    """

    name: str
    kernel: str
    calls: tuple[str, ...]
    arguments: tuple[tuple[str, int], ...]
    config: GemmConfig
    imports: str = ""
    otherwise: "Printed | None" = None
    note: str = ""

    @property
    def text(self) -> str:
        """A module that defines the kernel."""
        return together([self])

    def instead(self, why: str) -> "Printed":
        """Copies the kernel, labeled as the fallback for a ping-pong kernel that cannot be used."""
        return replace(self, kernel=f"# No ping-pong: {why}\n{self.kernel}", note="no ping-pong")


def together(kernels: Sequence[Printed]) -> str:
    """Returns the text of a module with several kernels."""
    called = dict.fromkeys(name for k in kernels for name in k.calls)
    imports = "".join(dict.fromkeys(k.imports for k in kernels))
    texts = (*(FUNCTIONS[name] for name in called), *(k.kernel for k in kernels))
    return HEADER + imports + "".join(f"\n\n{text}\n" for text in texts)


class Printer(Pairs):
    """Prints a function op by op. With `joint`, two products may become one dot (see pairs)."""

    def __init__(self, function: ir.Operation, descriptors: bool, name: str, *, joint: bool = False) -> None:
        self.config = config_of(function).plain
        super().__init__(function, descriptors and bool(self.config.descriptors))
        self.name, self.joint = name, joint and bool(self.config.joint)
        self.programs = ir.IntegerAttr(function.attributes["tile.grid"]).value
        self.ctas = ir.IntegerAttr(function.attributes["tile.ctas"]).value
        self.parts: dict[ir.Value, list[str]] = {}  # names of the parts of a block that is cut
        self.calls: dict[str, None] = {}
        self.loops = 0
        own = {op: getattr(self, row.__name__) for op, row in handlers(self.tile_ops).items()}  # as subclasses override them
        self.forms = self._forms() | own

    def run(self) -> Printed:
        """Prints the kernel. Where there are fewer CTAs than programs, it loops over programs (persistent kernel)."""
        parameters = ", ".join(self._parameters())
        walked = self.ctas < self.programs
        self.depth += walked
        self._body(self.block)
        loop = [f"{INDENT}for program in tl.range(tl.program_id(0), {self.programs}, {self.ctas}, flatten=True):"] if walked else []
        return self._printed([f"@triton.jit\ndef {self.name}({parameters}):", *self.head, *loop, *self.lines])

    def _parameters(self) -> list[str]:
        """Names the parameters and returns their names."""
        arguments = list(self.block.arguments)
        n_in = len(arguments) - ir.IntegerAttr(self.function.attributes["tile.outputs"]).value
        for i, argument in enumerate(arguments):
            self.names[argument] = f"x{i}" if i < n_in else f"y{i - n_in}"
        return [self.names[a] for a in arguments]

    def _printed(self, lines: Sequence[str]) -> Printed:
        types = [str(ir.MemRefType(a.type).element_type) for a in self.block.arguments]
        return Printed(self.name, "\n".join(lines), tuple(self.calls), tuple(zip(types, self.aligned, strict=True)), self.config)

    # -- ops

    def _body(self, block: ir.Block) -> None:
        known = activations(block)
        for op in (o.operation for o in block.operations):
            if op in known.gelus:
                self.calls[GELU] = None
                self._set(op.result, f"{GELU}({self._value(known.gelus[op])})")
            elif op not in known.parts:
                self._op(op)

    def _op(self, op: ir.Operation) -> None:
        row = self.tile_ops.get(op.name)
        if isinstance(row, Refused):
            raise refusal(op, row, f"Triton, which prints kernel @{self.name},")
        if not isinstance(row, Elsewhere):
            self.forms.get(op.name, self._apply)(op)

    def _forms(self) -> dict[str, Callable[[ir.Operation], None]]:
        """Returns the methods that print ops of upstream's dialects, but for arithmetic."""
        return {
            "arith.constant": self._constant,
            "memref.reinterpret_cast": self._view,
            "vector.transfer_read": self._read,
            "vector.transfer_write": self._write,
            "vector.contract": self._contract,
            "vector.broadcast": self._broadcast,
            "vector.extract_strided_slice": self._part,
            "vector.create_mask": self._mask,
            "vector.multi_reduction": self._reduce,
            "vector.shape_cast": self._reshape,
            "vector.step": self._skip,
            "vector.gather": self._gather,
            "vector.scatter": self._scatter,
            "scf.for": self._for,
            "func.return": self._skip,
            "scf.yield": self._skip,
        }

    def _skip(self, op: ir.Operation) -> None:
        """Prints nothing."""

    def _program_id(self, op: ir.Operation) -> None:
        self.names[op.result] = "program"
        if self.ctas == self.programs:
            self._line("program = tl.program_id(0)")

    def _constant(self, op: ir.Operation) -> None:
        value = op.attributes["value"]
        if isinstance(value, ir.DenseElementsAttr):
            if not value.is_splat:
                raise self._refuse(op)
            value = value.get_splat_value()
        self.literals[op.result] = literal(value.value)

    def _view(self, op: ir.Operation) -> None:
        self.views[op.result] = op

    def _apply(self, op: ir.Operation) -> None:
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value if "predicate" in op.attributes else None
        dtype = str(_element(op.results[0].type)) if len(op.results) == 1 else ""
        operands = self._operands(op)
        if op.name == "arith.select" and all(v in self.literals for v in list(op.operands)[1:]):
            operands = choice(operands, dtype)
        text = applied(op.name, operands, dtype, predicate)
        if text is None:
            raise self._refuse(op)
        if op.name in BESIDE_ONE and meets_one(op.result):
            text = f"{BESIDE_ONE[op.name]}{text[text.index('(') :]}"
        self.calls.update(dict.fromkeys(name for name in FUNCTIONS if text.startswith(f"{name}(")))
        self._set(op.result, text)

    def _operands(self, op: ir.Operation) -> list[str]:
        return [self._value(v) for v in op.operands]

    def _broadcast(self, op: ir.Operation) -> None:
        if op.operands[0] in self.literals:
            self.literals[op.result] = self.literals[op.operands[0]]
        else:
            self.names[op.result] = self._value(op.operands[0])

    def _reshape(self, op: ir.Operation) -> None:
        """Prints a shape cast: of vector.step to a row or a column; any other value that becomes a column has kept its dimension of
        1."""
        made = op.operands[0].owner
        if made.name != "vector.step":
            self._broadcast(op)
            return
        rows, columns = ir.VectorType(op.result.type).shape
        self._set(op.result, f"tl.arange(0, {columns})[None, :]" if rows == 1 else f"tl.arange(0, {rows})[:, None]")

    def _part(self, op: ir.Operation) -> None:
        """Cuts a block's columns into 2 or 4 parts. Triton splits in two, so all parts are made for the first that is used."""
        source = op.operands[0]
        rows, columns = ir.VectorType(source.type).shape
        width = ir.VectorType(op.result.type).shape[1]
        if source not in self.parts:
            parts = [self._value(source)]
            while len(parts) * width < columns:
                half = columns // len(parts) // 2
                parts = [name for part in parts for name in self._halves(part, rows, half)]
            self.parts[source] = parts
        offset = ir.IntegerAttr(op.attributes["offsets"][1]).value
        self.names[op.result] = self.parts[source][offset // width]

    def _halves(self, name: str, rows: int, columns: int) -> tuple[str, str]:
        left, right = self._fresh(), self._fresh()
        self._line(f"{left}, {right} = {name}.reshape({rows}, 2, {columns}).permute(0, 2, 1).split()")
        return left, right

    def _mask(self, op: ir.Operation) -> None:
        """Prints the mask of a block of one row, by columns, or of one column, by rows."""
        rows, columns = ir.VectorType(op.result.type).shape
        lanes, most = (f"{columns})[None, :]", op.operands[1]) if rows == 1 else (f"{rows})[:, None]", op.operands[0])
        self._set(op.result, f"tl.arange(0, {lanes} < {self._value(most)}")

    def _reduce(self, op: ir.Operation) -> None:
        """Prints a sum along rows or columns with that dimension kept. The accumulator is zero."""
        (dim,) = ir.DenseI64ArrayAttr(op.attributes["reduction_dims"])
        self._set(op.result, f"tl.sum({self._value(op.operands[0])}, {dim}, keep_dims=True)")

    def _contract(self, op: ir.Operation) -> None:
        a, b, acc = (self._value(v) for v in op.operands)
        how = {"f32": ', input_precision="tf32"', FLOAT8: "" if self.config.fast else f", max_num_imprecise_acc={self.config.k}"}
        self._set(op.result, f"tl.dot({a}, {b}, {acc}{how.get(str(_element(op.operands[0].type)), '')})")

    def _for(self, op: ir.Operation) -> None:
        _, _, _, *inits = op.operands
        body = op.regions[0].blocks[0]
        counter, *carried = body.arguments
        self.names[counter] = f"k{self.loops}" if self.loops else "k"
        self.loops += 1
        if self.joint and self._joined(op):
            return
        for init, inner, out in zip(inits, carried, op.results, strict=True):
            name = "acc" if "acc" not in self.names.values() else self._fresh()
            self._line(f"{name} = {self._full(init)}")
            self.names[inner] = self.names[out] = name
        for inner, value in zip(carried, list(body.operations)[-1].operands, strict=True):
            if not isinstance(value, ir.BlockArgument) and _only_reader(inner, value.owner.operation):
                self.names[value] = self.names[inner]
        self._line(self._head_of(op))
        self.depth += 1
        outside = dict(self.lanes)
        self._body(body)
        for inner, value in zip(carried, list(body.operations)[-1].operands, strict=True):
            if self.names[inner] != self._value(value):
                self._line(f"{self.names[inner]} = {self._value(value)}")
        self.depth -= 1
        self.lanes = outside

    def _refuse(self, op: ir.Operation) -> CompileError:
        return CompileError(f"{op.name} in kernel @{self.name} has no form in Triton", where=where(op.location))

    tile_ops: ClassVar[TileOps] = dict.fromkeys(
        (
            "tile.part", "tile.check", "tile.gather", "tile.read_runs", "tile.read_shared", "tile.write_runs", "tile.scan",
            "tile.window", "tile.transpose", "tile.combine", "tile.exp_sum", "tile.exp_total", "tile.lanes", "random.bits",
        ),
        Refused("a program with a matrix product has blocks of two dimensions", "compute it in a kernel of its own"),
    ) | {"tile.program_id": _program_id}  # fmt: skip
    """Maps each op of the tile dialect to the method that prints it, or to why none does."""


def config_of(function: ir.Operation) -> GemmConfig:
    """Returns the schedule of a product's tile program (`tile.triton`)."""
    return GemmConfig.read(ir.StringAttr(function.attributes["tile.triton"]).value)


def literal(number: float) -> str:
    """Returns a number's text as an operand of any operator."""
    text = f'float("{number}")' if isinstance(number, float) and not math.isfinite(number) else repr(number)
    return f"({text})" if text.startswith("-") else text


def _only_reader(v: ir.Value, op: ir.Operation) -> bool:
    return [use.owner.operation for use in v.uses] == [op]


def _element(type_: ir.Type) -> ir.Type:
    return ir.VectorType(type_).element_type if isinstance(type_, ir.VectorType) else type_
