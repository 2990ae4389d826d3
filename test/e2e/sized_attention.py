"""Attention of symbolic batch and length with each kind of mask, as models write it, for tests on CPUs and GPUs."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

F = torch.nn.functional
HEADS, SIZE = 4, 32
INF = float("inf")


@dataclass(frozen=True)
class AttentionGraph:
    """A function of tokens, (batch, length, 3 * HEADS * SIZE), and of the sequences' lengths. causal: its mask becomes the causal flag."""

    function: Callable[[Tensor, Tensor], Tensor]
    causal: bool = False


def tokens(batch: int, length: int, device: str, dtype: torch.dtype = torch.bfloat16) -> tuple[Tensor, Tensor]:
    """Returns random queries, keys and values in one tensor, and lengths."""
    x = torch.randn(batch, length, 3 * HEADS * SIZE, device=device, dtype=dtype)
    return x, torch.randint(1, length + 1, (batch,), device=device)


def heads(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Splits tokens into queries, keys and values, (batch, HEADS, length, SIZE)."""
    q, k, v = x.view(x.shape[0], x.shape[1], 3, HEADS, SIZE).permute(2, 0, 3, 1, 4).unbind(0)
    return q, k, v


def fused(mask: Callable[[Tensor, Tensor], Tensor] | None, **more: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """Returns attention by torch's op, with the mask that a function computes from positions (length,) and lengths."""

    def run(x: Tensor, lengths: Tensor) -> Tensor:
        q, k, v = heads(x)
        seen = None if mask is None else mask(torch.arange(x.shape[1], device=x.device), lengths)
        seen = seen if seen is None or seen.dtype is torch.bool else seen.to(q.dtype)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, **more)

    return run


def written(mask: Callable[[Tensor, Tensor], Tensor] | None, hidden: float = -INF) -> Callable[[Tensor, Tensor], Tensor]:
    """Returns attention by products and a softmax."""

    def run(x: Tensor, lengths: Tensor) -> Tensor:
        q, k, v = heads(x)
        scores = q @ k.mT * SIZE**-0.5
        if mask is not None:
            scores = scores.masked_fill(~mask(torch.arange(x.shape[1], device=x.device), lengths), hidden)
        return scores.softmax(-1) @ v

    return run


def earlier(at: Tensor, _: Tensor) -> Tensor:
    """Selects keys up to the query's own position."""
    return at <= at[:, None]


def triangle(at: Tensor, _: Tensor) -> Tensor:
    """Returns the same mask as a triangle of infinities, which is added."""
    return torch.full((at.shape[0], at.shape[0]), -INF, device=at.device).triu(1)


def window(at: Tensor, _: Tensor) -> Tensor:
    """Selects the query's own key and the 99 before it."""
    return (at <= at[:, None]) & (at > at[:, None] - 100)


def packed(at: Tensor, lengths: Tensor) -> Tensor:
    """Selects keys of the query's own sequence, up to its position, among several sequences packed into one. Only the numbering
    of positions shows where a sequence starts."""
    places = at[None].expand(lengths.shape[0], -1)
    number = (torch.diff(places, prepend=places[:, :1] - 1, dim=-1) != 1).cumsum(-1)
    batch, queries, keys = torch.arange(lengths.shape[0], device=at.device)[:, None, None, None], at[:, None], at
    same = number[batch, queries] == number[batch, keys]
    return (places[batch, keys] <= places[batch, queries]) & same


def packed_window(at: Tensor, lengths: Tensor) -> Tensor:
    """As `packed`, without the keys that are 100 or more before the query."""
    return packed(at, lengths) & (at > at[:, None] - 100)


def there(at: Tensor, lengths: Tensor) -> Tensor:
    """Selects keys within the sequence's length."""
    return (at < lengths[:, None])[:, None, None, :]


def repeated(x: Tensor, lengths: Tensor) -> Tensor:
    """Computes one query per head, for heads that share the keys of one head."""
    q, k, v = heads(x)
    seen = there(torch.arange(x.shape[1], device=x.device), lengths)
    return F.scaled_dot_product_attention(q[:, :, :1], k[:, :1], v[:, :1], attn_mask=seen, enable_gqa=True)


ATTENTIONS = {
    "plain": AttentionGraph(fused(None)),
    "flag": AttentionGraph(fused(None, is_causal=True), causal=True),
    "earlier": AttentionGraph(fused(earlier), causal=True),
    "triangle": AttentionGraph(fused(triangle), causal=True),
    "window": AttentionGraph(fused(window)),
    "packed": AttentionGraph(fused(packed), causal=True),
    "packed window": AttentionGraph(fused(packed_window)),
    "lengths": AttentionGraph(fused(there)),
    "lengths and earlier": AttentionGraph(fused(lambda at, n: there(at, n) & earlier(at, n))),
    "written": AttentionGraph(written(None)),
    "written, earlier": AttentionGraph(written(earlier), causal=True),
    "written, window": AttentionGraph(written(window)),
    "written, lengths": AttentionGraph(written(there, -1e9)),
    "one query": AttentionGraph(repeated),
}
