"""Minimizes an estimate of a function's time over the layouts of its convolutions.

The function is a graph of calls. A call costs what the library takes for it in a layout; an edge between calls, or between a call
and an argument or a result of the function, costs a transposition where the layouts of its ends differ. Two labels and such edges
make a minimum cut. The search starts from all calls with channels first and from all with channels last, changes single calls while
that saves time, and keeps the better end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from lamina.core.gpu import Gpu
from lamina.core.layout import Layout
from lamina.dialects.graph import CALLS
from lamina.schedules.convolution_layout import seconds

from ...ir.affine import row_major
from ...ir.extern_calls import memory_strides
from ...ir.reading import elements_of, shape_of, terminator
from .calls import SUMMED_DIRECTLY, Convolution, channels_last

_FUSED = 0.3  # cost of a transposition fused into a kernel, as a share of the time to read and write its bytes
_SMALL = 16  # the search from an image back to calls skips operands with at most 1/16 of its elements (biases, scales)
_DIRECT = 1.5  # time of Lamina's direct convolution, as a multiple of the lower bound
_PREFERRED = 0.9  # factor on a forward call's time with channels last: Lamina's kernels want that layout, and fuse what follows


@dataclass(frozen=True)
class Edge:
    """A value that may have to be transposed.

    a, b  numbers of the calls at its ends; `b` is None for an argument or a result of the function
    last  whether that argument or result has its channels last
    cost  seconds of the transposition
    """

    a: int
    b: int | None
    last: bool
    cost: float

    def seconds(self, chosen: Sequence[bool]) -> float:
        """Returns the cost under a choice: whether each call has its channels last."""
        other = self.last if self.b is None else chosen[self.b]
        return self.cost if chosen[self.a] != other else 0.0


def channels_last_calls(function: ir.Operation, calls: Sequence[Convolution], gpu: Gpu) -> list[Convolution]:
    """Returns the calls that should have their channels last."""
    costs = [_seconds(call, gpu) for call in calls]
    edges = list(_edges(function, calls, gpu))
    edges_of: list[list[Edge]] = [[] for _ in calls]
    for edge in edges:
        edges_of[edge.a].append(edge)
        if edge.b is not None:
            edges_of[edge.b].append(edge)

    def total(chosen: Sequence[bool]) -> float:
        """Returns the seconds of all calls and of the copies between layouts."""
        return sum(cost[last] for cost, last in zip(costs, chosen, strict=True)) + sum(e.seconds(chosen) for e in edges)

    def gain(chosen: list[bool], i: int) -> float:
        """Returns the seconds saved by flipping the layout of call `i`."""
        flipped = [*chosen]
        flipped[i] = not chosen[i]
        before, after = (costs[i][c[i]] + sum(e.seconds(c) for e in edges_of[i]) for c in (chosen, flipped))
        return before - after

    def improved(start: bool) -> list[bool]:
        """Flips the most profitable layout until none saves time."""
        chosen = [start] * len(calls)
        for _ in calls:
            better = [i for i in range(len(calls)) if gain(chosen, i) > 0]
            if not better:
                break
            best = max(better, key=lambda i: gain(chosen, i))
            chosen[best] = not chosen[best]
        return chosen

    chosen = min((improved(start) for start in (True, False)), key=total)
    return [call for call, last in zip(calls, chosen, strict=True) if last]


def _seconds(call: Convolution, gpu: Gpu) -> tuple[float, float]:
    """Returns the time of a call with channels first and last. With channels last, its weight is transposed, too."""
    first, last = seconds(call.shape, call.computes, gpu)
    if call.element in SUMMED_DIRECTLY and call.is_plain and call.is_direct_by_default:
        last = min(last, _DIRECT * call.shape.floor(gpu))
    if not call.is_gradient:
        last = _PREFERRED * last - gpu.launch
    return first, last + 2 * _bytes(call.images[-1]) / gpu.bandwidth


def _edges(function: ir.Operation, calls: Sequence[Convolution], gpu: Gpu) -> Iterator[Edge]:
    """Yields the edges of the graph: one for each image of a call, and for each result of the function that is an image."""
    numbers = {call.op: i for i, call in enumerate(calls)}
    block = function.regions[0].blocks[0]
    for i, call in enumerate(calls):
        for image in call.images[:-1]:
            for source, fused in _sources(image):
                cost = _transposition(image, fused, gpu)
                if isinstance(source, ir.BlockArgument):
                    yield Edge(i, None, _is_last(source), cost)
                elif source.owner in numbers and numbers[source.owner] != i:
                    yield Edge(i, numbers[source.owner], False, cost)
    for value in terminator(block).operands:
        if len(shape_of(value)) == 4:
            for source, fused in _sources(value):
                if not isinstance(source, ir.BlockArgument) and source.owner in numbers:
                    call = calls[numbers[source.owner]]
                    yield Edge(numbers[call.op], None, not call.is_channels_first, _transposition(value, fused, gpu))


def _sources(image: ir.Value) -> Iterator[tuple[ir.Value, bool]]:
    """Yields the arguments and results of calls that an image is computed from, through ops that Lamina's kernels compute; and
    whether there are any such ops, as these may transpose on the way."""
    size = elements_of(image)
    seen: set[ir.Value] = set()
    stack = [(image, False)]
    while stack:
        value, fused = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, ir.BlockArgument) or value.owner.name in CALLS:
            yield value, fused
            continue
        computes = fused or value.owner.name == "linalg.generic"
        for operand in value.owner.operands:
            if isinstance(operand.type, ir.RankedTensorType) and elements_of(operand) * _SMALL > size:
                stack.append((operand, computes))


def _transposition(image: ir.Value, fused: bool, gpu: Gpu) -> float:
    moved = 2 * _bytes(image) / gpu.bandwidth
    return _FUSED * moved if fused else gpu.launch + moved


def _is_last(value: ir.Value) -> bool:
    shape, strides = shape_of(value), memory_strides(value)
    return len(shape) == 4 and strides != row_major(shape) and Layout.of(shape, strides) == Layout.of(shape, channels_last(shape))


def _bytes(value: ir.Value) -> int:
    return elements_of(value) * ir.RankedTensorType(value.type).element_type.width // 8
