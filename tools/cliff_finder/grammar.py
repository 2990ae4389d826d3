"""Draws random graphs: operations of real models in the orders in which they occur, on shapes from 1 to large."""

import warnings
from dataclasses import dataclass
from random import Random

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from .graph import MODES, DrawnGraph, DrawnInput, DrawnNode
from .ops import FOLLOWS, IMAGE, MATRIX, OPS, SEQUENCE, SIGNAL, DrawnOp, Shape

_LENGTHS = (1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 10, 13, 17, 24, 40)  # operations of a graph
_TRIES = 40


@dataclass(frozen=True)
class Bounds:
    """Limits the cost of a graph on a device.

    elements  of any value
    flops     of the forward pass
    dtypes    to choose from
    nodes     at most
    """

    elements: int
    flops: float
    dtypes: tuple[str, ...]
    nodes: int = max(_LENGTHS)


BOUNDS = {
    "cpu": Bounds(1 << 24, 4e9, ("float32",) * 4 + ("bfloat16",)),
    "cuda": Bounds(1 << 27, 1e12, ("float32", "float32", "bfloat16", "bfloat16", "float16")),
}
"""Maps a kind of device to its bounds."""


def draw(seed: str, device: str, bounds: Bounds | None = None) -> DrawnGraph:
    """Draws a graph; the same one for the same seed and bounds, which default to the device's."""
    rng, bounds = Random(seed), bounds or BOUNDS[device]
    while (graph := _draw(rng, bounds)) is None:
        pass
    return graph.used()


def _draw(rng: Random, bounds: Bounds) -> DrawnGraph | None:
    kind = rng.choices([IMAGE, SIGNAL, SEQUENCE, MATRIX], [5, 1, 4, 2])[0]
    shape = _shape(rng, kind, bounds)
    dtype, mode = rng.choice(bounds.dtypes), rng.choices(MODES, [6, 1, 3])[0]
    layouts = ["contiguous"] * 6 + ["transposed", "sliced"] + ["channels_last"] * 3 * (kind == IMAGE)
    graph = DrawnGraph((DrawnInput(shape, dtype, rng.choice(layouts)),), (), mode, dtype)
    shapes, kinds, group = [shape], [kind], ""
    for _ in range(min(rng.choice(_LENGTHS), bounds.nodes)):
        for _ in range(_TRIES):
            op = _next(rng, kinds[-1], group)
            node = _node(rng, op, shapes)
            longer = node and _longer(graph, node, bounds)
            if longer:
                break
        else:
            break
        graph, new = longer
        shapes, kinds, group = [*shapes, new], [*kinds, op.gives], op.group
    return graph if graph.nodes else None


def _shape(rng: Random, kind: str, bounds: Bounds) -> Shape:
    most = bounds.elements
    while True:
        batch = rng.choice([1, 1, 2, 4, 8, 16, 32, 64, 128, 256, rng.randint(1, 64)])
        side = rng.choice([7, 8, 14, 16, 28, 32, 56, 64, 112, 128, 224, 256, rng.randint(1, 130)])
        width = rng.choice([16, 32, 64, 128, 256, 384, 512, 768, 1024, 2048, 4096, rng.randint(1, 1100)])
        length = rng.choice([1, 16, 49, 64, 128, 196, 197, 256, 512, 1024, 2048, rng.randint(1, 700)])
        channels = rng.choice([1, 3, 3, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, rng.randint(1, 200)])
        oblong = rng.choice([side, side, side, max(1, side // 2)])
        shape = {
            IMAGE: (batch, channels, side, oblong),
            SIGNAL: (batch, channels, length * 4),
            SEQUENCE: (batch, length, width),
            MATRIX: (batch * rng.choice([1, 1, 16, 64]), width * rng.choice([1, 1, 4])),
        }[kind]
        if torch.Size(shape).numel() <= most // 4:
            return shape


def _next(rng: Random, kind: str, group: str) -> DrawnOp:
    ops = OPS[kind]
    return rng.choices(ops, [op.weight * FOLLOWS.get(group, {}).get(op.group, 1.0) for op in ops])[0]


def _node(rng: Random, op: DrawnOp, shapes: list[Shape]) -> DrawnNode | None:
    drawn = op.draw(rng, shapes[-1])
    if drawn is None:
        return None
    last = len(shapes) - 1
    operands = [last]
    if op.operands == 2:
        same = [i for i, shape in enumerate(shapes[:-1]) if shape == shapes[-1]]
        if not same:
            return None
        operands.append(rng.choice(same[-4:]))
    return DrawnNode(drawn[0], tuple(operands), drawn[1])


def _longer(graph: DrawnGraph, node: DrawnNode, bounds: Bounds) -> tuple[DrawnGraph, Shape] | None:
    """Returns the graph with one more node and the shape of its result; None if torch refuses it or it costs too much."""
    longer = DrawnGraph(graph.inputs, (*graph.nodes, node), graph.mode, graph.dtype)
    shape = result_shape(longer, bounds.flops)
    if shape is None or not 0 < torch.Size(shape).numel() <= bounds.elements:
        return None
    return longer, shape


def result_shape(graph: DrawnGraph, flops: float = float("inf")) -> Shape | None:
    """Returns the shape of a graph's result, from fake tensors; None if torch refuses it or it takes more than `flops`."""
    with warnings.catch_warnings(), FakeTensorMode(), FlopCounterMode(display=False) as counter, torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            result = graph.model(0, "cpu")(*(torch.empty(i.shape, dtype=getattr(torch, i.dtype)) for i in graph.inputs))
        except (RuntimeError, ValueError, IndexError, TypeError):
            return None
    return tuple(result.shape) if counter.get_total_flops() <= flops else None
