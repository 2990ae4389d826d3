"""Tests launches with symbolic sizes that lamina-horizontal joins: in the simulators against float64, and as many as with fixed
sizes."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sized_programs import OPTIONS, compiled, launches
from torch import Tensor, nn
from watched import loaded_programs

from lamina.core.program import Launch, Program
from lamina.targets import registry

__all__ = ["launches"]
Make = Callable[[int, int], tuple[Tensor, ...]]


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """Returns a list to which each program that is loaded is added, bound to its sizes."""
    torch._dynamo.reset()
    return loaded_programs(monkeypatch)


def _route_to_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = registry.steps

    def routed(*target: Any, **options: Any) -> Any:
        steps = chosen(*target, **options)
        return dataclasses.replace(steps, launch=(*steps.launch, "lamina-route-to-triton"))

    monkeypatch.setattr(registry, "steps", routed)


def counted(program: Program) -> int:
    return sum(isinstance(step, Launch) for step in program.steps)


def vectors(*sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
    return tuple(torch.rand(s) + 0.5 for s in sizes)


def of_a_rest(a: Tensor, b: Tensor) -> list[Tensor]:
    rest = a[b.shape[0] :].exp()
    return [rest.t() @ rest, b.sin(), a.cos()]


# Rows of known length: those of symbolic length have kernels for ranges of it, which are not joined.
CASES: dict[str, tuple[Callable[..., list[Tensor]], Make]] = {
    "two symbols": (lambda a, b: [a.exp(), b.sqrt()], lambda m, n: vectors((m,), (n,))),
    "one kernel": (lambda *xs: [x.exp() for x in xs], lambda m, n: vectors(*[(m, n)] * 5)),
    "a known size first": (lambda a, b, c: [a.sqrt(), b.exp(), c.sin()], lambda m, n: vectors((m,), (1000,), (n, 3))),
    "a known grid": (lambda a, b: [a.view(-1, 4).sum(0), b.exp()], lambda m, n: vectors((16 * m,), (n,))),
    "no programs of one": (of_a_rest, lambda m, n: vectors((max(m, n), 4), (min(m, n), 9))),
    "many programs to a CTA": (
        lambda *xs: [*(x.view(-1, 10).softmax(-1) for x in xs), xs[0].cos()],
        lambda m, n: vectors(*[(10 * m,), (10 * n,)] * 2),
    ),
    "rows and columns": (lambda a, b: [a.sum(0), b.view(-1, 6).softmax(-1), a.t().exp()], lambda m, n: vectors((m, n), (6 * m,))),
    "the same memory": (lambda a, b: [a + 1, b.t() * a, a.cos()], lambda m, n: vectors((m, n), (n, m))),
}
SIZES = ((6, 11), (33, 7), (2, 140), (9, 9))
INTERPRETED = list(CASES)[:5]


@pytest.mark.filterwarnings("error")  # such as that it is compiled per size
@pytest.mark.parametrize(("name", "by_triton"), [*((n, False) for n in CASES), *((n, True) for n in INTERPRETED)])
def test_several_symbolic_kernels_are_one_launch(
    name: str, by_triton: bool, launches: list[Launch], programs: list[Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_triton:
        _route_to_triton(monkeypatch)
    fn, make = CASES[name]
    run = compiled(fn)
    for sizes in SIZES:
        inputs = make(*sizes)
        for mine, right in zip(run(*inputs), fn(*(x.double() for x in inputs)), strict=True):
            assert mine.shape == right.shape
            torch.testing.assert_close(mine.double(), right, rtol=3e-6, atol=3e-6)
    assert [counted(p) for p in programs] == [1] * len(SIZES)


def test_a_sum_of_rows_beside_another_order(launches: list[Launch], programs: list[Program]) -> None:
    """The sum is joined with the result in its order; the kernel of the other result is not joined with rows of symbolic length."""
    run = compiled(fn := lambda a, b: [a + 1, b.t() * a, a.sum(1)])
    for m, n in SIZES:
        inputs = vectors((m, n), (n, m))
        for mine, right in zip(run(*inputs), fn(*(x.double() for x in inputs)), strict=True):
            assert mine.stride() == right.stride()
            torch.testing.assert_close(mine.double(), right, rtol=3e-6, atol=3e-6)
    assert [counted(p) for p in programs] == [2] * len(SIZES)


WIDTH, HEADS, KV_HEADS = 64, 4, 2
SIZE = WIDTH // HEADS


class Layer(nn.Module):
    """A layer of a model shaped like Llama: grouped-query attention with rotary positions, and a gated network."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.key, self.value = (nn.Linear(WIDTH, KV_HEADS * SIZE, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        self.norms = nn.ModuleList([nn.RMSNorm(WIDTH) for _ in range(2)])

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], cache: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Any]:
        batch, new, _ = x.shape
        h = self.norms[0](x)
        query, key, value = (made(h).view(batch, new, -1, SIZE).transpose(1, 2) for made in (self.query, self.key, self.value))
        query, key = (rotated(t, *turn) for t in (query, key))
        if cache is not None:
            key, value = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=cache is None, enable_gqa=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, new, WIDTH))
        h = self.norms[1](x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h)), (key, value)


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    low, high = x.chunk(2, -1)
    return x * cosine + torch.cat((-high, low), -1) * sine


