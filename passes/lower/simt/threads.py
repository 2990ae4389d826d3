"""Maps programs and lanes to threads, warps and CTAs, and emits the index arithmetic, branches and barriers that this takes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir.dialects import arith

from lamina.core.errors import CompileError

from ...ir.index_ranges import Ranges
from ...ir.locations import where
from ...ir.sizes import UNIT

MOST_THREADS = 1024  # of a CTA
MOST_CTAS = 16  # of a cluster
MOST_EACH = 4096  # elements of a block that a thread holds
_REMEDY = "lamina-tile for a GPU says how its programs are spread"


@dataclass(frozen=True)
class Shape:
    """The distribution of a tile program over threads.

    Lane l of a block is element l % vec of access l // (threads * vec) of thread l // vec % threads. In a cluster, each CTA has the
    `chunks` accesses that follow those of the CTA before.

    threads  threads of a CTA that share a block: those of a program, or of one of its teams
    vec      neighboring elements per access
    chunks   accesses of a thread to a block
    pack     programs per CTA
    teams    groups of threads in a program that share the iterations of loops marked tile.shared
    cluster  CTAs per program
    warp     threads that run in lockstep and exchange values by shuffles
    """

    threads: int
    vec: int
    chunks: int
    pack: int
    teams: int
    cluster: int
    warp: int

    @staticmethod
    def of(function: ir.Operation, warp: int) -> "Shape":
        """Reads the shape from a function's `tile.` attributes. Raises CompileError if one is missing or no GPU can run the
        shape."""

        def number(name: str) -> int:
            """Reads an attribute of the function. Raises CompileError if it is not a number."""
            key = f"tile.{name}"
            if key not in function.attributes or not isinstance(function.attributes[key], ir.IntegerAttr):
                raise CompileError(f"a tile program without a number {key}", where=where(function.location), remedy=_REMEDY)
            return int(ir.IntegerAttr(function.attributes[key]).value)

        threads, vec, chunks, pack, teams, cluster = map(number, ("threads", "vec", "chunks", "pack", "teams", "cluster"))
        shape = Shape(threads, vec, chunks, pack, teams, cluster, warp)
        if (
            min(vars(shape).values()) < 1
            or shape.cta > MOST_THREADS
            or shape.cluster > MOST_CTAS
            or shape.vec * shape.chunks > MOST_EACH
            or (threads > warp and threads % warp)
            or warp & (warp - 1)
        ):
            raise CompileError(f"no GPU runs a program that is spread so: {shape}", where=where(function.location), remedy=_REMEDY)
        return shape

    @property
    def cta(self) -> int:
        """The threads of one CTA."""
        return self.threads * self.pack * self.teams

    @property
    def lanes(self) -> int:
        """The lanes of one program."""
        return self.threads * self.vec * self.chunks * self.cluster

    def ctas(self, grid: int) -> int:
        """Returns the CTAs that run `grid` programs."""
        return -(-grid // self.pack) * self.cluster


class IndexBuilder:
    """Emits index arithmetic at the current insertion point, with constants at the start of the kernel.

    Sums, differences and products are marked nsw, and nuw only if no operand or result can be negative. Indices in front of a
    tensor, such as those of lanes before a padded row, are negative: with nuw, LLVM would take them for positive indices below
    2**32.
    """

    def __init__(self, entry: ir.Block) -> None:
        self.entry, self.ranges = entry, Ranges()
        self._constants: dict[tuple[int, str], ir.Value] = {}

    def number(self, n: int, type_: ir.Type | None = None) -> ir.Value:
        """Returns a constant, of index type unless given another."""
        type_ = type_ or ir.IndexType.get()
        key = (n, str(type_))
        if key not in self._constants:
            with ir.InsertionPoint.at_block_begin(self.entry):
                self._constants[key] = arith.constant(type_, n)
        return self._constants[key]

    def i32(self, n: int) -> ir.Value:
        """Returns a constant of i32."""
        return self.number(n, ir.IntegerType.get_signless(32))

    def _operand(self, b: ir.Value | int) -> ir.Value:
        """Returns a value, or the constant of a number."""
        return self.number(b) if isinstance(b, int) else b

    def add(self, a: ir.Value, b: ir.Value | int) -> ir.Value:
        """Returns a + b."""
        if isinstance(b, int) and b == 0:
            return a
        b = self._operand(b)
        return arith.addi(a, b, overflow_flags=self._no_wrap(self._least(a), self._least(b)))

    def times(self, a: ir.Value, b: ir.Value | int) -> ir.Value:
        """Returns a * b."""
        if isinstance(b, int) and b == 1:
            return a
        b = self._operand(b)
        return arith.muli(a, b, overflow_flags=self._no_wrap(self._least(a), self._least(b)))

    def minus(self, a: ir.Value, b: ir.Value | int) -> ir.Value:
        """Returns a - b."""
        if isinstance(b, int) and b == 0:
            return a
        b = self._operand(b)
        return arith.subi(a, b, overflow_flags=self._no_wrap(self._least(a), self._least(a) - self.ranges.of(b)[1]))

    def over(self, a: ir.Value, n: int) -> ir.Value:
        """Returns a // n, unsigned."""
        return a if n == 1 else arith.divui(a, self.number(n))

    def modulo(self, a: ir.Value, n: int) -> ir.Value:
        """Returns a % n, unsigned."""
        return self.number(0) if n == 1 else arith.remui(a, self.number(n))

    def divmod(self, a: ir.Value, n: ir.Value, inverse: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Returns a // n and a % n, for a below UNIT and inverse = UNIT / n, rounded up: the product may be one too large."""
        word, index = ir.IntegerType.get_signless(32), ir.IndexType.get()
        factors = arith.index_cast(word, self.times(a, (1 << 32) // UNIT)), arith.index_cast(word, inverse)
        large = arith.index_castui(index, arith.MulUIExtendedOp(*factors).high)
        rest = arith.subi(a, arith.muli(large, n))
        over = arith.cmpi(arith.CmpIPredicate.slt, rest, self.number(0))
        return arith.select(over, arith.subi(large, self.number(1)), large), arith.select(over, arith.addi(rest, n), rest)

    def _least(self, a: ir.Value) -> float:
        return self.ranges.of(a)[0]

    def _no_wrap(self, *least: float) -> ir.Attribute:
        return ir.Attribute.parse(f"#arith.overflow<{'nsw, nuw' if min(least) >= 0 else 'nsw'}>")

    def below(self, a: ir.Value, b: ir.Value | int) -> ir.Value:
        """Returns whether a < b, unsigned."""
        return arith.cmpi(arith.CmpIPredicate.ult, a, self.number(b) if isinstance(b, int) else b)


def thread_id() -> ir.Value:
    """Returns this thread's number in its CTA."""
    return _id("gpu.thread_id")


def block_id() -> ir.Value:
    """Returns this CTA's number in the grid."""
    return _id("gpu.block_id")


def _id(name: str) -> ir.Value:
    return ir.Operation.create(
        name, results=[ir.IndexType.get()], attributes={"dimension": ir.Attribute.parse("#gpu<dim x>")}
    ).results[0]


def emit_if_else(condition: ir.Value, types: Sequence[ir.Type], *makes: Callable[[], Sequence[ir.Value]]) -> list[ir.Value]:
    """Emits an scf.if: `makes` emit its branches, first that for a true condition, and return the values to yield. The second may
    be missing. Returns the results, whose types are `types`."""
    branch = ir.Operation.create("scf.if", results=types, operands=[condition], regions=2)
    for region, make in zip(branch.regions, makes, strict=False):
        with ir.InsertionPoint(region.blocks.append()):
            ir.Operation.create("scf.yield", operands=list(make()))
    return list(branch.results)


def emit_if(condition: ir.Value, make: Callable[[], object]) -> None:
    """Emits an scf.if without results; `make` emits its only branch."""

    def body() -> Sequence[ir.Value]:
        """Emits the branch, which yields nothing."""
        make()
        return ()

    emit_if_else(condition, (), body)


def barrier() -> None:
    """Emits a barrier of the CTA's threads."""
    ir.Operation.create("gpu.barrier")
