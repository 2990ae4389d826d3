"""Joins two products with the same left operand into one dot: tensor cores read the left block once for twice as many columns.

The blocks of both right operands come through one descriptor, whose outermost dimension steps from one operand to the other: by the
difference of their addresses, known at run time. Operands further apart than a descriptor can step are multiplied one by one, by a
second form of the kernel.
"""

from torch_mlir import ir

from lamina.passes.ir.reading import ops_in

from .descriptors import DIMENSIONS, TritonTile
from .expressions import INDENT
from .loops import TritonLoops, dispatch

FARTHEST = 1 << 40  # a descriptor can step at least this many bytes


class Pairs(TritonLoops):
    """Prints loops of two products.

    joint  whether two products may become one dot
    near   the two parameters that share a descriptor, once a loop is joined
    """

    joint = False
    near: tuple[str, str] | None = None

    def _for(self, op: ir.Operation) -> None:
        if not (self.joint and self._joined(op)):
            super()._for(op)

    def _op(self, op: ir.Operation) -> None:
        raise NotImplementedError

    def _joined(self, loop: ir.Operation) -> bool:
        """Prints a loop of two products as one, its bounds being known. Returns False, and prints nothing, for any other loop."""
        self._counter(loop)
        body = loop.regions[0].blocks[0]
        dots = ops_in(body, "vector.contract")
        if len(dots) != 2 or dots[0].operands[0] != dots[1].operands[0] or any(v not in self.literals for v in loop.operands[3:]):
            return False
        reads = [dot.operands[1].owner.operation for dot in dots]
        if any(read.name != "vector.transfer_read" for read in reads):
            return False
        first, second = map(self._tile_of, reads)
        if first is None or second is None or not (can_pair(first, second) and first.across and len(first.blocks) < DIMENSIONS):
            return False
        rows, columns = ir.VectorType(dots[0].result.type).shape
        self._line(f"acc = tl.full(({rows}, {2 * columns}), {self.literals[loop.operands[3]]}, tl.float32)")
        with self._inside(loop):
            for o in body.operations:
                if o.operation == dots[0]:
                    self._line(f"acc = tl.dot({self._value(dots[0].operands[0])}, {self._both(first, second)}, acc)")
                elif o.operation != dots[1] and o.operation not in reads:
                    self._op(o.operation)
        one, other = self._halves("acc", rows, columns)
        for result, (a, b) in zip(loop.results, ((one, other), (other, one)), strict=True):
            self._set(result, f"tl.where(at0 < at1, {a}, {b})")
        return True

    def _both(self, first: TritonTile, second: TritonTile) -> str:
        """Returns a load of the blocks of both right operands, side by side."""
        self.near = first.source, second.source
        self.head.append(f"{INDENT}at0, at1 = {first.source}.to(tl.int64), {second.source}.to(tl.int64)")
        low = f"tl.minimum(at0, at1).to({first.source}.dtype)"
        step = f"tl.abs(at1 - at0) // ({first.source}.dtype.element_ty.primitive_bitwidth // 8)"
        blocks = self._described("both", low, (2, *first.sizes), (step, *first.steps), (2, *first.blocks))
        columns, k = first.blocks[-2:]
        return f"{blocks}.load([{', '.join(('0', *first.places))}]).reshape({2 * columns}, {k}).T"


def can_pair(first: TritonTile, second: TritonTile) -> bool:
    """Returns whether two blocks differ only in their memory, and lie so that they can be side by side."""
    same = all(getattr(first, key) == getattr(second, key) for key in ("sizes", "steps", "blocks", "places"))
    return same and first.source != second.source and first.across == second.across


def print_either(name: str, parameters: str, near: tuple[str, str], forms: tuple[str, str]) -> str:
    """Prints a kernel that calls the first of two forms where two of its parameters are near each other, else the second."""
    distance = "apart = tl.abs({}.to(tl.int64) - {}.to(tl.int64))".format(*near)
    tests = (f"(apart > 0) & (apart < {FARTHEST})", "")
    return dispatch(
        name, parameters, [distance], [(test, f"{form}({parameters})") for test, form in zip(tests, forms, strict=True)]
    )
