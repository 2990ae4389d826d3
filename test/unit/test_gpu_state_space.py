"""Tests state-space models as chunked scans on a GPU: sums within chunks, decays between them, both as products and as sums of
products."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from gpu_programs import Simulated, distributed
from oracle import compare
from torch import Tensor

from lamina.core.options import Options

DTYPES = [torch.float32, torch.bfloat16]


def decays(a: Tensor) -> Tensor:
    """Returns exp of the sums from each step to each later one."""
    n = a.shape[-1]
    within = torch.tril(torch.ones(n, n, dtype=torch.bool))
    steps = a[..., None].expand(*a.shape, n).masked_fill(~within.tril(-1), 0)
    return torch.exp(steps.cumsum(-2).masked_fill(~within, -torch.inf))


def chunks(x: Tensor, length: int) -> Tensor:
    after = -x.shape[1] % length
    padded = F.pad(x, (0, 0) * (x.dim() - 2) + (0, after))
    return padded.reshape(x.shape[0], -1, length, *x.shape[2:])


def between(a: Tensor) -> Tensor:
    return decays(F.pad(a[..., -1], (1, 0)))


def by_sums(x: Tensor, a: Tensor, b: Tensor, c: Tensor, length: int) -> tuple[Tensor, Tensor]:
    x, a, b, c = (chunks(t, length) for t in (x, a, b, c))
    a = a.permute(0, 3, 1, 2)
    total = a.cumsum(-1)
    weights = (c[:, :, :, None] * b[:, :, None]).sum(-1)
    weights = (weights[..., None] * decays(a).permute(0, 2, 3, 4, 1)[..., None]).sum(-1)
    inside = (weights[..., None] * x[:, :, None]).sum(3)
    kept = b * torch.exp(total[..., -1:] - total).permute(0, 2, 3, 1)[..., None]
    states = (kept[..., None, :] * x[..., None]).sum(2)
    states = torch.cat([torch.zeros_like(states[:, :1]), states], 1)
    states = (between(total).transpose(1, 3)[..., None, None] * states[:, :, None]).sum(1)
    states, last = states[:, :-1], states[:, -1]
    across = (c[..., None, :] * states[:, :, None]).sum(-1) * torch.exp(total).permute(0, 2, 3, 1)[..., None]
    return (inside + across).flatten(1, 2), last


def by_products(x: Tensor, a: Tensor, b: Tensor, c: Tensor, length: int) -> tuple[Tensor, Tensor]:
    x, a, b, c = (chunks(t, length) for t in (x, a, b, c))
    a = a.permute(0, 3, 1, 2)
    total = a.cumsum(-1)
    inside = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", c, b, decays(a), x)
    states = torch.einsum("bclhn,bhcl,bclhp->bchpn", b, torch.exp(total[..., -1:] - total), x)
    states = torch.cat([torch.zeros_like(states[:, :1]), states], 1)
    states = torch.einsum("bhzc,bchpn->bzhpn", between(total), states)
    across = torch.einsum("bclhn,bchpn,bhcl->bclhp", c, states[:, :-1], torch.exp(total))
    return (inside + across).flatten(1, 2), states[:, -1]


def step_by_step(x: Tensor, a: Tensor, b: Tensor, c: Tensor, length: int) -> Tensor:
    state, out = torch.zeros_like(x[:, 0, :, :, None] * b[:, 0, :, None]), []
    for t in range(length):
        state = torch.exp(a[:, t])[..., None, None] * state + x[:, t, :, :, None] * b[:, t, :, None]
        out.append((state * c[:, t, :, None]).sum(-1))
    return torch.stack(out, 1)


SIZES = {
    "one short chunk": (1, 5, 24, 1, 4, 8),
    "one chunk": (1, 8, 24, 4, 2, 8),
    "steps": (2, 6, 3, 2, 1, 1),
    "several": (1, 19, 2, 5, 3, 7),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("form", "size"),
    [
        (by_sums, "one short chunk"),
        (by_sums, "several"),
        (by_products, "one chunk"),
        (by_products, "several"),
        (step_by_step, "steps"),
    ],
)
def test_values(form: Callable[..., Tensor], size: str, dtype: torch.dtype) -> None:
    batch, steps, heads, width, state, length = SIZES[size]
    x, b, c = (torch.randn(batch, steps, heads, n) for n in (width, state, state))
    a = -F.softplus(torch.randn(batch, steps, heads))
    inputs = [t.to(dtype) for t in (x, a, b, c)]

    def fn(*tensors: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        return form(*tensors, steps if form is step_by_step else length)

    compare(fn, inputs, Simulated(*distributed(fn, inputs, Options()))(*inputs), slack=2 if dtype is torch.bfloat16 else 4, ulps=8)
