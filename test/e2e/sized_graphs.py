"""Graphs for sweeps over sizes: each is compiled once, and called with many."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from entry_points import BACKEND, NO_CACHE
from torch import Tensor, nn
from watched import compiled_programs

from lamina.core.program import Program

F = torch.nn.functional
Make = Callable[[int, int], tuple[Any, ...]]
SIZES = ((6, 11), (2, 13), (33, 2), (3, 127), (128, 4), (5, 129), (7, 1000))
"""The first ones are the hints: no two symbols that a graph does not tie have one hint, nor a constant that it names."""
ONCE, TRAINED = 1, 2


@dataclass(frozen=True)
class Sized:
    """A function whose arguments' sizes follow from two numbers, and how often a sweep over SIZES compiles it.

    train  with gradients for its floating arguments: a forward and a backward program
    exact  eager of f64 is no more precise than the function itself: values are compared with eager's
    """

    function: Callable[..., Any]
    make: Make
    train: bool = False
    exact: bool = False
    compiled: int | None = None

    @property
    def programs(self) -> int:
        return self.compiled or (TRAINED if self.train else ONCE)


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Program]]:
    """Returns a list to which the program of each graph that is compiled is added."""
    torch._dynamo.reset()
    yield compiled_programs(monkeypatch)
    torch._dynamo.reset()


def dynamic(function: Callable[..., Any], *, strict: bool = False) -> Callable[..., Any]:
    compiled: Callable[..., Any] = torch.compile(function, backend=BACKEND, options=NO_CACHE | {"strict": strict}, dynamic=True)
    return compiled


def x(*shape: int) -> Tensor:
    return torch.randn(shape)


def vectors(b: int, n: int) -> tuple[Any, ...]:
    return (x(b, n),)


def rows(b: int, n: int) -> tuple[Any, ...]:
    return (x(b, n, 16),)


def two(b: int, n: int) -> tuple[Any, ...]:
    return x(b, n), x(b, n)


def heads(b: int, n: int) -> tuple[Any, ...]:
    return x(b, 2, n, 8), x(b, 2, n, 8), x(b, 2, n, 8)


torch.manual_seed(0)
LINEAR, UP, DOWN, QKV = nn.Linear(16, 32), nn.Linear(16, 64), nn.Linear(64, 16), nn.Linear(16, 48)
TABLE = nn.Embedding(10, 16)
ENCODER = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
WEIGHTS = nn.ModuleList([LINEAR, UP, DOWN, QKV, TABLE, ENCODER]).requires_grad_(False)
"""The modules of the graphs below; tests on a GPU move them there first."""


def mlp(a: Tensor) -> Tensor:
    return F.linear(F.gelu(F.linear(F.layer_norm(a, (16,)), UP.weight.to(a.dtype))), DOWN.weight.to(a.dtype)) + a


def attention(a: Tensor) -> Tensor:
    b, n, _ = a.shape
    q = a.view(b, n, 2, 8).transpose(1, 2)
    scores = (q @ q.transpose(-1, -2) / 8**0.5).softmax(-1)
    return (scores @ q).transpose(1, 2).reshape(b, n, 16)


def parts_of_a_projection(a: Tensor) -> Tensor:
    b, n, _ = a.shape
    q, k, v = F.linear(a, QKV.weight.to(a.dtype)).view(b, n, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, 16)


def blocks(a: Tensor) -> Tensor:
    """Computes attention within blocks of eight rows, to which rows are padded."""
    padded = F.pad(a, (0, 0, 0, -a.shape[1] % 8))
    taken = padded.view(a.shape[0], padded.shape[1] // 8, 8, a.shape[2])
    return (taken @ taken.transpose(-1, -2)).softmax(-1).flatten(1, 2)[:, : a.shape[1]] * 2


def long_convolution(a: Tensor, k: Tensor) -> Tensor:
    n = 2 * a.shape[1]
    return torch.fft.irfft(torch.fft.rfft(a, n=n) * torch.fft.rfft(k, n=n), n=n)[:, : a.shape[1]] * 2


def places(a: Tensor, dim: int) -> Tensor:
    return torch.arange(a.shape[dim], device=a.device)


def _every_third(a: Tensor) -> Tensor:
    a = a.clone()
    a[:, 1::3] = a[:, :1]
    a[::2, ::3] *= 2
    return a.exp()


GRAPHS: dict[str, Sized] = {
    "softmax": Sized(lambda a: a.softmax(-1), vectors),
    "log_softmax": Sized(lambda a: a.log_softmax(1), vectors),
    "layer_norm": Sized(lambda a: F.layer_norm(a, a.shape[1:]), vectors),
    "rms_norm": Sized(lambda a: a * torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + 1e-6), vectors),
    "standardized": Sized(lambda a: (a - a.mean(0)) / (a.std(0) + 1e-3), vectors),
    "sum_rows": Sized(lambda a: a.sum(1), vectors),
    "sum_columns": Sized(lambda a: a.sum(0), vectors),
    "sum_all": Sized(lambda a: a.sum(), vectors),
    "var": Sized(lambda a: a.var(1), vectors),
    "cumsum": Sized(lambda a: a.cumsum(1), vectors),
    "distances": Sized(lambda a: torch.cdist(a, a.sin(), p=1.0), rows),
    "distances_of_pairs": Sized(lambda a: torch.pdist(a, 3.0), vectors, compiled=2),
    "argmax": Sized(lambda a: a.argmax(1), vectors, exact=True),
    "amax_columns": Sized(lambda a: a.amax(0), vectors),
    "broadcast_row": Sized(lambda a, b: a + b, lambda b, n: (x(b, n), x(n))),
    "broadcast_column": Sized(lambda a, b: a + b, lambda b, n: (x(b, n), x(b, 1))),
    "outer": Sized(lambda a, b: a[:, None] * b[None, :], lambda b, n: (x(b), x(n))),
    "expand": Sized(lambda a, b: a.expand(b.shape[0], b.shape[1]).contiguous(), lambda b, n: (x(b, 1), x(b, n))),
    "view_flat": Sized(lambda a: a.reshape(-1, 16) * 2, rows),
    "view_whole": Sized(lambda a: a.view(-1) * 2, vectors),
    "view_heads": Sized(lambda a: a.view(a.shape[0], a.shape[1], 4, 4).transpose(1, 2).contiguous(), rows),
    # what relative positions are shifted by: no factors serve both shapes
    "view_shifted": Sized(lambda a: (a * 2).view(a.shape[1], a.shape[0])[1:].cos(), lambda b, n: (x(n, n + 1),)),
    # neighbors of each position: a pad's gradient cuts what was added; torch guards on there being two positions
    "shifted_and_joined": Sized(
        lambda a: (
            torch.cat([F.pad(a[:, 1:], [0, 0, 0, 1]), a, F.pad(a[:, :-1], [0, 0, 1, 0])], 2)
            @ LINEAR.weight.to(a.dtype).repeat(1, 3).T
        ),
        rows,
        train=True,
        compiled=4,
    ),
    # torch guards on there being one block, and on how many where their number is not told from their length
    "blocks_of_rows": Sized(blocks, rows, compiled=3),
    "blocks_of_a_size": Sized(
        lambda a, c: a.view(a.shape[0] // c.shape[0], c.shape[0], a.shape[1]).softmax(1), lambda b, n: (x(3 * b, n), x(b))
    ),
    "strided_turned": Sized(lambda a: (a * 2).as_strided(a.shape[::-1], a.stride()[::-1]).exp(), vectors),
    "strided_every_other": Sized(
        lambda a: (a * 2).as_strided((a.shape[0], a.shape[1] // 2), (a.shape[1], 2), 1).sin(), lambda b, n: (x(b, n + 2),)
    ),
    "transpose": Sized(lambda a: a.t().contiguous(), vectors),
    "transposed_sum": Sized(lambda a, b: a.t() + b, lambda b, n: (x(b, n), x(n, b))),
    "divided_by_sizes": Sized(
        lambda a: [f(a.argmax(), n) for n in (a.shape[1], a.numel()) for f in (torch.floor_divide, torch.remainder, torch.fmod)],
        vectors,
        exact=True,
    ),
    "slice_end": Sized(lambda a: a[:, :-1] * 2, lambda b, n: (x(b, n + 2),)),
    # torch guards whether a slice is empty.
    "slice_both": Sized(lambda a: a[:, 1:-1] * 2, vectors, compiled=2),
    "slice_both_flat": Sized(lambda a: a[:, 1:-1].exp().reshape(-1).sin(), vectors, compiled=2),
    "slice_half": Sized(lambda a: a[: a.shape[0] // 2] * 2, lambda b, n: (x(b + 3, n),)),
    # torch guards on there being more elements than a start counts from the end, and on a slice being one element
    "slice_last": Sized(lambda a: (a * 2)[:, -100:], vectors, compiled=2),
    "slice_last_step": Sized(lambda a: (a * 2)[:, -100::3], vectors, compiled=3),
    "slice_amid_last": Sized(lambda a: (a * 2)[:, -100:-1], vectors, compiled=3),
    "slice_step": Sized(lambda a: a[:, ::2] * 2, lambda b, n: (x(b, n + 2),)),
    "write_every_third": Sized(_every_third, lambda b, n: (x(b + 2, n + 8),)),
    "train_slice_step": Sized(lambda a: (a[:, ::2].sin(), a[1:, 1::3].cos()), lambda b, n: (x(b + 2, n + 4),), train=True),
    "slice_from_the_end": Sized(lambda a, b: a[:, -b.shape[0] :].sum(1), lambda b, n: (x(b, n + 130), x(b))),
    "differences": Sized(lambda a: a[:, 1:] - a[:, :-1], lambda b, n: (x(b, n + 2),)),
    "select": Sized(lambda a: a[0] * 2, vectors),
    "select_last": Sized(lambda a: a[:, -1] * 2, vectors),
    "chunk": Sized(lambda a: torch.mul(*a.chunk(2, -1)), rows),
    "cat_rows": Sized(lambda a, b: torch.cat([a, b]).sum(0), lambda b, n: (x(b, n), x(b + 3, n))),
    "cat_columns": Sized(lambda a, b: torch.cat([a, b], 1) * 2, lambda b, n: (x(b, n), x(b, n + 1))),
    "cat_types": Sized(lambda a: torch.cat([a, a > 0, (a * 9).int()], 1) * 2, vectors),
    "stack": Sized(lambda a, b: torch.stack([a, b], 1).amax(1), two),
    "pad": Sized(lambda a: F.pad(a, (1, 2)), vectors),
    "pad_negative": Sized(lambda a: F.pad(a, (-1, 2)), lambda b, n: (x(b, n + 1),)),
    "repeat": Sized(lambda a: a.repeat(2, 3), vectors),
    "flip": Sized(lambda a: a.flip(1), vectors),
    # torch's concatenation asks whether a part is one row, as it is for two rows.
    "roll": Sized(lambda a: a.roll(1, 0), vectors, compiled=2),
    "arange": Sized(lambda a: torch.arange(a.shape[1], device=a.device) + a, vectors),
    "full": Sized(lambda a: torch.full((a.shape[0],), a.shape[1], dtype=torch.float32, device=a.device) + 1, vectors, exact=True),
    "full_u8": Sized(lambda a: torch.full((a.shape[0],), 200, dtype=torch.uint8, device=a.device), vectors, exact=True),
    "diff_u8": Sized(lambda a: (a.abs() * 9).to(torch.uint8).diff(), lambda b, n: (x(b, n + 1),), exact=True),
    "rounded": Sized(lambda a: a.new_ones(math.ceil(a.shape[0] / 4) + 1, int(a.shape[1] / 3) + 2) * a.sum(), vectors),
    "size_over_number": Sized(lambda a: a * (1.0 / (a.shape[0] * 3 / 4)), vectors),
    "size_minus_tensor": Sized(lambda a: (a.shape[1] - a.abs(), 2 * a.shape[0] - 1 - places(a, 1)), vectors),
    # no argument has the size, which is an int beside numbers of the model
    "size_and_numbers": Sized(
        lambda a, k: (torch.ceil((a.shape[1] - k + 3) / 2 + 1).long() - 1, k * a.shape[0] >= 20, a.shape[1] // k),
        lambda b, n: (x(b, n), torch.tensor(7)),
        exact=True,
    ),
    "reflected": Sized(lambda a: F.pad(a, (3, 1), mode="reflect") * 2, lambda b, n: (x(b, n + 3),)),
    "tril": Sized(lambda a: a.tril(), vectors),
    "sizes_as_numbers": Sized(lambda a: (a * a.shape[0] / a.shape[1], a / a.shape[1] ** 0.5, a.shape[0] * 3), vectors),
    "masked": Sized(lambda a: a.masked_fill(places(a, 1)[None] > places(a, 0)[:, None], -1e9).softmax(-1), vectors),
    "embedding": Sized(lambda i: F.embedding(i, TABLE.weight), lambda b, n: (torch.randint(0, 10, (b, n)),), exact=True),
    "gather": Sized(lambda a, i: a.gather(1, i), lambda b, n: (x(b, n), torch.randint(0, n, (b, 5)))),
    "index": Sized(lambda a, i: a[i], lambda b, n: (x(b, n), torch.randint(0, b, (4, 9)))),
    "matmul": Sized(lambda a, b: (a @ b).relu(), lambda b, n: (x(b, n), x(n, 16))),
    "bmm": Sized(lambda a, b: a @ b, lambda b, n: (x(b, 5, n), x(b, n, 4))),
    "linear": Sized(lambda a: F.gelu(F.linear(F.layer_norm(a, (16,)), LINEAR.weight.to(a.dtype))), rows),
    "attention": Sized(attention, rows),
    "sdpa": Sized(F.scaled_dot_product_attention, heads),
    "sdpa_causal": Sized(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), heads),
    "sums_of_steps": Sized(lambda a: a[:, :, ::2].exp().mean(-1, keepdim=True).mean((1, 2)), lambda b, n: (x(b, 3, n + 2),)),
    "bf16": Sized(lambda a: (a.bfloat16() * 2).softmax(-1), vectors, exact=True),
    "train_mlp": Sized(mlp, rows, train=True),
    "train_layer_norm": Sized(lambda a: F.layer_norm(a, a.shape[1:]), lambda b, n: (x(b, n + 2),), train=True),
    "train_encoder": Sized(lambda a: ENCODER(a), rows, train=True, exact=True),
    "train_attention": Sized(attention, rows, train=True),
    "train_projection": Sized(parts_of_a_projection, rows, train=True),
    "train_cumprod": Sized(lambda a: (a / 2).cumprod(1), vectors, train=True),
    "train_cat": Sized(lambda a, b: torch.cat([a, b], 1).sin(), lambda b, n: (x(b, n), x(b, 5)), train=True),
    "train_long_convolution": Sized(long_convolution, lambda b, n: (x(b, n + 1), x(b, n + 1)), train=True),
    "train_mse": Sized(F.mse_loss, two, train=True),
}


def leaves(args: tuple[Any, ...], dtype: torch.dtype | None = None) -> list[Any]:
    """Copies the arguments, floating ones in another dtype."""
    return [a.to(dtype or a.dtype, copy=True) if a.is_floating_point() else a.clone() for a in args]


def observed(function: Callable[..., Any], args: list[Any], train: bool) -> list[Any]:
    """Returns what a function returns and, if it is trained, the gradients of its arguments."""
    for a in args:
        a.requires_grad_(train and a.is_floating_point())
    out = function(*args)
    results = [*out] if isinstance(out, tuple) else [out]
    if train:
        results[0].sin().sum().backward()
        return [results[0].detach(), *[a.grad for a in args]]
    return results


def sweep(graph: Sized, compiled: Callable[..., Any], device: str = "cpu", all_sizes: Sequence[tuple[int, int]] = SIZES) -> None:
    """Compares a compiled function with eager's and, unless the graph is `exact`, with f64, for all sizes."""
    for sizes in all_sizes:
        args = tuple(a.to(device) for a in graph.make(*sizes))
        got = observed(compiled, leaves(args), graph.train)
        eager = observed(graph.function, leaves(args), graph.train)
        precise = eager if graph.exact else observed(graph.function, leaves(args, torch.float64), graph.train)
        for mine, theirs, want in zip(got, eager, precise, strict=True):
            if not isinstance(theirs, Tensor):
                assert mine == theirs and type(mine) is type(theirs)
                continue
            assert same_strides(mine, theirs), f"strides at {sizes}"
            precise_enough(mine, theirs, want, f"at {sizes}")


def same_strides(mine: Tensor, theirs: Tensor) -> bool:
    """Returns whether tensors have equal strides where they have more than one element."""
    pairs = zip(theirs.shape, mine.stride(), theirs.stride(), strict=True)
    return theirs.numel() < 2 or all(n == 1 or a == b for n, a, b in pairs)


def precise_enough(mine: Tensor, theirs: Tensor, want: Tensor, told: str) -> None:
    """Compares a result and eager's with f64."""
    assert mine.shape == theirs.shape and mine.dtype == theirs.dtype, told
    if not mine.numel():
        return
    off = (mine.double() - want.double()).abs().max()
    of_eager = (theirs.double() - want.double()).abs().max()
    bound = 1e-2 if theirs.dtype == torch.bfloat16 else 3e-6
    assert off <= 4 * of_eager + bound * max(1, want.double().abs().max()), f"off by {off:.1e} {told}"
