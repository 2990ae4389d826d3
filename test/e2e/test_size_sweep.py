"""Compiles small models once each, calls them with 50 sizes, compares results and gradients with float64, and counts
compilations."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from sized_graphs import compilations, dynamic, precise_enough, x
from sized_images import Images
from torch import Tensor, nn

from lamina.core.program import Program

F = torch.nn.functional
__all__ = ["compilations"]


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 40), nn.Linear(40, 16)

    def forward(self, a: Tensor) -> Tensor:
        return a + self.down(F.gelu(self.up(self.norm(a))))


class NormSoftmax(nn.Module):
    def forward(self, a: Tensor) -> Tensor:
        scaled = a * torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (scaled + F.layer_norm(a, a.shape[1:])).softmax(-1)


class Recommender(nn.Module):
    """Sums embeddings of a user's items, and multiplies them with dense features."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.user, self.dense, self.top = nn.EmbeddingBag(50, 8), nn.Embedding(20, 8), nn.Linear(4, 8), nn.Linear(11, 1)

    def forward(self, seen: Tensor, user: Tensor, dense: Tensor) -> Tensor:
        parts = torch.stack([self.seen(seen), self.user(user), self.dense(dense).relu()], 1)
        pairs = (parts @ parts.mT)[:, [0, 0, 1], [1, 2, 2]]
        return self.top(torch.cat([parts[:, 2], pairs], 1)).sigmoid().squeeze(1)


class Decoder(nn.Module):
    """Returns the loss of a causal language model's next tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places, self.norm = nn.Embedding(50, 16), nn.Embedding(5000, 16), nn.LayerNorm(16)
        self.qkv, self.out, self.mlp = nn.Linear(16, 48), nn.Linear(16, 16), Mlp()

    def forward(self, tokens: Tensor) -> Tensor:
        b, n = tokens.shape
        a = self.tokens(tokens) + self.places(torch.arange(n, device=tokens.device))
        q, k, v = self.qkv(self.norm(a)).view(b, n, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        a = a + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, 16))
        logits = self.mlp(a) @ self.tokens.weight.T
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


NUMBERS = (
    *(11, 2, 3, 127, 128, 129, 1000, 4097, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 200, 255, 256, 257, 300, 383, 500),
    *(511, 512, 513, 640, 777, 1023, 1024, 1025, 1500, 2000, 2047, 2048, 3000, 4095, 4096),
)  # fmt: skip
OTHERS = (6, 13, 3, 5)


@dataclass(frozen=True)
class Case:
    """A model, its arguments for a batch and a length, and how often it is compiled for 50 of these.

    most      the largest batch and the largest length that the test can afford
    apart     sizes of 0 and 1, which Dynamo has compiled apart
    programs  how many graphs are compiled, those for 0 and 1 among them
    """

    model: Callable[[], nn.Module]
    make: Callable[[int, int], tuple[Tensor, ...]]
    most: tuple[int, int]
    apart: tuple[tuple[int, int], ...]
    programs: int
    train: bool = False

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Each number as the batch and as the length, where that is affordable, and what is compiled apart in between."""
        pairs = [(other, n) for n, other in zip(NUMBERS, OTHERS * len(NUMBERS), strict=False)]
        pairs += [(n, other) for other, n in pairs]
        shuffled = [pairs[i * 37 % len(pairs)] for i in range(len(pairs))]
        kept = [pair for pair in shuffled if pair[0] <= self.most[0] and pair[1] <= self.most[1]][: 50 - len(self.apart)]
        return [*kept[:10], *self.apart, *kept[10:]]


def ids(limit: int, *shape: int) -> Tensor:
    return torch.randint(limit, shape)


APART = (0, 7), (1, 9), (0, 12), (1, 300)
CASES = {
    "mlp": Case(Mlp, lambda b, n: (x(b, n, 16),), (4097, 4097), (*APART, (5, 1), (129, 1)), 4),
    "norm": Case(NormSoftmax, lambda b, n: (x(b, n),), (4097, 4097), (*APART, (5, 1), (129, 1)), 4),
    "encoder": Case(
        lambda: nn.TransformerEncoderLayer(16, 2, 32, activation=F.silu, batch_first=True, dropout=0.0),
        lambda b, n: (x(b, n, 16),), (129, 257), APART, 3,
    ),
    # torch asks whether a batch has 16 images, from which on oneDNN computes, and torch 2.11 whether a pool's image is even.
    "images": Case(Images, lambda b, n: (x(b, 3, 2 * n + 8, 2 * n + 10),), (513, 65), APART[:3], 4),
    "recommender": Case(Recommender, lambda b, n: (ids(50, b, n), ids(20, b), x(b, 4)), (4097, 129), APART, 6, train=True),
    "decoder": Case(Decoder, lambda b, n: (ids(50, b, n + 1),), (257, 257), (), 2, train=True),
}  # fmt: skip


def found(model: Callable[..., Tensor], parameters: list[Tensor], args: tuple[Tensor, ...], train: bool) -> list[Tensor]:
    """Returns what a model returns and, if it is trained, the gradients of its parameters."""
    if not train:
        with torch.no_grad():
            return [model(*args)]
    result = model(*args)
    return [result.detach(), *torch.autograd.grad(result.square().sum(), parameters)]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_50_sizes(case: Case, compilations: list[Program]) -> None:
    model = case.model().train(case.train)
    precise = copy.deepcopy(model).double()
    compiled = dynamic(model)
    assert len(case.sizes) == 50
    for sizes in case.sizes:
        args = case.make(*sizes)
        wide = tuple(a.double() if a.is_floating_point() else a for a in args)
        mine, theirs = (found(f, [*model.parameters()], args, case.train) for f in (compiled, model))
        for results in zip(mine, theirs, found(precise, [*precise.parameters()], wide, case.train), strict=True):
            precise_enough(*results, f"at {sizes}")
    assert len(compilations) == case.programs
