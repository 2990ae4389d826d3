"""Calls of flex_attention as users write them, for tests on CPUs and GPUs."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch._higher_order_ops.flex_attention import flex_attention as flex_attention_op
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

Positions = tuple[Tensor, Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Flex:
    """A function of scores, one of positions, and what they read.

    score    of the tensors that are read, the score and its positions; None for none
    shows    of the tensors that are read and positions; None for all
    tensors  what they read, of the numbers of batches, heads, queries and keys
    learned  the tensors that are trained, by number
    whole    the scores are in memory: no kernel of attention computes what `score` does
    """

    score: Callable[..., Tensor] | None = None
    shows: Callable[..., Tensor] | None = None
    tensors: Callable[[int, int, int, int], list[Tensor]] = field(default=lambda *_: [])
    learned: tuple[int, ...] = ()
    whole: bool = False

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *read: Tensor, aux: AuxRequest | None = None) -> Any:
        """Calls torch's function without gradients; on CPUs only the op has gradients."""
        blocks, score = None, None
        if self.shows is not None:
            blocks = create_block_mask(
                lambda b, h, i, j: self.shows(read, b, h, i, j), *q.shape[:2], q.shape[2], k.shape[2], device=q.device
            )
        if self.score is not None:
            score = lambda s, b, h, i, j: self.score(read, s, b, h, i, j)  # noqa: E731
        return flex_attention(q, k, v, score_mod=score, block_mask=blocks, enable_gqa=True, return_aux=aux)

    def by_op(self, q: Tensor, k: Tensor, v: Tensor, *read: Tensor) -> Tensor:
        """Calls the op."""

        def score(s: Tensor, *at: Tensor) -> Tensor:
            return s if self.score is None else self.score(read, s, *at)

        def shows(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return b.new_ones((), dtype=torch.bool) if self.shows is None else self.shows(read, b, h, i, j)

        blocks = create_block_mask(shows, None if self.shows is None else q.shape[0], q.shape[1], q.shape[2], k.shape[2], q.device)
        out: Tensor = flex_attention_op(q, k, v, score, blocks.as_tuple(), q.shape[3] ** -0.5, {})[0]
        return out

    def defined(self, q: Tensor, k: Tensor, v: Tensor, *read: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the results and the logarithms of sums by the definition, without Dynamo, through which torch's own function
        goes."""
        at = [torch.arange(n) for n in (*q.shape[:3], k.shape[2])]
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        scores = q @ k.mT * q.shape[3] ** -0.5
        with TransformGetItemToIndex():  # of tensors by positions that vmap has one of
            if self.score is not None:
                scores = _at_each(lambda s, *at: self.score(read, s, *at), (0,))(scores, *at)
            if self.shows is not None:
                scores = scores.masked_fill(~_at_each(lambda *at: self.shows(read, *at))(*at), -math.inf)
        most = scores.detach().amax(-1, keepdim=True).nan_to_num(neginf=0.0)
        weights = torch.exp(scores - most)
        total = weights.sum(-1, keepdim=True)
        return weights / total.where(total > 0, 1) @ v, (most + total.log()).squeeze(-1)


def _at_each(fn: Callable[..., Tensor], first: tuple[int, ...] = ()) -> Callable[..., Tensor]:
    """Calls a function once for each batch, head, query and key. first: the dimensions of what it takes before positions."""
    for place in (3, 2, 1, 0):
        fn = torch.vmap(fn, (*first, *(0 if i == place else None for i in range(4))))
    return fn


def heads_slopes(_: int, heads: int, *__: int) -> list[Tensor]:
    return [torch.exp2(-8 * torch.arange(1, heads + 1) / heads)]


def documents(_: int, __: int, queries: int, keys: int) -> list[Tensor]:
    return [torch.randint(0, 3, (max(queries, keys),)).sort().values]


def lengths(batch: int, _: int, __: int, keys: int) -> list[Tensor]:
    return [torch.tensor([0, *torch.randint(1, keys + 1, (batch - 1,)).tolist()])]


def distances(_: int, heads: int, queries: int, keys: int) -> list[Tensor]:
    return [torch.randn(heads, max(queries, keys))]


def causal(_: Any, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i >= j


def capped(_: Any, s: Tensor, *__: Tensor) -> Tensor:
    return 5 * torch.tanh(s / 5)


def relative(read: Any, s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return s + read[0][h, (i - j).abs()]


FLEX = {
    "plain": Flex(),
    "causal": Flex(shows=causal),
    "window": Flex(shows=lambda _, b, h, i, j: (i >= j) & (i - j < 20)),
    "prefix": Flex(shows=lambda _, b, h, i, j: (j < 30) | (i >= j)),
    "later": Flex(shows=lambda _, b, h, i, j: j > i + 2),  # the last queries see nothing
    "documents": Flex(shows=lambda r, b, h, i, j: (i >= j) & (r[0][i] == r[0][j]), tensors=documents),
    "lengths": Flex(shows=lambda r, b, h, i, j: j < r[0][b], tensors=lengths),  # the first sequence is empty
    "by head": Flex(shows=lambda _, b, h, i, j: (i >= j) | (h == 1)),
    "slopes": Flex(lambda r, s, b, h, i, j: s + r[0][h] * (j - i), causal, heads_slopes),
    "slopes of a formula": Flex(lambda _, s, b, h, i, j: s + torch.exp2(-(h + 1) * 2.0) * (j - i)),
    "relative": Flex(relative, tensors=distances),
    "learned": Flex(relative, causal, distances, learned=(0,), whole=True),
    "hidden by score": Flex(lambda _, s, b, h, i, j: torch.where(i - j < 5, s + 1, -math.inf) * 2, causal),
    "far": Flex(lambda _, s, b, h, i, j: torch.where((i - j).abs() > 9, s - 3, s)),
    "cap": Flex(capped, causal, whole=True),
    "cap and more": Flex(lambda r, s, *at: relative(r, capped(r, s), *at), causal, distances, whole=True),
    "cap of more": Flex(lambda r, s, *at: capped(r, relative(r, s, *at)), tensors=distances, whole=True),
    "by blocks": Flex(
        lambda r, s, b, h, i, j: s + r[0][h, 0] + r[0][h][j], lambda _, b, h, i, j: (i // 7) % 4 >= (j // 7) % 4, distances
    ),
    "by key": Flex(lambda r, s, b, h, i, j: s * r[0][b, h, j] + r[0][0, 0, i], None, lambda b, h, q, k: [torch.rand(b, h, q + k)], whole=True),
}  # fmt: skip


def operands(
    batch: int = 2, heads: int = 4, shared: int = 2, queries: int = 127, keys: int = 127, size: int = 16,
    dtype: torch.dtype = torch.float32,
) -> list[Tensor]:  # fmt: skip
    """Random queries, keys and values."""
    return [torch.randn(batch, h, n, size).to(dtype) for h, n in ((heads, queries), (shared, keys), (shared, keys))]