def turns(at: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    pairs = torch.arange(0, SIZE, 2, dtype=torch.float32)
    angles = (at[:, None].float() * 10000.0 ** (-pairs / SIZE)).repeat(1, 2)
    return angles.cos().to(dtype), angles.sin().to(dtype)


class Decoder(nn.Module):
    """Takes a token and caches, which grow by it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(2)])

    def forward(self, x: Tensor, cache: list[tuple[Tensor, Tensor]], at: Tensor) -> tuple[Tensor, list[Any]]:
        turn, kept = turns(at, x.dtype), []
        for layer, held in zip(self.layers, cache, strict=True):
            x, grown = layer(x, turn, held)
            kept.append(grown)
        return x, kept


class Trained(nn.Module):
    """Takes tokens and labels; returns a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(50, WIDTH), nn.Linear(WIDTH, 50, bias=False)
        self.layers, self.norm = nn.ModuleList([Layer()]), nn.RMSNorm(WIDTH)

    def forward(self, words: Tensor, labels: Tensor) -> Tensor:
        x, turn = self.words(words), turns(torch.arange(words.shape[1]), self.words.weight.dtype)
        for layer in self.layers:
            x, _ = layer(x, turn)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), labels.flatten())


class Encoder(nn.Module):
    """A layer of BERT on embeddings of words and positions."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, WIDTH), nn.Embedding(64, WIDTH)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, 0.0, batch_first=True)])

    def forward(self, words: Tensor) -> Tensor:
        x = self.words(words) + self.places(torch.arange(words.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return x


def decoded(length: int) -> tuple[Any, ...]:
    caches = [tuple(torch.randn(1, KV_HEADS, length, SIZE, dtype=torch.bfloat16) for _ in range(2)) for _ in range(2)]
    return torch.randn(1, 1, WIDTH, dtype=torch.bfloat16), caches, torch.tensor([length])


def words(length: int) -> Tensor:
    return torch.randint(50, (length // 8 + 3, length))


MODELS: dict[str, tuple[type[nn.Module], Callable[[int], tuple[Any, ...]], bool]] = {
    "decoder": (Decoder, decoded, False),
    "encoder": (Encoder, lambda length: (words(length),), False),
    "training": (Trained, lambda length: (words(length), words(length)), True),
}


@pytest.mark.filterwarnings("error:.*compiled:UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_no_more_launches_than_at_fixed_sizes(name: str, programs: list[Program]) -> None:
    make, inputs, train = MODELS[name]
    model = make().to(torch.bfloat16).train(train)

    def steps(dynamic: bool, *lengths: int) -> list[int]:
        programs.clear()
        torch._dynamo.reset()
        run = torch.compile(model, backend="lamina", dynamic=dynamic, options=OPTIONS)
        for length in lengths:
            with torch.set_grad_enabled(train):
                found = run(*inputs(length))
                if train:
                    found.backward()
        return [sum("attention" not in step.name for step in p.steps) for p in programs]  # cuDNN's takes known sizes alone

    static = steps(False, 23)
    symbolic = steps(True, 23, 45)
    if train:  # sums over symbolic sizes leave no rest, which those over sizes without a divisor do
        assert len(symbolic) == 2 * len(static) and all(n <= most for n, most in zip(symbolic, static * 2, strict=True))
    else:
        assert symbolic == static * 2
