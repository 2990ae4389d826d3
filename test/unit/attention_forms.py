"""Written-out forms of attention, and functions that only resemble it. q, k, v: (batch, heads, length, size), m: (batch, 1, 1, keys), which is
added to scores or, where it is negative, hides."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

B, H, L, D = 2, 3, 7, 4

Form = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def later(q: Tensor, k: Tensor) -> Tensor:
    return torch.arange(k.shape[-2])[None, :] > torch.arange(q.shape[-2])[:, None]


def plain(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), dim=-1) @ v


def bert(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    scores = torch.matmul(q, k.transpose(2, 3)) * q.shape[-1] ** -0.5 + m
    weights = F.dropout(F.softmax(scores, dim=-1), p=0.1, training=False)
    return torch.matmul(weights, v).transpose(1, 2).contiguous().view(B, q.shape[2], -1)


def llama(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    scores = torch.matmul(q, k.transpose(2, 3)) * 0.5
    scores = scores + torch.full((q.shape[2], k.shape[2]), torch.finfo(q.dtype).min, dtype=q.dtype).triu(1)[None, None]
    return torch.matmul(F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype), v).transpose(1, 2).reshape(B, -1, H * D)


def scaled_queries(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return ((q * 0.25) @ (0.5 * k).mT).softmax(-1).matmul(v)


def filled(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    scores = (q @ k.transpose(-2, -1)).div(2.0).masked_fill(later(q, k), -math.inf)
    return nn.Softmax(dim=3)(scores) @ v


def filled_from_inputs(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return (q @ k.mT).masked_fill(m < 0, -1e9).softmax(-1) @ v


def minus_infinity_from_inputs(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return (q @ k.mT).masked_fill(m < 0, -math.inf).softmax(-1) @ v


def chosen(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    scores = torch.where(~later(q, k), q @ k.mT, torch.full([], torch.finfo(q.dtype).min, dtype=q.dtype))
    return torch.softmax(scores, -1) @ v


def in_place(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    scores = q @ k.mT
    scores /= 2
    scores += m
    return scores.softmax(-1) @ v


def written_to(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    mask = torch.zeros(q.shape[2], k.shape[2], dtype=q.dtype)
    mask[:, 2:].fill_(-math.inf)
    return (q @ k.mT + mask).softmax(-1) @ v


def casts(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return (q @ k.mT).float().softmax(-1).type_as(v) @ v


def flat(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    q, k, v = (t.reshape(-1, *t.shape[2:]) for t in (q, k, v))
    scores = torch.bmm(q, k.transpose(1, 2)).view(B, H, -1, k.shape[1]) + m
    weights = F.softmax(scores.view(B * H, -1, k.shape[1]), dim=-1)
    return torch.bmm(weights, v).view(B, H, -1, D).transpose(1, 2).reshape(B, -1, H * D)


def three(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    q, k, v = (t.reshape(-1, *t.shape[2:]) for t in (q, k, v))
    scores = torch.baddbmm(torch.empty(1, 1, 1, dtype=q.dtype), q, k.transpose(1, 2), beta=0, alpha=0.5)
    return torch.bmm(F.softmax(scores.masked_fill(later(q, k)[None], torch.finfo(q.dtype).min), dim=-1), v)


def two(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    q, k, v = q[0, 0], k[0, 0], v[0, 0]
    return torch.softmax(q @ k.T / math.sqrt(q.shape[-1]), -1) @ v


def einsum(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return torch.einsum("bhqk,bhkd->bhqd", torch.softmax(torch.einsum("bhqd,bhkd->bhqk", q, k) * 0.5, -1), v)


def einsum_of_rows(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    scores = torch.einsum("blhd,bshd->bhls", q, k) + m
    return torch.einsum("bhls,bshd->blhd", scores.softmax(-1), v).reshape(B, -1, H * D)


def transposed_keys(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return (q @ k.transpose(-1, -2).contiguous() * 0.5).softmax(-1) @ v


def shared_keys(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return (q @ k[:, :1].mT).softmax(-1) @ v[:, :1]


def two_masks(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return (m + (q @ k.mT).masked_fill(later(q, k), torch.finfo(q.dtype).min)).softmax(-1) @ v


FORMS: dict[Form, str] = {
    plain: "", bert: "mask", llama: "causal", scaled_queries: "", filled: "causal", filled_from_inputs: "mask",
    minus_infinity_from_inputs: "mask", chosen: "causal", in_place: "mask", written_to: "mask", casts: "", flat: "mask",
    three: "causal", two: "", einsum: "", einsum_of_rows: "mask", transposed_keys: "", shared_keys: "", two_masks: "mask",
}  # fmt: skip


def returned(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
    weights = (q @ k.mT).softmax(-1)
    return weights @ v, weights


def scores_used(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    scores = q @ k.mT
    return scores.softmax(-1) @ v + scores.amax()


def other_dimension(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return (q @ k.mT).softmax(-2) @ v


def dropping(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return F.dropout((q @ k.mT).softmax(-1), 0.1, training=True) @ v


def learned_scale(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return (q @ k.mT * m.amax()).softmax(-1) @ v


def negative_scale(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return (q @ k.mT * -0.5).softmax(-1) @ v


def scaled_mask(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return ((q @ k.mT + m) * 0.5).softmax(-1) @ v


def weak_fill(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return (q @ k.mT).masked_fill(m < 0, -10.0).softmax(-1) @ v


def fill_that_swallows_nothing(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return (q @ k.mT).masked_fill(m < 0, -1e4).softmax(-1) @ v


def hidden_row(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return (q @ k.mT).masked_fill(torch.arange(L)[:, None] == 2, -1e4).softmax(-1) @ v


def capped(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return (torch.tanh(q @ k.mT / 50) * 50).softmax(-1) @ v


def other_size(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    """Computes attention with values of a size that the CPU's kernel does not take."""
    return (q @ k.mT).softmax(-1) @ torch.cat([v, v], -1)


def written_between(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    k = k + 1
    weights = (q @ k.mT).softmax(-1)
    k.mul_(2)
    return weights @ v + k


def five(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    scores = (q @ k.mT).view(1, B, H, L, L) + torch.zeros(1, B, 1, 1, 1)
    return scores.view(B, H, L, L).softmax(-1) @ v


def random_mask(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return (q @ k.mT).masked_fill(torch.rand(L, L) > 2, -1e5).softmax(-1) @ v


def narrowed(q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Tensor:
    return (q @ k.mT).bfloat16().softmax(-1).float() @ v


STAY: list[Callable[..., Any]] = [
    returned, scores_used, other_dimension, dropping, learned_scale, negative_scale, scaled_mask, weak_fill,
    fill_that_swallows_nothing, hidden_row, capped, other_size, written_between, five, random_mask, narrowed,
]  # fmt: skip


class Model(nn.Module):
    def __init__(self, form: Callable[..., Any]) -> None:
        super().__init__()
        self.form = form

    def forward(self, q: Tensor, k: Tensor, v: Tensor, m: Tensor) -> Any:
        return self.form(q, k, v, m)


def inputs(dtype: torch.dtype = torch.float32, rows: int = L, columns: int = L) -> tuple[Tensor, ...]:
    """The mask hides the last key of the second batch, where there is another. Queries are not contiguous."""
    mask = torch.zeros(B, 1, 1, columns, dtype=dtype)
    mask[1, ..., 1:][..., -1:] = torch.finfo(dtype).min
    q = torch.randn(B, rows, H, D).transpose(1, 2)
    return tuple(t.to(dtype) for t in (q, torch.randn(B, H, columns, D), torch.randn(B, H, columns, D), mask))
