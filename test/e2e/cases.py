"""Small models that show one feature each, for tests that run them through every entry point."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from entry_points import Case
from test_branches import nested
from test_training import MODELS
from torch import Tensor, nn


def x(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, dtype=dtype)


def chain(a: Tensor) -> Tensor:
    return ((a + 1) * 2).relu().sub(0.5).sigmoid()


Draw = Callable[[], tuple[Any, ...]]
HALF, NAN, INF = torch.float16, float("nan"), float("inf")

FUNCTIONS: dict[str, tuple[Callable[..., Any], Draw]] = {
    "a chain": (chain, lambda: (x(5, 67),)),
    "two inputs": (lambda a, b: a * b + b.sum(0), lambda: (x(7, 13), x(7, 13))),
    "several outputs": (lambda a: (a + 1, a.sum(1), a.max()), lambda: (x(5, 9),)),
    "a list": (lambda a: [a * 2, a * 3], lambda: (x(5),)),
    "one in a tuple": (lambda a: (a * 2,), lambda: (x(5),)),
    "0-d": (lambda a, b: (a * b, a + 1, b.exp()), lambda: (x(), x(4))),
    "empty": (lambda a: (a * 2, a.sum(0), a.sum(), torch.cat([a, a])), lambda: (x(0, 3),)),
    "empty inside": (lambda a: (a.acos(), a.reshape(3, 0), a.transpose(0, 2) + 1), lambda: (x(1, 0, 3),)),
    "integers": (lambda a: (a // 3, a % 4, a + 2, a.float() / 2, a.sum(), a > 2), lambda: (torch.randint(-9, 9, (3, 6)),)),
    "int32": (lambda a: (a * a, a.sum(), a.max(1)), lambda: (torch.randperm(18).view(3, 6).int(),)),
    "booleans": (lambda a, b: (a & b, a | ~b, a.any(1), a.all(), a.sum(1)), lambda: (x(3, 5) > 0, x(3, 5) > 0)),
    "bytes": (lambda a: (a + 1, a.float() * 2, a > 3), lambda: (torch.randint(0, 256, (7,), dtype=torch.uint8),)),
    "bfloat16": (lambda a: F.gelu(a) * 2, lambda: (x(5, 33, dtype=torch.bfloat16),)),
    "float16": (lambda a: torch.softmax(a, -1), lambda: (x(5, 33, dtype=HALF),)),
    "float64": (lambda a: torch.softmax(a * 0.1, -1).log(), lambda: (x(5, 33, dtype=torch.float64),)),
    "not finite": (lambda a: (a.relu(), a.exp(), a.max(), a.clamp(-1, 1)), lambda: (torch.tensor([NAN, INF, -3.0])[torch.randperm(3)],)),
    "constants": (lambda a: a + torch.arange(5) + torch.tensor([1.0, 2, 3, 4, 5]), lambda: (x(3, 5),)),
    "views": (lambda a: a.view(2, 7, 3, 4).transpose(1, 2).reshape(2, 3, 28)[:, 1:, ::3] * 2, lambda: (x(2, 7, 12),)),
    "windows": (lambda a: (b := a.relu() + 1, b.unfold(1, 3, 2), a.unfold(-1, 2, 1)[1:], a.sin().unfold(0, 2, 1)), lambda: (x(5, 9),)),
    "embedding": (F.embedding, lambda: (torch.randint(0, 10, (2, 2)), x(10, 5))),
    "sort and topk": (lambda a: (a.sort(1), a.topk(3)), lambda: (x(4, 9),)),
    "matmul": (lambda a, b: a @ b + 1, lambda: (x(2, 5, 7), x(7, 3))),
    "convolution": (lambda a, w: F.conv2d(a, w, padding=1).relu(), lambda: (x(2, 3, 9, 8), x(4, 3, 3, 3))),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda: (x(2, 3, 7, 8), x(2, 3, 7, 8), x(2, 3, 7, 8)),
    ),
    "pooling": (lambda a: (F.max_pool2d(a, 3, 2, 1), F.avg_pool2d(a, 2), F.adaptive_avg_pool2d(a, 1)), lambda: (x(2, 3, 10, 8),)),
    "cumsum": (lambda a: a.cumsum(1), lambda: (x(3, 37),)),
    "extrema so far": (lambda a: (a.cummax(1), a.cummin(0)), lambda: (x(3, 37),)),
    "logcumsumexp": (lambda a: a.logcumsumexp(1), lambda: (x(3, 37),)),
    "index put": (lambda a, i: a.index_put((i,), torch.ones(2, 4)), lambda: (x(6, 4), torch.randperm(6)[:2])),
    "cross entropy": (F.cross_entropy, lambda: (x(7, 11), torch.randint(0, 11, (7,)))),
    "a call without a use": (lambda a: (torch.linalg.inv(a + 9 * torch.eye(3)), a + 1)[1], lambda: (x(3, 3),)),
    "no tensor in the result": (lambda a: None, lambda: (x(3),)),
    "numbers in the result": (lambda a: (a.shape[0], a + 1, None, "text"), lambda: (x(3),)),
    "numbers as arguments": (lambda a, n, p, q: a * n + p if q else a, lambda: (x(3, 5), 3, 0.25, True)),
    "a view of the last dimension": (lambda t: (t * 2 + 1, t.sum(-1), t.transpose(0, 1) + 1), lambda: (x(2, 3, 4, 5),)),
    "rows": (lambda a: (a.softmax(1), a.log_softmax(-1), F.layer_norm(a, a.shape[-1:], eps=0.1)), lambda: (x(2, 4, 6, 5),)),
    "group norm": (lambda a: F.group_norm(a, 2, eps=0.1), lambda: (x(2, 4, 6, 6),)),
    "norms of rows": (lambda a: (F.rms_norm(a, a.shape[-1:], eps=0.1), F.normalize(a, dim=1)), lambda: (x(2, 4, 6, 5),)),
    "masks": (lambda a, m: (a.masked_fill(m, 0.5), torch.where(m, a, 1.0)), lambda: (x(2, 3, 4, 5), x(2, 3, 4, 5) > 0)),
    "remainders": (lambda a, b: (torch.fmod(a, b.abs() + 1), torch.copysign(a, b)), lambda: (x(2, 3, 4, 5), x(2, 3, 4, 5))),
    "dropout of nothing": (lambda a: (F.dropout(a, 0.0), F.dropout(a, 0.5, False)), lambda: (x(2, 3, 4, 5),)),
    "losses": (lambda a, b: (F.huber_loss(a, b), F.leaky_relu(a, 0.2), F.threshold(b, 0.1, 0.5)), lambda: (x(5, 6), x(5, 6))),
    "a slice of a copy": (lambda a: a.clone().index_fill(0, torch.tensor([1]), 2.0), lambda: (x(4, 6, 3),)),
    "slices of a copy": (lambda a: _assigned(a.clone()), lambda: (x(4, 6, 3),)),
    "a function per sample": (
        lambda w, b, a: torch.vmap(lambda w, b, a: F.linear(a, w, b).tanh())(w, b, a),
        lambda: (x(3, 4, 5), x(3, 4), x(3, 6, 5)),
    ),
    "branches in a branch": (nested, lambda: (x(5, 5), x(5, 5))),
}  # fmt: skip


def _assigned(a: Tensor) -> Tensor:
    a[1:, ::2] = 0.5
    return a


COMPLEX: dict[str, tuple[Callable[..., Any], Draw]] = {
    "parts of products": (lambda z, w: (z * w).imag.sum(), lambda: (z(4, 3), z(4, 3))),
    "products of matrices": (lambda z, w: (z.mH @ w, z + w.conj()), lambda: (z(4, 3), z(4, 3))),
    "conjugates": (lambda z: (z.conj(), z * 2), lambda: (z(4, 3),)),
    "as numbers": (lambda z: (z.real, z.imag + 1, torch.view_as_real(z)), lambda: (z(4, 3),)),
    "rotated": (lambda a, f: torch.view_as_real(torch.view_as_complex(a) * f).flatten(-2), lambda: (x(4, 3, 2), z(4, 3))),
    "numbers": (lambda z: (z * (1 + 2j), torch.view_as_real(z * 2).sum(-1)), lambda: (z(4),)),
}  # fmt: skip


def z(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.complex64)


def _changed(a: Tensor, b: Tensor) -> Tensor:
    a.mul_(2).add_(b)
    return a * 3


def _changed_parts(a: Tensor) -> Tensor:
    a[1].zero_()
    a.t()[0] = 7.0
    return a.sum(0)


def _shared(a: Tensor) -> Any:
    b = a + 1
    return b, b.t(), b[0], b


def _views(b: Tensor) -> Any:
    return b, b[:, 1:2].expand(3, 4), b[1:], b.t()[1], b.view(2, 6)[:, ::2]


ALIASES: dict[str, tuple[Callable[..., Any], Draw]] = {
    "an input changed in place": (_changed, lambda: (x(3, 4), x(4))),
    "parts of an input changed in place": (_changed_parts, lambda: (x(3, 4),)),
    "the input": (lambda a: a, lambda: (x(3),)),
    "the changed input": (lambda a: a.add_(1), lambda: (x(3),)),
    "a transposed input": (lambda a, b: (a.t(), a + b), lambda: (x(3, 4), x(4))),
    "a part of an input": (lambda a, b: (a[1:], a + b), lambda: (x(3, 4), x(4))),
    "an expanded input": (lambda a, b: (a.unsqueeze(0).expand(5, 3, 4), a + b), lambda: (x(3, 4), x(4))),
    "an input in another dtype": (lambda a: (a.view(torch.int32), a + 1), lambda: (x(3, 4),)),
    "outputs that share memory": (_shared, lambda: (x(3, 4),)),
    "outputs that view one another": (lambda a: _views(a + 1), lambda: (x(3, 4),)),
    "outputs that view what is no output": (lambda a: _views(a + 1)[1:], lambda: (x(3, 4),)),
    "equal outputs": (lambda a: (a * 1, a + 0, a * 1, a.clone(), a.contiguous() + 0), lambda: (x(3, 4),)),
    "a detached input": (lambda a: (a.detach(), a.detach() * 2 + a), lambda: (x(3, 4),)),
    "three of the same": (lambda q, k, v: (q - 3 * k + v.sin(), k @ v.t()), lambda: (x(3, 4), x(3, 4), x(3, 4))),
}


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("total", torch.zeros(4))

    def forward(self, a: Tensor) -> Any:
        self.count += 1
        self.total.add_(a.detach().sum(0))
        return self.total * 2, self.count


class TwoNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(4, eps=0.1), nn.Linear(4, 4)
        self.again, self.tied = self.norm, self.linear

    def forward(self, a: Tensor) -> Tensor:
        return self.norm(a) * self.linear(a) + self.tied(self.again(a))


class Everything(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4, eps=0.1)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, a: Tensor, b: Tensor) -> Any:
        self.calls.add_(1)
        a.add_(1)
        z = self.norm(a.clone())
        w = z * 2
        return {"z": z, "rest": (a, w.t(), w, a.view(-1)), "n": 3, "none": None, "b": b + 1}


@dataclasses.dataclass
class Pair:
    left: Tensor
    right: Tensor


def trees(a: dict[str, Any], b: list[Any]) -> Any:
    return {"sum": a["x"] + b[0][1], "rest": (None, 7, [b[0][0] - 1])}


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(8 * 25, 10), nn.Softmax(-1)
    )


MODULES: dict[str, Callable[[], Case]] = {
    **{f"{name} model": lambda make=make: Case(make()[0].train(), lambda: make()[1]) for name, make in MODELS.items()},
    "buffers": lambda: Case(Counter(), lambda: (x(3, 4),)),
    "modules with two names": lambda: Case(TwoNames(), lambda: (x(4, 4),)),
    "batch norm": lambda: Case(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, momentum=0.3)), lambda: (x(4, 3, 7, 7),)),
    "everything": lambda: Case(Everything(), lambda: (x(5, 4), x(3)), layouts=False),
    "evaluation": lambda: Case(convolutional().eval(), lambda: (x(2, 3, 7, 7),)),
    "self-attention": lambda: Case(nn.MultiheadAttention(8, 2, batch_first=True), lambda: (x(2, 5, 8), x(2, 5, 8), x(2, 5, 8))),
}

CASES: dict[str, Callable[[], Case]] = {
    **{
        name: lambda fn=fn, draw=draw: Case(fn, draw)
        for name, (fn, draw) in {**FUNCTIONS, **{f"complex {name}": case for name, case in COMPLEX.items()}, **ALIASES}.items()
    },
    **MODULES,
    "trees": lambda: Case(trees, lambda: ({"x": x(3), "unused": None}, [(x(3), x(3)), 4])),
}
