"""Tests core/binding/template.py, which evaluates data with symbolic sizes for given values."""

import random
from dataclasses import dataclass
from typing import Any

import pytest

from lamina.core.binding.template import Template
from lamina.core.sizes import Size, SizeLike, evaluate, maximum, minimum

S, T = Size.of("s0", 8), Size.of("s77", 128)


@dataclass(frozen=True)
class Part:
    """Some data."""

    size: SizeLike
    shape: tuple[SizeLike, ...]
    name: str = "part"
    inner: Any = None


def size() -> SizeLike:
    """A random size: a polynomial, quotients, remainders, bounds, or a number."""
    parts = [S, T, S * T, 3 * S + 2, (S * T) // 64, -(-T // 128), T % 8, minimum(S, 5), maximum(S, T - 3), 7, 0]
    return random.choice(parts) + random.choice([0, 0, 4, S])


def data(depth: int) -> Any:
    """Random data with sizes."""
    kind = random.randrange(5 if depth else 3)
    if kind == 0:
        return size()
    if kind == 1:
        return random.choice([None, 1, "text", 2.5, True])
    if kind == 2:
        return tuple(size() for _ in range(random.randrange(5)))
    if kind == 3:
        return tuple(data(depth - 1) for _ in range(random.randrange(5)))
    return Part(size(), (size(), 3), f"part {random.randrange(9)}", data(depth - 1))


def evaluated(x: Any, symbols: dict[str, int]) -> Any:
    """Evaluates the same data directly."""
    if isinstance(x, Size):
        return evaluate(x, symbols)
    if isinstance(x, tuple):
        return tuple(evaluated(part, symbols) for part in x)
    if isinstance(x, Part):
        return Part(evaluated(x.size, symbols), evaluated(x.shape, symbols), x.name, evaluated(x.inner, symbols))
    return x


@pytest.mark.parametrize("_", range(50))
def test_random_data(_: int) -> None:
    given = tuple(data(3) for _ in range(4))
    template = Template(given)
    for symbols in ({"s0": 2, "s77": 3}, {"s0": 127, "s77": 4097}, {"s0": 1000, "s77": 2}):
        assert template(symbols) == evaluated(given, symbols)


def test_what_is_one_object_stays_one() -> None:
    shared, plain = Part(S, (T,)), Part(3, (4,))
    first, second, same = Template(((shared, plain), shared, plain))({"s0": 2, "s77": 5})
    assert first[0] is second and first[1] is same is plain


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(KeyError, match="s77"):
        Template((S, T))({"s0": 2})
