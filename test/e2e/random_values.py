"""Values for random functions: inputs in the layouts that callers pass, and variables computed from them."""

import math
import random
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

SIZES = [1, 1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 257]


@dataclass
class Value:
    """A variable. exact: it involves no rounding, so that eager gives the same value in any precision."""

    name: str
    tensor: Tensor
    exact: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.tensor.shape)

    @property
    def floating(self) -> bool:
        return self.tensor.is_floating_point()

    @property
    def top(self) -> float:
        return float(self.tensor.abs().max()) if self.tensor.numel() and self.tensor.dtype is not torch.bool else 0.0


@dataclass
class Values:
    """The variables of a function. limit: the largest number of elements of a tensor; dtype: of floating inputs."""

    seed: int
    limit: int = 40000
    dtype: torch.dtype = torch.float32
    values: list[Value] = field(default_factory=list)
    inputs: dict[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.generator = torch.Generator().manual_seed(self.seed)

    def new_input(self, sizes: list[int]) -> None:
        r = self.random
        shape = [r.choice(sizes) for _ in range(r.choice([0, 1, 1, 2, 2, 2, 2, 3, 3, 4]))]
        while math.prod(shape) > self.limit:
            shape.pop(r.randrange(len(shape)))
        self.add_input(self.strided(shape))

    def strided(self, shape: list[int]) -> Tensor:
        """Returns normal numbers in one of the layouts that callers pass."""
        r, kind = self.random, self.random.randint(0, 9)
        if kind == 0 and len(shape) > 1:
            order = r.sample(range(len(shape)), len(shape))
            return self.normal([shape[d] for d in order]).permute([order.index(d) for d in range(len(shape))])
        if kind == 1 and shape:
            return self.normal([*shape[:-1], shape[-1] + 5])[..., 3 : 3 + shape[-1]]
        if kind == 2 and shape:
            return self.normal([*shape[:-1], 2 * shape[-1]])[..., ::2]
        if kind == 3 and shape:
            d = r.randrange(len(shape))
            return self.normal([1 if i == d else n for i, n in enumerate(shape)]).expand(shape)
        return self.normal(shape)

    def normal(self, shape: list[int]) -> Tensor:
        return torch.randn(shape, generator=self.generator).to(self.dtype)

    def add_input(self, tensor: Tensor) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = tensor
        self.values.insert(len(self.inputs) - 1, Value(name, tensor, True))
        return name

    def indices(self, shape: list[int], size: int) -> str:
        low = -size if self.random.random() < 0.3 else 0
        return self.add_input(torch.randint(low, size, shape, generator=self.generator))

    def some(self, **wants: Any) -> Value | None:
        """Returns a value, preferring newer ones. floating, exact: required properties; rank: the least."""
        fits = [
            v
            for v in self.values
            if ("floating" not in wants or v.floating == wants["floating"])
            and (not wants.get("exact") or v.exact)
            and len(v.shape) >= wants.get("rank", 0)
            and (not wants.get("filled") or v.tensor.numel())
        ]
        return self.random.choice(fits[-6:] if self.random.random() < 0.7 else fits) if fits else None

    def partner(self, v: Value) -> Value | None:
        """Returns a value that broadcasts with `v`."""
        fits = [u for u in self.values if u.floating == v.floating and broadcasts(u.shape, v.shape)]
        others = [u for u in fits if u is not v]
        return self.random.choice(others or fits) if fits else None

    def dims(self, v: Value) -> list[int]:
        some = self.random.sample(range(len(v.shape)), self.random.choice([1, 1, 1, 2, len(v.shape)]) if len(v.shape) > 1 else 1)
        return sorted(some)


def broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(x == y or x == 1 or y == 1 for x, y in zip(reversed(a), reversed(b), strict=False))
