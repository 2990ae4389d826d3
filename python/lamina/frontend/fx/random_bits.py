"""`lamina.random_bits`: 32 random bits for every element of a tensor from a seed, as an op of graphs that kernels compute.

The seed is a call of torch's own generator in the graph; values that follow from it are recomputed where they are needed. So a
forward graph hands its backward graph one number, not a mask.
"""

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils.checkpoint import CheckpointPolicy

from lamina.kernels.library import LIBRARY

from .rewriter import insert, replace

aten = torch.ops.aten

RANGE = (-(2**63), 2**63 - 1)  # of a seed; no other call has it, so it identifies seeds
_ROUNDS, _MASK = 7, 2**32 - 1


@torch.library.custom_op("lamina::random_bits", mutates_args=())
def random_bits(seed: Tensor, size: Sequence[int]) -> Tensor:
    """Returns i32 words of Philox4x32: element i, in row-major order, is word i % 4 for the counter i // 4 and the key `seed`, an
    i64 scalar.

    This is what the kernels of passes/lower/philox.py compute, in torch's ops: for graphs that run without being compiled.
    """
    count = torch.Size(size).numel()
    number = torch.arange(-(-count // 4), device=seed.device)
    zero = torch.zeros_like(number)
    words = philox((number & _MASK, number >> 32, zero, zero), seed).view(-1)[:count]
    return (words - ((words >> 31) << 32)).to(torch.int32).view(size)


def philox(counter: Sequence[Tensor], seed: Tensor) -> Tensor:
    """Philox4x32 of counters of four words with the key `seed`: four words in a new last dimension. All unsigned, held in i64."""
    a, b, c, d = counter
    k, m = seed & _MASK, (seed >> 32) & _MASK
    for _ in range(_ROUNDS):
        (low_a, high_a), (low_c, high_c) = _product(a, 0xD2511F53), _product(c, 0xCD9E8D57)
        a, b, c, d = high_c ^ b ^ k, low_c, high_a ^ d ^ m, low_a
        k, m = (k + 0x9E3779B9) & _MASK, (m + 0xBB67AE85) & _MASK
    return torch.stack([a, b, c, d], -1)


@random_bits.register_fake
def _(seed: Tensor, size: Sequence[int]) -> Tensor:
    return seed.new_empty(size, dtype=torch.int32)


def _product(x: Tensor, factor: int) -> tuple[Tensor, Tensor]:
    """Returns the low and the high word of a product of unsigned 32-bit numbers held in i64."""
    low, high = (x & 0xFFFF) * factor, (x >> 16) * factor
    high = high + (low >> 16)
    return ((high & 0xFFFF) << 16) | (low & 0xFFFF), high >> 16


BITS: Any = torch.ops.lamina.random_bits.default
SEED = aten.randint.low
SOURCES = {
    "prims.iota.default", "aten.arange.default", "aten.arange.start", "aten.arange.start_step", "aten.full.default",
    "aten.scalar_tensor.default",
}  # fmt: skip
"""Ops that make tensors of numbers and sizes."""


def bits(seed: Tensor, size: Sequence[int]) -> Tensor:
    """Emits `lamina.random_bits`: i32 of shape `size`."""
    return BITS(seed, list(size))


def draw_seed(device: torch.device | None) -> Tensor:
    """Emits a seed from torch's generator of the device; every call of the graph draws a new one."""
    return SEED(*RANGE, [], dtype=torch.int64, device=device)


def is_seed(node: fx.Node) -> bool:
    """Returns whether a node draws a seed."""
    return node.target is SEED and node.args[:2] == RANGE


def draw_together(graph: fx.Graph) -> None:
    """Draws all seeds of a graph by one call, in place."""
    seeds = [node for node in graph.nodes if is_seed(node)]
    if len(seeds) < 2:
        return
    first, value = seeds[0], seeds[0].meta["val"]
    drawn = insert(first, value.new_empty([len(seeds)]), SEED, *RANGE, [len(seeds)], **first.kwargs)
    for i, seed in enumerate(seeds):
        replace(seed, insert(seed, value.new_empty([]), aten.select.int, drawn, 0, i))


def recompute_from_seeds(joint: fx.GraphModule) -> None:
    """Marks, before a joint graph is partitioned, nodes that follow from seeds, numbers and sizes alone for recomputation in the
    backward graph: one that is saved is an unknown tensor there, where a position that an index holds has to be known.

    Ops that draw numbers are not recomputed, in checkpoints (torch.utils.checkpoint) either: their results are kept, one number for
    each op that draws by a seed.
    """
    follows: set[fx.Node] = set()
    for node in joint.graph.nodes:
        if node.op == "call_function" and _is_known(node, follows):
            follows.add(node)
            node.meta["recompute"] = CheckpointPolicy.PREFER_RECOMPUTE
        elif "recompute" in node.meta and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            for drawn in (node, *(user for user in node.users if user.target is operator.getitem)):
                drawn.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _is_known(node: fx.Node, follows: set[fx.Node]) -> bool:
    """Returns whether a node draws bits from a seed, or a kernel computes it from what is known."""
    if node.target is BITS:
        return True
    if str(node.target) in LIBRARY or torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
        return False
    made_of = [n for n in node.all_input_nodes if isinstance(n.meta.get("val"), Tensor)]
    if not isinstance(node.meta.get("val"), Tensor) or not all(n in follows or is_seed(n) for n in made_of):
        return False
    return bool(made_of) or str(node.target) in SOURCES
