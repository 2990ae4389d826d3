"""Attention masks as models build them, from positions and from which keys are present, for (batch, heads, queries, keys) scores."""

from collections.abc import Callable

import torch
from torch import Tensor

Scores = tuple[int, int, int, int]
Builder = Callable[[Tensor, Scores, torch.dtype], Tensor]
SLOPES = (0.5, 0.25, 0.125, 0.0625)


def added(seen: Tensor, of: Scores, dtype: torch.dtype, hides: float = -torch.inf) -> Tensor:
    return torch.where(seen, torch.zeros((), dtype=dtype), hides).to(dtype).expand(of)


def places(of: Scores) -> tuple[Tensor, Tensor]:
    return torch.arange(of[2])[:, None], torch.arange(of[3])[None]


def causal_window(there: Tensor, of: Scores, dtype: torch.dtype) -> Tensor:
    """Builds the mask as transformers' models do: from positions, and gathered."""
    batch, q, k = torch.arange(of[0])[:, None, None, None], torch.arange(of[2])[:, None], torch.arange(of[3])
    seen = q.new_ones((), dtype=torch.bool) & (k > q - 8) & (k <= q)
    return added(seen & there.to(torch.bool)[batch, k], of, dtype)


def window(there: Tensor, of: Scores, dtype: torch.dtype) -> Tensor:
    q, k = places(of)
    return added((q - k).abs() <= 5, of, dtype, torch.finfo(dtype).min)


def cached(there: Tensor, of: Scores, dtype: torch.dtype) -> Tensor:
    """Builds the mask of queries at the last positions."""
    q, k = places(of)
    return added(k <= q + (of[3] - of[2]), of, dtype)


def keys(there: Tensor, of: Scores, dtype: torch.dtype) -> Tensor:
    return added(~(there == 0)[:, None, None], of, dtype)


def lengths(there: Tensor, of: Scores, dtype: torch.dtype) -> Tensor:
    return added((torch.arange(of[3]) < there.sum(1)[:, None])[:, None, None], of, dtype)


def beyond(there: Tensor, of: Scores, dtype: torch.dtype) -> Tensor:
    """Selects keys past the lengths, for a mask that replaces zeros."""
    hidden = torch.arange(of[3]) >= there.sum(1)[:, None]
    return torch.zeros(of, dtype=dtype).masked_fill(hidden[:, None, None], -torch.inf)


def span(there: Tensor, of: Scores, dtype: torch.dtype) -> Tensor:
    k = torch.arange(of[3])
    return added((k > 0) & (k < 30), of, dtype)


def slopes(there: Tensor, of: Scores, dtype: torch.dtype) -> Tensor:
    q, k = places(of)
    return (torch.tensor(SLOPES[: of[1]])[:, None, None] * (k - q)).to(dtype).expand(of)


def causal_slopes(there: Tensor, of: Scores, dtype: torch.dtype) -> Tensor:
    q, k = places(of)
    return added(k <= q, of, dtype, torch.finfo(dtype).min) + (torch.tensor(SLOPES[: of[1]])[:, None, None] * k).to(dtype)


def lowest(there: Tensor, of: Scores, dtype: torch.dtype) -> Tensor:
    """Builds a mask in which a sequence without keys has the mean of all values, so that there are no bounds."""
    return added(there.to(torch.bool)[:, None, None], of, dtype, torch.finfo(dtype).min)


def scaled(there: Tensor, of: Scores, dtype: torch.dtype) -> Tensor:
    return ((1.0 - there[:, None, None].to(dtype)) * torch.finfo(dtype).min).expand(of)


def of_values(there: Tensor, of: Scores, dtype: torch.dtype) -> Tensor:
    """Hides keys by position, and rows by values: nothing is known below the diagonal."""
    q, k = places(of)
    return added((k <= q) & (there[:, None, : of[2], None] * there[:, None, None] > 0), of, dtype)


def two_stripes(there: Tensor, of: Scores, dtype: torch.dtype) -> Tensor:
    """Builds a mask that no flag can express."""
    q, k = places(of)
    return added((k - q) % 7 < 3, of, dtype)


MEANINGS: dict[Builder, str] = {
    causal_window: ": causal, window 8, keys", window: ": causal from +5, window 11", cached: ": causal", keys: ": keys",
    lengths: ": lengths", beyond: ": lengths", span: ": keys 1 to 30", slopes: ": slopes", causal_slopes: ": causal, slopes",
    lowest: "", scaled: "", of_values: ": causal, and more", two_stripes: "",
}  # fmt: skip
"""What is said of each, of as many queries as keys."""
