"""Tile programs with products as Triton kernels: text that a person can read, run and change.

    vector.transfer_read    a load through a tensor descriptor (TMA) in loops, where memory allows it, else through pointers
    vector.contract         tl.dot
    arith, math             as written
    scf.for                 a loop
Blocks of a row or a column keep their dimension of 1, which Triton broadcasts by itself.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.passes.locations import where
from lamina.schedules.contraction import Config

from .triton_math import FUNCTIONS
from .triton_ops import TYPES, applied

HEADER = "import triton\nimport triton.language as tl\n"
STEP = 16  # bytes that a descriptor's rows begin at multiples of
DIMENSIONS = 5  # of a descriptor, at most
WIDE = 1 << 31  # elements from which on offsets need 64 bits
_INDENT = "    "


@dataclass(frozen=True)
class Printed:
    """A Triton kernel.

    name        its function's name
    kernel      the function
    calls       names of functions in triton_math that it calls
    arguments   element type of each parameter, as MLIR writes it, and bytes that its memory is aligned to
    config      warps and stages to compile it with
    """

    name: str
    kernel: str
    calls: tuple[str, ...]
    arguments: tuple[tuple[str, int], ...]
    config: Config

    @property
    def text(self) -> str:
        """A module that defines it."""
        return together([self])


def together(kernels: Sequence[Printed]) -> str:
    """A module with several kernels."""
    called = dict.fromkeys(name for k in kernels for name in k.calls)
    return HEADER + "".join(f"\n\n{text}\n" for text in (*(FUNCTIONS[name] for name in called), *(k.kernel for k in kernels)))


def take(module: ir.Module, descriptors: bool) -> list[Printed]:
    """The programs of a module that are for Triton, which go out of it."""
    found = [op.operation for op in module.body.operations if "tile.triton" in op.operation.attributes]
    out = [print_kernel(function, descriptors) for function in found]
    for function in found:
        function.erase()
    return out


def print_kernel(function: ir.Operation, descriptors: bool) -> Printed:
    """A tile program with `tile.triton`. descriptors: whether the chip has a tensor memory accelerator (sm_90 and newer)."""
    return _Printer(function, descriptors).run()


class _Printer:
    def __init__(self, function: ir.Operation, descriptors: bool) -> None:
        self.function = function
        self.config = Config.read(ir.StringAttr(function.attributes["tile.triton"]).value)
        self.descriptors = descriptors and bool(self.config.descriptors)
        self.name = ir.StringAttr(function.attributes["sym_name"]).value
        self.programs = ir.IntegerAttr(function.attributes["tile.grid"]).value
        self.ctas = ir.IntegerAttr(function.attributes["tile.ctas"]).value
        self.block = function.regions[0].blocks[0]
        self.names: dict[ir.Value, str] = {}
        self.literals: dict[ir.Value, str] = {}
        self.views: dict[ir.Value, ir.Operation] = {}
        self.blocks: dict[str, str] = {}  # descriptors by the text that makes them
        self.lanes: dict[tuple[str, int], str] = {}  # positions along a dimension that are known here
        self.parts: dict[ir.Value, list[str]] = {}  # of blocks that are cut
        self.calls: dict[str, None] = {}
        self.count = 0
        self.lines: list[str] = []
        self.head: list[str] = []
        self.depth = 1
        self.loops = 0

    def run(self) -> Printed:
        arguments = list(self.block.arguments)
        n_in = len(arguments) - ir.IntegerAttr(self.function.attributes["tile.outputs"]).value
        for i, argument in enumerate(arguments):
            self.names[argument] = f"x{i}" if i < n_in else f"y{i - n_in}"
        walked = self.ctas < self.programs
        self.depth += walked
        self._body(self.block)
        loop = (
            [f"{_INDENT}for program in tl.range(tl.program_id(0), {self.programs}, {self.ctas}, flatten=True):"] if walked else []
        )
        parameters = ", ".join(self.names[a] for a in arguments)
        lines = [f"@triton.jit\ndef {self.name}({parameters}):", *self.head, *loop, *self.lines]
        aligned = list(ir.DenseI64ArrayAttr(self.function.attributes["tile.align"]))
        types = [str(ir.MemRefType(a.type).element_type) for a in arguments]
        return Printed(self.name, "\n".join(lines), tuple(self.calls), tuple(zip(types, aligned, strict=True)), self.config)

    # -- ops

    def _body(self, block: ir.Block) -> None:
        handlers: dict[str, Callable[[ir.Operation], None]] = {
            "tile.program_id": self._program_id,
            "arith.constant": self._constant,
            "memref.reinterpret_cast": self._view,
            "vector.transfer_read": self._read,
            "vector.transfer_write": self._write,
            "vector.contract": self._contract,
            "vector.broadcast": self._broadcast,
            "vector.extract_strided_slice": self._part,
            "scf.for": self._for,
            "func.return": lambda op: None,
            "scf.yield": lambda op: None,
        }
        for op in block.operations:
            handlers.get(op.operation.name, self._apply)(op.operation)

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
        number = value.value
        text = f'float("{number}")' if isinstance(number, float) and not math.isfinite(number) else repr(number)
        self.literals[op.result] = f"({text})" if text.startswith("-") else text

    def _view(self, op: ir.Operation) -> None:
        self.views[op.result] = op

    def _apply(self, op: ir.Operation) -> None:
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value if "predicate" in op.attributes else None
        dtype = str(_element(op.results[0].type)) if len(op.results) == 1 else ""
        text = applied(op.name, [self._value(v) for v in op.operands], dtype, predicate)
        if text is None:
            raise self._refuse(op)
        if text.startswith("erf(") and self._meets_one(op.result):
            text = f"erf_beside_one{text.removeprefix('erf')}"
        self.calls.update(dict.fromkeys(name for name in FUNCTIONS if text.startswith(f"{name}(")))
        self._set(op.result, text)

    def _meets_one(self, v: ir.Value) -> bool:
        """Whether a value is added to 1 and used for nothing else."""
        users = [use.owner.operation for use in v.uses]
        return all(u.name == "arith.addf" and any(map(_is_one, u.operands)) for u in users)

    def _broadcast(self, op: ir.Operation) -> None:
        if op.operands[0] in self.literals:
            self.literals[op.result] = self.literals[op.operands[0]]
        else:
            self.names[op.result] = self._value(op.operands[0])

    def _part(self, op: ir.Operation) -> None:
        """One of the 2 or 4 parts that the columns of a block are cut into: Triton halves, so that all are made at the first."""
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

    def _contract(self, op: ir.Operation) -> None:
        a, b, acc = (self._value(v) for v in op.operands)
        self._set(op.result, f"tl.dot({a}, {b}, {acc})")

    def _for(self, op: ir.Operation) -> None:
        low, high, step, *inits = op.operands
        body = op.regions[0].blocks[0]
        counter, *carried = body.arguments
        for init, inner, out in zip(inits, carried, op.results, strict=True):
            name = "acc" if "acc" not in self.names.values() else self._fresh()
            self._line(f"{name} = {self._full(init)}")
            self.names[inner] = self.names[out] = name
        *_, last, yields = [o.operation for o in body.operations]
        if len(carried) == 1 and last.results and yields.operands[0] == last.results[0]:
            self.names[last.results[0]] = self.names[carried[0]]  # nothing reads what was carried after it
        self.names[counter] = f"k{self.loops}" if self.loops else "k"
        self.loops += 1
        self._line(f"for {self.names[counter]} in range({', '.join(self._value(v) for v in (low, high, step))}):")
        self.depth += 1
        outside = dict(self.lanes)
        self._body(body)
        for inner, value in zip(carried, list(body.operations)[-1].operands, strict=True):
            if self.names[inner] != self._value(value):
                self._line(f"{self.names[inner]} = {self._value(value)}")
        self.depth -= 1
        self.lanes = outside

    # -- memory

    def _read(self, op: ir.Operation) -> None:
        view, *where_ = list(op.operands)[:-1]
        type_ = ir.VectorType(op.result.type)
        if (text := self._by_descriptor(op, view, where_, type_)) is None:
            pointers, mask = self._pointers(op, view, where_, list(type_.shape))
            text = f"tl.load({pointers}{f', mask={mask}, other=0' if mask else ''})"
        self._set(op.result, text)

    def _write(self, op: ir.Operation) -> None:
        value, view, *where_ = op.operands
        shape = list(ir.VectorType(value.type).shape)
        pointers, mask = self._pointers(op, view, where_, shape)
        text = f"tl.broadcast_to({self._value(value)}, {tuple(shape)})" if value in self.literals else self._value(value)
        self._line(f"tl.store({pointers}, {text}{f', mask={mask}' if mask else ''})")

    def _by_descriptor(self, op: ir.Operation, view: ir.Value, where_: list[ir.Value], type_: ir.VectorType) -> str | None:
        """A load of a block by the tensor memory accelerator; None where memory does not allow it."""
        memory = ir.MemRefType(view.type)
        strides, offset = memory.get_strides_and_offset()
        item = type_.element_type.width // 8
        inside = op.operation.block.owner.operation.name == "scf.for"
        if not (self.descriptors and inside and offset == 0 and item > 1 and 1 in strides[-2:] and len(strides) <= DIMENSIONS):
            return None
        source = self.views[view].operands[0]
        aligned = list(ir.DenseI64ArrayAttr(self.function.attributes["tile.align"]))[list(self.block.arguments).index(source)]
        order = list(range(len(strides)))
        if strides[-1] != 1:
            order[-2:] = order[-1], order[-2]
        others = [strides[d] for d in order[:-1] if memory.shape[d] > 1]
        block = [1] * (len(order) - 2) + list(type_.shape)
        if aligned % STEP or any(s * item % STEP or not s for s in others) or block[order[-1]] * item < STEP:
            return None
        sizes, steps, blocks = ([x[d] for d in order] for x in (memory.shape, strides, block))
        row = -(-sizes[-1] * item // STEP) * STEP // item
        steps = [*(s if n > 1 else row for s, n in zip(steps[:-1], sizes, strict=False)), 1]
        made = f"tl.make_tensor_descriptor({self.names[source]}, {sizes}, {steps}, {blocks})"
        if made not in self.blocks:
            self.blocks[made] = f"{self.names[source]}_blocks"
            if list(self.blocks.values()).count(self.blocks[made]) > 1:
                self.blocks[made] += str(len(self.blocks))
            self.head.append(f"{_INDENT}{self.blocks[made]} = {made}")
        text = f"{self.blocks[made]}.load([{', '.join(self._value(where_[d]) for d in order)}])"
        if len(order) > 2:
            text = f"{text}.reshape({', '.join(str(n) for n in blocks[-2:])})"
        return text if order[-1] == len(order) - 1 else f"{text}.T"

    def _pointers(self, op: ir.Operation, view: ir.Value, where_: list[ir.Value], shape: list[int]) -> tuple[str, str]:
        """Of the elements of a block, and the mask of those that lie inside, "" for all."""
        memory = ir.MemRefType(view.type)
        strides, offset = memory.get_strides_and_offset()
        wide = sum((n - 1) * s for n, s in zip(memory.shape, strides, strict=True)) >= WIDE
        terms = [str(offset)] if offset else []
        for at, stride in zip(where_[:-2], strides[:-2], strict=True):
            terms.append(f"{self._value(at)}{'.to(tl.int64)' if wide and at not in self.literals else ''} * {stride}")
        masks = []
        inside = [bool(b.value) for b in op.attributes["in_bounds"]]
        for d, (at, stride, n) in enumerate(zip(where_[-2:], strides[-2:], shape, strict=True)):
            if n == 1 and inside[d] and self.literals.get(at) == "0":
                continue
            lanes = self._lanes(at, n)
            spread = f"{lanes}[:, None]" if d == 0 else f"{lanes}[None, :]"
            terms.append(f"{spread}{'.to(tl.int64)' if wide else ''}" + (f" * {stride}" if stride != 1 else ""))
            if not inside[d]:
                masks.append(f"({spread} < {memory.shape[len(strides) - 2 + d]})")
        return " + ".join([self.names[self.views[view].operands[0]], *terms]), " & ".join(masks)

    def _lanes(self, at: ir.Value, n: int) -> str:
        """The positions of a block along one dimension, made once."""
        key = self._value(at), n
        if key not in self.lanes:
            self.count += 1
            self.lanes[key] = f"i{self.count}"
            start = "" if self._value(at) == "0" else f"{self._value(at)} + "
            self._line(f"{self.lanes[key]} = {start}tl.arange(0, {n})")
        return self.lanes[key]

    # -- text

    def _value(self, v: ir.Value) -> str:
        return self.literals[v] if v in self.literals else self.names[v]

    def _full(self, v: ir.Value) -> str:
        if v not in self.literals:
            return self._value(v)
        type_ = ir.VectorType(v.type)
        return f"tl.full({tuple(type_.shape)}, {self.literals[v]}, {TYPES[str(type_.element_type)]})"

    def _set(self, v: ir.Value, text: str) -> None:
        if v not in self.names:
            self.names[v] = self._fresh()
        self._line(f"{self.names[v]} = {text}")

    def _fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def _line(self, text: str) -> None:
        self.lines.append(f"{_INDENT * self.depth}{text}")

    def _refuse(self, op: ir.Operation) -> CompileError:
        return CompileError(f"{op.name} in kernel @{self.name} has no form in Triton", where=where(op.location))


def _is_one(v: ir.Value) -> bool:
    op = None if isinstance(v, ir.BlockArgument) else v.owner.operation
    if op is not None and op.name == "vector.broadcast":
        return _is_one(op.operands[0])
    value = op.attributes["value"] if op is not None and op.name == "arith.constant" else None
    return isinstance(value, ir.DenseElementsAttr) and value.is_splat and value.get_splat_value().value == 1


def _element(type_: ir.Type) -> ir.Type:
    return ir.VectorType(type_).element_type if isinstance(type_, ir.VectorType) else type_
