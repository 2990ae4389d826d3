"""lamina-name-sizes: names the symbolic sizes of every tensor, in its type, and expands the ops that make or move them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from torch_mlir import ir

from lamina.core.errors import CompileError
from lamina.core.sizes import SizeLike, is_symbolic

from ..infra.base import Pass
from ..ir.locations import where
from ..ir.reading import callee_of, integer, name_of, nested, ops_in, terminator
from ..ir.rewriting import is_used, replace_op, tensor_blocks
from ..ir.sizes import DYNAMIC, SIZE, read_size, read_sizes, size_of, size_value, sizes_of, slice_sizes, tensor_type
from .sized_moves import MOVES

SIZES, MOVE = "graph.sizes", "graph.move"
Shape = tuple[SizeLike | None, ...]
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "arith.addi": lambda a, b: a + b, "arith.subi": lambda a, b: a - b, "arith.muli": lambda a, b: a * b,
    "arith.divsi": lambda a, b: a // b, "arith.divui": lambda a, b: a // b, "arith.floordivsi": lambda a, b: a // b,
}  # fmt: skip


@dataclass(frozen=True)
class NameSizes(Pass):
    """Name the sizes that each call decides: in the types of tensors, and as graph.size where an op takes one.

    Before, `?` in types; arguments of @main and functions that are called say which size it is (`graph.sizes`). Ops that torch-mlir
    would lower to arithmetic on sizes are calls, too (`graph.move`):

        func.func @main(%x: tensor<?x?x16xf32> {graph.sizes = ["s0~8", "s1~128", 16]}) -> tensor<?x16xf32> {
          %0 = call @move_0(%x) : (tensor<?x?x16xf32>) -> tensor<?x16xf32>
        func.func private @move_0(...) attributes {graph.move = "aten.view.default", graph.args = [unit, ...],
                                                   graph.sizes = [["s0~8*s1~128", 16]]}

    After, each such type carries its sizes (passes/ir/sizes.py), and the moves are tensor ops:

        %0 = tensor.collapse_shape %x [[0, 1], [2]] : tensor<?x?x16xf32, ["s0~8", "s1~128", 16]>
                                                 into tensor<?x16xf32, ["s0~8*s1~128", 16]>

    The sizes of all other results follow from their operands. A symbol is at least 2, so that no unknown size broadcasts.
    """

    name: ClassVar[str] = "lamina-name-sizes"

    def run(self, module: ir.Module) -> None:
        """Names the sizes of @main. Raises CompileError for a size that nothing names."""
        functions = {name_of(f): f.operation for f in module.body.operations if f.operation.name == "func.func"}
        main = functions.get("main")
        if main is None or not any(SIZES in f.attributes or _has_sizes(f) for f in functions.values()):
            return
        with module.context, ir.Location.unknown():
            _Names(functions).run(main)


def _has_sizes(function: ir.Operation) -> bool:
    return any(SIZES in named for named in function.attributes.get("arg_attrs", ()))


def restore_sizes(module: ir.Module) -> None:
    """Names sizes again in types that upstream's passes have inferred, which drop them, and folds the casts between the two; names
    sizes that these passes compute from others."""
    ops = [op for block in tensor_blocks(module) for op in ops_in(block)]
    arithmetic = [op for op in ops if op.name in _ARITHMETIC]
    if not arithmetic and not any(any(map(_is_nameless, op.results)) for op in ops):
        return
    with module.context, ir.Location.unknown():
        names = _Names({})
        for op in ops:
            with op.location, ir.InsertionPoint(op):
                names.visit(op)
                names.name_operands(op)
            if op.name == "tensor.cast" and op.operands[0].type == op.results[0].type:
                replace_op(op, op.operands[0])
        for op in reversed(arithmetic):
            if not is_used(op.results[0]):
                op.erase()


def _is_nameless(value: ir.Value) -> bool:
    type_ = value.type
    return isinstance(type_, ir.RankedTensorType) and type_.encoding is None and not type_.has_static_shape


class _Names:
    """Names the sizes of results by those of operands."""

    def __init__(self, functions: dict[str, ir.Operation]) -> None:
        self.functions = functions
        self.numbers: dict[ir.Value, SizeLike | None] = {}

    def run(self, main: ir.Operation) -> None:
        """Names the sizes in @main, and in the functions that it calls."""
        block = main.regions[0].blocks[0]
        arg_attrs = (
            list(main.attributes["arg_attrs"]) if "arg_attrs" in main.attributes else [ir.DictAttr.get({})] * len(block.arguments)
        )
        for argument, named in zip(block.arguments, arg_attrs, strict=True):
            if SIZES in named:
                _name(argument, read_sizes(named[SIZES]))
        for op in ops_in(block):
            with op.location, ir.InsertionPoint(op):
                self.visit(op)
        without_sizes = [{n.name: n.attr for n in named if n.name != SIZES} for named in arg_attrs]
        main.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(named) for named in without_sizes])
        ends = [v.type for v in terminator(block).operands]
        main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([a.type for a in block.arguments], ends))
        for op in reversed(nested(main)):
            if op.name in ("tensor.dim", "arith.index_cast", SIZE, *_ARITHMETIC) and not any(map(is_used, op.results)):
                op.erase()
        for function in list(self.functions.values()):
            if MOVE in function.attributes:
                function.erase()

    def visit(self, op: ir.Operation) -> None:
        """Names the sizes of an op's results; of a call those that its function declares."""
        if op.name == "func.call" and self.functions:
            self._call(op)
            return
        for inner in nested(op, "tensor.dim"):
            self._replace_dim(inner)
        results = [r for r in op.results if isinstance(r.type, ir.RankedTensorType)]
        if not any(map(_is_nameless, results)):
            return
        for result, shape in zip(results, self._shapes(op, results), strict=True):
            plain = [n if n != DYNAMIC else m for n, m in zip(result.type.shape, shape, strict=True)]
            if None in plain:
                raise CompileError(
                    f"nothing names a size of the result of {op.name}, {result.type}",
                    where=where(op.location),
                    remedy="compile per concrete size",
                )
            _name(result, tuple(n for n in plain if n is not None))

    def _replace_dim(self, op: ir.Operation) -> None:
        axis = size_of(op.operands[1])
        if isinstance(axis, int):
            with op.location, ir.InsertionPoint(op):
                op.results[0].replace_all_uses_with(size_value(sizes_of(op.operands[0].type)[axis]))

    def _call(self, op: ir.Operation) -> None:
        function = self.functions[callee_of(op)]
        if MOVE in function.attributes:
            self._move(op, function)
            return
        if SIZES in function.attributes:
            for result, shape in zip(op.results, function.attributes[SIZES], strict=True):
                _name(result, read_sizes(shape))
            del function.attributes[SIZES]
        elif "graph.f64" in function.attributes:
            op.results[0].set_type(op.operands[0].type)
        kind = ir.FunctionType.get([v.type for v in op.operands], [r.type for r in op.results])
        function.attributes["function_type"] = ir.TypeAttr.get(kind)

    def _move(self, op: ir.Operation, function: ir.Operation) -> None:
        (shape,) = function.attributes[SIZES]
        type_ = tensor_type(read_sizes(shape), ir.RankedTensorType(op.results[0].type).element_type)
        tensors = iter(op.operands)
        args = [_argument(a, tensors) for a in function.attributes["graph.args"]]
        kwargs = {named.name: _argument(named.attr, tensors) for named in function.attributes["graph.kwargs"]}
        replace_op(op, MOVES[function.attributes[MOVE].value](type_, *args, **kwargs))

    def _shapes(self, op: ir.Operation, results: list[ir.Value]) -> list[Shape]:
        """Returns the shapes of an op's results, as far as its operands name them."""
        operands = list(op.operands)
        match op.name:
            case "tensor.empty" | "tensor.splat":
                return [self._dynamic(results[0], operands[0 if op.name == "tensor.empty" else 1 :])]
            case "tensor.expand_shape":
                return [self._dynamic(results[0], operands[1:])]
            case "tensor.collapse_shape":
                source = sizes_of(operands[0].type)
                shape: list[SizeLike | None] = []
                for group in op.attributes["reassociation"]:
                    whole: SizeLike = 1
                    for d in group:
                        whole = source[d.value] * whole
                    shape.append(whole)
                return [tuple(shape)]
            case "tensor.extract_slice":
                sizes = slice_sizes(op, "sizes")
                whole_rank = sizes is not None and len(sizes) == results[0].type.rank
                return [sizes if sizes is not None and whole_rank else (None,) * results[0].type.rank]
            case "tensor.concat":
                dim = integer(op, "dim")
                parts = [sizes_of(v.type) for v in operands]
                first: list[SizeLike | None] = list(parts[0])
                total: SizeLike = 0
                for p in parts:
                    total = p[dim] + total
                first[dim] = total
                return [tuple(first)]
            case "tensor.pad":
                low, high = slice_sizes(op, "low"), slice_sizes(op, "high")
                if low is None or high is None:
                    return [(None,) * results[0].type.rank]
                return [tuple(n + a + b for n, a, b in zip(sizes_of(operands[0].type), low, high, strict=True))]
            case "tensor.cast" | "tensor.insert_slice" | "arith.select" | "tensor.insert":
                return [sizes_of(operands[1 if op.name in ("tensor.insert_slice", "tensor.insert") else 0].type)]
        if op.name.startswith("linalg."):
            return [sizes_of(v.type) for v in operands[len(operands) - len(results) :]]
        alike = next((v for v in operands if isinstance(v.type, ir.RankedTensorType)), None)
        if alike is not None and op.name.startswith(("arith.", "math.")):
            return [sizes_of(alike.type)] * len(results)
        return [(None,) * r.type.rank for r in results]

    def _dynamic(self, result: ir.Value, operands: list[ir.Value]) -> Shape:
        """Returns the shape of a result whose unknown sizes are operands, which become graph.size."""
        sizes = iter(map(self._number, operands))
        shape = tuple(next(sizes) if n == DYNAMIC else n for n in result.type.shape)
        self.name_operands(result.owner)
        return shape

    def name_operands(self, op: ir.Operation) -> None:
        """Replaces operands that are computed from sizes by graph.size."""
        for i, v in enumerate(op.operands):
            if isinstance(v.type, ir.IndexType) and size_of(v) is None and (n := self._number(v)) is not None:
                op.operands[i] = size_value(n)

    def _number(self, value: ir.Value) -> SizeLike | None:
        """Returns the size that an index or integer value is, through casts and arithmetic."""
        if value not in self.numbers:
            self.numbers[value] = self._read(value)
        return self.numbers[value]

    def _read(self, value: ir.Value) -> SizeLike | None:
        if isinstance(value, ir.BlockArgument):
            return None
        op = value.owner
        if op.name == SIZE:
            return read_size(op.attributes["size"])
        if op.name == "arith.index_cast":
            return self._number(op.operands[0])
        if op.name in _ARITHMETIC:
            one, other = map(self._number, op.operands)
            return None if one is None or other is None else _ARITHMETIC[op.name](one, other)
        return size_of(value)


def _name(value: ir.Value, shape: tuple[SizeLike, ...]) -> None:
    if is_symbolic(shape):
        value.set_type(tensor_type(shape, ir.RankedTensorType(value.type).element_type))


def _argument(attribute: ir.Attribute, tensors: Any) -> Any:
    """Reads one argument of a move: a tensor, a size, a number, or a list of these; None for anything else."""
    match attribute:
        case ir.UnitAttr():
            return next(tensors)
        case ir.ArrayAttr():
            return [_argument(a, tensors) for a in attribute]
        case ir.DictAttr():
            return read_size(attribute["size"])
        case ir.BoolAttr() | ir.IntegerAttr() | ir.FloatAttr():
            return attribute.value
    return None
