"""Reads ops, constants, types, shapes, and generics with the affine maps of their operands."""

import math
from dataclasses import dataclass

from torch_mlir import ir

from lamina.core.dtypes import HALF
from lamina.core.sizes import SizeLike, typical
from lamina.dialects.combining import LOG_SUM

from .affine import Affine, NotAffine
from .sizes import sizes_of

CHECKED = "graph.checked"  # on a tensor.extract: its indices are known to be inside
SCATTER, SCAN, SORT = "graph.scatter", "graph.scan", "graph.sort"
EQUALITY = (1, 6, 8, 13)  # predicates of arith.cmpf: oeq, one, ueq, une
Index = tuple[Affine, ...]
REDUCERS = {
    "arith.addf", "arith.mulf", "arith.maximumf", "arith.minimumf", "arith.maxnumf", "arith.minnumf", "arith.addi",
    "arith.muli", "arith.ori", "arith.andi", "arith.xori", "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui",
}  # fmt: skip


class Untraceable(Exception):
    """Raised where `value` cannot be computed on demand: it has to be read from memory, or its op is unknown."""

    def __init__(self, value: ir.Value, why: str) -> None:
        super().__init__(why)
        self.value, self.why = value, why


def producer(value: ir.Value) -> ir.Operation | None:
    """Returns the defining op of `value`; None for a block argument."""
    if isinstance(value, ir.BlockArgument):
        return None
    return value.owner.operation


def nested(op: ir.Operation, *names: str) -> list[ir.Operation]:
    """Returns the ops in the regions of `op`, inner ones first, and `op` itself: all, or those with one of these names."""
    ops: list[ir.Operation] = []
    advance = ir.WalkResult.ADVANCE

    def visit(inner: ir.Operation) -> ir.WalkResult:
        """Collects the op."""
        ops.append(inner)
        return advance

    op.walk(visit)
    return [op for op in ops if op.name in names] if names else ops


def ops_in(block: ir.Block, *names: str) -> list[ir.Operation]:
    """Returns the ops of a block, without what their regions hold: all, or those with one of these names."""
    ops = [op.operation for op in block.operations]
    return [op for op in ops if op.name in names] if names else ops


def name_of(op: ir.Operation) -> str:
    """Returns an op's symbol name."""
    return str(ir.StringAttr(op.attributes["sym_name"]).value)


def by_name(op: ir.Operation) -> dict[str, list[ir.Operation]]:
    """Returns `nested(op)` by op name: a dictionary costs less than callbacks from MLIR."""
    found: dict[str, list[ir.Operation]] = {}
    for inner in nested(op):
        found.setdefault(inner.name, []).append(inner)
    return found


def reduced_loops(op: ir.Operation) -> tuple[bool, ...]:
    """Returns for each loop of a linalg.generic whether it is a reduction."""
    return tuple("reduction" in str(kind) for kind in op.attributes["iterator_types"])


def terminator(block: ir.Block) -> ir.Operation:
    """Returns the last op of a block."""
    return block.operations[len(block.operations) - 1].operation


def attributes_of(op: ir.Operation) -> dict[str, ir.Attribute]:
    """Returns the attributes of an op as a dict."""
    return dict(op.attributes.items())


def integer(op: ir.Operation, name: str) -> int:
    """Returns the integer attribute of this name."""
    return int(ir.IntegerAttr(op.attributes[name]).value)


def number_of(value: ir.Value) -> float | int | None:
    """Returns the number that a scalar constant is, or that all elements of a vector or tensor are; None for other values."""
    op = producer(value)
    if op is not None and op.name in ("vector.broadcast", "linalg.fill"):
        return number_of(op.operands[0])
    attribute = op.attributes["value"] if op is not None and op.name == "arith.constant" else None
    if isinstance(attribute, ir.DenseElementsAttr):
        attribute = attribute.get_splat_value() if attribute.is_splat else None
    if not isinstance(attribute, ir.FloatAttr | ir.IntegerAttr | ir.BoolAttr):
        return None
    return attribute.value


def callee_of(call: ir.Operation) -> str:
    """Returns what a graph.extern, graph.kernel or func.call calls: an overload, or the name of a function."""
    return str(call.attributes["callee"].value)


def shape_of(value: ir.Value) -> tuple[SizeLike, ...]:
    """Returns the shape of a tensor or memref. Raises CompileError for an unknown size without a name."""
    return sizes_of(value.type)


def elements_of(value: ir.Value) -> int:
    """Returns the number of elements of a tensor at typical sizes."""
    return typical(math.prod(shape_of(value)))


def element_of(type_: ir.Type) -> ir.Type:
    """Returns the element type of a tensor, memref or vector type, or a scalar type itself."""
    return type_.element_type if isinstance(type_, ir.ShapedType) else type_


def element_type(value: ir.Value) -> str:
    """Returns the element type as text."""
    return str(ir.ShapedType(value.type).element_type)


def element_bits(value: ir.Value) -> int:
    """Returns the bits of a tensor's element in memory, where a bool takes 8."""
    return max(8, int(getattr(ir.ShapedType(value.type).element_type, "width", 64)))


def bytes_of(value: ir.Value) -> int:
    """Returns the bytes of a tensor's elements in memory, at typical sizes."""
    return elements_of(value) * element_bits(value) // 8


def compute_type(dtype: str) -> str:
    """Returns the type that elements of `dtype` are computed in: f32 for f16 and bf16."""
    return "f32" if dtype in HALF else dtype


