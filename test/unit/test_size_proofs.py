"""Tests how proofs about sizes are searched: not where values of the symbols refute what is to be proved."""

import random

import pytest

from lamina.core.sizes import Size, SizeLike, factors, maximum, minimum


def _drawn(rng: random.Random, depth: int) -> SizeLike:
    """Returns a random size of sums, products, quotients, remainders, minima and maxima."""
    if depth == 0:
        return rng.choice([rng.randrange(-9, 10), Size.of("a", 8), Size.of("b", 5, 0), Size.of("c", 3, 2, 64)])
    a, b = _drawn(rng, depth - 1), _drawn(rng, depth - 1)
    by = rng.randrange(1, 9)
    return rng.choice([a + b, a - b, a * b, a // by, a % by, minimum(a, b), maximum(a, b)])


@pytest.mark.parametrize("seed", range(200))
def test_nothing_that_can_be_proved_is_refuted(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    size = _drawn(random.Random(seed), 3)
    found = [factors._is_positive.__wrapped__(n, 2) for n in (size, 1 - size)]
    monkeypatch.setattr(factors, "_is_refuted", lambda size: False)
    factors._is_positive.cache_clear()
    assert [factors._is_positive.__wrapped__(n, 2) for n in (size, 1 - size)] == found
    factors._is_positive.cache_clear()


def test_sums_of_many_quotients_take_few_steps() -> None:
    """The pixels of a pyramid of images, as in the number of pairs of its boxes."""
    h, w = Size.of("h", 18), Size.of("w", 13)
    pixels = sum(((h + n - 1) // n) * ((w + n - 1) // n) for n in (2, 4, 8))
    before = factors._is_positive.cache_info().misses
    assert not pixels * pixels <= 0 and not -4 * pixels * pixels > 0
    with pytest.raises(factors.Undecided):
        assert pixels * pixels <= 64
    assert factors._is_positive.cache_info().misses - before < 20
