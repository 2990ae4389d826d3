"""Gradients of a depthwise convolution's weights on a CPU: one program computes those of one channel, or a block, image by image.

For each row of the window, a loop over the pixels of an image carries a block of sums for each of its columns: a block of
gradients is read once for all of them, and multiplied by as many blocks of the padded copy of the image. The sums of all images
are in scratch memory; at the end the lanes of a block of columns are added up.
"""

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir.dialects import arith, math, memref, vector

from ....space.planes.gradients import PlaneGradients
from ....space.space import Space
from ..blocks import Blocks, Frame
from .copies import ChannelsCopy, PlaneCopy


class PlaneGradientProgram:
    """Emits the body of one kernel."""

    def __init__(self, frame: Frame, space: Space, schedule: PlaneGradients) -> None:
        self.schedule = schedule
        self.b = Blocks(frame, schedule.merged, schedule.lanes)
        self.results = list(zip(space.results, frame.results, strict=True))
        self.f32 = ir.F32Type.get()
        self.block = ir.VectorType.get([schedule.lanes], self.f32)

    def emit(self, program: ir.Value) -> None:
        """Emits the program of the channel, or block of channels, number `program`."""
        b, p = self.b, self.schedule
        axes, taps = p.axes, p.axes.taps
        if p.of_channels:
            b.vector = axes.channel
            b.bind(axes.channel, first := arith.muli(program, b.number(p.lanes)))
            if axes.channel.extent % p.lanes:
                b.stack[0].mask = b.mask_before(arith.subi(b.number(axes.channel.extent), first))
        else:
            b.bind(axes.channel, program)
        plane = (ChannelsCopy if p.of_channels else PlaneCopy)(b, p.plane)
        with b.point(0):
            type_ = ir.MemRefType.get([taps * p.lanes], self.f32)
            sums = memref.AllocaOp(type_, [], [], alignment=64).result
        self._for(taps, lambda tap: self._clear(sums, tap))

        def image(n: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            """Adds the products of one image."""
            b.bind(axes.batch, n)
            self._for(axes.row.extent // p.chunk, lambda chunk: self._add(plane, sums, arith.muli(chunk, b.number(p.chunk))))
            return []

        b.loop(b.number(0), b.number(axes.batch.extent), 1, [], image)
        self._for(taps, lambda tap: self._store(sums, tap))

    def _for(self, count: int, body: Callable[[ir.Value], None]) -> None:
        """Emits a loop of `count` iterations."""

        def step(i: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            """Emits one iteration."""
            body(i)
            return []

        self.b.loop(self.b.number(0), self.b.number(count), 1, [], step)

    def _clear(self, sums: ir.Value, tap: ir.Value) -> None:
        b = self.b
        vector.store(b.splat(0.0, self.f32), sums, [arith.muli(tap, b.number(self.schedule.lanes))])

    def _add(self, plane: PlaneCopy, sums: ir.Value, first: ir.Value) -> None:
        """Adds the products of `chunk` rows of gradients, from the row `first` on."""
        b, p = self.b, self.schedule
        plane.fill(first)
        with b.point():
            start = arith.addi(b.index(p.start), arith.muli(first, b.number(p.pitch[0])))

        across = p.axes.across.extent
        zeros = [b.splat(0.0, self.f32)] * across

        def of_window_row(k: ir.Value) -> None:
            """Adds the products of one row of the window."""
            with b.point():
                tap = arith.muli(k, b.number(across))
                places = [arith.muli(arith.addi(tap, b.number(j)), b.number(p.lanes)) for j in range(across)]
                top = arith.muli(k, b.number(p.plane.window.dilation[0] * p.plane.length))
            added = b.loop(b.number(0), b.number(p.chunk), 1, zeros, lambda i, now: self._row(plane, start, top, i, now))
            with b.point():
                for at, total in zip(places, added, strict=True):
                    vector.store(arith.addf(vector.load(self.block, sums, [at]), total), sums, [at])

        self._for(p.axes.down.extent, of_window_row)

    def _row(self, plane: PlaneCopy, start: ir.Value, top: ir.Value, i: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
        """Adds the products of row `i` of gradients. start: index of the first row; top: that of its pixels, in the copy."""
        b, p = self.b, self.schedule
        extent, step = p.axes.column.extent, 1 if p.of_channels else p.lanes
        whole = extent // step * step
        with b.point():
            grads = arith.addi(start, arith.muli(i, b.number(p.pitch[0])))
            pixels = arith.addi(top, arith.muli(i, b.number(p.plane.window.stride[0] * p.plane.length)))
        if whole:
            mask = b.stack[0].mask
            sums = b.loop(
                b.number(0), b.number(whole), step, sums, lambda j, now: self._products(plane, grads, pixels, j, mask, now)
            )
        if whole < extent:
            rest = b.memoized("rest", 0, lambda: b.mask_before(b.number(extent - whole)))
            with b.point():
                sums = self._products(plane, grads, pixels, b.number(whole), rest, sums)
        return sums

    def _products(
        self, plane: PlaneCopy, grads: ir.Value, pixels: ir.Value, column: ir.Value, mask: ir.Value | None, sums: list[ir.Value]
    ) -> list[ir.Value]:
        """Adds the products of a block of gradients, one sum for each column of the window. grads, pixels: where the row of
        gradients begins, and that of pixels."""
        b, p = self.b, self.schedule
        flat, at = b.memory[p.grad.tensor][0], [arith.addi(grads, arith.muli(column, b.number(p.pitch[1])))]
        grad = vector.load(self.block, flat, at) if mask is None else self._masked(flat, at, mask)
        step = p.plane.window.stride[1] * p.lanes if p.of_channels else 1
        begin, out = arith.addi(pixels, arith.muli(column, b.number(step))), []
        for j, total in enumerate(sums):
            read = vector.load(self.block, plane.memory, [arith.addi(begin, b.number(p.plane.place(j)))])
            out.append(math.fma(grad, read, total))
        return out

    def _masked(self, flat: ir.Value, at: list[ir.Value], mask: ir.Value) -> ir.Value:
        return vector.maskedload(self.block, flat, at, mask, self.b.splat(0.0, self.f32))

    def _store(self, sums: ir.Value, tap: ir.Value) -> None:
        """Stores what the kernel computes from one sum, of which lanes are added up, or are channels."""
        b, p = self.b, self.schedule
        across = b.number(p.axes.across.extent)
        with b.point():
            b.bind(p.axes.down, arith.divui(tap, across))
            b.bind(p.axes.across, arith.remui(tap, across))
            lanes = vector.load(self.block, sums, [arith.muli(tap, b.number(p.lanes))])
            total = lanes if p.of_channels else vector.reduction(self.f32, vector.CombiningKind.ADD, lanes)
        b.stack[-1].memo[p.product], b.stack[-1].mask = total, b.stack[0].mask
        for result, flat in self.results:
            b.store(result.expr, flat, result.dtype, result.offset, result.paired)