LinearMap = tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
"""Where loops read or write an operand: for each of its dimensions (constant, ((loop, coefficient), ...))."""


def identity_map(loops: int) -> LinearMap:
    """Returns the map of an operand with a dimension for each loop, in order."""
    return tuple((0, ((i, 1),)) for i in range(loops))


@dataclass(frozen=True)
class Generic:
    """A parsed linalg.generic.

    inputs   the number of its inputs
    maps     of each operand, the inputs first
    reduced  whether each loop is a reduction
    extents  iterations of each loop
    yields   the values that its body yields
    """

    op: ir.Operation
    inputs: int
    maps: tuple[LinearMap, ...]
    reduced: tuple[bool, ...]
    extents: tuple[int, ...]
    block: ir.Block
    yields: tuple[ir.Value, ...]

    @property
    def body(self) -> dict[ir.Value, int]:
        """Block argument -> position of the operand that it is an element of."""
        return {a: i for i, a in enumerate(self.block.arguments)}

    @property
    def reads(self) -> list[tuple[ir.Value, LinearMap]]:
        """Its inputs with their maps."""
        return list(zip(self.op.operands, self.maps[: self.inputs], strict=False))

    @property
    def result_map(self) -> LinearMap:
        """The map of its first result."""
        return self.maps[self.inputs]

    @staticmethod
    def read_affine(op: ir.Operation) -> "Generic | None":
        """Reads as `read` does, but returns None if a map is not affine in the loops."""
        try:
            return Generic.read(op)
        except NotAffine:
            return None

    @staticmethod
    def read(op: ir.Operation) -> "Generic":
        """Parses a linalg.generic. Raises NotAffine for a map with divisions or other expressions."""
        operands = list(op.operands)
        maps = tuple(tuple(_linear(e) for e in a.value.results) for a in op.attributes["indexing_maps"])
        reduced = reduced_loops(op)
        extents = [1] * len(reduced)
        tensors = [(shape_of(v), m) for v, m in zip(operands, maps, strict=True) if isinstance(v.type, ir.RankedTensorType)]
        for n, entry in (dim for shape, m in tensors for dim in zip(shape, m, strict=True)):
            match entry:
                case (0, ((loop, 1),)):
                    extents[loop] = n
        block = op.regions[0].blocks[0]
        yields = tuple(terminator(block).operands)
        return Generic(op, len(operands) - len(op.results), maps, reduced, tuple(extents), block, yields)


def _linear(expr: ir.AffineExpr) -> tuple[int, tuple[tuple[int, int], ...]]:
    if isinstance(expr, ir.AffineDimExpr):
        return 0, ((expr.position, 1),)
    if isinstance(expr, ir.AffineConstantExpr):
        return expr.value, ()
    if isinstance(expr, ir.AffineAddExpr):
        (c0, t0), (c1, t1) = _linear(expr.lhs), _linear(expr.rhs)
        return c0 + c1, t0 + t1
    if isinstance(expr, ir.AffineMulExpr):
        (c0, t0), (c1, t1) = _linear(expr.lhs), _linear(expr.rhs)
        if t1:
            (c0, t0), (c1, t1) = (c1, t1), (c0, t0)
        return c0 * c1, tuple((d, k * c1) for d, k in t0)
    raise NotAffine


def operand_index(m: LinearMap, loops: Index) -> Index:
    """Returns the operand index that a map gives for loop values."""
    out = []
    for constant, terms in m:
        entry = Affine(constant)
        for loop, k in terms:
            entry = entry + loops[loop] * k
        out.append(entry)
    return tuple(out)


def neutral_element(op: str, dtype: str) -> int | float | bool:
    """Returns the neutral element of a reduction op; of a sort, the one that lies behind all others."""
    bits = 1 if dtype == "i1" else int(dtype[1:]) if dtype[0] == "i" and dtype != "index" else 64
    table: dict[str, int | float | bool] = {
        "arith.addf": 0.0, "arith.mulf": 1.0, "arith.maximumf": float("-inf"), "arith.maxnumf": float("-inf"),
        "arith.minimumf": float("inf"), "arith.minnumf": float("inf"), "arith.addi": 0, "arith.muli": 1, "arith.ori": 0,
        "arith.xori": 0, "arith.andi": -1, "arith.maxsi": -(2 ** (bits - 1)), "arith.minsi": 2 ** (bits - 1) - 1,
        "arith.maxui": 0, "arith.minui": -1, SORT: 2 ** (bits - 1) - 1, LOG_SUM: float("-inf"),
    }  # fmt: skip
    value = table[op]
    return bool(value) if dtype == "i1" else value


def combining_op(reduction: ir.Operation) -> str:
    """Returns the arith op by which a vector.reduction or vector.multi_reduction combines elements, such as "arith.addf"."""
    kind = str(reduction.attributes["kind"]).removeprefix("#vector.kind<").removesuffix(">")
    if kind.startswith(("min", "max")):
        return f"arith.{kind}"
    return f"arith.{kind}{'f' if isinstance(element_of(reduction.operands[0].type), ir.FloatType) else 'i'}"


def compared_as(v: ir.Value) -> str:
    """Returns the type that a value is compared in: the narrow float type where `v` is only an arith.extf of one."""
    op = producer(v)
    source = op.operands[0] if op is not None and op.name == "arith.extf" else v
    return str(source.type)
