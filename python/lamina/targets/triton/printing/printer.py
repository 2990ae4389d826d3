"""Prints tile programs as Triton kernels: text that a person can read, run and change.

    arith, math             as written (expressions, ops)
    vector.transfer_read    a load through a tensor descriptor (TMA) in loops, else through pointers (memory)
    vector.gather, scatter  loads and stores through pointers
    vector.contract         tl.dot
    vector.reduction        tl.sum, or tl.reduce (reductions)
    scf.for                 a loop (loops)

Blocks have one dimension, in programs with matrix products two. A program runs as one CTA, whatever `tile.pack`, `tile.teams` and
`tile.cluster` say of threads.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.sizes import Size
from lamina.passes.ir.locations import where
from lamina.passes.ir.reading import element_of, integer, ops_in
from lamina.passes.ir.sizes import kernel_size, read_size, size_on
from lamina.passes.lower.tile_ops import Elsewhere, Refused, TileOps, handlers, refusal
from lamina.passes.space.contraction import FLOAT8

from .blocks import WIDEN
from .expressions import BESIDE_ONE, INDENT, literal
from .loops import dispatch
from .pairs import Pairs
from .patterns import GELU, activations, meets_one
from .printed import Printed
from .reductions import Reductions


class Printer(Pairs, Reductions):
    """Prints a function op by op.

    descriptors  whether the chip has a tensor memory accelerator
    joint        two products may become one dot (see pairs)
    part         the `tile.part` to print, as a function of its program's number and the kernel's parameters
    given        whether something else than the body numbers the program
    """

    def __init__(
        self, function: ir.Operation, descriptors: bool, name: str, *, joint: bool = False, part: ir.Operation | None = None
    ) -> None:
        super().__init__(function, name, descriptors, part)
        self.joint = joint and self.multiplies and bool(self.config.joint)
        self.programs, ctas = (read_size(function.attributes[f"tile.{key}"]) for key in ("grid", "ctas"))
        self.pieces: dict[ir.Value, list[str]] = {}  # names of the pieces of a block that is cut
        self.table = self.product_ops if self.multiplies else self.tile_ops
        self.forms = self._forms() | {op: getattr(self, row.__name__) for op, row in handlers(self.table).items()}
        self.given = part is not None or ctas != self.programs
        memory = self.arguments[:-1] if self.sizes else self.arguments
        n_in = len(memory) - integer(function, "tile.outputs")
        self.names.update({a: f"x{i}" if i < n_in else f"y{i - n_in}" for i, a in enumerate(memory)})
        self.names.update(dict.fromkeys(self.arguments[len(memory) :], "sizes"))
        self.ctas = "tl.num_programs(0)" if isinstance(ctas, Size) else str(ctas)
        self.parameters = ", ".join(self.names[a] for a in self.arguments)

    def run(self) -> Printed:
        """Prints the kernel. Where there are fewer CTAs than programs, it loops over programs (persistent kernel). Joined launches
        (`tile.part`) become a function each, and the kernel calls one of them by its program id."""
        parts = ops_in(self.block, "tile.part")
        if parts and not self.multiplies:
            return self._printed(self._parts(parts))
        self.depth += self.given
        self._body(self.block)
        if self.given:
            programs = self._size(self.programs)
            self.head.append(f"{INDENT}for program in tl.range(tl.program_id(0), {programs}, {self.ctas}, flatten=True):")
        return self._printed([self._text(self.parameters)])

    def _text(self, parameters: str) -> str:
        return "\n".join([f"@triton.jit\ndef {self.name}({parameters}):", *self.head, *self.lines])

    def _parts(self, parts: Sequence[ir.Operation]) -> list[str]:
        texts, cases = [], []
        names: list[str] = []
        first = 0  # programs of the parts in front, with those that `names` hold
        for i, part in enumerate(parts):
            offset = "".join(f" - {n}" for n in (first, *names) if n)
            printer = type(self)(self.function, self.descriptors, f"{self.name}_{i}", part=part)
            printer._body(printer.block)
            texts.append(printer._text(f"program, {self.parameters}"))
            self.calls.update(printer.calls)
            grid = size_on(part, "tile.grid")
            takes_rest = isinstance(grid, Size) and 0 < i == len(parts) - 1
            if isinstance(grid, int):
                first += grid
            elif not takes_rest:
                names.append(self._size(grid))
            test = "" if takes_rest else f"program < {' + '.join(str(n) for n in (first, *names) if n)}"
            cases.append((test, f"{printer.name}(program{offset}, {self.parameters})"))
        return [*texts, dispatch(self.name, self.parameters, [*(line.strip() for line in self.head), self._number()], cases)]

    def _number(self) -> str:
        """Returns the line that numbers the program."""
        return f"program = tl.program_id(0){WIDEN if self.wide else ''}"

    def _printed(self, functions: Sequence[str]) -> Printed:
        types = [str(ir.MemRefType(a.type).element_type) for a in self.arguments]
        arguments = tuple(zip(types, self.aligned, strict=True))
        return Printed(self.name, "\n\n\n".join(functions), tuple(self.calls), arguments, self.config)

    # -- ops

    def _body(self, block: ir.Block) -> None:
        known = activations(block)
        for op in ops_in(block):
            if op in known.gelus:
                self._set(op.result, self._call(GELU, self._value(known.gelus[op])))
            elif op not in known.parts:
                self._op(op)

    def _op(self, op: ir.Operation) -> None:
        row = self.table.get(op.name)
        if isinstance(row, Refused):
            raise refusal(op, row, f"Triton, which prints kernel @{self.name},")
        if not isinstance(row, Elsewhere):
            self.forms.get(op.name, self._apply)(op)

    def _forms(self) -> dict[str, Callable[[ir.Operation], None]]:
        """Returns the methods that print ops of upstream's dialects, except for arithmetic."""
        skipped = ("func.return", "scf.yield", "memref.alloca", "memref.prefetch")
        return dict.fromkeys(skipped, self._skip) | {
            "arith.constant": self._constant,
            "arith.addi": self._add,
            "arith.index_cast": self._cast_index,
            "memref.reinterpret_cast": self._view,
            "memref.load": self._read_number,
            "memref.store": self._write_number,
            "vector.transfer_read": self._read,
            "vector.transfer_write": self._write,
            "vector.gather": self._gather,
            "vector.scatter": self._scatter,
            "vector.contract": self._contract,
            "vector.broadcast": self._pass,
            "vector.shape_cast": self._reshape,
            "vector.extract_strided_slice": self._slice,
            "vector.step": self._step,
            "vector.create_mask": self._mask,
            "vector.reduction": self._reduction,
            "vector.multi_reduction": self._reduce,
            "scf.for": self._for,
            "scf.if": self._if,
            "scf.index_switch": self._switch,
        }

    def _skip(self, op: ir.Operation) -> None:
        """Prints nothing."""

    def _program_id(self, op: ir.Operation) -> None:
        self.names[op.result] = "program"
        if not self.given:
            self._line(self._number())

    def _constant(self, op: ir.Operation) -> None:
        value = op.attributes["value"]
        if isinstance(value, ir.DenseElementsAttr):
            if not value.is_splat:
                raise self._refuse(op)
            value = value.get_splat_value()
        self.literals[op.result] = literal(value.value)

    def _apply(self, op: ir.Operation) -> None:
        predicate = integer(op, "predicate") if "predicate" in op.attributes else None
        dtype = str(element_of(op.results[0].type)) if len(op.results) == 1 else ""
        beside_one = op.name in BESIDE_ONE and meets_one(op.result)
        text = self._expression(op.name, list(op.operands), dtype, predicate, beside_one, str(element_of(op.operands[0].type)))
        if text is None:
            raise self._refuse(op)
        self._set(op.result, text)
        self._spread(op)

    def _add(self, op: ir.Operation) -> None:
        """Prints an addition. Many indices have 0 added, which is left out."""
        left = [v for v in op.operands if self.literals.get(v) != "0"]
        if len(left) == 1 and self._is_number(left[0]) == self._is_number(op.result):
            self._alias(op.result, left[0])
            self._spread(op)
        else:
            self._apply(op)

    def _cast_index(self, op: ir.Operation) -> None:
        known = op.operands[0] in self.literals or kernel_size(op.result) is not None
        (self._pass if known else self._apply)(op)

    def _pass(self, op: ir.Operation) -> None:
        """Passes the operand through: Triton broadcasts by itself, and the CTA that ran a loop has no other to combine with."""
        self._alias(op.result, op.operands[0])

    def _reshape(self, op: ir.Operation) -> None:
        """Prints a shape cast: of vector.step to a row or a column; any other value that becomes a column has kept its dimension of
        1."""
        if op.operands[0].owner.name == "vector.step":
            self._set(op.result, self._indices(op.result))
        else:
            self._pass(op)

    def _step(self, op: ir.Operation) -> None:
        if any(use.owner.operation.name != "vector.shape_cast" for use in op.result.uses):
            self.names[op.result] = self._indices(op.result)

    def _slice(self, op: ir.Operation) -> None:
        """Cuts a block's columns into 2 or 4 pieces. Triton splits in two, so all pieces are made for the first that is used."""
        source = op.operands[0]
        rows, columns = ir.VectorType(source.type).shape
        width = ir.VectorType(op.result.type).shape[1]
        if source not in self.pieces:
            pieces = [self._value(source)]
            while len(pieces) * width < columns:
                half = columns // len(pieces) // 2
                pieces = [name for piece in pieces for name in self._halves(piece, rows, half)]
            self.pieces[source] = pieces
        offset = ir.IntegerAttr(op.attributes["offsets"][1]).value
        self.names[op.result] = self.pieces[source][offset // width]

    def _mask(self, op: ir.Operation) -> None:
        """Prints the mask of a block of rank 1, of one row by columns, or of one column by rows."""
        most = op.operands[-1 if ir.VectorType(op.result.type).shape[0] == 1 else 0]
        self._set(op.result, f"{self._indices(op.result)} < {self._value(most)}")

    def _window(self, op: ir.Operation) -> None:
        lanes, (low, high) = self._indices(op.result), map(self._value, op.operands)
        self._set(op.result, f"({lanes} >= {low}) & ({lanes} < {high})")

    def _contract(self, op: ir.Operation) -> None:
        a, b, acc = map(self._value, op.operands)
        how = {"f32": ', input_precision="tf32"', FLOAT8: "" if self.config.fast else f", max_num_imprecise_acc={self.config.k}"}
        self._set(op.result, f"tl.dot({a}, {b}, {acc}{how.get(str(element_of(op.operands[0].type)), '')})")

    def _random(self, op: ir.Operation) -> None:
        self._set(op.result, self._call("random_bits", *map(self._value, op.operands)))

    def _check(self, op: ir.Operation) -> None:
        text = " | ".join([self._value(op.operands[0]), *([f"~{past}"] if (past := self._past(op.operands[0])) else [])])
        self._line(f"tl.device_assert({text}, {ir.StringAttr(op.attributes['message']).value!r})")

    def _refuse(self, op: ir.Operation) -> CompileError:
        return CompileError(f"{op.name} in kernel @{self.name} has no form in Triton", where=where(op.location))

    tile_ops: ClassVar[TileOps] = {
        "tile.program_id": _program_id,
        "tile.part": Elsewhere("run: a function for each part"),
        "tile.check": _check,
        "tile.gather": Pairs._tile_gather,
        "tile.scatter": Pairs._tile_scatter,
        "tile.read_runs": Pairs._read_runs,
        "tile.read_shared": Refused("Triton has no loads that the lanes of a run share", "leave lamina-route-to-triton out"),
        "tile.write_runs": Pairs._write_runs,
        "tile.scan": Reductions._scan,
        "tile.recurrence": Reductions._recurrence,
        "tile.sort": Reductions._sort,
        "tile.window": _window,
        "tile.transpose": Pairs._transpose,
        "tile.combine": _pass,
        "tile.exp_sum": Reductions._exp_sum,
        "tile.exp_total": Reductions._exp_total,
        "tile.lanes": Reductions._lanes_of,
        "random.bits": _random,
    }
    """Maps each op of the tile dialect to the method that prints it, or to why none does."""

    product_ops: ClassVar[TileOps] = dict.fromkeys(
        tile_ops, Refused("a program with a matrix product has blocks of two dimensions", "compute it in a kernel of its own")
    ) | {"tile.program_id": _program_id}
    """The same map for programs with matrix products."""
