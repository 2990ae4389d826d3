"""Copies rows of one channel of an image (a plane), or of a block of channels, to scratch memory, padded with zeros.

The copy stays in the caches. Convolutions that read it need neither masks nor bounds checks. In a copy of one channel, columns are
grouped by their remainder modulo the stride (phases), so that neighboring windows read neighboring elements.
"""

from torch_mlir import ir
from torch_mlir.dialects import arith, memref, vector

from lamina.schedules import cpu

from ....space.planes.convolution import PaddedPlane
from ..blocks import Blocks


class PlaneCopy:
    """A padded copy of one channel, in scratch memory of a program.

    memory  the copy: row by row, and phase by phase within a row
    """

    def __init__(self, b: Blocks, plane: PaddedPlane) -> None:
        self.b, self.plane = b, plane
        self.f32 = ir.F32Type.get()
        with b.point(0):
            self.memory = self._scratch(plane.height * plane.length)
            self._line = self.memory if plane.window.stride[1] == 1 or plane.block > 1 else self._scratch(plane.length)

    def _scratch(self, elements: int) -> ir.Value:
        return memref.AllocaOp(ir.MemRefType.get([elements], self.f32), [], [], alignment=64).result

    def fill(self, first: ir.Value) -> None:
        """Emits the copy of the image rows that the program's windows read. first: the program's first row of windows."""
        b, p, copy, line = self.b, self.plane, self.memory, self._line
        origin = b.index(p.origin)
        top = arith.addi(arith.muli(first, b.number(p.window.stride[0])), b.number(-p.window.padding[0]))

        def row(i: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            """Copies one row of the image, or zeros outside of it."""
            y = arith.addi(top, i)
            to = arith.muli(i, b.number(p.length))
            start = to if line is copy else b.number(0)
            inside = arith.andi(
                arith.cmpi(arith.CmpIPredicate.sge, y, b.number(0)), arith.cmpi(arith.CmpIPredicate.slt, y, b.number(p.size[0]))
            )
            b.branch(
                inside,
                lambda: self._copy_row(line, start, arith.addi(origin, arith.muli(y, b.number(p.pitch[0])))),
                lambda: self._zeros(line, start, range(0, p.length, cpu.VECTOR)),
            )
            if line is not copy:
                self._split_phases(line, copy, to)
            return []

        b.loop(b.number(0), b.number(p.height), 1, [], row)

    def _copy_row(self, line: ir.Value, start: ir.Value, row_start: ir.Value) -> None:
        """Copies the image row at `row_start` to `line`, from `start` on, with zeros around it. Columns that no window reads
        are left out."""
        b, p = self.b, self.plane
        pad, width = p.window.padding[1], p.length
        count = min(p.size[1], width - pad)
        flat = b.memory[p.image.tensor][0]
        self._zeros(line, start, [x for x in range(0, width, cpu.VECTOR) if x < pad or x + cpu.VECTOR > pad + count])
        begin = arith.addi(start, b.number(pad))
        whole = count // cpu.VECTOR * cpu.VECTOR
        if whole:

            def move(x: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
                """Copies one block of a row."""
                vector.store(vector.load(_block(), flat, [arith.addi(row_start, x)]), line, [arith.addi(begin, x)])
                return []

            b.loop(b.number(0), b.number(whole), cpu.VECTOR, [], move)
        if whole < count:
            lanes = ir.VectorType.get([cpu.VECTOR], ir.IntegerType.get_signless(1))
            mask = vector.create_mask(lanes, [b.number(count - whole)])
            last = b.number(whole)
            read = vector.maskedload(_block(), flat, [arith.addi(row_start, last)], mask, self._zero())
            vector.maskedstore(line, [arith.addi(begin, last)], mask, read)

    def _zeros(self, line: ir.Value, start: ir.Value, places: range | list[int]) -> None:
        """Stores a block of zeros at each of `places`, counted from `start`."""
        zero = self._zero()
        for x in places:
            vector.store(zero, line, [arith.addi(start, self.b.number(x))])

    def _zero(self) -> ir.Value:
        return self.b.splat(0.0, self.f32, (cpu.VECTOR,))

    def _split_phases(self, line: ir.Value, copy: ir.Value, to: ir.Value) -> None:
        """Copies a row from `line` to `copy`, from `to` on, phase by phase: columns that are a stride apart become neighbors."""
        b, p = self.b, self.plane
        steps = p.window.stride[1]
        wide = ir.VectorType.get([cpu.VECTOR * steps], self.f32)

        def pick(x: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            """Splits one block of a row into its phases."""
            everything = vector.load(wide, line, [arith.muli(x, b.number(steps))])
            for phase in range(steps):
                picked = ir.DenseI64ArrayAttr.get([i * steps + phase for i in range(cpu.VECTOR)])
                taken = vector.shuffle(everything, everything, picked)
                vector.store(taken, copy, [arith.addi(arith.addi(to, b.number(phase * p.width)), x)])
            return []

        b.loop(b.number(0), b.number(p.width), cpu.VECTOR, [], pick)


class ChannelsCopy(PlaneCopy):
    """A padded copy of a block of channels, which are neighbors in memory, in scratch memory of a program."""

    def _copy_row(self, line: ir.Value, start: ir.Value, row_start: ir.Value) -> None:
        """Copies the image row that starts at `row_start`, pixel by pixel, with zeros in place of channels after the last one."""
        b, p = self.b, self.plane
        pad, flat = p.window.padding[1], b.memory[p.image.tensor][0]
        count = min(p.size[1], p.width - pad)
        self._zeros(line, start, [x * p.block for x in range(p.width) if not pad <= x < pad + count])
        begin, mask = arith.addi(start, b.number(pad * p.block)), b.stack[0].mask

        def pixel(x: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            """Copies one pixel's block of channels."""
            place = [arith.addi(row_start, arith.muli(x, b.number(p.pitch[1])))]
            read = (
                vector.load(_block(), flat, place) if mask is None else vector.maskedload(_block(), flat, place, mask, self._zero())
            )
            vector.store(read, line, [arith.addi(begin, arith.muli(x, b.number(p.block)))])
            return []

        b.loop(b.number(0), b.number(count), 1, [], pixel)


def _block() -> ir.VectorType:
    return ir.VectorType.get([cpu.VECTOR], ir.F32Type.get())
